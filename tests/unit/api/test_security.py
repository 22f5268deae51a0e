"""Bearer tokens: known by hash, holding scopes; without any, loopback only."""

from __future__ import annotations

from hashlib import sha256

import pytest

from api.addresses import is_loopback
from api.errors import SettingsError, UnauthorizedError
from api.security import authenticate, check_host
from api.settings import SecuritySettings, TokenSettings

OPEN = SecuritySettings()
CLOSED = SecuritySettings(
    tokens=(
        TokenSettings(
            name="sink", sha256=sha256(b"s3cret").hexdigest().upper(), scopes=frozenset({"telemetry"})
        ),
        TokenSettings(name="eyes", sha256=sha256(b"other").hexdigest(), scopes=frozenset({"read"})),
    )
)


def test_without_tokens_everyone_here_may_do_everything() -> None:
    assert authenticate(OPEN, None).scopes == {"telemetry", "read", "operate", "admin"}


@pytest.mark.parametrize("header", ["Bearer s3cret", "bearer  s3cret "])
def test_a_token_is_known_by_its_hash(header: str) -> None:
    caller = authenticate(CLOSED, header)
    assert (caller.name, caller.scopes) == ("sink", {"telemetry"})


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic s3cret", "Bearer wrong", "s3cret"])
def test_anything_else_is_refused_and_never_echoed(header: str | None) -> None:
    with pytest.raises(UnauthorizedError) as caught:
        authenticate(CLOSED, header)
    assert "s3cret" not in str(caught.value)
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]"])
def test_loopback_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    check_host(host, OPEN)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "fabric.example", ""])
def test_any_other_host_needs_one(host: str) -> None:
    with pytest.raises(SettingsError, match="loopback only"):
        check_host(host, OPEN)
    check_host(host, CLOSED)
