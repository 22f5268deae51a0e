"""Rows of WRED_PROFILE: what they mean, and what becomes of each field when a watermark is set in one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switches.errors import CapabilityError
from switches.sonic.wred_profile import UNITS, check_known, own_name, own_prefix, watermark_in, with_watermark
from switches.units import to_device
from tests.counterparts.switches.sonic_switch import wred_row
from twin.watermark import Watermark

OLD = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)
DEVICE = to_device(NEW, UNITS).device


def test_a_usual_row_is_its_green_values() -> None:
    assert watermark_in(wred_row(OLD), "leaf1") == OLD


@pytest.mark.parametrize(
    "fields",
    [
        {"wred_green_enable": "false"},
        {"ecn": "ecn_none"},
        {"ecn": "ecn_yellow_red"},
        {"green_drop_probability": "0"},
    ],
)
def test_green_that_is_not_marked_is_no_watermark(fields: dict[str, str]) -> None:
    assert watermark_in(wred_row(OLD, **fields), "leaf1") is None


def test_an_absent_enable_is_off_and_an_absent_probability_is_all() -> None:
    row = wred_row(OLD)
    del row["green_drop_probability"]
    assert watermark_in(row, "leaf1") == Watermark(400_000, 1_600_000, 1.0)
    del row["wred_green_enable"]
    assert watermark_in(row, "leaf1") is None
    assert watermark_in({}, "leaf1") is None


@pytest.mark.parametrize(
    "fields",
    [
        {"green_min_threshold": "many"},
        {"green_min_threshold": "1600001"},
        {"green_max_threshold": "0", "green_min_threshold": "0"},
        {"green_drop_probability": "101"},
    ],
)
def test_values_that_are_no_curve_name_the_queue(fields: dict[str, str]) -> None:
    with pytest.raises(CapabilityError, match=r"QUEUE\|Ethernet0\|3"):
        watermark_in(wred_row(OLD, **fields), "QUEUE|Ethernet0|3")


def test_colours_that_ran_alike_go_on_running_alike() -> None:
    made = with_watermark(wred_row(OLD), DEVICE)
    assert made == wred_row(NEW)


def test_colours_that_ran_their_own_values_keep_them() -> None:
    own = {"red_min_threshold": "7", "red_max_threshold": "9", "red_drop_probability": "100"}
    made = with_watermark(wred_row(OLD, **own), DEVICE)
    assert {field: made[field] for field in own} == own
    assert made["yellow_max_threshold"] == "200000"
    assert watermark_in(made, "leaf1") == NEW


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("ecn_none", "ecn_green"),
        ("ecn_yellow", "ecn_green_yellow"),
        ("ecn_red", "ecn_green_red"),
        ("ecn_yellow_red", "ecn_all"),
        ("ecn_green", "ecn_green"),
        ("ecn_green_red", "ecn_green_red"),
        ("ecn_all", "ecn_all"),
    ],
)
def test_green_is_added_to_the_colours_that_are_marked(was: str, becomes: str) -> None:
    assert with_watermark(wred_row(OLD, ecn=was, wred_green_enable="false"), DEVICE)["ecn"] == becomes


def test_an_empty_row_gets_green_only() -> None:
    assert with_watermark({}, DEVICE) == {
        "ecn": "ecn_green",
        "wred_green_enable": "true",
        "green_min_threshold": "50000",
        "green_max_threshold": "200000",
        "green_drop_probability": "5",
    }


def test_thresholds_of_marking_are_set_where_the_row_has_them_and_those_of_dropping_are_left() -> None:
    row = wred_row(OLD, ecn_green_min_threshold="100000", ecn_green_max_threshold="300000")
    assert watermark_in(row, "leaf1") == Watermark(100_000, 300_000, 0.2)
    made = with_watermark(row, DEVICE)
    assert watermark_in(made, "leaf1") == NEW
    assert made["ecn_green_mark_probability"] == "5"
    assert [made[f"green_{end}_threshold"] for end in ("min", "max")] == ["400000", "1600000"]


def test_a_field_nobody_knows_is_not_copied_blindly() -> None:
    check_known("AZURE_LOSSLESS", wred_row(OLD), "leaf1")
    with pytest.raises(CapabilityError, match=r"'green_ect_min_threshold' in WRED_PROFILE\|AZURE_LOSSLESS"):
        check_known("AZURE_LOSSLESS", wred_row(OLD, green_ect_min_threshold="1"), "leaf1")


def test_a_name_follows_from_content_and_place() -> None:
    prefix = own_prefix((4, 3), ("Ethernet4", "Ethernet0"))
    assert prefix == own_prefix((3, 4), ("Ethernet0", "Ethernet4"))
    assert prefix != own_prefix((3, 4), ("Ethernet0",))
    row = wred_row(NEW)
    assert own_name(prefix, row) == own_name(prefix, dict(reversed(row.items())))
    assert len({own_name(prefix, row), own_name(prefix, wred_row(OLD)), own_name(prefix, row, 1)}) == 3


@given(
    st.sets(st.integers(0, 63), min_size=1),
    st.sets(st.text(max_size=20), max_size=3),
    st.integers(0, 2**31 - 2),
    st.integers(1, 2**31 - 1),
    st.integers(1, 100),
)
def test_any_queues_and_watermark_make_a_name_and_a_row_that_orchagent_reads(
    queues: set[int], ports: set[str], low: int, width: int, percent: int
) -> None:
    asked = Watermark(low, min(low + width, 2**31 - 1), percent / 100)
    made = with_watermark(wred_row(OLD), to_device(asked, UNITS).device)
    assert watermark_in(made, "leaf1") == asked
    name = own_name(own_prefix(queues, ports), made)
    assert re.fullmatch(r"[a-zA-Z0-9]{1}([-a-zA-Z0-9_]{0,31})", name)
    assert all(0 <= int(made[field]) <= 2**31 - 1 for field in made if "threshold" in field)
