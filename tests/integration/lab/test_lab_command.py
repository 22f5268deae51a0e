"""``ecntwin lab`` in this process, on a free port, until its millisecond is over."""

from __future__ import annotations

import json
import logging
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.lab import LabProgress, _Server
from cli.main import app
from cli.output import run_to_exit_code
from lab.control import Lab
from settings.inventory import load_inventory, load_reporting
from telemetry.decode.p4.decoder import P4Decoder

SMALL = [
    "lab",
    "--leaves",
    "1",
    "--spines",
    "0",
    "--hosts",
    "3",
    "--duration",
    "1ms",
    "--traffic",
    "incast:2",
]


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """The command sets signal handlers and logging for a process of its own."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.getsignal(number) for number in numbers]
    root = logging.getLogger()
    logs, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = logs, level
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


def test_it_runs_its_time_and_says_what_was_in_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    code = run_to_exit_code(app, [*SMALL, "--listen", "127.0.0.1:0", "--json"])
    assert code == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["now_s"], document["ended"]) == (0.001, True)
    assert document["flows_completed"] > 0


def test_it_tells_people_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_to_exit_code(app, [*SMALL, "--listen", "localhost:0", "--sampling-rate", "0"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("1 ms of 1 ms simulated:")
    assert "0 reports, 0 of them posted." in out
    assert "Lately: mean queue" in out


def test_a_port_in_use_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run_to_exit_code(app, [*SMALL, "--listen", f"127.0.0.1:{port}", "--step"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"127.0.0.1 port {port} (address already in use)" in said.err


# In a process of its own, as the limit stays.
LIMITED = f"""
import resource
from cli.main import main

most_bytes = {750 << 20}
resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
main()
"""


def test_what_does_not_fit_into_memory_is_one_sentence() -> None:
    large = ["lab", "--listen", "127.0.0.1:0", "--duration", "590s"]  # 20 million flows
    ran = subprocess.run([sys.executable, "-c", LIMITED, *large], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.count("\n") == 1, ran.stderr
    assert ran.stderr.startswith("ecntwin: another 151 MiB does not fit into memory, which has to hold")
    assert "bug" not in ran.stderr


def test_it_tells_how_far_it_has_come(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = threading.Event()

    class Telling(LabProgress):
        def __call__(self, lab: Lab) -> None:
            super().__call__(lab)
            told.set()

    def end(server: _Server) -> None:
        told.wait()  # a millisecond may be over before the server's first tick
        server.should_exit = True

    monkeypatch.setattr("cli.lab.LINE_EVERY_S", 0.0)
    monkeypatch.setattr("cli.lab.LabProgress", Telling)
    monkeypatch.setattr(_Server, "end", end)
    assert run_to_exit_code(app, [*SMALL, "--listen", "127.0.0.1:0"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ecntwin: ")]
    assert lines
    assert all(" of 1 ms simulated" in line and "flows completed" in line for line in lines)
    assert run_to_exit_code(app, [*SMALL, "--listen", "127.0.0.1:0", "--json"]) == 0
    assert "ecntwin: " not in capsys.readouterr().err


def test_it_sends_binary_reports_that_its_inventory_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "lab.yaml"
    assert run_to_exit_code(app, [*SMALL, "--write-inventory", str(file)]) == 0
    assert "push.inventory" in capsys.readouterr().out
    assert {device.address for device in load_inventory(file).values()} == {"http://127.0.0.1:9000"}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taking:
        taking.bind(("127.0.0.1", 0))
        host, port = taking.getsockname()
        sent = [*SMALL, "--listen", "127.0.0.1:0", "--json", "--int-udp", f"{host}:{port}"]
        assert run_to_exit_code(app, sent) == 0
        reports = json.loads(capsys.readouterr().out)["reports"]
        payloads = [taking.recv(2_000) for _ in range(reports["datagrams"]["sent"])]
    found = P4Decoder(load_reporting(file)).decode(payloads, 0)
    assert len(found) == reports["made"] == reports["posted"] > 0
    assert reports["datagrams"]["lost"] is None
    assert (found.problems, found.untuned) == ((), ())
    assert {site.switch for site in found.batch.sites} == {"leaf1"}
    assert {site.egress_port for site in found.batch.sites} <= {"Ethernet0", "Ethernet1", "Ethernet2"}
