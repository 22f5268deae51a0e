"""HTTP client of a running service: bounded calls, problem documents as errors, the event stream."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NoReturn, Self, TypeVar

import httpx
import msgspec

from settings.errors import PASSING, AwayError, InputError, RefusedError
from settings.tls import client_options
from settings.validation import TOKEN_VARIABLE, URL_VARIABLE, server_url


def bearer_token() -> str | None:
    """The environment's token; raises ``InputError``, which does not show it, where it fits no header."""
    text = os.environ.get(TOKEN_VARIABLE)
    if text is None or (text.isascii() and text.isprintable()):
        return text
    raise InputError(TOKEN_VARIABLE, None, "a token is printable ASCII", "give the token alone")


def checked_url(text: str, option: str) -> str:
    """The URL of a server; raises ``InputError`` naming the option."""
    try:
        return server_url(text)
    except ValueError as error:
        raise InputError(option, repr(text), str(error), "give such as http://127.0.0.1:8080") from None


PATIENCE_S = 60.0
CONNECT_S = 5.0
SILENCE_S = 40.0  # the service sends a keep-alive every 15 s

_MOST_QUOTED = 200
_CONTROLS = re.compile(
    rb"((?<!\\)(?:\\\\)*)(?:\\u00(?:[01][0-9a-fA-F]|7[fF]|[89][0-9a-fA-F])|\x7f|\xc2[\x80-\x9f])"
)
_REPLACED = rb"\1" + "\N{REPLACEMENT CHARACTER}".encode()

T = TypeVar("T")
Query = Mapping[str, str | float | bool]


class _Problem(msgspec.Struct):
    where: str
    received: str | None
    rule: str
    remedy: str
    notes: list[str] = []
    error_count: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """The body with which the service at ``url`` answered ``call``."""

    url: str
    call: str
    content: bytes

    def document(self) -> Any:
        return self._decoded(Any, self.content)

    def read(self, kind: type[T]) -> T:
        """Parses ``kind`` and ignores fields that a newer service adds; raises ``RefusedError``."""
        found: T = self._decoded(kind, _printable(self.content))
        return found

    def _decoded(self, kind: Any, content: bytes) -> Any:
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RefusedError(
                f"service at {self.url}",
                f"an answer to {self.call} that cannot be parsed ({error})",
                "ecntwin services of this version answer in JSON",
                "correct --url, or compare ecntwin version with the version of the service",
            ) from error


class ServiceEvent(msgspec.Struct):
    """One server-sent event; ``id`` counts up by 1, so a gap means lost events."""

    event: str
    data: dict[str, Any]
    id: int | None = None


@dataclass(slots=True)
class _Frame:
    event: str = "message"
    data: list[str] = field(default_factory=list)
    id: str = ""


class ServiceClient:
    """Client of the service at ``url``; each call takes at most ``patience_s``."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        transport: httpx.BaseTransport | None = None,
        patience_s: float = PATIENCE_S,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url.rstrip("/")
        self._patience_s = patience_s
        self._clock_s = clock_s
        self._client = httpx.Client(
            base_url=self.url,
            timeout=httpx.Timeout(patience_s, connect=min(CONNECT_S, patience_s)),
            transport=transport,
            **client_options(self.url, token),
        )

    @classmethod
    def at(cls, url: str, *, patience_s: float = PATIENCE_S) -> Self:
        """A client of ``--url`` with the token of the environment; raises ``InputError``."""
        checked = checked_url(url, f"--url (or {URL_VARIABLE})")
        return cls(checked, token=bearer_token(), patience_s=patience_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, query: Query | None = None, *, also: HTTPStatus | None = None) -> Answer:
        """The document at ``path``; a response of status ``also`` is returned like a success."""
        return self._call("GET", path, also=also, params=query)

    def post(self, path: str, body: dict[str, Any] | None = None) -> Answer:
        return self._call("POST", path, json=body)

    def delete(self, path: str) -> Answer:
        return self._call("DELETE", path)

    def put(self, path: str, body: dict[str, Any]) -> Answer:
        return self._call("PUT", path, json=body)

    def events(self) -> Iterator[ServiceEvent | None]:
        """Yields events, and None for keep-alives, until the service ends the stream.

        Raises ``AwayError`` if the connection is lost or silent for ``SILENCE_S``.
        """
        call = "GET /v1/events"
        timeout = httpx.Timeout(CONNECT_S, read=SILENCE_S)
        try:
            with self._client.stream("GET", "/v1/events", timeout=timeout) as response:
                if response.status_code != HTTPStatus.OK:
                    response.read()
                    self._refused(call, response, response.content)
                yield from _events(response.iter_lines(), lambda text: Answer(self.url, call, text))
        except httpx.HTTPError as error:
            raise self._away(call, error) from error

    def _call(self, method: str, path: str, *, also: HTTPStatus | None = None, **how: Any) -> Answer:
        call = f"{method} {path}"
        deadline_s = self._clock_s() + self._patience_s
        try:
            with self._client.stream(method, path, **how) as response:
                content = b"".join(self._in_time(response.iter_bytes(), deadline_s))
        except httpx.HTTPError as error:
            raise self._away(call, error) from error
        if not response.is_success and response.status_code != also:
            self._refused(call, response, content)
        return Answer(self.url, call, content)

    def _in_time(self, chunks: Iterable[bytes], deadline_s: float) -> Iterator[bytes]:
        """A deadline for the whole body: httpx bounds each read only."""
        for chunk in chunks:
            if self._clock_s() > deadline_s:
                raise httpx.ReadTimeout(f"not all of it within {self._patience_s:g} s")
            yield chunk

    def _away(self, call: str, error: httpx.HTTPError) -> AwayError:
        rule = "the command needs a running service that this machine can reach"
        remedy = "start one with ecntwin serve, or ecntwin demo --serve for a lab, or correct --url"
        said = str(error) or type(error).__name__
        if "WRONG_VERSION_NUMBER" in said:
            said, rule, remedy = "an answer without TLS", "https:// is for a service with a certificate", ""
            remedy = f"give --url {self.url.replace('https:', 'http:', 1)}"
        elif not call.startswith("GET") and not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            remedy = "check whether it took effect, then try again"
        elif isinstance(error, httpx.RemoteProtocolError) and self.url.startswith("http:"):
            remedy = "give --url with https:// if it speaks TLS, else look at its log"
        return AwayError(f"service at {self.url}", f"no answer to {call} ({said})", rule, remedy)

    def _refused(self, call: str, response: httpx.Response, content: bytes) -> NoReturn:
        status = response.status_code
        kind = AwayError if status >= 500 or status in PASSING else RefusedError
        try:
            found = msgspec.json.decode(_printable(content), type=_Problem)
        except (msgspec.DecodeError, UnicodeDecodeError):
            text = content[:_MOST_QUOTED].decode(errors="replace")
            said = " ".join("".join(one if one.isprintable() else " " for one in text).split()) or "no text"
            raise kind(
                f"service at {self.url}",
                f"{status} to {call}: {said}",
                "an ecntwin service says what is wrong as a problem document",
                "correct --url",
            ) from None
        remedy = found.remedy
        if status == HTTPStatus.UNAUTHORIZED:
            remedy += f" (commands take it from {TOKEN_VARIABLE})"
        if (others := found.error_count - 1) > 0:
            remedy += f" ({others} more mistake{'s' if others > 1 else ''} after this one)"
        raise kind(found.where, found.received, found.rule, "; ".join([remedy, *found.notes]))


def _printable(content: bytes) -> bytes:
    """JSON without terminal control characters: any sender of telemetry can choose names."""
    return _CONTROLS.sub(_REPLACED, content)


def _events(lines: Iterable[str], answer: Callable[[bytes], Answer]) -> Iterator[ServiceEvent | None]:
    """Parses server-sent events (WHATWG); raises ``RefusedError`` for data that is not JSON."""
    frame = _Frame()
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                frame.event = value
            case "data":
                frame.data.append(value)
            case "id":
                frame.id = value
            case "" if line:  # a comment
                yield None
            case "" if frame.data:
                data: dict[str, Any] = answer("\n".join(frame.data).encode()).read(dict[str, Any])
                yield ServiceEvent(frame.event, data, int(frame.id) if frame.id.isdecimal() else None)
                frame = _Frame()
            case "":
                frame = _Frame()
