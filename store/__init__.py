"""The database: tables, migrations, and what is written to them."""
