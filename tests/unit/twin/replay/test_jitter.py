"""Whole packets ahead of the fluid: nothing on average, and the variance of evenly spaced packets."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.twin.replay.records import PACKET, table
from twin.replay import layout
from twin.replay._queues import phase_jitter
from twin.replay.layout import uniform


def jitters(flows: int, packets_a_step: float, n_steps: int, seed: int = 1) -> NDArray[np.float64]:
    queues = table(layout.QUEUE, 1)
    queues.flows = flows
    return np.array(
        [phase_jitter(queues[0], packets_a_step * PACKET, step, 0, seed, PACKET) for step in range(n_steps)]
    )


@pytest.mark.parametrize("flows", [2, 16, 64])
@pytest.mark.parametrize("packets_a_step", [2.0, 24.0])
def test_it_adds_nothing_and_varies_as_sawtooths_do(flows: int, packets_a_step: float) -> None:
    n_steps = 20_000
    ahead = np.cumsum(jitters(flows, packets_a_step, n_steps)) / PACKET
    # N sawtooths of one packet: variance N/12, and a memory of their mean packet spacing.
    deviation = (flows / 12) ** 0.5
    memory_steps = 1 + flows / packets_a_step
    assert abs(ahead.mean()) < 5 * deviation * (2 * memory_steps / n_steps) ** 0.5
    assert ahead.std() == pytest.approx(deviation, rel=0.15)
    assert abs(ahead[-1]) < 6 * deviation


@pytest.mark.kernels
def test_a_flow_alone_and_a_deep_queue_show_no_phases() -> None:
    assert np.all(jitters(1, 24.0, 50) == 0.0)
    queues = table(layout.QUEUE, 1)
    queues.flows, queues.jitter, queues.backlog = 8, 400.0, 1_000 * PACKET
    assert phase_jitter(queues[0], 24 * PACKET, 0, 0, 1, PACKET) == 0.0
    assert queues[0].jitter == 400.0, "made up for once the queue is short again"


@pytest.mark.kernels
@pytest.mark.parametrize("packets_a_step", [0.01, 0.2])
def test_packets_of_hardly_any_traffic_can_wait_but_not_be_unsent(packets_a_step: float) -> None:
    queues = table(layout.QUEUE, 1)
    queues.flows = 16
    incoming = packets_a_step * PACKET
    ahead = [phase_jitter(queues[0], incoming, step, 0, 1, PACKET) for step in range(20_000)]
    assert min(ahead) >= -incoming
    assert sum(ahead) == pytest.approx(queues[0].jitter), "nothing is made or forgotten"


@pytest.mark.kernels
def test_queues_and_seeds_draw_apart_and_the_same_again() -> None:
    assert np.array_equal(jitters(4, 24.0, 50), jitters(4, 24.0, 50))
    assert not np.array_equal(jitters(4, 24.0, 50, seed=1), jitters(4, 24.0, 50, seed=2))


@pytest.mark.kernels
def test_draws_are_uniform_and_know_their_place_only() -> None:
    draws = np.array([[uniform(3, stream, index) for index in range(100)] for stream in range(100)])
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    assert draws.mean() == pytest.approx(0.5, abs=0.01)
    assert np.histogram(draws, bins=10, range=(0, 1))[0] == pytest.approx(1_000, abs=120)
    # Neither neighbours in a stream nor like places of two streams know of each other.
    assert abs(np.corrcoef(draws[:, :-1].ravel(), draws[:, 1:].ravel())[0, 1]) < 0.03
    assert abs(np.corrcoef(draws[:-1].ravel(), draws[1:].ravel())[0, 1]) < 0.03
    assert uniform(3, 5, 7) == draws[5, 7]
    assert np.unique(draws).size == draws.size
