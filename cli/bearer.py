"""The bearer token that commands send to a service."""

from __future__ import annotations

from settings.errors import InputError
from settings.variables import TOKEN_VARIABLE


def checked_token(text: str | None) -> str | None:
    """A bearer token that a header can carry; raises ``InputError``, which does not show it."""
    if text is None or (text.isascii() and text.isprintable()):
        return text
    raise InputError(
        TOKEN_VARIABLE, "a token with other characters", "a token is printable ASCII", "give the token alone"
    )
