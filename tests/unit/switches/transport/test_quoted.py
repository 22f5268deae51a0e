"""What is repeated of a switch's words: a short line, and no secret in whatever form it comes back."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switches.device import Device, Secret
from switches.errors import CredentialsError
from switches.transport.quoted import header_text, quoted

SECRET = 'tab\there  "and" a \\ é'


def device(monkeypatch: pytest.MonkeyPatch, secret: str = SECRET) -> Device:
    monkeypatch.setenv("THE_USER", "admin")
    monkeypatch.setenv("THE_SECRET", secret)
    return Device(
        name="leaf1", platform="any", username=Secret(env="THE_USER"), password=Secret(env="THE_SECRET")
    )


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        " ".join(SECRET.split()),
        repr(SECRET)[1:-1],
        json.dumps(SECRET)[1:-1],
        base64.b64encode(f"admin:{SECRET}".encode()).decode(),
    ],
    ids=["as it is", "folded", "as Python shows it", "in JSON", "as HTTP carries it"],
)
def test_a_secret_is_taken_out_in_every_form(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert quoted(device(monkeypatch), f"not {form}\nof admin") == "not *** of admin"


def test_a_secret_is_not_cut_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = quoted(device(monkeypatch, "0123456789" * 5), "x" * 290 + "0123456789" * 5)
    assert shown == "x" * 290 + "***"


def test_a_long_text_is_shortened() -> None:
    assert quoted(Device(name="leaf1", platform="any"), "x" * 10_000) == "x" * 300 + "…"


def test_what_a_terminal_would_obey_is_left_out() -> None:
    said = "no\x1b[2J\x1b]0;pwned\x07 way\u202e\x9b31m"
    assert quoted(Device(name="leaf1", platform="any"), said) == "no [2J ]0;pwned way 31m"


def test_a_secret_of_blanks_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert quoted(device(monkeypatch, "\t\t"), "no route") == "no route"


def test_a_secret_that_is_not_there_hides_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    here = device(monkeypatch)
    monkeypatch.delenv("THE_SECRET")
    assert quoted(here, "no route") == "no route"


@given(st.text())
def test_a_header_carries_printable_ascii_only(text: str) -> None:
    carried = text.isascii() and text.isprintable() and text.strip() == text
    if carried:
        assert header_text("switch token", text) == text
        return
    with pytest.raises(CredentialsError) as refused:
        header_text("switch token", text)
    assert len(text) < 12 or text not in str(refused.value)
