"""What decides a process's figures besides its input."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import twin
from twin.workers.dask_connection import code_digest, own_stamp


def test_a_stamp_names_what_decides_figures() -> None:
    stamp = own_stamp()
    assert stamp == own_stamp() == pickle.loads(pickle.dumps(stamp))
    assert f"NumPy {np.__version__}" in str(stamp)
    assert stamp.code in str(stamp)


@pytest.mark.parametrize("change", ["more", "fewer", "renamed", "empty file"])
def test_every_change_of_the_code_shows(tmp_path: Path, change: str) -> None:
    folder = tmp_path / "twin"
    shutil.copytree(Path(twin.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    before = code_digest(folder)
    assert before == code_digest(Path(twin.__file__).parent)
    match change:
        case "more":
            (folder / "units.py").write_text((folder / "units.py").read_text("utf-8") + "# more\n", "utf-8")
        case "fewer":
            (folder / "units.py").unlink()
        case "renamed":
            (folder / "units.py").rename(folder / "units2.py")
        case _:
            (folder / "a.py").write_text("", "utf-8")
    assert code_digest(folder) != before


def test_what_a_run_leaves_behind_is_no_code(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1", "utf-8")
    before = code_digest(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"1")
    assert code_digest(tmp_path) == before
