"""The example server of the webhook contract, run as its head says, under the adapter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from switches.device import Device, Secret
from switches.errors import AccessError, RefusedError
from switches.webhook import WebhookAdapter
from twin.watermark import Watermark

SERVER = Path(__file__).resolve().parents[2] / "examples" / "webhook_server.py"
TOKEN = "the-hook's-own"
PATIENCE_S = 60.0


@pytest.fixture
def url() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, str(SERVER), "0"],
        env={**os.environ, "HOOK_TOKEN": TOKEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def adapter(url: str, **device: object) -> WebhookAdapter:
    usual = {"name": "leaf1", "address": url, "token": Secret(env="THE_TOKEN")}
    usual |= {"timeout_s": PATIENCE_S, "settle_s": PATIENCE_S}
    described = Device(platform="webhook", **{**usual, **device})  # type: ignore[arg-type]
    return WebhookAdapter(described, clock_ns=lambda: 7)


def test_the_example_keeps_the_contract(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_TOKEN", TOKEN)
    here = adapter(url)
    before = here.read()
    assert before.watermark == Watermark(400_000, 1_600_000, 0.2)
    one = adapter(url, ports=("Ethernet1",))
    first = one.stage(Watermark(5_000, 6_000, 0.5), "r1-a")
    one.apply(first)
    assert here.read().watermark is None
    both = here.stage(Watermark(50_000, 200_000, 0.05), "r2-a")
    for _ in range(2):
        here.apply(both)
    assert here.verify(both).watermark == both.after
    here.rollback(both)
    one.rollback(first)
    assert here.read().queues == before.queues


def test_the_example_refuses_what_is_not_in_the_contract(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_TOKEN", "another")
    with pytest.raises(AccessError, match="not this server's"):
        adapter(url).read()
    monkeypatch.setenv("THE_TOKEN", TOKEN)
    with pytest.raises(RefusedError, match=r"404 .*no switch at /switches/spine9"):
        adapter(url, name="spine9").read()
    head = {"Authorization": f"Bearer {TOKEN}"}
    foreign = {"change_id": "r1-a", "queues": [{"port": "Ethernet9", "queue": 3, "ecn": False}]}
    for body in (foreign, {}, [], {"queues": [3]}):
        answer = httpx.put(f"{url}/switches/leaf1/watermark", json=body, headers=head, timeout=PATIENCE_S)
        assert answer.status_code == 400
    assert httpx.delete(f"{url}/switches/leaf1", headers=head, timeout=PATIENCE_S).status_code == 501
