"""Compiles kernels into the cache by running engines on a tiny scenario.

``python -m twin.workers.warm [ENGINE ...]``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from twin.advice.artefact import read
from twin.advice.features import FEATURES
from twin.engine import ENGINE_NAMES, engine
from twin.packet.fabric import Fabric
from twin.packet.plan import FabricPlan
from twin.scenario import Scenario
from twin.scenario_file import scenario_from_json
from twin.senders.dcqcn import VENDOR
from twin.watermark import Watermark


def tiny_scenario() -> Scenario:
    """Two senders, two switches and one receiver: every kind of hop, 100 µs of it."""
    cables = [("a", "leaf1"), ("b", "leaf1"), ("c", "leaf2"), ("leaf1", "leaf2")]
    cable = {"rate_gbps": 100, "delay_us": 1.0}
    links = [{"a": a, "b": b, "b_port": f"to-{a}"} | cable for a, b in cables]
    links[-1]["a_port"] = "to-leaf2"
    document = {
        "name": "warm",
        "topology": {
            "hosts": [{"name": name} for name in ("a", "b", "c")],
            "switches": [{"name": name} for name in ("leaf1", "leaf2")],
            "links": links,
        },
        "flows": [
            {"src": "a", "dst": "c", "bytes": None, "start_s": 0.0},
            {"src": "b", "dst": "c", "bytes": 20_000, "start_s": 1e-5},
        ],
        "duration_s": 1e-4,
    }
    return scenario_from_json(document, directory=Path(), where="warm")


def change_a_fabric(scenario: Scenario) -> None:
    """Compiles the kernels that only the lab uses."""
    fabric = Fabric(FabricPlan.of(scenario), watermark=Watermark(5_000, 200_000, 0.1), seed=1)
    fabric.fail_link(0)
    fabric.restore_link(0)
    fabric.set_dcqcn([0], VENDOR)


def main(names: Sequence[str] = ()) -> int:
    """Compiles the kernels of these engines (none named: of all, and of the advice); prints how long each
    engine took.
    """
    scenario = tiny_scenario()
    for name in names or ENGINE_NAMES:
        began_s = time.perf_counter()
        chosen = engine(name)
        chosen.predict(scenario, [Watermark(5_000, 200_000, 0.1)], seed=1)
        chosen.trajectory(scenario, Watermark(5_000, 200_000, 0.1), seed=1)
        if name == "packet":
            change_a_fabric(scenario)
        sys.stdout.write(f"{name}: kernels ready in {time.perf_counter() - began_s:.1f} s\n")
    if not names:
        read().leaf(np.zeros(len(FEATURES)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
