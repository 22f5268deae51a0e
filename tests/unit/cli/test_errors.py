"""Exit codes: 0 done, 2 bad input with one sentence, 1 anything else with one sentence and no trace."""

from __future__ import annotations

import pytest
import typer

from cli.output import exit_code, run_to_exit_code
from settings.errors import InputError, NotFoundError, SettingsError
from switches.errors import ReadBackError
from telemetry.errors import DecodeError
from twin.errors import SearchError, WatermarkError

PARTS = ("here", "this", "the rule", "the remedy")


@pytest.mark.parametrize("kind", [InputError, SettingsError, DecodeError, WatermarkError])
def test_what_the_caller_can_mend_is_2(kind: type[Exception]) -> None:
    assert exit_code(kind(*PARTS)) == 2


@pytest.mark.parametrize("kind", [SearchError, ReadBackError, NotFoundError])
def test_what_went_wrong_otherwise_is_1(kind: type[Exception]) -> None:
    assert exit_code(kind(*PARTS)) == 1


def app_that(raises: BaseException) -> typer.Typer:
    app = typer.Typer(add_completion=False)

    @app.command()
    def go() -> None:
        raise raises

    return app


def test_an_expected_error_is_its_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_to_exit_code(app_that(InputError(*PARTS)), []) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "ecntwin: here: received this; the rule; the remedy\n")


def test_every_mistake_in_settings_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    error = SettingsError(*PARTS)
    error.add_note("there: received that; another rule; another remedy")
    assert run_to_exit_code(app_that(error), []) == 2
    _, err = capsys.readouterr()
    assert err.splitlines() == [
        "ecntwin: here: received this; the rule; the remedy",
        "ecntwin: there: received that; another rule; another remedy",
    ]


def test_an_unexpected_error_is_one_sentence_without_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_to_exit_code(app_that(RuntimeError("a\nb")), []) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "RuntimeError: a b" in err


def test_a_wrong_option_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_to_exit_code(app_that(RuntimeError("never")), ["--nope"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "--nope" in err


def test_interruption_and_exit_keep_their_codes() -> None:
    assert run_to_exit_code(app_that(KeyboardInterrupt()), []) == 130
    assert run_to_exit_code(app_that(typer.Exit(5)), []) == 5
