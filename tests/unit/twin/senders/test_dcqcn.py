"""DCQCN parameters: the presets' published numbers, and values without a meaning refused."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from telemetry.topology import GBPS
from twin.errors import ParameterError
from twin.senders.dcqcn import PAPER, PRESETS, VENDOR, preset


def test_the_paper_s_numbers() -> None:
    # SIGCOMM 2015, table 2 and section 5.
    assert PAPER.ai_rate_bytes_per_s == 40e6 / 8
    assert PAPER.gain == 1 / 256
    assert (PAPER.cnp_interval_s, PAPER.alpha_timer_s, PAPER.increase_timer_s) == pytest.approx(
        (50e-6, 55e-6, 55e-6)
    )
    assert PAPER.byte_counter_bytes == 10_000_000
    assert PAPER.fast_recovery_steps == 5


def test_the_vendor_s_numbers() -> None:
    assert VENDOR.ai_rate_bytes_per_s == 5e6 / 8
    assert VENDOR.hai_rate_bytes_per_s == 50e6 / 8
    assert VENDOR.min_rate_bytes_per_s == 1e6 / 8
    assert VENDOR.gain == pytest.approx(1 - 1019 / 1024)
    assert VENDOR.increase_timer_s == pytest.approx(300e-6)
    assert VENDOR.byte_counter_bytes == 32_767
    assert VENDOR.clamp_target_rate is False


def test_presets_by_name() -> None:
    assert preset("paper") is PAPER
    assert preset("vendor") is VENDOR
    with pytest.raises(ParameterError, match="known presets are paper, vendor"):
        preset("Paper")
    with pytest.raises(TypeError):
        PRESETS["mine"] = PAPER  # type: ignore[index]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"ai_rate_bytes_per_s": 0.0}, "dcqcn ai_rate_bytes_per_s.*above 0"),
        ({"ai_rate_bytes_per_s": math.nan}, "finite"),
        ({"cnp_interval_s": -1e-6}, "above 0"),
        ({"alpha_timer_s": math.inf}, "finite"),
        ({"increase_timer_s": 0.0}, "above 0"),
        ({"hai_rate_bytes_per_s": -1.0}, "not be negative"),
        ({"min_rate_bytes_per_s": -1.0}, "not be negative"),
        ({"gain": 0.0}, r"\(0, 1\)"),
        ({"gain": 1.0}, r"\(0, 1\)"),
        ({"initial_alpha": 1.5}, r"\[0, 1\]"),
        ({"fast_recovery_steps": 0}, "at least 1"),
        ({"byte_counter_bytes": 0.0}, "or null"),
        ({"feedback_delay_s": math.nan}, "or null"),
    ],
)
def test_values_without_a_meaning_are_refused(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        replace(PAPER, **changed)


def test_what_may_be_absent_or_nothing() -> None:
    quiet = replace(
        PAPER,
        byte_counter_bytes=None,
        feedback_delay_s=None,
        hai_rate_bytes_per_s=0.0,
        min_rate_bytes_per_s=0.0,
        initial_alpha=0.0,
    )
    assert quiet.byte_counter_bytes is None
    with pytest.raises(FrozenInstanceError):
        quiet.gain = 0.5  # type: ignore[misc]
    assert GBPS == 1e9 / 8
