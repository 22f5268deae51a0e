"""Reads the fields of msgspec's types before threads share them; imports only msgspec.

msgspec (0.22) reads them when a type is first decoded to, and shows them to other threads half read: two that
decode to a new type at once end the process. Switches are asked by many threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

import msgspec

_ONE_AT_A_TIME = threading.Lock()


def read_all_fields() -> None:
    """Of every type there is by now; those of before take no time."""
    with _ONE_AT_A_TIME:
        for kind in _below(msgspec.Struct):
            _read_fields(kind)


@cache
def _read_fields(kind: type[msgspec.Struct]) -> None:
    with suppress(TypeError, NameError):  # one that is never decoded to, then
        msgspec.json.Decoder(kind)


def _below(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)
