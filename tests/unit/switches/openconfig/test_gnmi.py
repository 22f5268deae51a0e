"""OpenConfig QoS over gNMI: exact requests, what a reading means, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from switches.adapter import Waiting
from switches.base import QueueWatermark, StagedChange
from switches.device import Device, Tls, UnitProfile
from switches.errors import (
    CapabilityError,
    ConcurrentEditError,
    InventoryError,
    ReadBackError,
    RefusedError,
)
from switches.openconfig.gnmi import OpenConfigAdapter
from switches.registry import AdapterRegistry
from tests.counterparts.switches.gnmi_switch import Asked, GnmiSwitch
from tests.counterparts.switches.openconfig_documents import PORTS, factory, profile_document
from tests.counterparts.switches.openconfig_switch import OpenConfigSwitch, profile, queue
from twin.watermark import Watermark

OLD = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)
PROFILES = "openconfig:/qos/queue-management-profiles/queue-management-profile"
Make = Callable[..., OpenConfigAdapter]


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s


def binding(port: str, name: str = "3") -> str:
    return (
        f"openconfig:/qos/interfaces/interface[interface-id={port}]/output/queues/queue[name={name}]"
        "/config/queue-management-profile"
    )


@pytest.fixture
def switch() -> OpenConfigSwitch:
    made = OpenConfigSwitch()
    made.configure(factory(OLD))
    return made


@pytest.fixture
def server(switch: OpenConfigSwitch) -> Iterator[GnmiSwitch]:
    served = GnmiSwitch(switch)
    yield served
    served.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(server: GnmiSwitch, clock: Clock) -> Iterator[Make]:
    made: list[OpenConfigAdapter] = []

    def adapter(**device: Any) -> OpenConfigAdapter:
        described: dict[str, Any] = {
            "address": "127.0.0.1",
            "port": server.port,
            "ports": ("Ethernet*",),
            "tls": Tls(enabled=False),
            "timeout_s": 60.0,
        }
        made.append(
            OpenConfigAdapter(
                Device(name="leaf1", platform="openconfig", **described | device),
                clock_ns=lambda: 7,
                waiting=Waiting(lambda: clock.now_s, clock.sleep),
            )
        )
        return made[-1]

    yield adapter
    for one in made:
        one.close()


def done(adapter: OpenConfigAdapter, watermark: Watermark = NEW) -> StagedChange:
    change = adapter.stage(watermark, "r1-a")
    adapter.apply(change)
    adapter.verify(change)
    adapter.confirm(change)
    return change


def test_a_change_is_one_request_a_new_profile_and_the_queues_bound_to_it(
    make: Make, server: GnmiSwitch
) -> None:
    adapter = make()
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    (own,) = change.undo["profiles"]
    leaves = {
        "min-threshold": "50000",
        "max-threshold": "200000",
        "max-drop-probability-percent": 5,
        "enable-ecn": True,
        "weight": 0,
        "drop": False,
    }
    assert server.asked == [
        Asked(
            replace={
                f"{PROFILES}[name={own}]": {
                    "name": own,
                    "config": {"name": own},
                    "wred": {"uniform": {"config": leaves}},
                }
            },
            update={binding(port): own for port in PORTS},
        )
    ]
    assert own.startswith("ecntwin-")


def test_an_undo_binds_the_queues_back_and_removes_the_profile(make: Make, server: GnmiSwitch) -> None:
    adapter = make()
    change = done(adapter)
    (own,) = change.undo["profiles"]
    server.asked.clear()
    adapter.rollback(change)
    assert server.asked == [
        Asked(update={binding(port): "ROCE" for port in PORTS}),
        Asked(delete=[f"{PROFILES}[name={own}]"]),
    ]


def test_an_undo_goes_after_a_change_that_does_not_show_yet(make: Make, switch: OpenConfigSwitch) -> None:
    before = {port: switch.runs(port, "3") for port in PORTS}
    adapter = make()
    change = adapter.stage(NEW, "r1-a")
    switch.waiting = []
    adapter.apply(change)
    for _ in range(2):
        adapter.rollback(change)
    assert len(switch.waiting) == 3
    switch.catch_up()
    assert {port: switch.runs(port, "3") for port in PORTS} == before


def test_after_an_undo_the_configuration_is_what_it_was(make: Make, switch: OpenConfigSwitch) -> None:
    before = dict(switch.config)
    change = done(make())
    assert switch.config != before
    make().rollback(change)
    assert switch.config == before


def test_the_same_watermark_for_the_same_ports_bears_the_same_name(make: Make) -> None:
    names = [list(make().stage(mark, "r1-a").undo["profiles"]) for mark in (NEW, NEW, OLD.__class__(1, 2, 1))]
    assert names[0] == names[1] != names[2]
    assert list(make(ports=PORTS[:1]).stage(NEW, "r1-a").undo["profiles"]) != names[0]


def test_a_second_change_leaves_no_profile_of_the_first(make: Make, switch: OpenConfigSwitch) -> None:
    first = done(make())
    second = done(make(), Watermark(60_000, 240_000, 0.1))
    own = {path[2][1][0][1] for path in switch.config if path[1][0] == "queue-management-profiles"}
    assert own == {"ROCE", "STORAGE", *second.undo["profiles"]}
    make().rollback(second)  # the first one's is made again
    assert switch.runs(PORTS[0], "3") == first.undo["profiles"][next(iter(first.undo["profiles"]))]["becomes"]


def test_queues_that_are_not_asked_for_keep_their_profile(make: Make, switch: OpenConfigSwitch) -> None:
    done(make())
    for port, name in [(PORTS[0], "4"), ("Management0", "3"), (PORTS[0], "5")]:
        bound = switch.config[queue(port, name, "config", "queue-management-profile")]
        assert bound == ("STORAGE" if name == "5" else "ROCE")


def test_profiles_that_differ_but_for_their_marking_stay_apart(make: Make, switch: OpenConfigSwitch) -> None:
    leaves = {
        "min-threshold": "1",
        "max-threshold": "9",
        "max-drop-probability-percent": 9,
        "enable-ecn": True,
    }
    other = profile_document("DROPPING", leaves | {"drop": True, "weight": 7})
    switch.edit(
        {
            profile("DROPPING", "config", "name"): "DROPPING",
            **{
                (*profile("DROPPING", "wred", "uniform", "config"), (name, ())): value
                for name, value in other["wred"]["uniform"]["config"].items()
            },
            queue(PORTS[1], "3", "config", "queue-management-profile"): "DROPPING",
        }
    )
    change = done(make())
    assert len(change.undo["profiles"]) == 2
    held = {port: switch.runs(port, "3") for port in PORTS}
    assert [held[port]["weight"] for port in PORTS] == [0, 7, 0]  # type: ignore[index]
    assert [held[port]["drop"] for port in PORTS] == [False, True, False]  # type: ignore[index]
    make().rollback(change)
    assert switch.config[queue(PORTS[1], "3", "config", "queue-management-profile")] == "DROPPING"


def test_a_queue_bound_to_nothing_does_not_mark_and_is_left_so(make: Make, switch: OpenConfigSwitch) -> None:
    before = dict(switch.config)
    adapter = make(queues=(0,))
    assert adapter.read().queues == tuple(QueueWatermark(port, 0, None) for port in PORTS)
    change = done(adapter)
    assert change.ran is None
    assert "-ecn: off" in change.diff
    assert switch.runs(PORTS[0], "0") == {
        "min-threshold": "50000",
        "max-threshold": "200000",
        "max-drop-probability-percent": 5,
        "enable-ecn": True,
    }
    make(queues=(0,)).rollback(change)
    assert switch.config == before


@pytest.mark.parametrize(
    "leaves",
    [{"enable-ecn": False}, {"enable-ecn": None}, {"max-drop-probability-percent": 0}],
    ids=["off", "not-said", "never"],
)
def test_a_profile_that_marks_nothing_is_no_watermark(
    make: Make, switch: OpenConfigSwitch, leaves: dict[str, Any]
) -> None:
    switch.configure(factory(OLD, **leaves))
    before = dict(switch.config)
    assert {queue.watermark for queue in make().read().queues} == {None}
    change = done(make())
    assert make().read().watermark == NEW
    make().rollback(change)
    assert switch.config == before


def test_a_profile_without_a_probability_cannot_be_read(make: Make, switch: OpenConfigSwitch) -> None:
    switch.configure(factory(OLD, **{"max-drop-probability-percent": None}))
    with pytest.raises(CapabilityError, match=r"Ethernet1/1 queue 3.*all three"):
        make().read()


def test_a_step_on_the_switch_is_told_one_byte_wide_and_put_back_as_it_was(
    make: Make, switch: OpenConfigSwitch
) -> None:
    switch.configure(factory(OLD, **{"min-threshold": "1600000"}))
    before = dict(switch.config)
    change = done(make())
    assert change.ran == Watermark(1_599_999, 1_600_000, 0.2)
    make().rollback(change)
    assert switch.config == before


def test_a_maximum_of_64_bits_is_read(make: Make) -> None:
    assert make(queues=(5,)).read().watermark == Watermark(80_000, 2**64 - 1, 0.01)


def test_an_answer_leaf_by_leaf_means_the_same(make: Make, switch: OpenConfigSwitch) -> None:
    whole = make().read()
    switch.answers = "leaves"
    assert make().read() == whole
    change = done(make())
    assert make().read().watermark == NEW
    make().rollback(change)
    assert make().read() == whole


def test_a_switch_may_take_its_time_until_it_shows(
    make: Make, switch: OpenConfigSwitch, clock: Clock
) -> None:
    switch.lag = 6
    adapter = make(settle_s=20.0)
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    assert adapter.read().watermark == OLD
    assert adapter.verify(change).watermark == NEW
    assert 0 < clock.now_s < 20


def test_a_profile_whose_state_comes_after_its_binding_is_waited_for(
    make: Make, switch: OpenConfigSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = make()
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    (own,) = change.undo["profiles"]
    at = profile(own, "wred", "uniform", "config")
    whole = dict(switch.running)
    switch.running = {path: value for path, value in whole.items() if path[:-1] != at}
    reads: list[str] = []
    get = switch.get

    def showing_later(origin: str, path: Any, kind: str) -> Any:
        reads.append(kind)
        if len(reads) == 6:
            switch.running = whole
        return get(origin, path, kind)

    monkeypatch.setattr(switch, "get", showing_later)
    assert adapter.verify(change).watermark == NEW
    assert len(reads) >= 6


def test_a_switch_that_never_shows_it_is_a_read_back_error(
    make: Make, switch: OpenConfigSwitch, clock: Clock
) -> None:
    adapter = make(settle_s=20.0)
    change = adapter.stage(NEW, "r1-a")
    switch.ignoring = True
    adapter.apply(change)
    with pytest.raises(ReadBackError, match="every queue must run Kmin 50000"):
        adapter.verify(change)
    assert clock.now_s >= 20
    assert switch.config[queue(PORTS[0], "3", "config", "queue-management-profile")] != "ROCE"
    adapter.rollback(change)  # hardware never ran it, and the configuration is put back all the same
    assert switch.config[queue(PORTS[0], "3", "config", "queue-management-profile")] == "ROCE"


@pytest.mark.parametrize(("cell_bytes", "units"), [(208, {}), (1024, {"cell_bytes": 1024})])
def test_what_hardware_rounds_to_its_cells_counts_as_what_was_asked(
    make: Make, switch: OpenConfigSwitch, cell_bytes: int, units: dict[str, Any]
) -> None:
    switch.rounds = lambda value: value - value % cell_bytes
    switch.configure(factory(OLD))
    adapter = make(units=UnitProfile(**units))
    assert adapter.read().watermark == OLD
    change = done(adapter)
    assert switch.runs(PORTS[0], "3")["min-threshold"] == str(50_000 - 50_000 % cell_bytes)  # type: ignore[index]
    adapter.rollback(change)
    assert adapter.read().watermark == OLD


def test_what_hardware_rounds_further_is_not_what_was_asked_and_is_undone(
    make: Make, switch: OpenConfigSwitch
) -> None:
    switch.rounds = lambda value: value - value % 16384
    switch.configure(factory(Watermark(16384 * 20, 16384 * 80, 0.2)))
    before = dict(switch.config)
    adapter = make(settle_s=1.0)
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    with pytest.raises(ReadBackError, match="received Kmin 49152"):
        adapter.verify(change)
    adapter.apply(change)  # again, by a process that does not know
    adapter.rollback(change)
    assert switch.config == before


def test_nothing_is_staged_on_a_switch_that_does_not_run_what_it_is_configured_to(
    make: Make, switch: OpenConfigSwitch, clock: Clock
) -> None:
    switch.ignoring = True
    switch.edit({profile("ROCE", "wred", "uniform", "config", "max-threshold"): "1700000"})
    with pytest.raises(
        ReadBackError, match=r"Ethernet1/1 queue 3 configured for .*1700000.*units\.cell_bytes"
    ):
        make().stage(NEW, "r1-a")
    assert clock.now_s >= 5
    switch.edit({queue(PORTS[1], "3", "config", "queue-management-profile"): "STORAGE"})
    with pytest.raises(ReadBackError, match="Ethernet1/2 queue 3 bound to STORAGE, and running ROCE"):
        make(ports=PORTS[1:]).stage(NEW, "r1-a")
    assert make(options={"read_back": "config"}, ports=PORTS[:1]).stage(NEW, "r1-a").changes


def test_a_switch_that_still_settles_is_waited_for(make: Make, switch: OpenConfigSwitch) -> None:
    switch.lag = 6
    adapter = make()
    first = adapter.stage(NEW, "r1-a")
    adapter.apply(first)
    assert adapter.stage(OLD, "r2-a").ran == NEW


def test_hardware_may_run_a_default_for_what_is_not_configured(make: Make, switch: OpenConfigSwitch) -> None:
    switch.configure(factory(OLD))
    del switch.config[profile("ROCE", "wred", "uniform", "config", "max-drop-probability-percent")]
    assert make().read().watermark == OLD


def test_thresholds_in_percent_of_the_queues_buffer(make: Make, switch: OpenConfigSwitch) -> None:
    in_percent = {
        "min-threshold": None,
        "max-threshold": None,
        "min-threshold-percent": "20",
        "max-threshold-percent": "80",
    }
    switch.configure(factory(OLD, **in_percent))
    before = dict(switch.config)
    units = UnitProfile(thresholds="percent", buffer_bytes=2_000_000)
    assert make(units=units).read().watermark == Watermark(400_000, 1_600_000, 0.2)
    change = done(make(units=units), Watermark(50_000, 215_000, 0.05))
    assert change.after == Watermark(40_000, 200_000, 0.05)
    held = switch.runs(PORTS[0], "3")
    assert held == {
        "min-threshold-percent": "2",
        "max-threshold-percent": "10",
        "max-drop-probability-percent": 5,
        "enable-ecn": True,
        "weight": 0,
        "drop": False,
    }
    make(units=units).rollback(change)
    assert switch.config == before


@pytest.mark.parametrize(
    ("leaves", "units", "says"),
    [
        (
            {
                "min-threshold": None,
                "max-threshold": None,
                "min-threshold-percent": "20",
                "max-threshold-percent": "80",
            },
            UnitProfile(),
            "thresholds in percent; the inventory says they are in bytes; set units.thresholds to percent",
        ),
        (
            {},
            UnitProfile(thresholds="percent", buffer_bytes=2_000_000),
            "thresholds in bytes; the inventory says they are in percent; set units.thresholds to bytes",
        ),
    ],
)
def test_a_unit_that_is_not_the_inventorys_is_refused(
    make: Make, switch: OpenConfigSwitch, leaves: dict[str, Any], units: UnitProfile, says: str
) -> None:
    switch.configure(factory(OLD, **leaves))
    with pytest.raises(CapabilityError, match=says):
        make(units=units).read()


def test_a_threshold_that_is_no_number_is_a_refusal(make: Make, switch: OpenConfigSwitch) -> None:
    at = profile("ROCE", "wred", "uniform", "config", "min-threshold")
    for value in ("many", True):
        switch.running[at] = value
        with pytest.raises(RefusedError, match="cannot be read"):
            make().read()


def test_queues_by_the_names_that_the_switch_gives_them(make: Make, switch: OpenConfigSwitch) -> None:
    document = factory(OLD)
    for interface in document["qos"]["interfaces"]["interface"]:
        for one in interface["output"]["queues"]["queue"]:
            if one["name"] == "3":
                one["name"] = one["config"]["name"] = "RDMA"
    switch.configure(document)
    for names in ({3: "RDMA"}, {"3": "RDMA"}):
        adapter = make(options={"queue_names": names})
        assert [(one.port, one.queue) for one in adapter.read().queues] == [(port, 3) for port in PORTS]
    done(adapter)
    assert switch.runs(PORTS[0], "RDMA")["min-threshold"] == "50000"  # type: ignore[index]


def test_config_leaves_are_read_where_the_switch_has_no_others(make: Make, switch: OpenConfigSwitch) -> None:
    switch.running = {}
    with pytest.raises(
        CapabilityError, match=r"profile ROCE in its config, and none in its state.*read_back"
    ):
        make().read()
    adapter = make(options={"read_back": "config"})
    assert adapter.read().watermark == OLD
    assert adapter.capabilities().read_back == "config leaves: what was asked, not what runs"
    assert make().capabilities().read_back == "state leaves"


def test_a_refusal_is_told_in_what_the_switch_says_and_nothing_is_changed(
    make: Make, switch: OpenConfigSwitch
) -> None:
    adapter = make()
    change = adapter.stage(NEW, "r1-a")
    switch.refuses = "hardware resource limit: 8 WRED profiles"
    before = dict(switch.config)
    with pytest.raises(RefusedError, match="FAILED_PRECONDITION to Set: hardware resource limit"):
        adapter.apply(change)
    assert switch.config == before


def test_a_profile_that_the_switch_keeps_is_no_failure_of_the_undo(
    make: Make, switch: OpenConfigSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = done(make())
    (own,) = change.undo["profiles"]
    taken = switch.set

    def keeping(origin: str, delete: Any, replace: Any, update: Any) -> None:
        switch.refuses = "in use" if delete and not update else None
        taken(origin, delete, replace, update)

    monkeypatch.setattr(switch, "set", keeping)
    make().rollback(change)
    assert switch.runs(PORTS[0], "3")["min-threshold"] == "400000"  # type: ignore[index]
    assert profile(own, "config", "name") in switch.config


def test_our_own_profile_edited_by_hand_is_left_alone(make: Make, switch: OpenConfigSwitch) -> None:
    change = done(make())
    (own,) = change.undo["profiles"]
    switch.edit({profile(own, "wred", "uniform", "config", "max-threshold"): "999999"})
    with pytest.raises(ConcurrentEditError):
        make().rollback(change)
    assert switch.runs(PORTS[0], "3")["max-threshold"] == "999999"  # type: ignore[index]
    again = done(make())  # what runs now is the start of the next change
    assert again.ran == Watermark(50_000, 999_999, 0.05)
    make().rollback(again)
    assert switch.runs(PORTS[0], "3")["max-threshold"] == "999999"  # type: ignore[index]


def test_the_old_profile_edited_meanwhile_is_not_run_in_silence(make: Make, switch: OpenConfigSwitch) -> None:
    change = done(make())
    switch.edit({profile("ROCE", "wred", "uniform", "config", "max-threshold"): "1700000"})
    with pytest.raises(ConcurrentEditError, match="profile ROCE changed"):
        make().rollback(change)
    assert make().read().watermark == NEW


def test_a_queue_bound_elsewhere_before_hardware_follows_is_somebody_elses(
    make: Make, switch: OpenConfigSwitch
) -> None:
    adapter = make()
    change = adapter.stage(NEW, "r1-a")
    switch.ignoring = True
    switch.edit({queue(PORTS[2], "3", "config", "queue-management-profile"): "STORAGE"})
    with pytest.raises(ConcurrentEditError, match="Ethernet2/1 queue 3 bound to STORAGE"):
        adapter.apply(change)


def test_a_profile_that_others_use_by_now_stays(make: Make, switch: OpenConfigSwitch) -> None:
    change = done(make())
    (own,) = change.undo["profiles"]
    switch.edit({queue("Management0", "3", "config", "queue-management-profile"): own})
    make().rollback(change)
    assert profile(own, "config", "name") in switch.config
    switch.edit({queue("Management0", "3", "config", "queue-management-profile"): None})
    again = done(make())
    switch.edit({queue(PORTS[0], "3", "config", "queue-management-profile", direction="input"): own})
    make().rollback(again)
    assert profile(own, "config", "name") in switch.config


def test_the_model_takes_a_minimum_above_the_maximum_and_this_adapter_never_sends_one(
    make: Make, switch: OpenConfigSwitch
) -> None:
    switch.configure(factory(OLD, **{"min-threshold": "2000000"}))
    with pytest.raises(CapabilityError, match=r"Ethernet1/1 queue 3: .*Kmin is at most Kmax"):
        make().read()


def test_no_such_queue_is_the_inventorys_mistake(make: Make) -> None:
    with pytest.raises(InventoryError, match=r"no configured output queue 6 of Ethernet\*"):
        make(queues=(6,)).read()
    with pytest.raises(InventoryError, match="no configured output queue 3 of Eth1"):
        make(ports=("Eth1",)).read()


def test_a_switch_without_the_model_is_told_so(make: Make, switch: OpenConfigSwitch) -> None:
    switch.config, switch.running, switch.models = {}, {}, {"srl_nokia-qos": "2024-10-31"}
    with pytest.raises(CapabilityError, match="1 models, and not openconfig-qos among them"):
        make().read()
    switch.models = {}
    with pytest.raises(InventoryError, match="configure QoS"):
        make().read()


@pytest.mark.parametrize(
    ("device", "says"),
    [
        ({"options": {"queue_names": {4: "RDMA"}}}, "it names queues of the inventory: 3"),
        ({"options": {"queue_names": {3: "A", 4: "A"}}, "queues": (3, 4)}, "queues have different names"),
        ({"options": {"queue_name": {3: "A"}}}, "queue_names"),
        ({"options": {"read_back": "asic"}}, "read_back"),
        ({"units": UnitProfile(thresholds="cells")}, "thresholds of this platform are in bytes or percent"),
        ({"units": UnitProfile(thresholds="percent")}, "give buffer_bytes"),
    ],
)
def test_an_inventory_that_cannot_be_meant_is_refused_before_any_call(
    make: Make, device: dict[str, Any], says: str
) -> None:
    with pytest.raises(InventoryError, match=says):
        make(**device)


def test_an_answer_that_is_no_model_is_a_refusal(
    make: Make, switch: OpenConfigSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = {"name": "3", "config": {"name": "3", "queue-management-profile": 7}}
    port = {"interface-id": "Ethernet1", "output": {"queues": {"queue": [bound]}}}
    for value in (
        [],
        {"interface": [{"name": "no key"}]},
        {"interface": [3]},
        {"interface": 3},
        {"interface": [port]},
    ):
        monkeypatch.setattr(switch, "get", lambda origin, path, kind, value=value: [(path, value)])
        with pytest.raises(RefusedError, match="cannot be read"):
            make().read()


def test_it_is_found_by_its_kind() -> None:
    device = Device(name="leaf1", platform="openconfig", address="leaf1.example")
    adapter = AdapterRegistry().make(device, clock_ns=lambda: 7)
    assert isinstance(adapter, OpenConfigAdapter)
    assert adapter.capabilities().kind == "openconfig"
    adapter.close()
