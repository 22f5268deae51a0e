"""What alarms look at, one trouble at a time, over parts that stand still until a test moves them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rollout.state import RollbackAsked, Undone
from service.alarms.checks import GIVEN_UP_S, MOST_REPORTED, STATE_SHARE, AlarmChecks
from service.alarms.links import LinkChecks
from service.events import Clocks
from service.ingest.counter_owner import RecentPorts
from service.nics.polling import NicPolling
from settings.alarms import KINDS
from switches.errors import SwitchError, UnreachableError
from telemetry.alarms import Alarm, Finding, Level, Rule, Subject
from telemetry.counters.window import PortRates, Rates
from telemetry.decode.p4.sequence import Sender, SequenceCounts
from telemetry.errors import WindowError
from telemetry.links import LinkCondition
from telemetry.state import NetworkState, QueueRef, QueueState
from telemetry.topology import leaf_spine
from telemetry.window.window import WindowCounters
from tests.unit.nics.sysfs import DEFAULTS
from tests.unit.rollout.rollouts import T0, after, failed, soaking
from tests.unit.service.nics.making import Hosts, nic, reading
from twin.watermark import Watermark

pytestmark = pytest.mark.anyio

AWAY = UnreachableError("switch 'leaf1'", "no answer", "it answers", "look")


@dataclass
class World:
    """Everything that is checked."""

    now_s: float = 100.0
    wall_ahead_s: float = 1e9
    age_s: float | None = None
    counters: WindowCounters = field(default_factory=WindowCounters)
    accepted: int = 0
    rejected: int = 0
    window: NetworkState | None = None
    costs_s: float = 0.0
    asked: int = 0
    lately: RecentPorts = field(default_factory=lambda: RecentPorts((), {}))
    failures: dict[str, SwitchError | None] = field(default_factory=dict)
    drifted: set[str] = field(default_factory=set)
    tried: set[str] = field(default_factory=lambda: {"leaf1", "leaf2"})
    queue_marks: dict[tuple[str, int], Watermark | None] = field(default_factory=dict)
    rollouts: list[Any] = field(default_factory=list)
    sequence: dict[Sender, SequenceCounts] = field(default_factory=dict)
    untuned: dict[str, str] = field(default_factory=dict)
    failing: dict[str, str] = field(default_factory=dict)
    nics: NicPolling | None = None
    rolling: object = None
    dropped: int = 0
    listens: bool = True

    def checks(self, lossless: frozenset[int] | None = frozenset({3})) -> AlarmChecks:
        spent = 0.0

        async def state() -> NetworkState:
            nonlocal spent
            self.asked += 1
            spent += self.costs_s
            if self.window is None:
                raise WindowError("window", "nothing", "something", "wait")
            return self.window

        async def recent() -> RecentPorts:
            return self.lately

        window = _Window(self, state)
        fleet = SimpleNamespace(failure=self.failures.get, drifted=self.drifted.__contains__)
        fleet.was_tried = self.tried.__contains__
        fleet.queues_of = lambda switch: self.queue_marks
        fleet.runs = lambda switch: Watermark(1_000, 100_000, 0.1)
        fleet.names = ("leaf1", "leaf2")
        sources = _Sources(self)
        rollouts = SimpleNamespace(newest=lambda limit: self.rollouts[:limit])
        rollouts.active_on = lambda members: self.rolling
        rollouts.now_s = lambda: self.now_s
        return AlarmChecks(
            window=cast(Any, window),
            ports=cast(Any, SimpleNamespace(recent=recent)),
            fleet=cast(Any, fleet),
            rollouts=cast(Any, rollouts),
            sources=cast(Any, sources),
            lossless=lossless,
            clocks=Clocks(
                lambda: self.now_s, lambda: round((self.now_s + self.wall_ahead_s) * 1e9), lambda: spent
            ),
        )


@dataclass
class _Window:
    world: World
    state: Callable[[], Any]

    def age_s(self) -> float | None:
        return self.world.age_s

    step_ns = 2_000_000_000
    declared = None
    silence = "No INT report came"

    @property
    def stale(self) -> bool:
        return self.world.age_s is None or self.world.age_s > 60.0

    @property
    def counters(self) -> WindowCounters:
        return self.world.counters

    @property
    def accepted(self) -> int:
        return self.world.accepted

    @property
    def rejected(self) -> int:
        return self.world.rejected


@dataclass
class _Sources:
    world: World

    def sequence_counts(self) -> dict[Sender, SequenceCounts]:
        return self.world.sequence

    def name_of(self, sender: Sender) -> tuple[str, str | None]:
        return f"node {sender.node}", None

    @property
    def nics(self) -> NicPolling | None:
        return self.world.nics

    def untuned(self) -> dict[str, str]:
        return self.world.untuned

    def failing(self) -> dict[str, str]:
        return self.world.failing

    @property
    def dropped(self) -> int:
        return self.world.dropped

    @property
    def listens(self) -> bool:
        return self.world.listens


async def found(checks: AlarmChecks, kind: str) -> dict[str, float]:
    """The values of a kind, by what they are of."""
    result = await checks.run()
    return {one.subject.of: one.value for one in result.findings if one.subject.kind == kind}


def window(end_s: float, *switches: str) -> NetworkState:
    """A window that ends then, and through which these switches were crossed."""
    queues = [QueueState(QueueRef(switch, "1", 3), 1, 0.0, 0.0, 0.0, None, 0.0, None) for switch in switches]
    seen = SimpleNamespace(queues=queues, incast=(), window_end_ns=round(end_s * 1e9))
    return cast(NetworkState, seen)


async def test_a_world_in_which_nothing_happened_has_no_findings_of_telemetry() -> None:
    result = await World().checks().run()
    assert {one.subject.kind for one in result.findings} == {"unreachable", "drifted"}
    assert all(one.value == 0 for one in result.findings)
    assert result.state is None


async def test_seconds_out_of_reach_are_counted_from_the_first_look_that_found_it() -> None:
    world = World()
    checks = world.checks()
    world.failures["leaf1"] = AWAY
    assert await found(checks, "unreachable") == {"leaf1": 0, "leaf2": 0}
    world.now_s += 40
    assert await found(checks, "unreachable") == {"leaf1": 40, "leaf2": 0}
    world.failures["leaf1"] = None
    assert await found(checks, "unreachable") == {"leaf1": 0, "leaf2": 0}
    world.failures["leaf1"] = AWAY
    world.now_s += 5
    assert await found(checks, "unreachable") == {"leaf1": 0, "leaf2": 0}


async def test_seconds_out_of_reach_go_on_over_a_restart() -> None:
    world = World(tried={"leaf2"})
    checks = world.checks()
    away = Subject("unreachable", "leaf1", "leaf1")
    since_s = world.now_s - 7_200.0
    checks.go_on([Alarm(away, Level.CRITICAL, 300.0, 300.0, since_s, world.now_s, "bad", carried=True)])
    assert await found(checks, "unreachable") == {"leaf2": 0}
    world.tried.add("leaf1")
    world.failures["leaf1"] = AWAY
    world.now_s += 5
    assert await found(checks, "unreachable") == {"leaf1": 7_205, "leaf2": 0}
    world.failures["leaf1"] = None
    assert await found(checks, "unreachable") == {"leaf1": 0, "leaf2": 0}


async def test_of_a_switch_that_was_not_read_yet_nothing_is_known() -> None:
    world = World(tried={"leaf2"})
    assert await found(world.checks(), "drifted") == {"leaf2": 0}
    assert await found(world.checks(), "unreachable") == {"leaf2": 0}


async def test_a_drifted_switch_is_told() -> None:
    world = World(drifted={"leaf2"})
    assert await found(world.checks(), "drifted") == {"leaf1": 0, "leaf2": 1}


async def test_shares_are_of_what_came_since_the_last_look() -> None:
    world = World()
    checks = world.checks()
    world.accepted, world.rejected = 90, 10
    world.counters = WindowCounters(skewed=5, negative_latencies=2)
    assert await found(checks, "reports_rejected") == {"INT reports": 0.1}
    world.accepted += 100
    result = {one.subject.kind: one.value for one in (await checks.run()).findings}
    assert (result["reports_rejected"], result["clock_skew"], result["clock_backwards"]) == (0, 0, 0)
    world.accepted += 50
    world.rejected += 50
    world.counters = WindowCounters(skewed=55, negative_latencies=2)
    assert await found(checks, "clock_skew") == {"INT reports": 0.5}
    assert await found(checks, "clock_skew") == {}  # nothing came


async def test_a_clock_ahead_shows_by_the_reports_that_come_behind_it() -> None:
    world = World()
    checks = world.checks()
    world.accepted, world.counters = 100, WindowCounters(behind=20)
    assert await found(checks, "clock_skew") == {"INT reports": 0}  # some are sent late
    world.accepted, world.counters = 200, WindowCounters(behind=110)
    [skew] = [one for one in (await checks.run()).findings if one.subject.kind == "clock_skew"]
    assert skew.value == 0.9
    assert "90 of the last 100 INT reports were seconds behind the newest" in skew.sentence
    assert "the clocks of some sinks are ahead" in skew.sentence
    second = 1_000_000_000
    newest = {"leaf1": 96 * second, "leaf2": 100 * second, "leaf3": 97 * second}
    world.window = cast(Any, SimpleNamespace(window_end_ns=100 * second + 1, newest_ns=newest, queues=()))
    world.accepted, world.counters, world.age_s = 300, WindowCounters(behind=200), 0.0
    findings = checks._of_intake(world.now_s, world.window)
    assert "the clocks of leaf2 are ahead" in next(one.sentence for one in findings)


async def test_dropped_datagrams_are_a_rate_where_datagrams_are_taken() -> None:
    world = World()
    checks = world.checks()
    world.dropped, world.now_s = 50, world.now_s + 5
    assert await found(checks, "ingest_drops") == {"UDP": 10}
    world.now_s += 5
    assert await found(checks, "ingest_drops") == {"UDP": 0}
    world.listens = False
    world.now_s += 5
    assert await found(checks, "ingest_drops") == {}


async def test_gaps_are_counted_between_two_looks() -> None:
    world, sender = World(), Sender(7, 1, 2)
    checks = world.checks()
    world.sequence = {sender: SequenceCounts(received=50, lost=50)}
    assert await found(checks, "sequence_gaps") == {"node 7": 0.5}
    world.sequence = {sender: SequenceCounts(received=150, lost=50)}
    assert await found(checks, "sequence_gaps") == {"node 7": 0}


@pytest.mark.parametrize("kind", ["untuned", "counter_source"])
async def test_what_is_no_longer_named_is_told_to_be_well_once(kind: str) -> None:
    world = World()
    checks = world.checks()
    named = world.untuned if kind == "untuned" else world.failing
    named["leaf1"] = "it is bad"
    assert await found(checks, kind) == {"leaf1": 1}
    del named["leaf1"]
    assert await found(checks, kind) == {"leaf1": 0}
    assert await found(checks, kind) == {}


async def test_nics_that_are_at_odds_are_told_until_they_agree() -> None:
    hosts = Hosts("a", "b", "c", said=True)
    hosts.adapters["c"].now = reading("c", nic("ens1", {**DEFAULTS, "rpg_ai_rate": 50}))
    hosts.adapters["b"].now = UnreachableError("host 'b'", None, "a host answers in time", "check it")
    world = World(nics=hosts.polling)
    checks = world.checks()
    await hosts.read()
    assert await found(checks, "senders") == {"NICs": 1, "NICs and settings": 1, "NICs and CNPs": 0}
    assert await found(checks, "nic_source") == {"b": 1}
    world.rolling = "a rollout that has set some of them"
    assert await found(checks, "senders") == {}
    world.rolling = None
    for name in ("b", "c"):
        hosts.adapters[name].now = reading(name)
    await hosts.read()
    assert await found(checks, "nic_source") == {"b": 0}
    assert await found(checks, "senders") == {"NICs": 0, "NICs and settings": 1, "NICs and CNPs": 0}
    await hosts.polling.stop()


async def test_a_rollout_that_stands_still_is_told_until_it_goes_on() -> None:
    phase = SimpleNamespace(ended=False)
    rollout = SimpleNamespace(id="7", stalled="the disk is full", state=SimpleNamespace(phase=phase))
    world = World(rollouts=[rollout])
    checks = world.checks()
    assert await found(checks, "rollout_stalled") == {"rollout 7": 1}
    rollout.stalled = None
    assert await found(checks, "rollout_stalled") == {"rollout 7": 0}


async def test_an_undo_that_fails_for_longer_than_the_patience_is_told() -> None:
    state = after(soaking(), RollbackAsked(at_s=T0, by="ada"), failed("a", "undo", T0))
    rollout = SimpleNamespace(id="7", stalled=None, state=state)
    world = World(rollouts=[rollout], now_s=T0 + state.plan.limits.patience_s - 1)
    checks = world.checks()
    assert await found(checks, "rollout_stalled") == {"rollout 7": 0}
    world.now_s += 1
    assert await found(checks, "rollout_stalled") == {"rollout 7": 1}
    rollout.state = after(state, Undone(at_s=world.now_s, switch="a"))
    assert await found(checks, "rollout_stalled") == {"rollout 7": 0}


async def test_a_switch_that_is_crossed_no_more_falls_silent() -> None:
    world = World(window=window(1.0, "leaf1", "leaf2"), age_s=0.0)
    checks = world.checks()
    assert await found(checks, "switch_silent") == {"INT reports of leaf1": 0, "INT reports of leaf2": 0}
    world.window, world.now_s = window(2.0, "leaf1"), world.now_s + 30
    assert (await found(checks, "switch_silent"))["INT reports of leaf2"] == 30
    world.now_s += GIVEN_UP_S
    assert await found(checks, "switch_silent") == {"INT reports of leaf1": 0}


async def test_counters_that_stopped_are_told_for_a_day() -> None:
    world = World(lately=RecentPorts((), {"leaf1": 70.0, "leaf2": GIVEN_UP_S + 1}))
    assert await found(world.checks(), "switch_silent") == {"Counters of leaf1": 70}


async def test_a_queue_is_judged_by_the_kmax_it_was_read_to_run() -> None:
    deep = [
        QueueState(QueueRef("leaf1", "1", number), 1_000, 150_000, 200_000, 250_000, 0.0, 1e9, None, 0.0)
        for number in (3, 4, 5)
    ]
    seen = SimpleNamespace(queues=deep, incast=(), window_end_ns=0)
    world = World(window=cast(NetworkState, seen), age_s=0.0)
    assert set((await found(world.checks(), "ecn_off")).values()) == {2}
    world.queue_marks = {("1", 3): Watermark(1_000, 50_000, 0.1), ("1", 4): None}
    assert await found(world.checks(), "ecn_off") == {"leaf1 1 queue 3": 4}


async def test_queues_are_judged_off_the_event_loop_and_told_where_they_matter() -> None:
    queues = [
        QueueState(QueueRef(name, "1", 3), 1_000, 150_000, 200_000, 250_000, 0.0, 1e9, None, marked_per_s)
        for name, marked_per_s in (("leaf1", 0.0), ("leaf2", 5.0), ("leaf3", 5.0))
    ]
    seen = SimpleNamespace(queues=queues, incast=(), window_end_ns=0)
    checks, threads = World(window=cast(NetworkState, seen), age_s=0.0).checks(), set()

    def queues_of(_switch: str) -> dict[tuple[str, int], Watermark | None]:
        threads.add(threading.get_ident())
        return {}

    cast(Any, checks.fleet).queues_of = queues_of
    result = await checks.run(awaited={"leaf2"})
    told = [one.subject.switch for one in result.findings if one.subject.kind == "ecn_off"]
    assert told == ["leaf1", "leaf2"]
    assert threads
    assert threading.get_ident() not in threads


async def test_a_window_of_long_ago_says_nothing_of_now() -> None:
    world = World(window=window(1.0, "leaf1"), age_s=0.0)
    checks = world.checks()
    result = await checks.run()
    assert (result.state is None, result.silent) == (False, False)
    world.age_s, world.now_s = 61.0, world.now_s + 61.0
    result = await checks.run()
    assert (result.state, result.silent, world.asked) == (None, True, 1)
    told = {one.subject.kind: one.sentence for one in result.findings}
    assert told["telemetry_silent"].startswith("No INT report came for 61 s")
    assert not told.keys() & {"ecn_off", "clock_offset", "switch_silent"}


@pytest.mark.parametrize("age_s", [0.2, 2, 20])
async def test_of_reports_that_are_back_nothing_says_that_nothing_is_tuned(age_s: float) -> None:
    world = World(window=window(1.0, "leaf1"), age_s=age_s)
    told = {one.subject.kind: one.sentence for one in (await world.checks().run()).findings}
    assert told["telemetry_silent"] == f"The newest INT report came {age_s:.0f} s ago"
    assert told["switch_silent"] == "INT reports of leaf1 last came 0 s ago"


async def test_switches_that_senders_invent_are_not_waited_for_without_bound() -> None:
    world = World(window=window(1.0, "leaf1"), age_s=0.0)
    checks = world.checks()
    for turn in range(3):
        world.window = window(2.0 + turn, *(f"made up {turn} {n}" for n in range(MOST_REPORTED)))
        await checks.run()
    silent = await found(checks, "switch_silent")
    assert len(silent) == MOST_REPORTED
    assert "INT reports of made up 2 0" in silent


@pytest.mark.parametrize("part", ["state", "sequence_counts"])
async def test_what_fails_as_it_should_not_keeps_nothing_else_from_being_looked_at(
    part: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails() -> NetworkState:
        raise ZeroDivisionError

    paused = PortRates("leaf1", "1", 10.0, Rates(pause_share=0.5), {})
    world = World(lately=RecentPorts((paused,), {}), age_s=0.0)
    checks = world.checks()
    if part == "state":
        checks.window = cast(Any, _Window(world, fails))
    else:
        world.sequence = cast(Any, 1)
    assert await found(checks, "pfc_storm") == {"leaf1 1": 0.5}
    assert "failed; the others run" in caplog.text


async def test_where_pfc_is_off_loss_is_nobodys_alarm() -> None:
    port = PortRates("leaf1", "1", 10.0, Rates(), {3: Rates(drops_per_s=5.0)})
    world = World(lately=RecentPorts((port,), {"leaf1": 0.0}))
    assert await found(world.checks(), "lossless_loss") == {"leaf1 1 queue 3": 5}
    assert await found(world.checks(lossless=None), "lossless_loss") == {}


async def offsets(world: World, *steps: tuple[float, float]) -> list[float | None]:
    """What is found where reports of times by their own clock come so many seconds after each other."""
    checks, values = world.checks(), []
    for passes_s, window_end_s in steps:
        world.now_s += passes_s
        world.window = window(window_end_s)
        values.append((await found(checks, "clock_offset")).get("INT reports"))
    return values


async def test_the_clock_of_sinks_is_compared_with_ours_where_it_keeps_pace() -> None:
    world = World(age_s=2.0)
    now_s = world.now_s + world.wall_ahead_s - 2.0  # when the newest report came
    assert await offsets(world, (0, now_s + 7), (10, now_s + 17)) == [None, pytest.approx(7, abs=1e-3)]


async def test_a_lab_and_a_recording_have_a_time_of_their_own() -> None:
    world = World(age_s=0.0)
    now_s = world.now_s + world.wall_ahead_s
    assert await offsets(world, (0, now_s), (10, now_s + 0.1)) == [None, None]
    assert await offsets(world, (0, 1_000.0), (10, 1_010.0)) == [None, None]
    assert await offsets(world, (0, now_s + 30), (0, now_s + 30)) == [None, None]


async def test_a_window_that_takes_long_is_not_worked_out_all_the_time() -> None:
    world = World(window=window(1.0), age_s=0.0, costs_s=2.0)
    checks = world.checks()
    assert (await checks.run()).state is not None
    for _ in range(3):
        world.now_s += 5
        assert (await checks.run()).state is None
    world.now_s += 2.0 / STATE_SHARE
    assert (await checks.run()).state is not None
    assert world.asked == 2


async def test_conditions_on_links_take_figures_of_one_source_between_two_states() -> None:
    """Counters hold also what no report tells of."""
    topology = leaf_spine(1, 0, 2)
    sent = QueueState(QueueRef("leaf1", "Ethernet0", 3), 500, 0.0, 0.0, 0.0, None, 2.5e9, None)
    seen = SimpleNamespace(
        queues=[sent], incast=(), window_end_ns=0, topology=topology, topology_declared=True
    )
    world = World(window=cast(NetworkState, seen), age_s=0.0, costs_s=2.0)
    counted = PortRates("leaf1", "Ethernet0", 1.0, Rates(tx_bytes_per_s=10e9), {})
    world.lately = RecentPorts((counted,), {})
    checks, of = world.checks(), "leaf1 Ethernet0 to h0"
    rule = Rule(warning=0.5, critical=None, hold_s=0, clear_s=0)
    checks.links = LinkChecks([LinkCondition(name="busy", figure="utilisation", rule=rule)])
    assert (await found(checks, "link:busy"))[of] == pytest.approx(0.2)
    world.now_s += 5
    assert (await found(checks, "link:busy"))[of] == pytest.approx(0.2)
    world.age_s = 61.0  # reports say nothing any more
    assert (await found(checks, "link:busy"))[of] == pytest.approx(0.8)


async def test_every_finding_is_of_a_kind_that_is_described() -> None:
    result: list[Finding] = (await World(age_s=3.0).checks().run()).findings
    assert {one.subject.kind for one in result} <= set(KINDS)
