"""Telemetry's error tree; every message says where, what was received, the rule and the remedy.

TelemetryError
├── DecodeError      a body that is not INT reports at all (one bad report in a good body is a ReportError)
│   └── OversizeError  a body too large to take, as sent or unpacked
├── ReportError      one report that cannot be used; the others in its batch are kept
├── TopologyError    a topology that dangles, repeats a port or leaves a pair without a path
└── WindowError      a question the window cannot answer (empty, or not warm)
"""

from __future__ import annotations


class TelemetryError(ValueError):
    """A sender's mistake or an unanswerable question, in one sentence.

    The four parts stay apart so that the HTTP service can hand them out as fields of a problem document.
    """

    def __init__(self, where: str, received: str, rule: str, remedy: str) -> None:
        self.where = where
        self.received = received
        self.rule = rule
        self.remedy = remedy
        super().__init__(f"{where}: received {received}; {rule}; {remedy}")


class DecodeError(TelemetryError):
    """A body that is not INT reports at all."""


class OversizeError(DecodeError):
    """A body too large to take, as sent or unpacked."""


class ReportError(TelemetryError):
    """One report that cannot be used."""


class TopologyError(TelemetryError):
    """A topology that dangles, repeats a port or leaves a pair without a path."""


class WindowError(TelemetryError):
    """A question the window cannot answer."""
