"""Binary reports by UDP into a running service: its window, its metrics, and what it says over HTTP."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from api.app import create_app
from cli.main import app
from cli.output import run_to_exit_code
from settings.errors import SettingsError
from tests.integration.service import Running, Wanted, manual, running
from tests.unit.service.udp.sending import datagram, send

pytestmark = pytest.mark.anyio

LISTENING = {"udp": {"ports": 0}, "int": {"default_units": {"occupancy": "bytes"}}}


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def told(service: Running) -> dict[str, object]:
    document: dict[str, object] = (await service.client.get("/v1/telemetry/udp")).json()
    return document


async def test_reports_by_udp_are_in_the_state_and_counted() -> None:
    async with running(Wanted(manual(telemetry=LISTENING))) as one:
        udp = one.service.pipeline.udp
        assert udp is not None
        payloads = [datagram(number) for number in range(100)]
        send([*payloads[:40], b"\xff", *payloads[50:]], udp.addresses[0])
        await until(lambda: udp.taken == 91)
        assert await told(one) == {
            "addresses": list(udp.addresses),
            "received": 91,
            "taken": 91,
            "waiting": 0,
            "dropped": {"queue": 0, "kernel": 0, "refused": 0, "truncated": 0},
        }
        state = (await one.client.get("/v1/state")).json()
        assert state["reports"] == one.service.window.accepted == 90
        assert one.metric("ecntwin_int_datagrams_total", switch="7") == 90
        assert one.metric("ecntwin_int_datagrams_lost", switch="7") == 10
        assert one.metric("ecntwin_reports_rejected_total", reason="malformed") == 1
        await until(lambda: one.metric("ecntwin_udp_datagrams_received_total") == 91)
        assert (await one.client.get("/v1/readiness")).json()["ready"]


async def test_a_service_that_listens_to_none_says_so() -> None:
    async with running() as one:
        assert one.service.pipeline.udp is None
        assert (await told(one))["addresses"] == []


async def test_a_port_in_use_keeps_it_from_starting() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        settings = manual(telemetry={"udp": {"ports": taken.getsockname()[1]}})
        made = create_app(settings, registry=CollectorRegistry())
        with pytest.raises(SettingsError, match="which is in use"):
            async with made.router.lifespan_context(made):
                pass
        assert isinstance(made.state.failed, SettingsError)


def test_the_command_says_it_in_a_sentence(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECNTWIN_TELEMETRY__UDP__PORTS", "1")
    monkeypatch.setenv("ECNTWIN_TELEMETRY__UDP__HOST", "0.0.0.0")
    assert run_to_exit_code(app, ["serve", "--port", "0"]) == 2
    err = capfd.readouterr().err
    assert "UDP knows no tokens" in err
    assert "Traceback" not in err
