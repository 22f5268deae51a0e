"""Reads the rows of truth and what-if documents as predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from telemetry.topology import GBPS
from twin.errors import ParameterError
from twin.prediction import SIZE_CLASSES, Prediction, Probe, Slowdown, SolveStatus
from twin.watermark import Watermark

DROPPED_PACKET_BYTES = 1_048.0  # truth documents count drops in full packets on the wire


def as_predictions(rows: Sequence[Mapping[str, Any]]) -> list[Prediction]:
    """The rows as predictions, in order; raises ``ParameterError`` naming the row and key at fault."""
    return [prediction_from_row(row, where=f"results[{number}]") for number, row in enumerate(rows)]


def prediction_from_row(row: Mapping[str, Any], *, where: str = "row") -> Prediction:
    """One entry of ``results`` of a truth or whatif document (keys of the scenario format's reference).

    ``slowdown_with_unfinished`` is preferred to ``slowdown``: it counts what a prediction counts.
    ``loss_bytes`` may be ``drops`` in packets instead. Figures that are absent or null are NaN where the
    score needs them, else 0; probes and shares that are absent stay absent.
    """
    watermark = Watermark(
        row["kmin_bytes"] if "kmin_bytes" in row else _missing(where, "kmin_bytes"),
        row["kmax_bytes"] if "kmax_bytes" in row else _missing(where, "kmax_bytes"),
        row["pmax"] if "pmax" in row else _missing(where, "pmax"),
    )
    status = _status(row.get("status", "ok"), where)
    drops = _figure(row, "drops", where, 0.0) * DROPPED_PACKET_BYTES
    return Prediction(
        watermark=watermark,
        status=status,
        queue_mean_bytes=_figure(row, "queue_mean_bytes", where, math.nan),
        queue_p99_bytes=_figure(row, "queue_p99_bytes", where, math.nan),
        queue_peak_bytes=_figure(row, "queue_peak_bytes", where, math.nan),
        goodput_bytes_per_s=_figure(row, "goodput_gbps", where, math.nan) * GBPS,
        marked_fraction=_figure(row, "marked_fraction", where, math.nan),
        loss_bytes=_figure(row, "loss_bytes", where, drops),
        pfc_pause_s=_figure(row, "pfc_pause_s", where, 0.0),
        slowdown=_slowdowns(row.get("slowdown_with_unfinished") or row.get("slowdown") or {}, where),
        probe=_probe(row.get("probe_slowdown"), f"{where} probe_slowdown"),
        paused_share=_share(row, "paused_share", where),
        loss_share=_share(row, "loss_share", where),
    )


def _probe(entry: Any, where: str) -> dict[str, Probe]:
    if not entry or entry.get("p99") is None:
        return {}
    figures = (_figure(entry, name, where, math.nan) for name in ("p50", "p99"))
    return {"all": Probe(int(entry.get("n", 1)), *figures)}


def _share(row: Mapping[str, Any], key: str, where: str) -> float | None:
    return None if row.get(key) is None else _figure(row, key, where, 0.0)


def _slowdowns(table: Any, where: str) -> dict[str, Slowdown]:
    if not isinstance(table, Mapping):
        raise ParameterError(f"{where} slowdown", repr(table), "it is keyed by size class", "give an object")
    seen = {}
    for name in SIZE_CLASSES:
        entry = table.get(name)
        if entry and entry.get("n"):
            at = f"{where} slowdown {name}"
            seen[name] = Slowdown(
                int(entry["n"]), _figure(entry, "mean", at, math.nan), _figure(entry, "p99", at, math.nan)
            )
    return seen


def _figure(row: Mapping[str, Any], key: str, where: str, default: float) -> float:
    value = row.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ParameterError(f"{where} {key}", repr(value), "it must be a number", "give the number")
    return float(value)


def _status(code: Any, where: str) -> SolveStatus:
    for status in SolveStatus:
        if status.code == code:
            return status
    known = ", ".join(status.code for status in SolveStatus)
    raise ParameterError(f"{where} status", repr(code), f"known are {known}", "give one of them")


def _missing(where: str, key: str) -> Any:
    raise ParameterError(f"{where} {key}", None, "a row names its watermark", "give the value")
