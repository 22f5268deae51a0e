"""systemd takes the unit, and it gives the service what it needs and no more."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.deploy.monitoring import ROOT

UNIT = ROOT / "deploy/systemd/ecntwin.service"
PROGRAM = "/opt/ecntwin/bin/ecntwin"


def directives() -> dict[str, list[str]]:
    """What the unit says, by name."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", UNIT.read_text("utf-8"), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


@pytest.fixture
def analyze(tmp_path: Path) -> tuple[str, Path]:
    """systemd-analyze, and the unit with a program that is there."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed (Debian package systemd)")
    placed = tmp_path / UNIT.name
    there = shutil.which("true")
    assert there is not None
    placed.write_text(UNIT.read_text("utf-8").replace(PROGRAM, there), "utf-8")
    return program, placed


def test_systemd_takes_it(analyze: tuple[str, Path]) -> None:
    program, unit = analyze
    done = subprocess.run([program, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    own = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, own) == (0, []), done.stderr


def test_a_mistake_in_it_would_be_found(analyze: tuple[str, Path]) -> None:
    program, unit = analyze
    unit.write_text(unit.read_text("utf-8").replace("ProtectHome=", "ProtectHomes="), "utf-8")
    done = subprocess.run([program, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert "ProtectHomes" in done.stderr


def test_it_is_little_exposed(analyze: tuple[str, Path]) -> None:
    program, unit = analyze
    done = subprocess.run(
        [program, "security", "--offline=true", "--threshold=20", "--no-pager", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd judges no unit that does not run (250 and later do)")
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


def test_it_runs_as_nobody_in_particular_and_writes_only_to_its_own_folders() -> None:
    said = directives()
    assert said["DynamicUser"] == ["yes"]
    assert said["ProtectSystem"] == ["strict"]
    assert said["NoNewPrivileges"] == ["yes"]
    assert said["CapabilityBoundingSet"] == [""]
    assert said["StateDirectory"] == said["CacheDirectory"] == ["ecntwin"]
    assert "NUMBA_CACHE_DIR=/var/cache/ecntwin" in said["Environment"][0]
    assert "sqlite:////var/lib/ecntwin/" in (ROOT / "deploy/ecntwin.yaml").read_text("utf-8")
    assert "MemoryDenyWriteExecute" not in said, "compiled kernels would not start"


def test_it_checks_the_settings_that_it_starts_with() -> None:
    said = directives()
    (check,), (start,) = said["ExecStartPre"], said["ExecStart"]
    path = "/etc/ecntwin/ecntwin.yaml"
    assert check == f"{PROGRAM} check-config {path}"
    assert start == f"{PROGRAM} serve --config {path}"
    assert said["EnvironmentFile"] == ["/etc/ecntwin/ecntwin.env"]


def test_the_environment_file_sets_nothing_by_itself() -> None:
    lines = (ROOT / "deploy/systemd/ecntwin.env").read_text("utf-8").splitlines()
    assert all(line.startswith("#") for line in lines)
    assert any(line.startswith("#ECNTWIN_SECURITY__TOKENS=") for line in lines)
