"""Secrets are read where they are when they are used, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from switches.device import Device, Secret
from switches.errors import CredentialsError

SECRET = "correct horse battery"  # it is what must not be shown


def test_a_variable_is_read_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret(env="LEAF1_PASSWORD")
    monkeypatch.setenv("LEAF1_PASSWORD", SECRET)
    assert secret.reveal("leaf1") == SECRET
    monkeypatch.setenv("LEAF1_PASSWORD", "rotated")
    assert secret.reveal("leaf1") == "rotated"


def test_a_file_s_first_line_is_the_secret_and_a_rotated_file_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text(f"  {SECRET}  \nnot this\n", "utf-8")
    secret = Secret(file=path)
    assert secret.reveal("leaf1") == SECRET
    path.write_text("rotated", "utf-8")
    assert secret.reveal("leaf1") == "rotated"


def test_what_is_named_and_not_there_is_said_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEAF1_PASSWORD", raising=False)
    empty, latin = tmp_path / "empty", tmp_path / "latin"
    empty.write_text("\nsecond line\n", "utf-8")
    latin.write_bytes(SECRET.encode() + b"\xff")
    for secret, says in (
        (Secret(env="LEAF1_PASSWORD"), r"\$LEAF1_PASSWORD"),
        (Secret(file=tmp_path / "gone"), "No such file"),
        (Secret(file=tmp_path), "directory"),
        (Secret(file=empty), "nothing in file"),
        (Secret(file=latin), "not UTF-8 text"),
        (Secret(), "a secret names env or file"),
    ):
        with pytest.raises(CredentialsError, match=says) as caught:
            secret.reveal("switch 'leaf1' password")
        assert caught.value.where == "switch 'leaf1' password"
        assert SECRET not in str(caught.value)


def test_neither_a_secret_nor_its_switch_shows_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAF1_PASSWORD", SECRET)
    path = tmp_path / "token"
    path.write_text(SECRET, "utf-8")
    for secret in (Secret(env="LEAF1_PASSWORD"), Secret(file=path)):
        device = Device(name="leaf1", platform="lab", password=secret, token=secret)
        assert device.credential("password") == SECRET
        for shown in (str(secret), repr(secret), str(device), repr(device), device.where):
            assert SECRET not in shown
        assert list(device.secrets()) == [SECRET, SECRET]
