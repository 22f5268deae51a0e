"""``ecntwin token`` beside a service that runs: the first one closes it, others come and go in seconds."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.process import PATIENCE_S, REPOSITORY, serving

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


class Commands:
    """Runs the command as a process of its own."""

    def __init__(self, config: Path) -> None:
        self._config = config

    def __call__(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "cli", "token", *arguments, "--config", str(self._config)],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout if code == 0 else done.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


def until(look: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not look():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "ecntwin.yaml"
    path.write_text("storage: {url: 'sqlite:///kept.db'}\ntuning: {enabled: false}\n", "utf-8")
    return path


def kept(config: Path) -> str:
    """The URL of the database that the settings name, for the service too."""
    return f"sqlite:///{config.parent / 'kept.db'}"


def test_tokens_come_and_go_while_the_service_runs(config: Path) -> None:
    token = Commands(config)
    with serving("--config", str(config), ECNTWIN_STORAGE__URL=kept(config)) as served:

        def status(text: str | None = None, method: str = "GET", path: str = "/v1/topology") -> int:
            headers = {} if text is None else {"Authorization": f"Bearer {text}"}
            return httpx.request(method, served.url + path, headers=headers, timeout=PATIENCE_S).status_code

        assert status() == 200, "no token, this machine only"
        made = token("create", "ada", "--scope", "read,operate,admin", "--expires", "90d").strip()
        assert made.startswith("ecntwin_")
        until(lambda: status() == 401)
        assert status(made) == 200
        until(lambda: any("from now on" in line for line in served.log))
        sink = token.json("create", "collector", "--scope", "telemetry")
        until(lambda: status(sink["token"], path="/v1/telemetry/udp") == 200)
        assert status(sink["token"]) == 403
        token("revoke", "collector")
        until(lambda: status(sink["token"], path="/v1/telemetry/udp") == 401)
        assert status(made) == 200
        answer = httpx.get(
            f"{served.url}/v1/audit", headers={"Authorization": f"Bearer {made}"}, timeout=PATIENCE_S
        )
        entries = answer.json()["entries"]
        assert [(one["what"], one["subject"]) for one in entries] == [
            ("token revoke", "collector"),
            ("token create", "collector"),
            ("token create", "ada"),
        ]
        assert all(one["who"].startswith("command:") for one in entries)

    listed = {one["name"]: one for one in token.json("list")["tokens"]}
    assert listed["ada"]["stands"] == "good"
    assert listed["ada"]["expires"] is not None
    assert listed["collector"]["stands"] == "revoked"
    table = token("list")
    assert "collector" in table
    assert made not in table
    token("revoke", "ada")
    with serving("--config", str(config), ECNTWIN_STORAGE__URL=kept(config)) as served:
        answer = httpx.get(f"{served.url}/v1/topology", timeout=PATIENCE_S)
        assert answer.status_code == 401, "every token has ended: nobody is let in without one"


def test_what_cannot_be_made_is_told_in_a_sentence(config: Path) -> None:
    token = Commands(config)
    assert "--scope" in token("create", "x", "--scope", "root", code=2)
    assert "--expires" in token("create", "x", "--scope", "read", "--expires", "soon", code=2)
    assert "not revoked yet" in token("revoke", "x", code=2)
    config.write_text("storage: {url: memory}\n", "utf-8")
    assert "kept in a database" in token("create", "x", "--scope", "read", code=2)
