"""Who is let in: by which token, from where, and while it is not known which there are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from service.auth import access
from service.auth.access import Access
from service.auth.tokens import DatabaseTokens, digest_of
from service.events import Clocks
from service.metrics import AccessMetrics
from settings.errors import BusyError, UnauthorizedError, UnavailableError
from settings.security import Caller, RateSettings, SecuritySettings, TokenSettings, scopes_of

TOKEN = TokenSettings(name="eyes", sha256=digest_of("s3cret").upper(), scopes=frozenset({"read"}))
ADDRESS = "192.0.2.7"
LONG = "a" * 40


@dataclass
class Gate:
    """An access of its own clock."""

    security: SecuritySettings = field(default_factory=lambda: SecuritySettings(tokens=(TOKEN,)))
    now_s: float = 1_000.0
    host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        self.access = Access(
            self.security,
            host=self.host,
            max_body_bytes=1_000,
            metrics=AccessMetrics(CollectorRegistry()),
            clocks=Clocks(lambda: self.now_s, lambda: round(self.now_s * 1e9)),
        )

    def __call__(self, header: str | None, address: str = ADDRESS) -> Caller:
        return asyncio.run(self.access.caller(header, address))

    def wrong(self, count: int, address: str = ADDRESS) -> None:
        for _ in range(count):
            with pytest.raises((UnauthorizedError, BusyError)):
                self("Bearer nothing", address)


@pytest.mark.parametrize("header", ["Bearer s3cret", "bearer  s3cret "])
def test_a_token_is_known_by_its_hash(header: str) -> None:
    caller = Gate()(header)
    assert (caller.name, caller.scopes, caller.address) == ("eyes", {"read"}, ADDRESS)
    assert caller.label == "eyes"


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic s3cret", "Bearer wrong", "s3cret"])
def test_anything_else_is_refused_and_never_echoed(header: str | None) -> None:
    with pytest.raises(UnauthorizedError) as caught:
        Gate()(header)
    assert "s3cret" not in str(caught.value)
    assert "wrong" not in str(caught.value)


def test_without_any_token_everyone_here_may_do_everything() -> None:
    gate = Gate(SecuritySettings())
    assert gate(None).scopes == {"telemetry", "read", "operate", "admin"}
    gate.access.tokens.stored = DatabaseTokens(ever=True)
    with pytest.raises(UnauthorizedError):
        gate(None)


def test_an_address_of_the_network_is_open_to_nobody_whatever_its_database_turns_out_to_hold() -> None:
    gate = Gate(SecuritySettings(), host="0.0.0.0")
    gate.access.tokens.stored = DatabaseTokens(unread=True)
    with pytest.raises(UnavailableError, match="database"):
        gate(None)
    gate.access.tokens.stored = DatabaseTokens()  # it is back, and no token was ever made in it
    for header in (None, "Bearer x"):
        with pytest.raises(UnauthorizedError):
            gate(header)


def test_until_the_tokens_could_be_read_nobody_is_told_that_theirs_is_wrong() -> None:
    gate = Gate(SecuritySettings())
    gate.access.tokens.stored = DatabaseTokens(unread=True)
    for header in (None, "Bearer x"):
        with pytest.raises(UnavailableError, match="database"):
            gate(header)
    of_settings = Gate()
    of_settings.access.tokens.stored = DatabaseTokens(unread=True)
    assert of_settings("Bearer s3cret").name == "eyes"
    of_settings.access.tokens.stored = DatabaseTokens(
        live={digest_of(LONG): Caller("db", scopes_of("read what"))}, ever=True
    )
    assert of_settings(f"Bearer {LONG}").scopes == {"read"}


def test_failures_are_counted_by_address_and_by_network() -> None:
    gate = Gate(SecuritySettings(tokens=(TOKEN,), failures_per_min=2))
    gate.wrong(2)
    with pytest.raises(BusyError) as caught:
        gate("Bearer s3cret")  # the right guess, from where so many were wrong
    assert caught.value.retry_after_s == 30
    assert gate("Bearer s3cret", "192.0.2.8").name == "eyes", "another address"
    assert gate("Bearer s3cret").name == "eyes", "it has been shown to be good"
    gate.wrong(2, "2001:db8::1")
    with pytest.raises(BusyError):
        gate("Bearer other", "2001:db8::2")
    with pytest.raises(UnauthorizedError):
        gate("Bearer other", "2001:db8:0:1::2")


def test_many_addresses_take_no_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_ADDRESSES", 20)
    gate = Gate(SecuritySettings(tokens=(TOKEN,), failures_per_min=1))
    for number in range(30):
        gate.wrong(1, f"10.0.0.{number}")
    with pytest.raises(BusyError):
        gate("Bearer other", "10.0.0.10")
    with pytest.raises(UnauthorizedError):  # the twenty-first from the end is forgotten
        gate("Bearer other", "10.0.0.9")


def test_no_token_may_have_larger_bodies_than_the_server() -> None:
    of = {"eyes": RateSettings(max_body_bytes=5_000), "small": RateSettings(max_body_bytes=10)}
    access = Gate(SecuritySettings(tokens=(TOKEN,), limits_of=of)).access
    limits = [access.body_limit(Caller(name, frozenset())) for name in ("eyes", "small", "other")]
    assert limits == [1_000, 10, 1_000]


def test_people_of_an_issuer_are_counted_together_in_metrics_and_apart_in_limits() -> None:
    access = Gate(SecuritySettings(limits=RateSettings(burst=1, requests_per_s=0.01))).access
    people = [Caller(f"oidc:{name}", frozenset(), "oidc") for name in ("ada", "bob")]
    for caller in people:
        access.admit(caller)
        with pytest.raises(BusyError):
            access.admit(caller)
    assert {caller.label for caller in people} == {"oidc"}
