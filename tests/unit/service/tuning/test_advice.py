"""What a round says of the advice before it, and a service whose artefact is of no use."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from service.network_metrics import AdviceMetrics
from service.tuning.advice import Adviser, answered_by, lesson_of
from settings.twin import TuningSettings
from tests.unit.service.tuning.rounds import INCUMBENT, ask, changing, keeping, state
from twin.advice.artefact import SHIPPED
from twin.advice.features import FEATURES
from twin.advice.lessons import Lesson
from twin.search.push_gate import GateSettings
from twin.search.recommendation import Recommendation, VerdictKind
from twin.watermark import Watermark


def adviser(by_gain: bool = True, **tuning: object) -> Adviser:
    return Adviser.of(
        TuningSettings(**{"advice": True, **tuning}),  # type: ignore[arg-type]
        by_gain=by_gain,
        gate=GateSettings(),
        metrics=AdviceMetrics(CollectorRegistry()),
        clock_ns=lambda: 7,
    )


def test_it_is_made_with_what_comes_with_ecntwin() -> None:
    assert adviser().problem is None


def test_without_an_artefact_it_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "own.json"
    file.write_text("{}")
    with caplog.at_level(logging.WARNING):
        found = adviser(advice_file=file)
    assert found.problem is not None
    assert found.problem.startswith("advice own.json: Object missing required field `schema`; name another")
    assert found.problem in caplog.text
    assert adviser(advice=False).problem == "Advice is off (tuning.advice)."
    assert "search.score" in (adviser(by_gain=False).problem or "")


@pytest.mark.anyio
async def test_a_version_put_in_its_place_is_taken_at_the_next_look(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    found = adviser(advice_file=file)
    assert found.problem == (
        "advice own.json: there is no such file; run ecntwin advice train, or name another file in "
        "tuning.advice_file, or none."
    )
    part = tmp_path / "part"
    own, shipped = SHIPPED.read_bytes() + b"\n", SHIPPED.read_bytes()
    (tmp_path / "own-7.json").write_bytes(own)
    for body, problem, version in (
        (shipped, None, 0),
        (b"{}", "missing", None),
        (own, None, 7),
        (own + b"\n", None, None),
    ):
        part.write_bytes(body)
        part.replace(file)
        await found.look(state(), ask(0.0), lambda _: INCUMBENT, ())
        assert (problem or "") in (found.problem or ""), problem
        assert (found.newest is None) == (found.problem is not None) == (problem is not None)
        assert found.version == version
        assert found.newest is None or found.newest.version == version


def test_a_round_teaches_the_features_of_its_look_and_what_each_watermark_gains() -> None:
    result = changing()
    lesson = lesson_of(result, ask(0.0))
    assert lesson is not None
    assert tuple(lesson.features) == FEATURES
    assert lesson.features["Kmin that runs, log BDP"] == pytest.approx(
        math.log(INCUMBENT.kmin_bytes / lesson.bdp_bytes)
    )
    answer = result.recommendation
    assert [one[3] for one in lesson.tried] == [one.score for one in answer.candidates]
    assert Lesson.unpacked(lesson.packed()) == lesson


def test_a_round_that_could_not_tell_teaches_nothing() -> None:
    result = changing()
    answer = result.recommendation
    unsure = replace(answer.verdict, kind=VerdictKind.UNCALIBRATED)
    for other in (
        replace(answer, verdict=unsure),
        replace(answer, score_is="normalised"),
        replace(answer, incumbent_by_role=(("uplink", INCUMBENT),)),
    ):
        assert lesson_of(replace(result, recommendation=other), ask(0.0)) is None


def test_a_round_confirms_what_gains_as_much_within_the_margin() -> None:
    answer = changing().recommendation
    scored = [one for one in answer.candidates if one.score is not None]
    worst = min(scored, key=lambda one: one.score or 0.0)
    best = max(one.score or 0.0 for one in scored)
    assert answered_by(answer.watermark, INCUMBENT, answer) == "confirmed"
    assert answered_by(worst.watermark, INCUMBENT, answer) == "contradicted"
    wide = replace(answer, improvement=replace(answer.improvement, margin=best - (worst.score or 0.0)))
    assert answered_by(worst.watermark, INCUMBENT, wide) == "confirmed"
    assert answered_by(INCUMBENT, INCUMBENT, keeping().recommendation) == "confirmed"


def test_a_round_cannot_tell_of_another_incumbent_or_where_it_tried_nothing_near() -> None:
    answer = changing().recommendation
    unsure = replace(answer, verdict=replace(answer.verdict, kind=VerdictKind.UNCALIBRATED))
    alone = replace(answer, candidates=(answer.candidates[0],))
    cases: list[tuple[Watermark, Watermark | None, Recommendation]] = [
        (answer.watermark, Watermark(1_000, 2_000, 0.5), answer),
        (answer.watermark, INCUMBENT, unsure),
        (Watermark(1_000_000, 16_000_000, 0.001), INCUMBENT, alone),
    ]
    assert [answered_by(*case) for case in cases] == ["untold"] * 3


@pytest.mark.anyio
async def test_a_look_that_fails_is_said_and_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    found = adviser()

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(found, "_advice", broken)
    await found.look(state(), ask(0.03), lambda _: INCUMBENT, ())
    assert found.newest is not None
    assert found.newest.advice.why == "No advice: the look failed; the service's log says why."
    assert dict(found.looks) == {"unknown": 1}
    found.round_ended(changing().recommendation)
    assert not found.rounds


@pytest.mark.anyio
async def test_what_the_gate_holds_is_said() -> None:
    found = adviser()
    await found.look(state(), ask(0.03), lambda _: INCUMBENT, ("Held: the last report is old.",))
    assert found.newest is not None
    assert found.newest.advice.abstained == "held"
