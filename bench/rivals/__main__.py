"""Compares tuners of ECN watermarks on the packet fabric.

``python -m bench.rivals run --quick`` takes minutes, ``run --full`` hours; both go on where they stopped.
``table``, ``claims`` and ``plot`` show what a folder holds.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from bench.__main__ import OUT, commit, parser_of
from bench.rivals.claims import Results, findings
from bench.rivals.plots import plot
from bench.rivals.report import claims_table, commands, conduct_table, regret_table, tally, trying_table
from bench.rivals.runs import PRESETS, cores, keys_of, run_all, weight
from bench.rivals.scenarios import SCENARIOS, VARIANTS, check_memory, free_memory_bytes, scenario_named
from bench.rivals.standings import Standings
from bench.rivals.store import Store, rows_of
from bench.rivals.training import add_parser, train
from bench.rivals.tuners import TUNERS
from bench.rivals.tuners.statics import GRID, QUICK_GRID
from twin.errors import ParameterError, TwinError

_ROOT = Path(__file__).resolve().parents[2]
_MOST_SEED = 2**32 - 1


def state_of_tree() -> str:
    """The commit; where files differ from it, + and a digest of how; '' outside a repository."""
    found = commit().removesuffix("+")
    if not found:
        return ""
    changes = _git("diff", "HEAD")
    new = _git("ls-files", "--others", "--exclude-standard", "-z", "bench/rivals", "twin", "lab")
    for name in filter(None, new.split(b"\0")):
        changes += name + (_ROOT / name.decode()).read_bytes()
    return f"{found}+{hashlib.sha1(changes, usedforsecurity=False).hexdigest()[:8]}" if changes else found


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, check=True).stdout


def seeds_of(text: str) -> tuple[int, ...]:
    """Seeds such as ``1-3,7``; raises ``ParameterError``."""
    found: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,10})(?:-(\d{1,10}))?\s*", part)
        first, last = (0, -1) if ends is None else (int(ends[1]), int(ends[2] or ends[1]))
        if not first <= last <= min(first + 10_000, _MOST_SEED):
            raise ParameterError(
                "--seeds", repr(text), "it is whole numbers and ranges", "give such as 1-3,7"
            )
        found += range(first, last + 1)
    return tuple(dict.fromkeys(found))


def run(given: argparse.Namespace, console: Console) -> None:
    """Does what is left to do of a run, and shows its tables."""
    name = "full" if given.full else "quick"
    preset, state = PRESETS[name], state_of_tree()
    scenarios = given.scenarios.split(",") if given.scenarios else preset.scenarios
    tuners = given.tuners.split(",") if given.tuners else preset.tuners
    seeds = seeds_of(given.seeds) if given.seeds else preset.seeds
    grid = {"quick": QUICK_GRID, "full": GRID, None: preset.grid}[given.grid]
    if given.jobs is not None and given.jobs < 1:
        raise ParameterError(
            "--jobs", str(given.jobs), "at least one run is done at a time", "give such as 2"
        )
    at_once = given.jobs or cores()
    keys = keys_of(scenarios, tuners, seeds, grid)
    check_memory(map(scenario_named, scenarios), seeds[0], at_once=at_once, free_bytes=free_memory_bytes())
    folder = given.into or OUT / "rivals" / f"{name}-{state or 'unknown'}"
    store = Store(folder, commit=state, seeds=seeds)
    done = {row.key for row in store.rows()}
    left = [key for key in keys if key not in done]
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    console.print(f"{len(left)} of {len(keys)} runs to do, {at_once} at once, into {_shown(folder)}")
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("running", total=len(left))
        ordered = sorted(left, key=weight, reverse=True)
        for number, (row, played) in enumerate(run_all(ordered, state, at_once=at_once), start=1):
            store.add(row, played)
            progress.update(task, advance=1, description=str(row.key))
            if not console.is_terminal:
                console.print(f"{number} of {len(left)}: {row.key}, {row.wall_s:.1f} s")
    show(folder, console, markdown=False)


def show(folder: Path, console: Console, *, markdown: bool) -> None:
    standings = Standings(folder, rows_of(folder))
    for table in (regret_table, conduct_table, trying_table):
        console.print(table(standings, markdown=markdown))
    if not markdown:
        console.print("docs/rivals.md says what each column is.", style="dim")


def claim(given: argparse.Namespace, console: Console) -> None:
    """Prints claims of others beside what a folder shows, and the commands for runs that it lacks."""
    folder = given.folder or newest()
    results = Results(rows_of(folder), variant=given.variant or "", into=str(_shown(folder)))
    found = findings(results, every_variant=given.all)
    console.print(claims_table(found, markdown=given.markdown))
    for line in tally(found):
        console.print(line, soft_wrap=True)
    for number, line in enumerate(commands(found), start=1):
        console.print(f"{number}. {line}", soft_wrap=True)


def newest() -> Path:
    """The folder of results changed last; raises ``ParameterError`` where there is none."""
    found = sorted((OUT / "rivals").glob("*/results.csv"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise ParameterError("results", None, "there are none yet", "run first: make rivals")
    return found[-1].parent


def _shown(path: Path) -> Path:
    return path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("bench.rivals", __doc__)
    kinds = parser.add_subparsers(dest="command", required=True)
    running = kinds.add_parser("run", help="run tuners, or go on with a run")
    how_long = running.add_mutually_exclusive_group()
    how_long.add_argument(
        "--quick", action="store_true", help="minutes: few tuners, scenarios and seeds (default)"
    )
    how_long.add_argument("--full", action="store_true", help="hours: all of them, ten seeds")
    running.add_argument(
        "--scenarios",
        help=f"separated by commas: {', '.join(SCENARIOS)}; behind + a variant: {', '.join(VARIANTS)}",
    )
    running.add_argument("--tuners", help=f"NAME or NAME@BUDGET, separated by commas: {', '.join(TUNERS)}")
    running.add_argument("--seeds", help="such as 1-3,7")
    running.add_argument(
        "--grid", choices=("quick", "full"), help=f"the oracle's statics: {len(QUICK_GRID)} or {len(GRID)}"
    )
    running.add_argument("--jobs", type=int, help="runs at once (default: one a core)")
    running.add_argument(
        "--into", type=Path, help="folder of results (default: one a commit in bench/out/rivals)"
    )
    add_parser(kinds)
    tables = kinds.add_parser("table", help="print the tables of a folder of results")
    tables.add_argument("folder", nargs="?", type=Path, help="(default: the newest)")
    tables.add_argument("--markdown", action="store_true")
    claims = kinds.add_parser("claims", help="print claims of the rivals' papers beside a folder's results")
    claims.add_argument("folder", nargs="?", type=Path, help="(default: the newest)")
    claims.add_argument("--markdown", action="store_true")
    claims.add_argument("--all", action="store_true", help="tuners on every budget, frozen too")
    claims.add_argument("--variant", help=f"of the scenarios: {', '.join(VARIANTS)}, joined by +")
    plots = kinds.add_parser("plot", help="draw pictures of a folder (SVG)")
    plots.add_argument("folder", nargs="?", type=Path, help="(default: the newest)")
    plots.add_argument(
        "--tuners", help="that are drawn over time, such as ecntwin,pet@box (default: the best)"
    )
    return parser


def main(arguments: list[str]) -> int:
    """0, 2 with a sentence on what is wrong with the options or the folder, or 130 where interrupted."""
    given = _parser().parse_args(arguments)
    # Not a terminal: room enough that no table is cut in a log. In Markdown a row is one line.
    wide = 10_000 if getattr(given, "markdown", False) else 220
    console = Console(width=None if sys.stdout.isatty() and wide == 220 else wide, highlight=False)
    try:
        if given.command == "run":
            run(given, console)
        elif given.command == "train":
            train(given, console, commit=state_of_tree(), default_folder=OUT / "rivals" / "training")
        elif given.command == "table":
            show(given.folder or newest(), console, markdown=given.markdown)
        elif given.command == "claims":
            claim(given, console)
        else:
            folder = given.folder or newest()
            chosen = given.tuners.split(",") if given.tuners else None
            for path in plot(Standings(folder, rows_of(folder)), folder, chosen):
                console.print(f"written to {_shown(path)}")
    except TwinError as refused:
        print(refused, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
