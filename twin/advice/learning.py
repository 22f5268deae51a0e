"""Learns advice from rounds of a service, beside the states that the shipped tree is learnt from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from twin.advice.artefact import SHIPPED, Learnt, read
from twin.advice.growing import CALIBRATED, FAILED, Rows, drawn_to_calibrate, made
from twin.advice.labelled import kept
from twin.advice.lessons import Lesson
from twin.errors import ParameterError
from twin.units import percent_text

LEAST_ROUNDS = 40  # so that the newest third bounds a leaf, with some to spare


def learnt_from(lessons: Sequence[Lesson], before: Learnt) -> Learnt:
    """A tree grown on the shipped states and the older rounds; the newest third bounds its leaves and tells
    how far it is behind the best there, next to ``before``. ``lessons`` are in order of time.

    Raises ``ParameterError`` where there are too few.
    """
    if len(lessons) < LEAST_ROUNDS:
        rule = f"a tree is learnt from {LEAST_ROUNDS} rounds or more that score by gain"
        remedy = "let the service run on; until then the advice stays as it is"
        received = "1 round" if len(lessons) == 1 else f"{len(lessons)} rounds"
        raise ParameterError("advice train", received, rule, remedy)
    shipped = read(SHIPPED)
    drawn = Rows.of(*kept(shipped.codes))
    states = int(drawn.state.max()) + 1
    older = round((1.0 - CALIBRATED) * len(lessons))
    own = Rows.of_lessons(lessons, shipped.codes, copies=round(len(drawn.x) / states), first=states)
    rows = Rows.joined([drawn, own])
    calibrating = np.concatenate([drawn_to_calibrate(drawn), own.state >= states + older])
    found = made(rows, calibrating).learnt(shipped.codes, {})
    test = Rows.of_lessons(lessons[older:], before.codes, copies=1, first=0)
    held_own = own.where(own.drawn & (own.state >= states + older))
    held_drawn = drawn.where(drawn.drawn & drawn_to_calibrate(drawn))
    static = int(np.argmin(np.minimum(own.where(own.state < states + older).behind, FAILED).mean(axis=0)))
    figures = {
        "own": _figures(found, held_own),
        "own, before": _figures(before, test),
        "own, best static": {"regret": _mean(held_own.behind[:, static])},
        "own, what runs": {"regret": _mean(held_own.kept)},
        "shipped states": _figures(found, held_drawn),
        "shipped states, shipped tree": _figures(shipped, held_drawn),
    }
    provenance = {"states": states, "rounds": len(lessons), "held out": figures}
    return structs.replace(found, provenance=provenance)


def check_better(learnt: Learnt) -> None:
    """Raises ``ParameterError`` where it is no better on the newest rounds than what was in use."""
    rounds, figures = learnt.provenance["rounds"], learnt.provenance["held out"]
    now, then, tried = figures["own"]["regret"], figures["own, before"]["regret"], figures["own"]["states"]
    if now >= then:
        rule = (
            f"on the newest {tried} of them the best watermark gains {percent_text(now)} more than what a "
            f"new tree says, and {percent_text(then)} more than what the one in use does"
        )
        remedy = "the one in use stays; learn again when there are more rounds"
        raise ParameterError("advice train", f"{rounds} rounds", rule, remedy)


def _figures(learnt: Learnt, rows: Rows) -> dict[str, float]:
    """Share of rows that get advice, and the mean regret of all; what runs stays where there is none."""
    leaves = [learnt.leaf(row) for row in rows.x]
    advised = np.array([at >= 0 and learnt.leaves[at].regret <= learnt.regret_limit for at in leaves])
    code = [int(np.argmin(learnt.leaves[max(at, 0)].behind)) for at in leaves]
    regret = np.where(advised, rows.behind[np.arange(len(code)), code], rows.kept)
    return {"states": len(rows.x), "advised": _mean(advised), "regret": _mean(regret)}


def _mean(values: NDArray[np.float64] | NDArray[np.bool_]) -> float:
    return round(float(values.mean()), 4)
