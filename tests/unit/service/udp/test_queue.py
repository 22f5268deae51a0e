from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.udp.listener import USUAL_DATAGRAM_BYTES, DatagramQueue
from service.udp.sockets import Chunk


def chunk(*numbers: int, size: int = 1) -> Chunk:
    payloads = [number.to_bytes(2, "big") * size for number in numbers]
    return Chunk(payloads, np.array(numbers, np.int64), [str(number) for number in numbers])


@given(st.lists(st.integers(1, 20)), st.integers(1, 30))
def test_what_was_put_in_comes_out_in_its_order(sizes: list[int], most: int) -> None:
    queue = DatagramQueue(1_000)
    first = 0
    for size in sizes:
        assert queue.put(chunk(*range(first, first + size))) == (first == 0)
        first += size
    assert queue.depth == first
    received: list[int] = []
    while (taken := queue.take(most)) is not None:
        received += taken.received_ns.tolist()
        assert [int.from_bytes(one, "big") for one in taken.payloads] == taken.received_ns.tolist()
        assert list(map(int, taken.sources)) == taken.received_ns.tolist()
    assert received == list(range(first))
    assert (queue.depth, queue.room) == (0, 1_000)


def test_large_datagrams_fill_it_sooner() -> None:
    queue = DatagramQueue(10)
    assert queue.room == 10
    queue.put(chunk(1, size=5 * USUAL_DATAGRAM_BYTES))
    assert queue.room == 0
    queue.take(1)
    assert queue.room == 10


def test_large_datagrams_are_taken_fewer_at_once() -> None:
    queue = DatagramQueue(1000)
    for number in range(10):
        queue.put(chunk(number, size=USUAL_DATAGRAM_BYTES))  # twice the usual
    taken = queue.take(8)
    assert taken is not None
    assert len(taken.payloads) == 4
    assert queue.depth == 6
