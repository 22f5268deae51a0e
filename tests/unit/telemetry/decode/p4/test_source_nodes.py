"""Nodes from source addresses: only in v0.5 reports without a node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from telemetry.decode.p4.assemble import NO_VALUE, Senders, fill_nodes
from telemetry.decode.p4.plan import NOTHING_32

SENT_BY = np.array([7, 7, NO_VALUE, 7, 7], np.int64)


def told(version: list[int], node: list[int], hops: list[list[int]]) -> tuple[list[int], list[int]]:
    """The nodes of hops and senders; payload n is a report of ``hops[n]``, sent by ``SENT_BY[n]``."""
    n = len(version)
    asked: list[int] = []

    def nodes(positions: NDArray[np.int64]) -> NDArray[np.int64]:
        asked.extend(positions.tolist())
        return SENT_BY[positions]

    whole = np.arange(n)
    senders = Senders(
        whole,
        np.array(version, np.int8),
        np.array(node),
        np.zeros(n, np.int16),
        whole,
        np.full(n, 32, np.int8),
    )
    flat = np.array([one for report in hops for one in report], np.uint32)
    offset = np.concatenate(([0], np.cumsum([len(report) for report in hops])))
    found = fill_nodes(flat, offset, whole, senders, nodes)
    assert asked == [position for position in range(n) if version[position] == 0]
    return flat.tolist(), found.node.tolist()


def test_the_last_hop_of_a_report_that_does_not_say_is_its_senders() -> None:
    assert told([0, 0], [NO_VALUE, NO_VALUE], [[NOTHING_32], [3, NOTHING_32]]) == ([7, 3, 7], [7, 7])


def test_what_a_report_says_itself_stays() -> None:
    assert told([0], [9], [[9]]) == ([9], [9])
    assert told([2, 1], [5, 6], [[NOTHING_32], [NOTHING_32]]) == ([NOTHING_32, NOTHING_32], [5, 6])


def test_an_unknown_sender_stays_unknown() -> None:
    hops, nodes = told([0, 0, 0], [NO_VALUE] * 3, [[7], [NOTHING_32], [NOTHING_32]])
    assert (hops, nodes) == ([7, 7, NOTHING_32], [7, 7, NO_VALUE])


def test_a_node_that_told_of_itself_in_the_stack_is_no_second_hop() -> None:
    hops, nodes = told([0], [NO_VALUE], [[3, 7, NOTHING_32]])
    assert (hops, nodes) == ([3, 7, NOTHING_32], [7])
