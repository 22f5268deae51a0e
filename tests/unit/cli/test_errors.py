"""Exit codes: 0 done, 2 bad input with one sentence, 1 anything else with one sentence and no trace."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from io import BytesIO, TextIOWrapper

import pytest
import typer

from cli.main import app as real
from cli.output import LINE_EVERY_S, ProgressLines, console, exit_code, run_to_exit_code
from settings.errors import AwayError, InputError, NotFoundError, RefusedError, SettingsError
from switches.errors import CredentialsError, InventoryError, ReadBackError, UnknownAdapterError
from telemetry.errors import DecodeError
from twin.errors import SearchError, WatermarkError
from twin.search.round import Progress

PARTS = ("here", "this", "the rule", "the remedy")


@pytest.mark.parametrize(
    "kind",
    [
        *(InputError, SettingsError, DecodeError, WatermarkError, RefusedError),
        *(InventoryError, CredentialsError, UnknownAdapterError),
    ],
)
def test_what_the_caller_can_mend_is_2(kind: type[Exception]) -> None:
    assert exit_code(kind(*PARTS)) == run_to_exit_code(app_that(kind(*PARTS)), []) == 2


@pytest.mark.parametrize("kind", [SearchError, ReadBackError, NotFoundError, AwayError])
def test_what_went_wrong_otherwise_is_1(kind: type[Exception]) -> None:
    assert exit_code(kind(*PARTS)) == run_to_exit_code(app_that(kind(*PARTS)), []) == 1


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


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tune"], "ecntwin: tune: missing option '--reports'; ecntwin tune --help shows what it takes\n"),
        (["rollouts", "--limit", "0"], "ecntwin: rollouts --limit: received '0'; input should be greater"),
        (["flows", "--class", "cow"], "ecntwin: flows --class: received 'cow'; 'cow' is not one of 'mouse'"),
        (["whatif", "--seed", str(2**63)], "ecntwin: whatif --seed: received '9223372036854775808'; input"),
        (["tune", "--bogus"], "ecntwin: tune: no such option: --bogus"),
        (["bogus"], "ecntwin: no such command 'bogus'; ecntwin --help shows what it takes\n"),
        *(
            (
                ["alarms", *before, *behind],
                f"ecntwin: alarms {before[0]}: {behind[0]} reads only the options behind it; move it there",
            )
            for before, behind in (
                (["--url", "http://other:1"], ["silences"]),
                (["--ca", "ca.pem"], ["ack", "a1"]),
                (["--json"], ["unsilence", "s1"]),
                (["--limit", "3"], ["silence", "--for", "4h"]),
            )
        ),
        (["demo", "--serve", "--quick"], "ecntwin: --serve: cannot be combined with --json, --quick"),
    ],
)
def test_a_mistake_in_a_command_says_where_and_how_to_go_on(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_to_exit_code(real, arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(says)


def test_help_for_nothing_given_is_all_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_to_exit_code(real, ["token"]) == 2
    out, err = capsys.readouterr()
    assert "Usage: ecntwin token" in out + err
    assert "ecntwin: " not in err


@pytest.mark.parametrize(("encoding", "shown"), [("latin-1", b"? \xb5 ?"), ("utf-8", "– µ ?".encode())])
def test_what_a_locale_cannot_show_is_a_question_mark(
    encoding: str, shown: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = typer.Typer(add_completion=False)
    app.command()(lambda: console().print("– µ \ud800"))
    out = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(out, encoding=encoding))
    assert run_to_exit_code(app, []) == 0
    assert out.getvalue().rstrip() == shown


@pytest.mark.parametrize(
    ("steps", "lines"),
    [
        ([("a", 0, 9), ("a", 1, 9), ("b", 0, 2)], ["a: 0 of 9", "b: 0 of 2"]),
        ([("a", 0, 9), ("slow", 0, 9), ("slow", 4, 9)], ["a: 0 of 9", "slow: 0 of 9", "slow: 4 of 9"]),
    ],
)
def test_progress_is_a_line_a_stage_and_now_and_then_one_more(
    steps: list[tuple[str, int, int]], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = [0.0]
    progress = ProgressLines(lambda: now_s[0])
    for stage, done, total in steps:
        now_s[0] += LINE_EVERY_S if stage == "slow" else LINE_EVERY_S / 10
        progress(Progress(stage, done, total))
    assert capsys.readouterr().err.splitlines() == [f"ecntwin: {line}" for line in lines]


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


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (MemoryError("Unable to allocate 164. MiB for an array with shape (9,)"), "another 164 MiB"),
        (MemoryError("Unable to allocate 1.50 GiB for an array with shape (9,)"), "another 1.50 GiB"),
        (MemoryError(), "what it needs"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "what it needs"),
        (RuntimeError("can't start new thread"), "another thread"),
    ],
)
def test_no_memory_is_not_called_a_bug(
    error: Exception, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_to_exit_code(app_that(error), []) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"ecntwin: {what} does not fit into memory, which has to hold the fabric")
    assert "use fewer hosts, a shorter duration or fewer reports" in err
    assert "bug" not in err


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_not_called_a_bug(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_to_exit_code(app_that(OSError(number, "No space left on device")), []) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("ecntwin: no space is left on the device")


def test_a_wrong_option_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_to_exit_code(app_that(RuntimeError("never")), ["--nope"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "--nope" in err


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["--help"], ["alarms", "--help"]])
def test_a_reader_that_closes_the_pipe_is_no_error(arguments: list[str], unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "cli", *arguments],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_command_that_ended_keeps_its_code_where_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer(add_completion=False)

    @app.command()
    def go() -> None:
        sys.stdout.write("what nobody reads")
        raise typer.Exit(1)

    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        assert run_to_exit_code(app, []) == 1


def test_interruption_and_exit_keep_their_codes() -> None:
    assert run_to_exit_code(app_that(KeyboardInterrupt()), []) == 130
    assert run_to_exit_code(app_that(typer.Exit(5)), []) == 5


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("arguments", "code"), [("version", 0), ("version --bogus", 2), ("decode -", 2)])
def test_a_process_without_a_standard_stream_ends_as_others(arguments: str, code: int, closed: str) -> None:
    command = f"{sys.executable} -m cli {arguments} {'' if '<' in closed else '</dev/null'} {closed}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "bug" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_failure_keeps_its_code_where_nobody_reads_why(unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "cli", "version", "--bogus"],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stderr=writer,
            check=False,
        )
    finally:
        os.close(writer)
    assert done.returncode == 2
