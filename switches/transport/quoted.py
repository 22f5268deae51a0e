"""Texts of switches in errors, without secrets; secrets in headers; msgspec types read before threads."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache

import msgspec

from switches.device import Device
from switches.errors import CredentialsError, InventoryError, one_line

_ONE_AT_A_TIME = threading.Lock()


def read_all_fields() -> None:
    """Reads the fields of every msgspec type so far; known ones take no time.

    msgspec (0.22) reads them when a type is first decoded to, and shows them to other threads half read: two
    that decode to a new type at once end the process. Switches are asked from many threads.
    """
    with _ONE_AT_A_TIME:
        for kind in _below(msgspec.Struct):
            _read_fields(kind)


@cache
def _read_fields(kind: type[msgspec.Struct]) -> None:
    with suppress(TypeError, NameError):  # nothing is ever decoded to such a type
        msgspec.json.Decoder(kind)


def _below(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


_LONGEST = 300


def quoted(device: Device, text: str) -> str:
    """As ``one_line``, shortened, without the device's secrets: as they are, escaped, or as HTTP carries
    them.
    """
    forms = set(_forms(device))
    for form in sorted({*forms, *map(one_line, forms)} - {""}, key=len, reverse=True):
        text = text.replace(form, "***")
    text = one_line(text)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def header_text(where: str, text: str) -> str:
    """A secret for a header; raises ``CredentialsError`` where a header cannot carry it.

    Libraries refuse such a header too, and repeat it in the error.
    """
    if not (text.isascii() and text.isprintable()) or text != text.strip():
        received = "a line's end, spaces around it, or characters outside printable ASCII"
        rule = "a header carries no others"
        raise CredentialsError(where, received, rule, "remove them, or choose another one on the switch")
    return text


def _forms(device: Device) -> Iterable[str]:
    for secret in device.secrets():
        yield secret
        yield repr(secret)[1:-1]
        yield json.dumps(secret)[1:-1]
    try:
        pair = f"{device.credential('username') or ''}:{device.credential('password') or ''}"
    except InventoryError:
        return
    if device.password is not None:
        yield base64.b64encode(pair.encode()).decode()
