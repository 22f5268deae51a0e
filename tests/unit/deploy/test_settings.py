"""The settings files of ``deploy/`` are true: the example names each setting, the others ask for tokens."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from api.deps import check_host
from service.auth.tokens import KnownTokens, digest_of
from settings.load import load_settings
from settings.model import Settings
from tests.unit.deploy.monitoring import ROOT

DEPLOY = ROOT / "deploy"
LASTING = [DEPLOY / "ecntwin.yaml", DEPLOY / "kubernetes/ecntwin.yaml"]


def keys(model: BaseModel, prefix: str = "") -> Iterator[str]:
    """The dotted name of every setting, as a file has it."""
    for name, field in type(model).model_fields.items():
        value, shown = getattr(model, name), f"{prefix}{field.alias or name}"
        if _is_section(field.annotation):
            yield from keys(value, f"{shown}.")
        else:
            yield shown


def _is_section(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def named(document: object, prefix: str = "") -> Iterator[str]:
    """The dotted name of everything in a document, and of all that holds it."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield f"{prefix}{key}"
            yield from named(value, f"{prefix}{key}.")


def tokens(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """New secrets, their hashes in the environment; the folder that they are in."""
    made = folder / "secrets"
    subprocess.run([DEPLOY / "new-secrets", made], check=True, capture_output=True)
    for line in (made / "ecntwin.env").read_text("utf-8").splitlines():
        name, _, value = line.partition("=")
        monkeypatch.setenv(name, value)
    return made


def test_the_example_names_every_setting() -> None:
    shown = set(named(yaml.safe_load((DEPLOY / "config.example.yaml").read_text("utf-8"))))
    assert set(keys(Settings())) - shown == {
        "dcqcn.parameters"
    }  # which excludes the preset: shown as a comment


@pytest.mark.parametrize("path", LASTING, ids=lambda path: path.parent.name)
def test_a_lasting_installation_asks_for_tokens_and_keeps_its_journal(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="configure a token"):
        check_host(load_settings(path).server.host, load_settings(path).security)
    tokens(tmp_path, monkeypatch)
    settings = load_settings(path)
    check_host(settings.server.host, settings.security)
    assert settings.storage.url == "sqlite:////var/lib/ecntwin/journal.db"
    assert not settings.push.enabled
    assert not settings.rollout.auto
    assert all(ip_network(one).is_private for one in settings.telemetry.udp.allow), "documentation's networks"


def test_new_secrets_open_what_they_should_and_no_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = tokens(tmp_path, monkeypatch)
    known = KnownTokens(load_settings().security.tokens)
    found = {
        name: known.find(digest_of((made / f"{name}-token").read_text("utf-8")), now_s=0.0)
        for name in ("operator", "collector", "prometheus")
    }
    scopes = {name: caller.scopes for name, caller in found.items() if caller is not None}
    assert scopes == {
        "operator": {"read", "operate", "admin"},
        "collector": {"telemetry"},
        "prometheus": {"read"},
    }
    assert made.stat().st_mode & 0o777 == 0o700
    texts = [path.read_text("utf-8") for path in made.iterdir() if path.suffix != ".env"]
    assert len(set(texts)) == 5
    assert all(len(text) == 48 for text in texts)
    given = (made / "ecntwin.env").read_text("utf-8")
    (password,) = (text for text in texts if text in given)  # the service asks for no token with it
    assert f"PGPASSWORD={password}\n" in given
    assert password == (made / "postgres-password").read_text("utf-8")


def test_secrets_that_are_there_are_kept(tmp_path: Path) -> None:
    made = tmp_path / "secrets"
    subprocess.run([DEPLOY / "new-secrets", made], check=True, capture_output=True)
    before = (made / "operator-token").read_bytes()
    again = subprocess.run([DEPLOY / "new-secrets", made], capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "there are secrets already" in again.stderr
    nowhere = [DEPLOY / "new-secrets", made / "none" / "made"]
    refused = subprocess.run(nowhere, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith("mkdir: ")
    assert "already" not in refused.stderr
    assert (made / "operator-token").read_bytes() == before
