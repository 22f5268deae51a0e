"""Where PFC is off: what finds no room is lost, its share leaves every stream, and flows send it again."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.twin.replay.records import table
from twin.replay import layout
from twin.replay._queues import append_ending, drop
from twin.replay.layout import Table

pytestmark = pytest.mark.kernels


def dropped(incoming: float, room: float, flows: int = 0) -> tuple[float, Table, np.ndarray, np.ndarray]:
    """Bytes meet a queue of two streams, one going on; ``flows`` end in this step."""
    queues, suffixes = table(layout.QUEUE, 1), table(layout.SUFFIX, 2)
    queues.rate, queues.delay, queues.backlog, queues.suffix_end = 100.0, 3, 5_000.0, 2
    queues.ending_first = queues.ending_last = -1
    suffixes.row = [0, 1]
    suffixes.onward = [-1, 0]
    arrived, onward = np.full((60, 1), incoming), np.full((60, 1), 0.4 * incoming)
    ending = table(layout.FLOW, max(flows, 1))
    for flow in range(flows):
        append_ending(queues, ending, flow, 0, 0, 7, 0.5)
    share = drop(queues[0], 0, 7, incoming, room, ending, suffixes, arrived, onward, 1, 5)
    return share, ending, arrived, onward


def test_what_fits_stays_and_every_stream_loses_alike() -> None:
    share, _, arrived, onward = dropped(2_000.0, 500.0)
    assert share == 0.75
    assert arrived[7, 0] == 500.0
    assert onward[7, 0] == pytest.approx(0.4 * 500.0)
    assert arrived[8, 0] == 2_000.0


def test_a_lost_last_byte_comes_again_a_queue_and_a_trip_later() -> None:
    share, ending, _, _ = dropped(2_000.0, 500.0, flows=400)
    later = ending.ending_step != 7
    assert set(ending.ending_step[later].tolist()) == {7 + 50 + 2 * 3 + 2}
    assert later.mean() == pytest.approx(share, abs=0.07)
    _, ending, _, _ = dropped(2_000.0, 0.0, flows=20)
    assert np.all(ending.ending_step != 7)
