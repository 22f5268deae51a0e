"""Whose word is taken for a certificate: the machine's authorities, or those of a file; loads no more than it
must, for commands that only ask.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from settings.errors import SettingsError


def trusting(authority: Path | None, where: str) -> ssl.SSLContext:
    """What a client checks a server against: that file's authorities, or the machine's; raises
    ``SettingsError``, which calls the file ``where``.
    """
    if authority is None:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust(context, authority, where)
    return context


def trust(context: ssl.SSLContext, authority: Path, where: str) -> None:
    """Has ``context`` take that file's word; raises ``SettingsError``."""
    read_file(authority, where)
    try:
        context.load_verify_locations(authority)
    except ssl.SSLError as error:
        raise SettingsError(
            where, f"{authority} ({ssl_said(error)})", "it holds certificates in PEM", "correct the path"
        ) from error


def read_file(path: Path, where: str) -> bytes:
    """What is in it; raises ``SettingsError``."""
    try:
        return path.read_bytes()
    except OSError as error:
        said = (error.strerror or type(error).__name__).lower()
        raise SettingsError(
            where, f"{path} ({said})", "the file can be read", "correct the path or its rights"
        ) from error


def ssl_said(error: Exception) -> str:
    """OpenSSL's reason, in words."""
    reason = getattr(error, "reason", None)
    return str(reason or error).replace("_", " ").lower()
