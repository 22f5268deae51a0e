"""Without any token, loopback only; the gate itself is tested where it is (``access``)."""

from __future__ import annotations

from hashlib import sha256

import pytest

from api.deps import check_host
from settings.errors import SettingsError
from settings.security import OidcSettings, SecuritySettings, TokenSettings
from settings.validation import is_loopback

OPEN = SecuritySettings()
CLOSED = SecuritySettings(
    tokens=(TokenSettings(name="eyes", sha256=sha256(b"other").hexdigest(), scopes=frozenset({"read"})),)
)
SIGNED = SecuritySettings(
    oidc=OidcSettings(
        issuer="https://issuer.example", audience="ecntwin", scopes={"net": frozenset({"read"})}
    )
)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]"])
def test_loopback_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    check_host(host, OPEN)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "fabric.example", ""])
def test_any_other_host_needs_one(host: str) -> None:
    with pytest.raises(SettingsError, match="loopback only"):
        check_host(host, OPEN)
    check_host(host, CLOSED)
    check_host(host, SIGNED)
    check_host(host, OPEN, stored=True)
