"""What the service remembers: one database, its tables and their migrations, and what is written to them."""
