"""The webhook's adapter: the exact calls of its contract, and what it makes of a server that breaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from switches.adapter import Waiting
from switches.base import QueueWatermark
from switches.device import Device, Secret, UnitProfile
from switches.errors import CapabilityError, InventoryError, ReadBackError, RefusedError
from switches.webhook import WebhookAdapter
from tests.counterparts.switches.webhook_switch import NAME, PORTS, TOKEN, WebhookSwitch
from twin.watermark import Watermark

FIRST = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)


@pytest.fixture
def switch() -> Iterator[WebhookSwitch]:
    server = WebhookSwitch(FIRST)
    yield server
    server.close()
    assert server.unexpected == []


def adapter(switch: WebhookSwitch, monkeypatch: pytest.MonkeyPatch, **device: object) -> WebhookAdapter:
    monkeypatch.setenv("THE_TOKEN", TOKEN)
    usual = {
        "name": NAME,
        "address": switch.url,
        "ports": ("eth*",),
        "token": Secret(env="THE_TOKEN"),
        "timeout_s": 60.0,
    }
    described = Device(platform="webhook", **{**usual, **device})  # type: ignore[arg-type]
    return WebhookAdapter(described, clock_ns=lambda: 7)


def answering(body: object) -> WebhookAdapter:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=content))
    device = Device(name="leaf1", platform="webhook", address="http://127.0.0.1:9")
    return WebhookAdapter(device, clock_ns=lambda: 7, transport=transport)


def test_the_calls_are_those_of_the_contract(switch: WebhookSwitch, monkeypatch: pytest.MonkeyPatch) -> None:
    switch.queues["eth1", 3] = None
    here = adapter(switch, monkeypatch)
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    here.verify(change)
    here.rollback(change)
    at = "/switches/rack%201%2Fleaf1"
    puts = [asked for asked in switch.asked if asked.method == "PUT"]
    assert {(asked.method, asked.path) for asked in switch.asked} == {("GET", at), ("PUT", f"{at}/watermark")}
    assert all(asked.headers["content-type"] == "application/json" for asked in puts)
    new = {"queue": 3, "ecn": True, "kmin_bytes": 50_000, "kmax_bytes": 200_000, "pmax": 0.05}
    old = {"queue": 3, "ecn": True, "kmin_bytes": 400_000, "kmax_bytes": 1_600_000, "pmax": 0.2}
    assert [asked.body for asked in puts] == [
        {"change_id": "r1-a", "queues": [{"port": port, **new} for port in PORTS]},
        {
            "change_id": "r1-a/undo",
            "queues": [
                {"port": "eth0", **old},
                {"port": "eth1", "queue": 3, "ecn": False},
                {"port": "eth2", **old},
            ],
        },
    ]


def test_an_undo_goes_after_a_change_that_does_not_show_yet(
    switch: WebhookSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = adapter(switch, monkeypatch)
    change = here.stage(NEW, "r1-a")
    switch.waiting = []
    here.apply(change)
    for _ in range(2):
        here.rollback(change)
    switch.catch_up()
    assert set(switch.set_queues.values()) == {FIRST}
    assert switch.change_ids == ["r1-a", "r1-a/undo", "r1-a/undo"]


def test_queues_that_do_not_mark_are_read_as_such() -> None:
    off = [
        {"port": "a", "queue": 3, "ecn": False},
        {"port": "b", "queue": 3, "kmin_bytes": 5, "kmax_bytes": 9, "pmax": 0},
    ]
    assert answering({"queues": off}).read().queues == (
        QueueWatermark("a", 3, None),
        QueueWatermark("b", 3, None),
    )


def test_what_is_behind_it_may_hold_cells_or_coarse_steps(
    switch: WebhookSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = UnitProfile(thresholds="cells", cell_bytes=208)
    here = adapter(switch, monkeypatch, units=cells, options={"pmax_steps": 255})
    change = here.stage(NEW, "r1-a")
    assert change.after == Watermark(49_920, 199_888, 13 / 255)
    assert len(change.notes) == 3
    assert here.capabilities().units.name == "cells"


@pytest.mark.parametrize(
    ("device", "says"),
    [
        ({"units": UnitProfile(thresholds="cells")}, "cell_bytes"),
        ({"units": UnitProfile(thresholds="packets")}, "bytes, cells or percent"),
        ({"options": {"pmax": 3}}, "pmax_steps"),
        ({"options": {"pmax_steps": 0}}, "pmax_steps"),
        ({"address": ""}, "no address"),
    ],
)
def test_an_inventory_that_cannot_be_used_is_refused_at_once(device: dict[str, object], says: str) -> None:
    described = Device(**{"name": "leaf1", "platform": "webhook", "address": "http://127.0.0.1:9", **device})  # type: ignore[arg-type]
    with pytest.raises(InventoryError, match=says):
        WebhookAdapter(described, clock_ns=lambda: 7)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"\xff",
        [],
        {},
        {"queues": 3},
        {"queues": [{"port": "a"}]},
        {"queues": [{"port": "a", "queue": 3}]},
        {"queues": [{"port": "a", "queue": 3, "kmin_bytes": 1.5, "kmax_bytes": 9, "pmax": 0.1}]},
        {"queues": [{"port": "a", "queue": 3, "ecn": False}] * 2},
    ],
)
def test_a_server_that_answers_otherwise_is_found_out(body: object) -> None:
    with pytest.raises(RefusedError, match="cannot be read"):
        answering(body).read()


def test_a_curve_that_is_none_is_named_with_its_queue() -> None:
    row = {"port": "eth9", "queue": 3, "kmin_bytes": 9, "kmax_bytes": 5, "pmax": 0.1}
    with pytest.raises(CapabilityError, match="eth9 queue 3"):
        answering({"queues": [row]}).read()


def test_pmax_has_its_steps_also_where_thresholds_are_percents(
    switch: WebhookSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    percents = UnitProfile(thresholds="percent", buffer_bytes=2_000_000)
    here = adapter(switch, monkeypatch, units=percents, options={"pmax_steps": 255})
    assert here.stage(NEW, "r1-a").after == Watermark(40_000, 200_000, 13 / 255)


def test_a_server_without_the_queues_asked_for_is_refused_before_anything_is_set() -> None:
    with pytest.raises(CapabilityError, match="a change is about at least one egress queue"):
        answering({"queues": []}).stage(NEW, "r1-a")


def test_a_server_that_takes_its_time_is_waited_for() -> None:
    """It says yes, and shows the new values at the third question only."""
    shown = [FIRST, FIRST, FIRST, FIRST, NEW]

    def handler(request: httpx.Request) -> httpx.Response:
        mark = shown.pop(0) if len(shown) > 1 else shown[0]
        row = {
            "port": "a",
            "queue": 3,
            "kmin_bytes": mark.kmin_bytes,
            "kmax_bytes": mark.kmax_bytes,
            "pmax": mark.pmax,
        }
        return httpx.Response(200, json={} if request.method == "PUT" else {"queues": [row]})

    pauses: list[float] = []
    here = WebhookAdapter(
        Device(name="leaf1", platform="webhook", address="http://127.0.0.1:9", settle_s=20.0),
        clock_ns=lambda: 7,
        transport=httpx.MockTransport(handler),
        waiting=Waiting(lambda: sum(pauses), pauses.append),
    )
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    assert here.verify(change).watermark == NEW
    assert pauses
    change = here.stage(FIRST, "r1-b")
    with pytest.raises(ReadBackError, match="every queue must run"):
        here.verify(change)
    assert sum(pauses) == pytest.approx(20.0, abs=1.0)
