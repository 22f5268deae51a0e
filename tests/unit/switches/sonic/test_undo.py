"""An undo on a SONiC switch whose rows others have changed since: what keeps it off, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from switches.base import StagedChange
from switches.errors import ConcurrentEditError
from switches.sonic.redis_adapter import SonicAdapter
from tests.counterparts.switches.sonic_switch import SonicSwitch, qos_config, wred_row
from twin.watermark import Watermark

MakeAdapter = Callable[..., SonicAdapter]

OLD = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)
HIGHER = Watermark(2_000_000, 8_000_000, 0.5)
OTHER = Watermark(700_000, 900_000, 0.9)
PORTS = ("Ethernet0", "Ethernet4", "Ethernet8")


def made(adapter: SonicAdapter) -> StagedChange:
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    adapter.verify(change)
    return change


@pytest.mark.parametrize(
    "rows",
    [
        {"QUEUE|Ethernet12|3": {"wred_profile": "A"}, "QUEUE|Ethernet12|3-4": {"wred_profile": "B"}},
        {"QUEUE|Ethernet4,Ethernet12|3-4": {"scheduler": "scheduler.1"}},
        {"QUEUE|Ethernet12|0-100000000": {"wred_profile": "A"}},
    ],
    ids=["two for another queue", "one more without a profile", "of more queues than there are"],
)
def test_rows_that_say_nothing_of_its_queues_keep_off_no_undo(
    rows: dict[str, dict[str, str]], switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    change = made(adapter())
    switch.set_config(rows)
    adapter().rollback(change)
    for port in PORTS:
        assert switch.config_db()[f"QUEUE|{port}|3"]["wred_profile"] == "AZURE_LOSSLESS"


def test_a_row_that_somebody_has_put_in_the_place_of_its_own_is_theirs(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    change = made(adapter())
    bound = switch.config_db()["QUEUE|Ethernet8|3"]
    switch.remove_config(["QUEUE|Ethernet8|3"])
    switch.set_config({"QUEUE|Ethernet8|3-4": bound})
    rows = switch.config_db()
    with pytest.raises(ConcurrentEditError, match=r"QUEUE\|Ethernet8\|3-4"):
        adapter().rollback(change)
    assert switch.config_db() == rows


def test_a_profile_of_a_port_that_is_gone_is_not_made_again(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    rows = qos_config(PORTS, OLD) | {"WRED_PROFILE|EIGHT": wred_row(HIGHER)}
    rows["QUEUE|Ethernet8|3"] = rows["QUEUE|Ethernet8|3"] | {"wred_profile": "EIGHT"}
    switch.reset(rows)
    change = made(adapter())
    gone = ["QUEUE|Ethernet8|3", "WRED_PROFILE|EIGHT"]
    switch.remove_config(gone)
    adapter().rollback(change)
    assert switch.config_db() == {key: row for key, row in rows.items() if key not in gone}


@pytest.mark.parametrize("row", [wred_row(NEW), wred_row(OTHER)], ids=["as it was set", "edited since"])
def test_a_profile_that_was_edited_in_place_is_put_back_for_whoever_has_it_by_now(
    row: dict[str, str], switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    in_place: dict[str, Any] = {"queues": (3, 4), "options": {"own_profile": False}}
    rows = qos_config(PORTS, OLD) | {"WRED_PROFILE|EIGHT": wred_row(HIGHER)}
    gone = ["QUEUE|Ethernet8|3", "QUEUE|Ethernet8|4"]
    rows |= {key: rows[key] | {"wred_profile": "EIGHT"} for key in gone}
    switch.reset(rows)
    change = made(adapter(**in_place))
    assert switch.config_db()["WRED_PROFILE|EIGHT"] == wred_row(NEW)
    switch.remove_config(gone)
    switch.set_config({"QUEUE|Ethernet12|3": {"wred_profile": "EIGHT"}, "WRED_PROFILE|EIGHT": row})
    adapter(**in_place).rollback(change)
    found = switch.config_db()
    assert found["WRED_PROFILE|AZURE_LOSSLESS"] == rows["WRED_PROFILE|AZURE_LOSSLESS"]
    assert found["WRED_PROFILE|EIGHT"] == wred_row(HIGHER if row == wred_row(NEW) else OTHER)
