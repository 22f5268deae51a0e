"""What happens to a rollout, each with its wall-clock time in seconds since 1970; the journal holds these.

Replaying them gives the state again, so nothing else needs to be kept. Must import nothing that acts.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from switches.base import StagedChange
from switches.rollout.plan import Figures, RolloutPlan
from twin.watermark import Watermark

Step = Literal["stage", "apply", "verify", "confirm", "check", "undo"]


class Happened(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that happened."""

    at_s: float


class ToSwitch(Happened, frozen=True, kw_only=True):
    """Something that happened to one switch."""

    switch: str


class ByPerson(Happened, frozen=True, kw_only=True):
    """Something that somebody decided, or the policy."""

    by: str


class Proposed(Happened, frozen=True, kw_only=True):
    """The rollout was planned."""

    plan: RolloutPlan


class Approved(ByPerson, frozen=True, kw_only=True):
    """It may begin. ``checks``: a stage ends when all that is set was read once more. Journals of before
    that rule do not hold it, and what has ended by them stays so.
    """

    checks: bool = False


class Staged(ToSwitch, frozen=True, kw_only=True):
    """The switch's change was worked out; nothing was touched."""

    change: StagedChange


class Applying(ToSwitch, frozen=True, kw_only=True):
    """The switch is about to be set: journaled first, so that a crash cannot hide that it was touched."""


class Applied(ToSwitch, frozen=True, kw_only=True):
    """The switch took the change."""


class Verified(ToSwitch, frozen=True, kw_only=True):
    """The switch was read to run the change."""

    runs: Watermark


class Confirmed(ToSwitch, frozen=True, kw_only=True):
    """The switch keeps the change: its dead-man, if it has one, waits no more."""


class Checked(Happened, frozen=True, kw_only=True):
    """Switches that are set were read once more, and still run their changes."""

    switches: tuple[str, ...]


class Failed(ToSwitch, frozen=True, kw_only=True):
    """A step did not work. ``passing``: it may, tried again. ``sentence`` is the error's."""

    step: Step
    reason: str
    sentence: str
    passing: bool


class Undone(ToSwitch, frozen=True, kw_only=True):
    """The switch was read to run what it ran before."""


class LeftAlone(ToSwitch, frozen=True, kw_only=True):
    """An undo found what somebody else has set since, and left it."""

    sentence: str


class Measured(Happened, frozen=True, kw_only=True):
    """Telemetry of the switches since the stage was set."""

    figures: Figures


class WentSilent(Happened, frozen=True, kw_only=True):
    """Telemetry stopped while it was needed."""

    sentence: str


class RollbackAsked(ByPerson, frozen=True, kw_only=True):
    """It is to be undone."""


class Frozen(ByPerson, frozen=True, kw_only=True):
    """No switch is set until further notice; undoing goes on."""


class Thawed(ByPerson, frozen=True, kw_only=True):
    """Switches may be set again."""


class Resumed(Happened, frozen=True, kw_only=True):
    """The service started anew and took the rollout up where the journal ends. ``checks`` as ``Approved``."""

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
    """The event as JSON."""
    return msgspec.json.encode(event)


_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(
    Event
)  # made once: that takes longer than an event


def decode(text: bytes | str) -> Event:
    """The event of that JSON; raises ``msgspec.ValidationError``."""
    return _DECODER.decode(text)
