"""``ecntwin bench``: the repository's measurements, which no distribution carries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from settings.errors import InputError

_REPOSITORY = Path(__file__).resolve().parents[1]


def bench(modules: Sequence[str]) -> None:
    """Runs ``python -m bench`` in the repository; raises ``InputError`` outside it."""
    if not (_REPOSITORY / "bench" / "__main__.py").is_file():
        raise InputError(
            "bench",
            "an installed distribution",
            "measurements live in the repository",
            "clone it and run make bench",
        )
    done = subprocess.run([sys.executable, "-m", "bench", *modules], cwd=_REPOSITORY, check=False)
    raise typer.Exit(done.returncode)
