"""Many sources at once: failures are told once and counted always, and stop nobody else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from service.ingest.counter_owner import CounterOwner
from service.ingest.threads import DecodingThreads, IngestLimits
from service.metrics import Metrics
from service.polling.poller import CounterPolling
from switches.errors import AccessError, SwitchError, UnreachableError
from telemetry.counters.model import Counters, CounterSample, CounterSettings, SeriesKey
from telemetry.decode.body import Polled

pytestmark = pytest.mark.anyio

S = 1_000_000_000


def polled(switch: str, at_s: int, *, problems: int = 0, notes: tuple[str, ...] = ()) -> Polled:
    sample = CounterSample(SeriesKey(switch, "Ethernet0", 3), at_s * S, Counters(pfc_tx_frames=10 * at_s))
    return Polled((sample,), tuple(f"problem {number}" for number in range(problems)), notes)


def away(switch: str) -> SwitchError:
    return UnreachableError(f"switch {switch!r}", "nothing", "it answers", "look")


class Script:
    """A source that gives what it is told to, and then waits."""

    adapter = "sonic"

    def __init__(self, switch: str, *steps: Polled | Exception) -> None:
        self.switch = switch
        self._steps = list(steps)
        self.done = asyncio.Event()
        self.failed = asyncio.Event()
        self.closed = False

    async def next_counters(self) -> Polled:
        if not self._steps:
            self.done.set()
            await asyncio.Event().wait()
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            self.failed.set()
            raise step
        return step

    async def close(self) -> None:
        self.closed = True


class Here:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry, version="0")
        self.decoding = DecodingThreads()
        self.counters = CounterOwner(
            CounterSettings(),
            IngestLimits(1 << 20, 10, 60.0),
            decoding=self.decoding,
            metrics=self.metrics,
            clock_s=self.clock_s,
        )

    def clock_s(self) -> float:
        return self.now_s

    def polling(self, *sources: Script, **given: Any) -> CounterPolling:
        return CounterPolling(
            sources,
            counters=self.counters,
            metrics=self.metrics,
            clock_s=self.clock_s,
            **({"every_s": 0.001, "longest_wait_s": 0.001} | given),
        )

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


@pytest.fixture
def here() -> Iterator[Here]:
    made = Here()
    yield made
    made.counters.close()
    made.decoding.close()


async def followed(polling: CounterPolling, *sources: Script) -> None:
    polling.start()
    await asyncio.gather(*(source.done.wait() for source in sources))
    await polling.stop()
    assert all(source.closed for source in sources)


async def test_samples_reach_the_window_and_the_age_is_told(here: Here) -> None:
    source = Script("leaf1", polled("leaf1", 1), polled("leaf1", 2))
    polling = here.polling(source)
    assert polling.age_s("leaf1") is None
    age = here.metric("ecntwin_counter_poll_age_seconds", switch="leaf1")
    assert age != age  # NaN before the first
    await followed(polling, source)
    grown = await here.counters.increase(["leaf1"], 0, 10 * S)
    assert grown.counters.pfc_tx_frames == 10
    here.now_s += 7.0
    assert here.metric("ecntwin_counter_poll_age_seconds", switch="leaf1") == 7.0
    assert (polling.age_s("leaf1"), polling.age_s("leaf9")) == (7.0, None)
    assert here.metric("ecntwin_counter_polls_total", adapter="sonic") == 2
    assert here.metric("ecntwin_switch_samples_accepted_total") == 2


async def test_one_that_fails_is_told_once_and_stops_nobody(
    here: Here, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ecntwin.counters")
    bad = Script("leaf1", *(away("leaf1") for _ in range(5)), polled("leaf1", 1))
    good = Script("leaf2", *(polled("leaf2", at) for at in range(1, 9)))
    polling = here.polling(bad, good)
    await followed(polling, bad, good)
    assert here.metric("ecntwin_counter_poll_failures_total", adapter="sonic", reason="unreachable") == 5
    assert here.metric("ecntwin_counter_polls_total", adapter="sonic") == 9
    said = [record.getMessage() for record in caplog.records]
    assert sum("no counters from switch leaf1" in line for line in said) == 1
    assert "counters of switch leaf1 are back after 5 failures" in said
    assert not any("leaf2" in line for line in said)
    assert polling.failing == {}


async def test_another_reason_is_told_too(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    denied = AccessError("switch 'leaf1'", "NOAUTH", "the credentials are right", "correct them")
    source = Script("leaf1", away("leaf1"), denied, denied)
    polling = here.polling(source)
    await followed(polling, source)
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "no counters from switch leaf1"
    ] * 2
    assert polling.failing == {"leaf1": "access"}
    assert here.metric("ecntwin_counter_poll_failures_total", adapter="sonic", reason="access") == 2


async def test_a_mistake_of_ours_stops_nothing(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    source = Script("leaf1", ZeroDivisionError(), polled("leaf1", 1))
    await followed(here.polling(source), source)
    assert here.metric("ecntwin_counter_poll_failures_total", adapter="sonic", reason="other") == 1
    assert "failed unexpectedly" in caplog.text
    assert here.metric("ecntwin_counter_polls_total", adapter="sonic") == 1


async def test_one_that_cannot_be_closed_keeps_nobody_from_ending(
    here: Here, caplog: pytest.LogCaptureFixture
) -> None:
    class Stuck(Script):
        async def close(self) -> None:
            raise RuntimeError("stuck")

    stuck, good = Stuck("leaf1", polled("leaf1", 1)), Script("leaf2", polled("leaf2", 1))
    with ThreadPoolExecutor(1) as threads:
        polling = here.polling(stuck, good, threads=threads)
        polling.start()
        await asyncio.gather(stuck.done.wait(), good.done.wait())
        await polling.stop()
        assert good.closed
        with pytest.raises(RuntimeError):
            threads.submit(int)
    assert "the connection to switch leaf1 could not be closed" in caplog.text


async def test_counters_that_cannot_be_kept_are_told(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    source = Script("leaf1", polled("leaf1", 2), polled("leaf1", 1))  # its clock was set back
    polling = here.polling(source)
    await followed(polling, source)
    assert polling.failing == {"leaf1": "no_counters"}
    assert "none could be kept" in caplog.text
    assert here.metric("ecntwin_counter_polls_total", adapter="sonic") == 1


async def test_counters_that_find_no_room_are_told_once(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    def two(at_s: int) -> Polled:
        (one,) = polled("leaf1", at_s).samples
        return Polled((one, replace(one, key=one.key._replace(port="Ethernet4"))))

    limits = IngestLimits(1 << 20, 10, 60.0)
    settings = CounterSettings(max_series=1)
    counters = CounterOwner(
        settings, limits, decoding=here.decoding, metrics=here.metrics, clock_s=here.clock_s
    )
    here.counters, before = counters, here.counters
    before.close()
    source = Script("leaf1", two(1), two(2))
    polling = here.polling(source)
    await followed(polling, source)
    assert polling.failing == {}
    said = [record.getMessage() for record in caplog.records if "could not be kept" in record.getMessage()]
    assert len(said) == 1
    assert said[0].startswith("1 of 2 samples of counters of switch leaf1")


async def test_what_was_left_out_and_what_is_not_counted_is_told_once(
    here: Here, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ecntwin.counters")
    note = ("it does not count marks",)
    source = Script(
        "leaf1",
        *(polled("leaf1", at, problems=2, notes=note) for at in (1, 2, 3)),
        polled("leaf1", 4),
        polled("leaf1", 5, problems=1),
    )
    await followed(here.polling(source), source)
    assert here.metric("ecntwin_counter_poll_values_refused_total", adapter="sonic") == 7
    assert [record.getMessage() for record in caplog.records] == [
        "counters of switch leaf1: it does not count marks",
        "2 counters of switch leaf1 were left out: problem 0",
        "counters of switch leaf1: it counts all that matters now",
        "1 counters of switch leaf1 were left out: problem 0",
    ]


async def test_a_look_that_brings_nothing_is_a_failure(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    source = Script("leaf1", Polled((), (), ("it does not count drops: QUEUE is off",)))
    await followed(here.polling(source), source)
    assert here.metric("ecntwin_counter_poll_failures_total", adapter="sonic", reason="no_counters") == 1
    assert here.metric("ecntwin_counter_polls_total", adapter="sonic") == 0
    assert "QUEUE is off" in caplog.text


async def test_the_wait_after_failures_doubles_up_to_a_limit(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def noted(delay_s: float) -> None:
        waits.append(delay_s)
        await sleep(0)

    monkeypatch.setattr("service.polling.poller.asyncio.sleep", noted)
    source = Script("leaf1", *(away("leaf1") for _ in range(6)), polled("leaf1", 1), away("leaf1"))
    await followed(here.polling(source, every_s=10.0, longest_wait_s=60.0), source)
    assert waits == [10.0, 20.0, 40.0, 60.0, 60.0, 60.0, 10.0]


async def test_it_ends_while_a_switch_is_waited_for(here: Here) -> None:
    source = Script("leaf1", away("leaf1"))
    polling = here.polling(source, every_s=1_000.0, longest_wait_s=1_000.0)
    polling.start()
    await source.failed.wait()
    await polling.stop()
    assert source.closed
