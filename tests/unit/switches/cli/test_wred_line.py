"""The line that holds a watermark, in the grammars of both platforms that have one; and where it is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switches.adapter import name_of, policies_of
from switches.cli import eos, nxos
from switches.cli.wred_line import Grammar, Spot, WredLineAdapter, below, sections
from switches.device import Device, Secret, UnitProfile
from switches.errors import CapabilityError, InventoryError
from switches.units import to_device
from twin.watermark import Watermark

EOS, NXOS = eos._GRAMMAR, nxos._GRAMMAR


def device_with(units: UnitProfile) -> Device:
    secret = Secret(env="ANY")
    return Device(
        name="leaf1", platform="any", address="leaf1", units=units, username=secret, password=secret
    )


DEVICE = device_with(UnitProfile(cell_bytes=208))


def adapter(grammar: Grammar, device: Device = DEVICE, *, kilo_bytes: int = 1000) -> WredLineAdapter:
    return WredLineAdapter(device, grammar, kilo_bytes=kilo_bytes, clock_ns=lambda: 0)


def read(grammar: Grammar, *lines: str, device: Device = DEVICE, kilo_bytes: int = 1000) -> Spot:
    return adapter(grammar, device, kilo_bytes=kilo_bytes)._spot(("above",), "ROCE", 3, lines)


@pytest.mark.parametrize(
    ("grammar", "line", "mark"),
    [
        (
            EOS,
            "random-detect ecn minimum-threshold 150 kbytes maximum-threshold 1500 kbytes"
            " max-mark-probability 20 weight 0",
            Watermark(150_000, 1_500_000, 0.2),
        ),
        (
            EOS,
            "random-detect ecn minimum-threshold 2000 segments maximum-threshold 10000 segments"
            " max-mark-probability 20 weight 0",
            Watermark(416_000, 2_080_000, 0.2),
        ),
        (
            EOS,
            "random-detect ecn minimum-threshold 800 kbytes maximum-threshold 2 mbytes"
            " max-mark-probability 1",
            Watermark(800_000, 2_000_000, 0.01),
        ),
        (
            NXOS,
            "random-detect minimum-threshold 150 kbytes maximum-threshold 3000 kbytes drop-probability 7"
            " weight 0 ecn",
            Watermark(150_000, 3_000_000, 0.07),
        ),
        (  # a step: both thresholds the same
            NXOS,
            "random-detect minimum-threshold 300 kbytes maximum-threshold 300 kbytes drop-probability 100"
            " weight 0 ecn",
            Watermark(299_999, 300_000, 1.0),
        ),
    ],
)
def test_lines_as_operators_have_them_are_read(grammar: Grammar, line: str, mark: Watermark) -> None:
    found = read(grammar, "bandwidth percent 50", line)
    assert (found.watermark, found.line) == (mark, line)


def test_what_kbytes_means_is_the_inventorys_to_say() -> None:
    line = (
        "random-detect minimum-threshold 1 kbytes maximum-threshold 1 mbytes drop-probability 7 weight 0 ecn"
    )
    assert read(NXOS, line, kilo_bytes=1024).watermark == Watermark(1024, 1024**2, 0.07)


@pytest.mark.parametrize(
    ("grammar", "line"),
    [
        (
            NXOS,
            "random-detect minimum-threshold 9 bytes maximum-threshold 10 bytes drop-probability 7 weight 0",
        ),
        (
            NXOS,
            "random-detect minimum-threshold 9 bytes maximum-threshold 10 bytes drop-probability 0 weight 0"
            " ecn",
        ),
    ],
)
def test_a_line_that_only_drops_or_never_marks_is_no_watermark(grammar: Grammar, line: str) -> None:
    found = read(grammar, line)
    assert (found.watermark, found.line) == (None, line)


@pytest.mark.parametrize(
    ("grammar", "line", "says"),
    [
        (EOS, "random-detect ecn minimum-threshold 1 milliseconds maximum-threshold 2 milliseconds"
              " max-mark-probability 5 weight 0", "thresholds in milliseconds"),
        (EOS, "random-detect ecn minimum-threshold 1 kbytes maximum-threshold 2 kbytes", "one line gives"),
        (NXOS, "random-detect threshold burst-optimized ecn", "burst-optimized"),
        (NXOS, "random-detect minimum-threshold 9 us maximum-threshold 10 us drop-probability 7 weight 0 ecn",
         "thresholds in us"),
        (NXOS, "random-detect minimum-threshold 9 bytes maximum-threshold 5 bytes drop-probability 7 ecn",
         "Kmin is at most Kmax"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_said_with_its_queue(grammar: Grammar, line: str, says: str) -> None:
    with pytest.raises(CapabilityError, match=f"'leaf1' .* ROCE queue 3: .*{says}"):
        read(grammar, line)


def test_segments_need_their_size() -> None:
    line = (
        "random-detect ecn minimum-threshold 9 segments maximum-threshold 10 segments max-mark-probability 5"
    )
    with pytest.raises(CapabilityError, match="cell_bytes"):
        read(EOS, line, device=device_with(UnitProfile()))


@pytest.mark.parametrize(
    ("grammar", "thresholds"), [(EOS, "milliseconds"), (EOS, "cells"), (NXOS, "packets"), (NXOS, "segments")]
)
def test_a_unit_that_the_platform_does_not_write_is_refused(grammar: Grammar, thresholds: str) -> None:
    device = device_with(UnitProfile(thresholds=thresholds, cell_bytes=208))
    with pytest.raises(InventoryError, match=r"units\.thresholds"):
        adapter(grammar, device)


@given(
    st.integers(0, 10_000_000),
    st.integers(1, 10_000_000),
    st.floats(0.001, 1.0),
    st.sampled_from([(one, unit) for one in (EOS, NXOS) for unit in one.units]),
    st.integers(0, 15),
)
def test_what_is_written_is_read_back_the_same(
    kmin: int, width: int, pmax: float, written: tuple[Grammar, str], weight: int
) -> None:
    grammar, unit = written
    device = device_with(UnitProfile(thresholds=unit, cell_bytes=208))
    rounded = to_device(Watermark(kmin, kmin + width, pmax), adapter(grammar, device)._units)
    asked = rounded.device
    line = grammar.template.format(
        kmin=asked.kmin, kmax=asked.kmax, unit=unit, pmax=asked.pmax, weight=weight
    )
    found = read(grammar, line)
    assert (found.watermark, found.weight) == (rounded.watermark, weight)


def test_a_configuration_is_nested_by_indentation() -> None:
    text = """
!Command: show
qos profile ROCE
   uc-tx-queue 3
      random-detect ecn count
   !
   uc-tx-queue 4
interface Ethernet1
   mtu   9214
qos profile ROCE
   qos trust dscp
"""
    assert sections(text) == {
        "qos profile ROCE": {
            "uc-tx-queue 3": {"random-detect ecn count": {}},
            "uc-tx-queue 4": {},
            "qos trust dscp": {},
        },
        "interface Ethernet1": {"mtu 9214": {}},
    }
    assert [name for name, _ in below(sections(text), "qos profile ")] == ["ROCE"]


@given(st.text(alphabet=" \n!abc\t", max_size=200))
def test_any_text_is_a_configuration(text: str) -> None:
    assert isinstance(sections(text), dict)


def test_policies_are_those_of_the_wanted_ports_and_of_no_other() -> None:
    applied = [("Ethernet1", "A"), ("Ethernet2", "A"), ("Ethernet49", "B")]
    pods = Device(name="leaf1", platform="eos", ports=("Ethernet[12]",))
    assert policies_of(pods, applied, None, "profile") == ("A",)
    assert policies_of(pods, applied, "C", "profile") == ("C",)
    assert policies_of(Device(name="leaf1", platform="eos"), applied, None, "profile") == ("A", "B")
    with pytest.raises(CapabilityError, match="applied to Ethernet2 too"):
        policies_of(Device(name="leaf1", platform="eos", ports=("Ethernet1",)), applied, None, "profile")
    with pytest.raises(CapabilityError, match="no profile on the ports"):
        policies_of(pods, [("Ethernet49", "B")], None, "profile")


@given(st.text(max_size=80), st.text(max_size=80))
def test_changes_have_names_of_their_own_that_a_device_takes(one: str, other: str) -> None:
    assert name_of(one) == name_of(one)
    assert set(name_of(one)) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
    assert len(name_of(one)) <= 64
    assert one == other or name_of(one) != name_of(other)
