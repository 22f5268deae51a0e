"""The version of this distribution, installed or run from its source tree."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@cache
def ecntwin_version() -> str:
    """Such as ``0.1.0``; ``0`` where neither the metadata nor a source tree is there."""
    try:
        return version("ecntwin")
    except PackageNotFoundError:
        pyproject = Path(__file__).resolve().parents[1] / "pyproject.toml"
        if not pyproject.is_file():
            return "0"
        return str(tomllib.loads(pyproject.read_text("utf-8"))["project"]["version"])
