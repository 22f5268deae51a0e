"""SONiC's tables as the lossless configuration of ports.

Sources: sonic-buildimage's YANG models (sonic-port-qos-map, sonic-pfc-priority-queue-map, sonic-buffer-pg,
sonic-cable-length, sonic-scheduler) and sonic-net/sonic-swss e6b0c5b. Of the latter, ``doc/swss-schema.md``:
``dynamic_th`` is the exponent of alpha = 2 ^ n. ``cfgmgr/buffermgr.cpp``: a PFC priority has the priority
group of its number, and APPL_DB the buffers in force (where the switch computes them, CONFIG_DB has names
only). ``cfgmgr/buffer_headroom_mellanox.lua``: ``xoff`` is the headroom, and what ``size`` has beyond it is
reserved below the threshold; where the pool has an ``xoff``, a shared headroom, ``size`` does not include it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from switches.errors import CapabilityError
from switches.lossless import LosslessPort, LosslessPriority, dynamic_xoff_bytes
from switches.sonic.databases import FIELD, profile_named, queues_in
from switches.sonic.wred_profile import watermark_in
from twin.watermark import Watermark

Rows = Mapping[str, Mapping[str, str]]
Tables = Mapping[str, Rows]

BUFFERS = ("BUFFER_PG", "BUFFER_PROFILE", "BUFFER_POOL")
"""In CONFIG_DB; in APPL_DB with ``_TABLE`` behind the name, and a colon in keys."""
CONFIG = (
    *("PORT", "PORT_QOS_MAP", "DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "MAP_PFC_PRIORITY_TO_QUEUE"),
    *("QUEUE", "SCHEDULER", "WRED_PROFILE", "CABLE_LENGTH", *BUFFERS),
)
DEFAULT_MTU_BYTES = 9100  # cfgmgr/portmgr.h, as is that ports are down unless configured up


def sonic_ports(config: Tables, buffers: Tables, wants: Callable[[str], bool]) -> tuple[LosslessPort, ...]:
    """From the tables of CONFIG_DB, and those that APPL_DB has of ``BUFFERS`` (by the names there), each by
    key without its table. What is not in a usable form is not known.
    """
    found = _Found(config, {name: {**config.get(name, {}), **buffers.get(name, {})} for name in BUFFERS})
    return tuple(
        found.port(name, row)
        for name, row in sorted(config.get("PORT", {}).items())
        if wants(name) and row.get("admin_status") == "up"
    )


class _Found:
    def __init__(self, config: Tables, buffers: Tables) -> None:
        self._config = config
        self._buffers = buffers
        self._cables = {
            port: text for row in config.get("CABLE_LENGTH", {}).values() for port, text in row.items()
        }
        self._qos = {
            port.strip(): row
            for ports, row in config.get("PORT_QOS_MAP", {}).items()
            for port in ports.split(",")  # orchagent/qosorch.cpp: a row may be of several
        }
        self._groups = _by_place(buffers["BUFFER_PG"])
        self._queues = _by_place(config.get("QUEUE", {}))
        self._marks: dict[str, Watermark | None] = {}
        for name, row in config.get("WRED_PROFILE", {}).items():
            try:
                self._marks[name] = watermark_in(row, name)
            except CapabilityError:
                continue  # the adapter's own reading tells of it

    def port(self, name: str, row: Mapping[str, str]) -> LosslessPort:
        qos = {**self._qos.get("global", {}), **self._qos.get(name, {})}
        queue_of_tc = self._numbers("TC_TO_QUEUE_MAP", qos.get("tc_to_queue_map"))
        queue_of_priority = (
            self._numbers("MAP_PFC_PRIORITY_TO_QUEUE", qos.get("pfc_to_queue_map")) or queue_of_tc
        )
        dscps = self._numbers("DSCP_TO_TC_MAP", qos.get("dscp_to_tc_map"))
        enabled = sorted(
            {int(one) for one in qos.get("pfc_enable", "").split(",") if one.strip().isdecimal()}
        )
        queues = {number: queue for (port, number), queue in self._queues.items() if port == name}
        schedulers = {
            number: self._named("SCHEDULER", queue.get("scheduler")) for number, queue in queues.items()
        }
        speed_mbit = _number(row.get("speed"))
        return LosslessPort(
            port=name,
            priorities=tuple(self._priority(name, one, queue_of_priority.get(one)) for one in enabled),
            watermarks=self._watermarks(queues),
            strict={number: one["type"] == "STRICT" for number, one in schedulers.items() if "type" in one},
            queue_of_dscp={dscp: queue_of_tc[tc] for dscp, tc in dscps.items() if tc in queue_of_tc},
            rate_gbps=None if speed_mbit is None else speed_mbit / 1000,
            mtu_bytes=_number(row.get("mtu", str(DEFAULT_MTU_BYTES))),
            cable_m=_number(self._cables.get(name, "").removesuffix("m")),
        )

    def _priority(self, port: str, priority: int, queue: int | None) -> LosslessPriority:
        profile = self._buffer("BUFFER_PROFILE", self._groups.get((port, priority), {}).get("profile"))
        pool = self._buffer("BUFFER_POOL", profile.get("pool"))
        pool_bytes, headroom_bytes = _number(pool.get("size")), _number(profile.get("xoff"))
        own_headroom_bytes = 0 if _number(pool.get("xoff")) else headroom_bytes or 0
        reserved_bytes = max((_number(profile.get("size")) or 0) - own_headroom_bytes, 0)
        fixed_bytes, alpha, xoff_bytes = _number(profile.get("static_th")), None, None
        if fixed_bytes is not None:
            xoff_bytes = fixed_bytes + reserved_bytes
        elif (exponent := _signed(profile.get("dynamic_th"))) is not None:
            alpha = 2.0**exponent
            if pool_bytes is not None:
                xoff_bytes = dynamic_xoff_bytes(alpha, pool_bytes, reserved_bytes)
        return LosslessPriority(
            priority=priority,
            queue=queue,
            xoff_bytes=xoff_bytes,
            alpha=alpha,
            pool_bytes=pool_bytes,
            headroom_bytes=headroom_bytes,
        )

    def _watermarks(self, queues: Mapping[int, Mapping[str, str]]) -> dict[int, Watermark | None]:
        """By queue; one without a row does not mark, but on a chassis, whose rows name system ports."""
        of_chassis = any("|" in port for port, _ in self._queues)
        found: dict[int, Watermark | None] = {} if of_chassis else dict.fromkeys(range(8))
        for number, row in queues.items():
            name = profile_named(row.get(FIELD))
            if name is not None and name not in self._marks:
                found.pop(number, None)
            else:
                found[number] = None if name is None else self._marks[name]
        return found

    def _named(self, table: str, reference: str | None) -> Mapping[str, str]:
        return self._config.get(table, {}).get(_name(reference), {})

    def _numbers(self, table: str, reference: str | None) -> dict[int, int]:
        row = self._named(table, reference)
        return {int(key): int(value) for key, value in row.items() if key.isdecimal() and value.isdecimal()}

    def _buffer(self, table: str, reference: str | None) -> Mapping[str, str]:
        return self._buffers[table].get(_name(reference), {})


def _by_place(rows: Rows) -> dict[tuple[str, int], Mapping[str, str]]:
    """Rows by port and queue, or priority group."""
    return {place: row for key, row in rows.items() for place in queues_in(key)}


def _name(reference: str | None) -> str:
    """The key in a reference, also in the form of images before 2022: ``[BUFFER_PROFILE|name]``."""
    return (reference or "").strip("[]").replace(":", "|").rpartition("|")[2]


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None


def _signed(text: str | None) -> int | None:
    magnitude = _number(None if text is None else text.removeprefix("-"))
    return magnitude if magnitude is None or text is None or text[0] != "-" else -magnitude
