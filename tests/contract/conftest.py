"""Every rig found under ``rigs``, one after the other: a module there lists its classes under ``RIGS``."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.contract.rig import Rig

_MODULES = sorted(path.stem for path in (Path(__file__).parent / "rigs").glob("[a-z]*.py"))
_RIGS: list[type[Rig]] = [
    rig for module in _MODULES for rig in getattr(import_module(f"tests.contract.rigs.{module}"), "RIGS", ())
]


@pytest.fixture(scope="module", params=_RIGS, ids=[rig.kind for rig in _RIGS])
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    rig: Rig = request.param(tmp_path_factory.mktemp(request.param.kind))
    try:
        yield rig
    finally:
        rig.close()


@pytest.fixture
def rig(started: Rig) -> Rig:
    started.reset()
    return started
