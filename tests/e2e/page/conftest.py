"""One browser and three services for all tests of the page; only what they set differs has one of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e.page.browsing import (
    ARGUMENTS,
    PATIENCE_MS,
    REVIEWED,
    SETTINGS,
    complaints_of,
    new_page,
    post_reports,
)
from tests.e2e.process import PATIENCE_S, Served, serving

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")  # the first takes a third of the time


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"no Chromium on this machine (Debian package {PROGRAMS[0]})")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=ARGUMENTS, timeout=PATIENCE_MS)
        yield started
        started.close()


@pytest.fixture(scope="package")
def empty() -> Iterator[Served]:
    """A service that never sees a report."""
    with serving(**SETTINGS) as started:
        yield started


@pytest.fixture(scope="package")
def measured(example: Path) -> Iterator[Served]:
    """A service that has seen the example, and runs no round."""
    with serving(**SETTINGS) as started:
        post_reports(started, example)
        yield started


@dataclass(frozen=True)
class Tuned:
    url: str
    found: dict[str, Any]


@pytest.fixture(scope="package")
def tuned(example: Path) -> Iterator[Tuned]:
    """A service that has measured the example and run one round on it, and what that recommends."""
    with serving(**REVIEWED, ECNTWIN_CONDITION__EVERY_S="1") as started:
        post_reports(started, example)
        answer = httpx.post(f"{started.url}/v1/tune", timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        yield Tuned(started.url, answer.json())


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of which the browser's log may hold no error."""
    opened = new_page(browser)
    complaints = complaints_of(opened)
    yield opened
    opened.close()
    assert complaints == []
