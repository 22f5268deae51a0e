"""Runs the measuring modules beside this file and prints one table: ``python -m bench [MODULE ...]``.

A measuring module is any below ``bench/`` with ``measure() -> Iterable[Figure]``, named as in imports, such
as ``replay`` or ``telemetry.window``. Each runs in a process of its own, so that none inherits another's
threads, caches or warm-up; one that fails is a row that says so, and the others run.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Collection
from dataclasses import asdict
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.figure import Figure

HERE = Path(__file__).resolve().parent
OUT = HERE / "out"


def modules() -> list[str]:
    """Names of the measuring modules: those whose source defines ``measure`` at its top level."""
    found = []
    for path in sorted(HERE.rglob("*.py")):
        body = ast.parse(path.read_text("utf-8")).body
        if any(isinstance(node, ast.FunctionDef) and node.name == "measure" for node in body):
            found.append(".".join(path.relative_to(HERE).with_suffix("").parts))
    return found


def measure_here(name: str, into: Path) -> None:
    """Runs one module in this process and leaves its figures in ``into``."""
    figures = [asdict(figure) for figure in import_module(f"bench.{name}").measure()]
    into.write_text(json.dumps(figures), "utf-8")


def measure_apart(name: str) -> tuple[list[Figure], str]:
    """Runs one module in a process of its own: its figures, and what went wrong ('' where nothing did)."""
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "figures.json"
        command = [sys.executable, "-m", "bench", name, "--into", str(into)]
        with subprocess.Popen(command, cwd=HERE.parent, stderr=subprocess.PIPE, text=True) as run:
            try:
                errors = run.communicate()[1]
            except BaseException:
                run.terminate()  # not killed: it has labs of its own to end
                raise
        if run.returncode or not into.exists():
            last = errors.strip().splitlines()[-1:] or [f"ended with status {run.returncode}"]
            return [], last[0]
        return [Figure(**figure) for figure in json.loads(into.read_text("utf-8"))], ""


def machine() -> dict[str, Any]:
    """The machine and versions that the figures depend on."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8").splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("numba", "numpy", "scipy")},
    }


def version() -> str:
    """The version in pyproject.toml: what is measured is this tree, installed or not."""
    pyproject: dict[str, Any] = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))
    return str(pyproject["project"]["version"])


def commit() -> str:
    """The commit measured, with '+' where the tree differs from it; '' outside a repository."""
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=12"]
    try:
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def amount(value: float) -> str:
    """A number with three or four digits that say something."""
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def table(results: dict[str, tuple[list[Figure], str]]) -> Table:
    grid = Table(title="bench", title_justify="left")
    for heading in ("module", "figure"):
        grid.add_column(heading)
    for heading in ("measured", "goal"):
        grid.add_column(heading, justify="right")
    grid.add_column("met")
    grid.add_column("note")
    for name, (figures, wrong) in results.items():
        for figure in figures:
            sign = "≤" if figure.better == "lower" else "≥"
            goal = "" if figure.goal is None else f"{sign} {amount(figure.goal)}"
            met = {None: "", True: "[green]yes[/]", False: "[red]no[/]"}[figure.met]
            grid.add_row(name, figure.name, f"{amount(figure.value)} {figure.unit}", goal, met, figure.note)
        if wrong:
            grid.add_row(name, "[red]failed[/]", "", "", "", wrong)
    return grid


def parser_of(module: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser for ``python -m MODULE``, which says the first line of its docstring."""
    return argparse.ArgumentParser(prog=f"python -m {module}", description=(doc or "").partition("\n")[0])


def one_of(known: Collection[str]) -> Callable[[str], str]:
    """A ``type`` for ``add_argument``: one of these names (``choices`` refuses lists as defaults)."""

    def checked(name: str) -> str:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is none of: {'; '.join(sorted(known))}")
        return name

    return checked


def main(arguments: list[str]) -> int:
    """0 where every module ran, whatever its figures; 1 where one failed; 2 for an unknown name."""
    parser = parser_of("bench", __doc__)
    known = modules()
    parser.add_argument(
        "module", nargs="*", type=one_of(known), help=f"one or more of: {', '.join(known)} (default: all)"
    )
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.into:
        measure_here(given.module[0], given.into)
        return 0
    results: dict[str, tuple[list[Figure], str]] = {}
    # Not a terminal: give the table room, so that no note is cut in a log.
    console = Console(width=None if sys.stdout.isatty() else 180)
    progress = Console(stderr=True, highlight=False)
    for name in given.module or known:
        begun = time.perf_counter()
        progress.print(f"measuring {name} …")
        results[name] = measure_apart(name)
        progress.print(f"          {name} took {time.perf_counter() - begun:.0f} s")
    console.print(table(results))
    OUT.mkdir(exist_ok=True)
    report = OUT / f"bench-{time.strftime('%Y%m%d-%H%M%S')}.json"
    document = {
        "version": version(),
        "commit": commit(),
        "machine": machine(),
        "figures": [
            {"module": name, **asdict(figure), "met": figure.met}
            for name, (figures, _) in results.items()
            for figure in figures
        ],
        "failed": {name: wrong for name, (_, wrong) in results.items() if wrong},
    }
    report.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
    console.print(f"written to {report.relative_to(HERE.parent)}", highlight=False)
    return 1 if document["failed"] else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # what it started is ended first
    sys.exit(main(sys.argv[1:]))
