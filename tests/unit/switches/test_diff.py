"""A change as a diff: only what differs, by groups of queues where they differ, with its notes."""

from __future__ import annotations

from switches.adapter import watermark_diff
from switches.base import QueueWatermark
from twin.watermark import Watermark

OLD, NEW = Watermark(400_000, 1_600_000, 0.2), Watermark(50_000, 1_600_000, 0.05)


def queues(*marks: Watermark | None) -> list[QueueWatermark]:
    return [QueueWatermark(f"e{number}", 3, mark) for number, mark in enumerate(marks)]


def test_queues_that_run_the_same_are_one_group_without_a_name() -> None:
    assert watermark_diff("leaf1", queues(OLD, OLD, OLD), NEW).splitlines() == [
        "--- leaf1/running",
        "+++ leaf1/staged",
        "@@ -1,4 +1,4 @@",
        " ecn: on",
        "-kmin_bytes: 400000",
        "+kmin_bytes: 50000",
        " kmax_bytes: 1600000",
        "-pmax: 0.2",
        "+pmax: 0.05",
    ]


def test_queues_that_differ_are_named_and_those_that_do_not_change_are_no_part_of_it() -> None:
    lines = watermark_diff("leaf1", queues(OLD, NEW, OLD), NEW).splitlines()
    assert "-e0/3, e2/3 kmin_bytes: 400000" in lines
    assert "+e0/3, e2/3 kmin_bytes: 50000" in lines
    assert " e1/3 kmin_bytes: 50000" in lines


def test_many_queues_are_counted() -> None:
    lines = watermark_diff("leaf1", queues(OLD, OLD, OLD, OLD, OLD, None), NEW)
    assert "-e0/3, e1/3, e2/3 and 2 more kmin_bytes: 400000" in lines


def test_a_queue_that_did_not_mark_says_so() -> None:
    lines = watermark_diff("leaf1", queues(None), NEW).splitlines()
    assert "-ecn: off" in lines
    assert "+ecn: on" in lines


def test_nothing_to_change_is_no_diff_and_has_no_notes() -> None:
    assert watermark_diff("leaf1", queues(NEW, NEW), NEW, ["Kmin is rounded."]) == ""


def test_notes_follow_as_comments() -> None:
    diff = watermark_diff("leaf1", queues(OLD), NEW, ["Kmin is rounded.", "Pmax too."])
    assert diff.splitlines()[-2:] == ["# Kmin is rounded.", "# Pmax too."]
