"""The fleet: an adapter a switch, and what most of them run is the one to beat."""

from __future__ import annotations

import asyncio

import pytest

from api.fleet import Fleet
from api.settings import IncumbentSettings, WatermarkSettings
from switches.dryrun import DryRunAdapter
from switches.errors import UnknownSwitchError
from twin.watermark import Watermark

OTHER = WatermarkSettings(kmin_bytes=10, kmax_bytes=20, pmax=0.5)
DEFAULT = IncumbentSettings().default.watermark()


def fleet(**switches: WatermarkSettings) -> Fleet:
    return Fleet(IncumbentSettings(switches=switches), DryRunAdapter, clock_ns=lambda: 1)


def test_switches_are_known_from_settings_and_from_the_topology() -> None:
    one = fleet(leaf2=OTHER)
    one.saw(["leaf1", "leaf1"])
    assert one.names == ("leaf1", "leaf2")
    assert one.running() == {"leaf1": DEFAULT, "leaf2": OTHER.watermark()}


def test_the_one_to_beat_is_what_most_run() -> None:
    one = fleet(a=OTHER, b=OTHER)
    assert one.incumbent(["a", "b", "c"]) == OTHER.watermark()
    assert one.incumbent(["a", "c"]) == DEFAULT
    assert one.incumbent([]) == DEFAULT


def test_a_push_reaches_the_switches_named_and_no_other() -> None:
    one = fleet(a=OTHER, b=OTHER)
    new = Watermark(1, 2, 0.5)

    async def scene() -> list[int]:
        pushed = await one.push(["a"], new)
        assert [item.change.switch for item in pushed] == ["a"]
        return [len(document.records) for document in await one.documents()]

    assert asyncio.run(scene()) == [1, 0]
    assert not one.writes(["a", "b"])


def test_an_unknown_switch_names_the_known_ones() -> None:
    with pytest.raises(UnknownSwitchError, match="known switches are a"):
        asyncio.run(fleet(a=OTHER).document("z"))
    with pytest.raises(UnknownSwitchError, match="none yet"):
        fleet().writes(["z"])
