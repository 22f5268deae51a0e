"""How an approval reaches the switches: what the settings must say of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.inventory.check import check_config
from settings.errors import SettingsError
from settings.load import load_settings
from switches.errors import UnknownAdapterError

pytestmark = pytest.mark.usefixtures("no_settings")


def written(tmp_path: Path, push: str) -> Path:
    path = tmp_path / "ecntwin.yaml"
    path.write_text(f"push: {push}\n", "utf-8")
    return path


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9000", "http://[::1]:9000/", "https://lab.example/one", "http://lab"]
)
def test_a_lab_is_found_by_its_url(tmp_path: Path, url: str) -> None:
    push = load_settings(written(tmp_path, f"{{adapter: lab, lab_url: '{url}'}}")).push
    assert (push.adapter, push.lab_url) == ("lab", url)


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:9000",
        "ftp://lab:21",
        "http://",
        "http://:9000",
        "http://lab:port",
        "http://lab:99999",
        "http://me:secret@lab:9000",
        "http://lab:9000/?x=1",
        "http://lab:9000/#x",
        "http://[::1",
        "",
    ],
)
def test_what_is_no_url_of_a_server_is_named(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(written(tmp_path, f"{{adapter: lab, lab_url: '{url}'}}"))
    assert "push.lab_url" in caught.value.where


def test_a_lab_without_its_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="the adapter lab needs lab_url"):
        load_settings(written(tmp_path, "{adapter: lab}"))


@pytest.mark.parametrize("every", ["0", "-1", ".nan"])
def test_switches_are_read_every_so_often(tmp_path: Path, every: str) -> None:
    with pytest.raises(SettingsError, match="read_every_s"):
        load_settings(written(tmp_path, f"{{read_every_s: {every}}}"))


def test_check_config_tells_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_config(written(tmp_path, "{adapter: lab, lab_url: 'http://127.0.0.1:9000'}"), as_json=False)
    assert "lab_url: http://127.0.0.1:9000" in capsys.readouterr().out
    for kind, remedy in (("carrier-pigeon", "name one of them"), ("sonic", "name the others in push.invent")):
        says = rf"settings push\.adapter: received '{kind}'; .* are of dry-run or lab.*; {remedy}"
        with pytest.raises(UnknownAdapterError, match=says):
            check_config(written(tmp_path, f"{{adapter: {kind}}}"), as_json=False)


def test_a_command_s_token_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECNTWIN_TOKEN", "open sesame")
    assert load_settings().push.adapter == "dry-run"
