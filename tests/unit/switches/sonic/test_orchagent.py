"""The stand-in for orchagent is as strict as the real one: what it lets pass would pass on a switch."""

from __future__ import annotations

import pytest

from tests.counterparts.switches.orchagent import Orchagent
from tests.counterparts.switches.sonic_switch import wred_row
from twin.watermark import Watermark

OLD = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)
HIGHER = Watermark(2_000_000, 8_000_000, 0.5)


@pytest.fixture
def agent() -> Orchagent:
    agent = Orchagent({("Ethernet0", 3): "oid:0x15", ("Ethernet0", 4): "oid:0x16"}, lambda key, fields: None)
    agent.heard("WRED_PROFILE", "A", wred_row(OLD))
    agent.heard("QUEUE", "Ethernet0|3-4", {"wred_profile": "A"})
    return agent


def runs(agent: Orchagent) -> Watermark | None:
    return agent.hardware("Ethernet0", 3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("owner", "ecntwin"),
        ("green_max_threshold", "2147483648"),
        ("green_max_threshold", "many"),
        ("green_min_threshold", "1600001"),
        ("wred_green_enable", "yes"),
        ("ecn", "ecn_blue"),
    ],
)
def test_one_wrong_field_drops_the_whole_row(agent: Orchagent, field: str, value: str) -> None:
    agent.heard("WRED_PROFILE", "A", wred_row(OLD, green_drop_probability="1", **{field: value}))
    assert runs(agent) == OLD
    assert len(agent.log) == 1


@pytest.mark.parametrize("steps", [[NEW], [HIGHER], [NEW, HIGHER, OLD]])
def test_a_known_profile_is_set_step_by_step_and_in_a_safe_order(
    agent: Orchagent, steps: list[Watermark]
) -> None:
    for mark in steps:
        agent.heard("WRED_PROFILE", "A", wred_row(mark))
    assert runs(agent) == steps[-1]
    assert all(kmin <= kmax for kmin, kmax in agent.history)
    known = {(mark.kmin_bytes, mark.kmax_bytes) for mark in (OLD, *steps)}
    assert set(agent.history) - known


def test_a_field_that_is_gone_changes_no_hardware(agent: Orchagent) -> None:
    row = wred_row(NEW)
    del row["green_drop_probability"]
    agent.heard("WRED_PROFILE", "A", row)
    assert runs(agent) == Watermark(50_000, 200_000, 0.2)


def test_a_queue_waits_for_its_profile_and_then_runs_it_whole(agent: Orchagent) -> None:
    agent.history.clear()
    agent.heard("QUEUE", "Ethernet0|3-4", {"wred_profile": "B"})
    assert runs(agent) == OLD
    agent.heard("WRED_PROFILE", "B", wred_row(NEW))
    assert runs(agent) == NEW
    assert set(agent.history) == {(50_000, 200_000)}


def test_a_profile_removed_under_a_queue_is_not_bound_again_until_the_queue_leaves(agent: Orchagent) -> None:
    agent.heard("WRED_PROFILE", "A", None)
    agent.heard("WRED_PROFILE", "B", wred_row(NEW))
    agent.heard("QUEUE", "Ethernet0|3-4", {"wred_profile": "A"})
    assert runs(agent) == OLD
    agent.heard("QUEUE", "Ethernet0|3-4", {"wred_profile": "B"})
    assert runs(agent) == NEW
    agent.heard("QUEUE", "Ethernet0|3-4", {"wred_profile": "A"})
    assert runs(agent) == NEW  # A is gone by now
    agent.heard("WRED_PROFILE", "A", wred_row(OLD))
    assert runs(agent) == OLD


def test_a_queue_that_loses_its_profile_marks_no_more(agent: Orchagent) -> None:
    agent.heard("QUEUE", "Ethernet0|3-4", {"scheduler": "scheduler.1"})
    assert runs(agent) is None


def test_hardware_that_takes_half_leaves_a_mix(agent: Orchagent) -> None:
    agent.faults.half = True
    agent.heard("WRED_PROFILE", "A", wred_row(NEW))
    assert runs(agent) not in (OLD, NEW)
