"""YAML that people write: what is wrong is told with its line, and the line is never repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from settings.errors import SettingsError
from settings.load import read_yaml


def read(tmp_path: Path, text: str) -> dict[str, object]:
    path = tmp_path / "x.yaml"
    path.write_text(text, "utf-8")
    return read_yaml(path, "inventory")


def test_an_empty_file_is_an_empty_mapping(tmp_path: Path) -> None:
    assert read(tmp_path, "# nothing\n") == {}


def test_anchors_and_merges_are_yaml_as_ever(tmp_path: Path) -> None:
    found = read(tmp_path, "a: &a {x: 1}\nb:\n  <<: *a\n  y: 2\n")
    assert found["b"] == {"x": 1, "y": 2}


def test_what_is_no_yaml_is_told_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"received text that is not YAML at line \d, column \d \(.*end of the"
    ):
        read(tmp_path, "tuning: {a: [1,\n")


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "s:\n  leaf1: {}\n  leaf1: {}\n", "{q: {a: 1, 'a': 2}}"])
def test_a_key_given_twice_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match=r"key '(a|leaf1)' twice at line"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        "password: *hunter2",
        "password: !hunter2 x",
        "password: !hunter2!x y",
        "password: 'hunter2",
        'password: "hunter2\\q"',
        "password: hunter2: x",
        "password: [hunter2",
        "password: {hunter2",
        "password: hunter2\n\tx: y",
        "password: |hunter2",
        "password: @hunter2",
        "? {hunter2: x}\n: y",
    ],
)
def test_no_message_repeats_what_a_line_holds(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, text)
    assert "hunter2" not in str(caught.value)
    assert "x.yaml" in caught.value.where


@pytest.mark.parametrize(
    "text", ["when: 2001-99-99", "deep: " + "[" * 5_000, "n: 0x_", "{[1]: 2}", "null: 1", "- 1"]
)
def test_what_is_no_document_is_one_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError):
        read(tmp_path, text)


def test_a_character_yaml_does_not_know_is_told_by_its_number(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="#x0007"):
        read(tmp_path, "a: \x07")


def test_a_missing_file_and_a_binary_one_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="readable"):
        read_yaml(tmp_path / "none.yaml", "inventory")
    with pytest.raises(SettingsError, match="readable"):
        read_yaml(tmp_path, "inventory")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="UTF-8"):
        read_yaml(tmp_path / "b.yaml", "inventory")
