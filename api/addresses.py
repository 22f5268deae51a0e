"""URLs of servers, as settings and options give them; must import nothing of this package."""

from __future__ import annotations

from urllib.parse import urlsplit


def server_url(text: str) -> str:
    """``text``, if it is where a server is found; raises ``ValueError`` with the rule that it breaks."""
    rule = "it is the http or https URL of a server"
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise ValueError(rule) from None
    printable = text.isascii() and text.isprintable() and " " not in text
    if not printable or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(rule)
    if parts.query or parts.fragment:
        raise ValueError(f"{rule}, without ? and #")
    if parts.username or parts.password:
        raise ValueError(f"{rule}, without a user name or password")
    return text
