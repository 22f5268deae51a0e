"""Figures, a lab and a service that answer from a script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.demo.closed_loop import Answer
from lab.documents import FiguresDocument
from service.documents.predictions import ProbeDocument, SlowdownDocument
from twin.watermark import Watermark

NOBODY = SlowdownDocument(n=0, mean=None, p99=None)


def figures(
    begin_s: float = 0.0,
    end_s: float = 0.01,
    *,
    queue_bytes: float = 20_000.0,
    elephants: float | None = 5.0,
    mice: float | None = 8.0,
    paused_s: float = 1e-3,
) -> FiguresDocument:
    def of(value: float | None) -> SlowdownDocument:
        return NOBODY if value is None else SlowdownDocument(n=10, mean=value, p99=value)

    slowdown = {"all": of(3.0), "mice": of(mice), "medium": NOBODY, "elephant": of(elephants)}
    return FiguresDocument(
        begin_s=begin_s,
        end_s=end_s,
        queue_mean_bytes=queue_bytes,
        queue_p99_bytes=10 * queue_bytes,
        slowdown=slowdown,
        completions=20,
        goodput_gbps=400.0,
        marked_fraction=0.01,
        marked_bytes=2e5,
        cnps=5,
        pauses=int(paused_s * 1e4),
        paused_s=paused_s,
        dropped_packets=0,
        dropped_bytes=0.0,
        probe_slowdown=ProbeDocument(n=80, p50=1.0, p99=queue_bytes / 1e4),
        paused_share=paused_s,
        loss_share=0.0,
    )


class ScriptedLab:
    """Notes how far it was advanced."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def advance(self, until_s: float) -> None:
        self.ends.append(until_s)

    def mark(self) -> FiguresDocument:
        return figures(*[0.0, *self.ends][-2:])

    def figures(self) -> FiguresDocument:
        return figures(0.0, self.ends[-1])


class ScriptedService:
    """Gives its answers in turn, then nothing new; approves whatever it is asked to."""

    def __init__(self, answers: Sequence[Answer], *, refuses: str = "") -> None:
        self._answers = list(answers)
        self._refuses = refuses
        self.approved: list[str] = []

    def tune(self) -> Answer:
        return self._answers.pop(0) if self._answers else recommends(None)

    def approve(self, recommendation: str) -> Answer:
        self.approved.append(recommendation)
        if self._refuses:
            return Answer(None, self._refuses)
        return Answer({"staged": _numbers(Watermark(*map(int, recommendation.split("-")), 0.5))})


def recommends(mark: Watermark | None, *, holds: Sequence[str] = ()) -> Answer:
    """A round's answer; None keeps the incumbent."""
    return Answer(
        {
            "id": "" if mark is None else f"{mark.kmin_bytes}-{mark.kmax_bytes}",
            "changes": mark is not None,
            "staged": None if mark is None else _numbers(mark),
            "holds": list(holds),
            "why": "because",
            "improvement": {"score_gain": 0.3},
        }
    )


def _numbers(mark: Watermark) -> dict[str, Any]:
    return {"kmin_bytes": mark.kmin_bytes, "kmax_bytes": mark.kmax_bytes, "pmax": mark.pmax}
