"""Small tables for the replay kernels' own tests, compiled or as plain Python alike."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.unit.twin.fluid.problems import flow, line, star
from tests.unit.twin.kernels.plain_python import records_as_attributes
from twin.replay import layout
from twin.replay._cells import arrive, begin_page, cell_of, find_cell, rest
from twin.replay._flows import remember
from twin.replay._kernels import reset
from twin.replay._queues import last_bytes, serve
from twin.replay.layout import PAGE, PARAMS, Record, Table
from twin.replay.plan import allocate, compile_tables
from twin.scenario import Scenario

PACKET = 1_000.0
STEP_S = 1e-6
KMIN, KMAX, PMAX = 20.0, 120.0, 0.4
FIRST, LAST = 1, 0  # of ``two_queues``


def table(record: np.dtype[np.void], rows: int) -> Table:
    """Empty records whose columns are attributes: plain Python needs that, the compiler does not mind."""
    return np.zeros(rows, dtype=record).view(np.recarray)


def parameters(**changed: Any) -> Record:
    """A sender of 100 clocks: cut 25 steps, α 27, increase 150."""
    values: dict[str, Any] = {
        "ai_rate": 10.0,
        "hai_rate": 50.0,
        "gain": 1 / 16,
        "cnp_steps": 25.0,
        "look_steps": 1,
        "alpha_steps": 27.0,
        "increase_steps": 150.0,
        "byte_counter": math.inf,
        "fast_recovery_steps": 5,
        "min_rate": 1.0,
        "clamp_target": True,
        "initial_alpha": 1.0,
    }
    found = table(PARAMS, 1)
    for name, value in (values | changed).items():
        found[name] = value
    return found[0]


def fresh_slots(count: int) -> Table:
    """Slots of flows that have not been marked and sit in no bucket."""
    slots = table(layout.SLOT, count)
    silence(slots)
    return slots


def silence(slots: Table) -> None:
    """No slot has an event ahead."""
    for column in ("cut_at", "alpha_at", "increase_at", "next_at"):
        slots[column] = layout.NEVER
    slots["remaining"] = slots["counted"] = math.inf
    slots["draws"] = 1


def segments_for(count: int) -> Table:
    """Room for the rate changes of ``count`` flows."""
    return np.zeros((count, layout.SEGMENTS), dtype=layout.SEGMENT).view(np.recarray)


class Bench:
    """A scenario's tables and working arrays before the first step; its queues run when a test says so.

    Columns are read and written by name, ``queues[0]["backlog"]``, so that tests read alike compiled or not.
    """

    def __init__(self, scenario: Scenario, *, queue_delay: int = 1, nic_delay: int = 0) -> None:
        tables = compile_tables(scenario, STEP_S)
        tables.queues["delay"], tables.entries["delay"], tables.inlets["delay"] = (
            queue_delay,
            nic_delay,
            nic_delay,
        )
        tables = tables._replace(packet_bytes=PACKET, reserve_bytes=4_000.0, resume_bytes=3_000.0)
        work = allocate(tables, room=8)  # pages are not given back here
        work.curves[:] = KMIN, KMAX, PMAX
        plain = bool(os.environ.get("NUMBA_DISABLE_JIT"))
        self.tables: Any = records_as_attributes(tables) if plain else tables
        self.work: Any = records_as_attributes(work) if plain else work
        reset(self.tables, self.work)
        silence(self.work.slots)

    def begin(self, rate: float, return_delay: float = 0.0) -> Record:
        """Flow 0 sends from step 0 on, as much as it likes; its slot."""
        slot = self.work.slots[0]
        slot["entry"] = self.tables.flows[0]["entry"]
        slot["delay"] = self.tables.entries[slot["entry"]]["delay"]
        slot["return_delay"] = return_delay
        slot["rate"] = slot["target"] = slot["sending"] = rate
        remember(slot, self.work.segments, 0, float(rate), 0)
        return slot

    @property
    def free_parcels(self) -> int:
        found, index = 0, int(self.work.pool[0]["free_parcel"])
        while index >= 0:
            found, index = found + 1, int(self.work.parcels[index]["after"])
        return found

    def bring(self, flow: int, step: int, count: float) -> None:
        """Bytes of a flow's stream arrive at its first queue in ``step``."""
        entry = self.tables.entries[self.tables.flows[flow]["entry"]]
        arrive(self.tables, self.work, int(entry["suffix"]), step, float(count))

    def arrived(self, q: int, step: int) -> float:
        """Bytes that arrived at a queue in a step."""
        cell = find_cell(self.work, q, step)
        return float(self.work.cells[cell]["arrived"]) if cell >= 0 else 0.0

    def advance(self, step: int, capacities: Sequence[float] | Mapping[int, float]) -> None:
        """Serve the queues that have work, as a run does, and let those rest that have none left."""
        tables, work = self.tables, self.work
        if step % PAGE == 0:
            begin_page(work, tables.queues, step)
        pool = work.pool[0]
        busy = [int(q) for q in work.busy[: pool["n_busy"]]]
        pool["n_busy"] = 0
        kept = []
        for q in busy:
            queue = tables.queues[q]
            if find_cell(work, q, step) < 0 and queue["backlog"] == 0.0:
                queue["sent"], queue["head"] = 0.0, step + 1
            else:
                incoming = float(work.cells[cell_of(work, queue, q, step)]["arrived"])
                serve(tables, work, q, step, incoming, float(capacities[q]))
            if queue["ending_first"] >= 0:
                last_bytes(tables, work, q, step)
            if (
                queue["until"] > step
                or queue["backlog"] > 0
                or queue["ending_first"] >= 0
                or queue["sent"] > 0
            ):
                kept.append(q)
            else:
                rest(work, queue, q, step)
        woken = [int(q) for q in work.busy[: pool["n_busy"]]]
        for place, q in enumerate([*kept, *woken]):
            work.busy[place] = q
        pool["n_busy"] = len(kept) + len(woken)

    def pass_marked(self, step: int, p: float, q: int = 0, lost: float = 0.0) -> None:
        """What arrives at a queue in ``step`` leaves in it, marked with probability ``p``."""
        work, queue = self.work, self.tables.queues[q]
        if step % PAGE == 0:
            begin_page(work, self.tables.queues, step)
        index = cell_of(work, queue, q, step)
        assert not work.pool[0]["short"]
        cell = work.cells[index]
        queue["marks_sum"] += p
        cell["marks"] = cell["known"] = queue["marks_sum"]
        if p > 0.0:
            queue["marked_at"] = step
        if work.lost.size:
            work.lost[index]["total"], work.lost[index]["share"] = queue["lost_sum"], lost
            queue["lost_sum"] += lost


def one_queue(*, n_steps: int = 200, pfc: bool = True, nic_delay: int = 0) -> Bench:
    """A flow into the one queue there is."""
    scenario = star([flow("h0", "h3", 1e6)], duration_s=n_steps * STEP_S, pfc=pfc)
    return Bench(scenario, nic_delay=nic_delay)


def two_queues(*, n_steps: int = 200, delay: int = 1, pfc: bool = True) -> Bench:
    """Flow 0 crosses queues ``FIRST`` and ``LAST``, flow 1 ``LAST`` only."""
    rows = [flow("a0", "a1", 1e6), flow("b1", "a1", 1e6)]
    scenario = line(rows, rates_gbps=(40.0,), duration_s=n_steps * STEP_S, pfc=pfc)
    return Bench(scenario, queue_delay=delay)


def many_marked(bench: Bench, marks: Iterable[float], q: int = 0, lost: float = 0.0) -> None:
    """``pass_marked`` step by step from 0 on."""
    for step, p in enumerate(marks):
        bench.pass_marked(step, float(p), q, lost)
