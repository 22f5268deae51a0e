"""Results on disk: a row of ``results.csv`` each and its milliseconds; a run goes on where it stopped."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from bench.rivals.arena import Played
from bench.rivals.judge import Judged, Slices
from bench.rivals.tuner import Counts, Floats
from twin.errors import ParameterError


class Key(NamedTuple):
    scenario: str
    tuner: str
    budget: str
    seed: int

    def __str__(self) -> str:
        sees = "" if self.budget == "none" else f"@{self.budget}"
        return f"{self.scenario} {self.tuner}{sees} seed {self.seed}"

    @property
    def file(self) -> str:
        """The name of the file of its milliseconds."""
        return re.sub(r"[^\w.+@-]", "_", "@".join(map(str, self))) + ".npz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A result. Tuples have an entry a phase (``Judged``), ``j_settled`` of its second half; CPU, wall in s.

    ``changes`` counts queues that got another watermark, ``change_moments`` the times at which any did,
    ``change_size`` is their mean distance in ln Kmin, ln Kmax, ln Pmax.
    """

    scenario: str
    tuner: str
    budget: str
    seed: int
    commit: str
    j: tuple[float, ...]
    j_settled: tuple[float, ...]
    mice_p99: tuple[float, ...]
    elephant_mean: tuple[float, ...]
    paused_share: tuple[float, ...]
    mice_mean: tuple[float, ...]
    n_flows: tuple[float, ...]
    flow_mean: tuple[float, ...]
    small_mean: tuple[float, ...]
    small_p99: tuple[float, ...]
    probe_mean: tuple[float, ...]
    goodput_bytes_per_s: float
    queue_mean_bytes: float
    queue_p99_bytes: float
    queue_std_bytes: float
    marked_share: float
    pauses: float
    dropped_packets: float
    completions: int
    decisions: int
    changes: int
    change_moments: int
    change_size: float
    sender_changes: int
    exploring_share: float
    exchanged_bytes: int
    decide_cpu_s: float
    slowest_decision_s: float
    wall_s: float

    @property
    def key(self) -> Key:
        return Key(self.scenario, self.tuner, self.budget, self.seed)

    @classmethod
    def of(cls, key: Key, played: Played, *, commit: str, wall_s: float) -> Row:
        sizes = [one.before.distance_to(one.after) for one in played.changes]
        by_phase: dict[str, Any] = dict(zip(Judged._fields, zip(*played.phases, strict=True), strict=True))
        return cls(
            **key._asdict(),
            commit=commit,
            **by_phase,
            j_settled=tuple(one.j for one in played.settled),
            goodput_bytes_per_s=played.goodput_bytes_per_s,
            queue_mean_bytes=float(played.slices.queue_mean_bytes.mean()),
            queue_p99_bytes=played.queue_p99_bytes,
            queue_std_bytes=played.queue_std_bytes,
            marked_share=float(played.slices.marked_share.mean()),
            pauses=float(played.slices.pauses.sum()),
            dropped_packets=float(played.slices.dropped_packets.sum()),
            completions=played.completions,
            decisions=played.decisions,
            changes=len(played.changes),
            change_moments=len({one.at_s for one in played.changes}),
            change_size=float(np.mean(sizes)) if sizes else 0.0,
            sender_changes=played.sender_changes,
            exploring_share=float(played.slices.exploring.mean()),
            exchanged_bytes=played.exchanged_bytes,
            decide_cpu_s=played.decide_cpu_s,
            slowest_decision_s=played.slowest_decision_s,
            wall_s=wall_s,
        )

    def written(self) -> dict[str, str]:
        """As columns of text, numbers in full, so that reading them gives the same row."""
        return {name: _text(value) for name, value in asdict(self).items()}

    @classmethod
    def read(cls, columns: dict[str, str]) -> Row:
        hints = get_type_hints(cls)
        values: dict[str, Any] = {
            name: tuple(map(float, text.split(";")))
            if hints[name] not in (str, int, float)
            else hints[name](text)
            for name, text in columns.items()
        }
        return cls(**values)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ";".join(map(repr, value))
    return repr(value) if isinstance(value, float) else str(value)


_COLUMNS = tuple(one.name for one in fields(Row))


class Store:
    """A folder of results of one commit and one list of seeds.

    Raises ``ParameterError`` where the folder holds results of others.
    """

    def __init__(self, folder: Path, *, commit: str, seeds: Sequence[int]) -> None:
        self._folder = folder
        self._csv = folder / "results.csv"
        about = folder / "run.json"
        given = {"commit": commit, "seeds": list(seeds)}
        if about.exists():
            found = json.loads(about.read_text("utf-8"))
            for name, what in given.items():
                if found[name] != what:
                    rule = f"they are of {name} {_listed(found[name])}, and a run goes on with the same"
                    remedy = "name another folder with --into, or go back to that"
                    raise ParameterError(f"results in {folder.name}", f"{name} {_listed(what)}", rule, remedy)
        (folder / "milliseconds").mkdir(parents=True, exist_ok=True)
        if not about.exists():
            about.write_text(json.dumps(given) + "\n", "utf-8")
        if not self._csv.exists():
            self._csv.write_text(",".join(_COLUMNS) + "\n", "utf-8")
        self._drop_torn_row()

    def rows(self) -> list[Row]:
        return rows_of(self._folder)

    def add(self, row: Row, played: Played) -> None:
        """Keeps a result: the milliseconds first, as a row says that all of it is there."""
        path = self._folder / "milliseconds" / row.key.file
        partial = path.with_suffix(".part")
        marks = [(one.after.kmin_bytes, one.after.kmax_bytes, one.after.pmax) for one in played.changes]
        columns: dict[str, Any] = {
            "change_at_s": np.array([one.at_s for one in played.changes]),
            "change_queue": np.array([one.queue for one in played.changes], dtype=np.int64),
            "change_to": np.array(marks).reshape(-1, 3),
            **played.slices.columns(),
        }
        with partial.open("wb") as file:
            np.savez_compressed(file, **columns)
        partial.rename(path)
        with self._csv.open("a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, _COLUMNS, lineterminator="\n").writerow(row.written())
            file.flush()
            os.fsync(file.fileno())

    def _drop_torn_row(self) -> None:
        text = self._csv.read_text("utf-8")
        if not text.endswith("\n"):
            self._csv.write_text(text[: text.rfind("\n") + 1], "utf-8")


def rows_of(folder: Path) -> list[Row]:
    """The results in a folder; raises ``ParameterError`` where there are none."""
    path = folder / "results.csv"
    if not path.exists():
        rule = "there is no results.csv"
        raise ParameterError("results", str(folder), rule, "run first, or name its folder")
    with path.open(encoding="utf-8", newline="") as file:
        found = csv.DictReader(file)
        if tuple(found.fieldnames or ()) != _COLUMNS:
            rule = "another version wrote them, with other columns"
            raise ParameterError("results", str(folder), rule, "run them again")
        return [Row.read(columns) for columns in found]


def slices_of(folder: Path, key: Key) -> Slices:
    with np.load(folder / "milliseconds" / key.file) as held:
        return Slices(**{one.name: held[one.name] for one in fields(Slices)})


class Changes(NamedTuple):
    """Of watermarks in a result, in order of time: queue ``queue[k]`` got ``to[k]`` (Kmin, Kmax, Pmax)."""

    at_s: Floats
    queue: Counts
    to: Floats


def changes_of(folder: Path, key: Key) -> Changes:
    with np.load(folder / "milliseconds" / key.file) as held:
        return Changes(*(held[f"change_{name}"] for name in Changes._fields))


def _listed(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
