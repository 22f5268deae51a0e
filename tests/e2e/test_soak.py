"""Three minutes of ``make soak``: nothing grows, nothing fails, and rounds and rollouts go on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.soak.conduct import soak

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MINUTES = 3.0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="worker processes are found through /proc")
def test_a_service_under_load_grows_in_nothing(tmp_path: Path) -> None:
    found = soak(MINUTES, tmp_path, lambda whole, taken: None)
    assert found.wrong == [], found.verdicts
