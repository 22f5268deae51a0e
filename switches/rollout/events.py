"""Events of a rollout, each with its wall-clock time in seconds since 1970.

The journal holds these and nothing else: replaying them gives the state.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from switches.base import StagedChange
from switches.rollout.plan import Figures, RolloutPlan
from twin.watermark import Watermark

Step = Literal["stage", "apply", "verify", "confirm", "check", "undo"]


class Happened(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The base of all events."""

    at_s: float


class ToSwitch(Happened, frozen=True, kw_only=True):
    """The base of events of one switch."""

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


class Staged(ToSwitch, frozen=True, kw_only=True):
    """The change of the switch was computed; nothing was set."""

    change: StagedChange


class Applying(ToSwitch, frozen=True, kw_only=True):
    """The switch is about to be set: journaled first, so that a crash cannot hide it."""


class Applied(ToSwitch, frozen=True, kw_only=True):
    """The switch took the change."""


class Verified(ToSwitch, frozen=True, kw_only=True):
    """The switch runs the change, as read back."""

    runs: Watermark


class Confirmed(ToSwitch, frozen=True, kw_only=True):
    """The switch keeps the change: its dead-man timer, if any, is stopped."""


class Checked(Happened, frozen=True, kw_only=True):
    """Switches that are set were read again, and still run their changes."""

    switches: tuple[str, ...]


class Failed(ToSwitch, frozen=True, kw_only=True):
    """A step failed. ``passing``: a retry may help. ``sentence`` is the error's."""

    step: Step
    reason: str
    sentence: str
    passing: bool


class Undone(ToSwitch, frozen=True, kw_only=True):
    """The switch runs its old watermark again, as read back."""


class LeftAlone(ToSwitch, frozen=True, kw_only=True):
    """An undo found values that somebody else has set since, and left them."""

    sentence: str


class Measured(Happened, frozen=True, kw_only=True):
    """Telemetry of the switches since the stage was set."""

    figures: Figures


class WentSilent(Happened, frozen=True, kw_only=True):
    """Telemetry stopped while it was needed."""

    sentence: str


class RollbackAsked(ByPerson, frozen=True, kw_only=True):
    """A rollback was requested."""


class Frozen(ByPerson, frozen=True, kw_only=True):
    """No switch is set until further notice; rollbacks continue."""


class Thawed(ByPerson, frozen=True, kw_only=True):
    """Switches may be set again."""


class Resumed(Happened, frozen=True, kw_only=True):
    """A restarted service resumed the rollout where the journal ends. ``checks`` as ``Approved``."""

    checks: bool = False


Event = (
    Proposed
    | Approved
    | Staged
    | Applying
    | Applied
    | Verified
    | Confirmed
    | Checked
    | Failed
    | Undone
    | LeftAlone
    | Measured
    | WentSilent
    | RollbackAsked
    | Frozen
    | Thawed
    | Resumed
)


def encode(event: Event) -> bytes:
    return msgspec.json.encode(event)


_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(
    Event
)  # made once: that takes longer than an event


def decode(text: bytes | str) -> Event:
    """Raises ``msgspec.ValidationError``."""
    return _DECODER.decode(text)
