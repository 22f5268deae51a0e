"""The harness: packets depend on settings alone, budgets show what they may, delays are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.rivals.arena import facts_of, play
from bench.rivals.judge import Slices
from bench.rivals.observe import BUDGETS, Observer, budget_named
from bench.rivals.scenarios import (
    FULL,
    QUICK,
    SCENARIOS,
    Cut,
    Phase,
    Scenario,
    check_memory,
    scenario_named,
)
from bench.rivals.tuner import FabricFacts, Looks, Seen, Settings, Tuner
from bench.rivals.tuners import INCUMBENT, TUNERS, budgets_of, tuner_named
from bench.rivals.tuners.statics import GRID, QUICK_GRID, static_name
from lab.setup import Feed, LeafSpine
from twin.errors import ParameterError
from twin.packet.fabric import Fabric
from twin.packet.results import Samples
from twin.watermark import Watermark

# Four hosts, two milliseconds: incast, so that queues fill, and mice.
TINY = Scenario(
    name="tiny",
    phases=(Phase("one", 0.0, "incast:3:period=500us,hadoop:0.3"), Phase("two", 0.001, "websearch:0.8")),
    duration_s=0.012,
    fabric=LeafSpine(leaves=2, spines=2, hosts=2, rate_gbps=25.0, uplink_gbps=100.0),
)
LOW, HIGH = Watermark(5_000, 20_000, 0.5), Watermark(500_000, 900_000, 0.01)


class Noted(Tuner):
    """Answers with a list, then with its last, and notes what it sees."""

    def __init__(self, *answers: Watermark, looks: Looks = Looks.COUNTERS) -> None:
        self.answers = answers
        self.looks = looks  # type: ignore[misc]
        self.seen: list[Seen] = []

    def begin(self, facts: FabricFacts, seed: int) -> Settings:
        self.facts = facts
        return Settings.flat(facts, self.answers[0])

    def act(self, seen: Seen) -> Settings:
        self.seen.append(seen)
        return Settings.flat(self.facts, self.answers[min(len(self.seen), len(self.answers) - 1)])


def alike(one: Slices, other: Slices) -> bool:
    return all(
        np.allclose(column, other.columns()[name], equal_nan=True) for name, column in one.columns().items()
    )


def test_packets_depend_neither_on_the_budget_nor_on_the_look() -> None:
    blind = play(TINY, tuner_named(static_name(LOW)), 1, BUDGETS["none"])
    for budget in ("box", "collector"):
        for looks in (Looks.COUNTERS, Looks.FLOWS):
            seeing = play(TINY, Noted(LOW, looks=looks), 1, BUDGETS[budget])
            assert np.allclose(seeing.phases, blind.phases, equal_nan=True)
            assert alike(seeing.slices, blind.slices)


def test_a_run_is_the_same_again_and_another_with_another_seed() -> None:
    first, again, other = (play(TINY, tuner_named("random"), seed, BUDGETS["box"]) for seed in (1, 1, 2))
    assert (first.phases, first.changes) == (again.phases, again.changes)
    assert alike(first.slices, again.slices)
    assert first.phases != other.phases
    assert first.changes != other.changes


def test_settings_run_after_the_delay_of_the_budget_and_changes_are_logged() -> None:
    for name, first_s in (("box", 100e-6), ("collector", 6e-3)):
        tuner = Noted(LOW, HIGH)
        played = play(TINY, tuner, 1, BUDGETS[name])
        queues = len(TINY.plan.switch_ports)
        assert [one.at_s for one in played.changes[queues:]] == pytest.approx([first_s] * queues)
        assert {one.after for one in played.changes[queues:]} == {HIGH}
        ran = [one.watermarks[0] for one in tuner.seen]
        late = round(first_s / BUDGETS[name].interval_s)
        assert ran == [LOW] * late + [HIGH] * (len(ran) - late)
        assert np.flatnonzero(played.slices.changed).tolist() == sorted({0, int(first_s / 1e-3 + 1e-9)})


def test_the_box_sees_exactly_what_crossed_it() -> None:
    tuner = Noted(HIGH, looks=Looks.FLOWS)
    play(TINY, tuner, 1, BUDGETS["box"])
    whole = exact_run()
    assert sum(one.sent_bytes.sum() for one in tuner.seen) == pytest.approx(whole.sent)
    assert len(tuner.seen) == round(TINY.duration_s / 100e-6) - 1
    delivered = {
        (flow, queue): size
        for one in tuner.seen
        if one.flows is not None
        for flow, queue, size in zip(
            one.flows.flow.tolist(), one.flows.queue.tolist(), one.flows.payload_bytes.tolist(), strict=True
        )
    }
    for flow, size in whole.completed.items():
        sizes = [seen for (number, _), seen in delivered.items() if number == flow]
        assert sizes
        assert sizes == pytest.approx([size] * len(sizes))


def test_the_collector_sees_one_packet_in_64_and_counters_that_are_exact() -> None:
    tuner = Noted(HIGH, looks=Looks.FLOWS)
    play(TINY, tuner, 1, BUDGETS["collector"])
    whole = exact_run()
    reported = sum(len(one.samples) for one in tuner.seen if one.samples is not None)
    assert 0.3 * whole.packets / 64 < reported < 3 * whole.packets / 64
    assert [one.end_s for one in tuner.seen] == pytest.approx([1e-3 * (n + 1) for n in range(11)])
    exact = Noted(HIGH)
    play(TINY, exact, 1, BUDGETS["box"])
    for number, one in enumerate(tuner.seen):
        parts = exact.seen[10 * number : 10 * number + 10]
        assert one.sent_bytes == pytest.approx(sum(part.sent_bytes for part in parts))
        assert one.dropped_packets.tolist() == sum(part.dropped_packets for part in parts).tolist()
        # Depths only where and when a report was made.
        assert np.all(
            one.depth_peak_bytes <= np.max([part.depth_peak_bytes for part in parts], axis=0) + 2_096
        )
        silent = np.ones(len(one.sent_bytes), dtype=bool)
        silent[[tuner.facts.queues.index(port) for port in set(one.samples.port.tolist())]] = False
        assert not one.depth_mean_bytes[silent].any()


def test_who_does_not_look_at_flows_is_not_shown_any() -> None:
    for budget in ("box", "collector"):
        tuner = Noted(HIGH)
        play(TINY, tuner, 1, BUDGETS[budget])
        assert all(one.flows is None and one.samples is None for one in tuner.seen)


LAST_S = TINY.duration_s - 100e-6  # a tuner is not asked at the very end


class Whole:
    def __init__(self, sent: float, packets: int, completed: dict[int, float]) -> None:
        self.sent, self.packets, self.completed = sent, packets, completed


def exact_run() -> Whole:
    """The same run by the fabric's own figures; flows that were over early enough to have been seen."""
    fabric = Fabric(TINY.plan, watermark=HIGH, seed=1)
    feed = Feed(TINY.traffic(1))
    completed: dict[int, float] = {}
    for until_s in (0.005, 0.0098, 0.010, LAST_S):
        fabric.offer(feed.take())
        done = fabric.advance(until_s).completions
        if until_s <= 0.0098:
            completed |= dict(zip(done.flow.tolist(), done.payload_bytes.tolist(), strict=True))
        if feed.next_s <= fabric.now_s:
            fabric.offer(feed.take())
    measured = fabric.measured()
    at = list(TINY.plan.switch_ports)
    return Whole(float(measured.sent_bytes[at].sum()), measured.injected_packets, completed)


def test_flows_that_were_not_seen_of_late_are_forgotten() -> None:
    facts = facts_of(TINY, BUDGETS["box"])
    observer = Observer(facts, BUDGETS["box"], Looks.FLOWS)
    queue = facts.queues[0]

    def sample(flow: int, at_s: float) -> Samples:
        one = np.array([0])
        return Samples(
            flow=one + flow,
            src=one.astype(np.int32),
            dst=one.astype(np.int32) + 1,
            delivered_s=one + at_s,
            wire_bytes=one.astype(np.int32) + 1_048,
            hop_offset=np.array([0, 1]),
            port=one.astype(np.int32) + queue,
            ingress_port=one.astype(np.int32),
            queue_bytes=one + 0.0,
            ingress_s=one + at_s,
            egress_s=one + at_s,
            marked=one > 0,
        )

    fabric = Fabric(TINY.plan, watermark=LOW, seed=1)
    tables = []
    for at_s, flows in ((0.001, (7, 7, 8)), (0.005, (7,)), (0.0125, ())):
        for flow in flows:
            observer.saw(sample(flow, at_s))
        fabric.advance(at_s)
        seen = observer.seen(fabric.measured(), TINY.incumbent, facts.dcqcn)
        assert seen.flows is not None
        tables.append(dict(zip(seen.flows.flow.tolist(), seen.flows.payload_bytes.tolist(), strict=True)))
    assert tables == [{7: 2_000.0, 8: 1_000.0}, {7: 3_000.0, 8: 1_000.0}, {7: 3_000.0}]


def test_cables_are_cut_and_mended_at_their_times() -> None:
    cut = replace(TINY, cut=Cut(0.004, 0.008))
    [port] = cut.cables_cut(1)
    ends = {cut.plan.ports[port].node, cut.plan.ports[port].peer}
    assert ends <= set(cut.plan.switches)
    tuner = Noted(HIGH)
    play(cut, tuner, 1, BUDGETS["box"])
    both = [tuner.facts.queues.index(one) for one in (port, cut.plan.reverse[port])]
    sent = np.array([one.sent_bytes[both].sum() for one in tuner.seen])
    assert sent[45:79].sum() == 0
    assert sent[:40].sum() > 0
    assert cut.cables_cut(1) == cut.cables_cut(1)


def test_settings_that_do_not_fit_are_refused() -> None:
    class Short(Noted):
        def begin(self, facts: FabricFacts, seed: int) -> Settings:
            return Settings((LOW,))

    with pytest.raises(ParameterError, match="1 watermarks; the fabric has 12 queues; give one a queue"):
        play(TINY, Short(), 1, BUDGETS["box"])


def test_the_incumbent_runs_unless_a_tuner_says_otherwise() -> None:
    played = play(TINY, tuner_named(INCUMBENT), 1, BUDGETS["none"])
    assert played.changes == ()
    rates = {TINY.plan.ports[port].rate_bytes_per_s / 125e6 for port in TINY.plan.switch_ports}
    assert rates == {25.0, 100.0}
    assert set(TINY.incumbent) == {Watermark(100_000, 400_000, 0.2), Watermark(400_000, 1_600_000, 0.2)}


def test_every_scenario_makes_its_traffic_and_fabric() -> None:
    for name in {*SCENARIOS, *FULL, *QUICK}:
        one = scenario_named(name)
        assert len(one.traffic(1, until_s=one.duration_s / 50)) > 0
        assert len(one.plan.hosts) in (4, 8, 16, 32, 288)
        assert all(begin_s < end_s for begin_s, end_s in one.spans_s)


def test_mixed_rates_are_mixed() -> None:
    plan = scenario_named("mixed-rates").plan
    assert {round(port.rate_bytes_per_s / 125e6) for port in plan.ports} == {25, 100, 400}


def test_variants_change_what_they_say() -> None:
    one = scenario_named("websearch-60+vendor+4MB")
    assert (one.name, one.dcqcn, one.buffer_bytes) == ("websearch-60+vendor+4MB", "vendor", 4_000_000)


def test_the_oracle_chooses_from_47_different_statics() -> None:
    assert len(set(GRID)) == len(GRID) == 47
    assert set(QUICK_GRID) < set(GRID)
    assert all(
        tuner_named(static_name(mark)).begin(facts_of(TINY, BUDGETS["box"]), 1).watermarks[0] == mark
        for mark in GRID
    )


@pytest.mark.parametrize("name", TUNERS)
def test_every_tuner_gives_a_watermark_a_queue(name: str) -> None:
    assert all(budget_named(one) for one in budgets_of(name))
    facts = facts_of(TINY, budget_named(budgets_of(name)[0]))
    settings = tuner_named(name).begin(facts, 1)
    assert len(settings.watermarks) == len(facts.queues)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: scenario_named("websurch"), "scenario: received 'websurch'; known: websearch-20, "),
        (lambda: scenario_named("incast-8+huge"), "variant 'huge'; known: vendor, 4MB, small; choose one"),
        (lambda: tuner_named("annealling"), "tuner: received 'annealling'; known: secn1, "),
        (lambda: tuner_named("static:1/2"), "a static is static:KMIN/KMAX/PMAX"),
        (lambda: budget_named("god"), "known: none, box, collector"),
        (
            lambda: check_memory([scenario_named("hadoop-40")], 1, at_once=2, free_bytes=1e6),
            r"scenario hadoop-40: received about .* GB for 2 at once; 0.001 GB are free; leave it out",
        ),
    ],
)
def test_a_wrong_name_or_size_gets_a_sentence(ask: object, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        ask()  # type: ignore[operator]


def test_a_scenario_that_fits_is_let_through() -> None:
    check_memory([scenario_named("hadoop-40")], 1, at_once=2, free_bytes=64e9)
