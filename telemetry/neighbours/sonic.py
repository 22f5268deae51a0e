"""SONiC's rows to neighbours.

Sources: sonic-net/sonic-dbsyncd 0124733, ``src/lldp_syncd/daemon.py`` (fields of ``LLDP_ENTRY_TABLE`` and
``LLDP_LOC_CHASSIS`` in APPL_DB; one neighbour a port), and lldpmgrd of sonic-buildimage, which announces a
port by its alias of CONFIG_DB's ``PORT`` (``portidsubtype local``). ``speed`` is in Mbit/s.
"""

from __future__ import annotations

from collections.abc import Mapping

from telemetry.neighbours.model import Collected, SwitchNeighbours, mapping, shown, text

ENTRIES, CHASSIS, PORTS = "LLDP_ENTRY_TABLE", "LLDP_LOC_CHASSIS", "PORT"
"""Tables: the first two of APPL_DB, the last of CONFIG_DB."""

_MBPS_PER_GBPS = 1000

Rows = Mapping[str, object]


def sonic_neighbours(entries: Rows, chassis: object, ports: Rows) -> SwitchNeighbours:
    """From the rows of the three tables, by port; never raises."""
    found = Collected()
    own = mapping(chassis)
    found.own(own.get("lldp_loc_sys_name"), chassis=own.get("lldp_loc_chassis_id"))
    for port, row in sorted(ports.items()):
        if isinstance(row, Mapping):
            found.port(port, rate_gbps=_rate_gbps(found, port, row), aliases=(row.get("alias"),))
    for port, row in sorted(entries.items()):
        if not isinstance(row, Mapping):
            found.problem(f"{ENTRIES} {port}: received {shown(row)}; a row has fields; it was left out")
            continue
        found.neighbour(
            port,
            system=row.get("lldp_rem_sys_name"),
            chassis=row.get("lldp_rem_chassis_id"),
            port_id=row.get("lldp_rem_port_id"),
            port_description=row.get("lldp_rem_port_desc"),
        )
    return found.found()


def _rate_gbps(found: Collected, port: str, row: Mapping[str, object]) -> float | None:
    speed = row.get("speed")
    if speed is None:
        return None
    digits = text(speed)
    if digits is not None and digits.isascii() and digits.isdecimal() and int(digits) > 0:
        return int(digits) / _MBPS_PER_GBPS
    found.problem(f"{PORTS} {port} speed: received {shown(speed)}; it is in Mbit/s; it was left out")
    return None
