"""The service's error tree, and the HTTP status of every error.

ApiError
├── SettingsError           a settings file or environment variable that means nothing
├── InputError              a command's file or option that cannot be used
├── RefusedError            a service refuses what a command asks of it
├── AwayError               a service that a command asks does not answer, or cannot now
└── RequestError            a request that cannot be served; each carries its HTTP status
    ├── MalformedRequestError   400
    ├── BadBodyError            400
    ├── UnauthorizedError       401
    ├── ForbiddenError          403
    ├── NotFoundError           404
    ├── StalledError            408
    ├── ConflictError           409
    ├── TooLargeError           413
    ├── LineTooLongError        414
    ├── UnsupportedMediaError   415
    ├── UnprocessableError      422
    ├── BusyError               429
    ├── HeadTooLargeError       431
    └── UnavailableError        503
"""

from __future__ import annotations

from typing import ClassVar

from switches.errors import SwitchError, UnknownSwitchError
from telemetry.errors import DecodeError, ExplainedError, OversizeError, TelemetryError, WindowError
from twin.errors import SearchError, TwinError


class ApiError(ExplainedError):
    """A mistake of the caller or the operator."""


class SettingsError(ApiError):
    """A settings file or environment variable that means nothing."""


class InputError(ApiError):
    """A command's file or option that cannot be used."""


class RefusedError(ApiError):
    """A service refuses what a command asks of it, for a reason that whoever asks can mend."""


class AwayError(ApiError):
    """A service that a command asks does not answer, or cannot now."""


class RequestError(ApiError):
    """A request that cannot be served; ``status`` is its HTTP status."""

    status: ClassVar[int]


class MalformedRequestError(RequestError):
    """What came is no HTTP request."""

    status = 400


class BadBodyError(RequestError):
    """The body is not what the call reads."""

    status = 400


class UnauthorizedError(RequestError):
    """No token, or one nobody knows."""

    status = 401


class ForbiddenError(RequestError):
    """The token does not hold the scope."""

    status = 403


class NotFoundError(RequestError):
    """Nothing has that name."""

    status = 404


class StalledError(RequestError):
    """The sender fell silent in the middle of its request."""

    status = 408


class ConflictError(RequestError):
    """The service is not in a state in which the call makes sense."""

    status = 409


class TooLargeError(RequestError):
    """The body is over the limit."""

    status = 413


class LineTooLongError(RequestError):
    """The path with its query is over the limit."""

    status = 414


class UnsupportedMediaError(RequestError):
    """The body's type or encoding is not one the call reads."""

    status = 415


class UnprocessableError(RequestError):
    """The body is well formed and asks for something impossible."""

    status = 422


class BusyError(RequestError):
    """More than the service can take right now; it may be asked again in ``retry_after_s`` seconds."""

    status = 429

    def __init__(
        self, where: str, received: str | None, rule: str, remedy: str, *, retry_after_s: int
    ) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(where, received, rule, remedy)


class HeadTooLargeError(RequestError):
    """The request line and header fields are over the limit, or there are too many fields."""

    status = 431


class UnavailableError(RequestError):
    """The service cannot do it now, and may later."""

    status = 503


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
    """The HTTP status of a domain error."""
    if isinstance(error, RequestError):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
