"""One recommendation as the service keeps it: what its round found and what was decided about it.

Decisions, rollouts and history read these values; ``service.documents.recommendation`` makes the document.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self

from rollout.state import Phase, Progress, RolloutState
from service.documents.round import RoundDocument, round_document
from service.history.measured import Measured
from service.tuning.gate import NOTHING_STAGED, Cleared
from service.tuning.round import RoundResult
from service.tuning.together import Together
from settings.errors import ConflictError
from switches.base import StagedChange
from twin.search.gain import Policy, policy_text
from twin.search.recommendation import Recommendation
from twin.senders.dcqcn import DcqcnParams
from twin.watermark import Watermark

Decision = Literal["pending", "kept", "approved", "rejected", "superseded", "expired", "rolled_back"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """The rounds behind a recommendation: ``rounds`` that agreed on it, the last at ``last_ns``.

    The last one judged ``moments`` of traffic, ``traffic_s`` seconds together. Of ``hour_rounds`` rounds on
    the same incumbent in the hour before it, ``hour_agreeing`` gave the same answer. ``changed`` says how
    traffic had changed when it was first recommended; None: it had not.
    """

    rounds: int = 1
    last_ns: int
    moments: int
    traffic_s: float
    hour_rounds: int = 1
    hour_agreeing: int = 1
    changed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedGain:
    """The gain over the incumbent that was predicted, with its standard error (None: unknown).

    ``policy_name`` is that of ``policy`` when the round ran.
    """

    value: float | None
    error: float | None
    policy: Policy
    policy_name: str

    @classmethod
    def of(cls, answer: Recommendation) -> Self | None:
        """None where the round did not score by gain."""
        if answer.score_is != "gain":
            return None
        scored = next((one for one in answer.candidates if one.watermark == answer.watermark), None)
        return cls(
            value=None if scored is None else _finite(scored.score),
            error=None if scored is None else _finite(scored.score_error),
            policy=answer.policy,
            policy_name=policy_text(answer.policy),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What a rollout has done, or a dry run would have done, on one switch.

    ``read_back`` is what the switch ran afterwards, None before it was read or where its queues differ.
    """

    switch: str
    writes: bool
    diff: str
    read_back: Watermark | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Immutable; a decision makes a new one.

    ``incumbent`` is what ran when its round judged it, ``watermark`` what the round recommends.
    ``queue_ratio`` is the mean queue predicted for ``watermark`` ÷ the one predicted for the incumbent (None:
    unknown), ``gain`` the gain predicted (None: the round did not score by gain). ``said`` is the round's
    document, which is only kept and passed on. ``switches`` are tuned, ``leaves`` have hosts attached,
    ``window_s`` is the length of the round's window; ``before`` is what a measured gain compares of that
    window (None: not measured). ``ran`` is what switches ran that ran another watermark than the incumbent,
    which is that of most.

    ``together`` is the joint change with NICs (None: its round looked for none), ``senders`` what senders
    were taken to run (None: from before that was kept), ``senders_by_class`` classes of hosts that were
    taken to run something else.

    ``staged`` is what an approval sets, ``holds`` are sentences on why no device may be written yet,
    ``caution`` is what keeps policy, but no person, from approving. ``pushed`` are the switches of
    ``rollout`` that were read to run the change, ``sets`` what it sets: ``watermark``, with ``nic`` and
    ``roles`` beside it. ``expired`` says why it ceased to be good, unasked.
    """

    id: str
    created_ns: int
    incumbent: Watermark
    watermark: Watermark
    queue_ratio: float | None
    gain: PredictedGain | None
    # The text of a row's ``document`` in the database, in this order.
    said: RoundDocument
    switches: tuple[str, ...]
    leaves: tuple[str, ...]
    window_s: float
    before: Measured | None = None
    ran: Mapping[str, Watermark] = field(default_factory=dict)
    together: Together | None = None
    senders: DcqcnParams | None = None
    senders_by_class: Mapping[str, DcqcnParams] = field(default_factory=dict)
    # The text of a row's ``standing``, in this order.
    status: Decision
    support: Support | None = None  # None: from before this was kept
    staged: Watermark | None = None
    holds: tuple[str, ...] = ()
    decided_by: str | None = None
    decided_ns: int | None = None
    caution: str | None = None
    rollout: str | None = None
    pushed: tuple[Pushed, ...] = ()
    expired: str | None = None
    expired_ns: int | None = None
    sets: tuple[str, ...] = ("watermark",)

    def undecided(self) -> Self:
        """Itself; raises ``ConflictError`` with its status where it is not pending."""
        if self.status == "pending":
            return self
        raise ConflictError(
            f"recommendation {self.id!r}",
            None,
            f"it is expired: {self.expired.removesuffix('.')}"
            if self.expired
            else f"it is {self.status}; only a pending recommendation can be approved or rejected",
            "look at /v1/recommendations/current",
        )

    @classmethod
    def of(
        cls,
        entry_id: str,
        created_ns: int,
        result: RoundResult,
        *,
        wall_s: float,
        cleared: Cleared = NOTHING_STAGED,
        before: Measured | None = None,
        support: Support | None = None,
        running: Mapping[str, Watermark] | None = None,
        hosts: bool = False,
    ) -> Self:
        """The entry of a round that has just ended, after ``wall_s`` seconds; ``running`` when it began.

        ``hosts``: there are NICs to set, so that a joint change is one to decide on.
        """
        answer = result.recommendation
        together = None if answer.co_tuning is None else Together.of(answer.co_tuning)
        return cls(
            id=entry_id,
            created_ns=created_ns,
            incumbent=answer.incumbent,
            watermark=answer.watermark,
            queue_ratio=queue_ratio(
                answer.winner_prediction.queue_mean_bytes, answer.incumbent_prediction.queue_mean_bytes
            ),
            gain=PredictedGain.of(answer),
            said=round_document(result, wall_s=wall_s),
            switches=result.switches,
            leaves=result.leaves,
            window_s=result.window_s,
            before=before,
            support=support,
            ran={
                name: mark
                for name, mark in (running or {}).items()
                if name in result.switches and mark != answer.incumbent
            },
            together=together,
            senders=result.scenario.dcqcn,
            senders_by_class={
                name: params
                for name, params in result.scenario.dcqcn_by_class.items()
                if params != result.scenario.dcqcn
            },
            status="pending" if to_decide(answer, hosts=hosts) else "kept",
            staged=cleared.staged,
            holds=cleared.holds,
        )

    def instead_of(self, running: Watermark) -> Watermark | None:
        """What it recommends, if it was made for what runs."""
        return self.watermark if self.changes and self.incumbent == running else None

    @property
    def changes(self) -> bool:
        """Whether the watermark alone is to change."""
        return self.watermark != self.incumbent

    @property
    def gain_together(self) -> PredictedGain | None:
        """The gain predicted for the joint change."""
        if self.gain is None or self.together is None:
            return self.gain
        return replace(self.gain, value=self.together.gain, error=self.together.gain_error)

    def with_rollout(self, rollout: RolloutState) -> Self:
        """With the progress of its rollout; one that is rolled back makes it ``rolled_back``.

        ``pushed`` are switches alone: there may be thousands of hosts.
        """
        back = self.status == "approved" and rollout.phase in (Phase.ROLLING_BACK, Phase.ROLLED_BACK)
        plan, written = rollout.plan, frozenset(rollout.plan.written)
        pushed = tuple(
            Pushed(switch=name, writes=name in written, diff=one.change.diff, read_back=one.runs)
            for name, one in rollout.members.items()
            if isinstance(one.change, StagedChange) and one.progress in (Progress.VERIFIED, Progress.SET)
        )
        status: Decision = "rolled_back" if back else self.status
        beside = (name for name, part in (("nic", plan.nics), ("roles", plan.by_role)) if part)
        sets = ("watermark", *beside)
        return replace(self, status=status, rollout=plan.id, pushed=pushed, sets=sets)

    def before_and_after(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the audit log says of an approval: the incumbent before, and what is staged on which switches
        by which rollout.
        """
        after = {
            "status": self.status,
            "rollout": self.rollout,
            "watermark": None if self.staged is None else asdict(self.staged),
            "switches": list(self.switches),
        }
        if "nic" in self.sets and self.together is not None:
            after["nics"] = dict(self.together.connectx)
            if own := self.together.connectx_by_class:
                after["nics_by_class"] = {name: dict(values) for name, values in own.items()}
        if "roles" in self.sets and self.together is not None:
            after["by_role"] = {role: asdict(mark) for role, mark in self.together.by_role.items()}
        return {"watermark": asdict(self.incumbent)}, after


def to_decide(answer: Recommendation, *, hosts: bool) -> bool:
    """Whether a round's answer is one to decide on: a watermark, ports by role, or with ``hosts`` NICs."""
    if answer.changes or answer.co_tuning is None:
        return answer.changes
    found = Together.of(answer.co_tuning)
    return found.recommended and bool(found.beside) and (hosts or "nic" not in found.beside)


def queue_ratio(new_bytes: float | None, old_bytes: float | None) -> float | None:
    """New ÷ old; None where either is unknown or not finite, or the old one is 0."""
    if new_bytes is None or not old_bytes or not (math.isfinite(new_bytes) and math.isfinite(old_bytes)):
        return None
    return new_bytes / old_bytes


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
