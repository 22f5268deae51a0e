"""Watermarks in a platform's units and back: nothing is lost on the way, and rounding is toward safety."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from switches.errors import CapabilityError, InventoryError
from switches.units import (
    HIGHEST_INT32,
    DeviceWatermark,
    WatermarkUnits,
    cell_units,
    from_device,
    percent_units,
    to_device,
)
from twin.watermark import Watermark

WHERE = "switch 'leaf1'"
watermarks = st.builds(
    lambda kmin, gap, pmax: Watermark(kmin, kmin + gap, pmax),
    st.integers(0, 2**33),
    st.integers(1, 2**33),
    st.floats(1e-6, 1.0),
)
some_units = st.one_of(
    st.builds(WatermarkUnits, lowest=st.integers(0, 5_000), pmax_steps=st.sampled_from([1, 100, 1_000])),
    st.builds(
        lambda cell, lowest: cell_units(WHERE, cell, lowest=lowest),
        st.integers(1, 20_480),
        st.integers(0, 50),
    ),
    st.builds(lambda buffer: percent_units(WHERE, buffer), st.integers(100, 2**33)),
)


def devices(units: WatermarkUnits) -> st.SearchStrategy[DeviceWatermark]:
    """Marking curves that such a device may hold: no steps."""
    return st.builds(
        lambda pair, pmax: DeviceWatermark(min(pair), max(pair), pmax),
        st.lists(st.integers(units.lowest, min(units.highest, 10**6)), min_size=2, max_size=2, unique=True),
        st.integers(1, units.pmax_steps),
    )


@given(st.data(), some_units)
def test_what_a_device_holds_is_written_back_as_it_was(data: st.DataObject, units: WatermarkUnits) -> None:
    held = data.draw(devices(units))
    again = to_device(from_device(held, units), units)
    assert again.device == held
    assert again.notes == ()


@given(st.data(), some_units)
def test_in_bytes_a_threshold_is_told_exactly_or_as_the_next_byte(
    data: st.DataObject, units: WatermarkUnits
) -> None:
    held = data.draw(devices(units))
    told = from_device(held, units)
    for in_bytes, in_units in ((told.kmin_bytes, held.kmin), (told.kmax_bytes, held.kmax)):
        assert 0 <= in_bytes - in_units * units.unit_bytes < 1
    assert told.pmax == pytest.approx(held.pmax / units.pmax_steps)


@given(watermarks, some_units)
def test_rounding_marks_earlier_never_later(asked: Watermark, units: WatermarkUnits) -> None:
    rounded = to_device(asked, units)
    held, lowest_bytes = rounded.watermark, units.lowest * units.unit_bytes
    assert held.kmin_bytes <= max(asked.kmin_bytes, math.ceil(lowest_bytes))
    assert held.kmax_bytes <= max(asked.kmax_bytes, math.ceil(lowest_bytes + units.unit_bytes))
    assert held.pmax >= asked.pmax - 1e-9
    assert held.pmax <= asked.pmax + 1 / units.pmax_steps
    device = rounded.device
    assert units.lowest <= device.kmin < device.kmax <= units.highest
    assert 1 <= device.pmax <= units.pmax_steps


@given(watermarks, some_units)
def test_a_threshold_is_lowered_by_less_than_a_unit_where_it_fits(
    asked: Watermark, units: WatermarkUnits
) -> None:
    fits = units.lowest * units.unit_bytes <= asked.kmin_bytes
    assume(fits and asked.kmax_bytes <= units.highest * units.unit_bytes)
    assume(asked.kmax_bytes - asked.kmin_bytes >= 2 * units.unit_bytes)
    held = to_device(asked, units).watermark
    assert asked.kmin_bytes - held.kmin_bytes < units.unit_bytes
    assert asked.kmax_bytes - held.kmax_bytes < units.unit_bytes


@given(watermarks, some_units)
def test_rounding_twice_changes_nothing_more(asked: Watermark, units: WatermarkUnits) -> None:
    once = to_device(asked, units)
    twice = to_device(once.watermark, units)
    assert (twice.device, twice.watermark, twice.notes) == (once.device, once.watermark, ())


@given(watermarks, some_units)
def test_a_note_is_made_of_each_value_that_differs_and_of_no_other(
    asked: Watermark, units: WatermarkUnits
) -> None:
    rounded = to_device(asked, units)
    held = rounded.watermark
    differing = [
        held.kmin_bytes != asked.kmin_bytes,
        held.kmax_bytes != asked.kmax_bytes,
        abs(held.pmax - asked.pmax) > 1e-9,
    ]
    assert len(rounded.notes) == sum(differing)


def test_values_that_cannot_be_written_exactly_in_binary_are_not_rounded_up() -> None:
    for steps in range(1, 101):  # 0.07 × 100 is 7.000000000000001
        assert to_device(Watermark(1, 2, steps / 100), WatermarkUnits()).device.pmax == steps


@pytest.mark.parametrize(
    ("asked", "units", "device", "notes"),
    [
        (
            Watermark(1_000, 2_000, 0.021),
            cell_units(WHERE, 208),
            DeviceWatermark(4, 9, 3),
            (
                "Kmin 1000 B is held as 832 B: the switch keeps whole cells of 208 B, 1 to 2147483647.",
                "Kmax 2000 B is held as 1872 B: the switch keeps whole cells of 208 B, 1 to 2147483647.",
                "Pmax 0.021 is held as 0.03: steps of 0.01.",
            ),
        ),
        (
            Watermark(0, 100, 1.0),
            WatermarkUnits(lowest=1_000),
            DeviceWatermark(1_000, 1_001, 100),
            (
                "Kmin 0 B is held as 1000 B: the switch keeps whole bytes, 1000 to 2147483647.",
                "Kmax 100 B is held as 1001 B: the switch keeps whole bytes, 1000 to 2147483647.",
            ),
        ),
        (
            Watermark(1, 2**40, 0.5),
            WatermarkUnits(highest=9_999),
            DeviceWatermark(1, 9_999, 50),
            (f"Kmax {2**40} B is held as 9999 B: the switch keeps whole bytes, 0 to 9999.",),
        ),
    ],
    ids=["cells", "too low", "too high"],
)
def test_what_differs_is_said(
    asked: Watermark, units: WatermarkUnits, device: DeviceWatermark, notes: tuple[str, ...]
) -> None:
    rounded = to_device(asked, units)
    assert (rounded.device, rounded.notes) == (device, notes)


def test_thresholds_that_fall_into_one_unit_stay_apart() -> None:
    device = to_device(Watermark(10_000, 10_001, 0.5), cell_units(WHERE, 208)).device
    assert (device.kmin, device.kmax) == (47, 48)


def test_a_switch_that_holds_no_pair_of_thresholds_is_a_capability_error() -> None:
    with pytest.raises(CapabilityError, match="5 to 5 bytes"):
        to_device(Watermark(5, 6, 0.5), WatermarkUnits(lowest=5, highest=5))


@pytest.mark.parametrize(
    "held",
    [
        DeviceWatermark(10, 9, 5),
        DeviceWatermark(1, 2, 0),
        DeviceWatermark(1, 2, 101),
        DeviceWatermark(0, 0, 5),
    ],
)
def test_what_is_no_marking_curve_is_a_capability_error(held: DeviceWatermark) -> None:
    with pytest.raises(CapabilityError, match="watermark on the switch"):
        from_device(held, WatermarkUnits())


def test_a_step_is_told_as_one_of_a_byte() -> None:
    assert from_device(DeviceWatermark(9, 9, 100), WatermarkUnits()) == Watermark(8, 9, 1.0)


def test_units_of_platforms() -> None:
    assert WatermarkUnits() == WatermarkUnits(highest=HIGHEST_INT32)
    percent = percent_units(WHERE, 1_500_001)
    assert (percent.unit_bytes, percent.highest) == (Fraction(1_500_001, 100), 100)
    assert from_device(DeviceWatermark(1, 100, 10), percent) == Watermark(15_001, 1_500_001, 0.1)


@pytest.mark.parametrize("missing", [None, 0, -1])
def test_a_size_that_the_inventory_must_give_is_asked_for(missing: int | None) -> None:
    with pytest.raises(InventoryError, match="give cell_bytes"):
        cell_units(WHERE, missing)
    with pytest.raises(InventoryError, match="give buffer_bytes"):
        percent_units(WHERE, missing)
