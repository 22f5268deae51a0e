"""Bearer tokens signed by an OIDC issuer: verified with its keys, their claims mapped to a name and scopes.

Keys are fetched when needed, at most every ``AGAIN_S``, and kept up to ``KEPT_S`` while the issuer is away.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import jwt
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from service.auth.tokens import WHERE
from settings.errors import UnauthorizedError, UnavailableError
from settings.security import Caller, OidcSettings, Scope, private_url
from settings.tls import trusting

LONGEST_NAME = 100


def caller_of(claims: Mapping[str, Any], settings: OidcSettings) -> Caller:
    """The caller of verified claims; without scopes where none of the claim's values is mapped."""
    scopes: set[Scope] = set()
    for value in words(claim(claims, settings.scope_claim)):
        scopes |= settings.scopes.get(value, frozenset())
    return Caller(f"oidc:{name_of(claims, settings.name_claim)}", frozenset(scopes), "oidc")


def claim(claims: Mapping[str, Any], name: str) -> object:
    """A claim by its own name, or by a dotted path into objects; None if missing."""
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def words(value: object) -> list[str]:
    """The values of a claim: a list of strings, or one string separated by spaces."""
    if isinstance(value, str):
        return value.split()
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def name_of(claims: Mapping[str, Any], name: str) -> str:
    """The caller's name in printable characters; the subject where the claim is missing."""
    for one in (name, "sub"):
        value = claim(claims, one)
        if isinstance(value, str) and value.strip():
            shown = "".join(sign if sign.isprintable() else "?" for sign in value.strip())
            return shown[:LONGEST_NAME]
    return "?"


FRESH_S = 600.0
AGAIN_S = 10.0
KEPT_S = 86_400.0
PATIENCE_S = 5.0
LARGEST_BYTES = 1 << 20

_DISCOVERY = "/.well-known/openid-configuration"

_log = logging.getLogger("ecntwin.oidc")


class IssuerKeys:
    """An issuer's public keys. ``clock_s`` is monotonic; for one event loop. Raises ``SettingsError`` for a
    bad ``ca``.
    """

    def __init__(self, settings: OidcSettings, *, clock_s: Callable[[], float]) -> None:
        self._settings = settings
        self._clock_s = clock_s
        self._trust = trusting(settings.ca, "settings security.oidc.ca")
        self._keys: list[dict[str, Any]] = []
        self._fetched_s: float | None = None
        self._tried_s: float | None = None
        self._failure: str | None = None
        self._fetching = asyncio.Lock()

    async def key(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """The key of that id, or the only key where a token names none; None if missing. An RSA key without
        ``alg`` is for ``algorithm``.

        Raises ``UnavailableError`` where it is unknown and the issuer cannot be reached.
        """
        if self._due(kid) or (self._fetching.locked() and self._found(kid) is None):
            async with self._fetching:
                if self._due(kid):  # checked again: another caller may have fetched the keys meanwhile
                    await self._fetch()
        found = self._found(kid)
        if found is None and self._failure is not None:
            raise UnavailableError(
                f"issuer {self._settings.issuer}",
                self._failure,
                "a signed token is checked with its issuer's keys",
                "retry once the issuer answers, or use a token of this service",
            )
        return None if found is None else _made(found, algorithm)

    def _found(self, kid: str | None) -> dict[str, Any] | None:
        if kid is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((one for one in self._keys if one.get("kid") == kid), None)

    def _due(self, kid: str | None) -> bool:
        now_s = self._clock_s()
        if self._fetched_s is not None and now_s - self._fetched_s > KEPT_S:
            self._keys.clear()  # otherwise withdrawn keys would stay valid
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

    async def _keys_of(self, client: httpx.AsyncClient) -> list[dict[str, Any]]:
        url = self._settings.jwks_url or await self._discovered(client)
        listed = (await _document(client, url)).get("keys")
        usable = [one for one in listed if _signs(one)] if isinstance(listed, list) else []
        if not usable:
            raise ValueError(f"no signature key at {url}")
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
    """Whether it is a public signature key; a published shared secret is not."""
    if not isinstance(key, dict) or key.get("kty") not in ("RSA", "EC", "OKP"):
        return False
    if key.get("use", "sig") != "sig" or not isinstance(key.get("kid"), str | None):
        return False
    try:
        PyJWK(key)
    except PyJWTError:
        return False  # of an unknown kind
    return True


def _made(key: dict[str, Any], algorithm: str) -> PyJWK:
    """Raises ``PyJWTError`` where it is not for that algorithm."""
    if key["kty"] == "RSA" and "alg" not in key and algorithm[:2] in ("RS", "PS"):
        return PyJWK(key, algorithm)
    return PyJWK(key)


LONGEST_TOKEN = 16_384


class OidcTokens:
    """Verifies the tokens of one issuer. ``clock_s`` is monotonic; a token's times are the wall clock's."""

    def __init__(self, settings: OidcSettings, *, clock_s: Callable[[], float]) -> None:
        self._settings = settings
        self._keys = IssuerKeys(settings, clock_s=clock_s)

    @staticmethod
    def looks_signed(text: str) -> bool:
        return text.count(".") == 2

    async def caller(self, text: str) -> Caller:
        """The token's caller. Raises ``UnauthorizedError`` for an invalid one, and ``UnavailableError`` where
        its issuer is away.
        """
        try:
            if len(text) > LONGEST_TOKEN:
                raise jwt.DecodeError(f"more than {LONGEST_TOKEN} characters")
            header = jwt.get_unverified_header(text)
            if (algorithm := header.get("alg")) not in self._settings.algorithms:
                raise jwt.InvalidAlgorithmError("another algorithm than the settings allow")
            key = await self._keys.key(header.get("kid"), algorithm)
            if key is None:
                raise jwt.InvalidKeyError("no key of the issuer's has its id")
            return caller_of(self._verified(text, key), self._settings)
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise refused(error, self._settings) from error

    def _verified(self, text: str, key: PyJWK) -> dict[str, object]:
        return jwt.decode(
            text,
            key,
            algorithms=list(self._settings.algorithms),
            audience=self._settings.audience,
            issuer=self._settings.issuer,
            leeway=self._settings.leeway_s,
            options={"require": ["exp", "iss", "aud"]},
        )


def refused(error: Exception, settings: OidcSettings) -> UnauthorizedError:
    """Says what is wrong with a token without quoting it."""
    said = next((text for kind, text in _SAID if isinstance(error, kind)), "a token that cannot be verified")
    return UnauthorizedError(
        WHERE,
        said,
        f"a signed token is valid now, for {settings.audience!r}, and signed by {settings.issuer}",
        "get a new token",
    )


# First match wins, so a class comes before its base.
_SAID: tuple[tuple[type[Exception], str], ...] = (
    (jwt.ExpiredSignatureError, "a token that has expired"),
    (jwt.ImmatureSignatureError, "a token that is not valid yet"),
    (jwt.InvalidAudienceError, "a token for another audience"),
    (jwt.InvalidIssuerError, "a token of another issuer"),
    (jwt.MissingRequiredClaimError, "a token that lacks a claim (exp, iss and aud are needed)"),
    (jwt.InvalidAlgorithmError, "a token signed by an algorithm that is not allowed"),
    (jwt.InvalidKeyError, "a token signed with a key that its issuer does not have"),
    (jwt.InvalidSignatureError, "a token that its issuer did not sign"),
)
