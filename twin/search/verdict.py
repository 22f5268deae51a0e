"""Whether a round's best candidate is worth a change, or no watermark is; must import no engine.

The regime where none helps: every candidate, over decades of Kmin, leaves queue, rates and pauses where they
were. Long queues that do not answer to marking come from senders that cannot or will not go slower.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from twin.result import Prediction, SolveStatus
from twin.scenario import Scenario
from twin.search.recommendation import Verdict, VerdictKind
from twin.search.score import LEAST_LOSS_BYTES, LEAST_PAUSE_S, LEAST_SPREAD
from twin.units import bytes_text, duration_text

PINNED_QUEUE_RATIO = 1.25
EMPTY_QUEUE_BYTES = 2_000.0  # a packet or two on average


def judge(
    predictions: Sequence[Prediction],
    scenario: Scenario,
    *,
    n_tried: int,
    gain: float,
    margin: float,
    stands: bool,
    pfc: bool,
) -> Verdict:
    """The conclusion, from the predictions of all candidates that ran the full window.

    ``n_tried`` counts those dropped early too; ``gain`` is the best candidate's over the incumbent,
    ``stands`` whether that best is the incumbent itself.
    """
    rows = [one for one in predictions if one.status is SolveStatus.OK]
    queue = np.array([one.queue_mean_bytes for one in rows])
    pause = np.array([one.pfc_pause_s if pfc else 0.0 for one in rows])
    loss = np.array([one.loss_bytes for one in rows])
    suffering = float(pause.max()) >= LEAST_PAUSE_S or float(loss.max()) >= LEAST_LOSS_BYTES
    remarks = _remarks(pause, loss, scenario)
    if float(queue.max()) < EMPTY_QUEUE_BYTES and not suffering:
        return Verdict(
            VerdictKind.UNCONGESTED,
            f"Nothing to tune: every candidate's mean queue is below {bytes_text(EMPTY_QUEUE_BYTES)}.",
        )
    if _pinned(rows, queue, pause, loss):
        low, high = _core(queue)
        pauses = f" and PFC pause {_pause_range(pause)}" if float(pause.max()) >= LEAST_PAUSE_S else ""
        return Verdict(
            VerdictKind.NO_EFFECT,
            f"No watermark helps here: over {n_tried} candidates the mean queue stays {bytes_text(low)} to "
            f"{bytes_text(high)}{pauses}; {_what_would_help(scenario)}.",
            remarks,
        )
    if stands:
        return Verdict(
            VerdictKind.STAND_STILL,
            f"Stand still: none of {n_tried} candidates scores better than the incumbent by more than noise.",
            remarks,
        )
    if gain <= margin:
        return Verdict(
            VerdictKind.STAND_STILL,
            f"Stand still: the best candidate gains {gain:.3f} in score, which does not exceed the margin "
            f"of {margin:g}.",
            remarks,
        )
    return Verdict(
        VerdictKind.CHANGE,
        f"Change: the best of {n_tried} candidates gains {gain:.3f} in score (margin {margin:g}).",
        remarks,
    )


def _core(values: NDArray[np.float64]) -> tuple[float, float]:
    """The 5th and 95th percentile: one odd candidate does not make a regime."""
    low, high = np.percentile(values, [5, 95])
    return float(low), float(high)


def _pinned(
    rows: Sequence[Prediction],
    queue: NDArray[np.float64],
    pause: NDArray[np.float64],
    loss: NDArray[np.float64],
) -> bool:
    low, high = _core(queue)
    goodput = np.array([one.goodput_bytes_per_s for one in rows])
    return (
        high <= low * PINNED_QUEUE_RATIO
        and _steady(goodput, LEAST_SPREAD["goodput"])
        and _steady(pause, LEAST_SPREAD["pause"], LEAST_PAUSE_S)
        and _steady(loss, LEAST_SPREAD["loss"], LEAST_LOSS_BYTES)
        and _steady(_slowdown(rows, "elephant", "mean"), LEAST_SPREAD["slowdown"])
        and _steady(_slowdown(rows, "mice", "p99"), LEAST_SPREAD["mice"])
    )


def _steady(values: NDArray[np.float64], relative: float, absolute: float = 0.0) -> bool:
    if not values.size:
        return True
    low, high = _core(values)
    return high - low <= max(relative * abs(high), absolute)


def _slowdown(rows: Sequence[Prediction], size_class: str, figure: str) -> NDArray[np.float64]:
    entries = [one.slowdown[size_class] for one in rows if size_class in one.slowdown]
    return np.array([getattr(entry, figure) for entry in entries if entry.n], dtype=np.float64)


def _remarks(pause: NDArray[np.float64], loss: NDArray[np.float64], scenario: Scenario) -> tuple[str, ...]:
    remarks = []
    if float(pause.min()) >= LEAST_PAUSE_S and _steady(pause, LEAST_SPREAD["pause"]):
        remarks.append(
            f"PFC pause stays {_pause_range(pause)} whatever the watermark; {_what_would_help(scenario)}."
        )
    if float(loss.min()) >= LEAST_LOSS_BYTES and _steady(loss, LEAST_SPREAD["loss"]):
        low, high = _core(loss)
        remarks.append(
            f"{bytes_text(low)} to {bytes_text(high)} are lost whatever the watermark; "
            f"{_what_would_help(scenario)}."
        )
    return tuple(remarks)


def _pause_range(pause: NDArray[np.float64]) -> str:
    low, high = _core(pause)
    return f"{duration_text(low)} to {duration_text(high)}"


def _what_would_help(scenario: Scenario) -> str:
    sharing = _persistent_senders(scenario)
    senders = f" ({sharing} long flows share the busiest port)" if sharing > 1 else ""
    return (
        f"fewer senders per receiver{senders}, DCQCN parameters that cut more and recover less, "
        f"or more than {bytes_text(scenario.buffer_bytes)} of buffer would"
    )


def _persistent_senders(scenario: Scenario) -> int:
    """The most never-ending flows that cross one switch port."""
    flows = scenario.flows
    lengths = np.diff(flows.path_offset)
    endless = np.repeat(np.isinf(flows.payload_bytes), lengths)
    ports = flows.path_ports[: len(endless)][endless]
    ports = ports[~scenario.is_nic[ports]]
    return int(np.bincount(ports).max()) if ports.size else 0
