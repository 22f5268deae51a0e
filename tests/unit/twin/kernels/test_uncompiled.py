"""Compiled kernels against their own source run as plain Python: a miscompiled or stale kernel differs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from twin.engine import ENGINE_NAMES, engine
from twin.prediction import Prediction
from twin.scenario import Scenario
from twin.scenario_file import scenario_from_json
from twin.watermark import Watermark

pytestmark = [pytest.mark.kernels, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[4]
WATERMARKS = (Watermark(5_000, 60_000, 0.3), Watermark(50_000, 200_000, 0.05), Watermark(2_000, 4_000, 1.0))

# Two switches with one cable between: two bottlenecks, each crossed by flows that the other does not see.
TOPOLOGY = {
    "hosts": [{"name": name} for name in ("a", "b", "c", "d", "x", "y")],
    "switches": [{"name": "left"}, {"name": "right"}],
    "links": [
        *(
            {"a": host, "b": "left", "b_port": f"e{port}", "rate_gbps": 100, "delay_us": 1}
            for port, host in enumerate("abc")
        ),
        *(
            {"a": host, "b": "right", "b_port": f"e{port}", "rate_gbps": 100, "delay_us": 1}
            for port, host in enumerate("dxy")
        ),
        {"a": "left", "a_port": "up", "b": "right", "b_port": "down", "rate_gbps": 100, "delay_us": 2},
    ],
}
FLOWS = [
    {"src": "a", "dst": "x", "bytes": None, "start_s": 0},
    {"src": "b", "dst": "x", "bytes": 400_000, "start_s": 0},
    {"src": "c", "dst": "y", "bytes": 90_000, "start_s": 5e-6},
    {"src": "c", "dst": "x", "bytes": 3_000, "start_s": 2e-5},
    {"src": "d", "dst": "x", "bytes": 200_000, "start_s": 1e-5},
    {"src": "d", "dst": "y", "bytes": 1_500_000, "start_s": 1e-5, "start_rate_gbps": 10},
]


def crowded(*, pfc: bool, byte_counter: bool) -> Scenario:
    document: dict[str, Any] = {
        "name": "crowded",
        "topology": TOPOLOGY,
        "flows": FLOWS,
        "pfc": pfc,
        "buffer_bytes": 150_000,
        "dcqcn": {"byte_counter_bytes": 100_000 if byte_counter else None, "min_rate_gbps": 0.1},
        "duration_s": 2.5e-4,
    }
    return scenario_from_json(document, directory=ROOT)


def figures(predictions: list[Prediction]) -> list[dict[str, Any]]:
    return [
        {
            "status": prediction.status.code,
            "queue_mean_bytes": prediction.queue_mean_bytes,
            "queue_p99_bytes": prediction.queue_p99_bytes,
            "goodput_bytes_per_s": prediction.goodput_bytes_per_s,
            "marked_fraction": prediction.marked_fraction,
            "loss_bytes": prediction.loss_bytes,
            "pfc_pause_s": prediction.pfc_pause_s,
            "slowdown": {name: (one.n, one.mean, one.p99) for name, one in prediction.slowdown.items()},
        }
        for prediction in predictions
    ]


@cache
def predicted(name: str, *, pfc: bool, byte_counter: bool) -> list[dict[str, Any]]:
    scenario = crowded(pfc=pfc, byte_counter=byte_counter)
    return figures(engine(name).predict(scenario, WATERMARKS, seed=1))


def every_problem() -> dict[str, list[dict[str, Any]]]:
    return {
        f"{name} {pfc} {byte_counter}": predicted(name, pfc=pfc, byte_counter=byte_counter)
        for name, pfc, byte_counter in product(ENGINE_NAMES, (True, False), (True, False))
    }


@pytest.fixture(scope="module")
def plain() -> dict[str, list[dict[str, Any]]] | None:
    """What kernels as plain Python predict of every problem; none where this process runs them so itself."""
    if os.environ.get("NUMBA_DISABLE_JIT"):
        return None
    code = (
        "import json, pytest; from tests.unit.twin.kernels.plain_python import run_uncompiled; "
        "from tests.unit.twin.kernels.test_uncompiled import every_problem; "
        "run_uncompiled(pytest.MonkeyPatch()); print(json.dumps(every_problem()))"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, list[dict[str, Any]]] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize("byte_counter", [True, False], ids=["byte counter", "timer only"])
@pytest.mark.parametrize("pfc", [True, False], ids=["pause", "drop"])
@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_compiled_and_plain_kernels_agree(
    name: str, pfc: bool, byte_counter: bool, plain: dict[str, list[dict[str, Any]]] | None
) -> None:
    here = predicted(name, pfc=pfc, byte_counter=byte_counter)
    assert [one["status"] for one in here] == ["ok"] * len(WATERMARKS)
    if plain is None:
        return
    there = plain[f"{name} {pfc} {byte_counter}"]
    for compiled, interpreted in zip(here, there, strict=True):
        for key, value in compiled.items():
            if key == "slowdown":
                assert list(value) == list(interpreted[key])
                for size, three in value.items():
                    assert list(three) == pytest.approx(interpreted[key][size], rel=1e-6, nan_ok=True)
            elif key != "status":
                assert value == pytest.approx(interpreted[key], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_the_small_problem_reaches_pause_and_loss(name: str) -> None:
    # Else the comparison above would leave those lines unseen.
    paused = predicted(name, pfc=True, byte_counter=False)
    dropped = predicted(name, pfc=False, byte_counter=False)
    assert max(one["pfc_pause_s"] for one in paused) > 0
    assert max(one["loss_bytes"] for one in dropped) > 0
    assert max(one["loss_bytes"] for one in paused) == 0
