"""Growth over parts of a time adds up to growth over all of it; no body crashes the decoder."""

from __future__ import annotations

import gzip
import json
import math
from itertools import pairwise, zip_longest
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from telemetry.counters.model import Counters, CounterSample, CounterSettings, SeriesKey
from telemetry.counters.window import CounterWindow
from telemetry.decode.counters import decode_counters
from telemetry.errors import DecodeError

COUNT = st.integers(0, 2**40)
STEP = st.tuples(st.integers(1, 50), COUNT, st.booleans(), st.none() | COUNT)
SERIES = st.lists(STEP, min_size=1, max_size=40)
KEYS = [SeriesKey(switch, port, 3) for switch in ("leaf1", "leaf2") for port in ("Ethernet0", "Ethernet1")]


def samples_of(key: SeriesKey, steps: list[tuple[int, int, bool, int | None]]) -> list[CounterSample]:
    """Steps of time, growth and resets; marks given or not."""
    made, ts_ns, sent = [], 0, 0
    for later_ns, more, reset, marked in steps:
        ts_ns += later_ns
        sent = more if reset else sent + more
        made.append(CounterSample(key, ts_ns, Counters(tx_bytes=sent, ecn_marked_packets=marked)))
    return made


def told(given: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Readings without those that went down and that the next does not go on from: glitches, and the last."""
    kept = given[:1]
    for (ts_ns, count), following in zip_longest(given[1:], given[2:]):
        high = kept[-1][1]
        if count >= high or (following is not None and count <= following[1] < high):
            kept.append((ts_ns, count))
    return kept


def known_growth(samples: list[CounterSample], name: str, since_ns: int, until_ns: int) -> int | None:
    """The same by definition: reading by reading."""
    every = [
        (sample.ts_ns, count) for sample in samples if (count := getattr(sample.counters, name)) is not None
    ]
    given = [(ts_ns, count) for ts_ns, count in told(every) if ts_ns <= until_ns]
    before = [place for place, (ts_ns, _) in enumerate(given) if ts_ns <= since_ns]
    used = given[before[-1] if before else 0 :]
    if len(used) < 2:
        return None
    pairs = pairwise(used)
    return sum(now - last if now >= last else now for (_, last), (_, now) in pairs)


@given(st.lists(SERIES, min_size=1, max_size=4), st.lists(st.integers(-5, 2_100), min_size=2, max_size=8))
def test_increases_over_any_split_add_up(all_steps: list[Any], cuts: list[int]) -> None:
    window, samples = CounterWindow(), []
    for key, steps in zip(KEYS, all_steps, strict=False):
        samples.append(samples_of(key, steps))
        assert window.add(samples[-1]).accepted == len(steps)
    cuts.sort()
    whole = window.increase(None, cuts[0], cuts[-1])
    parts = [window.increase(None, begin, end) for begin, end in pairwise(cuts)]
    for name in ("tx_bytes", "ecn_marked_packets"):
        known = [known_growth(one, name, cuts[0], cuts[-1]) for one in samples]
        counted = [value for value in known if value is not None]
        assert getattr(whole.counters, name) == (sum(counted) if counted else None)
        found = [getattr(part.counters, name) for part in parts]
        assert sum(value or 0 for value in found) == (getattr(whole.counters, name) or 0)
    assert whole.counters.dropped_packets is None
    assert 0 <= whole.covered_s * 1e9 <= cuts[-1] - cuts[0]


@given(SERIES, st.integers(4, 12), st.integers(1, 200))
def test_what_is_let_go_changes_no_growth_up_to_the_newest(steps: Any, most: int, horizon_ns: int) -> None:
    ended = steps[1:] and [(1, 0, False, None)]  # tells what the last one was, if that went down
    samples = samples_of(KEYS[0], [*steps, *ended])
    window = CounterWindow(CounterSettings(max_samples=most, horizon_ns=horizon_ns))
    assert window.add(samples).accepted == len(samples)
    newest_ns = samples[-1].ts_ns
    found = window.increase(None, 0, newest_ns)
    if found.ports:
        begin_ns = newest_ns - round(found.covered_s * 1e9)
        assert found.counters.tx_bytes == known_growth(samples, "tx_bytes", begin_ns, newest_ns)
    else:
        assert len(samples) == 1
    known = known_growth(samples, "tx_bytes", max(newest_ns - horizon_ns, 0), newest_ns)
    recent = window.increase(None, max(newest_ns - horizon_ns, 0), newest_ns).counters.tx_bytes
    assert known is None or (recent is not None and recent >= known)  # thinned: from no later than asked


@given(st.binary(max_size=300))
def test_bytes_never_break_the_decoder(body: bytes) -> None:
    for form in (body, b"[" + body + b"]", b"{" + body + b"\n{}", gzip.compress(body)):
        try:
            assert decode_counters(form).samples == ()
        except DecodeError:
            continue


def _is_json(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["switch", "port", "queue", "ts_ns", "tx_bytes", "dropped_packets"]),
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just("12"),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_every_sample_is_either_kept_or_named(samples: list[dict[str, Any]]) -> None:
    body = "\n".join(map(json.dumps, samples)).encode()
    try:
        decoded = decode_counters(body)
    except DecodeError:
        assert not any(all(map(_is_json, sample.values())) for sample in samples)  # no line is JSON
        return
    named = [problem.index for problem in decoded.errors]
    assert sorted([*decoded.positions, *named]) == list(range(len(samples)))
    for position, sample in zip(decoded.positions, decoded.samples, strict=True):
        assert sample.key.switch == samples[position]["switch"]
        assert any(count is not None for count in sample.counters)
