"""``ecntwin advice`` on a database with planted rounds: learn, list, go back, and leave all as it was."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.main import app
from cli.output import run_to_exit_code
from store import lesson_rows
from store.database import Database
from twin.advice.artefact import SHIPPED, Learnt, read
from twin.advice.features import FEATURES, running_features
from twin.advice.labelled import EVEN, kept
from twin.advice.lessons import Lesson
from twin.watermark import Watermark

BDP_BYTES = 35_000.0


def planted(count: int, best: Watermark) -> list[Lesson]:
    """Rounds of one traffic, in which what is nearer to ``best`` gains more."""
    first = kept(read().codes)[0][0]
    row = np.concatenate((first.fixed, running_features(first.queues[0], first.marks[0], EVEN, first.scales)))
    rng = np.random.default_rng(3)
    lessons = []
    for _ in range(count):
        kmin = np.exp(rng.uniform(math.log(3e3), math.log(6e5), 40))
        ratio, pmax = np.exp(rng.uniform(0.1, 3.4, 40)), np.exp(rng.uniform(-4.5, 0.0, 40))
        tried = [
            Watermark(round(a), round(a * b), float(c)) for a, b, c in zip(kmin, ratio, pmax, strict=True)
        ]
        gains = [(*_numbers(one), 1.0 - 0.2 * one.distance_to(best)) for one in tried]
        lessons.append(Lesson(dict(zip(FEATURES, row.tolist(), strict=True)), BDP_BYTES, gains))
    return lessons


def _numbers(mark: Watermark) -> tuple[int, int, float]:
    return mark.kmin_bytes, mark.kmax_bytes, mark.pmax


def worst_of_the_shipped() -> tuple[Watermark, np.ndarray[Any, Any]]:
    """What the shipped tree thinks least of for the planted traffic, and the features of that."""
    row = np.array(list(planted(1, Watermark(1, 2, 1.0))[0].features.values()))
    shipped = read()
    code = int(np.argmax(shipped.leaves[shipped.leaf(row)].behind))
    return shipped.codes[code].watermark(BDP_BYTES), row


def advised(learnt: Learnt, row: np.ndarray[Any, Any]) -> Watermark:
    code = int(np.argmin(learnt.leaves[learnt.leaf(row)].behind))
    return learnt.codes[code].watermark(BDP_BYTES)


class Place:
    """A folder with settings, and a database of its own that holds rounds."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file = folder / "own.json"
        self._config, self._capsys, self._at_ns = folder / "settings.yaml", capsys, 0
        self._config.write_text(
            f"storage: {{url: 'sqlite:///{folder}/service.db'}}\ntuning: {{advice_file: own.json}}\n"
        )
        self._database = Database(f"sqlite:///{folder}/service.db", alone=False)
        self._database.open()

    def close(self) -> None:
        self._database.close()

    def keep(self, documents: Sequence[bytes]) -> None:
        for document in documents:
            self._at_ns += 1
            at_ns = self._at_ns
            self._database.write_now(
                lambda connection, at_ns=at_ns, document=document: lesson_rows.put(
                    connection, at_ns, document
                )
            )

    def kept(self) -> list[bytes]:
        return self._database.read_now(lambda connection: lesson_rows.newest(connection, 1_000))

    def pruned(self, keep: int) -> None:
        self._database.write_now(lambda connection: lesson_rows.prune(connection, keep=keep))

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = run_to_exit_code(app, ["advice", *arguments, "--config", str(self._config)])
        out, err = self._capsys.readouterr()
        return code, out, err

    def json(self, *arguments: str) -> dict[str, Any]:
        code, out, err = self(*arguments, "--json")
        assert (code, err) == (0, "")
        found: dict[str, Any] = json.loads(out)
        return found


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Place]:
    found = Place(tmp_path, capsys)
    yield found
    found.close()


def test_too_short_a_history_is_a_sentence_and_leaves_no_file(place: Place, tmp_path: Path) -> None:
    other = json.dumps({"features": {"charm": 1.0}, "bdp_bytes": 1.0, "tried": []}).encode()
    place.keep([planted(1, Watermark(9_000, 20_000, 0.5))[0].packed()])
    assert "received 1 round; a tree is learnt from 40 rounds or more" in place("train")[2]
    place.keep([b"damaged", other, *(one.packed() for one in planted(38, Watermark(9_000, 20_000, 0.5)))])
    before = {one.name for one in tmp_path.iterdir()}
    assert len(place.kept()) == 41
    code, out, err = place("train")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "received 39 rounds; a tree is learnt from 40 rounds or more" in err
    assert {one.name for one in tmp_path.iterdir()} == before


def test_rounds_teach_a_version_and_there_is_a_way_back(place: Place) -> None:
    best, row = worst_of_the_shipped()
    place.keep([one.packed() for one in planted(60, best)])
    made = place.json("train")
    assert (made["version"], made["before"], made["rounds"]) == (1, 0, 60)
    held = made["held out"]
    assert held["own"]["states"] == 21, "the newest third"
    assert held["own"]["regret"] < held["own, before"]["regret"]
    learnt = read(place.file)
    assert advised(learnt, row).distance_to(best) < advised(read(), row).distance_to(best)
    assert learnt.leaves[learnt.leaf(row)].regret < 0.5

    # The same rounds again teach nothing more: the version in use stays, to the byte.
    body = place.file.read_bytes()
    code, _, err = place("train")
    assert code == 2
    assert "on the newest 21 of them the best watermark gains" in err
    assert place.file.read_bytes() == body
    (listed,) = place.json("list")["versions"]
    assert (listed["version"], listed["in_use"], listed["file"]) == (1, True, "own-1.json")
    assert "1 (in use)" in place("list")[1]

    assert place.json("rollback")["version"] == 0
    assert place.file.read_bytes() == SHIPPED.read_bytes()
    code, _, err = place("rollback")
    assert code == 2
    assert "it is none of the versions beside it" in err


def test_the_newest_lessons_are_kept(place: Place) -> None:
    place.keep([b"1", b"2", b"3", b"4"])
    for keep, found in ((4, [b"1", b"2", b"3", b"4"]), (2, [b"3", b"4"]), (9, [b"3", b"4"])):
        place.pruned(keep)
        assert place.kept() == found


def test_without_scikit_learn_it_says_what_to_install(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.database.advice.find_spec", lambda _: None)
    code, _, err = place("train")
    assert code == 2
    assert "-r requirements/learn.txt" in err


def test_without_a_file_of_its_own_there_are_no_versions(tmp_path: Path, place: Place) -> None:
    (tmp_path / "settings.yaml").write_text("tuning: {advice: true}\n")
    assert "no version of own.json yet" in place("list", "--file", "own.json")[1]
    code, _, err = place("list")
    assert code == 2
    assert "name one, such as advice.json" in err
