"""Whether rows of CONFIG_DB fit SONiC's YANG models, by libyang."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import oopt_gnpy_libyang as libyang

_WRITTEN_OUT = Path(__file__).resolve().parents[2] / "data" / "yang"
_LISTS = {
    "PORT": ("sonic-port", "name"),
    "SCHEDULER": ("sonic-scheduler", "name"),
    "WRED_PROFILE": ("sonic-wred-profile", "name"),
}


class SonicModels:
    """The models in the folder that ECNTWIN_SONIC_YANG names, else those written out for the tests."""

    def __init__(self) -> None:
        libyang.set_log_options(libyang.LogOptions.Store)
        folder = os.environ.get("ECNTWIN_SONIC_YANG", str(_WRITTEN_OUT))
        self._context = libyang.Context(
            folder, libyang.ContextOptions.DisableSearchCwd | libyang.ContextOptions.RefImplemented
        )
        for module in ("sonic-port", "sonic-scheduler", "sonic-wred-profile", "sonic-queue"):
            self._context.load_module(module)

    def violations(self, rows: Mapping[str, Mapping[str, str]]) -> list[str]:
        """What libyang says of these rows; none: they fit. Tables without a model here are left out."""
        self._context.clean_all_errors()
        try:
            self._context.parse_data(
                json.dumps(_document(rows)),
                libyang.DataFormat.JSON,
                libyang.ParseOptions.Strict,
                libyang.ValidationOptions.NoState,
            )
        except libyang.Error as error:
            return [found.message for found in self._context.errors()] or [str(error)]
        return []


def _document(rows: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for key, row in rows.items():
        table, _, name = key.partition("|")
        if table == "QUEUE":
            module, (port, _, queue) = "sonic-queue", name.rpartition("|")
            entry: dict[str, Any] = {"ifname": port, "qindex": queue}
        elif table in _LISTS:
            module, of = _LISTS[table]
            entry = {of: name}
        else:
            continue
        entry |= {field: _value(field, text) for field, text in row.items()}
        document.setdefault(f"{module}:{module}", {}).setdefault(table, {}).setdefault(
            f"{table}_LIST", []
        ).append(entry)
    return document


def _value(field: str, text: str) -> Any:
    """As JSON_IETF writes it: a uint64 is a string there, a smaller number and a boolean are not."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if field in ("speed", "weight") else text
