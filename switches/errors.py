"""The switches' error tree; every message says where, what was received, the rule and the remedy.

SwitchError
├── UnknownSwitchError     no adapter is configured for that switch
├── UnknownAdapterError    no adapter of that kind is installed
├── CapabilityError        the switch cannot run such a watermark
├── UnreachableError       the switch, or what controls it, does not answer
├── StageError             a change that was not staged by this adapter, or is no longer the latest
└── ReadBackError          the switch does not run what was applied
"""

from __future__ import annotations


class SwitchError(RuntimeError):
    """A change that could not be made or confirmed, in one sentence whose four parts stay apart."""

    def __init__(self, where: str, received: str, rule: str, remedy: str) -> None:
        self.where = where
        self.received = received
        self.rule = rule
        self.remedy = remedy
        super().__init__(f"{where}: received {received}; {rule}; {remedy}")


class UnknownSwitchError(SwitchError):
    """No adapter is configured for that switch."""


class UnknownAdapterError(SwitchError):
    """No adapter of that kind is installed."""


class CapabilityError(SwitchError):
    """The switch cannot run such a watermark."""


class UnreachableError(SwitchError):
    """The switch, or what controls it, does not answer."""


class StageError(SwitchError):
    """A change that was not staged by this adapter, or is no longer the latest."""


class ReadBackError(SwitchError):
    """The switch does not run what was applied."""
