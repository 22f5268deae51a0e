"""Errors of switches and their adapters."""

from __future__ import annotations

from telemetry.errors import ExplainedError


class SwitchError(ExplainedError, RuntimeError):
    """A change could not be made or confirmed; ``reason`` is the label in metrics."""

    reason = "other"


class UnknownSwitchError(SwitchError):
    """No adapter is configured for that switch."""


class UnknownAdapterError(SwitchError):
    """No adapter of that kind is installed."""


class InventoryError(SwitchError):
    """Its adapter cannot use the inventory's description of the switch."""

    reason = "inventory"


class CredentialsError(InventoryError):
    """A secret is missing."""

    reason = "credentials"


class CapabilityError(SwitchError):
    """The switch cannot run such a watermark."""

    reason = "capability"


class UnreachableError(SwitchError):
    """The switch, or its controller, does not answer: a retry may help."""

    reason = "unreachable"


class AccessError(SwitchError):
    """The switch refuses the credentials."""

    reason = "access"


class RefusedError(SwitchError):
    """The switch answers and refuses."""

    reason = "refused"


class ConcurrentEditError(SwitchError):
    """Somebody else has set, or is setting, the same."""

    reason = "concurrent_edit"


class ReadBackError(SwitchError):
    """The switch does not run what was applied."""

    reason = "read_back"


def unreadable(where: str, said: object, rule: str, *, what: str = "an answer") -> RefusedError:
    """An answer, or what else came, is not in the expected form; ``said`` is the parser's reason."""
    remedy = "look at the switch and its version, or whether something else listens there"
    return RefusedError(where, f"{what} that cannot be read ({said})", rule, remedy)


def late(where: str, what: str, timeout_s: float) -> UnreachableError:
    """No answer to ``what`` in time."""
    return UnreachableError(
        where,
        f"no answer to {what} within {timeout_s:g} s",
        "a switch answers in time",
        "look whether it is up, and whether its management network is",
    )


def no_access(where: str, said: str) -> AccessError:
    """The switch refuses the credentials, in the words ``said``."""
    return AccessError(
        where, said, "the credentials are the switch's", "correct them, or the account's rights"
    )
