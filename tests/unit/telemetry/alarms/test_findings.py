"""Findings from counters, queues and sequence numbers; unknown values are left out."""

from __future__ import annotations

import math

import pytest

from telemetry.alarms import (
    LEAST_SAMPLES,
    Level,
    Subject,
    ecn_findings,
    gap_findings,
    loss_findings,
    pause_findings,
    rate_findings,
)
from telemetry.counters.window import PortRates, Rates
from telemetry.decode.p4.sequence import Sender, SequenceCounts
from telemetry.state import QueueRef, QueueState
from telemetry.topology import GBPS

REF = QueueRef("leaf1", "Ethernet0", 3)


def port(rates: Rates | None = None, **queues: Rates) -> PortRates:
    numbered = {int(name[1:]): rates for name, rates in queues.items()}
    return PortRates("leaf1", "Ethernet0", 10.0, rates or Rates(), numbered)


def queue(p99: float, marked: float | None, samples: int = LEAST_SAMPLES) -> QueueState:
    ratio = None if marked is None else 0.5
    return QueueState(REF, samples, p99 / 2, p99, p99, ratio, 1e9, None, marked)


def kmax(ref: QueueRef) -> int | None:
    return 100_000


def test_pauses_and_frames_of_a_port_are_told_where_it_counts_them() -> None:
    paused, frames = pause_findings([port(Rates(pause_share=0.5, pfc_tx_frames_per_s=12_345.6))])
    assert (paused.subject, paused.value) == (Subject("pfc_storm", "leaf1 Ethernet0", "leaf1"), 0.5)
    assert "for 50.0% of the last 10 s" in paused.sentence
    assert (frames.subject.kind, frames.value) == ("pfc_frames", 12_345.6)
    assert "sent 12 346 PFC frames a second" in frames.sentence
    assert list(pause_findings([port(Rates(drops_per_s=1.0))])) == []


def test_loss_is_told_of_the_lossless_queues() -> None:
    (found,) = loss_findings(
        [port(Rates(drops_per_s=9.0), q3=Rates(drops_per_s=2.5), q0=Rates(drops_per_s=6.5))], {3}
    )
    assert found.subject == Subject("lossless_loss", "leaf1 Ethernet0 queue 3", "leaf1")
    assert (found.value, "dropped 2.5 packets a second" in found.sentence) == (2.5, True)


def test_without_numbers_every_queue_is_lossless() -> None:
    found = loss_findings([port(None, q3=Rates(drops_per_s=2.5), q0=Rates(drops_per_s=6.5))], ())
    assert [one.value for one in found] == [2.5, 6.5]


def test_a_port_that_does_not_tell_by_queue_is_told_as_a_whole() -> None:
    (found,) = loss_findings([port(Rates(drops_per_s=9.0), q3=Rates(pause_share=0.0))], {3})
    assert (found.subject.of, found.value, found.worst) == ("leaf1 Ethernet0", 9.0, Level.WARNING)
    assert list(loss_findings([port(Rates(pause_share=0.0))], {3})) == []


def carrying(gbps: float, declared_gbps: float | None, samples: int, queue: int = 3) -> QueueState:
    capacity = None if declared_gbps is None else declared_gbps * GBPS
    ref = QueueRef("leaf1", "Ethernet0", queue)
    return QueueState(ref, samples, math.nan, math.nan, math.nan, None, gbps * GBPS, capacity)


@pytest.mark.parametrize(
    ("carried", "samples", "over"),
    [(7.7, 5_000, 1.0), (1.04, 1_000_000, 0.0), (1.06, 1_000_000, 1.0), (2.0, 60, 0.0), (2.0, 80, 1.0)],
)
def test_a_port_that_carries_more_than_declared_beyond_what_sampling_leaves_open(
    carried: float, samples: int, over: float
) -> None:
    (found,) = rate_findings([carrying(carried, 1.0, samples)])
    assert (found.subject, found.value) == (Subject("declared_rate", "leaf1 Ethernet0", "leaf1"), over)
    assert f"carried {carried:.3g} Gbit/s by INT, and the topology declares 1" in found.sentence
    assert ("the declared rate is too low" in found.sentence) == bool(over)


@pytest.mark.parametrize(("carried", "text"), [(1_999.6, "2 000"), (999.6, "1 000")])
def test_rates_of_a_thousand_gbit_per_s_and_more_are_written_out(carried: float, text: str) -> None:
    (found,) = rate_findings([carrying(carried, 1_600.0, 9_000)])
    assert f"carried {text} Gbit/s by INT, and the topology declares 1 600" in found.sentence


def test_what_the_queues_of_a_port_carry_is_added_up() -> None:
    (found,) = rate_findings([carrying(0.7, 1.0, 9_000), carrying(0.7, 1.0, 9_000, queue=4)])
    assert found.value == 1.0
    assert list(rate_findings([carrying(7.7, None, 9_000)])) == []
    assert list(rate_findings([carrying(0.7, 1.0, 9_000)], ())) == []


@pytest.mark.parametrize(("marked", "over"), [(0.0, 1.5), (12.0, 0.0)])
def test_a_queue_over_kmax_that_marks_nothing(marked: float, over: float) -> None:
    (found,) = ecn_findings([queue(150_000, marked)], [], kmax)
    assert (found.subject.of, found.value) == ("leaf1 Ethernet0 queue 3", over)
    assert ("not one packet was marked" in found.sentence) == (marked == 0)


@pytest.mark.parametrize(
    ("ports", "values"),
    [
        ([], []),
        ([port(Rates(ecn_marked_per_s=0.0))], [1.5]),
        ([port(Rates(ecn_marked_per_s=7.0))], [0.0]),
        ([port(Rates(ecn_marked_per_s=7.0), q3=Rates(ecn_marked_per_s=0.0))], [1.5]),
        ([port(Rates(ecn_marked_per_s=0.0), q3=Rates())], []),
        ([port(Rates(ecn_marked_per_s=0.0), q4=Rates(ecn_marked_per_s=0.0))], []),
        ([port(Rates(ecn_marked_per_s=0.0), q4=Rates(pause_share=0.0))], [1.5]),
    ],
)
def test_where_reports_do_not_tell_marks_counters_do(ports: list[PortRates], values: list[float]) -> None:
    assert [one.value for one in ecn_findings([queue(150_000, None)], ports, kmax)] == values


def test_what_is_not_known_is_not_judged() -> None:
    assert list(ecn_findings([queue(150_000, 0.0, samples=LEAST_SAMPLES - 1)], [], kmax)) == []
    assert list(ecn_findings([queue(150_000, 0.0)], [], lambda ref: None)) == []
    assert list(ecn_findings([queue(math.nan, 0.0)], [], kmax)) == []


def test_gaps_are_a_share_of_what_was_sent_since() -> None:
    known, new, silent = (Sender(number, 5, 2) for number in (1, 2, 3))
    before = {known: SequenceCounts(received=100, lost=10), silent: SequenceCounts(received=5)}
    now = {
        known: SequenceCounts(received=190, lost=20),
        new: SequenceCounts(received=4),
        silent: SequenceCounts(received=5),
    }
    found = list(gap_findings(before, now, lambda sender: (f"n{sender.node}", None)))
    assert [(one.subject.of, one.value) for one in found] == [("n1", 0.1), ("n2", 0.0)]
    assert "10 of the last 100 datagrams" in found[0].sentence


def test_datagrams_that_came_late_are_no_gap() -> None:
    sender = Sender(1, 5, 2)
    before, now = {sender: SequenceCounts(10, 5)}, {sender: SequenceCounts(20, 2)}
    (found,) = gap_findings(before, now, lambda _: ("n1", "leaf1"))
    assert (found.value, found.subject.switch) == (0.0, "leaf1")


def test_of_switches_that_nobody_waits_for_nothing_is_told_but_trouble() -> None:
    well = port(Rates(pause_share=0.0, pfc_tx_frames_per_s=0.0, drops_per_s=0.0), q3=Rates(drops_per_s=0.0))
    assert list(pause_findings([well], ())) == list(loss_findings([well], {3}, ())) == []
    assert len(list(pause_findings([well], {"leaf1"}))) == 2
    assert len(list(loss_findings([well], {3}, {"leaf1"}))) == 1
    paused = port(Rates(pause_share=0.1, drops_per_s=2.0), q3=Rates(drops_per_s=2.0))
    assert [one.value for one in pause_findings([paused], ())] == [0.1]
    assert [one.value for one in loss_findings([paused], {3}, ())] == [2.0]
    for one in (queue(150_000, 12.0), queue(0, 0.0)):
        assert list(ecn_findings([one], [], kmax, ())) == []
        assert [found.value for found in ecn_findings([one], [], kmax, {"leaf1"})] == [0.0]
    assert [found.value for found in ecn_findings([queue(150_000, 0.0)], [], kmax, ())] == [1.5]


def test_senders_of_one_name_are_one_subject_and_none_hides_what_another_lost() -> None:
    first, second = Sender(-1, 0, 0, "192.0.2.1"), Sender(-1, 0, 0, "192.0.2.2")
    now = {first: SequenceCounts(received=60, lost=40), second: SequenceCounts(received=100)}
    (found,) = gap_findings({}, now, lambda _: ("leaf1 unit 0", "leaf1"))
    assert (found.value, "40 of the last 200 datagrams" in found.sentence) == (0.2, True)
