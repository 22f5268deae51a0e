"""The demo's closed loop gains more than the best of twelve settings: a seed here, ten in ``bench``."""

from __future__ import annotations

import pytest

from bench import closed_loop

pytestmark = [pytest.mark.accuracy, pytest.mark.slow]


def test_the_closed_loop_beats_the_best_setting_that_stays() -> None:
    (row,) = closed_loop.run([1])
    assert row["pushes"] > 0
    assert row["gain"] > 0
    assert row["lead"] > 0
