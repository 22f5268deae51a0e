"""Training on the packet fabric: goes on where it stopped, writes a policy, refuses what is not its own."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from bench.rivals import training
from bench.rivals.__main__ import main
from bench.rivals.training import FIRST_SEED, WORKLOADS, episodes
from bench.rivals.tuners import ai_ecn
from bench.rivals.tuners.monitor import feature_names
from bench.rivals.tuners.policy import Policy, load
from twin.errors import ParameterError


@pytest.fixture(autouse=True)
def short_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "EPISODE_S", 0.004)
    monkeypatch.setattr(training, "WORKLOADS", ("websearch-60+small", "incast-8+small"))


def trained(name: str, folder: Path, episodes: int) -> Policy:
    path = folder / f"{name}-{episodes}.npz"
    options = ["--episodes", str(episodes), "--into", str(folder / name), "--policy", str(path)]
    assert main(["train", name, *options]) == 0
    features = ai_ecn.FEATURES if name == ai_ecn.KIND else feature_names(flows=name == "pet")
    return load(path, name, features)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["acc", "pet", "pet-delay-no-flows"])
def test_training_in_two_goes_gives_the_policy_of_one(name: str, tmp_path: Path) -> None:
    first = trained(name, tmp_path / "two", 1)
    whole, resumed = trained(name, tmp_path / "one", 3), trained(name, tmp_path / "two", 3)
    assert all((whole.arrays[key] == resumed.arrays[key]).all() for key in whole.arrays)
    assert whole.provenance["transitions"] == resumed.provenance["transitions"]
    assert first.provenance["transitions"] < whole.provenance["transitions"]
    assert whole.provenance["seeds"] == [FIRST_SEED, FIRST_SEED + 1]
    if name == "acc":  # PET has not had a rollout yet
        assert any((first.arrays[key] != whole.arrays[key]).any() for key in whole.arrays)


@pytest.mark.slow
def test_ai_ecns_model_learns_the_setting_with_the_best_j(tmp_path: Path) -> None:
    policy = trained(ai_ecn.KIND, tmp_path, 1)
    said = policy.provenance
    assert (said["episodes"], said["right_of_sure"]) == (len(ai_ecn.SETTINGS), 1.0)
    with np.load(tmp_path / ai_ecn.KIND / "checkpoint.npz") as kept:
        worths = [float(kept[f"j.{run}"]) for run in range(len(ai_ecn.SETTINGS))]
    assert said["labels"] == [list(ai_ecn.SETTINGS[int(np.argmax(worths))])]
    assert max(worths) > min(worths)


def test_episodes_are_the_training_workloads_under_seeds_that_no_evaluation_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training, "WORKLOADS", WORKLOADS)
    found = list(islice(episodes(), 13))
    assert [one.name for one, _ in found[:6]] == list(WORKLOADS)
    assert [seed for _, seed in found] == [1_000] * 6 + [1_001] * 6 + [1_002]
    [(later, seed)] = islice(episodes(7), 1)
    assert (later.name, seed) == (found[7][0].name, found[7][1])


def test_the_training_of_another_learner_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained("acc", tmp_path, 1)
    options = ["--episodes", "2", "--into", str(tmp_path / "acc"), "--policy", str(tmp_path / "x.npz")]
    assert main(["train", "pet", *options]) == 2
    assert "training in acc: received {'learner': 'acc'" in capsys.readouterr().err
    (tmp_path / "acc" / "checkpoint.npz").write_bytes(b"PK\x03\x04 broken")
    assert main(["train", "acc", *options]) == 2
    assert "training in acc: received another file" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--episodes", "--transitions"])
def test_a_wrong_amount_gets_a_sentence(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "pet", option, "0"]) == 2
    assert (
        capsys.readouterr().err == f"{ParameterError(option, '0', 'it counts from 1', 'give such as 100')}\n"
    )
