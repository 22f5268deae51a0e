"""A SONiC switch without ports: a real redis-server, its databases, and a stand-in for orchagent.

``SonicSwitch(folder, ports=...)`` is one switch with a redis-server of its own. Given ``server`` and
``background`` it shares both, under database numbers of its own: so one process is hundreds of switches.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import redis.asyncio

from tests.counterparts.background import Background, ended
from tests.counterparts.redis_server import RedisServer
from tests.counterparts.switches.orchagent import BOUND, NULL, QUEUE, Faults, Orchagent
from twin.watermark import Watermark

AZURE = Watermark(1_048_576, 2_097_152, 0.05)
_QUEUES = 8
_TABLES = ("WRED_PROFILE", "QUEUE", "SWITCH_HASH")


def wred_row(watermark: Watermark, **fields: str) -> dict[str, str]:
    """A row of WRED_PROFILE as qos_config.j2 writes AZURE_LOSSLESS: all colours alike."""
    row = {"ecn": "ecn_all"}
    for colour in ("green", "yellow", "red"):
        row |= {
            f"wred_{colour}_enable": "true",
            f"{colour}_max_threshold": str(watermark.kmax_bytes),
            f"{colour}_min_threshold": str(watermark.kmin_bytes),
            f"{colour}_drop_probability": f"{watermark.pmax * 100:.0f}",
        }
    return row | fields


def qos_config(ports: Sequence[str], watermark: Watermark = AZURE) -> dict[str, dict[str, str]]:
    """CONFIG_DB as a usual switch starts with: AZURE_LOSSLESS on queues 3 and 4, and the tables around it."""
    rows = {
        "DEVICE_METADATA|localhost": {"hostname": "leaf1", "type": "ToRRouter"},
        "WRED_PROFILE|AZURE_LOSSLESS": wred_row(watermark),
        "SCHEDULER|scheduler.0": {"type": "DWRR", "weight": "14"},
        "SCHEDULER|scheduler.1": {"type": "DWRR", "weight": "15"},
        "DSCP_TO_TC_MAP|AZURE": {"3": "3", "4": "4", "46": "5", "48": "6"},
        "TC_TO_QUEUE_MAP|AZURE": {str(queue): str(queue) for queue in range(_QUEUES)},
        "BUFFER_POOL|ingress_lossless_pool": {"type": "ingress", "mode": "dynamic", "size": "10875072"},
        "BUFFER_PROFILE|egress_lossless_profile": {"pool": "egress_lossless_pool", "size": "0"},
    }
    for number, port in enumerate(ports):
        rows[f"PORT|{port}"] = {"lanes": str(number), "speed": "100000", "admin_status": "up"}
        rows[f"PORT_QOS_MAP|{port}"] = {
            "dscp_to_tc_map": "AZURE",
            "tc_to_queue_map": "AZURE",
            "pfc_enable": "3,4",
            "pfcwd_sw_enable": "3,4",
        }
        rows[f"BUFFER_QUEUE|{port}|3-4"] = {"profile": "egress_lossless_profile"}
        rows[f"PFC_WD|{port}"] = {"action": "drop", "detection_time": "200", "restoration_time": "200"}
        for queue in range(_QUEUES - 1):
            lossless = queue in (3, 4)
            rows[f"QUEUE|{port}|{queue}"] = {"scheduler": f"scheduler.{int(lossless)}"} | (
                {"wred_profile": "AZURE_LOSSLESS"} if lossless else {}
            )
    return rows


class SonicSwitch:
    """One switch, running ``watermark`` on queues 3 and 4 of ``ports``; its faults are in ``faults``.

    ``queue_map`` False: its queue counters are off, and COUNTERS_DB names no queue. ``databases`` are the
    numbers of CONFIG_DB, ASIC_DB and COUNTERS_DB, ``state_database`` that of STATE_DB. ``port`` is its
    redis'.
    """

    state_database = 6

    def __init__(
        self,
        folder: Path,
        *,
        ports: Sequence[str] = ("Ethernet0", "Ethernet4", "Ethernet8"),
        watermark: Watermark = AZURE,
        password: str | None = None,
        queue_map: bool = True,
        server: RedisServer | None = None,
        background: Background | None = None,
        databases: tuple[int, int, int] = (4, 1, 2),
    ) -> None:
        self.ports = tuple(ports)
        self.watermark = watermark
        self.queue_map = queue_map
        self._owns_server, self._owns_background = server is None, background is None
        self.server = server or RedisServer(folder, password=password)
        self.background = background or Background()
        self.databases = databases
        self._config, self._asic, self._counters = (self.server.client(number) for number in databases)
        self._asked = threading.Lock()
        self._marks = 0
        self._reached: dict[int, asyncio.Event] = {}
        self._task: asyncio.Task[None] | None = None
        self._following: list[redis.asyncio.Redis] = []
        self.reset()

    @property
    def port(self) -> int:
        """Of redis, on 127.0.0.1."""
        return self.server.port

    @property
    def faults(self) -> Faults:
        """How orchagent misbehaves; set them from the test."""
        return self._agent.faults

    def reset(self, rows: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Starts anew from ``rows`` (as ``qos_config``): no fault, no history."""
        self.background.run(self._stop())
        for client in (self._config, self._asic, self._counters):
            client.flushdb()
        queues = self._queues(rows)
        self._to_write: list[tuple[str, dict[str, str] | None]] = []
        self._agent = Orchagent(queues, lambda key, fields: self._to_write.append((key, fields)))
        self.set_config(rows if rows is not None else qos_config(self.ports, self.watermark))
        with self._asic.pipeline(transaction=False) as writing:
            for oid in queues.values():
                writing.hset(
                    QUEUE + oid, mapping={"SAI_QUEUE_ATTR_TYPE": "SAI_QUEUE_TYPE_UNICAST", BOUND: NULL}
                )
            writing.execute()
        if self.queue_map:
            for name, voq in (("COUNTERS_QUEUE_NAME_MAP", False), ("COUNTERS_VOQ_NAME_MAP", True)):
                named = {f"{at}:{queue}": oid for (at, queue), oid in queues.items() if ("|" in at) is voq}
                if named:
                    self._counters.hset(name, mapping=named)
        self.background.run(self._start())
        self.settle()
        self._agent.history.clear()

    def reboot(self, rows: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Kills its redis, and starts both anew from ``rows``, the configuration that was saved."""
        self.background.run(self._stop())
        self.server.restart()
        self.reset(rows)

    def hardware(self, queues: Sequence[int] = (3,)) -> dict[tuple[str, int], Watermark | None]:
        """What these queues of every port run, once all that was asked is done."""
        self.settle()
        return {
            (port, queue): self._agent.hardware(port, queue)
            for port, queue in sorted(self._agent.queues)
            if queue in queues
        }

    def history(self) -> list[tuple[int, int]]:
        """Every (Kmin, Kmax) that a queue has run since ``reset``."""
        self.settle()
        return list(self._agent.history)

    def log(self) -> list[str]:
        """What orchagent complained of since ``reset``."""
        self.settle()
        return list(self._agent.log)

    def config_db(self) -> dict[str, dict[str, str]]:
        """Every row of CONFIG_DB."""
        return _all(self._config)

    def asic_db(self) -> dict[str, dict[str, str]]:
        """Every row of ASIC_DB."""
        self.settle()
        return _all(self._asic)

    def set_config(self, rows: Mapping[str, Mapping[str, str]]) -> None:
        """Sets fields of CONFIG_DB, one HSET a row, as a person's command would."""
        with self._config.pipeline(transaction=False) as writing:
            for key, row in rows.items():
                writing.hset(key, mapping=dict(row))
            writing.execute()

    def remove_config(self, keys: Iterable[str]) -> None:
        """Removes rows of CONFIG_DB, as a port breakout does."""
        self._config.delete(*keys)
        self.settle()

    def settle(self, patience_s: float = 60.0) -> None:
        """Waits until orchagent has dealt with all that was set before."""
        with self._asked:
            self._marks += 1
            mark = self._marks
        self.background.run(self._until(mark), patience_s)

    def close(self) -> None:
        """Ends what it started."""
        self.background.run(self._stop())
        for client in (self._config, self._asic, self._counters):
            client.close()
        if self._owns_background:
            self.background.close()
        if self._owns_server:
            self.server.close()

    def _queues(self, rows: Mapping[str, Mapping[str, str]] | None) -> dict[tuple[str, int], str]:
        """The object of each queue: of the ports, and of a chassis' system ports in ``rows``."""
        ports = list(self.ports)
        ports += sorted(
            {key.split("|", 1)[1].rpartition("|")[0] for key in rows or () if key.count("|") == 4}
        )
        pairs = [(port, queue) for port in ports for queue in range(_QUEUES)]
        return {pair: f"oid:0x15{number:014x}" for number, pair in enumerate(pairs, 1)}

    async def _start(self) -> None:
        listening = asyncio.Event()
        self._following = [self._client(number) for number in self.databases[:2]]
        self._task = asyncio.create_task(self._follow(*self._following, listening))
        waiting = asyncio.create_task(listening.wait())
        await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            waiting.cancel()
            self._task.result()

    async def _stop(self) -> None:
        if self._task is not None:
            await ended(self._task)
            self._task = None
        for client in self._following:  # here nobody cancels that they are closed
            await client.aclose()
        self._following = []

    async def _until(self, mark: int) -> None:
        reached = self._reached[mark] = asyncio.Event()
        asking = self._client(self.databases[0])
        try:
            await asking.publish(self._channel, mark)
        finally:
            await asking.aclose()
        waiting = asyncio.create_task(reached.wait())
        following = {self._task} if self._task is not None else set()
        await asyncio.wait({waiting, *following}, return_when=asyncio.FIRST_COMPLETED)
        if not reached.is_set():
            waiting.cancel()
            if self._task is not None:
                self._task.result()
            raise RuntimeError("orchagent has ended")
        del self._reached[mark]

    @property
    def _channel(self) -> str:
        return f"settle:{self.databases[0]}"

    def _client(self, database: int) -> redis.asyncio.Redis:
        return redis.asyncio.Redis(
            unix_socket_path=str(self.server.socket),
            db=database,
            password=self.server.password,
            decode_responses=True,
            protocol=2,
        )

    async def _follow(
        self, config: redis.asyncio.Redis, asic: redis.asyncio.Redis, listening: asyncio.Event
    ) -> None:
        """Orchagent: rows as they are, then as they change, each read anew when its event is heard."""
        space = f"__keyspace@{self.databases[0]}__:"
        async with config.pubsub() as events:
            await events.psubscribe(*(f"{space}{table}|*" for table in _TABLES))
            await events.subscribe(self._channel)
            for table in _TABLES:
                for key in sorted([key async for key in config.scan_iter(match=f"{table}|*", count=1000)]):
                    await self._hear(config, key, "hset")
            await self._written(asic)
            listening.set()
            async for event in events.listen():
                if event["type"] == "message":
                    reached = self._reached.get(int(event["data"]))
                    if reached is not None:
                        reached.set()
                elif event["type"] == "pmessage" and not self.faults.ignoring:
                    if self.faults.lag_s:
                        await asyncio.sleep(self.faults.lag_s)
                    await self._hear(config, event["channel"].removeprefix(space), event["data"])
                    await self._written(asic)

    async def _hear(self, config: redis.asyncio.Redis, key: str, event: str) -> None:
        table, _, name = key.partition("|")
        row = None if event == "del" else await config.hgetall(key)
        if row or event == "del":
            self._agent.heard(table, name, row)

    async def _written(self, asic: redis.asyncio.Redis) -> None:
        writes, self._to_write[:] = list(self._to_write), []
        if not writes:
            return
        async with asic.pipeline(transaction=False) as writing:
            for key, fields in writes:
                if fields is None:
                    writing.delete(key)
                else:
                    writing.hset(key, mapping=fields)
            await writing.execute()


def _all(client: redis.Redis) -> dict[str, dict[str, str]]:
    keys = sorted(client.scan_iter(count=1000))
    with client.pipeline(transaction=False) as reading:
        for key in keys:
            reading.hgetall(key)
        return dict(zip(keys, reading.execute(), strict=True))
