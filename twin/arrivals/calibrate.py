"""The scenario whose replay under the incumbent shows the queues that telemetry measured.

Counts of samples leave open how small the unseen messages are, and whether they come in bursts; both decide
how deep queues get, and depths were measured. So the incumbent is replayed with burstier or smoother arrivals
until its mean queue is the measured one. Both means are over time, over the same ports and the same part of
the window. A mean that no arrivals reach means that the twin does not describe this fabric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from telemetry.state import NetworkState
from twin.arrivals.model import Modelled, Shape, modelled, one_size_bursts, usual_burstiness
from twin.engine import DEFAULT_ENGINE, engine
from twin.prediction import SolveStatus
from twin.scenario import Scenario
from twin.units import bytes_text, percent_text
from twin.watermark import Setting

CLOSE = 0.06  # relative; another seed of the replay moves a mean queue by 2 %
EMPTY_QUEUE_BYTES = 2_000.0  # a packet or two on average
EMPTY_QUEUE_KMIN = 0.05  # such a share of Kmin says nothing of marking
_SEED = 1
_FIRST_STEP = 0.15
MOST_RUNS = 7


@dataclass(frozen=True, slots=True)
class Measured:
    """Mean depth over time of ``ports`` (places among a scenario's monitored ones), and its standard error
    from sampling.
    """

    ports: tuple[int, ...]
    mean_bytes: float
    error_bytes: float


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The scenario to predict on; ``failure`` says that its replay does not show what was measured.

    ``predicted_bytes`` and ``measured_bytes`` are mean queues, None where nothing was measured. ``notes`` say
    what the reports could not show.
    """

    scenario: Scenario
    burstiness: float
    predicted_bytes: float | None
    measured_bytes: float | None
    runs: int
    notes: tuple[str, ...] = ()
    failure: str | None = None


def calibrated(
    state: NetworkState,
    incumbent: Setting | None,
    build: Callable[[NetworkState], Scenario],
    *,
    since_s: float,
    packet_bytes: float,
    limit: float,
) -> Calibrated:
    """``build`` makes a scenario of a state from ``since_s`` on; ``incumbent`` None: no calibration. It fails
    where the replay's mean queue and the measured one differ by more than the factor ``limit``, beside
    twice the error of what was measured.

    Costs up to seven replays of the incumbent. The same state gives the same scenario, in any process.
    Raises what ``build`` raises.
    """
    nic = state.topology.nic_bytes_per_s
    bursts = one_size_bursts(state.arrivals, nic, packet_bytes)

    def rebuilt(burstiness: float) -> tuple[Modelled, Scenario]:
        model = modelled(
            state.arrivals,
            Shape.of(burstiness),
            bursts,
            nic_bytes_per_s=nic,
            since_s=since_s,
            until_s=state.duration_s,
            packet_bytes=packet_bytes,
        )
        return model, build(replace(state, arrivals=model.arrivals))

    usual = usual_burstiness(state.arrivals, bursts, nic)
    model, scenario = rebuilt(usual)
    notes = _hidden(model)
    seen = None if incumbent is None else measured(state, scenario, since_s)
    if incumbent is None or seen is None:
        return Calibrated(scenario, usual, None, None, 0, notes)
    tried: dict[float, tuple[float, Scenario]] = {}

    def off(burstiness: float) -> float:
        found = scenario if burstiness == usual else rebuilt(burstiness)[1]
        predicted = _predicted(found, incumbent, seen.ports)
        tried[burstiness] = (predicted, found)
        return _off(predicted, seen.mean_bytes)

    close = max(CLOSE, seen.error_bytes / max(seen.mean_bytes, 1.0))
    _search(off, usual, close=close, open_=model.unseen > 0)
    best = _least_forced({one: mean for one, (mean, _) in tried.items()}, seen.mean_bytes, usual)
    predicted, scenario = tried[best]
    return Calibrated(
        scenario,
        best,
        predicted,
        seen.mean_bytes,
        len(tried),
        notes,
        _failure(predicted, seen, incumbent, limit),
    )


def measured(state: NetworkState, scenario: Scenario, since_s: float) -> Measured | None:
    """The monitored queues over the time in which the scenario's metrics are taken; None where no depth is
    known of any of them.
    """
    recent = state.recent
    if recent is None:
        return None
    place_of = {port: place for place, port in enumerate(scenario.monitored)}
    index = state.topology.port_index
    place = np.full(len(state.queues), -1, np.int64)
    known = dict.fromkeys(range(len(scenario.monitored)), True)
    for number, queue in enumerate(state.queues):
        port = place_of.get(index.get((queue.ref.switch, queue.ref.port), -1), -1)
        place[number] = port
        if port >= 0 and not (queue.has_depth and queue.capacity_bytes_per_s):
            known[port] = False
    ports = tuple(one for one, given in known.items() if given)
    begin_s, end_s = (since_s + at for at in scenario.window_s)
    counted = (recent.at_s >= begin_s) & (recent.at_s <= end_s) & np.isin(place[recent.queue], ports)
    if not counted.any():
        return None
    held: NDArray[np.float64] = recent.held_s[counted] * recent.depth_bytes[counted]
    over = len(ports) * (end_s - begin_s)
    return Measured(ports, float(held.sum()) / over, float(np.sqrt(np.square(held).sum())) / over)


def _predicted(scenario: Scenario, watermark: Setting, ports: tuple[int, ...]) -> float:
    """The replay's mean queue over these places among the monitored ports; NaN where it fails."""
    [found] = engine(DEFAULT_ENGINE).predict(scenario, [watermark], seed=_SEED)
    if found.status is not SolveStatus.OK:
        return math.nan
    return float(np.mean([found.port_queue_mean_bytes[place] for place in ports]))


def _off(predicted_bytes: float, measured_bytes: float) -> float:
    """ln(predicted ÷ measured); NaN where the replay failed."""
    return math.log(max(predicted_bytes, 1.0) / max(measured_bytes, 1.0))


def _search(off: Callable[[float], float], begin: float, *, close: float, open_: bool) -> None:
    """Evaluates ``off``, which rises, at ``begin`` and then ever closer to where it is 0."""
    value = off(begin)
    if abs(value) <= close or not open_ or math.isnan(value):
        return
    low, high = (begin, value), (begin, value)
    step = math.copysign(_FIRST_STEP, -value)
    for _ in range(MOST_RUNS - 1):
        if low[1] < 0.0 < high[1]:
            share = min(max(-low[1] / (high[1] - low[1]), 0.15), 0.85)
            at = low[0] + share * (high[0] - low[0])
        else:
            at = max(-1.0, min(2.0, (low if value < 0.0 else high)[0] + step))
            step *= 2.0
            if at in (low[0], high[0]):
                return
        value = off(at)
        if abs(value) <= close or math.isnan(value):
            return
        if value < 0.0:
            low = (at, value)
            high = high if high[1] > 0.0 else low
        else:
            high = (at, value)
            low = low if low[1] < 0.0 else high


def _least_forced(predicted: Mapping[float, float], measured_bytes: float, usual: float) -> float:
    """Of burstinesses, by the mean queue ``predicted`` with each, the one nearest to the ``usual`` of those
    that come as close to what was measured as another seed of the replay might.
    """
    missed = {
        one: math.inf if math.isnan(mean) else abs(_off(mean, measured_bytes))
        for one, mean in predicted.items()
    }
    least = min(missed.values())
    return min((one for one in missed if missed[one] <= least + CLOSE), key=lambda one: abs(one - usual))


def _failure(predicted: float, seen: Measured, incumbent: Setting, limit: float) -> str | None:
    if max(predicted, seen.mean_bytes) <= max(
        EMPTY_QUEUE_BYTES, EMPTY_QUEUE_KMIN * incumbent.usual.kmin_bytes
    ):
        return None
    least = max(seen.mean_bytes - 2 * seen.error_bytes, 0.0) / limit
    most = (seen.mean_bytes + 2 * seen.error_bytes) * limit
    if least <= max(predicted, 1.0) <= most:
        return None
    return (
        f"the twin puts the mean queue under what runs at {bytes_text(predicted)}, telemetry measured "
        f"{bytes_text(seen.mean_bytes)}; check the DCQCN parameters, the buffer and the sampling rate."
    )


def _hidden(model: Modelled) -> tuple[str, ...]:
    if not model.unseen:
        return ()
    return (
        f"At this sampling rate most messages below {bytes_text(model.hidden_below_bytes)} are not seen: "
        f"{model.unseen} of them, {percent_text(model.unseen_share)} of the bytes replayed, are estimated "
        "from those seen.",
    )
