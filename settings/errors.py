"""Errors of the settings, the service and the commands, and the HTTP status of every error."""

from __future__ import annotations

from typing import ClassVar

from switches.errors import SwitchError, UnknownSwitchError
from telemetry.errors import DecodeError, ExplainedError, OversizeError, TelemetryError, WindowError
from twin.errors import SearchError, TwinError


class ApiError(ExplainedError):
    """A mistake of the caller or the operator."""


class SettingsError(ApiError):
    """A settings file or environment variable is wrong."""


class InputError(ApiError):
    """A command's file or option cannot be used."""


class RefusedError(ApiError):
    """The service refuses what a command asks of it."""


class AwayError(ApiError):
    """The service does not answer, or cannot now."""


class RequestError(ApiError):
    """A request that cannot be served; ``status`` is its HTTP status."""

    status: ClassVar[int]


class MalformedRequestError(RequestError):
    """Not an HTTP request."""

    status = 400


class BadBodyError(RequestError):
    """The body is not in the format of the call."""

    status = 400


class UnauthorizedError(RequestError):
    """No token, or an unknown one."""

    status = 401


class ForbiddenError(RequestError):
    """The token lacks the scope."""

    status = 403


class NotFoundError(RequestError):
    """No such resource."""

    status = 404


class StalledError(RequestError):
    """The client stopped sending in the middle of its request."""

    status = 408


class ConflictError(RequestError):
    """The state of the service does not allow the call."""

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
    """Too much at once; retry after ``retry_after_s`` seconds."""

    status = 429

    def __init__(
        self, where: str, received: str | None, rule: str, remedy: str, *, retry_after_s: int
    ) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(where, received, rule, remedy)


class HeadTooLargeError(RequestError):
    """The request line and header fields are over the limit."""

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
    if isinstance(error, RequestError):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
