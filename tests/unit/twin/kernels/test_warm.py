from __future__ import annotations

import pytest

from twin.engine import ENGINE_NAMES
from twin.jit import kernel_digest
from twin.workers import warm


def test_every_engine_is_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    assert warm.main() == 0
    said = capsys.readouterr().out
    assert all(f"{name}: kernels ready" in said for name in ENGINE_NAMES)


def test_tiny_scenario_has_every_kind_of_hop() -> None:
    scenario = warm.tiny_scenario()
    lengths = {len(scenario.flows.path(flow)) for flow in range(len(scenario.flows))}
    assert lengths == {3}
    assert {port.node for port in scenario.ports} == {"a", "b", "c", "leaf1", "leaf2"}


def test_digest_follows_the_sources() -> None:
    assert kernel_digest() == kernel_digest()
    assert len(kernel_digest()) == 16
