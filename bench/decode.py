"""Reports a second from bytes to window, one core: JSON decoding, ``Window.add``, and both together."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.figure import Figure
from telemetry.decode.json import decode
from telemetry.topology import Topology, topology_from_json
from telemetry.window.window import Window, WindowSettings

HERE = Path(__file__).resolve().parent
REFERENCE = HERE.parent / "tests" / "data" / "reference"
OUT = HERE / "out" / "decode.json"
GOAL_PER_S = 50_000
REPEATS = 5
BODY_SIZES = (100, 1_000, 10_000)


def run() -> dict[str, Any]:
    """Best of five a case, in reports a second, by recording (one hop; two to three) and reports a body."""
    return {"goal_reports_per_s": GOAL_PER_S, "cases": [*_cases("websearch-16"), *_cases("parking-lot")]}


def measure() -> Iterable[Figure]:
    """The figures of ``run`` for ``python -m bench``."""
    for case in run()["cases"]:
        yield Figure(
            f"decode and window, {case['recording']}, {case['reports_per_body']} reports a body",
            case["both_per_s"],
            "reports/s",
            GOAL_PER_S,
            "higher",
            f"decode alone {case['decode_per_s']:,.0f}, window alone {case['window_per_s']:,.0f}, "
            f"state {case['state_s'] * 1e3:.0f} ms",
        )


def main() -> None:
    """Prints the table and writes ``bench/out/decode.json``."""
    result = run()
    print(
        f"{'recording':<14} {'a body':>8} {'decode/s':>12} {'window/s':>12} {'both/s':>12} "
        f"{'× goal':>7} {'state':>8}"
    )
    for case in result["cases"]:
        print(
            f"{case['recording']:<14} {case['reports_per_body']:>8,} {case['decode_per_s']:>12,.0f} "
            f"{case['window_per_s']:>12,.0f} {case['both_per_s']:>12,.0f} "
            f"{case['both_per_s'] / GOAL_PER_S:>7.1f} {case['state_s'] * 1e3:>5.0f} ms"
        )
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(result, indent=1), "utf-8")


def _cases(name: str) -> Iterable[dict[str, Any]]:
    lines = gzip.decompress((REFERENCE / f"{name}.int.ndjson.gz").read_bytes()).splitlines()
    scenario = json.loads((REFERENCE / f"{name}.scenario.json").read_text())
    topology = topology_from_json(scenario["topology"])
    for size in BODY_SIZES:
        bodies = [b"[" + b",".join(lines[at : at + size]) + b"]" for at in range(0, len(lines), size)]
        decode_s, window_s, both_s, state_s = min(
            (_once(bodies, topology) for _ in range(REPEATS)), key=lambda times: times[2]
        )
        yield {
            "recording": name,
            "reports_per_body": size,
            "decode_per_s": len(lines) / decode_s,
            "window_per_s": len(lines) / window_s,
            "both_per_s": len(lines) / both_s,
            "state_s": state_s,
        }


def _once(bodies: list[bytes], topology: Topology) -> tuple[float, float, float, float]:
    window = Window(WindowSettings(), topology)
    decode_s = window_s = 0.0
    for body in bodies:
        took, decoded = _timed(lambda body=body: decode(body))  # type: ignore[misc]
        decode_s += took
        took, _ = _timed(lambda batch=decoded.batch: window.add(batch))  # type: ignore[misc]
        window_s += took
    state_s, _ = _timed(window.state)
    return decode_s, window_s, decode_s + window_s, state_s


def _timed(task: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    answer = task()
    return time.perf_counter() - begin, answer


if __name__ == "__main__":
    main()
