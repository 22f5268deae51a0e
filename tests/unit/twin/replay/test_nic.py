"""Flows of a host share its NIC: max-min, and paced as queue pairs are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.unit.twin.replay.records import fresh_slots, one_queue, segments_for, table
from twin.replay import layout
from twin.replay._nics import nic_capacity, paced, send, send_ahead, send_all, share_nic
from twin.replay.layout import Table

pytestmark = pytest.mark.kernels

LINE = 1_000.0


class Nic:
    """A NIC and its flows, shared once."""

    def __init__(self, rates: Sequence[float], capacity: float = LINE) -> None:
        count = len(rates)
        self.slots = fresh_slots(count)
        self.slots.rate = rates
        self.slots.nic_before = np.arange(count) - 1
        self.slots.nic_after = np.append(np.arange(1, count), -1)
        self.segments = segments_for(count)
        self.entries = table(layout.ENTRY, 1)
        self.inlets = table(layout.INLET, 1)
        self.nics = table(layout.NIC, 1)
        self.nics.rate = LINE
        self.wheel = np.full(layout.WHEEL, -1, dtype=np.int64)
        self.share(capacity, 0)

    def share(self, capacity: float, step: int) -> None:
        share_nic(
            self.slots, self.segments, self.wheel, self.entries, self.inlets, self.nics[0], capacity, step,
            0, step,
        )  # fmt: skip

    @property
    def sending(self) -> list[float]:
        return [float(rate) for rate in self.slots.sending]


def max_min(wanted: NDArray[np.float64], capacity: float) -> NDArray[np.float64]:
    """Raise everybody's rate together until they have what they want or nothing is left."""
    given_out = np.zeros_like(wanted)
    left = capacity
    for place, flow in enumerate(np.argsort(wanted)):
        given_out[flow] = min(wanted[flow], left / (len(wanted) - place))
        left -= given_out[flow]
    return given_out


def test_a_flow_alone_sends_what_it_wants() -> None:
    assert Nic([700.0]).sending == [700.0]
    assert Nic([LINE]).sending == [LINE]


def test_equal_flows_at_line_rate_halve_it() -> None:
    assert Nic([LINE, LINE]).sending == [LINE / 2, LINE / 2]


def test_small_flows_keep_what_they_want() -> None:
    nic = Nic([100.0, 900.0, 900.0])
    assert nic.sending[1] == nic.sending[2] == pytest.approx(450.0, rel=1e-6)
    assert nic.sending[0] == pytest.approx(100.0, rel=0.06)
    assert nic.nics[0].limiting == 1
    assert nic.nics[0].sending == LINE


def test_a_paced_flow_waits_half_a_packet_of_the_others() -> None:
    # 1/R becomes 1/R + (busy share)·(packet time)/2, in packets of 1 at line rate 1000.
    interval = 1 / 100.0 + 0.4 * (1 / LINE) / 2
    assert paced(100.0, 500.0, LINE) == pytest.approx(1 / interval, rel=1e-12)
    assert paced(100.0, 100.0, LINE) == 100.0
    # However much is wanted, a NIC is never more than busy.
    assert paced(100.0, 1e9, LINE) == paced(100.0, LINE + 100.0, LINE)


def test_a_paused_nic_sends_nothing_and_resumes() -> None:
    nic = Nic([300.0, 800.0])
    nic.share(0.0, 10)
    assert nic.sending == [0.0, 0.0]
    # A packet that leaves as the pause ends is spaced as before it.
    assert nic.nics[0].fair == pytest.approx(LINE - 300.0)
    assert nic.inlets[0].rate == nic.entries[0].rate == 0.0
    nic.share(LINE, 20)
    assert sum(nic.sending) > 0.9 * LINE
    # Nothing left while it was paused.
    assert nic.entries[0].total == pytest.approx(10 * nic.entries[0].rate)


def test_acknowledgements_and_pauses_take_from_the_nic() -> None:
    queues = table(layout.QUEUE, 1)
    queues.sent = 600.0
    nics = table(layout.NIC, 1)
    nics.rate, nics.reverse_queue = LINE, -1
    assert nic_capacity(nics[0], queues, 0.06) == LINE
    nics.reverse_queue = 0
    assert nic_capacity(nics[0], queues, 0.06) == LINE - 0.06 * 600
    assert nic_capacity(nics[0], queues, 5.0) == 0.0
    nics.paused = 1
    assert nic_capacity(nics[0], queues, 0.06) == 0.0


wanted_rates = st.lists(st.floats(0.1, LINE), min_size=1, max_size=12)


@given(wanted_rates, st.floats(50.0, LINE))
def test_shares_are_max_min_and_add_up(rates: list[float], capacity: float) -> None:
    nic = Nic(rates, capacity)
    wanted = np.array(rates)
    ceiling = max_min(wanted, capacity)
    at_pace = np.array([paced(rate, wanted.sum(), LINE) for rate in rates])
    np.testing.assert_allclose(nic.sending, np.minimum(at_pace, ceiling), rtol=1e-6)
    assert sum(nic.sending) <= capacity * (1 + 1e-9)
    assert nic.entries[0].rate == pytest.approx(sum(nic.sending), rel=1e-9)
    assert nic.inlets[0].rate == pytest.approx(sum(nic.sending), rel=1e-9)
    assert nic.nics[0].wanted == pytest.approx(wanted.sum())
    assert bool(nic.nics[0].limiting) == (nic.nics[0].wanted > capacity)


@given(wanted_rates, st.randoms(use_true_random=False))
def test_the_order_of_flows_does_not_matter(rates: list[float], order: object) -> None:
    places = list(range(len(rates)))
    order.shuffle(places)  # type: ignore[attr-defined]
    straight, mixed = Nic(rates), Nic([rates[place] for place in places])
    np.testing.assert_allclose(np.array(straight.sending)[places], mixed.sending, rtol=1e-9)


def accounts(slots: Table) -> tuple[float, float]:
    return float(slots[0].remaining), float(slots[0].counted)


def test_a_change_of_rate_settles_what_was_sent_before() -> None:
    nic = Nic([200.0])
    nic.slots.remaining, nic.slots.counted = 10_000.0, 5_000.0
    send(nic.slots, nic.segments, 0, 50.0, nic.entries, nic.inlets, 7)
    assert accounts(nic.slots) == (10_000.0 - 7 * 200.0, 5_000.0 - 7 * 200.0)
    assert nic.entries[0].total == 7 * 200.0
    assert nic.inlets[0].rate == 50.0
    send(nic.slots, nic.segments, 0, 0.0, nic.entries, nic.inlets, 9)
    assert accounts(nic.slots) == (10_000.0 - 1_500.0, 5_000.0 - 1_500.0)


def test_bytes_ahead_are_sent_in_this_step_only() -> None:
    bench = one_queue()
    slot = bench.begin(200.0)
    slot["remaining"] = 10_000.0
    send_ahead(bench.tables, slot, 30.0)
    assert (slot["remaining"], slot["sent"]) == (9_970.0, 30.0)
    entry, inlet = bench.tables.entries[slot["entry"]], bench.tables.inlets[0]
    assert (entry["total"], entry["rate"], inlet["burst"], inlet["rate"]) == (30.0, 0.0, 30.0, 0.0)


def test_what_is_sent_arrives_a_cable_later_until_nobody_sends() -> None:
    bench = one_queue(nic_delay=4)
    inlet, pool = bench.tables.inlets[0], bench.work.pool[0]
    inlet["flows"] = inlet["listed"] = pool["n_sending"] = 1
    inlet["rate"], inlet["burst"] = 50.0, 7.0
    send_all(bench.tables, bench.work, 0)
    send_all(bench.tables, bench.work, 1)
    inlet["flows"], inlet["rate"], inlet["burst"] = 0, 1e-12, 20.0  # the last one's last bytes
    send_all(bench.tables, bench.work, 2)
    send_all(bench.tables, bench.work, 3)
    assert [bench.arrived(0, step) for step in range(3, 9)] == pytest.approx(
        [0.0, 57.0, 50.0, 20.0, 0.0, 0.0]
    )
    assert (inlet["rate"], inlet["listed"], pool["n_sending"]) == (0.0, 0, 0)
