"""``ecntwin ingest``: reports taken and decoded in processes of their own, and passed on to one service."""
