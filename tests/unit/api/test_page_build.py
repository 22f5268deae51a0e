"""The built page is of the sources beside it, and asks for nothing that is not served here."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

import pytest

from api.routes.page import dashboard

WEB = Path(__file__).parents[3] / "web"
SCRIPTS_AND_STYLES = ("page.js", "page.css", "index.html")


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def built() -> dict[str, str]:
    document: dict[str, str] = json.loads((dashboard() / "build.json").read_text("utf-8"))["files"]
    return document


def test_it_is_built_from_the_present_sources() -> None:
    sources = sorted(
        path.relative_to(WEB).as_posix()
        for path in WEB.rglob("*")
        if path.is_file() and path.relative_to(WEB).parts[0] != "node_modules"
    )
    told = sha256("".join(f"{name}\0{digest(WEB / name)}\n" for name in sources).encode()).hexdigest()
    known = json.loads((dashboard() / "build.json").read_text("utf-8"))["sources"]
    assert told == known, "web/ has changed since the page was built: make page, and commit api/dashboard"


def test_nobody_has_edited_what_was_built(built: dict[str, str]) -> None:
    there = {path.name for path in dashboard().iterdir()} - {"build.json"}
    assert built == {name: digest(dashboard() / name) for name in there}


@pytest.mark.parametrize("name", SCRIPTS_AND_STYLES)
def test_nothing_is_asked_for_elsewhere(name: str) -> None:
    text = (dashboard() / name).read_text("utf-8")
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`)]*", text))
    assert {one for one in addresses if "www.w3.org" not in one} == set()  # names of XML are not addresses
    assert "sourceMappingURL" not in text


def test_the_page_has_neither_scripts_nor_styles_of_its_own() -> None:
    text = (dashboard() / "index.html").read_text("utf-8")
    assert re.search(r"<style|\sstyle=|\son\w+=", text) is None
    assert re.findall(r"<script(?![^>]*\ssrc=)", text) == []
    asked = re.findall(r'(?:src|href)="/assets/([^"]+)"', text)
    assert set(asked) >= {"page.js", "page.css", "icon.svg"}
    assert all((dashboard() / name).is_file() for name in asked)


def test_each_package_in_it_is_there_with_its_licence() -> None:
    licences = (dashboard() / "third-party-licences.txt").read_text("utf-8")
    wanted = json.loads((WEB / "package.json").read_text("utf-8"))["dependencies"]
    for name, version in wanted.items():
        assert re.search(rf"^{re.escape(name)} {re.escape(version)} \(", licences, re.MULTILINE), name
    assert "Permission is hereby granted" in licences


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text("utf-8"))
    for name, package in lock["packages"].items():
        assert "resolved" not in package or package["resolved"].startswith("https://registry.npmjs.org/"), (
            name
        )
        assert not name or "integrity" in package, name
