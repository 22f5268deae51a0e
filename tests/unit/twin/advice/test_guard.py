"""What the guard lets through, and the sentence of each abstention."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from twin.advice.artefact import SCHEMA, Feature, Leaf, Learnt, Tree
from twin.advice.codebook import Code
from twin.advice.features import FEATURES, Scales
from twin.advice.guard import Advice, advise
from twin.search.push_gate import GateSettings
from twin.watermark import Watermark, WatermarkBounds

LOW, HIGH = Code(1.0, 4.0, 0.5), Code(10.0, 4.0, 0.1)
SCALES = Scales(rtt_s=1e-5, bdp_bytes=10_000.0)
RUNS_HIGH = Watermark(70_000, 280_000, 0.1)
LEARNT = Learnt(
    schema=SCHEMA,
    features=[Feature(name, 0.0, 1.0) for name in FEATURES],
    codes=[LOW, HIGH],
    tree=Tree([0, -1, -1], [0.5, -2.0, -2.0], [1, 0, 1], [2, -1, -1]),
    leaves=[Leaf([0.01, 0.25], 0.08), Leaf([0.3, 0.02], 0.4)],
    regret_limit=0.2,
    provenance={},
)


def asked(first: float = 0.5, incumbent: Watermark = RUNS_HIGH, **more: object) -> Advice:
    row = np.full(len(FEATURES), 0.5)
    row[0] = first
    given = {"gate": GateSettings(), "margin": 0.03} | more
    return advise(LEARNT, row, SCALES, incumbent, **given)  # type: ignore[arg-type]


def test_it_advises_the_code_of_the_leaf_with_its_gain_over_the_nearest_code() -> None:
    found = asked()
    assert (found.watermark, found.target) == (Watermark(10_000, 40_000, 0.5),) * 2
    assert (found.gain, found.regret, found.abstained) == (0.24, 0.08, None)
    assert found.why == (
        "Kmin 10 KB, Kmax 40 KB, Pmax 50 % would gain about 24 %; "
        "in nine of ten such states the best gains at most 8 % more."
    )


def test_it_keeps_what_runs_where_little_is_gained() -> None:
    runs = Watermark(11_000, 41_000, 0.5)
    found = asked(incumbent=runs)
    assert (found.watermark, found.gain) == (runs, 0.0)
    assert found.why.startswith("Keep Kmin 11 KB, Kmax 41 KB, Pmax 50 %;")
    assert asked(margin=0.25).watermark == RUNS_HIGH


def test_it_takes_no_more_than_a_step_inside_the_bounds() -> None:
    found = asked(gate=GateSettings(max_step=2.0))
    assert found.watermark is not None
    assert found.watermark.kmin_bytes == 35_000
    assert found.target == Watermark(10_000, 40_000, 0.5)
    assert "a step towards Kmin 10 KB, Kmax 40 KB, Pmax 50 %, would gain" in found.why
    bounds = replace(WatermarkBounds(), kmin_low_bytes=20_000)
    assert asked(gate=GateSettings(bounds=bounds)).watermark == Watermark(20_000, 40_000, 0.5)


@pytest.mark.parametrize(
    ("given", "reason", "said"),
    [
        ({"first": 1.5}, "range", f"{FEATURES[0]} is 1.5, and it is learnt from 0 to 1."),
        ({"first": np.nan}, "range", f"{FEATURES[0]} is nan"),
        ({"first": 0.6}, "regret", "in one of ten such states another watermark gains over 40 % more"),
        ({"other_senders": ["h1", "h2"]}, "senders", "learnt from senders of DCQCN, and h1, h2 run others."),
        ({"held": ("Held: the queue is off.",)}, "held", "No advice: the queue is off."),
    ],
)
def test_it_abstains_with_a_sentence(given: dict[str, object], reason: str, said: str) -> None:
    found = asked(**given)  # type: ignore[arg-type]
    assert (found.watermark, found.target, found.gain, found.regret) == (None,) * 4
    assert found.abstained == reason
    assert found.why.startswith("No advice: ")
    assert said in found.why


def test_a_code_stays_inside_the_widest_bounds() -> None:
    assert Code(1e-3, 1.1, 0.5).watermark(10_000) == Watermark(2_000, 4_000, 0.5)
    assert Code(1e6, 50.0, 0.5).watermark(10_000) == Watermark(4_000_000, 16_000_000, 0.5)


def test_the_artefact_of_the_tests_is_one() -> None:
    assert msgspec.json.decode(msgspec.json.encode(LEARNT), type=Learnt) == LEARNT
