"""The demo's picture: an SVG of six charts over simulated time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from lab.demo.closed_loop import CLOSED_LOOP, PAPER_SETTING, VENDOR, Interval, Outcome, Run
from twin.units import bytes_text, duration_text, gain_text

WIDTH, HEIGHT = 1040, 860
_LEFT, _TOP, _PANEL_W, _PANEL_H, _GAP_X, _GAP_Y = 78, 146, 412, 180, 98, 64
_COLOURS = {CLOSED_LOOP: "#c2410c", VENDOR: "#475569", PAPER_SETTING: "#0e7490"}
_DASHES = {CLOSED_LOOP: "", VENDOR: "7 4", PAPER_SETTING: "2 3"}
_FONT = "font-family='system-ui, sans-serif'"
_Value = Callable[[Interval], float | None]


@dataclass(frozen=True, slots=True)
class _Panel:
    """One chart: the figure of an interval, its format, and the scale."""

    title: str
    value: _Value
    text: Callable[[float], str]
    logarithmic: bool = True


def _ratio(value: float) -> str:
    return f"{value:g}×"


_PANELS: Sequence[_Panel] = (
    _Panel("mean queue", lambda one: one.figures.queue_mean_bytes, bytes_text),
    _Panel("99 % queue", lambda one: one.figures.queue_p99_bytes, bytes_text),
    _Panel("mice, 99 % slowdown", lambda one: one.figures.slowdown["mice"].p99, _ratio),
    _Panel("elephants, mean slowdown", lambda one: one.figures.slowdown["elephant"].mean, _ratio),
    _Panel("PFC pause, all ports", lambda one: one.figures.paused_s, duration_text, logarithmic=False),
)


class _Frame:
    """A panel's corner and scales, x in seconds."""

    def __init__(self, place: int, duration_s: float, low: float, high: float, *, logarithmic: bool) -> None:
        self.x0 = _LEFT + place % 2 * (_PANEL_W + _GAP_X)
        self.y0 = _TOP + place // 2 * (_PANEL_H + _GAP_Y)
        self._duration_s = duration_s
        self._logarithmic = logarithmic
        self.low, self.high = low, high

    def x(self, at_s: float) -> float:
        return self.x0 + at_s / self._duration_s * _PANEL_W

    def y(self, value: float) -> float:
        if self._logarithmic:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.y0 + _PANEL_H * (1.0 - min(max(share, 0.0), 1.0))

    def ticks(self) -> list[float]:
        if not self._logarithmic:
            step = _nice(self.high / 3)
            return [step * number for number in range(int(self.high / step + 1e-9) + 1)]
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        within = [digit * 10.0**power for power in decades for digit in (1, 2, 5)]
        found = [value for value in within if self.low <= value <= self.high]
        return found if len(found) <= 7 else [one for one in found if f"{one:e}".startswith("1")]


def picture(outcome: Outcome) -> str:
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}' "
        f"viewBox='0 0 {WIDTH} {HEIGHT}' {_FONT} font-size='13' fill='#0f172a'>",
        f"<rect width='{WIDTH}' height='{HEIGHT}' fill='white'/>",
        *_heading(outcome),
    ]
    for place, panel in enumerate(_PANELS):
        parts += _chart(outcome, place, panel)
    parts += _watermarks(outcome, len(_PANELS))
    return "\n".join([*parts, "</svg>", ""])


def _heading(outcome: Outcome) -> list[str]:
    plan = outcome.plan
    hosts = plan.fabric.leaves * plan.fabric.hosts
    parts = [
        _text(_LEFT, 34, "The closed loop against settings that stay", "font-size='20' font-weight='600'"),
        _text(
            _LEFT,
            56,
            f"{hosts} hosts, packet by packet, the same flows for all (seed {outcome.seed}); a round every "
            f"{duration_text(plan.interval_s)} of simulated time",
            "fill='#475569'",
        ),
    ]
    x = float(_LEFT)
    for run, gain in zip(outcome.runs, outcome.gains, strict=True):
        label = f"{run.name}: gain {gain_text(gain.value, None)}"
        parts.append(_line(x, 82, x + 28, 82, run.name))
        parts.append(_text(x + 35, 86, label))
        x += 70 + 7.5 * len(label)
    return parts


def _chart(outcome: Outcome, place: int, panel: _Panel) -> list[str]:
    values = [value for run in outcome.runs for value in map(panel.value, run.intervals) if value is not None]
    positive = [value for value in values if value > 0]
    logarithmic = panel.logarithmic and bool(positive)
    if logarithmic:
        low, high = min(positive) / 1.25, max(positive) * 1.25
    else:
        low, high = 0.0, 1.08 * max(positive, default=1e-3)
    frame = _Frame(place, outcome.plan.duration_s, low, high, logarithmic=logarithmic)
    parts = _axes(outcome, frame, panel.title, panel.text)
    for run in [*outcome.runs[1:], outcome.runs[0]]:  # the closed loop is drawn on top
        parts += _series(run, frame, panel.value)
    return parts


def _series(run: Run, frame: _Frame, value: _Value) -> list[str]:
    points = [
        (frame.x((one.figures.begin_s + one.figures.end_s) / 2), frame.y(found))
        for one in run.intervals
        if (found := value(one)) is not None
    ]
    if not points:
        return []
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='2.4' fill='{_COLOURS[run.name]}'/>" for x, y in points]
    return [f"<polyline points='{path}' fill='none' {_stroke(run.name)}/>", *dots]


def _watermarks(outcome: Outcome, place: int) -> list[str]:
    """The band from Kmin to Kmax of each run; the closed loop's changes."""
    marks = [one.watermark for run in outcome.runs for one in run.intervals]
    low, high = min(mark.kmin_bytes for mark in marks) / 1.4, max(mark.kmax_bytes for mark in marks) * 1.4
    frame = _Frame(place, outcome.plan.duration_s, low, high, logarithmic=True)
    parts = _axes(outcome, frame, "watermark: Kmin to Kmax", bytes_text)
    loop = outcome.loop
    for one in loop.intervals:
        x, right = frame.x(one.figures.begin_s), frame.x(one.figures.end_s)
        top, bottom = frame.y(one.watermark.kmax_bytes), frame.y(one.watermark.kmin_bytes)
        parts.append(
            f"<rect x='{x:.1f}' y='{top:.1f}' width='{right - x:.1f}' height='{bottom - top:.1f}' "
            f"fill='{_COLOURS[CLOSED_LOOP]}' fill-opacity='0.16'/>"
        )
        parts += [_line(x, y, right, y, CLOSED_LOOP) for y in (top, bottom)]
    for run in outcome.runs[1:]:
        mark = run.intervals[0].watermark
        for value in (mark.kmin_bytes, mark.kmax_bytes):
            y = frame.y(value)
            parts.append(_line(frame.x(0.0), y, frame.x(outcome.plan.duration_s), y, run.name))
    return parts


def _axes(outcome: Outcome, frame: _Frame, title: str, text: Callable[[float], str]) -> list[str]:
    plan, bottom = outcome.plan, frame.y0 + _PANEL_H
    parts = [_text(frame.x0, frame.y0 - 22, title, "font-weight='600'")]
    ends = [phase.begin_s for phase in plan.phases[1:]] + [plan.duration_s]
    for number, (phase, end_s) in enumerate(zip(plan.phases, ends, strict=True)):
        x, right = frame.x(phase.begin_s), frame.x(end_s)
        shade = "#f8fafc" if number % 2 == 0 else "#eef2f7"
        parts.append(
            f"<rect x='{x:.1f}' y='{frame.y0}' width='{right - x:.1f}' height='{_PANEL_H}' fill='{shade}'/>"
        )
        parts.append(_text((x + right) / 2, frame.y0 - 5, phase.name, "text-anchor='middle' " + _SMALL))
    for tick in frame.ticks():
        y = frame.y(tick)
        parts.append(
            f"<line x1='{frame.x0}' y1='{y:.1f}' x2='{frame.x0 + _PANEL_W}' y2='{y:.1f}' stroke='#d8dee8'/>"
        )
        label = text(tick) if tick else "0"
        parts.append(_text(frame.x0 - 7, y + 4, label, "text-anchor='end' " + _SMALL))
    for number in range(5):
        at_s = plan.duration_s * number / 4
        parts.append(
            _text(frame.x(at_s), bottom + 16, f"{at_s * 1e3:g} ms", "text-anchor='middle' " + _SMALL)
        )
    return parts


_SMALL = "font-size='11' fill='#475569'"


def _line(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' {_stroke(name)}/>"


def _stroke(name: str) -> str:
    dashes = f" stroke-dasharray='{_DASHES[name]}'" if _DASHES[name] else ""
    return f"stroke='{_COLOURS[name]}' stroke-width='{2.4 if name == CLOSED_LOOP else 1.8}'{dashes}"


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' {style}>{escape(text)}</text>"


def _nice(step: float) -> float:
    """1, 2 or 5 times a power of ten, about ``step``."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= step * 0.7)
