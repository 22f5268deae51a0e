"""Errors of switches and their adapters."""

from __future__ import annotations

from typing import ClassVar

from telemetry.errors import ExplainedError

_LONGEST_LINE = 60


class SwitchError(ExplainedError, RuntimeError):
    """A change could not be made or confirmed; ``reason`` is its label in metrics."""

    reason: ClassVar[str] = "other"

    def __init_subclass__(cls, *, reason: str | None = None) -> None:
        cls.reason = reason or cls.reason


class UnknownSwitchError(SwitchError):
    """No adapter is configured for that switch."""


class UnknownAdapterError(SwitchError):
    """No adapter of that kind is installed."""


class InventoryError(SwitchError, reason="inventory"):
    """Its adapter cannot use the inventory's description of the switch."""


class CredentialsError(InventoryError, reason="credentials"):
    """A secret is missing."""


class CapabilityError(SwitchError, reason="capability"):
    """The switch cannot run such a watermark."""


class UnreachableError(SwitchError, reason="unreachable"):
    """The switch, or its controller, does not answer: a retry may help."""


class AccessError(SwitchError, reason="access"):
    """The switch refuses the credentials."""


class RefusedError(SwitchError, reason="refused"):
    """The switch answers and refuses."""


class ConcurrentEditError(SwitchError, reason="concurrent_edit"):
    """Somebody else has set the same values, or is setting them."""


class BusyError(ConcurrentEditError):
    """Somebody else is setting them this moment; nothing was done, and a retry may help."""


class ReadBackError(SwitchError, reason="read_back"):
    """The switch does not run what was applied."""


class GoneError(ReadBackError):
    """The switch shows none of the queues of a change that is to be undone."""


def one_line(text: str) -> str:
    """A device's text in one line, without characters that a terminal obeys instead of showing them."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def unreadable(where: str, said: object, rule: str, *, what: str = "an answer") -> RefusedError:
    """An answer, or what else came, is not in the expected form; ``said`` is the parser's reason."""
    remedy = "check the switch and its version, or what else listens there"
    return RefusedError(where, f"{what} that cannot be read ({said})", rule, remedy)


def no_host_keys(where: str, path: object, error: Exception) -> InventoryError:
    """For a file of which paramiko cannot read host keys; quotes the line, where it names one."""
    line = getattr(error, "line", None)
    said = error if line is None else f"the line {line[:_LONGEST_LINE]!r}"
    rule = "it is a file of host keys, as ssh-keyscan prints them"
    return InventoryError(where, f"{path}: {said}", rule, "correct it")


def late(where: str, what: str, timeout_s: float) -> UnreachableError:
    """The error for a call that was not answered in time; ``what`` names it."""
    rule = "a switch answers in time"
    remedy = "check that it is up, and its management network"
    return UnreachableError(where, f"no answer to {what} within {timeout_s:g} s", rule, remedy)


def no_access(where: str, said: str) -> AccessError:
    """The error for refused credentials, in the switch's words ``said``."""
    rule = "the switch must accept the credentials"
    return AccessError(where, said, rule, "correct them, or the account's rights")
