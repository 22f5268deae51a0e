"""How databases of earlier versions become ones of this; a migration that was released is never changed."""
