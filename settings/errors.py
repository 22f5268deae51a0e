"""Errors of the settings, the service and the commands, and the HTTP status of every error."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import ClassVar

from switches.errors import SwitchError, UnknownSwitchError
from telemetry.errors import DecodeError, ExplainedError, OversizeError, TelemetryError, WindowError
from twin.errors import SearchError, TwinError

LONGEST_ASKED_S = 60.0


class ApiError(ExplainedError):
    """A mistake of the caller or the operator."""


class SettingsError(ApiError):
    """A settings file or environment variable is wrong."""


class InputError(ApiError):
    """A command's file or option cannot be used."""


class RefusedError(ApiError):
    """The service refuses what a command asked for."""


class AwayError(ApiError):
    """The service does not answer, or cannot now."""


class RequestError(ApiError):
    """A request that cannot be served, or after ``retry_after_s`` seconds; ``status`` is its HTTP status."""

    status: ClassVar[int]

    def __init__(
        self, where: str, received: str | None, rule: str, remedy: str, *, retry_after_s: int | None = None
    ) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(where, received, rule, remedy)

    def __init_subclass__(cls, *, status: int) -> None:
        cls.status = status


class MalformedRequestError(RequestError, status=400):
    """Not an HTTP request, or a body that is not in the format of the call."""


class UnauthorizedError(RequestError, status=401):
    """No token, or an unknown one."""


class ForbiddenError(RequestError, status=403):
    """The token lacks the scope."""


class NotFoundError(RequestError, status=404):
    """No such resource."""


class StalledError(RequestError, status=408):
    """The client stopped sending in the middle of its request."""


class ConflictError(RequestError, status=409):
    """The state of the service does not allow the call."""


class PreconditionFailedError(RequestError, status=412):
    """What ``If-Match`` names is not what would be changed."""


class TooLargeError(RequestError, status=413):
    """The body is over the limit."""


class LineTooLongError(RequestError, status=414):
    """The path with its query is over the limit."""


class UnsupportedMediaError(RequestError, status=415):
    """The body's type or encoding is not one the call reads."""


class UnprocessableError(RequestError, status=422):
    """The body is well formed and asks for something impossible."""


class PreconditionRequiredError(RequestError, status=428):
    """The call must say what it expects to change."""


class BusyError(RequestError, status=429):
    """Too much at once; retry after ``retry_after_s`` seconds."""


class HeadTooLargeError(RequestError, status=431):
    """The request line and header fields are over the limit."""


class UnavailableError(RequestError, status=503):
    """The service cannot do it now, and may later: where it is known, after ``retry_after_s`` seconds."""


# First match wins, so a class comes before its base.
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (OversizeError, 413),
    (DecodeError, 400),
    (WindowError, 409),
    (TelemetryError, 422),
    (SearchError, 503),
    (TwinError, 422),
    (UnknownSwitchError, 404),
    (SwitchError, 502),
    (ApiError, 400),
)


def status_of(error: Exception) -> int:
    if isinstance(error, RequestError):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
"""Statuses below 500 after which the same request may be served later."""


def retry_after_s(headers: Mapping[str, str]) -> float:
    """``Retry-After`` in seconds, at most ``LONGEST_ASKED_S``; 0 where it is missing or a date."""
    value = headers.get("retry-after", "").strip()
    return min(float(value), LONGEST_ASKED_S) if value.isdecimal() else 0.0
