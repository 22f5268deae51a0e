"""Policy files: what they keep, and which are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.rivals.tuners import policy as policy_module
from bench.rivals.tuners.learned import LEARNERS, policy_of
from bench.rivals.tuners.policy import MOST_BYTES, Policy, load
from twin.errors import ParameterError

FEATURES = ("queue", "sent")
GIVEN = Policy("pet", FEATURES, (0.3, 0.7), {"actor.0": np.full((1, 2, 3), 0.1)}, {"transitions": 12})


def test_a_policy_is_read_as_it_was_written_to_16_bits(tmp_path: Path) -> None:
    GIVEN.save(tmp_path / "one.npz")
    found = load(tmp_path / "one.npz", "pet", FEATURES)
    assert (found.kind, found.features, found.reward) == (GIVEN.kind, GIVEN.features, GIVEN.reward)
    assert found.provenance == {"transitions": 12}
    assert found.arrays["actor.0"] == pytest.approx(GIVEN.arrays["actor.0"], rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "features", "says"),
    [
        ("acc", FEATURES, "policy one.npz: received kind pet; it must be acc; train one"),
        ("pet", ("queue", "sent", "mice"), "received features queue sent; it must be queue sent mice; train"),
        ("pet", ("sent", "queue"), "features queue sent; it must be sent queue"),
    ],
)
def test_another_kind_or_other_features_are_refused(
    tmp_path: Path, kind: str, features: tuple[str, ...], says: str
) -> None:
    GIVEN.save(tmp_path / "one.npz")
    with pytest.raises(ParameterError, match=says) as refused:
        load(tmp_path / "one.npz", kind, features)
    assert "\n" not in str(refused.value)


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    GIVEN.save(tmp_path / "one.npz")
    monkeypatch.setattr(policy_module, "VERSION", 2)
    with pytest.raises(ParameterError, match="received version 1; it must be 2; train one: python -m bench"):
        load(tmp_path / "one.npz", "pet", FEATURES)


@pytest.mark.parametrize("content", [None, b"", b"not a zip", b"PK\x03\x04 broken"])
def test_what_is_no_policy_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "one.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ParameterError, match=r"policy one\.npz: received (no such|another) file"):
        load(path, "pet", FEATURES)


def test_an_npz_of_something_else_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", about=np.array(json.dumps([1])), other=np.zeros(3))
    with pytest.raises(ParameterError, match="received another file"):
        load(tmp_path / "one.npz", "pet", FEATURES)


def test_a_policy_that_is_too_large_is_refused(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(size=(1, 200, 200))
    with pytest.raises(ParameterError, match="at most 50000; make the network smaller"):
        replace(GIVEN, arrays={"actor.0": noise}).save(tmp_path / "one.npz")


@pytest.mark.parametrize("name", [*LEARNERS, "ai-ecn"])
def test_every_learner_has_a_trained_policy_that_says_where_it_comes_from(name: str) -> None:
    found = policy_of(name)
    assert (policy_module.FOLDER / f"{name}.npz").stat().st_size <= MOST_BYTES
    assert found.provenance["transitions"] > 0
    assert found.provenance["commit"]
    assert min(found.provenance["seeds"]) >= 1_000
