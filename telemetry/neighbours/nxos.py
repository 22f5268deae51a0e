"""NX-OS's answers to neighbours.

Sources: public clients of NX-API that read ``show lldp neighbors detail`` (``TABLE_nbor_detail``,
``ROW_nbor_detail``: one row is no list; fields ``l_port_id``, in short form, ``chassis_id``, ``port_id``,
``port_desc``, ``sys_name``) and napalm's NX-OS driver (``show hostname``). ``speed`` of ``show interface
status`` is such as ``100G``, ``a-1000`` or ``auto``; a plain number is in Mbit/s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from telemetry.neighbours.model import Collected, SwitchNeighbours, mapping, rate_gbps, shown, text

COMMANDS = ("show lldp neighbors detail", "show interface status", "show hostname")
_SPEED = re.compile(r"(?:a-)?(?P<number>\d{1,9}(?:\.\d{1,3})?)(?P<unit>[GMT]?)(?:\(D\))?", re.ASCII)
_ABSENT = frozenset({"null", "not advertised", "n/a", "-"})


def nxos_neighbours(lldp: object, status: object, hostname: object) -> SwitchNeighbours:
    """From the answers to ``COMMANDS``; never raises."""
    found = Collected()
    found.own(mapping(hostname).get("hostname"))
    for row in _rows(found, status, "interface"):
        found.port(_long(row.get("interface")), rate_gbps=rate_gbps(row.get("speed"), _SPEED))
    for row in _rows(found, lldp, "nbor_detail"):
        found.neighbour(
            _long(row.get("l_port_id")),
            system=_said(row.get("sys_name")),
            chassis=_said(row.get("chassis_id")),
            port_id=_said(row.get("port_id")),
            port_description=_said(row.get("port_desc")),
        )
    return found.found()


def _rows(found: Collected, answer: object, name: str) -> Iterator[Mapping[str, Any]]:
    tables = mapping(answer).get(f"TABLE_{name}", [])
    for table in tables if isinstance(tables, list) else [tables]:
        rows = mapping(table).get(f"ROW_{name}", [])
        for row in rows if isinstance(rows, list) else [rows]:
            if isinstance(row, Mapping):
                yield row
            else:
                found.problem(f"ROW_{name}: received {shown(row)}; a row has fields; it was left out")


def _said(value: object) -> str | None:
    """What is there instead of a value that the sender left out is None."""
    known = text(value)
    return None if known is None or known.lower() in _ABSENT else known


def _long(port: object) -> object:
    return re.sub(r"^Eth(?=\d)", "Ethernet", port) if isinstance(port, str) else port
