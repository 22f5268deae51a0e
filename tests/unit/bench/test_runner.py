"""The bench runner: what counts as a measuring module, what a figure and a failure look like."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench import __main__ as runner
from bench.figure import Figure


@pytest.mark.parametrize(
    ("value", "goal", "better", "met"),
    [
        (9.0, 10.0, "lower", True),
        (10.0, 10.0, "lower", True),
        (11.0, 10.0, "lower", False),
        (11.0, 10.0, "higher", True),
        (9.0, 10.0, "higher", False),
        (math.nan, 10.0, "lower", False),
        (math.nan, None, "lower", None),
        (1.0, None, "higher", None),
    ],
)
def test_a_figure_knows_whether_it_reached_its_goal(
    value: float, goal: float | None, better: str, met: bool | None
) -> None:
    assert Figure("x", value, "ms", goal, better).met is met  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "bench"
    package.mkdir()
    for name in ("__init__", "__main__", "figure"):
        text = (Path(runner.__file__).parent / f"{name}.py").read_text("utf-8")
        (package / f"{name}.py").write_text(text, "utf-8")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "9.9.9"\n', "utf-8")
    monkeypatch.setattr(runner, "HERE", package)
    monkeypatch.setattr(runner, "OUT", package / "out")
    return package


def test_measuring_modules_are_those_that_define_measure(folder: Path) -> None:
    (folder / "speed.py").write_text("def measure():\n    return []\n", "utf-8")
    (folder / "material.py").write_text("SIZE = 3\n", "utf-8")
    assert runner.modules() == ["speed"]


def test_one_that_fails_is_a_row_and_the_others_run(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    good = (
        "from bench.figure import Figure\ndef measure():\n    yield Figure('answer', 42.0, 'ms', goal=50)\n"
    )
    (folder / "good.py").write_text(good, "utf-8")
    (folder / "bad.py").write_text("def measure():\n    raise RuntimeError('no compiler here')\n", "utf-8")
    assert runner.main([]) == 1
    shown = capfd.readouterr().out
    assert "42 ms" in shown
    assert "no compiler here" in shown
    (written,) = (folder / "out").glob("*.json")
    document = json.loads(written.read_text("utf-8"))
    assert document["version"] == "9.9.9"
    assert [(row["module"], row["name"], row["met"]) for row in document["figures"]] == [
        ("good", "answer", True)
    ]
    assert list(document["failed"]) == ["bad"]


def test_one_that_is_ended_ends_what_it_started(folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import subprocess, sys\nfrom pathlib import Path\n"
        "def measure():\n"
        "    with subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE) as lab:\n"
        "        Path('began').touch()\n"
        "        try:\n            lab.wait()\n"
        "        finally:\n            lab.kill()\n            Path('ended').touch()\n",
        "utf-8",
    )
    with subprocess.Popen([sys.executable, "-m", "bench", "slow"], cwd=folder.parent) as running:
        while not (folder.parent / "began").exists():
            assert running.poll() is None
            time.sleep(0.05)
        running.terminate()
    assert running.returncode == 128 + signal.SIGTERM
    assert (folder.parent / "ended").exists()


def test_an_unknown_name_is_refused_with_the_known_ones(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "speed.py").write_text("def measure():\n    return []\n", "utf-8")
    with pytest.raises(SystemExit) as stopped:
        runner.main(["sped"])
    assert stopped.value.code == 2
    assert "speed" in capsys.readouterr().err
