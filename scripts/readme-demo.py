"""Puts what `make demo` prints now into the README, from table to verdict, and its picture into docs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
PICTURE = README.parent / "docs" / "start" / "demo.svg"
BEGIN, END = "<!-- demo-output -->\n", "<!-- /demo-output -->"


def excerpt(printed: str) -> str:
    """The results without the times, which differ by machine."""
    found = re.search(r"^The whole run, measured.*?(?=^\S+ \S+ in all\.)", printed, re.DOTALL | re.MULTILINE)
    if found is None:
        sys.exit("readme-demo: the demo printed no comparison; its output has changed, so change this script")
    lines = [line.rstrip() for line in found.group().splitlines()]
    return "".join(f"    {line}".rstrip() + "\n" for line in lines).rstrip() + "\n"


def main() -> None:
    """Runs the demo at eighty columns and rewrites the block between the markers."""
    command = [sys.executable, "-m", "cli", "demo", "--picture", str(PICTURE)]
    done = subprocess.run(
        command,
        cwd=README.parent,
        env=os.environ | {"COLUMNS": "80"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    text = README.read_text("utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    README.write_text(f"{before}{BEGIN}\n{excerpt(done.stdout)}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
