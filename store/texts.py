"""Texts as both databases take them; must not know what they say."""

from __future__ import annotations


def takeable(text: str) -> str:
    """The same without a NUL, which PostgreSQL refuses, and without half of a character, which both do."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")
