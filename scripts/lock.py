"""Writes requirements/*.txt from pyproject.toml, with uv: lock.py [--upgrade | --upgrade-package NAME].

Each file holds what one purpose installs beyond the file named in its first line: exact versions for every
platform and Python that pyproject.toml allows, with the SHA-256 hashes of all their published files. Locked
versions stay unless an option says otherwise.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "requirements"


def main(options: list[str]) -> None:
    """Writes the locks of all purposes. Raises ``FileNotFoundError`` where there is no uv."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project = document["project"]
    wanted = [*document["build-system"]["requires"], *project["dependencies"]]
    purposes = {"run": wanted} | project["optional-dependencies"]
    with tempfile.TemporaryDirectory() as folder:
        everything = Path(folder, "everything.txt")
        locked = [lock.read_text("utf-8") for lock in sorted(LOCKS.glob("*.txt"))]
        everything.write_text(re.sub(r"(?m)^-r .*$", "", "\n".join(locked)), "utf-8")
        lowest = project["requires-python"].removeprefix(">=")
        compile_with = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", lowest]
        compile_with += ["--generate-hashes", "--no-annotate", "--no-header", "-"]

        def compiled(requirements: list[str], *more: str) -> list[str]:
            done = subprocess.run(
                [*compile_with, *more],
                input="\n".join(requirements),
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            return re.findall(r"(?m)^\S.*\\\n(?: +--hash=.*\n)+", done.stdout)

        compiled(
            [one for wants in purposes.values() for one in wants], "--output-file", str(everything), *options
        )
        wanted, before, written = [], [], ""
        for purpose, wants in purposes.items():
            wanted += wants
            entries = compiled(wanted, "--constraint", str(everything))
            added = "".join(entry for entry in entries if entry not in before)
            (LOCKS / f"{purpose}.txt").write_text(f"{written}{added}", "utf-8")
            before, written = entries, f"-r {purpose}.txt\n"


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except FileNotFoundError:
        sys.exit("lock: no uv on the path: it is needed for this script alone; pip install uv")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
