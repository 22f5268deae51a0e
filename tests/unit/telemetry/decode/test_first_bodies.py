"""The first bodies of a process may come in several threads at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[4]
REPORT = (
    b'{"ts_ns": 1, "flow": {"src": "10.0.0.1", "dst": "10.0.0.2", "sport": 1, "dport": 2, "protocol": 17}, '
    b'"packet_bytes": 1000, "sampling_rate": 0.1, "hops": [{"switch": "leaf1", "queue_bytes": 5}]}'
)
SAMPLE = b'{"switch": "leaf1", "port": "Ethernet0", "ts_ns": 1, "pfc_tx_frames": 5}'
PROGRAM = """
import sys, threading
from telemetry.decode.counters import decode_counters
from telemetry.decode.json import decode
sys.setswitchinterval(1e-6)
for decoder, body in {bodies!r}:
    together = threading.Barrier(8)
    def first():
        together.wait()
        globals()[decoder](body)
    threads = [threading.Thread(target=first) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""
COUNTERS = ("decode_counters", SAMPLE)
TIMES = 4  # with each in turn; one time in three it ended the process


@pytest.mark.parametrize(
    "bodies",
    [[("decode", REPORT), COUNTERS], [COUNTERS, ("decode", b"[" + REPORT + b"]")]],
    ids=["report", "counters"],
)
def test_first_bodies_may_come_at_once(bodies: list[tuple[str, bytes]]) -> None:
    for _ in range(TIMES):
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(bodies=bodies)],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (0, "")
