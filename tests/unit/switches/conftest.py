"""Fixtures of the adapters that log in."""

from __future__ import annotations

import pytest

from switches.device import Secret
from tests.counterparts.switches.http_switch import named_credentials


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> dict[str, Secret]:
    return named_credentials(monkeypatch)
