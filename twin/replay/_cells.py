"""What each queue remembers of each step, in memory that follows the bytes in flight.

A *cell* is one queue in one step: what arrived, how it was marked since, and how far the queue had come by
the end of that step. Cells come in *pages* of ``PAGE`` steps, taken where a queue has work and given back
once nobody can read them; a step without one is one in which nothing waited and nothing was marked. Bytes
that go on to another queue are *parcels* in the cell of their arrival, one for each rest of a path.

The kernels cannot allocate: where a pool has no room left they set ``pool.short``, and the run begins again
with larger ones.
"""

from __future__ import annotations

import math

from twin.jit import inlined, kernel
from twin.replay.layout import BIN_STEPS, PAGE, PAGE_BITS, Record, Table, Tables, Work

_MASK = PAGE - 1
KEPT_STEPS = 64  # at least: a flow that starts looks back by its round trip


@kernel
def add_page(work: Work, queue: Record, q: int, number: int) -> int:
    """The first cell of a new page, in which nothing has happened yet."""
    pool = work.pool[0]
    if pool.n_free_pages > 0:
        pool.n_free_pages -= 1
        first = work.free_pages[pool.n_free_pages]
    elif (pool.n_pages + 1) * PAGE <= work.cells.size:
        first = pool.n_pages * PAGE
        pool.n_pages += 1
    else:
        pool.short = 1
        return 0
    work.pages[number, q] = first
    for i in range(PAGE):
        cell = work.cells[first + i]
        cell.arrived = 0.0
        cell.marks = queue.marks_sum
        cell.known = queue.marks_sum
        cell.lag = 0.0
        cell.parcels = -1
        if work.lost.size:
            work.lost[first + i].total = queue.lost_sum
            work.lost[first + i].share = 0.0
    return int(first)


@inlined
def find_cell(work: Work, q: int, step: int) -> int:
    """The cell of a queue in a step, −1 where it has none."""
    first = work.pages[step >> PAGE_BITS, q]
    return first + (step & _MASK) if first >= 0 else -1


@inlined
def cell_of(work: Work, queue: Record, q: int, step: int) -> int:
    """The cell of a queue in a step, made where it has none."""
    first = work.pages[step >> PAGE_BITS, q]
    if first < 0:
        first = add_page(work, queue, q, step >> PAGE_BITS)
    return first + (step & _MASK)


@inlined
def begin_page(work: Work, queues: Table, step: int) -> None:
    """Note the running sums of all queues at the first step of a page, for those that will have none."""
    number = step >> PAGE_BITS
    for q in range(queues.size):
        work.marks[number, q] = queues[q].marks_sum
        if work.lost.size:
            work.losses[number, q] = queues[q].lost_sum


@inlined
def release_pages(work: Work, oldest: int) -> None:
    """Give back the pages that end before step ``oldest``."""
    pool = work.pool[0]
    while (pool.released + 1) << PAGE_BITS <= oldest:
        for q in range(work.pages.shape[1]):
            first = work.pages[pool.released, q]
            if first >= 0:
                work.pages[pool.released, q] = -1
                work.free_pages[pool.n_free_pages] = first
                pool.n_free_pages += 1
        pool.released += 1


@inlined
def release_read(tables: Tables, work: Work, step: int) -> None:
    """Give back the pages that neither bytes that wait nor flows that send can still ask for."""
    oldest = float(step - KEPT_STEPS)
    for i in range(work.pool[0].n_busy):
        oldest = min(oldest, float(tables.queues[work.busy[i]].head))
    for i in range(tables.nics.size):
        index = tables.nics[i].first_slot
        while index >= 0:
            oldest = min(oldest, work.reads[index, 0].position)
            index = work.slots[index].nic_after
    release_pages(work, int(oldest) - 1)


@inlined
def wake(work: Work, queue: Record, q: int, at: int) -> None:
    """The queue has work in step ``at``."""
    queue.until = max(queue.until, at)
    if queue.busy == 0:
        queue.busy = 1
        pool = work.pool[0]
        work.busy[pool.n_busy] = q
        pool.n_busy += 1


@inlined
def rest(work: Work, queue: Record, q: int, step: int) -> None:
    """The queue has no work after ``step``."""
    queue.busy = 0
    cell = find_cell(work, q, step)
    if cell >= 0 and work.cells[cell + _MASK - (step & _MASK)].marks != queue.marks_sum:
        for i in range(cell + 1, cell + PAGE - (step & _MASK)):
            work.cells[i].marks = work.cells[i].known = queue.marks_sum
    if cell >= 0 and work.lost.size:
        for i in range(cell + 1, cell + PAGE - (step & _MASK)):
            work.lost[i].total = queue.lost_sum


@inlined
def arrive(tables: Tables, work: Work, s: int, at: int, count: float) -> None:
    """``count`` bytes of stream ``s`` arrive at its queue in step ``at``."""
    suffix = tables.suffixes[s]
    q = suffix.queue
    queue = tables.queues[q]
    wake(work, queue, q, at)
    cell = work.cells[cell_of(work, queue, q, at)]
    cell.arrived += count
    if work.recorded.size:
        work.recorded[suffix.group, q, at // BIN_STEPS] += count
    if suffix.onward < 0:
        return
    if suffix.parcel_at == at:
        work.parcels[suffix.parcel].bytes += count
        return
    pool = work.pool[0]
    index = pool.free_parcel
    if index >= 0:
        pool.free_parcel = work.parcels[index].after
    elif pool.n_parcels < work.parcels.size:
        index = pool.n_parcels
        pool.n_parcels += 1
    else:
        pool.short = 1
        return
    parcel = work.parcels[index]
    parcel.bytes = count
    parcel.suffix = s
    parcel.after = cell.parcels
    cell.parcels = index
    suffix.parcel = index
    suffix.parcel_at = at


@inlined
def forward(tables: Tables, work: Work, cell: Record, fraction: float, at: int) -> None:
    """``fraction`` of what arrived in a cell reaches the next queues in step ``at``."""
    index = cell.parcels
    while index >= 0:
        parcel = work.parcels[index]
        part = parcel.bytes * fraction
        if part > 0.0:
            suffix = tables.suffixes[parcel.suffix]
            suffix.total += part
            arrive(tables, work, suffix.onward, at, part)
        index = parcel.after


@inlined
def discard(work: Work, cell: Record) -> None:
    """All that arrived in a cell has gone on."""
    pool = work.pool[0]
    index = cell.parcels
    cell.parcels = -1
    while index >= 0:
        following = work.parcels[index].after
        work.parcels[index].after = pool.free_parcel
        pool.free_parcel = index
        index = following


@inlined
def left_by(work: Work, q: int, step: int) -> tuple[float, float]:
    """Arrival steps that have left a queue by the end of ``step``, and the part of the next that has; and the
    running sum of their marks.

    Of what many senders send at once in one step the first bytes may leave unmarked, and the last, many steps
    later, all be marked: of a part that left, its own marks count.
    """
    if step < 0:
        return 0.0, 0.0
    index = find_cell(work, q, step)
    if index < 0:
        return step + 1.0, work.marks[step >> PAGE_BITS, q]
    cell = work.cells[index]
    return step + 1.0 - cell.lag, cell.known


@inlined
def left_until(work: Work, q: int, time: float) -> tuple[float, float]:
    """The same at a moment within a step."""
    if time <= 0.0:
        return 0.0, 0.0
    step = int(time)
    part = time - step
    first = work.pages[step >> PAGE_BITS, q]
    if first < 0 or step & _MASK == 0:  # the step before is not in this page
        before, known = left_by(work, q, step - 1)
    else:
        cell = work.cells[first + (step & _MASK) - 1]
        before, known = step - cell.lag, cell.known
    if part == 0.0:
        return before, known
    if first < 0:
        return before + part * (step + 1.0 - before), known
    cell = work.cells[first + (step & _MASK)]
    return before + part * (step + 1.0 - cell.lag - before), known + part * (cell.known - known)


@inlined
def marks_by(work: Work, q: int, step: int) -> float:
    """The running sum of a queue's marks up to an arrival step, all of which has left."""
    index = find_cell(work, q, step)
    return work.cells[index].marks if index >= 0 else work.marks[step >> PAGE_BITS, q]


@inlined
def marks_until(work: Work, q: int, position: float) -> float:
    """The same up to an arrival position, which may be within a step."""
    if position <= 0.0:
        return 0.0
    step = math.ceil(position) - 1
    after = marks_by(work, q, step)
    part = step + 1.0 - position
    if part == 0.0:
        return after
    before = marks_by(work, q, step - 1) if step > 0 else 0.0
    return after - part * (after - before)


@inlined
def losses_until(work: Work, q: int, position: float) -> float:
    """The running sum of the shares that a queue lost up to an arrival position."""
    if position <= 0.0:
        return 0.0
    step = math.ceil(position) - 1
    index = find_cell(work, q, step)
    if index < 0:
        return work.losses[step >> PAGE_BITS, q]
    return work.lost[index].total + (position - step) * work.lost[index].share
