"""What is said of an inventory: drift as the switch would round, a problem many share once."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from cli.inventory.reading import problem_lines
from cli.inventory.switches import answered_text, platforms_table, reason_lines, switches_table
from service.documents.switches import InventoryReadDocument, ReadSwitchDocument, drifted, units_text
from service.switches.adapter_check import Answer
from switches.base import Capabilities, QueueWatermark, Reading
from switches.device import Device
from switches.errors import UnreachableError
from switches.units import WatermarkUnits, cell_units
from twin.watermark import Watermark

ASKED = Watermark(100_000, 400_000, 0.105)
CELLS = cell_units("switch 'leaf1'", 254)
HELD = Watermark(99_822, 399_796, 0.11)  # 393 and 1574 cells of 254 B, 11 %


def reading(*marks: Watermark | None) -> Reading:
    return Reading.of("leaf1", (QueueWatermark(f"p{n}", 3, mark) for n, mark in enumerate(marks)), 7)


@pytest.mark.parametrize(
    ("found", "expected", "units", "says"),
    [
        (reading(ASKED, ASKED), ASKED, CELLS, False),
        (reading(HELD, HELD), ASKED, CELLS, False),
        (reading(HELD, HELD), ASKED, WatermarkUnits(), True),
        (reading(HELD, ASKED), ASKED, CELLS, True),
        (reading(HELD, None), ASKED, CELLS, True),
        (reading(None), ASKED, CELLS, True),
        (reading(HELD), None, CELLS, None),
        (None, ASKED, CELLS, None),
        (reading(), ASKED, CELLS, None),
        (Reading("leaf1", ASKED, 7), ASKED, CELLS, False),
        (Reading("leaf1", HELD, 7), ASKED, WatermarkUnits(), True),
        (reading(HELD), ASKED, WatermarkUnits(highest=1_000, lowest=1_000), True),  # no such pair
    ],
)
def test_drift_is_what_the_switch_would_not_hold(
    found: Reading | None, expected: Watermark | None, units: WatermarkUnits, says: bool | None
) -> None:
    assert drifted(found, expected, units) is says


def test_units_are_told_with_their_size() -> None:
    assert units_text(WatermarkUnits()) == "bytes"
    assert units_text(CELLS) == "cells of 254 B"


def switch(name: str, answer: Answer, expected: Watermark | None = None, **capabilities: Any) -> Any:
    device = Device(name=name, platform="sonic", address="10.0.0.1")
    kinds = Capabilities(**({"kind": "sonic", "writes": True} | capabilities))
    return ReadSwitchDocument.of(device, kinds, answer, expected)


def shown(*switches: Any) -> str:
    answered = sum(one.reachable for one in switches)
    document = InventoryReadDocument(path="sw.yaml", answered=answered, switches=list(switches))
    screen = Console(width=160, record=True, file=StringIO())
    screen.print(
        answered_text(document), switches_table(document), platforms_table(document), *reason_lines(document)
    )
    return screen.export_text()


def row(text: str, name: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [name])


def test_a_row_says_what_most_queues_run_and_how_many_differ() -> None:
    text = shown(
        switch("leaf1", Answer(reading(HELD, HELD, None)), HELD),
        switch("leaf2", Answer(reading(HELD, HELD)), HELD),
        switch("leaf3", Answer(reading(None, None))),
        switch("leaf4", Answer(reading())),
        switch("leaf5", Answer(Reading("leaf5", HELD, 7))),
    )
    assert row(text, "leaf1")[2:11] == ["yes", "99.8", "KB", "400", "KB", "11", "%", "3,", "1"]
    assert "3, 1 differs" in text
    assert "switch 'leaf1' runs Kmin 99.8 KB" in text
    assert row(text, "leaf2")[9:11] == ["2", "no"]
    assert "ECN off" in text
    assert row(text, "leaf3")[2:9] == ["yes", "ECN", "off", "–", "–", "2", "–"]
    assert "none match" in text
    assert row(text, "leaf5")[9:11] == ["–", "–"]
    assert "5 of 5 switches answered" in text


def test_why_a_switch_did_not_answer_is_below_the_table() -> None:
    away = UnreachableError("switch 'leaf2' (sonic at 10.0.0.2)", "no answer", "it answers", "look")
    text = shown(switch("leaf1", Answer(reading(HELD))), switch("leaf2", Answer(failure=away), HELD))
    assert row(text, "leaf2") == ["leaf2", "sonic", "no", "–", "–", "–", "–", "–", "–"]
    assert "✗ switch 'leaf2' (sonic at 10.0.0.2): no answer; it answers; look" in text
    assert "1 of 2 switches answered" in text


def test_a_platform_is_told_once_for_all_its_switches() -> None:
    answer = Answer(reading(HELD))
    text = shown(
        switch("leaf1", answer, undo="a checkpoint", dead_man=True),
        switch("leaf2", answer, undo="a checkpoint", dead_man=True),
        switch("leaf3", answer, undo="a checkpoint", dead_man=True, units=CELLS),
        switch("leaf4", answer, writes=False),
    )
    assert text.count("a checkpoint") == 2
    assert text.count("undoes itself") == 2
    assert "cells of 254 B" in text
    assert "is never made" in text


def test_a_problem_that_many_share_is_one_line() -> None:
    shared = [
        f"switch 's{number}' password: received nothing in $X; it is there; set it" for number in range(9)
    ]
    lines = [
        line.plain for line in problem_lines([*shared, "switch 'a': received b; c; d", "x: y; z", "plain"])
    ]
    assert lines == [
        "✗ switch 's0' password, switch 's1' password, switch 's2' password and 6 more: "
        "nothing in $X; it is there; set it",
        "✗ switch 'a': b; c; d",
        "✗ x: y; z",
        "✗ plain",
    ]
