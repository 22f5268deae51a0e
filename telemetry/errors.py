"""The base of every error here, and telemetry's error tree."""

from __future__ import annotations


def sentence(where: str, received: str | None, rule: str, remedy: str) -> str:
    """The four parts of an error as one sentence; ``received`` is None where there was no value to quote."""
    quoted = "" if received is None else f"received {received}; "
    return f"{where}: {quoted}{rule}; {remedy}"


class ExplainedError(Exception):
    """An error in four parts, which the HTTP service answers as members of a problem document."""

    def __init__(self, where: str, received: str | None, rule: str, remedy: str) -> None:
        self.where = where
        self.received = received
        self.rule = rule
        self.remedy = remedy
        super().__init__(sentence(where, received, rule, remedy))

    def __reduce__(self) -> tuple[type[ExplainedError], tuple[str, str | None, str, str]]:
        # Exceptions cross from worker processes; the default would replay the one joined message.
        return type(self), (self.where, self.received, self.rule, self.remedy)


class TelemetryError(ExplainedError, ValueError):
    """A sender's mistake or an unanswerable question."""


class DecodeError(TelemetryError):
    """A body that holds no reports at all; one bad report in a good body is a ``ReportError``."""


class OversizeError(DecodeError):
    """A body over the size limit, as sent or unpacked."""


class ReportError(TelemetryError):
    """One unusable report; the others in its batch are kept."""


class TopologyError(TelemetryError):
    """A topology with dangling links, repeated ports or unconnected hosts."""


class WindowError(TelemetryError):
    """A query that the window cannot answer, or settings out of range."""
