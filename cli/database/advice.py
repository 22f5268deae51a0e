"""``ecntwin advice``: learns it from the service's database, lists versions, goes back to one before."""

from __future__ import annotations

import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cli.database.token import opened, stored_settings
from cli.output import NONE, console, headed_table, print_json, print_line
from service.documents.base import timestamp
from settings.errors import InputError
from settings.load import load_settings
from settings.model import Settings
from store import lesson_rows
from twin.advice import versions as kept
from twin.advice.artefact import SHIPPED, read
from twin.advice.lessons import Lesson


def train(config: Path | None, file: Path | None, rounds: int, *, as_json: bool) -> None:
    """Prints what came out; raises ``ParameterError`` where nothing is written, and why."""
    if find_spec("sklearn") is None:
        remedy = "install it (in a clone: pip install --require-hashes --no-deps -r requirements/learn.txt)"
        raise InputError(
            "advice train", None, "a tree is grown by scikit-learn, which is not installed", remedy
        )
    settings = stored_settings(config, "rounds to learn from are kept", "")
    target = _file(settings, file)
    with opened(settings) as database:
        rows = database.read_now(partial(lesson_rows.newest, limit=rounds))
    lessons = [one for one in map(Lesson.unpacked, rows) if one is not None]
    from twin.advice.learning import check_better, learnt_from

    learnt = learnt_from(lessons, read(target if target.is_file() else SHIPPED))
    check_better(learnt)
    learnt.provenance["at"] = timestamp(time.time_ns())
    number = kept.add(target, learnt)
    if as_json:
        print_json(next(_document(one) for one in kept.listed(target) if one.number == number))
        return
    print_line(f"version {number} is in use: {target}")
    _print_table(target)


def versions(config: Path | None, file: Path | None, *, as_json: bool) -> None:
    target = _file(load_settings(config), file)
    if as_json:
        print_json({"file": str(target), "versions": [_document(one) for one in kept.listed(target)]})
    else:
        _print_table(target)


def rollback(config: Path | None, file: Path | None, *, as_json: bool) -> None:
    target = _file(load_settings(config), file)
    number = kept.back(target)
    if as_json:
        print_json({"version": number, "file": str(target)})
        return
    shipped = ", the one that comes with ecntwin," if number == kept.SHIPPED_VERSION else ""
    print_line(f"version {number}{shipped} is in use: {target}")


def _file(settings: Settings, file: Path | None) -> Path:
    found = file or settings.tuning.advice_file
    if found is None:
        rule = "it names the file that the service takes its advice from, which versions are kept beside"
        raise InputError("settings tuning.advice_file", None, rule, "name one, such as advice.json")
    return found


def _document(one: kept.Version) -> dict[str, Any]:
    return {"version": one.number, "in_use": one.in_use, "file": one.file.name, **one.learnt.provenance}


def _print_table(target: Path) -> None:
    found = kept.listed(target)
    if not found:
        print_line(f"no version of {target.name} yet; ecntwin advice train makes one")
        return
    columns = (
        "version",
        "learnt",
        "rounds",
        "tried on",
        "advised",
        "regret",
        "before",
        "what runs",
        "shipped states",
    )
    table = headed_table("Versions of advice; regrets in gain, of what was held out", *columns)
    for one in found:
        of = one.learnt.provenance
        held = of.get("held out", {})
        own, drawn = held.get("own", {}), held.get("shipped states", {})
        cells = (
            of.get("at"),
            of.get("rounds"),
            own.get("states"),
            None if "advised" not in own else f"{100 * own['advised']:.0f} %",
            own.get("regret"),
            held.get("own, before", {}).get("regret"),
            held.get("own, what runs", {}).get("regret"),
            drawn.get("regret"),
        )
        mark = f"{one.number} (in use)" if one.in_use else str(one.number)
        table.add_row(mark, *(NONE if cell is None else str(cell) for cell in cells))
    console(wide=True).print(table)
