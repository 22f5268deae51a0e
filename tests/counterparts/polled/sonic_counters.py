"""COUNTERS_DB of a SONiC switch: name maps, rows that grow, and what the switch says of its counting.

Written from sonic-swss ``orchagent/portsorch.cpp`` and ``flexcounterorch.cpp`` (e6b0c5b), apart from what
reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.counterparts.redis_server import RedisServer

_QUEUES = 8
_SUPPORTED = ("ECN_MARKED_PKT", "ECN_MARKED_BYTE", "WRED_DROPPED_PKT", "WRED_DROPPED_BYTE")
_ENABLED = ("PORT", "QUEUE", "PFCWD", "WRED_ECN_QUEUE", "WRED_ECN_PORT")


class CountersDb:
    """``databases`` are the numbers of CONFIG_DB, COUNTERS_DB and STATE_DB. Everything is counted, and 0."""

    def __init__(
        self,
        server: RedisServer,
        ports: Sequence[str] = ("Ethernet0", "Ethernet4"),
        *,
        databases: tuple[int, int, int] = (4, 2, 6),
    ) -> None:
        self._config, self._counters, self._state = (server.client(number) for number in databases)
        self._made = 0
        self.port_oids: dict[str, str] = {}
        self.queue_oids: dict[str, str] = {}
        for group in _ENABLED:
            self.group(group, "enable")
        for name in _SUPPORTED:
            self.support(f"WRED_ECN_QUEUE_{name}_COUNTER", True)
        self.begin(ports)

    def close(self) -> None:
        for client in (self._config, self._counters, self._state):
            client.close()

    def begin(self, ports: Sequence[str]) -> None:
        """As after a start of swss with these ports: other objects, and every count 0."""
        self._counters.flushdb()
        self.port_oids, self.queue_oids = {}, {}
        for port in ports:
            self.port_oids[port] = self._oid("1")
            for queue in range(_QUEUES):
                self.queue_oids[f"{port}:{queue}"] = self._oid("15")
            self._config.hset(f"PFC_WD|{port}", mapping={"action": "drop", "detection_time": "200"})
        if ports:
            self._counters.hset("COUNTERS_PORT_NAME_MAP", mapping=self.port_oids)
            self._counters.hset("COUNTERS_QUEUE_NAME_MAP", mapping=self.queue_oids)
        for port in ports:
            of_port = {f"SAI_PORT_STAT_PFC_{n}_{way}_PKTS": 0 for n in range(8) for way in ("RX", "TX")}
            of_port |= {f"SAI_PORT_STAT_PFC_{n}_RX_PAUSE_DURATION_US": 0 for n in range(8)}
            of_port |= {f"SAI_PORT_STAT_IF_OUT_{what}": 0 for what in ("DISCARDS", "OCTETS", "QLEN")}
            of_port |= {f"SAI_PORT_STAT_IF_OUT_{what}_PKTS": 0 for what in ("UCAST", "NON_UCAST")}
            of_port |= {"SAI_PORT_STAT_WRED_DROPPED_PACKETS": 0}
            self.set_row(port, **of_port)
            for queue in range(_QUEUES):
                of_queue = {f"SAI_QUEUE_STAT_{what}": 0 for what in ("PACKETS", "BYTES")}
                of_queue |= {f"SAI_QUEUE_STAT_DROPPED_{what}": 0 for what in ("PACKETS", "BYTES")}
                of_queue |= {f"SAI_QUEUE_STAT_WRED_ECN_MARKED_{what}": 0 for what in ("PACKETS", "BYTES")}
                of_queue |= {f"SAI_QUEUE_STAT_WRED_DROPPED_{what}": 0 for what in ("PACKETS", "BYTES")}
                self.set_row(f"{port}:{queue}", **of_queue)

    def grow(self, name: str, **more: int) -> None:
        """Adds to counters of a port (``Ethernet0``) or a queue (``Ethernet0:3``)."""
        for field, count in more.items():
            self._counters.hincrby(f"COUNTERS:{self._object(name)}", field, count)

    def set_row(self, name: str, **values: int | str) -> None:
        """Sets fields of its row."""
        self._counters.hset(f"COUNTERS:{self._object(name)}", mapping=values)

    def drop_fields(self, name: str, *fields: str) -> None:
        """Takes fields of its row away."""
        self._counters.hdel(f"COUNTERS:{self._object(name)}", *fields)

    def spoil(self, name: str) -> None:
        """Makes its row something that is no row."""
        self._counters.delete(f"COUNTERS:{self._object(name)}")
        self._counters.set(f"COUNTERS:{self._object(name)}", "nonsense")

    def group(self, name: str, status: str | None) -> None:
        """Turns a group of counters on or off, as counterpoll does; None: nobody ever did."""
        key = f"FLEX_COUNTER_TABLE|{name}"
        if status is None:
            self._config.delete(key)
        else:
            self._config.hset(key, "FLEX_COUNTER_STATUS", status)

    def support(self, key: str, supported: bool) -> None:
        """What STATE_DB says that the chip counts of queues."""
        self._state.hset(f"QUEUE_COUNTER_CAPABILITIES|{key}", "isSupported", str(supported).lower())

    def unwatch(self, port: str) -> None:
        """Its watchdog looks after that port no more; the row stays as it is."""
        self._config.delete(f"PFC_WD|{port}")

    def voqs(self, names: Sequence[str]) -> None:
        """Virtual output queues, such as ``lc1|asic0|Ethernet0:3``, as on a chassis."""
        for name in names:
            self.queue_oids[name] = self._oid("15")
            self._counters.hset("COUNTERS_VOQ_NAME_MAP", name, self.queue_oids[name])
            self.set_row(name, SAI_QUEUE_STAT_DROPPED_PACKETS=0, SAI_QUEUE_STAT_PACKETS=0)

    def time_ns(self) -> int:
        """What the switch's clock says."""
        seconds, microseconds = self._counters.time()
        return int(seconds) * 1_000_000_000 + int(microseconds) * 1_000

    def _object(self, name: str) -> str:
        return self.queue_oids[name] if ":" in name else self.port_oids[name]

    def _oid(self, kind: str) -> str:
        self._made += 1
        return f"oid:0x{kind}{self._made:014x}"
