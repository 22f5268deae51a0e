"""The newest rounds and what was decided about them, in bounded memory; must not know how one is run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from api.clearance import NOTHING_STAGED, Cleared
from api.errors import ConflictError, NotFoundError
from api.rounds import RoundResult
from api.schemas.base import timestamp
from api.schemas.predictions import WatermarkDocument
from api.schemas.recommendation import Decision, PushedDocument, RecommendationDocument, round_fields
from api.schemas.telemetry import by_label
from switches.rollout.state import Phase, Progress, RolloutState
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True)
class Entry:
    """A round and its decision.

    ``staged`` is what an approval sets, ``holds`` why nothing may be written to a device yet, in sentences;
    ``rollout`` is where the rollout of an approval is. ``caution`` is what keeps policy, and no person, from
    approving it.
    """

    id: str
    created_ns: int
    result: RoundResult
    wall_s: float
    status: Decision
    staged: Watermark | None = None
    holds: tuple[str, ...] = ()
    decided_by: str | None = None
    decided_ns: int | None = None
    rollout: RolloutState | None = None
    caution: str | None = None

    def document(self, *, candidates: bool = True) -> RecommendationDocument:
        """The entry as the service answers it."""
        return RecommendationDocument(
            **round_fields(
                self.result.recommendation,
                flows=by_label(self.result.state.flows_by_class),
                measured_queue_bytes=self.result.measured_queue_bytes,
                left_out=self.result.left_out,
                wall_s=self.wall_s,
                candidates=candidates,
            ),
            id=self.id,
            created=timestamp(self.created_ns),
            status=self.status,
            decided_by=self.decided_by,
            decided_at=None if self.decided_ns is None else timestamp(self.decided_ns),
            staged=None if self.staged is None else WatermarkDocument.of(self.staged),
            switches=list(self.result.switches),
            holds=list(self.holds),
            caution=self.caution,
            rollout=None if self.rollout is None else self.rollout.plan.id,
            pushed=[] if self.rollout is None else _pushed(self.rollout),
        )


class RecommendationStore:
    """At most ``keep`` rounds; the oldest go first. ``clock_ns`` is wall-clock nanoseconds since 1970."""

    def __init__(self, keep: int, *, clock_ns: Callable[[], int]) -> None:
        self._keep = keep
        self._clock_ns = clock_ns
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
        entry = Entry(
            f"{stamp}-{self._count}", created_ns, result, wall_s, status, cleared.staged, cleared.holds
        )
        if changes:
            for other in list(self._entries.values()):
                if other.status == "pending":
                    self._entries[other.id] = replace(other, status="superseded")
        else:
            newest = next(reversed(self._entries.values()), None)
            if newest is not None and newest.status == "kept":
                del self._entries[newest.id]
        self._entries[entry.id] = entry
        while len(self._entries) > self._keep:
            self._entries.popitem(last=False)
        return entry

    def newest(self, limit: int) -> list[Entry]:
        """The newest rounds, newest first."""
        return list(reversed(self._entries.values()))[:limit]

    def get(self, entry_id: str) -> Entry:
        """The round of that id; raises ``NotFoundError``."""
        try:
            return self._entries[entry_id]
        except KeyError:
            raise NotFoundError(
                f"recommendation {entry_id!r}",
                "its id",
                f"the newest {self._keep} rounds are kept",
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
            "a request before the first round",
            "a round runs when telemetry is fresh",
            "post INT reports, then POST /v1/tune",
        )

    def pending(self, entry_id: str) -> Entry:
        """The round of that id if it waits for a decision; raises ``ConflictError`` if it does not."""
        entry = self.get(entry_id)
        if entry.status != "pending":
            raise ConflictError(
                f"recommendation {entry_id!r}",
                f"a decision on one that is {entry.status}",
                "only a pending recommendation can be approved or rejected",
                "look at /v1/recommendations/current",
            )
        return entry

    def decide(self, entry: Entry, status: Decision, by: str) -> Entry:
        """Records a decision; returns the entry as it is now."""
        decided = replace(entry, status=status, decided_by=by, decided_ns=self._clock_ns())
        if entry.id in self._entries:
            self._entries[entry.id] = decided
        return decided

    def caution(self, entry: Entry, why: str) -> None:
        """Notes what speaks against approving it and keeps policy alone from it, in a sentence."""
        if entry.id in self._entries:
            self._entries[entry.id] = replace(self._entries[entry.id], caution=why)

    def follow(self, entry_id: str, rollout: RolloutState) -> None:
        """Where a recommendation's rollout is; one that was taken back makes it ``rolled_back``."""
        entry = self._entries.get(entry_id)
        if entry is None:
            return  # it was long ago, or before the service started anew
        back = rollout.phase in (Phase.ROLLING_BACK, Phase.ROLLED_BACK)
        status: Decision = "rolled_back" if back and entry.status == "approved" else entry.status
        self._entries[entry_id] = replace(entry, rollout=rollout, status=status)


def _pushed(rollout: RolloutState) -> list[PushedDocument]:
    """The switches that were read to run the change."""
    return [
        PushedDocument(
            switch=name,
            writes=name in rollout.plan.written,
            diff=one.change.diff,
            read_back=None if one.runs is None else WatermarkDocument.of(one.runs),
        )
        for name, one in rollout.switches.items()
        if one.change is not None and one.progress in (Progress.VERIFIED, Progress.SET)
    ]
