"""The adapter to a switch of a running lab, over its HTTP control interface; imports only the watermark.

The lab is a fabric in another process: it may be slow, away, or a new one that runs something else by now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from switches.base import Capabilities, QueueWatermark, Reading, StagedChange
from switches.diff import queues_diff, watermark_diff
from switches.errors import ReadBackError, StageError, SwitchError, UnreachableError
from twin.errors import WatermarkError
from twin.watermark import Watermark

TIMEOUT_S = 2.0
_LONGEST_DETAIL = 300


class _Queue(msgspec.Struct, frozen=True):
    port: str
    queue: int
    kmin_bytes: int
    kmax_bytes: int
    pmax: float


class _Switch(msgspec.Struct, frozen=True):
    queues: list[_Queue]


class LabFabric:
    """Makes the adapters of one lab, which share its client. ``url`` is the lab's control interface."""

    def __init__(
        self, url: str, *, timeout_s: float = TIMEOUT_S, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        # No connection outlives its call: the next lab on that port is another process.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.Client(
            base_url=self.url, timeout=timeout_s, limits=limits, transport=transport, trust_env=False
        )

    def __call__(self, switch: str, running: Watermark | None, *, clock_ns: Callable[[], int]) -> LabAdapter:
        """The adapter of one switch; what the settings say it runs is not asked: the lab knows."""
        return LabAdapter(switch, self, clock_ns=clock_ns)

    def call(self, switch: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """One call about ``switch``; raises ``UnreachableError``, or ``SwitchError`` for an answer that is an
        error.
        """
        where = f"switch {switch!r} (lab at {self.url})"
        try:
            answer = self._client.request(method, path, json=body)
        except httpx.TimeoutException as error:
            raise UnreachableError(
                where,
                f"no answer within {self.timeout_s:g} s",
                "a lab answers on its control interface",
                "look whether it still runs, and wait until it does",
            ) from error
        except httpx.HTTPError as error:
            raise UnreachableError(
                where,
                f"no connection ({str(error) or type(error).__name__})",
                "a lab answers on its control interface",
                "start the lab there, or correct push.lab_url",
            ) from error
        if answer.is_success:
            return answer.content
        raise SwitchError(
            where,
            f"{answer.status_code} to {method} {path}: {_detail(answer)}",
            "the lab must know the switch and take the call",
            "look whether another lab, or something else, listens there",
        )


class LabAdapter:
    """One switch of a lab. ``clock_ns`` gives wall-clock nanoseconds since 1970."""

    def __init__(self, switch: str, lab: LabFabric, *, clock_ns: Callable[[], int]) -> None:
        self.switch = switch
        self._lab = lab
        self._clock_ns = clock_ns
        self._path = f"/switches/{quote(switch, safe='')}"
        self._staged: tuple[StagedChange, tuple[QueueWatermark, ...]] | None = None
        self._count = 0

    def capabilities(self) -> Capabilities:
        return Capabilities(kind="lab", writes=True)

    def read(self) -> Reading:
        answer = self._lab.call(self.switch, "GET", self._path)
        try:
            found = msgspec.json.decode(answer, type=_Switch)
            queues = tuple(
                QueueWatermark(one.port, one.queue, Watermark(one.kmin_bytes, one.kmax_bytes, one.pmax))
                for one in found.queues
            )
        except (ValueError, WatermarkError) as error:  # msgspec's own are ValueErrors
            raise SwitchError(
                f"switch {self.switch!r} (lab at {self._lab.url})",
                f"an answer that cannot be read ({error})",
                "a lab answers with the watermark of each queue",
                "look whether something else listens there",
            ) from error
        marks = {queue.watermark for queue in queues}
        return Reading(self.switch, marks.pop() if len(marks) == 1 else None, self._clock_ns(), queues)

    def stage(self, watermark: Watermark) -> StagedChange:
        running = self.read()
        differ = running.watermark is None
        diff = (
            queues_diff(self.switch, running.queues, watermark)
            if differ
            else watermark_diff(self.switch, running.watermark, watermark)
        )
        self._count += 1
        change = StagedChange(self._count, self.switch, running.watermark, watermark, diff)
        self._staged = (change, running.queues)
        return change

    def apply(self, change: StagedChange) -> None:
        self._before(change)
        self._set(change.after)

    def verify(self, change: StagedChange) -> Reading:
        found = self.read()
        if found.watermark != change.after:
            raise ReadBackError(
                f"switch {self.switch!r} (lab at {self._lab.url})",
                str(found.watermark) if found.watermark else "queues that differ",
                f"after applying, every queue must run {change.after}",
                "look whether somebody else sets this lab too",
            )
        return found

    def rollback(self, change: StagedChange) -> None:
        ports_by_mark: defaultdict[Watermark, list[str]] = defaultdict(list)
        for queue in self._before(change):
            ports_by_mark[queue.watermark].append(queue.port)
        for watermark, ports in ports_by_mark.items():
            self._set(watermark, None if len(ports_by_mark) == 1 else ports)

    def _set(self, watermark: Watermark, ports: list[str] | None = None) -> None:
        body: dict[str, Any] = {
            "kmin_bytes": watermark.kmin_bytes,
            "kmax_bytes": watermark.kmax_bytes,
            "pmax": watermark.pmax,
        }
        self._lab.call(
            self.switch,
            "PUT",
            f"{self._path}/watermark",
            body if ports is None else body | {"ports": ports},
        )

    def _before(self, change: StagedChange) -> tuple[QueueWatermark, ...]:
        """What ran when this change was staged."""
        if self._staged is None or change != self._staged[0]:
            raise StageError(
                f"switch {self.switch!r} (lab)",
                f"staged change {change.number}",
                "only the change staged last can be applied or undone",
                "stage it again",
            )
        return self._staged[1]


def _detail(answer: httpx.Response) -> str:
    """What an error answer says, shortened."""
    try:
        said = answer.json().get("detail")
    except (ValueError, AttributeError):
        said = None
    text = " ".join(str(said or answer.reason_phrase or "nothing more").split())
    return text if len(text) <= _LONGEST_DETAIL else text[:_LONGEST_DETAIL] + "…"
