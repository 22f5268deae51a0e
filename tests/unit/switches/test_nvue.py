"""Cumulus over NVUE: the exact calls, the states of a revision, and what is put back leaf by leaf."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from switches.adapter import Waiting
from switches.base import QueueWatermark
from switches.device import Device, Secret, UnitProfile
from switches.errors import (
    AccessError,
    BusyError,
    CapabilityError,
    InventoryError,
    ReadBackError,
    RefusedError,
    UnreachableError,
)
from switches.nvue import NvueAdapter
from tests.counterparts.switches.nvue_switch import NvueSwitch
from tests.unit.switches.adapters import Adapters
from twin.watermark import Watermark

FIRST = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)
TABLE = "/nvue_v1/qos/congestion-control/default-global/traffic-class"
APPLY = {"state": "apply", "auto-prompt": {"ays": "ays_yes"}}


@pytest.fixture
def switch() -> Iterator[NvueSwitch]:
    server = NvueSwitch(FIRST)
    yield server
    server.close()
    assert server.unexpected == []


class Switches(Adapters[NvueAdapter]):
    """Time passes for these in their pauses only."""

    def __init__(self, **usual: Any) -> None:
        super().__init__(self._waiting, platform="nvue", **usual)
        self.pauses: list[float] = []

    def _waiting(self, device: Device) -> NvueAdapter:
        waiting = Waiting(lambda: sum(self.pauses), self.pauses.append)
        return NvueAdapter(device, clock_ns=lambda: 7, waiting=waiting)


@pytest.fixture
def adapter(switch: NvueSwitch, credentials: dict[str, Secret]) -> Iterator[Switches]:
    switches = Switches(address=switch.url, **credentials)
    yield switches
    switches.close()


def changes(switch: NvueSwitch) -> list[tuple[str, str, dict[str, str], Any]]:
    return [
        (asked.method, asked.path, asked.query, asked.body) for asked in switch.asked if asked.method != "GET"
    ]


def test_a_change_is_a_revision_patched_and_applied(switch: NvueSwitch, adapter: Switches) -> None:
    here = adapter(queues=(3, 4))
    change = here.stage(NEW, "r1-a")
    assert changes(switch) == []
    here.apply(change)
    leaves = {"min-threshold": 50_000, "max-threshold": 200_000, "probability": 5, "ecn": "enable"}
    assert changes(switch) == [
        ("POST", "/nvue_v1/revision", {}, None),
        ("PATCH", TABLE, {"rev": "changeset/cumulus/1"}, {"3": leaves, "4": leaves}),
        ("PATCH", "/nvue_v1/revision/changeset%2Fcumulus%2F1", {}, APPLY),
    ]


def test_only_what_was_configured_is_put_back_and_the_rest_unset(
    switch: NvueSwitch, adapter: Switches
) -> None:
    """Class 3 was configured in part, class 4 not at all: hardware ran defaults for it."""
    switch.table["3"] = {"min-threshold": 400_000, "red": "disable"}
    del switch.table["4"]
    here = adapter(queues=(3, 4))
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    switch.asked.clear()
    with suppress(Exception):  # the stand-in has no defaults to return to
        here.rollback(change)
    nulls = {"max-threshold": None, "probability": None, "ecn": None}
    assert changes(switch)[1][3] == {"3": {"min-threshold": 400_000, **nulls}, "4": None}
    assert switch.table["3"] == {"min-threshold": 400_000, "red": "disable"}
    assert "4" not in switch.table


def test_a_queue_without_ecn_is_turned_on_and_off_again_in_the_releases_own_words(
    switch: NvueSwitch, adapter: Switches
) -> None:
    switch.set_by_hand(3, {"ecn": "disabled"})
    before = dict(switch.table["3"])
    here = adapter()
    assert here.read().queues == (QueueWatermark("default-global", 3, None),)
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    assert switch.hardware["3"]["ecn"] == "enabled"
    here.verify(change)
    here.rollback(change)
    assert switch.table["3"] == before


def test_without_an_operational_state_the_applied_configuration_is_read(
    switch: NvueSwitch, adapter: Switches
) -> None:
    switch.operational = False
    assert adapter().read().watermark == FIRST
    assert [asked.query["rev"] for asked in switch.asked] == ["operational", "applied"]


def test_a_probability_of_none_does_not_mark(switch: NvueSwitch, adapter: Switches) -> None:
    switch.set_by_hand(3, {"probability": 0})
    assert adapter().read().queues[0].watermark is None


@pytest.mark.parametrize("values", [{"min-threshold": "40000 B"}, {"min-threshold": 9, "max-threshold": 5}])
def test_what_is_no_curve_names_the_traffic_class(
    values: dict[str, Any], switch: NvueSwitch, adapter: Switches
) -> None:
    switch.set_by_hand(3, values)
    with pytest.raises(CapabilityError, match=r"'leaf1' .* traffic class 3"):
        adapter().read()
    del switch.hardware["3"]["min-threshold"]
    with pytest.raises(CapabilityError, match="traffic class 3"):
        adapter().read()


@pytest.mark.parametrize(
    ("state", "code", "message", "error"),
    [
        ("invalid", "config_invalid", "Config invalid at qos: no such profile\n", RefusedError),
        ("ays_fail", "client_timeout", "Timeout while waiting for client response", RefusedError),
        ("ays", "warning", "current applied config differs", RefusedError),
        ("invalid", "conflict", "changed in revision 7", BusyError),
    ],
)
def test_a_revision_that_fails_says_why_in_its_own_words(
    state: str, code: str, message: str, error: type[Exception], switch: NvueSwitch, adapter: Switches
) -> None:
    issue = {"0": {"code": code, "message": message, "severity": "error"}}
    switch.fails = {"state": state, "transition": {"issue": issue, "progress": ""}}
    here = adapter()
    change = here.stage(NEW, "r1-a")
    with pytest.raises(error, match=message.strip()):
        here.apply(change)
    assert switch.hardware["3"]["min-threshold"] == FIRST.kmin_bytes
    here.apply(change)  # a new revision: the one that failed is left
    assert switch.hardware["3"]["min-threshold"] == NEW.kmin_bytes


def test_a_revision_may_be_shown_within_its_own_name(switch: NvueSwitch, adapter: Switches) -> None:
    switch.wrapped = True
    here = adapter()
    here.apply(here.stage(NEW, "r1-a"))
    assert switch.hardware["3"]["min-threshold"] == NEW.kmin_bytes


def test_a_slow_apply_is_waited_for_and_not_for_ever(switch: NvueSwitch, adapter: Switches) -> None:
    switch.slow = 6
    here = adapter(settle_s=20.0)
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    here.verify(change)
    switch.slow = 1_000
    with pytest.raises(UnreachableError, match="is still 'apply' after 20 s"):
        here.rollback(change)
    assert sum(adapter.pauses) < 60


def test_an_apply_still_under_way_is_waited_for_before_it_is_undone(
    switch: NvueSwitch, adapter: Switches
) -> None:
    """Its answer was lost: hardware runs the old values now, and the new ones after a careless undo."""
    switch.slow = 4
    here = adapter()
    change = here.stage(NEW, "r1-a")
    calls = httpx.HTTPTransport()

    class Dying(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            answer = calls.handle_request(request)
            if request.method == "PATCH" and b"auto-prompt" in request.content:
                answer.close()
                raise httpx.ReadError("gone")
            return answer

        def close(self) -> None:
            calls.close()

    device = here._device
    dying = NvueAdapter(device, clock_ns=lambda: 7, transport=Dying())
    with pytest.raises(UnreachableError):
        dying.apply(change)
    dying.close()
    assert switch.hardware["3"]["min-threshold"] == FIRST.kmin_bytes
    here.rollback(change)
    assert switch.hardware["3"]["min-threshold"] == FIRST.kmin_bytes
    assert switch.table["3"]["min-threshold"] == FIRST.kmin_bytes
    assert not [name for name, shown in switch.revisions.items() if shown["state"] == "apply"]


def test_what_hardware_never_took_is_not_left_configured(switch: NvueSwitch, adapter: Switches) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    switch.ignoring = True
    here.apply(change)
    assert switch.table["3"]["min-threshold"] == NEW.kmin_bytes
    switch.ignoring = False
    here.rollback(change)
    assert switch.table["3"]["min-threshold"] == FIRST.kmin_bytes


def test_saving_is_the_operators_choice(switch: NvueSwitch, adapter: Switches) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    here.confirm(change)
    assert switch.saved == 0
    adapter(options={"save": True}).confirm(change)
    assert switch.saved == 1
    adapter(options={"save": True}).rollback(change)
    assert switch.saved == 2


def test_an_undo_cut_off_before_it_was_saved_is_saved_by_the_next_try(
    switch: NvueSwitch, adapter: Switches
) -> None:
    """The next start of the switch would bring back what was undone."""
    here = adapter(options={"save": True})
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    here.confirm(change)
    adapter().rollback(change)  # as far as a process came that died before it saved
    assert (switch.saved, switch.table["3"]["min-threshold"]) == (1, FIRST.kmin_bytes)
    here.rollback(change)
    assert switch.saved == 2


def test_403_is_the_default_password_mostly(credentials: dict[str, Secret]) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(403, json={"title": "Forbidden"}))
    device = Device(name="leaf1", platform="nvue", address="leaf1", **credentials)
    with pytest.raises(AccessError, match="change the default password of user cumulus") as caught:
        NvueAdapter(device, clock_ns=lambda: 7, transport=transport).read()
    assert "403 to GET /qos/congestion-control/default-global/traffic-class" in caught.value.received


def test_the_usual_address_is_https_on_8765(credentials: dict[str, Secret]) -> None:
    asked: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(200, json={})

    device = Device(
        name="leaf1", platform="nvue", address="leaf1", options={"profile": "RoCE pods"}, **credentials
    )
    with pytest.raises(CapabilityError, match="RoCE pods"):
        NvueAdapter(device, clock_ns=lambda: 7, transport=httpx.MockTransport(handler)).read()
    path = "/nvue_v1/qos/congestion-control/RoCE%20pods/traffic-class"
    assert asked == [f"https://leaf1:8765{path}?rev=operational", f"https://leaf1:8765{path}?rev=applied"]


def test_ports_need_a_profile_of_their_own(adapter: Switches) -> None:
    with pytest.raises(InventoryError, match="every port"):
        adapter(ports=("swp1",))
    adapter(ports=("swp1",), options={"profile": "pods"})


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"3"])
def test_something_else_that_listens_there_is_found_out(body: bytes, credentials: dict[str, Secret]) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body))
    device = Device(name="leaf1", platform="nvue", address="leaf1", **credentials)
    with pytest.raises(RefusedError, match="cannot be read"):
        NvueAdapter(device, clock_ns=lambda: 7, transport=transport).read()


def test_hardware_that_rounds_is_found_out_unless_the_inventory_knows_its_cells(
    switch: NvueSwitch, adapter: Switches
) -> None:
    switch.cell_bytes = 144
    switch.set_by_hand(3, {"min-threshold": 432_000, "max-threshold": 1_440_000})
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    with pytest.raises(ReadBackError, match="Kmin 49968"):
        here.verify(change)
    here.rollback(change)  # what is configured tells whose values these are
    assert switch.hardware["3"]["min-threshold"] == 432_000
    knowing = adapter(units=UnitProfile(thresholds="cells", cell_bytes=144))
    change = knowing.stage(NEW, "r1-b")
    assert change.after == Watermark(49_968, 199_872, 0.05)
    assert len(change.notes) == 2
    knowing.apply(change)
    assert knowing.verify(change).watermark == change.after
    knowing.rollback(change)
    with pytest.raises(InventoryError, match="bytes or cells"):
        adapter(units=UnitProfile(thresholds="percent"))


def test_a_default_profile_without_classes_does_not_mark(switch: NvueSwitch, adapter: Switches) -> None:
    switch.table.clear()
    switch.hardware.clear()
    here = adapter()
    change = here.stage(NEW, "r1-a")
    assert change.before[0].watermark is None
    here.apply(change)
    here.verify(change)
    here.rollback(change)
    assert switch.table == {}


@pytest.mark.parametrize(
    ("listed", "error", "says"),
    [
        ({"9": {"state": "apply"}}, UnreachableError, "revision 9 is still being applied"),
        (None, RefusedError, "no revision"),
    ],
)
def test_a_switch_that_cannot_start_a_revision_is_said(
    listed: dict[str, Any] | None, error: type[Exception], says: str, adapter: Switches
) -> None:
    """It is busy for ever; or it lists no revisions, which is done without, and makes none."""

    def handler(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/revision"):
            if request.method == "GET" and listed is None:
                return httpx.Response(405)
            return httpx.Response(200, json=listed or {})
        return httpx.Response(200, json=row)

    row = {"3": {"ecn": "enable", "min-threshold": 400_000, "max-threshold": 1_600_000, "probability": 20}}
    pauses: list[float] = []
    here = NvueAdapter(
        adapter()._device,
        clock_ns=lambda: 7,
        transport=httpx.MockTransport(handler),
        waiting=Waiting(lambda: sum(pauses), pauses.append),
    )
    with pytest.raises(error, match=says):
        here.apply(here.stage(NEW, "r1-a"))
