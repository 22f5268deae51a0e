"""JSON over HTTP to one switch, with one deadline for a whole call; every failure is a ``SwitchError``."""

from __future__ import annotations

import re
import ssl
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx
import msgspec

from switches.device import Device
from switches.errors import AccessError, InventoryError, RefusedError, UnreachableError, late
from switches.transport.deadline import Deadline
from switches.transport.quoted import header_text, quoted

_MOST_BYTES = 16 * 2**20
_NUMBERED = re.compile(r"^\[Errno -?\d+\] ")  # log text without information beside the server's own words
_AWAY = frozenset({502, 503, 504})
_CORRECT_THEM = "correct them, or the account's rights"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a switch answered: its HTTP status and its body."""

    status: int
    content: bytes
    content_type: str = ""

    def json(self, kind: Any = Any) -> Any:
        """The parsed body; raises ``ValueError``."""
        try:
            return msgspec.json.decode(self.content, type=kind)
        except RecursionError:
            raise ValueError("JSON that is nested too deeply") from None


class NotFoundError(RefusedError):
    """The switch answered 404."""


class DeviceAuth(httpx.Auth):
    """The device's credentials, read anew for each call: its token as a bearer, else user and password, or
    none.
    """

    def __init__(self, device: Device) -> None:
        self._device = device

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        token = self._device.credential("token")
        if token is not None:
            said = header_text(f"{self._device.where} token", token)
            request.headers["Authorization"] = f"Bearer {said}"
            yield request
            return
        username = self._device.credential("username")
        if username is None:
            yield request
            return
        password = self._device.credential("password") or ""
        yield from httpx.BasicAuth(username.encode(), password.encode()).auth_flow(request)


class HttpSession:
    """Calls to ``base_url``, each with its answer within the device's ``timeout_s``.

    ``forbidden`` is the remedy for a 403. ``transport`` replaces the network in tests.
    """

    def __init__(
        self,
        device: Device,
        base_url: str,
        *,
        auth: httpx.Auth | None = None,
        keep_alive: bool = True,
        forbidden: str = _CORRECT_THEM,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._device = device
        self._base_url = base_url.rstrip("/")
        self._auth = auth
        self._keep_alive = 2 if keep_alive else 0
        self._forbidden = forbidden
        self._transport = transport
        self._deadline = Deadline()
        self._client: httpx.Client | None = None

    def call(
        self, method: str, path: str, *, json: Any = None, params: Mapping[str, str] | None = None
    ) -> Answer:
        """A successful answer.

        Raises ``UnreachableError`` (no answer, or a gateway's), ``AccessError`` (401, 403, or an untrusted
        certificate), ``NotFoundError`` (404) and ``RefusedError`` (any other error answer, with its text).
        """
        where = self._device.where
        try:
            answer = self._ask(method, path, json, params)
        except httpx.TimeoutException as error:
            raise late(where, f"{method} {path}", self._device.timeout_s) from error
        except (httpx.InvalidURL, UnicodeError) as error:  # UnicodeError: an invalid host name
            rule = "an address is a host or a URL"
            raise InventoryError(where, f"no URL ({error})", rule, "correct the address") from error
        except httpx.HTTPError as error:
            if (distrust := _distrust(error)) is not None:
                raise AccessError(
                    where,
                    f"a certificate that is not trusted ({distrust.verify_message})",
                    "a switch's certificate is signed by an authority known here, for its name",
                    "give tls.ca_file, or tls.server_name where it is another than the address",
                ) from error
            raise UnreachableError(
                where,
                f"no connection ({self.shown(_NUMBERED.sub('', str(error))) or type(error).__name__})",
                "a switch takes connections at the address of the inventory",
                "check that it is up, or correct the address",
            ) from error
        if 200 <= answer.status < 300:
            return answer
        said = f"{answer.status} to {method} {path}: {self.shown(_said(answer)) or 'nothing more'}"
        if answer.status in (401, 403):
            remedy = self._forbidden if answer.status == 403 else _CORRECT_THEM
            raise AccessError(where, said, "the switch must accept the credentials", remedy)
        if answer.status in _AWAY:
            raise UnreachableError(where, said, "the switch's API must be up", "wait, or check the switch")
        refused = NotFoundError if answer.status == 404 else RefusedError
        raise refused(where, said, "the switch takes the call", "check the switch and its version")

    def shown(self, text: str) -> str:
        """The switch's text in one line, shortened, without secrets."""
        return quoted(self._device, text)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _ask(self, method: str, path: str, json: Any, params: Mapping[str, str] | None) -> Answer:
        self._deadline.within(self._device.timeout_s)
        name = self._device.tls.server_name
        body = bytearray()
        with self._open().stream(
            method, path, json=json, params=params, extensions={"sni_hostname": name} if name else None
        ) as answer:
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > _MOST_BYTES:
                    received = f"more than {_MOST_BYTES} bytes to {method} {path}"
                    rule = "a switch's answer fits"
                    raise RefusedError(self._device.where, received, rule, "check what listens there")
            return Answer(answer.status_code, bytes(body), answer.headers.get("content-type", ""))

    def _open(self) -> httpx.Client:
        if self._client is None:
            self._client = httpx.Client(
                base_url=self._base_url,
                auth=self._auth,
                timeout=self._device.timeout_s,
                transport=self._transport or self._network(),
                trust_env=False,
            )
        return self._client

    def _network(self) -> BoundedTransport:
        verify = self._context() if self._base_url.startswith("https:") else False
        return BoundedTransport(self._deadline, verify=verify, keep_alive=self._keep_alive)

    def _context(self) -> ssl.SSLContext:
        context = self._device.tls_context()
        if not self._device.tls.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def base_url_of(device: Device, *, port: int | None = None, path: str = "") -> str:
    """The base URL: the address where it is a URL, else from its parts.

    ``port`` is the platform's default. TLS is on unless the inventory turns it off. Raises ``InventoryError``
    where there is no address, one with a password in it, or two ports.
    """
    if "@" in device.address:
        rule = "credentials are named apart, by their environment variable or file"
        remedy = "name them as username and password, and give the address without"
        raise InventoryError(f"switch {device.name!r} address", "a user or password in it", rule, remedy)
    if not device.address:
        rule = "no address given; a switch is found by its host or URL"
        raise InventoryError(device.where, None, rule, "give its address")
    if device.address.startswith(("http://", "https://")):
        return _with_port(device).rstrip("/") + path
    scheme = "http" if device.tls.enabled is False else "https"
    number = device.port or port
    host = f"[{device.address}]" if device.address.count(":") > 1 else device.address
    return f"{scheme}://{host}{f':{number}' if number else ''}{path}"


def _with_port(device: Device) -> str:
    """A URL with the port of the inventory."""
    try:
        url = httpx.URL(device.address)
    except httpx.InvalidURL as error:
        rule = "an address is a host or a URL"
        raise InventoryError(device.where, f"no URL ({error})", rule, "correct the address") from error
    if device.port is None or device.port == url.port:
        return device.address
    if url.port is not None:
        rule = "it is the port in the address"
        raise InventoryError(f"{device.where} port", str(device.port), rule, "drop one of the two")
    return str(url.copy_with(port=device.port))


def needs_password(device: Device) -> None:
    """Raises ``InventoryError`` for a device without username and password."""
    if device.username is None or device.password is None:
        missing = "username" if device.username is None else "password"
        rule = "this platform takes a user's name and password"
        remedy = f"name the {missing}'s environment variable or file"
        raise InventoryError(f"{device.where} {missing}", None, rule, remedy)


def _distrust(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """The failed certificate check among an error's causes."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error


def _said(answer: Answer) -> str:
    try:
        document = answer.json()
    except ValueError:
        if answer.content_type.startswith("text/plain"):
            return answer.content.decode("utf-8", "replace")
        return ""
    if isinstance(document, Mapping):
        for key in ("detail", "message", "title", "error"):
            found = document.get(key)
            if isinstance(found, str):
                return found
            if isinstance(found, Mapping | Sequence):
                return str(found)
    return str(document)


class BoundedTransport(httpx.HTTPTransport):
    """httpx's transport, over connections that wait no longer than the call has left."""

    def __init__(self, deadline: Deadline, *, verify: ssl.SSLContext | bool, keep_alive: int) -> None:
        super().__init__(verify=verify, trust_env=False)
        self._pool = httpcore.ConnectionPool(
            ssl_context=verify if isinstance(verify, ssl.SSLContext) else None,
            max_keepalive_connections=keep_alive,
            network_backend=_Network(deadline),
        )


class _Network(httpcore.NetworkBackend):
    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._network = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left_s = self._deadline.left_s(timeout, httpcore.ConnectTimeout)
        return _Stream(
            self._network.connect_tcp(host, port, left_s, local_address, socket_options), self._deadline
        )


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left_s(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left_s(timeout, httpcore.WriteTimeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left_s = self._deadline.left_s(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left_s), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def close(self) -> None:
        self._stream.close()
