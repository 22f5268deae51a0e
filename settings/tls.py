"""Client TLS trust: a CA file or the system store; ``--ca`` and environment variables of commands."""

from __future__ import annotations

import os
import ssl
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from settings.errors import InputError, SettingsError
from settings.validation import CA_VARIABLE, CLIENT_CERTIFICATE_VARIABLE


def trusting(authority: Path | None, where: str) -> ssl.SSLContext:
    """A context that trusts that CA file, or the system store; raises ``SettingsError``, which calls the file
    ``where``.
    """
    if authority is None:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust(context, authority, where)
    return context


def trust(context: ssl.SSLContext, authority: Path, where: str) -> None:
    read_file(authority, where)
    try:
        context.load_verify_locations(authority)
    except ssl.SSLError as error:
        raise SettingsError(
            where, f"{authority} ({ssl_said(error)})", "it holds certificates in PEM", "correct the path"
        ) from error


def read_file(path: Path, where: str) -> bytes:
    """The bytes of a file; raises ``SettingsError``."""
    try:
        return path.read_bytes()
    except OSError as error:
        said = (error.strerror or type(error).__name__).lower()
        raise SettingsError(
            where, f"{path} ({said})", "the file can be read", "correct the path or its rights"
        ) from error


def ssl_said(error: Exception) -> str:
    """OpenSSL's reason as a phrase."""
    reason = getattr(error, "reason", None)
    return str(reason or error).replace("_", " ").lower()


_command_ca: ContextVar[Path | None] = ContextVar("ca", default=None)


def trust_in_this_command(authority: Path | None) -> None:
    """Sets the CA file of ``--ca``; None: that of the environment."""
    _command_ca.set(authority)


def client_context(url: str) -> ssl.SSLContext | bool:
    """httpx's ``verify`` for the service at ``url``: ``--ca`` or ``ECNTWIN_CA``, else the system store.
    Raises ``InputError``.
    """
    if not url.startswith("https:"):
        return True
    named = os.environ.get(CA_VARIABLE)
    authority = _command_ca.get() or (Path(named) if named else None)
    try:
        made = trusting(authority, f"--ca (or {CA_VARIABLE})")
        if shown := os.environ.get(CLIENT_CERTIFICATE_VARIABLE):
            _show(made, Path(shown))
    except SettingsError as error:
        raise InputError(error.where, error.received, error.rule, error.remedy) from error
    return made


def client_options(url: str, token: str | None, **headers: str) -> dict[str, Any]:
    """Arguments for an httpx client of the service at ``url``; raises ``InputError``."""
    bearer = {"Authorization": f"Bearer {token}"} if token else {}
    return {"headers": headers | bearer, "verify": client_context(url), "trust_env": False}


def _show(context: ssl.SSLContext, path: Path) -> None:
    read_file(path, CLIENT_CERTIFICATE_VARIABLE)
    try:
        context.load_cert_chain(path)
    except ssl.SSLError as error:
        raise SettingsError(
            CLIENT_CERTIFICATE_VARIABLE,
            f"{path} ({ssl_said(error)})",
            "it holds a certificate and its key in PEM",
            "put both into one file",
        ) from error
