"""Arrivals with sampling undone: bytes, sizes, receivers and bursts come back; what is known stays."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from telemetry.state import FlowArrivals
from tests.unit.twin.arrivals.sampled import HOSTS, NIC, PACKET, arrivals, sampled
from twin.arrivals.model import MOST_UNSEEN, Modelled, Shape, modelled, one_size_bursts, usual_burstiness

NICS = dict.fromkeys(HOSTS, NIC)


def undone(
    seen: FlowArrivals, burstiness: float = 0.0, since_s: float = 0.0, until_s: float = 0.05
) -> Modelled:
    return modelled(
        seen,
        Shape.of(burstiness),
        one_size_bursts(seen, NICS, PACKET),
        nic_bytes_per_s=NICS,
        since_s=since_s,
        until_s=until_s,
        packet_bytes=PACKET,
    )


def usual(seen: FlowArrivals) -> float:
    return usual_burstiness(seen, one_size_bursts(seen, NICS, PACKET), NICS)


def poisson(count: int, size: float, one_in: int, seed: int = 1) -> FlowArrivals:
    rng = np.random.default_rng(seed)
    return sampled(np.full(count, size), np.sort(rng.uniform(0.0, 0.05, count)), one_in, seed=seed)


@pytest.mark.parametrize("one_in", [64, 512])
def test_bytes_stay_and_sizes_come_back(one_in: int) -> None:
    model = undone(poisson(5000, 2e5, one_in))
    found = model.arrivals
    assert found.wire_bytes.sum() == pytest.approx(5000 * 2e5, rel=0.06)
    heavy = found.wire_bytes[found.wire_bytes > 5e4]
    assert len(heavy) == pytest.approx(5000, rel=0.45)
    assert model.hidden_below_bytes == pytest.approx(one_in * PACKET * math.log(2))
    assert model.unseen == np.count_nonzero(found.n_samples == 0)
    assert found.start_s.min() >= 0
    assert found.start_s.max() <= 0.05


def test_unseen_messages_go_to_the_receivers_of_those_seen() -> None:
    rng = np.random.default_rng(3)
    receiver = np.where(rng.random(6000) < 0.7, 0, 1)
    seen = sampled(np.full(6000, 3e4), np.sort(rng.uniform(0, 0.05, 6000)), 256, receiver=receiver)
    found = undone(seen).arrivals
    to_first = np.array(found.dst_host) == HOSTS[0]
    assert found.wire_bytes[to_first].sum() / found.wire_bytes.sum() == pytest.approx(0.7, abs=0.05)
    assert set(found.dst_host) == {HOSTS[0], HOSTS[1]}


def test_receivers_that_differ_by_chance_are_evened_out() -> None:
    seen = poisson(600, 2e5, 2048)
    sent = [seen.sent_bytes[np.array(seen.dst_host) == host].sum() for host in HOSTS[:4]]
    found = undone(seen).arrivals
    carried = [found.wire_bytes[np.array(found.dst_host) == host].sum() for host in HOSTS[:4]]
    assert np.std(carried) / np.mean(carried) < np.std(sent) / np.mean(sent)


def test_many_samples_tell_the_size() -> None:
    shown = np.array([100, 300]) * 64 * PACKET
    seen = arrivals(np.array([0.01, 0.02]), shown, np.array([100, 300]), [0, 1])
    model = undone(seen)
    assert model.arrivals.wire_bytes[:2].tolist() == shown.tolist()
    assert model.unseen_share < 0.01


def test_sampling_makes_few_elephants_of_smaller_messages() -> None:
    rng = np.random.default_rng(5)
    sizes = np.exp(rng.uniform(math.log(4e3), math.log(9.5e5), 8000))
    found = undone(sampled(sizes, np.sort(rng.uniform(0.0, 0.05, 8000)), 64)).arrivals.wire_bytes
    assert np.count_nonzero(found >= 1.05e6) < 40  # at face value a hundred
    assert found.sum() == pytest.approx(sizes.sum(), rel=0.05)


def test_a_message_that_outlasts_the_window_ends_unless_it_was_there_all_along() -> None:
    other = poisson(400, 5e6, 64)
    open_ones = arrivals(np.array([0.0, 0.04]), np.array([math.inf, math.inf]), np.array([900, 20]), [0, 1])
    rows = np.arange(len(other) + 2)
    both = other.and_then(open_ones).take(rows)
    found = undone(both).arrivals.wire_bytes
    assert math.isinf(found[len(other)])
    assert found[len(other) + 1] == pytest.approx(5e6, rel=0.5)


def test_where_few_got_to_an_end_most_that_did_not_are_larger_than_these() -> None:
    # Senders so slow that of eighty messages twenty ended, with 1 to 2 MB; sixty have sent 1.2 to 3.5 MB yet.
    ends = np.arange(80) < 20
    sizes = np.where(ends, np.tile(np.linspace(1e6, 2e6, 20), 4), np.tile(np.linspace(1.2e6, 3.5e6, 20), 4))
    n = np.round(sizes / (64 * PACKET)).astype(np.int64)
    begins = np.linspace(0.006, 0.03, 80)
    seen = arrivals(begins, np.where(ends, sizes, math.inf), n, [number % 8 for number in range(80)])
    seen = replace(seen, sent_bytes=sizes, last_s=np.where(ends, begins + 0.012, 0.05))
    found = undone(seen).arrivals.wire_bytes[:80][~ends]
    assert (found >= sizes[~ends]).all()
    assert np.count_nonzero(found > 2e6) >= 50


def slow(rate: float, seed: int, until_s: float = 0.05) -> tuple[FlowArrivals, float]:
    """Messages of 0.3 to 6 MB at one rate, as 1 packet in 64 shows those in a window, and the bytes of all
    that begin in it.
    """
    rng, rows = np.random.default_rng(seed), []
    begins = np.sort(rng.uniform(-0.1, until_s, 3000))
    sizes = np.exp(rng.uniform(math.log(3e5), math.log(6e6), 3000))
    for begin_s, size in zip(begins, sizes, strict=True):
        at = np.sort(rng.uniform(begin_s, begin_s + size / rate, rng.poisson(size / (64 * PACKET))))
        at = at[(at > 0.0) & (at < until_s)]
        if len(at):
            shown, pace_s = len(at) * 64 * PACKET, (at[-1] - at[0]) / max(len(at) - 1, 1)
            wire = math.inf if len(at) > 2 and until_s - at[-1] < 6 * pace_s else shown
            start_s = 0.0 if begin_s < 0.0 else max(at[0] - shown / (len(at) + 1) / NIC, 1e-8)
            rows.append((start_s, wire, at[-1], shown, len(at), begin_s < 0.0))
    start, wire, last, shown, n, before = map(np.array, zip(*sorted(rows), strict=True))
    seen = arrivals(start, wire, n, rng.integers(4, size=len(n)).tolist())
    return replace(seen, last_s=last, sent_bytes=shown, ran_before=before), float(sizes[begins > 0.0].sum())


def test_slow_messages_that_begin_have_their_bytes_though_most_outlast_the_window() -> None:
    ratios = []
    for seed in (1, 2, 3):
        seen, true_bytes = slow(8e7, seed)
        assert np.isinf(seen.wire_bytes).mean() > 0.3
        found = undone(seen).arrivals
        ratios.append(found.wire_bytes[~found.ran_before & (found.start_s > 0.0)].sum() / true_bytes)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.1)


def collective(steps_s: list[float], until_s: float, size: float) -> FlowArrivals:
    """A sender's messages to 15 receivers at once, step after step, as 1 packet in 64 shows them.

    They share its NIC; a step that began before 0 is seen in part, as is one that lasts beyond the window.
    """
    rng = np.random.default_rng(5)
    lasting_s, rows = 15 * size / NIC, []
    for begin_s in steps_s:
        for to in range(15):
            at = np.sort(begin_s + lasting_s * rng.uniform(0.0, 1.0, rng.poisson(size / (64 * PACKET))))
            at = at[(at > 0.0) & (at < until_s)]
            if not len(at):
                continue
            shown = len(at) * 64 * PACKET
            start_s = 0.0 if begin_s < 0.0 else max(at[0] - shown / (len(at) + 1) / NIC, 1e-8)
            wire = math.inf if begin_s + lasting_s > until_s and len(at) > 2 else shown
            rows.append((f"d{to}", wire, start_s, at[-1], shown, len(at)))
    to_host, wire, start, last, sent, n = zip(*rows, strict=True)
    return FlowArrivals(
        src_host=(HOSTS[0],) * len(rows),
        dst_host=to_host,
        path=np.zeros(len(rows), np.int32),
        wire_bytes=np.array(wire),
        start_s=np.array(start),
        last_s=np.array(last),
        way_s=np.zeros(len(rows)),
        sent_bytes=np.array(sent),
        n_samples=np.array(n),
        end_seen=np.zeros(len(n), np.bool_),
        ran_before=np.array(start) == 0.0,
    )


def test_messages_of_a_collective_are_of_one_size_at_the_edges_of_the_window_too() -> None:
    step_s = 15 * 2e6 / NIC + 2e-4
    begins = [step_s * (number - 0.6) for number in range(5)]
    seen = collective(begins, until_s := begins[-1] + 0.4 * step_s, 2e6)
    found = undone(seen, until_s=until_s).arrivals
    by_step = found.wire_bytes[: len(seen)].reshape(5, 15)
    assert np.ptp(by_step, axis=1).tolist() == [0.0] * 5
    assert by_step[0, 0] == pytest.approx(0.7e6, rel=0.2), "what was left of it"
    assert by_step[1:4, 0] == pytest.approx(2e6, rel=0.1)
    assert np.isfinite(by_step[4, 0])


def test_what_is_left_of_a_message_or_has_begun_is_no_small_one() -> None:
    step_s = 15 * 2e6 / NIC + 2e-4
    begins = [step_s * (number - 0.88) for number in range(5)]
    seen = collective(begins, until_s := begins[-1] + 0.08 * step_s, 2e6)
    small = seen.sent_bytes < 3e5
    assert np.count_nonzero(small & seen.ran_before) > 5
    assert np.count_nonzero(small & np.isfinite(seen.wire_bytes) & ~seen.ran_before) > 2
    model = undone(seen, until_s=until_s)
    found = model.arrivals
    assert model.unseen == 0
    assert found.wire_bytes[~found.ran_before].min() > 1e6
    assert found.wire_bytes[found.ran_before].sum() == seen.wire_bytes[seen.ran_before].sum()


def incast(size: np.ndarray | float, one_in: int) -> FlowArrivals:
    """150 bursts of 16 messages to four receivers in turn, one every 300 µs."""
    rng = np.random.default_rng(2)
    start = np.repeat(np.arange(150) * 3e-4, 16) + rng.uniform(0, 5e-6, 150 * 16)
    receiver = np.repeat(np.arange(150) % 4, 16)
    return sampled(np.broadcast_to(size, start.shape), start, one_in, receiver=receiver)


def near(found: FlowArrivals) -> float:
    """The share of bytes that leave within 50 µs of a burst's begin."""
    close = np.mod(found.start_s + 1e-5, 3e-4) < 6e-5
    return float(found.wire_bytes[close].sum() / found.wire_bytes.sum())


def test_bursts_are_joined_by_those_that_nobody_saw() -> None:
    seen = incast(np.random.default_rng(3).pareto(1.2, 150 * 16) * 3e4 + 2e4, 256)
    assert usual(seen) == 1.0
    together, apart = (undone(seen, burstiness).arrivals for burstiness in (1.0, 0.0))
    assert near(together) > near(apart) + 0.15
    to = np.array(together.dst_host)[together.n_samples == 0]
    assert len(set(to)) == 4


def test_bursts_of_one_size_are_found_whole() -> None:
    seen = incast(1.3e5, 128)
    assert usual(seen) == 0.0, "nothing is left to start together"
    model = undone(seen)
    found = model.arrivals
    assert near(found) > 0.97
    assert np.isclose(found.wire_bytes, 1.3e5, rtol=0.15).mean() > 0.98
    assert len(found) == pytest.approx(150 * 16, rel=0.15)
    assert model.unseen == np.count_nonzero(found.n_samples == 0)
    _, burst = np.unique(np.round(found.start_s / 3e-4), return_inverse=True)
    carried = np.bincount(burst, found.wire_bytes)
    assert np.std(carried) < 0.15 * np.mean(carried), "sampling alone made them differ"


def test_other_messages_between_bursts_stay_as_they_are() -> None:
    bursts, apart = incast(1.3e5, 64), poisson(400, 2e6, 64)
    both = bursts.and_then(apart)
    found = undone(both).arrivals.wire_bytes
    large = found[found > 5e5]
    assert len(large) == pytest.approx(400, rel=0.05)
    assert large.sum() == pytest.approx(400 * 2e6, rel=0.05)
    assert found.sum() == pytest.approx(400 * 2e6 + 150 * 16 * 1.3e5, rel=0.05)


def test_starts_by_chance_are_not_bursty() -> None:
    assert usual(poisson(5000, 2e5, 64)) == 0.0
    assert usual(poisson(0, 2e5, 64)) == 0.0


def test_smoother_means_more_and_smaller_messages() -> None:
    seen = poisson(600, 1e5, 1024)
    counts = [undone(seen, burstiness).unseen for burstiness in (0.0, -0.4, -0.8)]
    assert counts[0] < counts[1] < counts[2] <= MOST_UNSEEN


def test_of_a_long_window_only_what_is_replayed_is_made_up() -> None:
    rng = np.random.default_rng(4)
    seen = sampled(np.full(20_000, 1e5), np.sort(rng.uniform(0.0, 1.0, 20_000)), 256)
    found = undone(seen, since_s=0.95, until_s=1.0).arrivals
    assert found.wire_bytes.sum() == pytest.approx(1000 * 1e5, rel=0.15)
    assert found.start_s[found.n_samples == 0].min() >= 0.95


def test_without_sampling_nothing_is_made_up() -> None:
    seen = poisson(50, 2e5, 1)
    assert undone(seen).arrivals.wire_bytes.tolist() == seen.wire_bytes.tolist()
    endless = arrivals(np.array([0.002]), np.array([math.inf]), np.array([500]), [0])
    found = undone(endless).arrivals
    assert (found.wire_bytes.tolist(), found.start_s.tolist()) == ([math.inf], [0.0])  # there all along


def test_the_same_reports_give_the_same_messages() -> None:
    one, other = (undone(poisson(500, 1e5, 256), 0.3).arrivals for _ in range(2))
    assert one.src_host == other.src_host
    assert one.start_s.tolist() == other.start_s.tolist()
    assert one.wire_bytes.tolist() == other.wire_bytes.tolist()
