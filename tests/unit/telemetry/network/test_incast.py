"""Incast degrees: by hand, and against counting live senders at every begin."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from telemetry.network.messages import incast_degrees

Message = tuple[str, str, int, int]


def degrees(*messages: Message) -> dict[str, tuple[int, int]]:
    names = sorted({name for message in messages for name in message[:2]})
    found = incast_degrees(
        names,
        np.array([names.index(sender) for sender, _, _, _ in messages], np.int64),
        np.array([names.index(receiver) for _, receiver, _, _ in messages], np.int64),
        np.array([start for _, _, start, _ in messages], float),
        np.array([start + lasts for _, _, start, lasts in messages], float),
    )
    assert list(found) == sorted(found, key=lambda one: (-one.degree, one.receiver))
    return {one.receiver: (one.degree, one.senders) for one in found}


def test_nobody_sends() -> None:
    assert degrees() == {}


def test_senders_count_once_however_many_messages_they_have_under_way() -> None:
    seen = degrees(("a", "x", 0, 10), ("a", "x", 2, 5), ("a", "x", 3, 1), ("b", "x", 4, 1), ("c", "x", 20, 1))
    assert seen == {"x": (2, 3)}


def test_what_ends_as_another_begins_still_meets_it() -> None:
    assert degrees(("a", "x", 0, 10), ("b", "x", 10, 5)) == {"x": (2, 2)}
    assert degrees(("a", "x", 0, 9), ("b", "x", 10, 5)) == {"x": (1, 2)}


def test_a_year_of_messages_is_told_apart_as_well_as_a_second() -> None:
    year_ns = 365 * 86_400 * 10**9
    messages = [
        (f"s{number}", f"r{number % 2}", number * year_ns // 1_000, year_ns // 2_000)
        for number in range(1_000)
    ]
    assert degrees(*messages, ("s0", "r0", year_ns, 1)) == {"r0": (1, 500), "r1": (1, 500)}


def test_receivers_do_not_share_senders() -> None:
    seen = degrees(("a", "x", 0, 10), ("a", "y", 0, 10), ("b", "y", 5, 0), ("x", "a", 5, 0))
    assert seen == {"x": (1, 1), "y": (2, 2), "a": (1, 1)}


@given(
    st.lists(
        st.tuples(st.sampled_from("abcde"), st.sampled_from("xyz"), st.integers(0, 12), st.integers(0, 6)),
        max_size=40,
    )
)
def test_the_sweep_finds_what_counting_at_every_beginning_finds(messages: list[Message]) -> None:
    expected = {}
    for receiver in {message[1] for message in messages}:
        own = [message for message in messages if message[1] == receiver]
        degree = max(
            len({sender for sender, _, start, lasts in own if start <= at <= start + lasts})
            for _, _, at, _ in own
        )
        expected[receiver] = (degree, len({sender for sender, *_ in own}))
    assert degrees(*messages) == expected
