"""The switches' error tree.

SwitchError
├── UnknownSwitchError     no adapter is configured for that switch
├── UnknownAdapterError    no adapter of that kind is installed
├── InventoryError         the inventory describes a switch in a way its adapter cannot use
│   └── CredentialsError   a secret that is named, and not there
├── CapabilityError        the switch cannot run such a watermark
├── UnreachableError       the switch, or what controls it, does not answer: trying again may help
├── AccessError            the switch refuses the credentials
├── RefusedError           the switch answers, and would not do it
├── ConcurrentEditError    somebody else has set, or is setting, the same
└── ReadBackError          the switch does not run what was applied
"""

from __future__ import annotations

from telemetry.errors import ExplainedError


class SwitchError(ExplainedError, RuntimeError):
    """A change that could not be made or confirmed; ``reason`` labels it where failures are counted."""

    reason = "other"


class UnknownSwitchError(SwitchError):
    """No adapter is configured for that switch."""


class UnknownAdapterError(SwitchError):
    """No adapter of that kind is installed."""


class InventoryError(SwitchError):
    """The inventory describes a switch in a way its adapter cannot use."""

    reason = "inventory"


class CredentialsError(InventoryError):
    """A secret that is named, and not there."""

    reason = "credentials"


class CapabilityError(SwitchError):
    """The switch cannot run such a watermark."""

    reason = "capability"


class UnreachableError(SwitchError):
    """The switch, or what controls it, does not answer."""

    reason = "unreachable"


class AccessError(SwitchError):
    """The switch refuses the credentials."""

    reason = "access"


class RefusedError(SwitchError):
    """The switch answers, and would not do it."""

    reason = "refused"


class ConcurrentEditError(SwitchError):
    """Somebody else has set, or is setting, the same."""

    reason = "concurrent_edit"


class ReadBackError(SwitchError):
    """The switch does not run what was applied."""

    reason = "read_back"
