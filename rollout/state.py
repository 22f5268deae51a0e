"""The state of a rollout (phase, and progress of each member), the actions it may ask for, and its events.

A member is a switch or a host; actions and events name it in ``switch``, as older journals do.

Events have a wall-clock time in seconds since 1970. The journal holds these and nothing else: replaying them
gives the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import msgspec

from nics.base import StagedChange as NicsChange
from rollout.plan import Figures, RolloutPlan, Target
from switches.base import StagedChange
from switches.hashing.values import StagedHash
from twin.watermark import Watermark

Change = StagedChange | NicsChange | StagedHash
"""The staged change of a member."""


def member_of(change: Change) -> str:
    return change.host if isinstance(change, NicsChange) else change.switch


@dataclass(frozen=True, slots=True)
class Stage:
    """Compute a member's change."""

    switch: str
    target: Target


@dataclass(frozen=True, slots=True)
class _WithChange:
    switch: str
    change: Change


class Apply(_WithChange):
    """Set a member; ``Applying`` is journaled first."""


class Verify(_WithChange):
    """Read a member back."""


class Confirm(_WithChange):
    """Confirm the change on a member."""


class Undo(_WithChange):
    """Restore a member to what it ran before."""


@dataclass(frozen=True, slots=True)
class Check:
    """Read these members, which are set, again: each must still run its change."""

    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Watch:
    """Measure telemetry of these switches from ``since_s`` on."""

    switches: tuple[str, ...]
    since_s: float


MemberAction = Stage | Apply | Verify | Confirm | Undo
Action = MemberAction | Check | Watch


class Phase(Enum):
    """proposed → approved → canary → soak → fleet (→ soak) → done, or rolling back → rolled back."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    CANARY = "canary"
    SOAK = "soak"
    FLEET = "fleet"
    DONE = "done"
    ROLLING_BACK = "rolling_back"
    ROLLED_BACK = "rolled_back"

    @property
    def ended(self) -> bool:
        """Whether it needs no further action."""
        return self in (Phase.DONE, Phase.ROLLED_BACK)

    @property
    def forward(self) -> bool:
        """Whether the rollout is setting members or watching them."""
        return self in (Phase.CANARY, Phase.SOAK, Phase.FLEET)


class Progress(Enum):
    WAITING = "waiting"
    STAGED = "staged"
    LEFT_OUT = "left_out"
    APPLYING = "applying"
    APPLIED = "applied"
    VERIFIED = "verified"
    SET = "set"
    RESTORED = "restored"
    LEFT_ALONE = "left_alone"
    GIVEN_UP = "given_up"

    @property
    def touched(self) -> bool:
        """Whether the member runs, or may run, the change."""
        return self in (Progress.APPLYING, Progress.APPLIED, Progress.VERIFIED, Progress.SET)


@dataclass(frozen=True, slots=True)
class MemberProgress:
    """One member. ``failing_since_s`` and ``attempts`` count the failures in a row of the current step, which
    is retried at ``retry_at_s``; ``detail`` is the last error. ``runs`` is what a switch was read to run.
    """

    progress: Progress = Progress.WAITING
    change: Change | None = None
    runs: Watermark | None = None
    failing_since_s: float | None = None
    attempts: int = 0
    retry_at_s: float = 0.0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RolloutState:
    """``stage`` counts the plan's stages; ``touched`` are members in the order they were first set.

    ``since_s`` is the start of the phase, ``soak_from_s`` of the soak; ``why`` is the reason for turning
    back. ``unread``: all that is set is read again before more is set; ``stage_over``: only that keeps the
    stage from its end; ``checks`` as in ``Approved``.
    """

    plan: RolloutPlan
    phase: Phase
    since_s: float
    proposed_s: float
    members: Mapping[str, MemberProgress]
    stage: int = 0
    touched: tuple[str, ...] = ()
    approved_by: str | None = None
    frozen: bool = False
    checks: bool = False
    unread: bool = False
    stage_over: bool = False
    soak_from_s: float | None = None
    measured: Figures | None = None
    why: str | None = None
    phases: tuple[tuple[float, Phase], ...] = ()

    @property
    def current(self) -> tuple[str, ...]:
        """The members of the current stage."""
        return self.plan.stages[self.stage]


Step = Literal["stage", "apply", "verify", "confirm", "check", "undo"]


class Happened(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The base of all events."""

    at_s: float


class ToMember(Happened, frozen=True, kw_only=True):
    """The base of events of one member."""

    switch: str


class ByPerson(Happened, frozen=True, kw_only=True):
    """The base of decisions by a person or the policy."""

    by: str


class Proposed(Happened, frozen=True, kw_only=True):
    """The rollout was planned."""

    plan: RolloutPlan


class Approved(ByPerson, frozen=True, kw_only=True):
    """``checks``: a stage ends once all that is set was read again. Older journals lack it, and what they
    ended stays so.
    """

    checks: bool = False


class Staged(ToMember, frozen=True, kw_only=True):
    """The change of the switch was computed; nothing was set."""

    change: StagedChange


class StagedNics(ToMember, frozen=True, kw_only=True):
    """The change of a host's NICs was computed; nothing was set."""

    change: NicsChange


class HashStaged(ToMember, frozen=True, kw_only=True):
    """The change of what a switch hashes by was computed; nothing was set."""

    change: StagedHash


class Applying(ToMember, frozen=True, kw_only=True):
    """The member is about to be set: journaled first, so that a crash cannot hide it."""


class Applied(ToMember, frozen=True, kw_only=True):
    """The member took the change."""


class Verified(ToMember, frozen=True, kw_only=True):
    """The member runs the change, as read back; ``runs`` is None for a host."""

    runs: Watermark | None = None


class Confirmed(ToMember, frozen=True, kw_only=True):
    """The member keeps the change: its dead-man timer, if any, is stopped."""


class Checked(Happened, frozen=True, kw_only=True):
    """Members that are set were read again, and still run their changes."""

    switches: tuple[str, ...]


class Failed(ToMember, frozen=True, kw_only=True):
    """A step failed. ``passing``: a retry may help. ``sentence`` is the error's."""

    step: Step
    reason: str
    sentence: str
    passing: bool


class Undone(ToMember, frozen=True, kw_only=True):
    """The member runs what it did before, as read back."""


class LeftAlone(ToMember, frozen=True, kw_only=True):
    """An undo found values that somebody else has set since, and left them."""

    sentence: str


class GivenUp(ToMember, frozen=True, kw_only=True):
    """A person has given up the undo of a member that kept failing; ``sentence`` says what may be left."""

    by: str
    sentence: str


class Measured(Happened, frozen=True, kw_only=True):
    """Telemetry of the watched switches since the stage was set."""

    figures: Figures


class WentSilent(Happened, frozen=True, kw_only=True):
    """Telemetry stopped while it was needed."""

    sentence: str


class RollbackAsked(ByPerson, frozen=True, kw_only=True):
    """A rollback was requested."""


class Frozen(ByPerson, frozen=True, kw_only=True):
    """No member is set until further notice; rollbacks continue."""


class Thawed(ByPerson, frozen=True, kw_only=True):
    """Members may be set again. ``anew``: and patience with each begins anew. Older journals lack it, and
    what they ended stays so.
    """

    anew: bool = False


class Resumed(Happened, frozen=True, kw_only=True):
    """A restarted service resumed the rollout where the journal ends. ``checks`` as ``Approved``."""

    checks: bool = False


Event = (
    Proposed
    | Approved
    | Staged
    | StagedNics
    | HashStaged
    | Applying
    | Applied
    | Verified
    | Confirmed
    | Checked
    | Failed
    | Undone
    | LeftAlone
    | GivenUp
    | Measured
    | WentSilent
    | RollbackAsked
    | Frozen
    | Thawed
    | Resumed
)


def encode(event: Event) -> bytes:
    return msgspec.json.encode(event)


# Made once: that takes longer than an event.
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def decode(text: bytes | str) -> Event:
    """Raises ``msgspec.ValidationError``."""
    return _DECODER.decode(text)
