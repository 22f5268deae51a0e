"""The fabric's thread: deterministic steps, changes between slices, and an end for whoever waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import Any

import httpx
import pytest

from lab import runner as runner_module
from lab.reports import Body, Poster
from lab.runner import Runner
from settings.errors import ConflictError, UnavailableError, UnprocessableError
from tests.unit.lab.labs import NEW, OLD, Kept, parts_of, running
from twin.errors import ScenarioError
from twin.packet.fabric import Fabric
from twin.packet.results import Results, Samples

PATIENCE_S = 120.0


def result(answer: Future[Any]) -> Any:
    return answer.result(PATIENCE_S)


def until(runner: Runner, holds: Callable[[], bool]) -> None:
    """Until it holds: asked between slices, where the fabric's thread answers."""
    asked = 0
    while not holds():
        result(runner._ask(lambda: None))
        asked += 1
        assert asked < 1_000_000


def story(*, slice_wall_s: float, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, list[Any]]:
    """Three steps, a watermark, a cut cable; what was reported and measured."""
    monkeypatch.setattr(runner_module, "SLICE_WALL_S", slice_wall_s)
    with running() as (runner, writer):
        found = [result(runner.advance(0.002))]
        result(runner.set_watermark(list(runner.view.watermarks)[:6], NEW))
        found.append(result(runner.advance(0.004)))
        result(runner.fail_link(*uplink()))
        found.append(result(runner.advance(0.007)))
        result(runner.restore_link(*uplink()))
        found.append(result(runner.advance(0.008)))
    return writer.text, found


def uplink() -> tuple[int, int]:
    plan = parts_of().plan
    port = next(
        index for index, port in enumerate(plan.ports) if (port.node, port.peer) == ("leaf1", "spine1")
    )
    return port, plan.reverse[port]


def test_the_same_steps_give_the_same_reports_and_figures_however_they_are_sliced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, found = story(slice_wall_s=0.05, monkeypatch=monkeypatch)
    fine_text, fine_found = story(slice_wall_s=0.0005, monkeypatch=monkeypatch)
    assert text == fine_text
    assert found == fine_found
    assert found[0].completions > 0


def test_a_change_makes_a_difference() -> None:
    def reports(watermark: Any) -> bytes:
        with running() as (runner, writer):
            result(runner.advance(0.001))
            result(runner.set_watermark(list(runner.view.watermarks), watermark))
            result(runner.advance(0.004))
        return writer.text

    assert reports(NEW) != reports(OLD)


def test_what_is_set_is_what_is_shown() -> None:
    with running() as (runner, _):
        ports = list(runner.view.watermarks)
        before = runner.view
        result(runner.set_watermark(ports[:2], NEW))
        assert [runner.view.watermarks[port] for port in ports[:3]] == [NEW, NEW, OLD]
        assert before.watermarks[ports[0]] == OLD
        with pytest.raises(ScenarioError):
            result(runner.set_watermark([10**6], NEW))
        assert result(runner.advance(0.0001)).end_s == 0.0001


@pytest.mark.parametrize("until_s", [0.0, -1.0, 0.001, 0.0201, float("inf")])
def test_time_goes_on_and_ends(until_s: float) -> None:
    with running() as (runner, _):
        result(runner.advance(0.001))
        with pytest.raises(UnprocessableError, match="after now"):
            result(runner.advance(until_s))
        assert runner.view.now_s == 0.001


def test_one_step_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    both_asked = threading.Event()
    advance = Fabric.advance

    def held(fabric: Fabric, until_s: float) -> Results:
        assert both_asked.wait(PATIENCE_S)
        return advance(fabric, until_s)

    monkeypatch.setattr(Fabric, "advance", held)
    with running(parts_of(duration_s=0.002)) as (runner, _):
        first, second = runner.advance(0.002), runner.advance(0.002)
        both_asked.set()
        with pytest.raises(ConflictError, match="another one is under way"):
            result(second)
        assert result(first).end_s == 0.002
        assert runner.view.ended


def test_a_lab_by_itself_is_not_stepped_and_ends() -> None:
    over = threading.Event()
    parts = parts_of(duration_s=0.003)
    with running(parts, stepwise=False) as (runner, writer):
        runner.on_end(over.set)
        if not runner.view.ended:
            with pytest.raises((ConflictError, UnavailableError)):
                result(runner.advance(0.001))
        while not over.wait(0.1):
            assert runner.failure is None
            if runner._closed:
                break
        view = runner.view
        assert (view.now_s, view.ended) == (0.003, True)
        assert view.lately is not None
        assert view.lately.end_s <= 0.003
        assert writer.text.count(b"\n") == view.reports_made > 0
        with pytest.raises(UnavailableError):
            result(runner.set_watermark([], NEW))


def test_a_stop_tells_whoever_waits() -> None:
    parts = parts_of(duration_s=10.0)
    with running(parts) as (runner, _):
        waiting = [runner.advance(10.0)]
        waiting.append(runner.set_watermark([], NEW))
        result(waiting[1])
        runner.stop()
        wait(waiting, PATIENCE_S)
        with pytest.raises(UnavailableError, match="a lab that stops"):
            result(waiting[0])
        with pytest.raises(UnavailableError):
            result(runner.advance(11.0))


def test_the_pace_is_kept() -> None:
    now = [100.0]
    parts = parts_of(duration_s=0.02)
    with running(parts, stepwise=False, pace=0.001, clock_s=lambda: now[0]) as (runner, _):
        until(runner, lambda: runner._paced_since_s is not None)
        for wall_s, simulated_s in ((101.0, 0.001), (104.0, 0.004), (1_000.0, 0.02)):
            now[0] = wall_s
            runner.woken()
            if simulated_s < 0.02:
                until(runner, lambda wanted=simulated_s: runner.view.now_s >= wanted - 2e-6)
                assert runner.view.now_s <= simulated_s + 1e-9
        runner._thread.join(PATIENCE_S)
        assert runner.view.ended


def test_however_slow_the_pace_commands_are_answered() -> None:
    with running(stepwise=False, pace=1e-300) as (runner, _):
        until(runner, lambda: runner._paced_since_s is not None)
        ports = list(runner.view.watermarks)
        result(runner.set_watermark(ports, NEW))
        assert result(runner.figures()).end_s == 0.0


def slices_of(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each slice is, as they come."""
    found: list[float] = []
    advance = Fabric.advance

    def noted(fabric: Fabric, until_s: float) -> Results:
        found.append(until_s - fabric.now_s)
        return advance(fabric, until_s)

    monkeypatch.setattr(Fabric, "advance", noted)
    return found


def test_a_quiet_time_does_not_make_the_next_slice_long(monkeypatch: pytest.MonkeyPatch) -> None:
    found = slices_of(monkeypatch)
    quiet = parts_of(traffic="ring-all-reduce:8KB:compute=8ms:iterations=2")
    with running(quiet, clock_s=lambda: 0.0) as (runner, _):
        result(runner.advance(0.02))
    assert max(found) == pytest.approx(runner_module.LONGEST_SLICE_S)


def test_slow_reports_make_slices_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    found = slices_of(monkeypatch)
    now = [0.0]
    bodies = Kept.bodies

    def slow(writer: Kept, samples: Samples) -> Iterator[Body]:
        now[0] += 1.0
        return bodies(writer, samples)

    monkeypatch.setattr(Kept, "bodies", slow)
    with running(clock_s=lambda: now[0]) as (runner, _):
        result(runner.advance(0.0001))
    assert found[:3] == pytest.approx([10e-6, 5e-6, 2.5e-6])


def test_reports_are_waited_for_and_changes_go_on_meanwhile() -> None:
    taking = threading.Event()

    def service(request: httpx.Request) -> httpx.Response:
        if not taking.is_set():
            return httpx.Response(503)
        count = request.content.count(b"\n")
        return httpx.Response(202, json={"accepted": count, "rejected": 0})

    poster = Poster("http://127.0.0.1:8080", transport=httpx.MockTransport(service), first_pause_s=0.001)
    with running(poster=poster) as (runner, _):
        step = runner.advance(0.02)
        until(runner, lambda: not poster.has_room or runner.view.now_s >= 0.02)
        for _ in range(20):
            result(runner.set_watermark(list(runner.view.watermarks), NEW))
        assert not step.done()
        taking.set()
        assert result(step).end_s == 0.02
        assert poster.counts.accepted == runner.view.reports_made > 0


def test_a_service_that_refuses_ends_the_lab() -> None:
    poster = Poster(
        "http://127.0.0.1:8080", transport=httpx.MockTransport(lambda _: httpx.Response(401, json={}))
    )
    with running(poster=poster) as (runner, _):
        with pytest.raises(UnavailableError):
            result(runner.advance(0.02))
        runner._thread.join(PATIENCE_S)
        assert runner.failure is poster.failure


def test_flows_without_a_path_are_lost_while_it_is_missing() -> None:
    plan = parts_of().plan
    port = next(index for index, port in enumerate(plan.ports) if port.node == "leaf1" and port.peer == "h0")
    with running() as (runner, _):
        result(runner.fail_link(port, plan.reverse[port]))
        assert runner.view.links_down == {port, plan.reverse[port]}
        cut = result(runner.advance(0.01))
        assert cut.completions > 0
        result(runner.restore_link(port, plan.reverse[port]))
        assert runner.view.links_down == frozenset()
        result(runner.advance(0.02))
