"""The version in pyproject.toml must be the changelog's newest; run by scripts/check and by a test."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path


def disagreement(pyproject: str, changelog: str) -> str | None:
    """What is wrong with the changelog's newest heading, from the text of both files; None where nothing."""
    version = tomllib.loads(pyproject)["project"]["version"]
    headings = re.findall(r"^## \[([^\]]+)\](?: - (\S+))?$", changelog, flags=re.MULTILINE)
    versions = [(name, date) for name, date in headings if name != "Unreleased"]
    if not versions:
        return f"CHANGELOG.md: no heading for a version; add '## [{version}] - unreleased'"
    newest, date = versions[0]
    if newest != version:
        return f"CHANGELOG.md: newest is {newest}, pyproject.toml says {version}; correct one"
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}|unreleased", date or ""):
        return f"CHANGELOG.md: {newest} is dated {date or 'nothing'}; give YYYY-MM-DD or 'unreleased'"
    return None


if __name__ == "__main__":
    root = Path(__file__).resolve().parents[1]
    wrong = disagreement(
        (root / "pyproject.toml").read_text("utf-8"), (root / "CHANGELOG.md").read_text("utf-8")
    )
    sys.exit(wrong)
