"""The demo's closed loop gains more than its two fixed settings: a seed here, ten and twelve in ``bench``."""

from __future__ import annotations

import pytest

from bench import closed_loop
from lab.demo.plan import PAPER, VENDOR_DEFAULT

pytestmark = [pytest.mark.accuracy, pytest.mark.slow]


def test_the_closed_loop_beats_both_settings_of_the_demo() -> None:
    (row,) = closed_loop.run([1], statics=(VENDOR_DEFAULT, PAPER))
    assert row["pushes"] > 0
    assert row["gain"] > max(row["statics"].values())
    assert row["lead"] == pytest.approx(row["gain"] - max(row["statics"].values()))
