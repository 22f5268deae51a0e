"""The demo as a person runs it: real processes, a result, and nothing left behind however it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import uuid4
from xml.etree import ElementTree

import httpx
import pytest

from tests.counterparts.ports import free_port
from tests.e2e.process import PATIENCE_S, REPOSITORY

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MARKER = "DEMO_UNDER_TEST"
WHOLE = (sys.executable, "-m", "cli", "demo", "--json")
COMMAND = (*WHOLE, "--quick")


@pytest.fixture
def environment() -> dict[str, str]:
    """One by which all processes of a demo are known; settings of a service are none of its business."""
    return {**os.environ, MARKER: uuid4().hex, "ECNTWIN_SERVER__PORT": "1", "PYTHONPATH": str(REPOSITORY)}


def alive(environment: Mapping[str, str]) -> set[int]:
    """Process ids of whatever the demo started and still runs (Linux)."""
    marker, found = f"{MARKER}={environment[MARKER]}".encode(), set()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker in entry.read_bytes():
                found.add(int(entry.parent.name))
        except OSError:
            continue  # it ended meanwhile
    return found


def wait_until_all_have_ended(environment: Mapping[str, str]) -> None:
    """Those that were killed may take a moment."""
    deadline_s = time.monotonic() + PATIENCE_S
    while found := alive(environment):
        assert time.monotonic() < deadline_s, found
        time.sleep(0.05)


def test_the_demo_compares_three_runs_of_which_the_loop_is_best(
    environment: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [*WHOLE, "--picture", "drawn.svg"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    wait_until_all_have_ended(environment)
    found = json.loads(done.stdout)
    assert [run["name"] for run in found["runs"]] == ["closed loop", "vendor default", "DCQCN paper"]
    loop, vendor, paper = found["runs"]
    n = round(found["duration_s"] / found["interval_s"])
    for run in found["runs"]:
        assert len(run["intervals"]) == n
        assert run["figures"]["end_s"] == pytest.approx(found["duration_s"])
        assert run["figures"]["slowdown"]["mice"]["n"] > 100
        assert run["figures"]["queue_p99_bytes"] > run["figures"]["queue_mean_bytes"] > 0
        assert run["score"] is not None
    # The same flows under the same setting: the first interval, before any round, is the vendor default's.
    assert loop["intervals"][0] == vendor["intervals"][0]
    assert paper["intervals"][0]["figures"] != vendor["intervals"][0]["figures"]
    assert len(found["rounds"]) == n - 1
    assert {one["outcome"] for one in found["rounds"]} <= {"pushed", "kept", "held"}
    assert "pushed" in {one["outcome"] for one in found["rounds"]}
    for before, after in zip(found["rounds"], loop["intervals"][1:], strict=True):
        assert after["watermark"] == before["watermark"]
    assert found["lead"] == pytest.approx(loop["score"] - max(vendor["score"], paper["score"]))
    assert found["lead"] > 0.0
    assert ElementTree.parse(tmp_path / "drawn.svg").getroot().tag.endswith("svg")
    assert [file.name for file in tmp_path.iterdir()] == ["drawn.svg"]


def has_workers(processes: set[int]) -> bool:
    """Whether one of them is a worker of the service's rounds."""
    for pid in processes:
        try:
            if b"loky" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return True
        except OSError:
            continue
    return False


def has_all_started(processes: set[int]) -> bool:
    """Itself, a service, three labs."""
    return len(processes) >= 5


@pytest.mark.parametrize(
    ("number", "code", "ripe"),
    [(signal.SIGTERM, 143, has_all_started), (signal.SIGINT, 130, has_workers)],
    ids=["terminated while starting", "interrupted in a round"],
)
def test_an_interrupt_leaves_no_process_behind(
    number: signal.Signals,
    code: int,
    ripe: Callable[[set[int]], bool],
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    process = subprocess.Popen(
        # A shell's background job, such as these tests may be, hands an ignored SIGINT on to its children.
        ["env", "--default-signal=INT", *COMMAND],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + PATIENCE_S
    while not ripe(alive(environment)):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (code, b"", b"")
    wait_until_all_have_ended(environment)


def test_a_service_on_a_lab_recommends_is_followed_and_leaves_nothing(
    environment: dict[str, str], tmp_path: Path
) -> None:
    port, lab_port = free_port(), free_port()
    url, lab_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{lab_port}"
    kept, scratch = tmp_path / "state", tmp_path / "scratch"
    scratch.mkdir()
    progress = tmp_path / "progress"
    with progress.open("w") as stderr:
        process = subprocess.Popen(
            [
                *("env", "--default-signal=INT", sys.executable, "-m", "cli"),
                *("demo", "--serve", "--no-browser", "--port", str(port), "--lab-port", str(lab_port)),
            ],
            cwd=tmp_path,
            env=environment | {"XDG_STATE_HOME": str(kept), "TMPDIR": str(scratch)},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert process.stdout is not None
    try:
        found = process.stdout.readline()
        with httpx.Client(base_url=url, timeout=PATIENCE_S) as service:
            assert service.get("/").status_code == 200
            recommendation = service.get(f"/v1/recommendations/{found.split()[1].rstrip(':')}").json()
            assert (recommendation["changes"], recommendation["holds"]) == (True, [])
            assert found.rstrip().endswith(recommendation["why"])
            # Not by luck: what is sure of it is well above the margin. The first round sees the same window
            # on every machine, however slow.
            gain = recommendation["improvement"]
            assert gain["score_gain"] - 2 * gain["score_error"] > 1.5 * 0.03
        for command in (("approve", "current", "--yes"), ("rollback", "newest")):
            done = subprocess.run(
                [sys.executable, "-m", "cli", *command],
                env=environment | {"ECNTWIN_URL": url},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            runs = httpx.get(f"{lab_url}/switches/leaf1", timeout=PATIENCE_S).json()["watermark"]
            assert (runs["kmin_bytes"] == 400_000) == (command[0] == "rollback")
        process.send_signal(signal.SIGINT)
        code = process.wait(PATIENCE_S)
        # communicate() would miss what came together with the first line.
        out, err = process.stdout.read(), progress.read_text("utf-8")
        assert code == 0, err
        assert f"export ECNTWIN_URL={url}" in out
        assert f"the page: {url}/" in err
        assert "round: finished, recommended" in err
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        process.stdout.close()
    wait_until_all_have_ended(environment)
    assert (list(scratch.iterdir()), kept.exists()) == ([], False)


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "cli", "demo", "--serve", "--lab-port", "0", "--port", port],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--port: received 127.0.0.1 port {port} (address already in use)" in done.stderr


def test_a_picture_that_cannot_be_written_is_said_before_anything_starts(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--picture", str(tmp_path / "nowhere" / "drawn.svg")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--picture" in done.stderr
    assert done.stderr.count("\n") == 1
