"""What happens to a rollout, each with its wall-clock time in seconds since 1970; the journal holds these.

Replaying them gives the state again, so nothing else needs to be kept. Must import nothing that acts.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from switches.base import StagedChange
from switches.rollout.plan import Figures, RolloutPlan
from twin.watermark import Watermark

Step = Literal["stage", "apply", "verify", "confirm", "undo"]


class Happened(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that happened."""

    at_s: float


class Proposed(Happened, frozen=True, kw_only=True):
    """The rollout was planned."""

    plan: RolloutPlan


class Approved(Happened, frozen=True, kw_only=True):
    """A person, or the policy, lets it begin."""

    by: str


class Staged(Happened, frozen=True, kw_only=True):
    """A switch's change was worked out; nothing was touched."""

    switch: str
    change: StagedChange


class Applying(Happened, frozen=True, kw_only=True):
    """A switch is about to be set: journaled first, so that a crash cannot hide that it was touched."""

    switch: str


class Applied(Happened, frozen=True, kw_only=True):
    """The switch took the change."""

    switch: str


class Verified(Happened, frozen=True, kw_only=True):
    """The switch was read to run the change."""

    switch: str
    runs: Watermark


class Confirmed(Happened, frozen=True, kw_only=True):
    """The switch keeps the change: its dead-man, if it has one, waits no more."""

    switch: str


class Failed(Happened, frozen=True, kw_only=True):
    """A step did not work. ``passing``: it may, tried again. ``sentence`` is the error's."""

    switch: str
    step: Step
    reason: str
    sentence: str
    passing: bool


class Undone(Happened, frozen=True, kw_only=True):
    """The switch was read to run what it ran before."""

    switch: str


class LeftAlone(Happened, frozen=True, kw_only=True):
    """An undo found what somebody else has set since, and left it."""

    switch: str
    sentence: str


class Measured(Happened, frozen=True, kw_only=True):
    """Telemetry of the switches since the stage was set."""

    figures: Figures


class WentSilent(Happened, frozen=True, kw_only=True):
    """Telemetry stopped while it was needed."""

    sentence: str


class RollbackAsked(Happened, frozen=True, kw_only=True):
    """An operator wants it undone."""

    by: str


class Frozen(Happened, frozen=True, kw_only=True):
    """Operators let no switch be set until further notice; undoing goes on."""

    by: str


class Thawed(Happened, frozen=True, kw_only=True):
    """Switches may be set again."""

    by: str


class Resumed(Happened, frozen=True, kw_only=True):
    """The service started anew and took the rollout up where the journal ends."""


Event = (
    Proposed
    | Approved
    | Staged
    | Applying
    | Applied
    | Verified
    | Confirmed
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
