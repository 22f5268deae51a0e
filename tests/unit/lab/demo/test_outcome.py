"""The comparison, its table, its sentence, its document and its picture."""

from __future__ import annotations

import math
from dataclasses import replace
from io import StringIO
from xml.etree import ElementTree

import pytest
from rich.console import Console

from lab.demo.closed_loop import (
    CLOSED_LOOP,
    PAPER_SETTING,
    VENDOR,
    DemoDocument,
    Interval,
    Outcome,
    Round,
    Run,
    by_phase,
    outcome_of,
)
from lab.demo.picture import picture
from lab.demo.plan import PAPER, QUICK, VENDOR_DEFAULT
from lab.demo.screen import opening, queue_lines, result_table, verdict
from tests.unit.lab.demo.runs import figures
from twin.watermark import Watermark

FOUND = Watermark(20_000, 400_000, 0.5)


def run_of(name: str, marks: list[Watermark], **whole: float | None) -> Run:
    begins = (0.0, *QUICK.ends_s)
    intervals = tuple(
        Interval(mark, figures(begin_s, end_s, **whole))  # type: ignore[arg-type]
        for mark, begin_s, end_s in zip(marks, begins, QUICK.ends_s, strict=False)
    )
    rounds = (Round(QUICK.ends_s[0], "pushed", FOUND, 0.3, "because", 1.0),) if name == CLOSED_LOOP else ()
    measured = figures(0.0, QUICK.duration_s, **whole)  # type: ignore[arg-type]
    return Run(name, intervals, measured, rounds)


def outcome(**loop: float | None) -> Outcome:
    n = len(QUICK.ends_s)
    found: dict[str, float | None] = {"queue_bytes": 15_000.0, "elephants": 4.2, "paused_s": 2e-3} | loop
    return outcome_of(
        QUICK,
        7,
        [
            run_of(CLOSED_LOOP, [VENDOR_DEFAULT, *[FOUND] * (n - 1)], **found),
            run_of(VENDOR, [VENDOR_DEFAULT] * n, queue_bytes=40_000.0, elephants=4.0, paused_s=9e-3),
            run_of(PAPER_SETTING, [PAPER] * n, queue_bytes=10_000.0, elephants=8.0, paused_s=1e-3),
        ],
        12.3,
    )


def test_gains_are_over_the_vendor_default() -> None:
    one = outcome()
    loop, vendor, paper = (gain.value for gain in one.gains)
    assert vendor == 0.0
    # Elephants take twice as long, a probe a quarter, and 0.8 % less of port time is paused.
    assert paper == pytest.approx(-0.5 * math.log(2) + 0.25 * math.log(4) + 0.08)
    assert one.lead == pytest.approx(loop - max(vendor, paper))
    assert outcome(elephants=8.0, mice=20.0).lead < 0


def test_the_table_has_every_figure_of_each() -> None:
    text = StringIO()
    Console(file=text, width=120, markup=False).print(result_table(outcome()))
    said = text.getvalue()
    assert "[" not in said, "the command's own screen knows no markup"
    for part in ("15 KB", "40 KB", "10 KB", "mice slowdown, 99 %", "4.2×", "9 ms", "−62 %", "gain", "8.0 %"):
        assert part in said
    assert "better than the better static setting, the DCQCN paper's" in verdict(outcome(mice=4.0))
    assert "worse" in verdict(outcome(elephants=8.0, mice=20.0))
    assert "8 hosts" in opening(QUICK, 7)


def test_gains_by_phase_make_up_the_whole() -> None:
    one = outcome()
    loop, vendor, _ = one.runs
    changed = replace(loop, intervals=(*loop.intervals[:3], *vendor.intervals[3:]))
    first, second = by_phase(QUICK, vendor, changed)
    assert (first, second) == (pytest.approx(one.gains[0].value), 0.0)
    text = StringIO()
    other = outcome_of(QUICK, 7, [changed, *one.runs[1:]], 1.0)
    Console(file=text, width=120).print(result_table(other))
    [transfers] = [row.split() for row in text.getvalue().splitlines() if "gain, bulk transfers" in row]
    assert transfers[-2:] == ["0.0", "%"]
    assert other.gains[0].value == pytest.approx((first + second) / 2)


def test_the_deepest_queue_has_the_tallest_block() -> None:
    vendor, paper, loop = queue_lines(outcome())
    assert vendor.endswith("█" * 2 * len(QUICK.ends_s))
    assert paper.endswith("▁" * 2 * len(QUICK.ends_s))
    assert loop.startswith(f"  {CLOSED_LOOP}")


def test_no_elephants_is_no_figure() -> None:
    one = outcome(elephants=None, mice=None)
    text = StringIO()
    Console(file=text, width=120).print(result_table(one))
    assert "–" in text.getvalue()
    assert ElementTree.fromstring(picture(one)).tag.endswith("svg")


def test_the_picture_shows_every_run_and_phase() -> None:
    drawn = picture(outcome())
    tree = ElementTree.fromstring(drawn)
    said = [node.text or "" for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    for name in (CLOSED_LOOP, VENDOR, PAPER_SETTING):
        assert any(text.startswith(f"{name}: gain") for text in said)
    for phase in QUICK.phases:
        assert said.count(phase.name) == 6
    lines = tree.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 15  # five charts of three runs
    for line in lines:
        places = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        assert len(places) == len(QUICK.ends_s)
        assert all(0 < x < 1040 and 0 < y < 860 for x, y in places)


def test_queues_of_nothing_can_be_drawn() -> None:
    n = len(QUICK.ends_s)
    runs = [
        run_of(name, [VENDOR_DEFAULT] * n, queue_bytes=0.0, elephants=None, mice=None, paused_s=0.0)
        for name in (CLOSED_LOOP, VENDOR, PAPER_SETTING)
    ]
    idle = outcome_of(QUICK, 1, runs, 1.0)
    assert ElementTree.fromstring(picture(idle)).tag.endswith("svg")
    assert len(queue_lines(idle)) == 3


def test_the_document_has_the_three_rows_and_the_rounds() -> None:
    document = DemoDocument.of(outcome(), None)
    assert [run.name for run in document.runs] == [CLOSED_LOOP, VENDOR, PAPER_SETTING]
    assert document.rounds[0].outcome == "pushed"
    assert (document.seed, document.hosts, document.picture) == (7, 8, None)
    again = DemoDocument.model_validate_json(document.model_dump_json())
    assert again == document
