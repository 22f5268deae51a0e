"""Fixtures every test may use; imports no package under test, so that a broken one fails its own tests only.

What others rely on:

- ``reference``: the measured problems and their truths, on every clone (its docstring lists the files).
- ``example``: the recording that ``make demo`` runs on.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from xdist.scheduler import LoadScopeScheduling

REPOSITORY = Path(__file__).resolve().parents[1]

# Readline, which pytest loads, tells the processes it starts of a terminal 80 columns wide, with none there.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)

# A kernel takes seconds to compile in the first example: a deadline would test the compiler.
settings.register_profile("everywhere", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("everywhere"), derandomize=True, print_blob=True)
usual = "ci" if os.environ.get("CI") else "everywhere"
# Of make test, by --hypothesis-profile: half of the examples that make test-all tries.
settings.register_profile("quick", parent=settings.get_profile(usual), max_examples=50)
EXAMPLES = os.environ.get("ECNTWIN_FUZZ_EXAMPLES")  # set by scripts/fuzz
if EXAMPLES is None:
    settings.load_profile(usual)
else:
    settings.register_profile(
        "fuzz", parent=settings.get_profile("everywhere"), max_examples=int(EXAMPLES), database=None
    )
    settings.load_profile("fuzz")

PAGE = "tests/e2e/page/"
OVER_A_LAB = ("test_journey.py", "test_overtaken.py", "test_rollout.py", "test_validity.py")


class TogetherScheduling(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Gives one worker what shares servers, processes, a browser or long predictions: the tests of the page
    over a lab, the other tests of the page, those of one rig of the adapter contract, of what the packet
    engine predicts, of a file. Tests of properties share nothing and take long: each is given out by itself.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        if file.startswith("tests/property/"):
            return nodeid
        if file.endswith(("accuracy/test_packet_truth.py", "accuracy/test_picks.py")):
            return "the packet engine's predictions"
        if file.startswith("tests/contract/"):
            return re.sub("-(awkward|higher|lower)$", "", test.partition("[")[2].removesuffix("]"))
        if file.startswith(PAGE):
            return "the page over a lab" if file.endswith(OVER_A_LAB) else "the page"
        return file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> TogetherScheduling:
    """What ``make test`` runs with; pytest-xdist's own loadgroup does nothing under pytest 9.2."""
    return TogetherScheduling(config, log)


gc.disable()  # until all is collected: a third of that time would go into looking for garbage


def pytest_collection_finish() -> None:
    """What was collected stays to the end: no collection of garbage goes through it again. Nor does Python
    look for garbage after every 700 new objects, of which tests make millions.
    """
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of the page come first: they are the longest that one worker has to run alone. Coverage is
    not measured where examples are random: it takes as long as they do, and tells what chance reached.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(PAGE))
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)) and item.get_closest_marker("kernels") is None:
            item.add_marker("no_cover")


@pytest.fixture(scope="session", autouse=True)
def _state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The database of whoever runs the tests is not opened: another version may have written it."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")  # so that tests of a file may share a service
def anyio_backend() -> str:
    """Coroutine tests run on asyncio, as the service does."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_log_of_an_earlier_test() -> Iterator[None]:
    """Commands that run in a test's own process log to its standard error, which ends with the test, and say
    from what level on.
    """
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)
    for handler in [one for one in root.handlers if type(one) is logging.StreamHandler]:
        root.removeHandler(handler)


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is in the environment."""
    for name in os.environ:
        if name.upper().startswith("ECNTWIN_"):
            monkeypatch.delenv(name)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Whether connections that this test has opened send small packets without waiting for an answer to those
    before, which may take 40 ms to come.
    """
    made: list[socket.socket] = []
    connect = socket.create_connection

    def connected(*args: Any, **more: Any) -> socket.socket:
        made.append(connect(*args, **more))
        return made[-1]

    monkeypatch.setattr(socket, "create_connection", connected)
    return lambda: bool(made) and all(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in made)


@pytest.fixture
def no_umask() -> Iterator[None]:
    """Whoever makes a file must say its mode: the umask takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder ``tests/data/reference``: problems measured packet by packet, with their truths.

    It is there on every clone. ``NAME.scenario.json``, ``NAME.flows.csv.gz`` and ``NAME.truth.json`` for NAME
    in ``websearch-16``, ``websearch-16-shallow``, ``incast-64``, ``steady-64``, ``parking-lot``,
    ``incast-burst-leafspine`` and ``published-2flow``; INT reports as ``websearch-16.int.ndjson.gz`` and
    ``incast-burst-leafspine.int.ndjson.gz`` (incumbent 400 000 / 1 600 000 / 0.2, one packet in 64) and
    ``parking-lot.int.ndjson.gz`` (one packet in 256). ``PROVENANCE.md`` says how they were measured.
    Read only: copy a file to ``tmp_path`` before changing it.
    """
    return REPOSITORY / "tests" / "data" / "reference"


@pytest.fixture(scope="session")
def example() -> Path:
    """The folder ``examples/websearch-16``: topology, scenario, reports and flows, as the demo reads them."""
    return REPOSITORY / "examples" / "websearch-16"
