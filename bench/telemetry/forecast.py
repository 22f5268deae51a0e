"""Forecasts of ports: their error beside that of simple rules, and how often the 95 % band held.

``python -m bench.telemetry.forecast`` prints a table. Ports are generated, by kind: a daily pattern, one with
quiet weekends, one with bursts of jobs on top, jobs alone, a level, a walk; all with noise. Each port is
forecast once, at another time of its day. The lab's are switch ports of a packet fabric, in steps of 5 ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.signal import lfilter

from bench.accuracy import markdown
from bench.figure import Figure
from bench.live import TRAFFIC, running
from lab.demo.plan import VENDOR_DEFAULT
from lab.setup import AHEAD_S
from telemetry.forecast import DAY_S, forecasts

RATE = 12.5e9
PORTS = 60
KINDS = ("daily", "daily, quiet weekends", "daily with bursts", "jobs", "level", "walk")
CASES = (("1 h", 6, 28), ("1 day", 144, 28), ("1 day", 144, 4))
"""Name of the horizon, steps of 600 s ahead, and days of history."""
STEP_S = 600
LAB = "web search 0.3"
LAB_S, LAB_AHEAD, LAB_ENDS = 1.0, 10, (130, 160, 190)
"""What is run of it, steps ahead, and after how many steps ports are forecast."""

Floats = NDArray[np.float64]


def generated(kind: str, steps: int, seed: int) -> Floats:
    """Bytes a second of one port in steps of ``STEP_S``, from midnight on."""
    random = np.random.default_rng(seed)
    at_s = np.arange(steps) * float(STEP_S)
    stays = np.exp(-STEP_S / 1_800.0)
    slow = lfilter([np.sqrt(1 - stays**2)], [1.0, -stays], random.normal(size=steps))
    noise = np.exp(0.2 * slow + 0.1 * random.normal(size=steps))
    share = 0.25 + 0.2 * np.sin(2 * np.pi * at_s / DAY_S - 1.5)
    if kind == "daily, quiet weekends":
        share *= np.where(at_s // DAY_S % 7 < 5, 1.0, 0.4)
    elif kind == "level":
        share = np.full(steps, 0.3)
    elif kind == "walk":
        share = np.abs(0.3 + np.cumsum(random.normal(scale=0.004, size=steps)))
    elif kind == "jobs":
        share, begin_s = np.full(steps, 0.02), 0.0
        while begin_s < at_s[-1]:
            share[(at_s >= begin_s) & (at_s < begin_s + random.exponential(14_400))] = random.uniform(
                0.4, 0.9
            )
            begin_s += random.exponential(14_400) + random.exponential(7_200)
    share = share * noise
    if kind == "daily with bursts":
        for begin_s in random.uniform(0, at_s[-1], random.poisson(6 * at_s[-1] / DAY_S)):
            share[(at_s >= begin_s) & (at_s < begin_s + random.exponential(1_800))] += random.uniform(
                0.2, 0.5
            )
    return np.clip(share, 0.0, 1.0) * RATE


@dataclass(frozen=True, slots=True)
class Row:
    """Mean absolute errors as shares of the rate, the share of steps within the band, its mean width."""

    name: str
    horizon: str
    error: float
    said: float
    last: float
    day_before: float | None
    inside: float
    width: float


def row(name: str, horizon: str, past: Floats, came: Floats, *, step_s: int, most: Floats) -> Row:
    """Of ports that are forecast by their ``past``, against what ``came``."""
    ahead = came.shape[1]
    found = forecasts(past, ahead=ahead, step_s=step_s, most=most)
    values, low, high, errors = (
        np.array([getattr(one, column) for one in found]) for column in ("values", "low", "high", "errors")
    )
    rate = most[:, None]
    day = DAY_S // step_s
    before = past[:, -day:][:, :ahead] if past.shape[1] >= day else None
    return Row(
        name,
        horizon,
        error=float(np.mean(np.abs(came - values) / rate)),
        said=float(np.mean(errors / rate)),
        last=float(np.mean(np.abs(came - past[:, -1:]) / rate)),
        day_before=None if before is None else float(np.mean(np.abs(came - before) / rate)),
        inside=float(np.mean((low <= came) & (came <= high))),
        width=float(np.mean((high - low) / rate)),
    )


def of_generated() -> Iterator[Row]:
    for kind in KINDS:
        for horizon, ahead, days in CASES:
            day = DAY_S // STEP_S
            ends = [days * day + port * day // PORTS for port in range(PORTS)]
            ports = [generated(kind, end + ahead, seed) for seed, end in enumerate(ends)]
            past = np.array([port[end - days * day : end] for port, end in zip(ports, ends, strict=True)])
            came = np.array([port[end:] for port, end in zip(ports, ends, strict=True)])
            most = np.full(PORTS, RATE)
            yield row(kind, f"{horizon}, of {days} days", past, came, step_s=STEP_S, most=most)


def of_lab() -> Row:
    """Ports of a fabric under web search traffic, each at several times."""
    sent: list[Floats] = []
    for fabric, _ in running(TRAFFIC[LAB], VENDOR_DEFAULT, LAB_S, 0.0):
        sent.append(fabric.measured().sent_bytes)
    plan = TRAFFIC[LAB].parts(LAB_S).plan
    rates = np.array([plan.ports[port].rate_bytes_per_s for port in plan.switch_ports])
    per_s = np.diff(np.array(sent), axis=0).T[list(plan.switch_ports)] / AHEAD_S
    found = [
        row(
            "lab, web search",
            f"{LAB_AHEAD * AHEAD_S * 1e3:.0f} ms",
            per_s[:, :end],
            per_s[:, end : end + LAB_AHEAD],
            step_s=1,  # no step is a day
            most=rates,
        )
        for end in LAB_ENDS
    ]
    means = {
        name: float(np.mean([getattr(one, name) for one in found]))
        for name in ("error", "said", "last", "inside", "width")
    }
    return Row(found[0].name, found[0].horizon, day_before=None, **means)


def measure() -> Iterable[Figure]:
    for one in (*of_generated(), of_lab()):
        simple = min(error for error in (one.last, one.day_before) if error is not None)
        what = f"forecast of ports, {one.name}, {one.horizon}"
        note = "mean absolute; 1.05 times the better of two simple rules"
        yield Figure(f"{what}: error", 100 * one.error, "% of the rate", 105 * simple, note=note)
        yield Figure(f"{what}: in the 95 % band", 100 * one.inside, "%", 90, "higher", note="of the steps")


def main() -> None:
    heads = "ports", "ahead", "error", "as told", "last value", "day before", "in the 95 % band", "its width"
    table = markdown(*heads)
    for one in (*of_generated(), of_lab()):
        errors = one.error, one.said, one.last, one.day_before, one.inside
        shares = ("–" if share is None else f"{100 * share:.1f} %" for share in errors)
        table.add_row(one.name, one.horizon, *shares, f"{100 * one.width:.0f} %")
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
