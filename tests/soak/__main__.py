"""Leaves a service running under load and says whether it grows: ``python -m tests.soak [--minutes N]``."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tests.soak.conduct import Soak, soak
from tests.soak.figures import Sample

OUT = Path(__file__).resolve().parents[2] / "bench" / "out"
MEBIBYTE = 1 << 20
TELL_EVERY_S = 60.0


def main(arguments: list[str]) -> int:
    """0 where nothing grew and nothing failed, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--into", type=Path, default=OUT / f"soak-{time.strftime('%Y%m%d-%H%M%S')}.json")
    given = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    with tempfile.TemporaryDirectory() as folder, Live(console=console, auto_refresh=False) as live:
        told_s = float("-inf")

        def told(found: Soak, taken: Sample) -> None:
            nonlocal told_s
            if console.is_terminal:
                live.update(standing(found, taken, given.minutes), refresh=True)
            elif taken.at_s - told_s >= TELL_EVERY_S:
                told_s = taken.at_s
                console.print(line(found, taken), highlight=False)

        found = soak(given.minutes, Path(folder), told)
        live.update("")
    console.print(outcome(found))
    given.into.parent.mkdir(parents=True, exist_ok=True)
    given.into.write_text(json.dumps(document(found), indent=1) + "\n", "utf-8")
    console.print(f"written to {given.into}", highlight=False)
    for one in found.wrong:
        console.print(f"[red]{one}[/]", highlight=False)
    return 1 if found.wrong else 0


def line(found: Soak, taken: Sample) -> str:
    """How far it is, for a log."""
    return (
        f"{taken.at_s / 60:5.1f} min  {'measured' if found.samples else 'warming up'}: "
        f"service {amount('bytes', taken.service_bytes)}, workers {amount('bytes', taken.workers_bytes)}, "
        f"{taken.tasks} tasks, {taken.threads} threads, {taken.files} files, "
        f"{taken.rounds} rounds, {taken.rollouts} rollouts"
    )


def standing(found: Soak, taken: Sample, minutes: float) -> Table:
    """How far it is, for a person."""
    done = f"{taken.at_s / 60:.1f} of {minutes:g} min" if found.samples else "warming up"
    grid = Table(title=f"soak: {done}", title_justify="left")
    grid.add_column("figure")
    for heading in ("after the warm-up", "now"):
        grid.add_column(heading, justify="right")
    first = found.samples[0] if found.samples else None
    for name, value in asdict(taken).items():
        began = "" if first is None else amount(name, getattr(first, name))
        grid.add_row(
            name.removesuffix("_bytes").removesuffix("_s").replace("_", " "), began, amount(name, value)
        )
    return grid


def outcome(found: Soak) -> Table:
    """What was judged, and what went on."""
    grid = Table(title=f"soak: {len(found.samples)} samples after {found.warm_s:.0f} s of warm-up")
    grid.add_column("figure")
    for heading in ("first third", "last third", "limit"):
        grid.add_column(heading, justify="right")
    grid.add_column("good")
    for one in found.verdicts:
        amounts = [amount(one.unit, value) for value in (one.begin, one.end, one.limit)]
        grid.add_row(one.name, *amounts, "[green]yes[/]" if one.good else "[red]no[/]")
    first, last = found.samples[0], found.samples[-1]
    for name in ("reports", "rounds", "rollouts", "database_bytes"):
        begin, end = getattr(first, name), getattr(last, name)
        grid.add_row(name.removesuffix("_bytes"), amount(name, begin), amount(name, end), "", "")
    return grid


def amount(name: str, value: float) -> str:
    """With its unit, by the name's."""
    return f"{value / MEBIBYTE:,.1f} MiB" if name.endswith("bytes") else f"{value:,.0f}"


def document(found: Soak) -> dict[str, object]:
    """Everything, for machines."""
    return {
        "warm_s": found.warm_s,
        "verdicts": [asdict(one) | {"good": one.good} for one in found.verdicts],
        "wrong": found.wrong,
        "samples": [asdict(one) for one in found.samples],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
