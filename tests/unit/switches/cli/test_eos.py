"""Arista over eAPI: the exact requests, no session left behind, and where a watermark is found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import httpx
import pytest

from switches.cli.eos import EosAdapter
from switches.device import Secret, UnitProfile
from switches.errors import (
    AccessError,
    BusyError,
    CapabilityError,
    ConcurrentEditError,
    GoneError,
    InventoryError,
    ReadBackError,
    RefusedError,
    SwitchError,
    UnreachableError,
)
from tests.counterparts.switches.eos_switch import PORTS, PROFILE, EosSwitch, line_of
from tests.unit.switches.adapters import Adapters
from twin.watermark import Watermark

FIRST = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)
OTHER = Watermark(700_000, 900_000, 0.9)


@pytest.fixture(params=[True, False], ids=["4.32", "4.31"])
def switch(request: pytest.FixtureRequest) -> Iterator[EosSwitch]:
    server = EosSwitch(FIRST, modern=request.param)
    yield server
    server.close()
    assert server.unexpected == []


Switches = Adapters[EosAdapter]


@pytest.fixture
def adapter(switch: EosSwitch, credentials: dict[str, Secret]) -> Iterator[Switches]:
    switches = Switches(
        lambda device: EosAdapter(device, clock_ns=lambda: 7),
        platform="eos",
        address=switch.url,
        ports=("Ethernet?/1",),
        **credentials,
    )
    yield switches
    switches.close()


def commands(switch: EosSwitch) -> list[list[str]]:
    """What was run since the last time, the reading aside."""
    found = [asked.body["params"]["cmds"][1:] for asked in switch.asked]
    switch.asked.clear()
    return [run for run in found if not run[0].startswith("show ")]


def test_a_change_is_one_session_under_a_timer_confirmed_by_name(
    switch: EosSwitch, adapter: Switches
) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    assert commands(switch) == [
        [
            "configure session ecntwin-r1-a",
            "qos profile ROCE",
            "uc-tx-queue 3",
            "random-detect ecn minimum-threshold 50000 bytes maximum-threshold 200000 bytes"
            " max-mark-probability 5 weight 0",
            "exit",
            "exit",
            "commit timer 00:05:00",
        ]
    ]
    here.confirm(change)
    assert commands(switch) == [["configure session ecntwin-r1-a commit"]]
    here.rollback(change)
    assert commands(switch) == [
        [
            "configure session ecntwin-r1-a.2",
            "qos profile ROCE",
            "uc-tx-queue 3",
            line_of(FIRST),
            "exit",
            "exit",
            "commit",
        ]
    ]
    assert switch.saved == 0


def test_a_request_is_eapis_json_rpc_with_basic_authentication(switch: EosSwitch, adapter: Switches) -> None:
    adapter().read()
    (asked,) = switch.asked
    assert (asked.method, asked.path, asked.query) == ("POST", "/command-api", {})
    assert asked.headers["authorization"].startswith("Basic ")
    assert asked.body == {
        "jsonrpc": "2.0",
        "method": "runCmds",
        "params": {
            "version": 1,
            "cmds": [
                "enable",
                "show running-config section qos profile",
                "show running-config section interface",
            ],
            "format": "text",
        },
        "id": "ecntwin",
    }


def test_an_unconfirmed_change_is_aborted(switch: EosSwitch, adapter: Switches) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    commands(switch)
    here.rollback(change)
    assert commands(switch) == [["configure session ecntwin-r1-a abort"]]
    assert switch.line(3) == line_of(FIRST)


def test_a_line_that_was_in_other_words_is_put_back_in_them(switch: EosSwitch, adapter: Switches) -> None:
    """In segments, with a weight: neither is in a watermark."""
    old = (
        "random-detect ecn minimum-threshold 2000 segments maximum-threshold 10000 segments"
        " max-mark-probability 20 weight 7"
    )
    switch.set_by_hand(3, old)
    here = adapter(units=UnitProfile(cell_bytes=208))
    change = here.stage(NEW, "r1-a")
    assert change.ran == Watermark(416_000, 2_080_000, 0.2)
    here.apply(change)
    assert switch.line(3) == line_of(NEW, weight=7)
    here.confirm(change)
    here.rollback(change)
    assert switch.line(3) == old


def test_a_switch_that_counts_in_segments_is_written_in_segments(
    switch: EosSwitch, adapter: Switches
) -> None:
    here = adapter(units=UnitProfile(thresholds="segments", cell_bytes=208))
    change = here.stage(NEW, "r1-a")
    assert change.after == Watermark(240 * 208, 961 * 208, 0.05)
    here.apply(change)
    assert "minimum-threshold 240 segments maximum-threshold 961 segments" in (switch.line(3) or "")
    here.verify(change)


def test_a_queue_that_did_not_mark_does_not_again(switch: EosSwitch, adapter: Switches) -> None:
    switch.set_by_hand(3, None)
    here = adapter()
    change = here.stage(NEW, "r1-a")
    assert change.before[0].watermark is None
    here.apply(change)
    here.verify(change)
    here.confirm(change)
    here.rollback(change)
    assert switch.line(3) is None


def test_a_session_left_open_by_a_crash_is_thrown_away_first(switch: EosSwitch, adapter: Switches) -> None:
    """It holds the whole configuration as it was then: committing it would undo what anybody did since."""
    here = adapter()
    change = here.stage(NEW, "r1-a")
    switch.refuses = "commit"
    cut_off = EosAdapter(
        here._device, clock_ns=lambda: 7, transport=Cutting("abort")
    )  # refused, and dead before it can clean up
    with suppress(UnreachableError, RefusedError):
        cut_off.apply(change)
    cut_off.close()
    assert switch.sessions == {"ecntwin-r1-a": "pending"}
    switch.refuses = None
    switch.running["hostname spine9"] = {}
    commands(switch)
    here.apply(change)
    assert commands(switch)[0] == ["configure session ecntwin-r1-a abort"]
    assert "hostname spine9" in switch.running
    assert switch.waiting == "ecntwin-r1-a.2"


def test_a_refused_line_leaves_no_session_open(switch: EosSwitch, adapter: Switches) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    switch.refuses = "random-detect"
    with pytest.raises(RefusedError, match=r"CLI command 5 of 8 .*Invalid input \(at token 1\)"):
        here.apply(change)
    assert switch.sessions == {"ecntwin-r1-a": "aborted"}
    assert switch.line(3) == line_of(FIRST)


def test_somebody_elses_timer_is_left_to_run(switch: EosSwitch, adapter: Switches) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    other = here.stage(FIRST, "r2-b")
    here.apply(here.stage(OTHER, "theirs"))
    switch.set_by_hand(3, line_of(FIRST))
    with pytest.raises(BusyError, match="session ecntwin-theirs waits"):
        here.apply(change)
    here.confirm(other)
    here.rollback(other)
    assert switch.waiting == "ecntwin-theirs"


def test_an_undo_that_somebody_elses_timer_keeps_off_is_tried_again(
    switch: EosSwitch, adapter: Switches
) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    here.confirm(change)
    switch.waiting, switch.checkpoint = "ops", deepcopy(switch.running)
    switch.sessions["ops"] = "committed" if switch.modern else "pendingCommitTimer"
    with pytest.raises(BusyError, match="session ops waits"):
        here.rollback(change)
    assert switch.line(3) == line_of(NEW)
    switch.expire()
    here.rollback(change)
    assert switch.line(3) == line_of(FIRST)


def test_an_undo_within_the_timer_keeps_what_others_set_meanwhile(
    switch: EosSwitch, adapter: Switches
) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    switch.set_by_hand(3, line_of(OTHER))
    with pytest.raises(ConcurrentEditError):
        here.rollback(change)
    switch.expire()  # nothing waits any more: their values stay
    assert switch.line(3) == line_of(OTHER)


@pytest.mark.parametrize("unit", ["milliseconds", "segments"])
def test_an_undo_within_the_timer_keeps_also_what_it_cannot_read(
    switch: EosSwitch, adapter: Switches, unit: str
) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    theirs = (
        f"random-detect ecn minimum-threshold 1 {unit} maximum-threshold 2 {unit}"
        " max-mark-probability 5 weight 0"
    )
    switch.set_by_hand(3, theirs)
    with suppress(SwitchError):
        here.rollback(change)
    switch.expire()
    assert switch.line(3) == theirs
    with pytest.raises(ConcurrentEditError, match=unit):
        here.rollback(change)  # it is left alone, and not tried again for ever


def test_an_undo_within_the_timer_does_not_look_at_other_queues(switch: EosSwitch, adapter: Switches) -> None:
    """Confirming the change for what stands elsewhere would leave it, without the timer."""
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    line = line_of(OTHER).replace("bytes", "milliseconds")
    switch.running["qos profile LAB"] = {"uc-tx-queue 3": {line: {}}}
    switch.running["interface Ethernet3/1"] = {"service-profile LAB": {}}
    commands(switch)
    here.rollback(change)
    assert ["configure session ecntwin-r1-a abort"] in commands(switch)
    assert (switch.line(3), switch.waiting) == (line_of(FIRST), None)


def test_marking_that_somebody_has_turned_off_stays_off(switch: EosSwitch, adapter: Switches) -> None:
    """The queue's section is shown no more once it is empty."""
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    here.confirm(change)
    del switch.running[f"qos profile {PROFILE}"]["uc-tx-queue 3"]
    with pytest.raises(ConcurrentEditError):
        here.rollback(change)
    assert switch.line(3) is None


def test_a_profile_that_others_have_put_another_in_the_place_of_ends_the_undo(
    switch: EosSwitch, adapter: Switches
) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    here.confirm(change)
    switch.running["qos profile MINE"] = switch.running.pop(f"qos profile {PROFILE}")
    for port in PORTS:
        switch.running[f"interface {port}"] = {"service-profile MINE": {}}
    theirs = deepcopy(switch.running)
    with pytest.raises(ConcurrentEditError, match=r"other policies, and no qos profile ROCE; .*leaves what"):
        here.rollback(change)
    assert switch.running == theirs


def test_an_undo_of_lines_on_interfaces_that_are_gone_is_tried_again(
    switch: EosSwitch, adapter: Switches
) -> None:
    """Their line card may be out."""
    own = "interface Ethernet3/1"
    switch.running[own] = {"uc-tx-queue 3": {line_of(OTHER): {}}}
    here = adapter(ports=("Ethernet3/1",))
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    here.confirm(change)
    card = switch.running.pop(own)
    with pytest.raises(GoneError):
        here.rollback(change)
    switch.running[own] = card
    here.rollback(change)
    assert switch.running[own] == {"uc-tx-queue 3": {line_of(OTHER): {}}}


def test_an_undo_leaves_an_interface_whose_line_somebody_has_removed(
    switch: EosSwitch, adapter: Switches
) -> None:
    own = "interface Ethernet3/1"
    switch.running[own] = {"uc-tx-queue 3": {line_of(OTHER): {}}}
    here = adapter(ports=("Ethernet3/1",))
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    here.confirm(change)
    switch.running[own] = {}
    with pytest.raises(ConcurrentEditError, match="leaves what others have set"):
        here.rollback(change)
    assert switch.running[own] == {}


def test_a_change_that_did_not_take_is_committed_anew(switch: EosSwitch, adapter: Switches) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    switch.ignoring = True
    here.apply(change)
    with pytest.raises(ReadBackError):
        here.verify(change)
    switch.ignoring = False
    here.apply(change)
    here.verify(change)
    here.confirm(change)
    assert switch.waiting is None


def test_profiles_are_found_from_the_ports(switch: EosSwitch, adapter: Switches) -> None:
    assert {queue.port for queue in adapter().read().queues} == {PROFILE}
    everywhere = adapter(ports=()).read()
    assert {queue.port for queue in everywhere.queues} == {PROFILE, "EDGE"}
    assert {queue.port for queue in adapter(options={"profile": "EDGE"}).read().queues} == {"EDGE"}
    with pytest.raises(CapabilityError, match="applied to Ethernet2/1 too"):
        adapter(ports=("Ethernet1/1",)).read()
    with pytest.raises(CapabilityError, match="no qos profile"):
        adapter(ports=("Ethernet7/1",)).read()
    with pytest.raises(CapabilityError, match="no uc-tx-queue 6"):
        adapter(queues=(6,)).read()


def test_a_port_with_its_own_line_is_set_there(switch: EosSwitch, adapter: Switches) -> None:
    own = "interface Ethernet3/1"
    switch.running[own] = {"uc-tx-queue 3": {line_of(OTHER): {}}}
    assert [(queue.port, queue.watermark) for queue in adapter().read().queues] == [
        (PROFILE, FIRST),
        ("Ethernet3/1", OTHER),
    ]
    here = adapter(ports=("Ethernet3/1",))
    change = here.stage(NEW, "r1-a")
    assert change.ran == OTHER
    assert change.undo["lines"][0]["path"] == [own, "uc-tx-queue 3"]


def test_saving_is_the_operators_choice(switch: EosSwitch, adapter: Switches) -> None:
    here = adapter(options={"save": True, "commit_timer_s": 300})
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    assert switch.saved == 0
    here.confirm(change)
    assert switch.saved == 1
    here.rollback(change)
    assert switch.saved == 2


@pytest.mark.parametrize(
    "options",
    [
        {"commit_timer_s": 5},
        {"commit_timer_s": 100_000},
        {"timer": 3},
        {"kilo_bytes": "1000"},
        {"kilo_bytes": 0},
    ],
)
def test_options_that_cannot_be_are_refused_at_once(options: dict[str, Any], adapter: Switches) -> None:
    with pytest.raises(InventoryError):
        adapter(options=options)


def test_an_account_that_may_not_configure_is_told_so(switch: EosSwitch, adapter: Switches) -> None:
    answer = {"error": {"code": 1002, "message": "CLI command 1 of 4 'enable' failed: permission denied"}}
    with pytest.raises(AccessError, match="permission denied"):
        answering(adapter, answer).read()


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b"{}", b'{"result": []}', b'{"result": 3}', b'{"result": [{}]}']
)
def test_something_else_that_listens_there_is_found_out(body: bytes, adapter: Switches) -> None:
    with pytest.raises(RefusedError, match="cannot be read"):
        answering(adapter, body).read()


def answering(adapter: Switches, body: object) -> EosAdapter:
    content = {"content": body} if isinstance(body, bytes) else {"json": body}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, **content))  # type: ignore[arg-type]
    return EosAdapter(adapter()._device, clock_ns=lambda: 7, transport=transport)


class Cutting(httpx.BaseTransport):
    """A network that is cut at the first command that ends so."""

    def __init__(self, ending: str) -> None:
        self._ending = ending
        self._network = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if f'{self._ending}"'.encode() in request.content:
            raise httpx.ConnectError("cut")
        return self._network.handle_request(request)

    def close(self) -> None:
        self._network.close()
