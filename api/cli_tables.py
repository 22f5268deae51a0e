"""Tables for people, drawn from the same documents that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from api.schemas.predictions import PredictionDocument, WatermarkDocument
from api.schemas.recommendation import CandidateDocument, RoundDocument
from api.schemas.telemetry import deepest_first
from api.schemas.whatif import WhatIfDocument
from telemetry.state import FlowClass, NetworkState
from twin.units import bytes_text, change_text, duration_text, percent_text
from twin.watermark import Watermark

_BETTER_LOWER, _BETTER_HIGHER, _NEITHER = -1, 1, 0
NONE = "–"


def _shown(value: float | None, text: Callable[[float], str]) -> str:
    return NONE if value is None else text(value)


def _amount(text: Callable[[float], str]) -> Callable[[float], str]:
    """The same, with a plain word where there is nothing of it."""
    return lambda value: text(value) if value else "none"


def _ratio(value: float) -> str:
    return f"{value:.3g}×"


_OPINION_FIGURES: Sequence[tuple[Callable[[PredictionDocument], float | None], Callable[[float], str]]] = (
    (lambda one: one.queue_mean_bytes, bytes_text),
    (lambda one: one.queue_p99_bytes, bytes_text),
    (lambda one: one.slowdown["mice"].p99, _ratio),
    (lambda one: one.slowdown["elephant"].mean, _ratio),
)


def _gbps(value: float) -> str:
    return f"{value:.4g} Gbit/s"


def watermark_text(mark: Watermark | WatermarkDocument) -> str:
    """``Kmin 20 KB, Kmax 200 KB, Pmax 5 %``."""
    kmin, kmax = bytes_text(mark.kmin_bytes), bytes_text(mark.kmax_bytes)
    return f"Kmin {kmin}, Kmax {kmax}, Pmax {percent_text(mark.pmax)}"


def flows_table(state: NetworkState) -> Table:
    """Flows and bytes by class."""
    table = headed_table("Flows in the window", "class", "flows", "bytes", "share")
    total = sum(state.bytes_by_class.values()) or 1.0
    for flow_class in reversed(FlowClass):
        volume = state.bytes_by_class.get(flow_class, 0.0)
        table.add_row(
            flow_class.label.replace("_", " "),
            f"{state.flows_by_class.get(flow_class, 0)}",
            bytes_text(volume),
            percent_text(volume / total),
        )
    return table


def queues_table(state: NetworkState, limit: int) -> Table:
    """The deepest queues."""
    table = headed_table("Deepest queues", "queue", "mean", "99 %", "marked", "load")
    for queue in sorted(state.queues, key=deepest_first)[:limit]:
        load = None
        if queue.capacity_bytes_per_s:
            load = queue.throughput_bytes_per_s / queue.capacity_bytes_per_s
        table.add_row(
            f"{queue.ref.switch} {queue.ref.port} · {queue.ref.queue}",
            bytes_text(queue.depth_mean_bytes) if queue.has_depth else NONE,
            bytes_text(queue.depth_p99_bytes) if queue.has_depth else NONE,
            _shown(queue.marked_ratio, percent_text),
            _shown(load, percent_text),
        )
    return table


def comparison_table(document: RoundDocument) -> Table:
    """The incumbent and the recommended watermark side by side."""
    now, best = document.incumbent, document.recommendation
    table = headed_table("Predicted by the twin", "", "now", "recommended", "change")
    for name, written in (("kmin_bytes", bytes_text), ("kmax_bytes", bytes_text), ("pmax", percent_text)):
        before, after = getattr(now, name), getattr(best, name)
        label = name.removesuffix("_bytes").capitalize()
        table.add_row(
            label, written(before), Text(written(after), style="bold"), "" if before != after else "same"
        )
    table.add_section()
    rows: Sequence[tuple[str, float | None, float | None, Callable[[float], str], int]] = (
        ("mean queue", now.queue_mean_bytes, best.queue_mean_bytes, bytes_text, _BETTER_LOWER),
        ("99 % queue", now.queue_p99_bytes, best.queue_p99_bytes, bytes_text, _BETTER_LOWER),
        ("mice, 99 % slowdown", now.slowdown["mice"].p99, best.slowdown["mice"].p99, _ratio, _BETTER_LOWER),
        (
            "elephants, mean slowdown",
            now.slowdown["elephant"].mean,
            best.slowdown["elephant"].mean,
            _ratio,
            _BETTER_LOWER,
        ),
        ("goodput", now.goodput_gbps, best.goodput_gbps, _gbps, _BETTER_HIGHER),
        ("packets marked", now.marked_fraction, best.marked_fraction, percent_text, _NEITHER),
        ("lost", now.loss_bytes, best.loss_bytes, _amount(bytes_text), _BETTER_LOWER),
        ("PFC pause", now.pfc_pause_s, best.pfc_pause_s, _amount(duration_text), _BETTER_LOWER),
    )
    for label, before, after, text, better in rows:
        if before is None and after is None:
            continue
        table.add_row(label, _shown(before, text), _shown(after, text), _change(before, after, better))
    return table


def candidates_table(document: RoundDocument, limit: int) -> Table:
    """The best candidates and the incumbent."""
    table = headed_table(
        f"Best of {document.candidate_count} candidates",
        *("", "Kmin", "Kmax", "Pmax", "mean queue", "mice 99 %", "elephants", "score", "origin"),
    )
    ranked = [one for one in document.candidates if one.score is not None]
    shown: list[tuple[str, CandidateDocument]] = [
        (f"{place}", one) for place, one in enumerate(ranked[:limit], 1)
    ]
    incumbent = next((one for one in ranked if one.origin == "incumbent"), None)
    if incumbent is not None and all(one is not incumbent for _, one in shown):
        shown.append(("now", incumbent))
    for place, one in shown:
        table.add_row(
            place,
            bytes_text(one.kmin_bytes),
            bytes_text(one.kmax_bytes),
            percent_text(one.pmax),
            *_figures(one),
            one.source or one.origin,
            style="bold" if place == "1" else None,
        )
    return table


def opinion_table(document: RoundDocument) -> Table | None:
    """The few candidates that both engines ran; None where no second opinion was asked."""
    opinion = document.second_opinion
    if opinion is None:
        return None
    first, second = document.engine, opinion.engine
    table = headed_table(
        f"Second opinion: {first} / {second} over {duration_text(opinion.window_s)}",
        *("", "Kmin", "Kmax", "Pmax", "mean queue", "99 % queue", "mice 99 %", "elephants", "score"),
    )
    for place, one in enumerate(opinion.candidates):
        mark = (one.first.kmin_bytes, one.first.kmax_bytes, one.first.pmax)
        best = mark == (opinion.pick.kmin_bytes, opinion.pick.kmax_bytes, opinion.pick.pmax)
        table.add_row(
            "now" if place == 0 else f"{place}",
            bytes_text(one.first.kmin_bytes),
            bytes_text(one.first.kmax_bytes),
            percent_text(one.first.pmax),
            *(
                f"{_shown(figure(one.first), text)} / {_shown(figure(one.second), text)}"
                for figure, text in _OPINION_FIGURES
            ),
            _shown(one.second.score, lambda value: f"{value:.3f}"),
            style="bold" if best else None,
        )
    return table


def whatif_table(document: WhatIfDocument) -> Table:
    """Every watermark given, in order."""
    seconds = duration_text(document.wall_s)
    table = headed_table(
        f"{document.scenario}: engine {document.engine}, seed {document.seed}, {seconds}",
        *("Kmin", "Kmax", "Pmax", "mean queue", "mice 99 %", "elephants", "score", "goodput", "status"),
    )
    for one in document.results:
        table.add_row(
            bytes_text(one.kmin_bytes),
            bytes_text(one.kmax_bytes),
            percent_text(one.pmax),
            *_figures(one),
            _shown(one.goodput_gbps, _gbps),
            one.status,
        )
    return table


def _figures(one: PredictionDocument) -> tuple[str, str, str, str]:
    return (
        _shown(one.queue_mean_bytes, bytes_text),
        _shown(one.slowdown["mice"].p99, _ratio),
        _shown(one.slowdown["elephant"].mean, _ratio),
        _shown(one.score, lambda value: f"{value:.3f}"),
    )


def _change(before: float | None, after: float | None, better: int) -> Text:
    if before is None or after is None or before == 0:
        return Text("" if before == after else NONE)
    relative = after / before - 1
    if abs(relative) < 0.005:
        return Text("same", style="dim")
    good = relative * better > 0
    return Text(change_text(relative), style="" if better == _NEITHER else "green" if good else "red")


def headed_table(title: str | None, *columns: str, left: int = 1) -> Table:
    """An empty table in the look of all: the first ``left`` columns hold words, the others figures."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right")
    return table
