"""Who calls, and whether that is within what they may ask; must not know routes, nor what they need."""

from __future__ import annotations

import ipaddress
import logging
import math

from service.auth.audit import Audit
from service.auth.oidc import WHERE, OidcTokens
from service.auth.rate_limit import RateLimit, RateLimits
from service.auth.tokens import KnownTokens, digest_of
from service.events import Clocks
from service.metrics import AccessMetrics
from settings.errors import ApiError, BusyError, UnauthorizedError, UnavailableError
from settings.security import LOCAL, Caller, RateSettings, SecuritySettings
from settings.validation import is_loopback

GUESSABLE_CHARACTERS = 32
MOST_ADDRESSES = 4_096
LONGEST_WAIT_S = 3_600

_log = logging.getLogger("ecntwin.access")


class Access:
    """Authenticates and limits. ``max_body_bytes`` is what a body holds unless a token's limits say less.

    ``host`` is where the service listens: where others than this machine can reach that, nobody goes without
    a token, whether or not there is one.

    Use from one event loop only. Raises ``SettingsError`` for files of the settings that cannot be used.
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
        # A service may start while its database is away, and find later that there never was a token in it.
        self.required = bool(security.tokens) or security.oidc is not None or not is_loopback(host)
        self._security = security
        self._max_body_bytes = max_body_bytes
        self._metrics = metrics
        self._clocks = clocks
        self._signed = (
            None if security.oidc is None else OidcTokens(security.oidc, clock_s=clocks.monotonic_s)
        )
        self._failures = RateLimits(
            security.failures_per_min / 60,
            security.failures_per_min,
            most=MOST_ADDRESSES,
            clock_s=clocks.monotonic_s,
        )
        self._requests: dict[str, RateLimit] = {}
        self._bytes: dict[str, RateLimit | None] = {}
        self._proven: set[str] = set()
        self.audit: Audit | None = None
        """Where attempts that are refused are written down; an ingest process has none."""

    async def caller(self, authorization: str | None, address: str) -> Caller:
        """Who an ``Authorization`` header names. Raises ``UnauthorizedError``, ``BusyError`` for a wrong one
        from an address that had too many, and ``UnavailableError`` where its issuer is away.
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
        # What could be guessed is not even looked up; what cannot, and what was good before, always is.
        if held == 0.0 or len(text) >= GUESSABLE_CHARACTERS or digest in self._proven:
            found = self.tokens.find(digest, self._clocks.wall_ns() / 1e9)
            if found is not None:
                self._proven.add(digest)
                return found.calling_from(address)
        if self._signed is not None and self._signed.looks_like_one(text):
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
                "its SHA-256 must be among security.tokens, or ecntwin token have made it",
                "use another token, or have this one configured",
            ),
        )

    def admit(self, caller: Caller) -> None:
        """Counts a call; raises ``BusyError`` where it is one too many."""
        if caller.kind == "local":
            return
        wait_s = self._allowance(caller).take()
        if wait_s > 0:
            limits = self._security.limits_for(caller.name)
            raise self._limited(
                caller,
                "requests",
                wait_s,
                f"{limits.requests_per_s:g} calls a second, {limits.burst} at once",
            )
        if (bytes_left := self._bytes[caller.name]) is not None and (wait_s := bytes_left.wait_s()) > 0:
            limits = self._security.limits_for(caller.name)
            raise self._limited(caller, "bytes", wait_s, f"{limits.bytes_per_s:g} bytes a second")

    def received(self, caller: Caller, size: int) -> None:
        """So much of a body of theirs came. A body is never cut: what was too much is waited for after it."""
        if caller.kind != "local" and (left := self._bytes.get(caller.name)) is not None:
            left.spend(size)

    def body_limit(self, caller: Caller) -> int:
        """What a body of theirs holds at most, in bytes."""
        if caller.kind == "local":
            return self._max_body_bytes
        own = self._security.limits_for(caller.name).max_body_bytes
        return self._max_body_bytes if own is None else min(own, self._max_body_bytes)

    def _unread(self) -> UnavailableError | None:
        """Where nobody can be told that a token is unknown, as not all are known."""
        if not self.tokens.stored.unread or self._security.tokens:
            return None
        return UnavailableError(
            WHERE,
            None,
            "tokens are in the database, which has been away since this service started",
            "bring the database back",
        )

    def _text(self, authorization: str | None) -> str:
        scheme, _, text = (authorization or "").partition(" ")
        if scheme.lower() == "bearer" and text.strip():
            return text.strip()
        raise UnauthorizedError(
            WHERE,
            "no bearer token" if authorization else None,
            "this service asks for a bearer token",
            "send Authorization: Bearer <token>",
        )

    def _failed(self, reason: str, failures: RateLimit, address: str, error: ApiError) -> ApiError:
        wait_s = failures.take()
        if wait_s == 0.0:
            self._metrics.failures.labels(reason).inc()
            return error
        self._metrics.failures.labels("too_many").inc()
        return BusyError(
            WHERE,
            None,
            f"too many wrong tokens from this address: at most {self._security.failures_per_min} a minute "
            "(security.failures_per_min)",
            f"use a good one; others are tried again in {_whole(wait_s)} s",
            retry_after_s=_whole(wait_s),
        )

    def _allowance(self, caller: Caller) -> RateLimit:
        found = self._requests.get(caller.name)
        if found is None:
            if len(self._requests) >= MOST_ADDRESSES:  # people of an issuer: nobody says how many there are
                self._requests.clear()
                self._bytes.clear()
            limits = self._security.limits_for(caller.name)
            found = self._requests[caller.name] = RateLimit(
                limits.requests_per_s, limits.burst, clock_s=self._clocks.monotonic_s
            )
            self._bytes[caller.name] = self._bytes_of(limits)
        return found

    def _bytes_of(self, limits: RateSettings) -> RateLimit | None:
        rate = limits.bytes_per_s
        return None if rate is None else RateLimit(rate, rate, clock_s=self._clocks.monotonic_s)

    def _limited(self, caller: Caller, limit: str, wait_s: float, rule: str) -> BusyError:
        self._metrics.limited.labels(caller.label, limit).inc()
        return BusyError(
            f"token {caller.name!r}",
            None,
            f"rate limit: {rule} (security.limits)",
            f"ask again in {_whole(wait_s)} s",
            retry_after_s=_whole(wait_s),
        )


def _whole(wait_s: float) -> int:
    return min(max(math.ceil(wait_s), 1), LONGEST_WAIT_S)


def _network(address: str) -> str:
    """Whose failures are counted together: an address, and of IPv6 the network that one customer is given."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else str(found)
