"""Pages of cells and parcels: given back, used again, and what a queue remembers across its rests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.twin.fluid.problems import CHURNING, flow, line, star
from tests.unit.twin.kernels.uncompiled import long_uncompiled
from tests.unit.twin.replay.records import FIRST, KMIN, LAST, PACKET, many_marked, one_queue, two_queues
from twin.replay._cells import (
    add_page,
    find_cell,
    left_by,
    losses_until,
    marks_until,
    release_pages,
    release_read,
)
from twin.replay._flows import none_marked, unmarked_hazard
from twin.replay._kernels import SHORT
from twin.replay.layout import PAGE, PARCEL, Work
from twin.replay.model import STEP_S, _Run
from twin.replay.plan import allocate
from twin.scenario import Scenario
from twin.watermark import Watermark

pytestmark = pytest.mark.kernels

LOW = Watermark(5_000, 200_000, 0.1)


def test_a_page_given_back_is_used_again_as_if_new() -> None:
    bench = one_queue(n_steps=400, pfc=False)
    work, queue = bench.work, bench.tables.queues[0]
    many_marked(bench, [0.5] * (3 * PAGE), lost=0.25)
    assert work.pool[0]["n_pages"] == 3
    release_pages(work, 2 * PAGE - 1)  # the last step of the second page may still be asked for
    assert [find_cell(work, 0, page * PAGE) for page in range(3)] == [-1, PAGE, 2 * PAGE]
    assert add_page(work, queue, 0, 5) == 0
    assert work.pool[0]["n_pages"] == 3
    cells, lost = work.cells[:PAGE], work.lost[:PAGE]
    assert set(cells["arrived"]) == set(cells["lag"]) == set(lost["share"]) == {0.0}
    assert set(cells["parcels"]) == {-1}
    assert set(cells["marks"]) == set(cells["known"]) == {1.5 * PAGE}
    assert set(lost["total"]) == {0.75 * PAGE}
    assert add_page(work, queue, 0, 6) == 3 * PAGE
    assert not work.pool[0]["short"]


def test_a_pool_without_room_says_so() -> None:
    bench = one_queue(n_steps=400)
    bench.work = bench.work._replace(cells=bench.work.cells[: 2 * PAGE])
    queue = bench.tables.queues[0]
    assert [add_page(bench.work, queue, 0, page) for page in range(2)] == [0, PAGE]
    assert not bench.work.pool[0]["short"]
    add_page(bench.work, queue, 0, 2)
    assert bench.work.pool[0]["short"]


@pytest.mark.parametrize("whose", ["nobody's", "a queue's", "a flow's"])
def test_pages_stay_while_somebody_may_ask_for_them(whose: str) -> None:
    bench = one_queue(n_steps=400)
    tables, work = bench.tables, bench.work
    many_marked(bench, [0.1] * 300)
    if whose == "a queue's":
        tables.queues[0]["head"], work.busy[0], work.pool[0]["n_busy"] = 70, 0, 1
    if whose == "a flow's":
        tables.nics[0]["first_slot"], work.slots[0]["nic_after"] = 0, -1
        work.reads[0, 0]["position"] = 70.0
    release_read(tables, work, 288)
    kept = [page for page in range(300 // PAGE) if work.pages[page, 0] >= 0]
    # 64 steps back whoever asks, and one more: 223 is in page 6, 69 in page 2.
    assert kept == list(range(6 if whose == "nobody's" else 2, 9))


@long_uncompiled
@given(st.lists(st.tuples(st.integers(1, 90), st.integers(1, 600)), min_size=2, max_size=6))
def test_a_queue_that_rests_and_wakes_keeps_its_sums(bursts: list[tuple[int, int]]) -> None:
    """Bursts after rests of less than a page, or of many."""
    n_steps = sum(gap + 61 for gap, _ in bursts) + 2 * PAGE
    bench = one_queue(n_steps=n_steps)
    queue, begins, now = bench.tables.queues[0], {}, 0
    for gap, count in bursts:
        begins[now + gap] = count
        now += gap + 61
    sums, rested = [0.0], 0
    for step in range(n_steps):
        if step in begins:
            bench.bring(0, step, begins[step])
        bench.advance(step, [10.0])
        if not queue["busy"]:
            rested += 1
            # Nothing waits: all that arrived so far has left.
            assert left_by(bench.work, 0, step) == (step + 1, queue["marks_sum"])
            assert marks_until(bench.work, 0, step + 1.0) == pytest.approx(queue["marks_sum"])
        sums.append(float(queue["marks_sum"]))
    assert rested >= sum(gap - 1 for gap, _ in bursts) + 2 * PAGE
    assert queue["backlog"] == 0.0
    asked = [marks_until(bench.work, 0, float(step)) for step in range(n_steps + 1)]
    assert np.all(np.diff(asked) >= -1e-12)
    grew = {int(step) for step in np.flatnonzero(np.diff(asked) > 1e-9)}
    assert grew <= set(begins)  # marks belong to the steps of arrival
    assert asked[-1] == pytest.approx(queue["marks_sum"])
    # A burst of B is B − 15 deep on average in its second step.
    assert (queue["marks_sum"] > 0.0) == (max(begins.values()) - 15 > KMIN)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, int, int, int]]:
    quiet = st.just((10, 0, 60, 90))
    some = st.tuples(st.integers(0, 80), st.integers(0, 60), st.integers(20, 60), st.integers(30, 90))
    return draw(st.lists(st.one_of(quiet, some), min_size=5, max_size=60))


@long_uncompiled
@given(histories(), st.integers(1, 4), st.lists(st.tuples(st.floats(0.1, 12.0), st.booleans()), min_size=1))
def test_nobody_is_told_there_was_no_mark_where_there_was_one(
    moves: list[tuple[int, int, int, int]], delay: int, asks: list[tuple[float, bool]]
) -> None:
    bench = two_queues(delay=delay)
    bench.begin(PACKET)
    tables, work = bench.tables, bench.work
    times = np.cumsum([gap for gap, _ in asks])
    due = [(float(time), reads) for time, (_, reads) in zip(times, asks, strict=True)]
    for now, (long, short, first_room, last_room) in enumerate(moves):
        bench.bring(0, now, long)
        bench.bring(1, now, short)
        bench.advance(now, {FIRST: first_room, LAST: last_room})
        while due and due[0][0] <= now + 1:
            time, reads = due.pop(0)
            if not none_marked(tables, work, 0, time):
                unmarked_hazard(tables, work, 0, time)
                continue
            slots, read = work.slots.copy(), work.reads.copy()
            assert unmarked_hazard(tables, work, 0, time) == pytest.approx(0.0, abs=1e-9)
            if not reads:  # as a sender does: it need not ask
                work.slots[:], work.reads[:] = slots, read


def test_where_nothing_is_marked_nobody_asks_and_after_that_everybody() -> None:
    bench = two_queues()
    bench.begin(PACKET)
    for step in range(10):
        bench.pass_marked(step, 0.0, FIRST)
        bench.pass_marked(step, 0.1 if step == 8 else 0.0, LAST)
    assert unmarked_hazard(bench.tables, bench.work, 0, 5.0) == 0.0
    bench.tables.queues[LAST]["marked_at"] = -1
    assert none_marked(bench.tables, bench.work, 0, 8.0)
    bench.tables.queues[LAST]["marked_at"] = 8
    assert not none_marked(bench.tables, bench.work, 0, 10.0)
    assert unmarked_hazard(bench.tables, bench.work, 0, 10.0) > 0.0
    # What it has read of does not come again.
    assert none_marked(bench.tables, bench.work, 0, 11.0)
    # The first queue's marks count from what has come through it.
    bench.tables.queues[FIRST]["marked_at"] = 9
    assert not none_marked(bench.tables, bench.work, 0, 11.0)


def steady(duration_s: float, *, pfc: bool = True) -> Scenario:
    """A flow all the time, and short ones now and then, over a line of switches."""
    rows = [flow("a0", "a2"), *(flow("b0", "b1", 2e5, at_s) for at_s in np.arange(0, duration_s, 1e-3))]
    return line(rows, dcqcn=CHURNING, duration_s=duration_s, pfc=pfc)


def ran(run: _Run) -> _Run:
    assert run.go(LOW, 3, np.zeros((1, 1)), 0)
    return run


@long_uncompiled
@pytest.mark.parametrize("pfc", [True, False], ids=["pause", "drop"])
def test_memory_follows_the_bytes_in_flight_not_the_length_of_the_run(pfc: bool) -> None:
    short, long = (ran(_Run(steady(duration_s, pfc=pfc), STEP_S)) for duration_s in (4e-3, 16e-3))
    before, after = short.work.pool[0], long.work.pool[0]
    n_queues = long.tables.queues.size
    assert after["n_pages"] <= before["n_pages"] + n_queues
    assert after["n_pages"] <= 8 * n_queues < long.tables.n_steps // PAGE * n_queues / 10
    assert after["n_parcels"] <= before["n_parcels"] + long.tables.suffixes.size
    assert after["released"] >= long.tables.n_steps // PAGE - 8
    assert long.room == 1


@pytest.mark.parametrize("pool", ["cells", "parcels"])
@pytest.mark.parametrize("pfc", [True, False], ids=["pause", "drop"])
def test_a_run_whose_pools_are_too_small_begins_again_and_says_the_same(pool: str, pfc: bool) -> None:
    scenario = steady(1e-3, pfc=pfc)
    expected = _Run(scenario, STEP_S).predict(LOW, 3)
    run = _Run(scenario, STEP_S)
    run.work = cramped(run.work, pool)
    assert run._once(LOW, 3, np.zeros((1, 1)), 0) == SHORT
    assert repr(run.predict(LOW, 3)) == repr(expected)
    assert run.room == 2
    assert repr(run.predict(LOW, 3)) == repr(expected)  # now it fits at once
    assert run.room == 2


def cramped(work: Work, pool: str) -> Work:
    """Room for a few pages or parcels only."""
    if pool == "parcels":
        return work._replace(parcels=np.zeros(2, dtype=PARCEL))
    lost = work.lost[: 4 * PAGE]
    return work._replace(cells=work.cells[: 4 * PAGE], lost=lost)


def test_pools_double_until_they_suffice() -> None:
    tables = _Run(star([flow("h0", "h3", 1e6)], duration_s=20e-3), STEP_S).tables
    once, twice = allocate(tables), allocate(tables, 2)
    assert twice.cells.size == 2 * once.cells.size == 2 * PAGE * once.free_pages.size
    assert twice.lost.size == twice.cells.size
    assert twice.free_pages.size == 2 * once.free_pages.size
    assert twice.parcels.size == 2 * once.parcels.size
    assert twice.pages.shape == once.pages.shape


def test_losses_are_remembered_where_there_is_no_page() -> None:
    bench = one_queue(n_steps=400, pfc=False)
    many_marked(bench, [0.0] * 10, lost=0.25)
    bench.pass_marked(3 * PAGE, 0.0)
    assert find_cell(bench.work, 0, 2 * PAGE) == -1
    assert losses_until(bench.work, 0, 3.0 * PAGE + 1) == 2.5
