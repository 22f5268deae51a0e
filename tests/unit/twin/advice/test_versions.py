"""Versions of an artefact beside its file: the way back, and files that cannot be written or read."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.unit.twin.advice.test_guard import LEARNT
from twin.advice.artefact import SHIPPED, read
from twin.advice.versions import add, back, listed
from twin.errors import ParameterError


def in_use(file: Path) -> list[int]:
    return [one.number for one in listed(file) if one.in_use]


def test_going_back_leads_to_what_each_version_replaced(tmp_path: Path) -> None:
    file = tmp_path / "advice.json"
    assert [add(file, LEARNT), add(file, LEARNT)] == [1, 2]
    assert back(file) == 1
    assert add(file, LEARNT) == 3, "a number is never given twice"
    assert [one.number for one in listed(file)] == [1, 2, 3]
    assert in_use(file) == [3]
    assert back(file) == 1, "which 3 replaced, not 2"
    assert back(file) == 0
    assert file.read_bytes() == SHIPPED.read_bytes()
    assert in_use(file) == []


def test_a_file_that_was_no_version_becomes_one(tmp_path: Path) -> None:
    file = tmp_path / "advice.json"
    body = msgspec.json.encode(LEARNT)
    file.write_bytes(body)
    assert add(file, LEARNT) == 2
    assert back(file) == 1
    assert file.read_bytes() == body
    with pytest.raises(ParameterError, match="version 1; it replaced no other version"):
        back(file)


def test_nothing_is_put_in_use_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    file = tmp_path / "advice.json"
    for _ in range(2):
        add(file, LEARNT)
    body = file.read_bytes()
    (tmp_path / "advice-1.json").unlink()
    with pytest.raises(ParameterError, match=r"advice advice-1\.json: there is no such file"):
        back(file)
    assert file.read_bytes() == body
    (tmp_path / "advice-1.json").write_text("{")
    with pytest.raises(ParameterError, match=r"advice advice-1\.json"):
        add(file, LEARNT)
    assert file.read_bytes() == body
    with pytest.raises(ParameterError, match="it cannot be written"):
        add(tmp_path / "missing" / "advice.json", LEARNT)
    assert {one.name for one in tmp_path.iterdir()} == {"advice.json", "advice-1.json", "advice-2.json"}
    assert read(file).provenance["version"] == 2
