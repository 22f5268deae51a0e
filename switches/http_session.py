"""JSON over HTTP to one switch, every failure a ``SwitchError``; must not know any platform."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from switches.device import Device
from switches.errors import AccessError, InventoryError, RefusedError, UnreachableError

_LONGEST_DETAIL = 300
_AWAY = frozenset({502, 503, 504})


class HttpSession:
    """Calls to ``base_url`` within the device's ``timeout_s``; ``transport`` replaces the network."""

    def __init__(
        self,
        device: Device,
        base_url: str,
        *,
        auth: httpx.Auth | None = None,
        headers: Mapping[str, str] | None = None,
        keep_alive: bool = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._device = device
        self._base_url = base_url.rstrip("/")
        self._auth = auth
        self._headers = dict(headers or {})
        self._limits = httpx.Limits(max_keepalive_connections=2 if keep_alive else 0)
        self._transport = transport
        self._client: httpx.Client | None = None

    def call(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """One answer that is a success.

        Raises ``UnreachableError`` (no answer, or a gateway's), ``AccessError`` (401, 403), ``RefusedError``
        (any other error answer, with what it said).
        """
        where = self._device.where
        try:
            answer = self._open().request(
                method, path, json=json, content=content, params=params, headers=headers
            )
        except httpx.TimeoutException as error:
            raise UnreachableError(
                where,
                f"no answer to {method} {path} within {self._device.timeout_s:g} s",
                "a switch answers in time",
                "look whether it is up, and whether its management network is",
            ) from error
        except httpx.HTTPError as error:
            raise UnreachableError(
                where,
                f"no connection ({str(error) or type(error).__name__})",
                "a switch takes connections at the address of the inventory",
                "look whether it is up, or correct the address",
            ) from error
        if answer.is_success:
            return answer
        said = f"{answer.status_code} to {method} {path}: {self._detail(answer)}"
        if answer.status_code in (401, 403):
            raise AccessError(
                where, said, "the credentials are the switch's", "correct them, or the account's rights"
            )
        if answer.status_code in _AWAY:
            raise UnreachableError(where, said, "a switch's interface is up", "wait, or look at the switch")
        raise RefusedError(where, said, "the switch takes the call", "look at the switch, and its version")

    def close(self) -> None:
        """Ends its connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _open(self) -> httpx.Client:
        if self._client is None:
            self._client = httpx.Client(
                base_url=self._base_url,
                auth=self._auth,
                headers=self._headers,
                timeout=self._device.timeout_s,
                limits=self._limits,
                verify=self._context() if self._base_url.startswith("https:") else False,
                transport=self._transport,
                trust_env=False,
            )
        return self._client

    def _context(self) -> ssl.SSLContext:
        tls = self._device.tls
        try:
            context = ssl.create_default_context(cafile=None if tls.ca_file is None else str(tls.ca_file))
        except (OSError, ssl.SSLError) as error:
            raise InventoryError(
                f"{self._device.where} tls.ca_file",
                f"{tls.ca_file}: {error.strerror or error}",
                "it holds certificates in PEM",
                "correct the path",
            ) from error
        if not tls.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _detail(self, answer: httpx.Response) -> str:
        """What an error answer says, shortened, without secrets."""
        text = " ".join(_said(answer).split()) or answer.reason_phrase or "nothing more"
        for secret in self._device.secrets():
            text = text.replace(secret, "***")
        return text if len(text) <= _LONGEST_DETAIL else text[:_LONGEST_DETAIL] + "…"


def _said(answer: httpx.Response) -> str:
    try:
        document = answer.json()
    except ValueError:
        return answer.text if answer.headers.get("content-type", "").startswith("text/plain") else ""
    if isinstance(document, Mapping):
        for key in ("detail", "message", "title", "error"):
            found = document.get(key)
            if isinstance(found, str):
                return found
            if isinstance(found, Mapping | Sequence):
                return str(found)
    return str(document)
