"""Window settings: rejected values, and settings fitted to a recording."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from telemetry.errors import WindowError
from telemetry.report import ReportBatch
from telemetry.settings import WindowSettings
from telemetry.window.window import Window

START_NS = 1_767_225_600_000_000_000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("period_ns", 0),
        ("period_ns", 1.5),
        ("n_periods", -1),
        ("n_periods", True),
        ("elephant_bytes", 0),
        ("elephant_bytes", math.nan),
        ("elephant_bytes", "1MB"),
        ("max_flows", 0),
        ("idle_gap_ns", -1),
        ("default_rate_gbps", 0.0),
        ("default_delay_us", -0.1),
        ("default_delay_us", math.inf),
    ],
)
def test_a_setting_without_meaning_is_named(field: str, value: Any) -> None:
    with pytest.raises(WindowError, match=f"window {field}: received"):
        WindowSettings(**{field: value})


def test_covering_holds_a_whole_recording(
    report: Callable[..., dict[str, Any]], batch: Callable[..., ReportBatch]
) -> None:
    reports = batch([report(START_NS + 7 + number * 13) for number in range(1000)])
    settings = WindowSettings.covering(reports, elephant_bytes=5)
    assert settings.elephant_bytes == 5
    window = Window(settings)
    assert window.add(reports).rejected == 0
    state = window.state()
    assert state.n_reports == 1000
    assert state.window_end_ns == START_NS + 7 + 999 * 13 + 1


def test_covering_is_not_stretched_by_a_wrong_clock(
    report: Callable[..., dict[str, Any]], batch: Callable[..., ReportBatch]
) -> None:
    day_ns = 86_400 * 10**9
    reports = batch([report(START_NS + day_ns), *(report(START_NS + n * 1000) for n in range(1000))])
    settings = WindowSettings.covering(reports)
    assert settings.length_ns < 2_000_000
    window = Window(settings)
    assert window.add(reports).rejected == 1
    assert window.state().n_reports == 1000


def test_covering_nothing_is_refused() -> None:
    with pytest.raises(WindowError, match="window: the recording holds no reports"):
        WindowSettings.covering(ReportBatch.empty())
