"""Whether a change by port role may be set on what switches run, and how often its ports are looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nics.parameters import params_of
from service.nics.polling import NicPolling
from service.switches.fleet import Fleet
from service.tuning import together, validity
from service.tuning.entry import Entry
from service.tuning.together import JointChanges, Part, Refusal, Together
from service.tuning.validity import Validity
from settings.model import RolloutSettings
from telemetry.roles import port_roles
from telemetry.topology import Host, Link, Topology
from tests.unit.nics.sysfs import DEFAULTS
from twin.watermark import Watermark

UP, HOST = Watermark(40_000, 160_000, 0.1), Watermark(800_000, 3_200_000, 0.1)
NEW_UP, NEW_HOST = Watermark(44_000, 176_000, 0.1), Watermark(700_000, 2_800_000, 0.1)
MAX_STEP = 8.0  # each port's step is below that, one from UP to NEW_HOST above
TOPOLOGY = Topology(
    hosts=(Host("h1"),),
    switches=("leaf1", "spine1"),
    links=(
        Link("h1", "leaf1", 100, 1, b_port="e1"),
        Link("leaf1", "spine1", 400, 1, a_port="e2", b_port="e9"),
    ),
)
CHANGE = Together(
    recommended=True,
    watermark=NEW_UP,
    connectx={},
    senders=params_of(DEFAULTS, "h1"),
    nics_first=False,
    gain=0.1,
    gain_error=0.01,
    queue_ratio=None,
    queue_ratio_between=None,
    by_role={"leaf-host-100G": NEW_HOST},
)


def changes(queues: Mapping[str, Watermark | None], topology: Topology = TOPOLOGY) -> JointChanges:
    """Where the leaf's queues, by port or what else was read in its place, run this."""
    read = {"leaf1": {(place, 3): mark for place, mark in queues.items()}}
    fleet = SimpleNamespace(of_roles=lambda name, ports: None, queues_of=lambda name: read.get(name, {}))
    return JointChanges(
        nics=cast("NicPolling", None),
        fleet=cast("Fleet", fleet),
        settings=RolloutSettings(),
        max_step=MAX_STEP,
        declared=lambda: topology,
    )


def asked(of: JointChanges, change: Together = CHANGE, runs: Watermark = UP) -> Part | Refusal:
    return of.of(change, change.beside, {"leaf1": runs, "spine1": UP})


@pytest.mark.parametrize(
    ("queues", "runs"),
    [
        ({"e1": HOST, "e2": UP}, UP),
        ({"e1": HOST, "e2": UP}, HOST),
        ({"e1": HOST, "e2": None}, HOST),
        ({"e1": HOST, "e2": UP, "e3": HOST}, HOST),  # no declared link: it stays as it is
        ({"e1": HOST, "profile": UP}, HOST),  # of the other port
    ],
)
def test_a_queue_is_compared_with_what_its_own_port_gets(
    queues: Mapping[str, Watermark | None], runs: Watermark
) -> None:
    found = asked(changes(queues), runs=runs)
    assert isinstance(found, Part)
    assert {role: one.watermark for role, one in found.by_role["leaf1"].items()} == {
        "leaf-host-100G": NEW_HOST,
        "leaf-up-400G": NEW_UP,
    }


@pytest.mark.parametrize(
    "queues",
    [
        {"e1": UP, "e2": UP},
        {},
        {"profile": UP},
        {"e2": UP, "profile": UP},
    ],
)
def test_a_port_that_would_get_a_step_only_or_may_is_refused(queues: Mapping[str, Watermark]) -> None:
    found = asked(changes(queues))
    assert isinstance(found, Refusal)
    assert found.rule.startswith("leaf1 would get a step towards its thresholds only")


def test_a_switch_without_ports_of_these_roles_is_compared_with_the_watermark_of_all() -> None:
    one = changes({"e1": HOST, "e2": UP})
    runs = {"leaf1": UP, "spine1": HOST}
    found = one.of(CHANGE, CHANGE.beside, runs)
    assert isinstance(found, Refusal)
    assert found.rule.startswith("spine1 would get a step")


def test_ports_are_looked_at_once_for_each_change_and_topology(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def counted(ports: Any) -> Any:
        nonlocal looks
        looks += 1
        return port_roles(ports)

    monkeypatch.setattr(together, "port_roles", counted)
    one = changes({"e1": HOST, "e2": UP})
    first = asked(one)
    assert asked(one) == first
    assert looks == 1
    later = asked(one, replace(CHANGE, by_role={"leaf-up-400G": UP}))
    assert isinstance(later, Refusal)  # e1 would get the usual watermark
    assert looks == 2
    link = replace(TOPOLOGY.links[0], b_port="e7")
    one.declared = lambda: replace(TOPOLOGY, links=(link, TOPOLOGY.links[1]))
    found = asked(one)
    assert isinstance(found, Part)
    assert found.by_role["leaf1"]["leaf-host-100G"].ports == ("e7",)
    assert looks == 3


@pytest.mark.parametrize(
    ("connectx", "asks"),
    [({"rpg_ai_rate": 7}, [{"nic", "roles"}]), ({}, [{"nic", "roles"}, {"roles"}])],
)
def test_a_document_asks_the_same_question_once(
    connectx: dict[str, int], asks: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[set[str]] = []

    def of(change: Together, beside: set[str], switches: Any) -> Refusal:
        heard.append(set(beside))
        return Refusal("they are away", "wait")

    monkeypatch.setattr(validity, "recommendation_document", lambda entry, **told: told)
    monkeypatch.setattr(Validity, "blocks", lambda self, entry: ())
    one = Validity(
        **dict.fromkeys(("fleet", "store", "rollouts", "events", "clocks")),  # type: ignore[arg-type]
        gate=SimpleNamespace(cooling_left_s=lambda: 0.0, held=lambda **_: ()),  # type: ignore[arg-type]
        joint=SimpleNamespace(of=of),  # type: ignore[arg-type]
        window=SimpleNamespace(now_s=lambda: 0.0),  # type: ignore[arg-type]
        stale_after_s=1.0,
    )
    entry = SimpleNamespace(
        status="pending", together=replace(CHANGE, connectx=connectx), switches=(), holds=()
    )
    told = cast("Mapping[str, object]", one.document(cast("Entry", entry)))
    assert told["nics_refused"] == told["roles_refused"] == "they are away; wait"
    assert heard == asks
