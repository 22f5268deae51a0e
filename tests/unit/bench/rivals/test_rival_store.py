"""Results are kept, found again, compared, and refused where they are of something else."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.rivals import __main__ as command
from bench.rivals import runs
from bench.rivals.arena import Change, Played
from bench.rivals.judge import Judged, Slices
from bench.rivals.plots import kmin_by_ms, looks_of, over_time_of, plot
from bench.rivals.runs import Preset, keys_of
from bench.rivals.scenarios import SCENARIOS, Phase, Scenario
from bench.rivals.standings import Standings, interval
from bench.rivals.store import Key, Row, Store, rows_of, slices_of
from bench.rivals.tuners import INCUMBENT
from bench.rivals.tuners.statics import QUICK_GRID, static_name
from lab.setup import LeafSpine
from twin.errors import ParameterError
from twin.watermark import Watermark

LOW, HIGH = Watermark(5_000, 20_000, 0.5), Watermark(500_000, 900_000, 0.01)
TINY = Scenario(
    name="tiny",
    phases=(Phase("one", 0.0, "hadoop:0.3,incast:3"), Phase("two", 0.002, "websearch:0.8")),
    duration_s=0.004,
    fabric=LeafSpine(leaves=1, spines=0, hosts=4, rate_gbps=25.0),
)


def played(j: tuple[float, ...] = (-1.0, -2.5), **columns: object) -> Played:
    given = {name: np.full(4, 1.0) for name in Slices.__dataclass_fields__}
    given |= {
        name: np.zeros(4) for name in ("pauses", "dropped_packets", "exploring", "changed", "paused_share")
    }
    judged = tuple(Judged(one, 2.0, math.nan, 0.125, 1.5, 9.0, 1.75, 1.6, 3.0, 1.25) for one in j)
    return Played(
        phases=judged,
        settled=judged,
        slices=Slices(**{**given, **columns}),  # type: ignore[arg-type]
        changes=(Change(0.001, 2, LOW, HIGH), Change(0.001, 3, LOW, HIGH)),
        sender_changes=0,
        completions=7,
        goodput_bytes_per_s=1e9 / 3,
        queue_p99_bytes=12.5,
        queue_std_bytes=2.5,
        decisions=4,
        decide_cpu_s=0.004,
        slowest_decision_s=0.003,
        exchanged_bytes=0,
    )


def row(key: Key, run: Played) -> Row:
    return Row.of(key, run, commit="abc", wall_s=1.5)


def test_a_row_reads_as_it_was_written(tmp_path: Path) -> None:
    store = Store(tmp_path, commit="abc", seeds=(1, 2))
    run, key = played(), Key("tiny", static_name(LOW), "none", 1)
    store.add(row(key, run), run)
    [found] = Store(tmp_path, commit="abc", seeds=(1, 2)).rows()
    expected = row(key, run)
    assert repr(found) == repr(expected)  # NaN is not equal to itself
    assert (found.changes, found.change_moments) == (2, 1)
    assert found.change_size == pytest.approx(LOW.distance_to(HIGH))
    assert slices_of(tmp_path, key).columns().keys() == run.slices.columns().keys()
    with np.load(tmp_path / "milliseconds" / key.file) as held:
        assert held["change_queue"].tolist() == [2, 3]
        assert held["change_to"].tolist() == [[500_000, 900_000, 0.01]] * 2


def test_a_row_that_was_torn_is_done_again(tmp_path: Path) -> None:
    store = Store(tmp_path, commit="abc", seeds=(1,))
    run = played()
    for name in ("secn1", "secn2"):
        store.add(row(Key("tiny", name, "none", 1), run), run)
    path = tmp_path / "results.csv"
    path.write_bytes(path.read_bytes()[:-9])
    assert [one.tuner for one in Store(tmp_path, commit="abc", seeds=(1,)).rows()] == ["secn1"]


@pytest.mark.parametrize(
    ("commit", "seeds", "says"),
    [
        (
            "def",
            (1, 2),
            "received commit def; they are of commit abc, and a run goes on with the same; name another",
        ),
        (
            "abc",
            (1, 3),
            "received seeds 1, 3; they are of seeds 1, 2, and a run goes on with the same; name another",
        ),
    ],
)
def test_results_of_another_commit_or_seed_are_refused(
    tmp_path: Path, commit: str, seeds: tuple[int, ...], says: str
) -> None:
    Store(tmp_path, commit="abc", seeds=(1, 2))
    with pytest.raises(ParameterError, match=says):
        Store(tmp_path, commit=commit, seeds=seeds)


def test_standings_on_results_made_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.rivals.standings.scenario_named", lambda _: TINY)
    store = Store(tmp_path, commit="abc", seeds=(1,))
    ones = np.ones(4)
    given = {
        static_name(LOW): played((-1.0, -3.0), delivered_bytes=ones * math.e**2),
        static_name(HIGH): played((-2.0, -1.5), delivered_bytes=ones * math.e),
        INCUMBENT: played((-1.5, -2.0), delivered_bytes=ones * math.e, mice_p99=ones * 2.0),
        "annealing": played(
            (-1.0, -1.75),
            delivered_bytes=np.array([1.0, math.e**2, math.e, math.e]),
            exploring=np.array([1.0, 0.5, 0.0, 0.0]),
            pauses=np.array([3.0, 0.0, 9.0, 0.0]),
            mice_p99=np.array([6.0, 6.0, 2.0, math.nan]),
        ),
    }
    for name, run in given.items():
        store.add(row(Key("tiny", name, "none", 1), run), run)
    standings = Standings(tmp_path, rows_of(tmp_path))
    assert standings.tuners == [("annealing", "none"), (INCUMBENT, "none")]
    one = standings.all[Key("tiny", "annealing", "none", 1)]
    assert one.regret == pytest.approx(0.0 + 0.25)
    assert one.over_incumbent == pytest.approx(0.5 + 0.25)
    # The first phase's best static delivers e² a millisecond, the second's e.
    assert one.worst_shortfall == pytest.approx(1.0)
    assert one.settled_after_s == pytest.approx((0.001, 0.0))
    assert one.worse_share == 0.25
    assert one.extra_pauses == 3.0
    assert one.extra_mice == pytest.approx(math.log(3))
    assert standings.figures("annealing", "none", lambda one: one.regret) == [pytest.approx(0.25)]
    assert standings.one_static() == [pytest.approx(min(1.5, 1.0))]
    assert interval([0.25]) == "0.25 ± 0.00"


def test_regret_without_its_statics_says_what_is_missing(tmp_path: Path) -> None:
    store = Store(tmp_path, commit="abc", seeds=(1,))
    run = played()
    store.add(row(Key("tiny", "secn1", "none", 1), run), run)
    with pytest.raises(
        ParameterError, match=r"results of tiny, seed 1: .* the incumbent, which are not all there"
    ):
        _ = Standings(tmp_path, rows_of(tmp_path)).all


def test_every_run_has_what_it_is_compared_with() -> None:
    keys = keys_of(["hadoop-40"], ["annealing@box", "random"], [4, 4, 5], QUICK_GRID)
    assert len(keys) == len(set(keys)) == 2 * (1 + len(QUICK_GRID) + 3)
    assert {(one.tuner, one.budget) for one in keys[-3:]} == {
        ("annealing", "box"),
        ("random", "box"),
        ("random", "collector"),
    }
    assert keys[0] == Key("hadoop-40", INCUMBENT, "none", 4)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.rivals.scenarios.SCENARIOS", {**SCENARIOS, "tiny": TINY})
    preset = Preset(("tiny",), ("secn1", "random@box"), (1, 2), (LOW, HIGH))
    monkeypatch.setattr(command, "PRESETS", {**runs.PRESETS, "quick": preset})
    monkeypatch.setattr(command, "state_of_tree", lambda: "abc")

    def one_after_the_other(keys: list[Key], commit: str, *, at_once: int) -> object:
        return (runs.run_one(key, commit) for key in keys)

    monkeypatch.setattr(command, "run_all", one_after_the_other)


@pytest.mark.usefixtures("tiny")
def test_a_run_that_was_stopped_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "--jobs", "1", "--into", str(tmp_path / "results")]
    assert command.main(arguments) == 0
    said = capsys.readouterr().out
    assert "10 of 10 runs to do" in said
    assert "one static in hindsight" in said
    path = tmp_path / "results" / "results.csv"
    whole = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(whole[:5]), "utf-8")
    assert command.main(arguments) == 0
    assert "6 of 10 runs to do" in capsys.readouterr().out
    measured = [
        name for name in Row.__dataclass_fields__ if not name.endswith(("cpu_s", "wall_s", "decision_s"))
    ]
    before = {line.split(",")[1] + line.split(",")[3]: line for line in whole[1:]}
    for one in rows_of(path.parent):
        kept = dict(
            zip(
                whole[0].strip().split(","), before[one.tuner + str(one.seed)].strip().split(","), strict=True
            )
        )
        assert all(one.written()[name] == kept[name] for name in measured)
    assert command.main(["table", "--markdown", str(path.parent)]) == 0
    assert "| secn1" in capsys.readouterr().out
    assert json.loads((path.parent / "run.json").read_text("utf-8")) == {"commit": "abc", "seeds": [1, 2]}


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--scenarios", "tiny,nowhere"], "scenario: received 'nowhere'; known: "),
        (["--tuners", "alchemy"], "tuner: received 'alchemy'; known: "),
        (["--tuners", "secn1@box"], "tuner secn1: received budget 'box'; it runs on none; drop it"),
        (
            ["--tuners", "random@god"],
            "budget: received 'god'; known: none, box, collector; choose one of them",
        ),
        (["--seeds", "3-1"], "--seeds: received '3-1'; it is whole numbers and ranges; give such as 1-3,7"),
        (["--jobs", "0"], "--jobs: received 0; at least one run is done at a time; give such as 2"),
    ],
)
def test_bad_options_get_a_sentence_before_anything_runs(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["run", "--into", str(tmp_path / "results"), *arguments]) == 2
    told = capsys.readouterr()
    assert told.err.startswith(says)
    assert told.err.count("\n") == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.usefixtures("tiny")
def test_a_scenario_too_large_for_memory_gets_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "free_memory_bytes", lambda: 1e4)
    assert command.main(["run", "--into", str(tmp_path / "results"), "--jobs", "2"]) == 2
    assert "for 2 at once; 1e-05 GB are free; leave it out" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


@pytest.mark.usefixtures("tiny")
def test_a_resumed_run_of_another_seed_gets_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Store(tmp_path, commit="abc", seeds=(1, 2))
    assert command.main(["run", "--into", str(tmp_path), "--seeds", "7"]) == 2
    assert "received seeds 7; they are of seeds 1, 2" in capsys.readouterr().err


def test_a_folder_without_results_gets_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["table", str(tmp_path / "none")]) == 2
    assert "there is no results.csv; run first, or name its folder" in capsys.readouterr().err


def test_results_of_another_version_get_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results.csv").write_text("scenario,tuner\nswitches,pet\n", "utf-8")
    assert command.main(["table", str(tmp_path)]) == 2
    assert "another version wrote them, with other columns; run them again" in capsys.readouterr().err


def test_seeds_are_read_as_people_write_them() -> None:
    assert command.seeds_of("1-3, 7,2") == (1, 2, 3, 7)


def test_a_tree_that_differs_from_its_commit_has_a_state_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    monkeypatch.setattr(command, "_ROOT", tmp_path)
    monkeypatch.setattr(command, "commit", lambda: "abc+")
    (tmp_path / "bench" / "rivals").mkdir(parents=True)
    changed, new = tmp_path / "changed", tmp_path / "bench" / "rivals" / "new.py"
    changed.write_text("1")
    for done in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *done], check=True)
    states = [command.state_of_tree()]
    for path, text in ((changed, "2"), (changed, "3"), (new, "1"), (new, "2")):
        path.write_text(text)
        states.append(command.state_of_tree())
    assert states[0] == "abc"
    assert len(set(states)) == 5
    assert all(one.startswith("abc+") for one in states[1:])
    monkeypatch.setattr(command, "commit", lambda: "")
    assert command.state_of_tree() == ""


def test_keys_of_statics_are_files_of_their_own() -> None:
    key = Key("tiny", static_name(LOW), "none", 1)
    assert key.file == "tiny@static_5000_20000_0.5@none@1.npz"
    assert str(key) == "tiny static:5000/20000/0.5 seed 1"


def test_a_picture_without_matplotlib_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    Store(tmp_path, commit="abc", seeds=(1,))
    assert command.main(["plot", str(tmp_path)]) == 2
    assert "plot: it takes matplotlib; run scripts/setup bench" in capsys.readouterr().err


@pytest.fixture
def some_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of two phases of 2 ms; ``annealing`` changes two queues after 1 ms."""
    for module in ("standings", "plots"):
        monkeypatch.setattr(f"bench.rivals.{module}.scenario_named", lambda _: TINY)
    store = Store(tmp_path, commit="abc", seeds=(1,))
    given = {
        (static_name(LOW), "none"): played((-1.0, -3.0)),
        (static_name(HIGH), "none"): played((-2.0, -1.5)),
        (INCUMBENT, "none"): replace(played((-1.5, -2.0)), changes=()),
        ("secn1", "none"): played((-1.0, -1.5)),
        ("annealing", "box"): played((-1.0, -1.75), exploring=np.array([1.0, 1.0, 0.0, 0.0])),
        **{(name, "box"): played((-3.0, -3.0 - len(name))) for name in ("acc", "pet", "random")},
        ("ecntwin", "collector"): played((-5.0, -5.0)),
    }
    for (name, budget), run in given.items():
        store.add(row(Key("tiny", name, budget, 1), run), run)
    return tmp_path


def test_who_is_drawn_over_time_and_how(some_results: Path) -> None:
    standings = Standings(some_results, rows_of(some_results))
    drawn = over_time_of(standings, "tiny")
    assert [name for name, _ in drawn] == [INCUMBENT, "ecntwin", "annealing", "acc", "pet"]
    assert over_time_of(standings, "tiny", ["pet@box", "secn1"]) == [("secn1", "none"), ("pet", "box")]
    with pytest.raises(
        ParameterError, match="--tuners: received nobody; 0 of them are in tiny, and 1 to 6 can"
    ):
        over_time_of(standings, "tiny", ["nobody"])
    looks = looks_of([("ecntwin", "collector"), *((str(number), "box") for number in range(24)), drawn[0]])
    assert len({(look["color"], look["linestyle"]) for look in looks.values()}) == 26
    assert looks[drawn[0]]["color"] == "black"


def test_kmin_over_time_is_the_median_of_queues_to_hosts(some_results: Path) -> None:
    standings = Standings(some_results, rows_of(some_results))
    scaled = TINY.incumbent[0].kmin_bytes
    assert kmin_by_ms(standings, Key("tiny", INCUMBENT, "none", 1)).tolist() == [scaled] * 4
    # Two of four queues to hosts change at 1 ms: at the end of the second millisecond they have.
    between = (scaled + HIGH.kmin_bytes) / 2
    assert kmin_by_ms(standings, Key("tiny", "annealing", "box", 1)).tolist() == [scaled, *[between] * 3]


def test_each_question_has_a_picture(some_results: Path) -> None:
    pytest.importorskip("matplotlib")
    standings = Standings(some_results, rows_of(some_results))
    paths = plot(standings, some_results)
    assert [path.name for path in paths] == ["regret.svg", "exploring.svg", "switch-tiny.svg", "tiny.svg"]
    before = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in plot(standings, some_results)] == before


@pytest.mark.slow
def test_runs_in_processes_give_what_runs_here_give() -> None:
    keys = [Key("link-cuts+small", "secn1", "none", seed) for seed in (1, 2)]
    apart = sorted((row for row, _ in runs.run_all(keys, "abc", at_once=2)), key=lambda row: row.seed)
    here = [runs.run_one(key, "abc")[0] for key in keys]
    assert [row.j for row in apart] == [row.j for row in here]


class Deadly:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return os._exit, (1,)


@pytest.mark.slow
def test_a_process_that_dies_gets_a_sentence() -> None:
    with pytest.raises(ParameterError, match="received a process that died; results until then are kept"):
        list(runs.run_all([Deadly()], "abc", at_once=1))  # type: ignore[list-item]
