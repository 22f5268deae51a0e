"""A round as it is kept, what was decided about it, and both as one document; must not keep any.

The newest rounds and what was decided about them, in bounded memory; must not know how one is run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol, Self

from service.documents.base import timestamp
from service.documents.predictions import PredictionDocument, WatermarkDocument
from service.documents.recommendation import (
    Decision,
    PushedDocument,
    RecommendationDocument,
    RoundDocument,
    round_fields,
)
from service.documents.telemetry import by_label
from service.tuning.gate import NOTHING_STAGED, Cleared
from service.tuning.round import RoundResult
from settings.errors import ConflictError, NotFoundError
from switches.rollout.state import Phase, Progress, RolloutState
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True)
class KeptRound:
    """What a round said, and what a rollout of it needs to know: the switches it is about, which of them all
    have hosts on them, and how much time its window spans. None of it ever changes.
    """

    said: RoundDocument
    switches: tuple[str, ...]
    leaves: tuple[str, ...]
    window_s: float

    @classmethod
    def of(cls, result: RoundResult, wall_s: float) -> Self:
        """A round that has just ended, after ``wall_s`` seconds."""
        fields = round_fields(
            result.recommendation,
            flows=by_label(result.state.flows_by_class),
            measured_queue_bytes=result.measured_queue_bytes,
            left_out=result.left_out,
            wall_s=wall_s,
        )
        return cls(RoundDocument(**fields), result.switches, result.leaves, result.window_s)

    @property
    def watermark(self) -> Watermark:
        """The one it recommends."""
        return watermark_of(self.said.recommendation)

    @property
    def queue_ratio(self) -> float | None:
        """The mean queue predicted for it over the one predicted for the incumbent; None: not known."""
        new, old = self.said.recommendation.queue_mean_bytes, self.said.incumbent.queue_mean_bytes
        return new / old if new is not None and old else None


@dataclass(frozen=True, slots=True)
class Pushed:
    """A rollout by its id, and what it has done so far."""

    rollout: str
    switches: tuple[PushedDocument, ...] = ()

    @classmethod
    def of(cls, rollout: RolloutState) -> Self:
        """The switches that were read to run the change."""
        return cls(
            rollout.plan.id,
            tuple(
                PushedDocument(
                    switch=name,
                    writes=name in rollout.plan.written,
                    diff=one.change.diff,
                    read_back=None if one.runs is None else WatermarkDocument.of(one.runs),
                )
                for name, one in rollout.switches.items()
                if one.change is not None and one.progress in (Progress.VERIFIED, Progress.SET)
            ),
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """A round and its decision.

    ``staged`` is what an approval sets, ``holds`` why nothing may be written to a device yet, in sentences;
    ``pushed`` is how far the rollout of an approval is. ``caution`` is what keeps policy, and no person, from
    approving it.
    """

    id: str
    created_ns: int
    kept: KeptRound
    status: Decision
    staged: Watermark | None = None
    holds: tuple[str, ...] = ()
    decided_by: str | None = None
    decided_ns: int | None = None
    pushed: Pushed | None = None
    caution: str | None = None

    def document(self, *, candidates: bool = True, trajectories: bool = True) -> RecommendationDocument:
        """The entry as the service answers it; without ``candidates`` also without trajectories."""
        said = _fields(self.kept.said)
        if not candidates:
            said["candidates"] = []
        if not (candidates and trajectories):
            said["trajectories"] = None
        return RecommendationDocument(
            **said,
            id=self.id,
            created=timestamp(self.created_ns),
            status=self.status,
            decided_by=self.decided_by,
            decided_at=None if self.decided_ns is None else timestamp(self.decided_ns),
            staged=None if self.staged is None else WatermarkDocument.of(self.staged),
            switches=list(self.kept.switches),
            holds=list(self.holds),
            caution=self.caution,
            rollout=None if self.pushed is None else self.pushed.rollout,
            pushed=[] if self.pushed is None else list(self.pushed.switches),
        )


def watermark_of(document: WatermarkDocument | PredictionDocument) -> Watermark:
    """The watermark of a document."""
    return Watermark(document.kmin_bytes, document.kmax_bytes, document.pmax)


def _fields(said: RoundDocument) -> dict[str, Any]:
    return {name: getattr(said, name) for name in RoundDocument.model_fields}


PENDING_FOR_NS = 3_600 * 1_000_000_000  # what waited longer than this over a restart was for another network


class Keeper(Protocol):
    """Who keeps rounds for longer than memory does."""

    def save(self, entry: Entry) -> None:
        """Keeps a new round."""
        ...

    def stand(self, entry: Entry) -> None:
        """Keeps what was decided about one."""
        ...

    def remove(self, entry_id: str) -> None:
        """Forgets one."""
        ...


class NoKeeper:
    """Keeps nothing."""

    def save(self, entry: Entry) -> None:
        """See ``Keeper``."""

    def stand(self, entry: Entry) -> None:
        """See ``Keeper``."""

    def remove(self, entry_id: str) -> None:
        """See ``Keeper``."""


class RecommendationStore:
    """At most ``keep`` rounds; the oldest go first. ``clock_ns`` is wall-clock nanoseconds since 1970."""

    def __init__(self, keep: int, *, clock_ns: Callable[[], int], keeper: Keeper | None = None) -> None:
        self._keep = keep
        self._clock_ns = clock_ns
        self._keeper = keeper or NoKeeper()
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, result: RoundResult, wall_s: float, cleared: Cleared = NOTHING_STAGED) -> Entry:
        """Keeps a round. One that recommends a change supersedes those still pending.

        Of rounds in a row that recommend no change only the newest is kept: they say the same.
        """
        created_ns = self._clock_ns()
        self._count += 1
        stamp = datetime.fromtimestamp(created_ns / 1e9, UTC).strftime("%Y%m%dT%H%M%S")
        changes = result.recommendation.changes
        status: Decision = "pending" if changes else "kept"
        kept = KeptRound.of(result, wall_s)
        entry = Entry(f"{stamp}-{self._count}", created_ns, kept, status, cleared.staged, cleared.holds)
        if changes:
            for other in list(self._entries.values()):
                if other.status == "pending":
                    self._stand(replace(other, status="superseded"))
        else:
            newest = next(reversed(self._entries.values()), None)
            if newest is not None and newest.status == "kept":
                del self._entries[newest.id]
                self._keeper.remove(newest.id)
        self._entries[entry.id] = entry
        self._keeper.save(entry)
        while len(self._entries) > self._keep:
            self._entries.popitem(last=False)
        return entry

    def take_up(self, remembered: Iterable[Entry]) -> None:
        """Puts rounds of before this service began before its own; newest first, each once, and as memory
        has it where that knows one: the database hears of it later.

        One that has waited for a decision for over an hour waits no more.
        """
        now_ns = self._clock_ns()
        own = list(self._entries.values())
        before = [entry for entry in remembered if entry.id not in self._entries]
        self._entries.clear()
        for entry in reversed(before):
            self._entries[entry.id] = entry
            # Ids count on, lest two of one second are the same.
            self._count = max(self._count, _number(entry.id))
            superseded = bool(own) or abs(now_ns - entry.created_ns) > PENDING_FOR_NS
            if entry.status == "pending" and superseded:
                self._stand(replace(entry, status="superseded"))
        self._entries.update((entry.id, entry) for entry in own)
        while len(self._entries) > self._keep:
            self._entries.popitem(last=False)

    def newest(self, limit: int) -> list[Entry]:
        """The newest rounds, newest first."""
        return list(reversed(self._entries.values()))[:limit]

    def find(self, entry_id: str) -> Entry | None:
        """The round of that id, if it is in memory."""
        return self._entries.get(entry_id)

    def get(self, entry_id: str) -> Entry:
        """The round of that id; raises ``NotFoundError``."""
        try:
            return self._entries[entry_id]
        except KeyError:
            raise NotFoundError(
                f"recommendation {entry_id!r}",
                None,
                f"not found; the newest {self._keep} rounds are kept",
                "list them at /v1/recommendations",
            ) from None

    def current(self) -> Entry:
        """The newest change that stands (pending or approved), else the newest round.

        Raises ``NotFoundError`` before any.
        """
        newest_first = self.newest(len(self._entries))
        for entry in newest_first:
            if entry.status in ("pending", "approved"):
                return entry
        if newest_first:
            return newest_first[0]
        raise NotFoundError(
            "current recommendation",
            None,
            "there is none before the first round, which needs fresh telemetry",
            "post INT reports, then POST /v1/tune",
        )

    def pending(self, entry_id: str) -> Entry:
        """The round of that id if it waits for a decision; raises ``ConflictError`` if it does not."""
        entry = self.get(entry_id)
        if entry.status != "pending":
            raise ConflictError(
                f"recommendation {entry_id!r}",
                None,
                f"it is {entry.status}; only a pending recommendation can be approved or rejected",
                "look at /v1/recommendations/current",
            )
        return entry

    def decide(self, entry: Entry, status: Decision, by: str) -> Entry:
        """Records a decision; returns the entry as it is now."""
        decided = self.decided(entry, status, by)
        self.stands(decided)
        return decided

    def decided(self, entry: Entry, status: Decision, by: str) -> Entry:
        """What an entry would be by a decision, which has no effect yet."""
        return replace(entry, status=status, decided_by=by, decided_ns=self._clock_ns())

    def stands(self, decided: Entry) -> None:
        """Records a decision, whatever has come of its round meanwhile."""
        self._stand(decided)

    def was_approved(self, entry_id: str, by: str, at_ns: int) -> None:
        """Takes up an approval that the journal of rollouts has, where its service was killed before it was
        written beside the round.
        """
        entry = self.find(entry_id)
        if entry is not None and entry.status in ("pending", "superseded"):
            self._stand(replace(entry, status="approved", decided_by=by, decided_ns=at_ns))

    def caution(self, entry: Entry, why: str) -> None:
        """Notes what speaks against approving it and keeps policy alone from it, in a sentence."""
        if (found := self.find(entry.id)) is not None:
            self._stand(replace(found, caution=why))

    def follow(self, entry_id: str, rollout: RolloutState) -> None:
        """Where a recommendation's rollout is; one that was taken back makes it ``rolled_back``."""
        entry = self.find(entry_id)
        if entry is None:
            return  # it was long ago
        back = rollout.phase in (Phase.ROLLING_BACK, Phase.ROLLED_BACK)
        status: Decision = "rolled_back" if back and entry.status == "approved" else entry.status
        self._stand(replace(entry, pushed=Pushed.of(rollout), status=status))

    def _stand(self, entry: Entry) -> None:
        if entry.id in self._entries:
            self._entries[entry.id] = entry
        self._keeper.stand(entry)


def _number(entry_id: str) -> int:
    number = entry_id.rpartition("-")[2]
    return int(number) if number.isdigit() else 0
