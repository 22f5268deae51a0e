"""Policies as files, ``ecntwin-policy/1``: JSON with the policy, how it came to be, and what it settles at.

The files of this folder's ``policies`` come with ecntwin, and are senders by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from twin.errors import ScenarioError, TwinError
from twin.senders.rtt import DeccPolicy, Network, Node, RttPolicy, RttSender, Rule, Swift, Trees

Policy = RttPolicy | DeccPolicy
SCHEMA = "ecntwin-policy/1"
DCQCN = "dcqcn"
RULE = RttPolicy(name="rtt-rule")
SWIFT = Swift()
_FORMS: dict[type[Policy], tuple[str, ...]] = {
    RttPolicy: ("rule", "network", "trees"),
    DeccPolicy: ("network", "trees"),
}
_CONSTANTS: dict[type[Policy], tuple[str, ...]] = {
    RttPolicy: ("beta", "target", "scale", "step", "decision_s"),
    DeccPolicy: ("alpha", "decision_s"),
}


@cache
def known_senders() -> Mapping[str, RttSender]:
    """Senders by name, besides DCQCN: the rule, Swift, and the policies that come with ecntwin."""
    found: dict[str, RttSender] = {RULE.name: RULE, SWIFT.name: SWIFT}
    for file in sorted(
        files("twin.senders").joinpath("policies").iterdir(), key=lambda one: one.name.removesuffix(".json")
    ):
        if file.name.endswith(".json"):
            policy = policy_from_json(file.read_text("utf-8"), where=file.name)
            found[policy.name] = policy
    return found


def sender_named(name: str, *, where: str) -> RttSender | None:
    """The sender of that name, None for DCQCN; raises ``ScenarioError`` naming those known."""
    if name == DCQCN:
        return None
    if name not in known_senders():
        rule = f"known senders are {', '.join([DCQCN, *known_senders()])}"
        raise ScenarioError(where, repr(name), rule, "name one of them")
    return known_senders()[name]


def read_policy(path: Path) -> Policy:
    """The policy in a file; raises ``ScenarioError``."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ScenarioError(str(path), said, "a policy is a readable JSON file", "check it") from error
    return policy_from_json(text, where=path.name)


def policy_from_json(text: str, *, where: str) -> Policy:
    """Raises ``ScenarioError`` for another schema, other inputs, no policy, or numbers that are none."""
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad(where, f"broken JSON ({error})", "a policy is a JSON object") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        received = repr(document.get("schema")) if isinstance(document, dict) else type(document).__name__
        raise _bad(f"{where} schema", received, f"this version reads {SCHEMA}")
    kinds = [kind for kind in _CONSTANTS if document.get("inputs") == list(kind.inputs)]
    if not kinds:
        rule = " or ".join(f"{', '.join(kind.inputs)}, in this order" for kind in _CONSTANTS)
        raise _bad(f"{where} inputs", repr(document.get("inputs")), f"a policy sees {rule}")
    known = _FORMS[kinds[0]]
    forms = [form for form in known if form in document]
    if len(forms) != 1:
        rule = f"a policy is one of {', '.join(known)}"
        raise _bad(where, ", ".join(forms) or "none of them", rule)
    try:
        return kinds[0](
            name=str(document["name"]),
            form=_form_of(forms[0], document[forms[0]], document.get("steps", [])),
            **{key: float(document[key]) for key in _CONSTANTS[kinds[0]]},
        )
    except TwinError as error:
        raise _bad(f"{where}: {error.where}", error.received, error.rule) from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        received = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise _bad(where, received, f"a {forms[0]} is written as ecntwin writes it") from error


def policy_to_json(policy: Policy, provenance: Mapping[str, object]) -> str:
    """The file's text; ``provenance`` says how the policy came to be, and what it was measured at."""
    match policy.form:
        case Rule(width=width):
            form: dict[str, object] = {"rule": {"width": width}}
        case Network(layers=layers, steps=steps):
            form = {"network": layers} | ({"steps": steps} if steps else {})
        case Trees(trees=trees, base=base):
            nodes = [[list(asdict(node).values()) for node in tree] for tree in trees]
            form = {"trees": {"base": base, "trees": nodes}}
    document = {
        "schema": SCHEMA,
        "name": policy.name,
        "inputs": policy.inputs,
        **{key: getattr(policy, key) for key in _CONSTANTS[type(policy)]},
        "provenance": provenance,
        **form,
    }
    compact = (",", ":")  # a large network's weights are most of its file
    lines = [
        f" {json.dumps(key)}: "
        + json.dumps(value, allow_nan=False, separators=compact if key == "network" else None)
        for key, value in document.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _form_of(form: str, said: Any, steps: Any) -> Any:
    if form == "rule":
        return Rule(float(said["width"]))
    if form == "network":
        layers = tuple(tuple(tuple(map(int if steps else float, row)) for row in layer) for layer in said)
        return Network(layers, tuple(map(float, steps)))
    trees = tuple(
        tuple(Node(int(feature), float(value), int(left), int(right)) for feature, value, left, right in tree)
        for tree in said["trees"]
    )
    return Trees(trees, float(said["base"]))


def _bad(where: str, received: str | None, rule: str) -> ScenarioError:
    return ScenarioError(where, received, rule, "export the policy with this version of ecntwin")
