"""Addresses of hosts, servers and databases, as settings and options give them; must import nothing of this
package.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

_DATABASE = re.compile(r"[a-z][a-z0-9_]*(\+[a-z0-9_]+)?://\S*")
_PASSWORD = re.compile(r"(?<=://)([^:/@]*):.*@|(?<=password=)([^&]*)")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


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


def database_url(text: str) -> str:
    """``text``, if it has the form of a database's URL; raises ``ValueError``, which does not repeat it."""
    if not _DATABASE.fullmatch(text):
        raise ValueError("it is the URL of a database, such as sqlite:///ecntwin.db")
    return text


def without_password(url: str) -> str:
    """A database's URL as it may be shown."""
    return _PASSWORD.sub(lambda found: "***" if found[1] is None else f"{found[1]}:***@", url)
