"""The twin's kernels as plain Python, where a run asks for it."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _kernels_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.environ.get("NUMBA_DISABLE_JIT"):
        from tests.unit.twin.kernels.plain_python import run_uncompiled

        run_uncompiled(monkeypatch)
