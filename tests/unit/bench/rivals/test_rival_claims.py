"""Claims beside results made by hand: their arithmetic, each verdict, and what is told of missing runs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import pytest

from bench.rivals import __main__ as command
from bench.rivals.claims import CLAIMS, Finding, Results, Verdict, findings, verdict_on
from bench.rivals.report import commands, tally
from bench.rivals.scenarios import FULL, scenario_named
from bench.rivals.store import Row, Store
from bench.rivals.tuners import TUNERS

_PLAIN = {str: "abc", int: 1, float: 1.0}
SEEDS = range(1, 7)


def rows(tuner: str, budget: str = "box", scenario: str = "websearch-60", **figures: object) -> list[Row]:
    """One a seed; a figure that is callable is asked for each seed's."""
    of_phases = figures.get("j", (1.0,))
    assert isinstance(of_phases, tuple)
    return [
        replace(
            blank(len(of_phases)),
            scenario=scenario,
            tuner=tuner,
            budget=budget,
            seed=seed,
            **{name: value(seed) if callable(value) else value for name, value in figures.items()},  # type: ignore[arg-type]
        )
        for seed in SEEDS
    ]


def blank(phases: int) -> Row:
    return Row(**{name: _PLAIN.get(kind, (2.0,) * phases) for name, kind in get_type_hints(Row).items()})  # type: ignore[arg-type]


def found(made: list[Row], id: str, against: str = "", **options: bool) -> list[Finding]:  # noqa: A002
    every = findings(Results(made), **options)
    return [one for one in every if one.claim.id == id and one.against.startswith(against)]


def test_claims_name_what_there_is() -> None:
    assert list(dict.fromkeys(one.id for one in CLAIMS)) == [
        *(f"P{number}" for number in range(1, 12)),
        *("A1", "A2", "L1", "U1", "U2", "U3"),
    ]
    for claim in CLAIMS:
        assert set(claim.own) <= set(TUNERS)
        assert set(claim.statistics) <= set(Row.__dataclass_fields__)
        for scenario in claim.scenarios:
            assert len(scenario_named(scenario).phases) > max(claim.phases, default=0)


@pytest.mark.parametrize(
    ("values", "printed", "verdict"),
    [
        ([-3.0, -2.0, -4.0, -3.0, -2.5], -3.9, Verdict.CONFIRMED),
        ([3.0, 2.0, 4.0, 3.0, 2.5], -3.9, Verdict.CONTRADICTED),
        ([3.0, 2.0, 4.0, 3.0, 2.5], 3.8, Verdict.CONFIRMED),
        ([-3.0, -2.0, -4.0, -3.0, -2.5], 3.8, Verdict.CONTRADICTED),
        ([-3.0, 4.0, -2.0, 3.0, 0.5], -3.9, Verdict.NOT_SHOWN),
        ([-3.0, -2.0, -4.0, -3.0], -3.9, Verdict.NOT_SHOWN),  # four seeds say little
        ([], -3.9, Verdict.NO_RESULTS),
    ],
)
def test_verdicts(values: list[float], printed: float, verdict: Verdict) -> None:
    assert verdict_on(values, printed) is verdict


def test_a_change_is_paired_by_seed_and_of_the_best_load() -> None:
    made = [
        *rows("pet", flow_mean=lambda seed: (0.9 * seed,)),
        *rows("acc", flow_mean=lambda seed: (1.0 * seed,)),
        *rows("pet", scenario="websearch-80", flow_mean=(2.2,)),
        *rows("acc", scenario="websearch-80", flow_mean=(2.0,)),
        *rows("acc", scenario="websearch-20"),  # nothing to compare with
    ]
    [one, missing] = found(made, "P1", "acc")
    assert (one.tuner, one.against, one.printed) == ("pet @box", "acc @box", -3.9)
    assert one.ours == pytest.approx((-10.0, -10.0, -10.0))
    assert (one.case, one.cases) == ("websearch-60", 2)
    assert one.overall == pytest.approx(0.0)
    assert one.figures == pytest.approx((3.15, 3.5))
    assert one.verdict is Verdict.CONFIRMED
    assert (missing.tuner, missing.verdict) == ("pet-delay-lambda-0.95 @box", Verdict.NO_RESULTS)
    assert len(found(made[1:], "P1", "acc")[0].values) == len(SEEDS) - 1  # of seeds that both have


def test_an_unnamed_statistic_is_the_nearest_to_all_that_is_printed() -> None:
    made = [
        *rows("pet", small_p99=(1.0,), flow_mean=(2.0 * (1 - 0.082),)),
        *rows("acc"),
        *rows("secn1", "none", small_p99=(1.0 / (1 - 0.232),)),
        *rows("secn2", "none", small_p99=(1.0 / (1 - 0.673),)),
    ]
    ours = [one for one in found(made, "P5") if one.tuner == "pet @box"]
    assert {one.measure for one in ours} == {"nearest of 6: p99 below 1 MB"}
    assert [one.ours[0] for one in ours] == pytest.approx([-50.0, -23.2, -67.3])


def test_what_counts_after_a_switch_and_during_a_failure() -> None:
    phases = (1.0, 2.0, 2.0, 2.0)
    made = [
        *rows("pet", scenario="pet-switches", j=phases, elephant_mean=(0.1, 1.9, 1.8, 2.0)),
        *rows("acc", scenario="pet-switches", j=phases, elephant_mean=phases),
        *rows("pet", scenario="link-cuts", j=phases[:3], flow_mean=(0.1, 2.2, 0.1)),
        *rows("acc", scenario="link-cuts", j=phases[:3], flow_mean=phases[:3]),
    ]
    elephants = found(made, "P8")[0]
    assert (elephants.case, elephants.cases) == ("pet-switches, phase 3", 3)
    assert elephants.ours[0] == pytest.approx(-10.0)
    failure = found(made, "P9")[0]
    assert failure.ours[0] == pytest.approx(10.0)
    assert failure.verdict is Verdict.CONTRADICTED


def test_acc_against_the_static_that_is_best_in_hindsight() -> None:
    made = [
        *rows("acc", scenario="incast-8", flow_mean=(2.0,)),
        *rows(
            "static:5000/20000/0.5", "none", "incast-8", flow_mean=lambda seed: (1.0 if seed == 1 else 8.0,)
        ),
        *rows("static:9000/20000/0.5", "none", "incast-8", flow_mean=(4.0,)),
    ]
    [one] = found(made, "A2", "best static")
    assert one.figures == (2.0, 4.0)
    assert one.verdict is Verdict.CONFIRMED


def test_paraleon_over_the_tuner_it_gains_least_over_and_most() -> None:
    made = [
        *rows("paraleon", j=(-1.0, -1.0)),
        *rows("annealing", j=(-1.1, -1.3)),
        *rows("bytetuning", j=(-0.9, -0.9)),
        *rows("acc", "collector", j=(-9.0, -9.0)),  # on another budget
    ]
    least, most = (one for one in found(made, "L1") if one.tuner == "paraleon @box")
    assert (least.against, least.verdict) == ("bytetuning @box, the least", Verdict.CONTRADICTED)
    assert least.ours[0] == pytest.approx(100 * math.expm1(-0.1))
    assert (most.against, most.verdict) == ("annealing @box, the most", Verdict.CONFIRMED)
    assert most.ours[0] == pytest.approx(100 * math.expm1(0.2))


@pytest.mark.parametrize(("vendor", "verdict"), [(4.0, Verdict.CONFIRMED), (1.5, Verdict.NOT_SHOWN)])
def test_two_sets_of_sender_parameters_can_confirm_a_spread_only(vendor: float, verdict: Verdict) -> None:
    made = rows("secn2-scaled", "none")
    made += rows("secn2-scaled", "none", "websearch-60+vendor", goodput_bytes_per_s=vendor)
    [one] = found(made, "U1")
    assert one.ours[0] == pytest.approx(100 * (1 - 1 / vendor))
    assert one.verdict is verdict


def test_variants_are_compared_on_their_own_budget_and_frozen_with_frozen() -> None:
    made = [
        *(one for budget in ("box", "collector") for one in rows("acc", budget)),
        *(one for name in ("pet", "pet-frozen", "acc-frozen") for one in rows(name, "collector")),
    ]
    assert found(made, "P9")[0].tuner == "pet @box"  # nothing of link cuts: the first that would be run
    assert found(made, "P4", "acc")[0].tuner == "pet @collector"
    pairs = {(one.tuner, one.against) for one in found(made, "P4", "acc", every_variant=True) if one.values}
    assert pairs == {("pet @collector", "acc @collector"), ("pet-frozen @collector", "acc-frozen @collector")}


def test_runs_that_are_missing_have_a_command() -> None:
    told = findings(Results(rows("secn1", "none", "link-cuts"), into="there"))
    assert {one.verdict for one in told} == {Verdict.NO_RESULTS, Verdict.NOT_COMPARABLE}
    [failure] = {one.missing for one in told if one.claim.id == "P9"}
    assert failure == (
        "python -m bench.rivals run --scenarios link-cuts "
        "--tuners pet@box,pet-delay-lambda-0.95@box,acc@box --seeds 1,2,3,4,5,6 --into there"
    )
    [switches] = {one.missing for one in told if one.claim.id == "P8"}
    assert "pet-switches-10x" not in switches
    assert "pet-switches-10x" not in FULL
    assert len(commands(told)) < len({one.claim.id for one in told})
    assert "pet @box: 32 no results" in tally(told)


def test_the_command_prints_what_a_folder_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store(tmp_path, commit="abc", seeds=(1,))
    assert command.main(["claims", "--markdown", "--variant", "small", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "| P9 link failures, mean FCT " in told
    assert "--scenarios link-cuts+small --tuners pet@box" in told
    assert all(line.count("|") == 13 for line in told.splitlines() if line.startswith("|"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "there is no results.csv; run first, or name its folder"),
        (["{folder}", "--variant", "tall"], "scenario websearch-20: received variant 'tall'; known: vendor,"),
    ],
)
def test_a_bad_folder_or_variant_gets_a_sentence(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Store(tmp_path, commit="abc", seeds=(1,))
    assert command.main(["claims", *(one.format(folder=tmp_path) for one in arguments)]) == 2
    assert says in capsys.readouterr().err
