"""TLS on a real service: callers and commands check it, and show a certificate where it asks for one."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from cli.main import app
from cli.output import run_to_exit_code
from tests.counterparts.certificates import Authority
from tests.e2e.process import PATIENCE_S, serving

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SETTINGS = {"ECNTWIN_TUNING__ENABLED": "false", "ECNTWIN_STORAGE__URL": "memory"}


class Files:
    """An authority's certificate, a server's that it signed, and a caller's with its key in one file."""

    def __init__(self, folder: Path) -> None:
        authority, self.folder = Authority("a test's authority"), folder
        server, caller = authority.signed("127.0.0.1"), authority.signed("an operator")
        self.ca = self._written("ca.pem", authority.certificate)
        self.certificate = self._written("server.pem", server.certificate)
        self.key = self._written("server.key", server.key)
        self.caller = self._written("caller.pem", caller.certificate + caller.key)
        self.stranger = self._written("stranger.pem", Authority("somebody").certificate)

    def settings(self) -> dict[str, str]:
        return SETTINGS | {
            "ECNTWIN_SERVER__TLS_CERTIFICATE": str(self.certificate),
            "ECNTWIN_SERVER__TLS_KEY": str(self.key),
        }

    def trust(self, *, shown: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if shown:
            context.load_cert_chain(self.caller)
        return context

    def _written(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


class Terminal:
    """Runs commands in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        with self._monkeypatch.context() as patch:
            for name in ("ECNTWIN_CA", "ECNTWIN_CLIENT_CERTIFICATE", "ECNTWIN_URL", "ECNTWIN_TOKEN"):
                patch.delenv(name, raising=False)
            for name, value in environment.items():
                patch.setenv(name, value)
            code = run_to_exit_code(app, arguments)
        out, err = self._capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(monkeypatch, capsys)


def headers(answer: httpx.Response) -> Mapping[str, str]:
    assert answer.status_code == 200
    return answer.headers


def test_a_service_speaks_tls_and_commands_check_it(files: Files, terminal: Terminal) -> None:
    with serving(**files.settings()) as served:
        assert served.url.startswith("https://127.0.0.1:")
        told = headers(httpx.get(f"{served.url}/healthz", verify=files.trust(), timeout=PATIENCE_S))
        assert told["strict-transport-security"] == "max-age=31536000"
        with pytest.raises(httpx.ConnectError, match="certificate"):
            httpx.get(f"{served.url}/healthz", timeout=PATIENCE_S)
        with pytest.raises(httpx.HTTPError):
            httpx.get(served.url.replace("https", "http") + "/healthz", timeout=PATIENCE_S)
        old = files.trust()
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
        with (
            httpx.Client(verify=old, timeout=PATIENCE_S) as client,
            client.stream("GET", f"{served.url}/healthz") as answer,
        ):
            cipher = answer.extensions["network_stream"].get_extra_info("ssl_object").cipher()
        assert "GCM" in cipher[0] or "CHACHA20" in cipher[0]

        code, out, _ = terminal("freeze", "--json", "--url", served.url, "--ca", str(files.ca))
        assert (code, json.loads(out)["frozen"]) == (0, True)
        code, out, _ = terminal("thaw", "--json", "--url", served.url, ECNTWIN_CA=str(files.ca))
        assert (code, json.loads(out)["frozen"]) == (0, False)
        code, _, err = terminal("alarms", "--url", served.url)
        assert code == 1
        assert "certificate" in err.lower()
        code, _, err = terminal("alarms", "--url", served.url, "--ca", str(files.stranger))
        assert (code, "certificate" in err.lower()) == (1, True)
        code, _, err = terminal("alarms", "--url", served.url, "--ca", str(files.folder / "none.pem"))
        assert code == 2
        assert "--ca (or ECNTWIN_CA)" in err


def test_callers_show_a_certificate_where_that_is_asked(files: Files, terminal: Terminal) -> None:
    with serving(**files.settings(), ECNTWIN_SERVER__TLS_CLIENT_CA=str(files.ca)) as served:
        headers(httpx.get(f"{served.url}/healthz", verify=files.trust(shown=True), timeout=PATIENCE_S))
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{served.url}/healthz", verify=files.trust(), timeout=PATIENCE_S)
        known = {"ECNTWIN_CA": str(files.ca)}
        assert terminal("alarms", "--url", served.url, **known)[0] == 1
        shown = known | {"ECNTWIN_CLIENT_CERTIFICATE": str(files.caller)}
        assert terminal("alarms", "--url", served.url, **shown)[0] == 0
        wrong = known | {"ECNTWIN_CLIENT_CERTIFICATE": str(files.ca)}
        code, _, err = terminal("alarms", "--url", served.url, **wrong)
        assert code == 2
        assert "ECNTWIN_CLIENT_CERTIFICATE" in err


def test_check_config_tells_of_the_certificate(files: Files, terminal: Terminal, tmp_path: Path) -> None:
    config = tmp_path / "ecntwin.yaml"
    config.write_text("server: {tls_certificate: server.pem, tls_key: server.key}\n", "utf-8")
    code, out, _ = terminal("check-config", str(config))
    assert code == 0
    assert "certificate of 127.0.0.1 ends in 1 days" in out
    code, out, _ = terminal("check-config", str(config), "--json")
    assert json.loads(out)["certificate"]["names"] == ["127.0.0.1"]
    files.certificate.write_bytes(Authority("x").signed("127.0.0.1", days=-3).certificate)
    code, _, err = terminal("check-config", str(config))
    assert code == 2
    config.write_text("server: {tls_key: server.key}\n", "utf-8")
    code, _, err = terminal("check-config", str(config))
    assert code == 2
    assert "tls_key needs tls_certificate; give tls_certificate too" in err
