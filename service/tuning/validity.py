"""Whether a recommendation may be approved. HTTP, terminal, page and policy all ask here.

What makes the advice wrong ends it for good: it becomes ``expired``. What merely has to pass, such as a
freeze, blocks it until then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from nics.parameters import values_text
from service.documents.base import list_text, timestamp
from service.documents.recommendation import BlockDocument, RecommendationDocument, recommendation_document
from service.events import Broadcaster, Clocks
from service.ingest.window_owner import WindowOwner
from service.rollouts.manager import Rollouts
from service.switches.fleet import Fleet
from service.tuning.entry import Entry
from service.tuning.gate import PushGate
from service.tuning.recommendations import RecommendationStore
from service.tuning.together import Beside, JointChanges, Kind, Part, Refusal
from settings.errors import ConflictError, PreconditionFailedError, PreconditionRequiredError
from twin.search.explain import watermark_text
from twin.units import duration_text
from twin.watermark import RoleWatermarks, Watermark

REVIEW_EVERY_S = 1.0
_NAMED = 4
_BESIDE: Mapping[Kind, str] = {"nic": "NICs", "roles": "port roles"}

_log = logging.getLogger("ecntwin.tuning")


@dataclass(frozen=True, slots=True)
class Block:
    """A reason that blocks approvals, and until when (nanoseconds since 1970; None: unknown)."""

    reason: str
    remedy: str
    until_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What a caller believes to approve: the incumbent, or ``If-Match`` with its tags, and the values of NICs
    (those of classes ``by_class``) or thresholds ``by_role`` with the watermark that goes with them; None:
    not given.
    """

    incumbent: Watermark | None = None
    if_match: str | None = None
    together: tuple[Watermark, Mapping[str, int]] | None = None
    by_role: Mapping[str, Watermark] | None = None
    by_class: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def told(self) -> bool:
        return self.incumbent is not None or self.if_match not in (None, "*")


ANYTHING = Expected()


def etag_of(entry: Entry) -> str:
    """The tag that an approval's ``If-Match`` must name: the id, and the incumbent it was made for.

    Entity tags of the document begin with it: the rounds behind a recommendation may grow until the approval.
    """
    mark = entry.incumbent
    return f'"{entry.id}.{mark.kmin_bytes}-{mark.kmax_bytes}-{mark.pmax!r}"'


@dataclass(kw_only=True)
class Validity:
    """``deciding`` are ids being decided on: a switch that their own rollout sets ends none of them.

    Use from one event loop only.
    """

    fleet: Fleet
    store: RecommendationStore
    rollouts: Rollouts
    gate: PushGate
    joint: JointChanges
    window: WindowOwner
    stale_after_s: float
    events: Broadcaster
    clocks: Clocks
    deciding: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._started_s = self.window.now_s()
        self._told: dict[str, list[str]] = {}

    async def run_forever(self) -> None:
        while True:
            try:
                self.review()
            except Exception:
                _log.exception("pending recommendations could not be reviewed; it is tried again")
            await asyncio.sleep(REVIEW_EVERY_S)

    def review(self) -> None:
        """Expires outdated pending ones, and publishes what newly blocks the others, or no longer does."""
        told: dict[str, list[str]] = {}
        for entry in self.store.newest(len(self.store)):
            if entry.status != "pending" or entry.id in self.deciding:
                continue
            if (reason := self._outdated(entry)) is not None:
                self._expire(entry, reason)
                continue
            reasons = [block.reason for block in self.blocks(entry)]
            if reasons != self._told.get(entry.id, []):
                self._publish(entry, reasons)
            told[entry.id] = reasons
        self._told = told

    def blocks(self, entry: Entry) -> tuple[Block, ...]:
        """What blocks the approval of a pending one; gates and drift count only where devices are written."""
        return tuple(self._blocks(entry)) if entry.status == "pending" else ()

    def check(self, entry: Entry, expected: Expected = ANYTHING) -> None:
        """Raises ``ConflictError`` with the reason where a pending one may not be approved now, and
        ``PreconditionFailedError`` where ``If-Match`` names another. Reads no switch.
        """
        if expected.if_match not in (None, "*") and not _names(expected.if_match or "", etag_of(entry)):
            raise PreconditionFailedError(
                f"recommendation {entry.id!r}",
                f"If-Match {(expected.if_match or '')[:120]}",
                f"its entity tag is {etag_of(entry)}, and {self._now_runs(entry)}",
                "read it again, and decide on what it says now",
            )
        if expected.incumbent is not None and expected.incumbent != entry.incumbent:
            raise ConflictError(
                f"recommendation {entry.id!r}",
                f"incumbent {watermark_text(expected.incumbent)}",
                f"it was made for {watermark_text(entry.incumbent)}, and {self._now_runs(entry)}",
                "read it again, and decide on what it says now",
            )
        if (reason := self._outdated(entry)) is not None:
            self._expire(entry, reason)
            self.store.pending(entry.id)  # raises with the reason for its status
        if blocks := self.blocks(entry):
            reasons = " ".join(block.reason for block in blocks).removesuffix(".")
            raise ConflictError(
                f"recommendation {entry.id!r}", None, f"it is blocked: {reasons}", blocks[0].remedy
            )

    def check_beside(self, entry: Entry, beside: Beside, expected: Expected) -> Part:
        """What is set beside the watermark; raises ``ConflictError`` where it may not be now, or is not what
        is expected: a later round behind the same recommendation may have found another.
        """
        found = self._beside(entry, beside)
        where = f"recommendation {entry.id!r} with {' and '.join(_BESIDE[kind] for kind in sorted(beside))}"
        if isinstance(found, Refusal):
            raise ConflictError(where, None, found.rule, found.remedy)
        if expected.together is None:
            return found
        mark, values = expected.together
        change = found.change
        marks = change.by_role if expected.by_role is None or "roles" not in beside else expected.by_role
        own = expected.by_class
        if "nic" not in beside:
            values, own = change.connectx, change.connectx_by_class
        shown = mark, values, marks, own
        now = change.watermark, change.connectx, change.by_role, change.connectx_by_class
        if shown != now:
            raise ConflictError(
                where,
                _together_text(*shown),
                f"a later round behind it found {_together_text(*now)}",
                "read it again, and decide on what it says now",
            )
        return found

    def _beside(self, entry: Entry, beside: Beside) -> Part | Refusal:
        runs = {name: self.fleet.runs(name) for name in entry.switches}
        return self.joint.of(entry.together, beside, runs)

    def resolve(self, which: str, expected: Expected) -> str:
        """The id that ``which`` names, an id or ``current``; that one is not approved blindly.

        Raises ``PreconditionRequiredError`` for ``current`` where nothing is expected of it, and
        ``NotFoundError`` before the first round.
        """
        if which != "current":
            return which
        entry = self.store.current()
        if not expected.told:
            raise PreconditionRequiredError(
                "recommendation 'current'",
                None,
                "it may be another one by now than the one that was read",
                f"approve {entry.id!r} by its id, or say what it is expected to replace "
                "(a body with the incumbent, or If-Match)",
            )
        return entry.id

    def document(
        self, entry: Entry, *, candidates: bool = True, trajectories: bool = True
    ) -> RecommendationDocument:
        """The document as HTTP returns it now, with what blocks it."""
        pending = entry.status == "pending"
        cooling = self._cooling() if pending else None
        together = entry.together if pending else None
        joint = self._beside(entry, together.beside | {"nic"}) if together else None
        roles = None
        if together and together.by_role:
            roles = joint if "nic" in together.beside else self._beside(entry, together.beside)
        return recommendation_document(
            entry,
            candidates=candidates,
            trajectories=trajectories,
            holds=[*(self._holds(entry) if pending else entry.holds), *([cooling.reason] if cooling else [])],
            blocked=[
                BlockDocument.from_attributes(
                    block, until=None if block.until_ns is None else timestamp(block.until_ns)
                )
                for block in self.blocks(entry)
            ],
            nics_refused=f"{joint.rule}; {joint.remedy}" if isinstance(joint, Refusal) else None,
            roles_refused=f"{roles.rule}; {roles.remedy}" if isinstance(roles, Refusal) else None,
        )

    def _outdated(self, entry: Entry) -> str | None:
        """A sentence on why the advice is outdated; None if it is still valid."""
        # Also of switches in the inventory: what the topology lacks sends no reports for the guards to see.
        declared = self.window.declared
        if declared and (gone := [name for name in entry.switches if name not in declared.switch_names]):
            are = "is" if len(gone) == 1 else "are"
            return f"{list_text(gone, _NAMED)} {are} not in the topology declared since."
        changed = {
            name: runs
            for name in entry.switches
            if (runs := self.fleet.last_read(name)) is not None and runs != _ran(entry, name)
        }
        if changed:
            name, runs = next(iter(changed.items()))
            more = f", and {len(changed) - 1} more switches changed too" if len(changed) > 1 else ""
            return (
                f"{name} now runs {watermark_text(runs)}, and it was made for "
                f"{watermark_text(_ran(entry, name))}{more}."
            )
        nics = self.joint.nics
        senders, ran = nics.senders, entry.senders
        if senders.source != "nics" or self.rollouts.active_on(nics.hosts) is not None:
            ran = None  # not known, or some are set and others not yet
        if ran is not None and (found := nics.unlike(ran, entry.senders_by_class)):
            return f"NICs{found[0]} now run other values than it was made for ({found[1]})."
        silent_s = self.window.silent_s(self._started_s)
        if silent_s > self.stale_after_s:
            return (
                f"{self.window.silence} for {duration_text(silent_s)}, longer than "
                f"{duration_text(self.stale_after_s)} (tuning.stale_after_s)."
            )
        return None

    def _blocks(self, entry: Entry) -> Iterator[Block]:
        missing = self.window.missing
        if missing is not None and (self.window.age_s() is None or self.window.empty):
            yield Block(f"{missing.why[0].upper()}{missing.why[1:]}.", missing.remedy)
        if (held := self.rollouts.held(entry.switches)) is not None:
            rule, remedy = held
            yield Block(f"{rule[0].upper()}{rule[1:]}.", remedy)
        away = {name: why for name in entry.switches if (why := self.fleet.away(name)) is not None}
        if away:
            yield Block(
                f"{list_text(away, _NAMED)} cannot be read ({next(iter(away.values()))}).",
                f"look at /v1/switches/{next(iter(away))}, and bring it back",
            )
        written = [name for name in entry.switches if name not in away and self.fleet.writes(name)]
        if not written:
            return
        if drifted := [name for name in written if self.fleet.drifted(name)]:
            yield Block(
                f"{list_text(drifted, _NAMED)} run{'s' if len(drifted) == 1 else ''} what was not set here, "
                "and that is not overwritten.",
                f"look at /v1/switches/{drifted[0]}, and POST its /adopt if that is as it should be",
            )
        for sentence in self._holds(entry):
            yield Block(sentence, "wait for a round without holds")
        if (cooling := self._cooling()) is not None:
            yield cooling

    def _holds(self, entry: Entry) -> list[str]:
        """Those of its round, and what a later one that could not tell has measured: it leaves what waits."""
        return list(dict.fromkeys((*entry.holds, *self.gate.held(age_s=0.0))))

    def _cooling(self) -> Block | None:
        left_s = self.gate.cooling_left_s()
        if left_s <= 0:
            return None
        until_ns = self.clocks.wall_ns() + round(left_s * 1e9)
        clock = datetime.fromtimestamp(until_ns / 1e9, UTC).strftime("%H:%M:%S")
        return Block(f"Held: the last change cools down until {clock} UTC.", "wait until then", until_ns)

    def _now_runs(self, entry: Entry) -> str:
        return f"what runs now is {watermark_text(self.fleet.incumbent(entry.switches))}"

    def _expire(self, entry: Entry, reason: str) -> None:
        _log.info("recommendation %s expired: %s", entry.id, reason)
        self._publish(self.store.expire(entry, reason), ())

    def _publish(self, entry: Entry, blocked: Sequence[str]) -> None:
        self.events.publish(
            "validity",
            {"id": entry.id, "status": entry.status, "blocked": list(blocked), "expired": entry.expired},
        )


def _ran(entry: Entry, switch: str) -> Watermark:
    """The watermark a switch ran when the recommendation was made."""
    return entry.ran.get(switch, entry.incumbent)


def _together_text(
    watermark: Watermark,
    connectx: Mapping[str, int],
    by_role: Mapping[str, Watermark],
    by_class: Mapping[str, Mapping[str, int]],
) -> str:
    marks = str(RoleWatermarks.of(watermark, by_role)) if by_role else watermark_text(watermark)
    values = [values_text(connectx)] if connectx else []
    values += [f"on {name} {values_text(own) or 'nothing'}" for name, own in by_class.items()]
    return f"{marks} with {'; '.join(values)}" if values else marks


def _names(if_match: str, tag: str) -> bool:
    """Whether one of its entity tags is ``tag`` or begins with it."""
    named = (one.strip().removeprefix("W/") for one in if_match.split(","))
    return any(one == tag or one.startswith(f"{tag[:-1]}.") for one in named)
