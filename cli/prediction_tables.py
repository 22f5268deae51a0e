"""Tables of predictions: incumbent and recommendation, candidates, two engines, paths, what-if, ports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cli.output import (
    NONE,
    clock_text,
    gbps_text,
    headed_table,
    of_all_text,
    unwrapped,
    watermark_cells,
    watermark_text,
)
from nics.parameters import values_text
from service.documents.base import list_text
from twin.units import bytes_text, change_text, duration_text, gain_text, percent_text, setting_text

if TYPE_CHECKING:
    from cli.answers import (
        CandidateAnswer,
        CoTuningAnswer,
        ForecastAnswer,
        PathFixAnswer,
        PathGoodputAnswer,
        PathsAnswer,
        PortForecastAnswer,
        PredictionAnswer,
    )
    from service.documents.co_tuning import CoTuningDocument
    from service.documents.paths import PathFixDocument, PathGoodputDocument, PathsDocument
    from service.documents.predictions import PredictionDocument, WhatIfDocument
    from service.documents.round import CandidateDocument, RoundDocument

    Predicted = PredictionAnswer | PredictionDocument
    Tried = CandidateAnswer | CandidateDocument
    CoTuned = CoTuningAnswer | CoTuningDocument

_BETTER_LOWER, _BETTER_HIGHER, _NEITHER = -1, 1, 0


def _shown(value: float | None, text: Callable[[float], str]) -> str:
    return NONE if value is None else text(value)


def _amount(text: Callable[[float], str]) -> Callable[[float], str]:
    return lambda value: text(value) if value else "none"


def _ratio(value: float) -> str:
    return f"{value:.3g}×"


_MARK = ("Kmin", "Kmax", "Pmax")
_MANY = 3.0
_ADVICE = "Advice: ecntwin sets no paths. Another UDP source port, or a pinned path, moves a flow."
_MOST_PORTS = 16
_FIGURES = ("mean\nqueue", "mice\n99 %", "elephants")

_OPINION_FIGURES: Sequence[tuple[Callable[[PredictionDocument], float | None], Callable[[float], str]]] = (
    (lambda one: one.queue_mean_bytes, bytes_text),
    (lambda one: one.queue_p99_bytes, bytes_text),
    (lambda one: one.slowdown["mice"].p99, _ratio),
    (lambda one: one.slowdown["elephant"].mean, _ratio),
)


def comparison_table(now: Predicted, best: Predicted, was: str = "now") -> Table:
    """The incumbent, which is called ``was``, and the recommended watermark side by side."""
    table = headed_table("Predicted by the twin", "", was, "recommended", "change")
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
        (
            "small message, 99 % slowdown",
            now.probe_slowdown.p99,
            best.probe_slowdown.p99,
            _ratio,
            _BETTER_LOWER,
        ),
        ("mice, 99 % slowdown", now.slowdown["mice"].p99, best.slowdown["mice"].p99, _ratio, _BETTER_LOWER),
        (
            "elephants, mean slowdown",
            now.slowdown["elephant"].mean,
            best.slowdown["elephant"].mean,
            _ratio,
            _BETTER_LOWER,
        ),
        ("goodput", now.goodput_gbps, best.goodput_gbps, gbps_text, _BETTER_HIGHER),
        ("packets marked", now.marked_fraction, best.marked_fraction, percent_text, _NEITHER),
        ("lost", now.loss_bytes, best.loss_bytes, _amount(bytes_text), _BETTER_LOWER),
        ("PFC pause", now.pfc_pause_s, best.pfc_pause_s, _amount(duration_text), _BETTER_LOWER),
    )
    for label, before, after, text, better in rows:
        if before is None and after is None:
            continue
        table.add_row(label, _shown(before, text), _shown(after, text), _change(before, after, better))
    return table


def candidates_table(
    candidates: Sequence[Tried], limit: int, *, score_is: str, origins: bool = True, was: str = "now"
) -> Table:
    """The best candidates and the incumbent, which is called ``was`` and is first where it is kept;
    ``origins`` adds a column with the origin of each.
    """
    ranked = [one for one in candidates if one.score is not None]
    kept = bool(ranked) and ranked[0].origin == "incumbent"
    number = len(candidates)
    table = headed_table(
        f"{number} candidates; the first is kept" if kept else f"Best of {number} candidates",
        "",
        *_MARK,
        *_FIGURES,
        score_is,
        *(("origin",) if origins else ()),
    )
    incumbent = next((one for one in ranked if one.origin == "incumbent"), None)
    shown = ranked[:limit]
    if incumbent is not None and all(one is not incumbent for one in shown):
        shown.append(incumbent)
    places = count(1)
    for one in shown:
        table.add_row(
            was if one is incumbent else f"{next(places)}",
            *watermark_cells(one),
            *_figures(one, score_is),
            *((one.source or one.origin,) if origins else ()),
            style="bold" if one is ranked[0] else None,
        )
    return unwrapped(table)


def opinion_table(document: RoundDocument) -> Table | None:
    """The candidates that both engines ran, one line per engine; None without a second opinion."""
    opinion = document.second_opinion
    if opinion is None:
        return None
    table = headed_table(
        f"Second opinion: {document.engine}, and {opinion.engine} over {duration_text(opinion.window_s)}",
        *("", *_MARK, "mean\nqueue", "99 %\nqueue", "mice\n99 %", "elephants", document.score_is),
    )
    for place, one in enumerate(opinion.candidates):
        mark = (one.first.kmin_bytes, one.first.kmax_bytes, one.first.pmax)
        best = mark == (opinion.pick.kmin_bytes, opinion.pick.kmax_bytes, opinion.pick.pmax)
        style = "bold" if best else None
        first, second = (
            [_shown(figure(engine), text) for figure, text in _OPINION_FIGURES]
            for engine in (one.first, one.second)
        )
        table.add_row("now" if place == 0 else f"{place}", *watermark_cells(one.first), *first, style=style)
        score = _score(one.second, document.score_is)
        table.add_row(opinion.engine, "", "", "", *second, score, style=style)
    return unwrapped(table)


def co_tuning_tables(found: CoTuned, now: Predicted) -> Iterator[RenderableType]:
    """What is changed together, with each part's share of the gain; and what every value gains alone."""
    if found.changes:
        table = headed_table("Set together", "", "now", "then", "share of\nthe gain")
        for one in found.changes:
            if one.kind == "watermark":
                before, after = watermark_text(now), watermark_text(found.watermark)
            else:
                before, after = setting_text(one.before, one.unit), setting_text(one.after, one.unit)
            table.add_row(one.name, before, Text(after, style="bold"), _shown(one.share, _gain))
        yield unwrapped(table)
    if found.connectx:
        yield Text(f"On ConnectX: {values_text(found.connectx)}.")
    yield from map(Text, class_sentences(found.connectx_by_class))
    table = headed_table("Each value alone, over its range", "", "now", "best", "gain", "worst")
    for value in found.sensitivities:
        cells = (setting_text(value.before, value.unit), setting_text(value.best, value.unit))
        table.add_row(value.name, *cells, _shown(value.gain, _gain), _shown(value.worst, _gain))
    yield unwrapped(table)


def class_sentences(by_class: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What NICs of each class of hosts get, where that is something else than others do."""
    return [
        f"On NICs of {name}: {values_text(values) if values else 'nothing'}."
        for name, values in by_class.items()
    ]


def _gain(value: float) -> str:
    return gain_text(value, None)


def path_sentences(found: PathsAnswer | PathsDocument) -> list[str]:
    """The collisions, or why there is none, and what could not be seen."""
    return [*([one.sentence for one in found.collisions] or [found.sentence]), *found.notes]


def path_tables(found: PathsAnswer | PathsDocument) -> Iterator[RenderableType]:
    """Of each collision the loads of its ports, the moves, and what both engines predict."""
    for one in found.collisions:
        yield from _path_tables(one)
    if found.collisions:
        yield Text(_ADVICE, "dim")


def _path_tables(one: PathFixAnswer | PathFixDocument) -> Iterator[RenderableType]:
    table = headed_table(f"Equal-cost ports of {one.switch}", "port", "load", "of", "elephants")
    for port in one.ports[:_MOST_PORTS]:
        table.add_row(port.port, gbps_text(port.load_gbps), gbps_text(port.rate_gbps), f"{port.elephants}")
    yield unwrapped(table)
    if one.moved is None:
        return
    table = headed_table("Moves" if one.moved.advised else "Moves, not advised", "flow", "now", "then")
    for move in one.moved.moves:
        flow = f"{move.src_host} → {move.dst_host}, UDP {move.sport} → {move.dport}"
        table.add_row(flow, move.before, Text(move.after, style="bold"))
    yield unwrapped(table)
    table = headed_table("Goodput of an elephant", "engine", "now", "then")
    table.add_row(one.moved.first.engine, *_gbps(one.moved.first))
    if one.moved.second is not None:
        table.add_row(one.moved.second.engine, *_gbps(one.moved.second))
    yield unwrapped(table)


def _gbps(one: PathGoodputAnswer | PathGoodputDocument) -> Iterator[str]:
    return (_shown(value, gbps_text) for value in (one.before_gbps, one.after_gbps))


def whatif_table(document: WhatIfDocument, *, wide: bool) -> Table:
    """One row per watermark, with its status where one is not ok; ``wide`` has room for goodput beside it."""
    seconds = duration_text(document.wall_s)
    all_ok = all(one.status == "ok" for one in document.results)
    goodput = wide or all_ok
    table = headed_table(
        f"{document.scenario}: engine {document.engine}, seed {document.seed}, {seconds}",
        *(*_MARK, *_FIGURES, document.score_is),
        *(("goodput\nGbit/s",) if goodput else ()),
        *(() if all_ok else ("status",)),
        left=0,
    )
    for one in document.results:
        table.add_row(
            *watermark_cells(one),
            *_figures(one, document.score_is),
            *((_shown(one.goodput_gbps, lambda value: f"{value:.4g}"),) if goodput else ()),
            *(() if all_ok else (one.status,)),
        )
    return unwrapped(table)


def _score(one: Predicted, score_is: str) -> str:
    error = one.score_error
    return _shown(one.score, lambda it: gain_text(it, error) if score_is == "gain" else f"{it:.3f}")


def _figures(one: Predicted, score_is: str) -> tuple[str, str, str, str]:
    return (
        _shown(one.queue_mean_bytes, bytes_text),
        _shown(one.slowdown["mice"].p99, _ratio),
        _shown(one.slowdown["elephant"].mean, _ratio),
        _score(one, score_is),
    )


def _change(before: float | None, after: float | None, better: int) -> Text:
    if before is None or after is None or before == 0:
        return Text("" if before == after else NONE)
    relative = after / before - 1
    if abs(relative) < 0.005:
        return Text("same", style="dim")
    good, times = relative * better > 0, relative + 1
    # from a factor of three on, a percentage says little
    text = change_text(relative) if times < _MANY else f"{times:.{0 if times >= 10 else 1}f} times"
    return Text(text, style="" if better == _NEITHER else "green" if good else "red")


def forecast_lines(found: ForecastAnswer, horizon: str) -> Iterator[RenderableType]:
    """A table of ports, or the steps of one; reasons where there is no forecast."""
    if found.why is not None:
        yield Text(found.why, "yellow")
        return
    (first, *_) = known = [one for one in found.ports if one.why is None] or found.ports
    if first.why is None:
        yield _steps_table(first) if first.path else _ports_table(known, found.total, horizon)
    unknown = [one for one in found.ports if one.why is not None]
    for why in dict.fromkeys(one.why for one in unknown):
        names = list_text((f"{one.switch} {one.port}" for one in unknown if one.why == why), 3)
        yield Text(f"{names}: {why}", "yellow")


def _ports_table(ports: Sequence[PortForecastAnswer], total: int, horizon: str) -> Table:
    title = f"{of_all_text(len(ports), total, 'port')}, the fullest within {horizon} first; Gbit/s"
    table = headed_table(title, "port", "now", "busiest", "at", "± error", "95 %", "of rate", "by", left=1)
    table.columns[-1].justify = "left"
    for one in ports:
        table.add_row(
            Text(f"{one.switch} {one.port}"),
            _rate(one.now_bytes_per_s),
            _rate(one.then_bytes_per_s),
            NONE if one.then_at is None else clock_text(one.then_at),
            _rate(one.error_bytes_per_s),
            f"{_rate(one.low_bytes_per_s)} to {_rate(one.high_bytes_per_s)}",
            _shown(one.utilisation, percent_text),
            one.method or NONE,
        )
    return table


def _steps_table(one: PortForecastAnswer) -> Table:
    title = f"{one.switch} {one.port} by {one.method}, now {_rate(one.now_bytes_per_s)}; Gbit/s"
    table = headed_table(title, "at", "throughput", "± error", "95 %")
    path = one.path
    if path is not None:
        for at, *values in zip(
            path.at,
            path.throughput_bytes_per_s,
            path.error_bytes_per_s,
            path.low_bytes_per_s,
            path.high_bytes_per_s,
            strict=True,
        ):
            value, error, low, high = map(_rate, values)
            table.add_row(clock_text(at), value, error, f"{low} to {high}")
    return table


def _rate(value_bytes_per_s: float | None) -> str:
    """In Gbit/s, three significant digits, or all before the point."""
    if value_bytes_per_s is None:
        return NONE
    value_gbps = value_bytes_per_s * 8 / 1e9
    return f"{value_gbps:.{3 if value_gbps < 999.5 else 4}g}"
