"""The public keys of an issuer, fetched when they are needed and kept; must not know what they sign.

They are fetched on the event loop without holding it up, once for all who wait, never more often than
``AGAIN_S``, and used for ``KEPT_S`` where the issuer goes away.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Callable
from typing import Any

import httpx
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from settings.errors import UnavailableError
from settings.security import OidcSettings, private_url
from settings.trust import trusting

FRESH_S = 600.0
AGAIN_S = 10.0
KEPT_S = 86_400.0
PATIENCE_S = 5.0
LARGEST_BYTES = 1 << 20

_DISCOVERY = "/.well-known/openid-configuration"

_log = logging.getLogger("ecntwin.oidc")


class IssuerKeys:
    """``clock_s`` is monotonic. Use from one event loop only. Raises ``SettingsError`` for a bad ``ca``."""

    def __init__(self, settings: OidcSettings, *, clock_s: Callable[[], float]) -> None:
        self._settings = settings
        self._clock_s = clock_s
        self._trust: ssl.SSLContext = trusting(settings.ca, "settings security.oidc.ca")
        self._keys: dict[str | None, dict[str, Any]] = {}
        self._fetched_s: float | None = None
        self._tried_s: float | None = None
        self._failure: str | None = None
        self._fetching = asyncio.Lock()

    async def key(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """The key of that id, or the only one there is where a token names none; None where there is none.
        An RSA key that does not say what it is for is for ``algorithm``.

        Raises ``UnavailableError`` where it is not known and the issuer cannot be asked.
        """
        if self._due(kid):
            async with self._fetching:
                if self._due(kid):  # nobody who waited before has fetched it
                    await self._fetch()
        found = self._found(kid)
        if found is None and self._failure is not None:
            raise UnavailableError(
                f"issuer {self._settings.issuer}",
                self._failure,
                "a signed token is checked with its issuer's keys",
                "ask again once the issuer answers, or use a token of this service",
            )
        return None if found is None else _made(found, algorithm)

    def _found(self, kid: str | None) -> dict[str, Any] | None:
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid)

    def _due(self, kid: str | None) -> bool:
        now_s = self._clock_s()
        if self._fetched_s is not None and now_s - self._fetched_s > KEPT_S:
            self._keys.clear()  # withdrawn ones would be good for ever
        fresh = self._fetched_s is not None and now_s - self._fetched_s < FRESH_S
        lately = self._tried_s is not None and now_s - self._tried_s < AGAIN_S
        return not lately and not (fresh and self._found(kid) is not None)

    async def _fetch(self) -> None:
        self._tried_s = self._clock_s()
        try:
            async with (
                asyncio.timeout(PATIENCE_S),
                httpx.AsyncClient(verify=self._trust, timeout=PATIENCE_S, trust_env=False) as client,
            ):
                keys = await self._keys_of(client)
        except (httpx.HTTPError, TimeoutError, ValueError) as error:
            said = str(error) or type(error).__name__
            if self._failure is None:
                _log.warning("keys of issuer %s cannot be fetched: %s", self._settings.issuer, said)
            self._failure = f"no keys ({said})"
            return
        if self._failure is not None:
            _log.info("keys of issuer %s can be fetched again", self._settings.issuer)
        self._keys, self._fetched_s, self._failure = keys, self._tried_s, None

    async def _keys_of(self, client: httpx.AsyncClient) -> dict[str | None, dict[str, Any]]:
        url = self._settings.jwks_url or await self._discovered(client)
        listed = (await _document(client, url)).get("keys")
        usable = {one.get("kid"): one for one in listed if _signs(one)} if isinstance(listed, list) else {}
        if not usable:
            raise ValueError(f"no key that signs at {url}")
        return usable

    async def _discovered(self, client: httpx.AsyncClient) -> str:
        document = await _document(client, self._settings.issuer.rstrip("/") + _DISCOVERY)
        if document.get("issuer") != self._settings.issuer:
            raise ValueError("its discovery document is another issuer's")
        return private_url(str(document.get("jwks_uri")))


async def _document(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    """The JSON object at ``url``; raises ``httpx.HTTPError`` and ``ValueError``."""
    async with client.stream("GET", url, headers={"Accept": "application/json"}) as answer:
        if answer.status_code != httpx.codes.OK:
            raise ValueError(f"{answer.status_code} from {url}")
        content = b""
        async for chunk in answer.aiter_bytes():
            content += chunk
            if len(content) > LARGEST_BYTES:
                raise ValueError(f"more than {LARGEST_BYTES} bytes from {url}")
    try:
        found = json.loads(content)
    except ValueError:
        raise ValueError(f"no JSON from {url}") from None
    if not isinstance(found, dict):
        raise ValueError(f"no JSON object from {url}")
    return found


def _signs(key: object) -> bool:
    """A public key for signatures; a shared secret that somebody published is none."""
    if not isinstance(key, dict) or key.get("kty") not in ("RSA", "EC", "OKP"):
        return False
    if key.get("use", "sig") != "sig" or not isinstance(key.get("kid"), str | None):
        return False
    try:
        PyJWK(key)
    except PyJWTError:
        return False  # of a kind that is not known here
    return True


def _made(key: dict[str, Any], algorithm: str) -> PyJWK:
    """Raises ``PyJWTError`` where it is not for that algorithm."""
    if key["kty"] == "RSA" and "alg" not in key and algorithm[:2] in ("RS", "PS"):
        return PyJWK(key, algorithm)
    return PyJWK(key)
