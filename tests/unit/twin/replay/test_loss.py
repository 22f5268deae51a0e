"""Where PFC is off: what finds no room is lost, its share leaves every stream, and flows send it again."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.twin.fluid.problems import flow, line
from tests.unit.twin.replay.records import STEP_S, Bench
from twin.replay._cells import cell_of, losses_until
from twin.replay._queues import append_ending, drop

pytestmark = pytest.mark.kernels

FLOWS = 400


def dropped(incoming: float, room: float, ending: int = 0) -> tuple[float, Bench]:
    """Bytes of two streams meet a queue in step 7; the last bytes of ``ending`` flows are among them."""
    rows = [flow("a0", "a1", 1e6), *[flow("a0", "b1", 1e6)] * (FLOWS - 1)]
    scenario = line(rows, rates_gbps=(40.0,), duration_s=200 * STEP_S, pfc=False)
    bench = Bench(scenario, queue_delay=3)
    tables, work = bench.tables, bench.work
    stream = int(tables.entries[tables.flows[0]["entry"]]["suffix"])
    q = int(tables.suffixes[stream]["queue"])
    queue = tables.queues[q]
    queue["rate"], queue["backlog"] = 100.0, 5_000.0
    for step in (7, 8):
        bench.bring(0, step, 0.4 * incoming)
        bench.bring(1, step, 0.6 * incoming)
    for index in range(ending):
        append_ending(tables, work, index, stream, 7, 0.5)
    return drop(tables, work, queue, q, 7, incoming, room, 5), bench


def parcels(bench: Bench, step: int) -> list[float]:
    work, found = bench.work, []
    [q] = {int(suffix["queue"]) for suffix in bench.tables.suffixes if suffix["onward"] >= 0}
    index = int(work.cells[cell_of(work, bench.tables.queues[q], q, step)]["parcels"])
    while index >= 0:
        found.append(float(work.parcels[index]["bytes"]))
        index = int(work.parcels[index]["after"])
    return sorted(found)


def test_what_fits_stays_and_every_stream_loses_alike() -> None:
    share, bench = dropped(2_000.0, 500.0)
    [q] = {int(suffix["queue"]) for suffix in bench.tables.suffixes if suffix["onward"] >= 0}
    assert share == 0.75
    assert bench.arrived(q, 7) == 500.0
    assert parcels(bench, 7) == pytest.approx([0.4 * 500.0, 0.6 * 500.0])
    assert bench.arrived(q, 8) == 2_000.0
    assert parcels(bench, 8) == pytest.approx([0.4 * 2_000.0, 0.6 * 2_000.0])
    # Whoever sent into the first half of the step lost half of the share.
    assert bench.tables.queues[q]["lost_sum"] == 0.75
    assert [losses_until(bench.work, q, at) for at in (7.0, 7.5, 8.0)] == [0.0, 0.375, 0.75]


def test_a_lost_last_byte_comes_again_a_queue_and_a_trip_later() -> None:
    share, bench = dropped(2_000.0, 500.0, ending=FLOWS)
    ending = bench.tables.flows["ending_step"]
    later = ending != 7
    assert set(ending[later].tolist()) == {7 + 50 + 2 * 3 + 2}
    assert later.mean() == pytest.approx(share, abs=0.07)
    _, bench = dropped(2_000.0, 0.0, ending=20)
    assert np.all(bench.tables.flows["ending_step"][:20] != 7)
