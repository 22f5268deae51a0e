"""How commands speak TLS to a service: whom they trust and what they show, by ``--ca`` or the environment."""

from __future__ import annotations

import os
import ssl
from contextvars import ContextVar
from pathlib import Path

from settings.errors import ApiError, InputError, SettingsError
from settings.trust import read_file, ssl_said, trusting
from settings.variables import CA_VARIABLE, CLIENT_CERTIFICATE_VARIABLE

_told: ContextVar[Path | None] = ContextVar("ca", default=None)


def trust_in_this_command(authority: Path | None) -> None:
    """Has the calls of this command trust that file's authorities; None: those of the environment."""
    _told.set(authority)


def client_context(url: str) -> ssl.SSLContext | bool:
    """What httpx checks the service at ``url`` against: ``--ca`` or ``ECNTWIN_CA``, and else the machine's
    own authorities (and ``SSL_CERT_FILE``). Raises ``InputError``.
    """
    if not url.startswith("https:"):
        return True
    named = os.environ.get(CA_VARIABLE)
    authority = _told.get() or (Path(named) if named else None)
    try:
        made = trusting(authority, f"--ca (or {CA_VARIABLE})")
        if shown := os.environ.get(CLIENT_CERTIFICATE_VARIABLE):
            _show(made, Path(shown))
    except SettingsError as error:
        raise _of_a_command(error) from error
    return made


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


def _of_a_command(error: ApiError) -> InputError:
    return InputError(error.where, error.received, error.rule, error.remedy)
