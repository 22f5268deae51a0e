"""Databases for the tests of this folder."""

from tests.counterparts.databases import database_url, postgres

__all__ = ["database_url", "postgres"]
