"""The fluid engine's speed, side by side with jitcdde and ddeint on ``published-2flow``, one core, one run.

What the ratios mean. Ours is the whole of ``FluidEngine.predict`` divided by the number of candidates: 32 in
a batch, and 1 alone; it samples the queue every step of 5 µs. jitcdde runs its compiled C core, one candidate
at a time, and hands the queue out at the same instants; the time to compile is left out on both sides. Its
tolerance is the fastest tried whose queue is at least as near a fine reference as ours, or the nearest one.
Handing out fewer samples it is much faster, and that is printed too: most of its time at 5 µs is spent
returning to Python. ddeint (SciPy's integrators in Python) is measured on the first milliseconds and scaled.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.figure import Figure, write
from bench.replay import REFERENCE
from twin.fluid.model import FluidEngine
from twin.scenario import Scenario
from twin.scenario_file import load_scenario
from twin.watermark import Watermark

Floats = NDArray[np.float64]
WATERMARK = Watermark(5_000, 200_000, 0.1)
BATCH = 32
REPEATS = 7
SAMPLE_S = 5e-6
FINE_STEP_S = 50e-9
DDEINT_HORIZON_S = 1e-3

# The problem once more, for the other solvers: packets of 1000 bytes, seconds.
CAPACITY, FLOWS, START, DELAY = 5e6, 2, 2.5e6, 85e-6
TAU, TAU_PRIME, TIMER, COUNTER, STAGES, ADDITIVE, GAIN = 50e-6, 55e-6, 55e-6, 10_000.0, 5, 5_000.0, 1 / 256


def best_of(repeats: int, run: Callable[[], Any]) -> float:
    """The shortest of several times: what the work costs when nothing else runs."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return min(times)


def errors(queue: Floats, reference: Floats) -> dict[str, float]:
    """Relative error of peak and mean queue, and the root mean square over the peak."""
    peak = reference.max()
    return {
        "peak": abs(queue.max() / peak - 1.0),
        "mean": abs(queue.mean() / reference.mean() - 1.0),
        "rms": float(np.sqrt(np.mean((queue - reference) ** 2)) / peak),
    }


def ours(scenario: Scenario, engine: FluidEngine, candidates: int) -> float:
    """Seconds a candidate, predictions and all."""
    batch = [Watermark(5_000 + 500 * i, 200_000 + 1_000 * i, 0.1) for i in range(candidates)]
    engine.predict(scenario, batch, seed=1)
    return best_of(REPEATS, lambda: engine.predict(scenario, batch, seed=1)) / candidates


def jitcdde_solver(watermark: Watermark) -> Any:
    """The same equations for jitcdde, compiled; time in 100 µs, rates in capacities, queue in 100 packets.

    p's corner at Kmin and the empty queue are smoothed over 1e-6 and a thousandth of a packet.
    """
    import symengine as se
    from jitcdde import jitcdde, t, y

    unit = 1e-4
    kmin, kmax = watermark.kmin_bytes / 1000, watermark.kmax_bytes / 1000
    queue, alpha, target, current = y(0), y(1), y(2), y(3)
    rate = y(3, t - DELAY / unit) * CAPACITY
    ramp = (y(0, t - DELAY / unit) * 100 - kmin) * watermark.pmax / (kmax - kmin)
    p = (ramp + se.sqrt(ramp * ramp + 1e-12)) / 2 + 1e-9
    log = se.log(1 - p)
    cut, aim = 1 - se.exp(TAU * rate * log), 1 - se.exp(TAU_PRIME * rate * log)
    by_bytes, by_time = p / (se.exp(-COUNTER * log) - 1), p / (se.exp(-TIMER * rate * log) - 1)
    stages = se.exp(STAGES * COUNTER * log) * by_bytes + se.exp(STAGES * TIMER * rate * log) * by_time
    net = (FLOWS * current - 1) * CAPACITY * unit / 100
    size = se.sqrt(net * net + 1e-12)
    empty = 1 / (1 + se.exp(-queue * 100 / 1e-3))
    solver = jitcdde(
        [
            (net + size) / 2 + (net - size) / 2 * empty,
            GAIN / TAU_PRIME * (aim - alpha) * unit,
            (-(target - current) / TAU * cut + ADDITIVE / CAPACITY * rate * stages) * unit,
            (-current * alpha / (2 * TAU) * cut + (target - current) / 2 * rate * (by_bytes + by_time))
            * unit,
        ],
        max_delay=DELAY / unit,
        verbose=False,
    )
    # Elsewhere: the compiler's build tool would read this project's pyproject.toml as its own.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        solver.compile_C(simplify=False, do_cse=True)
    return solver


def jitcdde_run(solver: Any, tolerance: float, duration_s: float, sample_s: float) -> Floats:
    """The queue in packets every ``sample_s``, from an empty one."""
    unit = 1e-4
    solver.purge_past()
    solver.constant_past([0.0, 1.0, START / CAPACITY, START / CAPACITY], time=0.0)
    solver.set_integration_parameters(
        rtol=tolerance, atol=tolerance / 10, first_step=1e-3, min_step=1e-10, max_step=10.0
    )
    solver.step_on_discontinuities()
    times = np.arange(1, round(duration_s / sample_s) + 1) * (sample_s / unit)
    # Stepping on the discontinuities takes it a few delays on: nothing earlier can be asked for, and the
    # queue is close to empty there.
    begun = solver.t
    return np.array([100 * solver.integrate(at)[0] if at > begun else 0.0 for at in times])


def ddeint_run(watermark: Watermark, duration_s: float) -> Floats:
    """The same by ddeint, on the same output grid."""
    from ddeint import ddeint

    kmin, kmax = watermark.kmin_bytes / 1000, watermark.kmax_bytes / 1000

    def model(state: Callable[[float], Floats], at: float) -> Floats:
        queue, alpha, target, current = state(at)
        past = state(at - DELAY)
        rate = past[3]
        p = max(past[0] - kmin, 0.0) * watermark.pmax / (kmax - kmin) + 1e-12
        log = np.log1p(-p)
        cut, aim = -np.expm1(TAU * rate * log), -np.expm1(TAU_PRIME * rate * log)
        by_bytes, by_time = p / np.expm1(-COUNTER * log), p / np.expm1(-TIMER * rate * log)
        stages = np.exp(STAGES * COUNTER * log) * by_bytes + np.exp(STAGES * TIMER * rate * log) * by_time
        net = FLOWS * current - CAPACITY
        return np.array(
            [
                net if queue > 0 or net > 0 else 0.0,
                GAIN / TAU_PRIME * (aim - alpha),
                -(target - current) / TAU * cut + ADDITIVE * rate * stages,
                -current * alpha / (2 * TAU) * cut + (target - current) / 2 * rate * (by_bytes + by_time),
            ]
        )

    times = np.arange(0, round(duration_s / SAMPLE_S) + 1) * SAMPLE_S
    found: Floats = ddeint(model, lambda _: np.array([0.0, 1.0, START, START]), times)
    return found[:, 0]


def run() -> dict[str, Any]:
    warnings.simplefilter("ignore")
    scenario = load_scenario(REFERENCE / "published-2flow.scenario.json")
    duration_s = scenario.duration_s
    fine = FluidEngine(step_s=FINE_STEP_S).trajectory(scenario, WATERMARK, seed=1, sample_s=SAMPLE_S)
    reference = fine.queue_bytes[0, 1:] / 1000
    engine = FluidEngine()
    coarse = engine.trajectory(scenario, WATERMARK, seed=1, sample_s=SAMPLE_S).queue_bytes[0, 1:] / 1000
    found: dict[str, Any] = {
        "problem": "published-2flow, " + str(WATERMARK),
        "ours": {
            "batch": BATCH,
            "s_a_candidate": ours(scenario, engine, BATCH),
            "s_alone": ours(scenario, engine, 1),
            "errors": errors(coarse, reference),
        },
        "jitcdde": [],
    }
    solver = jitcdde_solver(WATERMARK)
    for tolerance in (1e-3, 1e-4, 1e-5):
        solve = partial(jitcdde_run, solver, tolerance, duration_s)
        queue = solve(SAMPLE_S)
        found["jitcdde"].append(
            {
                "tolerance": tolerance,
                "s": best_of(3, partial(solve, sample_s=SAMPLE_S)),
                "s_sampling_50us": best_of(3, partial(solve, sample_s=5e-5)),
                "s_no_samples": best_of(3, partial(solve, sample_s=duration_s)),
                "errors": errors(queue, reference),
            }
        )
    slow_s = best_of(1, lambda: ddeint_run(WATERMARK, DDEINT_HORIZON_S))
    found["ddeint"] = {
        "horizon_s": DDEINT_HORIZON_S,
        "s": slow_s,
        "s_scaled": slow_s * duration_s / DDEINT_HORIZON_S,
    }
    # As accurate as ours, or the best there is.
    near = [row for row in found["jitcdde"] if row["errors"]["rms"] <= found["ours"]["errors"]["rms"]]
    fair = (
        min(near, key=lambda row: row["s"])
        if near
        else min(found["jitcdde"], key=lambda r: r["errors"]["rms"])
    )
    mine = found["ours"]["s_a_candidate"]
    found["ratios"] = {
        "jitcdde": fair["s"] / mine,
        "jitcdde_alone": fair["s"] / found["ours"]["s_alone"],
        "jitcdde_sampling_50us": fair["s_sampling_50us"] / mine,
        "jitcdde_no_samples": fair["s_no_samples"] / mine,
        "ddeint": found["ddeint"]["s_scaled"] / mine,
        "jitcdde_tolerance": fair["tolerance"],
    }
    return found


def measure() -> Iterable[Figure]:
    found = run()
    write("fluid", found)
    mine, ratios = found["ours"], found["ratios"]
    error = mine["errors"]
    yield Figure(
        "fluid, a watermark of published-2flow", mine["s_a_candidate"] * 1e3, "ms",
        note=f"batch of {BATCH}, one core, best of {REPEATS}; {mine['s_alone'] * 1e3:.2f} ms in a batch of 1",
    )  # fmt: skip
    yield Figure("fluid, peak queue against a 100 times finer step", error["peak"] * 100, "%", goal=1.0)
    yield Figure("fluid, mean queue against a 100 times finer step", error["mean"] * 100, "%", goal=1.0)
    yield Figure(
        "fluid against jitcdde", ratios["jitcdde"], "×", goal=150, better="higher",
        note=f"queue every 5 µs from both, jitcdde at rtol {ratios['jitcdde_tolerance']:g}; "
        f"alone {ratios['jitcdde_alone']:.0f}×; jitcdde sampled every 50 µs "
        f"{ratios['jitcdde_sampling_50us']:.0f}×, not sampled at all {ratios['jitcdde_no_samples']:.0f}×",
    )  # fmt: skip
    yield Figure(
        "fluid against ddeint", ratios["ddeint"], "×", goal=5000, better="higher",
        note=f"ddeint over {found['ddeint']['horizon_s'] * 1e3:g} ms, scaled to 50 ms",
    )  # fmt: skip
