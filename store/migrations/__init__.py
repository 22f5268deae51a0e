"""Migrations of databases written by earlier versions; a released migration is never changed."""
