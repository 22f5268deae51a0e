"""Lets kernels run uncompiled: numba reads columns of a record as attributes, numpy does not."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from twin.packet import _kernels, _sender, _switch
from twin.replay import model

PACKET_KERNELS = (
    (_kernels, "advance"),
    (_kernels, "set_starts"),
    (_sender, "settle_clocks"),
    (_switch, "fail"),
    (_switch, "restore"),
)


def records_as_attributes(bundle: Any) -> Any:
    """A bundle of arrays whose record arrays are views that know their columns as attributes."""
    return type(bundle)(
        *(
            value.view(np.recarray) if isinstance(value, np.ndarray) and value.dtype.names else value
            for value in bundle
        )
    )


class Rows:
    """A table whose rows become plain objects when first asked for: far faster than records."""

    def __init__(self, table: np.ndarray[Any, Any]) -> None:
        self.table = table
        self.size = table.size
        self.made: dict[Any, SimpleNamespace] = {}

    def __getitem__(self, at: Any) -> SimpleNamespace:
        found = self.made.get(at)
        if found is None:
            values = self.table[at].tolist()
            found = self.made[at] = SimpleNamespace(**dict(zip(self.table.dtype.names, values, strict=True)))
        return found

    def put_back(self) -> None:
        for at, row in self.made.items():
            self.table[at] = tuple(vars(row).values())


def plain(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of the packet engine that takes a state as the fabric keeps it."""

    def run(state: Any, *rest: Any) -> Any:
        tables = [
            Rows(value) if isinstance(value, np.ndarray) and value.dtype.names else value for value in state
        ]
        with np.errstate(over="ignore"):  # the draws multiply unsigned words, and mean to
            result = kernel(type(state)(*tables), *rest)
        for table in tables:
            if isinstance(table, Rows):
                table.put_back()
        return result

    return run


def run_uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hands the kernels such views and rows; only of use with ``NUMBA_DISABLE_JIT``."""
    kernel: Any = vars(model)["replay"]

    def replay(tables: Any, params: Any, *rest: Any) -> Any:
        return kernel(
            records_as_attributes(tables),
            params.view(np.recarray),
            *(records_as_attributes(one) if hasattr(one, "_fields") else one for one in rest),
        )

    monkeypatch.setattr(model, "replay", replay)
    for module, name in PACKET_KERNELS:
        monkeypatch.setattr(module, name, plain(getattr(module, name)))
