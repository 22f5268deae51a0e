"""Finds the recording that ``ecntwin demo`` runs on, in an installed distribution or the repository."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

from settings.errors import InputError

NAME = "websearch-16"


def example_folder() -> Path:
    """The folder with ``scenario.json``, ``topology.json`` and ``reports.ndjson.gz``, or ``InputError``."""
    with as_file(files("cli") / "examples" / NAME) as installed:
        places = (installed, Path(__file__).resolve().parents[1] / "examples" / NAME)
    for folder in places:
        if (folder / "reports.ndjson.gz").is_file():
            return folder
    raise InputError(
        "demo",
        "no recording beside the program",
        f"the distribution carries examples/{NAME}",
        "install ecntwin again, or run it from its repository",
    )
