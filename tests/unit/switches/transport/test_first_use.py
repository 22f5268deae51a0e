"""Switches whose answers are the first of their kind are read by many threads at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[4]
PROGRAM = """
import sys, threading
import msgspec
from switches.transport.quoted import read_all_fields
from switches.openconfig.queues import Plan
read_all_fields()
sys.setswitchinterval(1e-6)
together = threading.Barrier(8)
def first():
    together.wait()
    msgspec.convert({"queues": [], "profiles": {}, "ran": {}}, Plan)
threads = [threading.Thread(target=first) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_types_whose_fields_were_read_are_shared_by_threads() -> None:
    for _ in range(8):  # unread, one time in four it ended the process
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=REPOSITORY, capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stderr) == (0, "")
