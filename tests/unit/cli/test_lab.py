"""``ecntwin lab``: options that mean nothing are one sentence and exit code 2, before anything starts."""

from __future__ import annotations

import pytest

from cli import main
from cli.client import bearer_token, checked_url
from cli.lab import host_and_port
from cli.main import app
from cli.output import run_to_exit_code
from service.tuning.recordings import parse_watermark
from settings.errors import InputError
from settings.model import Settings
from settings.validation import TOKEN_VARIABLE
from twin.search.vendor_table import DEFAULT_WATERMARK


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--listen", "9000"], "HOST:PORT"),
        (["--listen", "127.0.0.1:http"], "HOST:PORT"),
        (["--listen", "127.0.0.1:70000"], "HOST:PORT"),
        (["--watermark", "5,4,0.1"], "Kmin must be below Kmax"),
        (["--watermark", "lots"], "KMIN,KMAX,PMAX"),
        (["--watermark", "64KB,256KB"], "KMIN,KMAX,PMAX"),
        (["--traffic", "carrier-pigeons"], "carrier-pigeons"),
        (["--duration", "0"], "--duration"),
        (["--duration", "a while"], "--duration"),
        (["--pace", "0"], "--pace"),
        (["--pace", "inf"], "--pace"),
        (["--epoch-ns", "99999999999999999999999"], "--epoch-ns"),
        (["--pace", "1", "--step"], "drop one of them"),
        (["--leaves", "0"], "n_leaves"),
        (["--hosts", "1", "--leaves", "1", "--spines", "0"], "2 to"),
        (["--buffer", "10"], "buffer_bytes"),
        (["--buffer", "4XB"], "'4XB'; it is a number, which may end in B, KB, MB, GB"),
        (["--dcqcn", "nobody"], "--dcqcn"),
        (["--scenario", "nowhere.json"], "nowhere.json"),
        (["--scenario", "a.json", "--topology", "b.json"], "give one of them"),
        (["--post-to", "127.0.0.1:8080"], "--post-to"),
        (["--post-to", "http://me:secret@127.0.0.1:8080"], "without a user name"),
        (["--int-udp", "127.0.0.1"], "--int-udp"),
        (["--int-udp", "127.0.0.1:0"], "a port from 1 to 65535"),
        (["--write-inventory", "nowhere/lab.yaml"], "--listen"),
        (["--write-inventory", "nowhere/lab.yaml", "--listen", "127.0.0.1:9000"], "nowhere/lab.yaml"),
        (["--sampling-rate", "2"], "sampling-rate"),
        (["--seed", "-1"], "seed"),
    ],
)
def test_a_mistake_is_a_sentence(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_to_exit_code(app, ["lab", "--listen", "127.0.0.1:0", "--duration", "1ms", *arguments])
    out, err = capsys.readouterr()
    assert (code, out) == (2, ""), err
    assert says in err
    assert err.count("\n") == 1


def test_addresses() -> None:
    for text, found in (("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:9000", ("::1", 9000))):
        assert host_and_port("--listen", text, least=0, such_as="127.0.0.1:9000") == found


@pytest.mark.parametrize("text", ["http://lab:99999", "http://[::1", "lab:9000", "", "http://x/?y"])
def test_a_service_has_a_url(text: str) -> None:
    with pytest.raises(InputError):
        checked_url(text, "--post-to")


def test_a_token_fits_a_header_and_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "open-sesame")
    assert bearer_token() == "open-sesame"
    monkeypatch.delenv(TOKEN_VARIABLE)
    assert bearer_token() is None
    for text in ("sésame", "open\nsesame"):
        monkeypatch.setenv(TOKEN_VARIABLE, text)
        with pytest.raises(InputError) as caught:
            bearer_token()
        assert text not in str(caught.value)


def test_the_default_of_the_command_line_is_the_default_incumbent() -> None:
    assert parse_watermark(main.DEFAULT_WATERMARK, "--watermark") == DEFAULT_WATERMARK
    assert Settings().incumbent.default.watermark() == DEFAULT_WATERMARK
