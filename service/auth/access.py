"""Authenticates callers by bearer token, and applies their rate and body limits."""

from __future__ import annotations

import ipaddress
import math
from typing import TYPE_CHECKING

from service.auth.audit import Audit
from service.auth.rate_limit import RateLimit, RateLimits
from service.auth.tokens import WHERE, KnownTokens, digest_of
from service.events import Clocks
from service.metrics import AccessMetrics
from settings.errors import ApiError, BusyError, UnauthorizedError, UnavailableError
from settings.security import LOCAL, Caller, RateSettings, SecuritySettings
from settings.validation import is_loopback

if TYPE_CHECKING:
    from service.auth.oidc import OidcTokens

GUESSABLE_CHARACTERS = 32
MOST_ADDRESSES = 4_096
LONGEST_WAIT_S = 3_600


class Access:
    """``host`` is where the service listens: unless only this machine can reach it, every call needs a token.
    ``max_body_bytes`` holds where a token's limits say nothing less.

    For one event loop. Raises ``SettingsError`` for a CA file that cannot be used.
    """

    def __init__(
        self,
        security: SecuritySettings,
        *,
        host: str,
        max_body_bytes: int,
        metrics: AccessMetrics,
        clocks: Clocks,
    ) -> None:
        self.tokens = KnownTokens(security.tokens)
        # Also holds where the database, unreachable at start, turns out to hold no token.
        self.required = bool(security.tokens) or security.oidc is not None or not is_loopback(host)
        self._security = security
        self._max_body_bytes = max_body_bytes
        self.metrics = metrics
        self._clocks = clocks
        self._signed: OidcTokens | None = None
        if security.oidc is not None:
            from service.auth.oidc import OidcTokens  # imported here: it needs PyJWT and its cryptography

            self._signed = OidcTokens(security.oidc, clock_s=clocks.monotonic_s)
        self._failures = RateLimits(
            security.failures_per_min / 60,
            security.failures_per_min,
            most=MOST_ADDRESSES,
            clock_s=clocks.monotonic_s,
        )
        self._limits: dict[str, tuple[RateLimit, RateLimit | None]] = {}
        self._proven: set[str] = set()
        self.audit: Audit | None = None
        """Records refused attempts; an ingest process has none."""

    async def caller(self, authorization: str | None, address: str) -> Caller:
        """The caller of an ``Authorization`` header. Raises ``UnauthorizedError``; ``BusyError`` for a wrong
        token after too many from its address; ``UnavailableError`` where the issuer or database is away.
        """
        if not self.required and not self.tokens.any:
            return LOCAL.calling_from(address)
        try:
            text = self._text(authorization)
        except UnauthorizedError as error:
            raise self._unread() or error from None
        digest = digest_of(text)
        failures = self._failures.of(_network(address))
        held = failures.wait_s(1.0)
        # After too many failures, only tokens that cannot be guessed, or were valid before, are looked up.
        if held == 0.0 or len(text) >= GUESSABLE_CHARACTERS or digest in self._proven:
            found = self.tokens.find(digest, self._clocks.wall_ns() / 1e9)
            if found is not None:
                self._proven.add(digest)
                return found.calling_from(address)
        if self._signed is not None and self._signed.looks_signed(text):
            try:
                return (await self._signed.caller(text)).calling_from(address)
            except UnauthorizedError as error:
                raise self._failed("oidc", failures, address, error) from error
        if (unread := self._unread()) is not None:
            raise unread
        raise self._failed(
            "unknown",
            failures,
            address,
            UnauthorizedError(
                WHERE,
                "an unknown token",
                "a token is one ecntwin token create made, or one whose SHA-256 is under security.tokens",
                "use another token, or have this one configured",
            ),
        )

    def admit(self, caller: Caller) -> None:
        """Counts a call; raises ``BusyError`` beyond the caller's limits."""
        if caller.kind == "local":
            return
        limits = self._security.limits_for(caller.name)
        requests, body_bytes = self._limits_of(caller, limits)
        if (wait_s := requests.take()) > 0:
            rule = f"{limits.requests_per_s:g} calls a second, {limits.burst} at once"
            raise self._limited(caller, "requests", wait_s, rule)
        if body_bytes is not None and (wait_s := body_bytes.wait_s()) > 0:
            raise self._limited(caller, "bytes", wait_s, f"{limits.bytes_per_s:g} bytes a second")

    def received(self, caller: Caller, size: int) -> None:
        """Counts received bytes of a body, which is never cut: an excess delays the caller's next call."""
        if (
            caller.kind != "local"
            and (body_bytes := self._limits.get(caller.name, (None, None))[1]) is not None
        ):
            body_bytes.spend(size)

    def body_limit(self, caller: Caller) -> int:
        """The largest body of this caller, in bytes."""
        if caller.kind == "local":
            return self._max_body_bytes
        own = self._security.limits_for(caller.name).max_body_bytes
        return self._max_body_bytes if own is None else min(own, self._max_body_bytes)

    def _unread(self) -> UnavailableError | None:
        """The error while the database's tokens are not read: a token cannot be called unknown yet."""
        if not self.tokens.stored.unread or self._security.tokens:
            return None
        return UnavailableError(
            WHERE,
            None,
            "tokens are in the database, which has been away since this service started",
            "restore the database",
        )

    def _text(self, authorization: str | None) -> str:
        scheme, _, text = (authorization or "").partition(" ")
        if scheme.lower() == "bearer" and text.strip():
            return text.strip()
        raise UnauthorizedError(
            WHERE,
            "no bearer token" if authorization else None,
            "this service requires a bearer token",
            "send Authorization: Bearer <token>",
        )

    def _failed(self, reason: str, failures: RateLimit, address: str, error: ApiError) -> ApiError:
        wait_s = failures.take()
        if wait_s == 0.0:
            self.metrics.failures.labels(reason).inc()
            return error
        self.metrics.failures.labels("too_many").inc()
        return BusyError(
            WHERE,
            None,
            f"too many wrong tokens from this address: at most {self._security.failures_per_min} a minute "
            "(security.failures_per_min)",
            f"use a valid one; others are checked again in {_whole(wait_s)} s",
            retry_after_s=_whole(wait_s),
        )

    def _limits_of(self, caller: Caller, limits: RateSettings) -> tuple[RateLimit, RateLimit | None]:
        found = self._limits.get(caller.name)
        if found is None:
            if len(self._limits) >= MOST_ADDRESSES:  # an issuer's users are not bounded
                self._limits.clear()
            clock_s, rate = self._clocks.monotonic_s, limits.bytes_per_s
            found = self._limits[caller.name] = (
                RateLimit(limits.requests_per_s, limits.burst, clock_s=clock_s),
                None if rate is None else RateLimit(rate, rate, clock_s=clock_s),
            )
        return found

    def _limited(self, caller: Caller, limit: str, wait_s: float, rule: str) -> BusyError:
        self.metrics.limited.labels(caller.label, limit).inc()
        return BusyError(
            f"token {caller.name!r}",
            None,
            f"rate limit: {rule} (security.limits)",
            f"retry in {_whole(wait_s)} s",
            retry_after_s=_whole(wait_s),
        )


def _whole(wait_s: float) -> int:
    return min(max(math.ceil(wait_s), 1), LONGEST_WAIT_S)


def _network(address: str) -> str:
    """The key that failures are counted under: the address, for IPv6 its /64, which one customer gets."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else str(found)
