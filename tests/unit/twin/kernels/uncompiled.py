"""A mark for tests that are compiled only, though most of their file runs uncompiled too."""

from __future__ import annotations

import os

import pytest

long_uncompiled = pytest.mark.skipif(
    bool(os.environ.get("NUMBA_DISABLE_JIT")),
    reason="takes long uncompiled, and others run its lines",
)
