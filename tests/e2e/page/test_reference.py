"""The reference at ``/docs`` in a real browser: it is drawn, and nothing is asked of any other server."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from api.routes.page import reference
from tests.e2e.page.browsing import PATIENCE_MS, new_page
from tests.e2e.process import Served

pytestmark = pytest.mark.e2e


def test_the_reference_is_drawn_from_here_alone(browser: Browser, empty: Served) -> None:
    page = new_page(browser)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{empty.url}/docs")
    expect(page.locator(".opblock").first).to_be_visible(timeout=PATIENCE_MS)
    freeze = page.locator("#operations-rollouts-put_freeze")
    freeze.locator(".opblock-summary-control").first.click()
    expect(freeze.get_by_text("frozen").first).to_be_visible()
    freeze.get_by_role("button", name="Try it out").click()
    freeze.get_by_role("button", name="Execute").click()
    expect(freeze.locator(".live-responses-table .response .response-col_status").first).to_contain_text(
        "200", timeout=PATIENCE_MS
    )
    page.close()
    assert [one for one in said if not one.startswith(("log:", "info:", "debug:"))] == []
    elsewhere = [url for url in asked if not url.startswith((empty.url, "data:", "blob:"))]
    assert elsewhere == []


def test_the_viewer_is_as_its_makers_published_it() -> None:
    folder: Path = reference()
    listed = [
        line.split() for line in (folder / "VERSION").read_text("utf-8").splitlines() if "swagger-ui/" in line
    ]
    hashes = {name: digest for digest, name in (one for one in listed if len(one) == 2)}
    assert set(hashes) == {f"swagger-ui/{path.name}" for path in (folder / "swagger-ui").iterdir()}
    for name, digest in hashes.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
