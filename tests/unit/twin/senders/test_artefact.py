"""Policies as files, and senders by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from twin.errors import ParameterError, ScenarioError
from twin.senders.artefact import (
    Policy,
    known_senders,
    policy_from_json,
    policy_to_json,
    read_policy,
    sender_named,
)
from twin.senders.rtt import DECC_INPUTS, DeccPolicy, Network, Node, RttPolicy, Rule, Swift, Trees

STUMP = RttPolicy(name="stump", form=Trees(((Node(1, 0.5, 1, 2), Node(-1, 0.25), Node(-1, -0.5)),), 0.1))
NETWORK = RttPolicy(name="net", form=Network((((0.1, -0.2, 0.3, 0.4),) * 3, ((1.0, 2.0, 3.0),))), beta=2.0)

COARSE = DeccPolicy(
    name="coarse",
    form=Network((((3,) * len(DECC_INPUTS),), ((-7,),)), (0.25, 0.5)),
    alpha=0.2,
    decision_s=1e-6,
)
OTHERS = (RttPolicy(name="rule", form=Rule(3.0), decision_s=1e-5), DeccPolicy(name="few", form=STUMP.form))


@pytest.mark.parametrize("policy", [STUMP, NETWORK, COARSE, *OTHERS])
def test_a_policy_comes_back_from_its_file(policy: Policy, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(policy_to_json(policy, {"seed": 1}), "utf-8")
    assert read_policy(path) == policy


def test_those_that_come_with_ecntwin_are_small_and_say_how_they_came_to_be() -> None:
    assert {"rtt-rule", "swift", "rl-cc", "rl-cc-trees", "decc", "decc-trees"} <= set(known_senders())
    for path in (Path(__file__).parents[4] / "twin" / "senders" / "policies").glob("*.json"):
        assert path.stat().st_size <= 50_000
        assert {"recipe", "seed", "command", "settled"} <= set(
            json.loads(path.read_text("utf-8"))["provenance"]
        )
        assert known_senders()[path.stem] == read_policy(path)


def changed(policy: Policy, **keys: Any) -> str:
    return json.dumps(json.loads(policy_to_json(policy, {})) | keys)


LEAF = [-1, 0.5, -1, -1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "broken JSON"),
        ("[" * 200_000, "broken JSON"),
        ("[]", "schema: received list"),
        (changed(STUMP, schema="ecntwin-policy/2"), "this version reads ecntwin-policy/1"),
        (changed(STUMP, inputs=["rtt"]), "a policy sees multiplier, signal"),
        (changed(STUMP, inputs=list(DECC_INPUTS)), "no 'alpha'"),
        (changed(COARSE, steps=[0.5]), "each layer has one"),
        (changed(COARSE, steps=[0.5, 0]), "above 0"),
        (changed(COARSE, network=[[[1] * 4], [[1]]]), "it has 26 inputs"),
        (changed(COARSE, alpha=0), "above 0"),
        (changed(OTHERS[0], inputs=list(DECC_INPUTS)), "one of network, trees"),
        (changed(STUMP, network=[]), "a policy is one of rule, network, trees"),
        (changed(STUMP, beta="fast"), "could not convert"),
        (changed(STUMP, beta=-1), "above 0"),
        (changed(STUMP, trees={"base": 0.0}), "no 'trees'"),
        (changed(STUMP, trees={"base": float("nan"), "trees": []}), "finite"),
        (changed(STUMP, trees={"base": 0.0, "trees": [[]]}), "a tree has a root"),
        (changed(STUMP, trees={"base": 0.0, "trees": [[[1, 0.5, 0, 1], LEAF]]}), "two later nodes"),
        (changed(STUMP, trees={"base": 0.0, "trees": [[[9, 0.5, 1, 2], LEAF, LEAF]]}), "one of 4 inputs"),
        (changed(STUMP, trees={"base": 0.0, "trees": [[[-1, float("inf"), -1, -1]]]}), "finite"),
        (changed(NETWORK, network=[[[1.0, 2.0]]]), "it has 4 inputs"),
        (changed(NETWORK, network=[[[1.0] * 4] * 2]), "one output, the action"),
        (changed(NETWORK, network=[[[1.0, None, 1.0, 1.0]]]), "written as ecntwin writes it"),
    ],
)
def test_a_broken_policy_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said) as caught:
        policy_from_json(text, where="policy.json")
    assert "policy.json" in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="a policy is a readable JSON file"):
        read_policy(tmp_path / "none.json")


def test_senders_go_by_name() -> None:
    assert sender_named("dcqcn", where="host") is None
    assert sender_named("swift", where="host") == Swift()
    with pytest.raises(
        ScenarioError, match="known senders are dcqcn, rtt-rule, swift, decc, decc-trees, rl-cc"
    ):
        sender_named("bbr", where="scenario senders gpu*")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"beta": 0.0}, "above 0"), ({"decision_s": -1.0}, "negative"), ({"scale": float("nan")}, "above 0")],
)
def test_values_out_of_range(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        RttPolicy(name="x", **wrong)


def test_swift_keeps_its_windows_in_order() -> None:
    with pytest.raises(ParameterError, match="window_low is below window_high"):
        Swift(window_low=100.0)
    with pytest.raises(ParameterError, match="largest_cut below 1"):
        Swift(largest_cut=1.0)
