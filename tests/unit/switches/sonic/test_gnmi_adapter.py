"""SONiC through its gNMI server: exact requests, what hardware is read from, and what old images allow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from switches.adapter import Waiting
from switches.base import StagedChange
from switches.device import Device, Tls
from switches.errors import (
    CapabilityError,
    ConcurrentEditError,
    InventoryError,
    ReadBackError,
    RefusedError,
    UnreachableError,
)
from switches.registry import AdapterRegistry
from switches.sonic.gnmi_adapter import SonicGnmiAdapter
from tests.counterparts.switches.gnmi_switch import Asked, GnmiSwitch
from tests.counterparts.switches.sonic_gnmi import SonicGnmi
from tests.counterparts.switches.sonic_switch import SonicSwitch, qos_config
from twin.watermark import Watermark

OLD = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)
PORTS = ("Ethernet0", "Ethernet4")
CONFIG = "sonic-db:/CONFIG_DB/localhost"
PATIENCE_S = 60.0
ROW = {
    "ecn": "ecn_all",
    **{f"wred_{colour}_enable": "true" for colour in ("green", "yellow", "red")},
    **{f"{colour}_min_threshold": "50000" for colour in ("green", "yellow", "red")},
    **{f"{colour}_max_threshold": "200000" for colour in ("green", "yellow", "red")},
    **{f"{colour}_drop_probability": "5" for colour in ("green", "yellow", "red")},
}
Make = Callable[..., SonicGnmiAdapter]


class Started:
    """One switch, and what stands before it."""

    def __init__(self, folder: Path, *, queue_map: bool = True) -> None:
        self.switch = SonicSwitch(folder, ports=PORTS, watermark=OLD, queue_map=queue_map)
        self.gnmi = SonicGnmi(self.switch)
        self.server = GnmiSwitch(self.gnmi)

    def close(self) -> None:
        self.server.close()
        self.gnmi.close()
        self.switch.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    started = Started(tmp_path_factory.mktemp("sonic"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def uncounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    started = Started(tmp_path_factory.mktemp("uncounted"), queue_map=False)
    yield started
    started.close()


@pytest.fixture
def sonic(running: Started) -> Started:
    running.switch.reset()
    running.server.asked.clear()
    running.gnmi.moves.clear()
    running.gnmi.image_2025 = running.gnmi.hides_asic = False
    running.gnmi.stops_after = None
    return running


@pytest.fixture
def make(sonic: Started) -> Iterator[Make]:
    made: list[SonicGnmiAdapter] = []

    def adapter(
        started: Started = sonic, *, waiting: Waiting | None = None, **device: Any
    ) -> SonicGnmiAdapter:
        described: dict[str, Any] = {
            "address": "127.0.0.1",
            "port": started.server.port,
            "tls": Tls(enabled=False),
            "timeout_s": 60.0,
        }
        made.append(
            SonicGnmiAdapter(
                Device(name="leaf1", platform="sonic-gnmi", **described | device),
                clock_ns=lambda: 7,
                waiting=waiting,
            )
        )
        return made[-1]

    yield adapter
    for one in made:
        one.close()


def in_no_time() -> Waiting:
    """Time that passes in pauses only."""
    pauses: list[float] = []
    return Waiting(lambda: sum(pauses), pauses.append)


def done(adapter: SonicGnmiAdapter, watermark: Watermark = NEW) -> StagedChange:
    change = adapter.stage(watermark, "r1-a")
    adapter.apply(change)
    adapter.verify(change)
    adapter.confirm(change)
    return change


def own_of(change: StagedChange) -> str:
    (name,) = change.undo["after"]["profiles"]
    assert isinstance(name, str)
    return name


def test_a_change_is_one_request_whose_scalars_are_texts(make: Make, sonic: Started) -> None:
    change = done(make())
    own = own_of(change)
    assert sonic.server.asked == [
        Asked(
            replace={f"{CONFIG}/QUEUE/{port}|3/wred_profile": own for port in PORTS},
            update={f"{CONFIG}/WRED_PROFILE/{own}": ROW},
        )
    ]
    assert own.startswith("ECNTWIN_Q3_")
    assert sonic.gnmi.saves == 1


def test_an_undo_binds_back_and_then_removes_the_profile(make: Make, sonic: Started) -> None:
    before = sonic.switch.config_db()
    change = done(make())
    sonic.server.asked.clear()
    make().rollback(change)
    assert sonic.server.asked == [
        Asked(replace={f"{CONFIG}/QUEUE/{port}|3/wred_profile": "AZURE_LOSSLESS" for port in PORTS}),
        Asked(delete=[f"{CONFIG}/WRED_PROFILE/{own_of(change)}"]),
    ]
    assert sonic.switch.config_db() == before
    assert sonic.switch.log() == []


def test_the_next_change_takes_the_profile_of_the_one_before_along(make: Make, sonic: Started) -> None:
    first = done(make())
    second = done(make(), Watermark(60_000, 240_000, 0.1))
    third = done(make(), Watermark(70_000, 240_000, 0.1))
    assert sonic.server.asked[-1].delete == [f"{CONFIG}/WRED_PROFILE/{own_of(first)}"]
    kept = {key for key in sonic.switch.config_db() if key.startswith("WRED_PROFILE|ECNTWIN_")}
    assert kept == {f"WRED_PROFILE|{own_of(change)}" for change in (second, third)}


def test_a_queue_without_a_profile_gets_one_and_loses_it_again(make: Make, sonic: Started) -> None:
    before = sonic.switch.config_db()
    change = done(make(queues=(1,)))
    own = own_of(change)
    assert sonic.server.asked == [
        Asked(
            update={f"{CONFIG}/WRED_PROFILE/{own}": change.undo["after"]["profiles"][own]}
            | {f"{CONFIG}/QUEUE/{port}|1/wred_profile": own for port in PORTS}
        )
    ]
    make(queues=(1,)).rollback(change)
    assert sonic.server.asked[1] == Asked(delete=[f"{CONFIG}/QUEUE/{port}|1/wred_profile" for port in PORTS])
    assert sonic.switch.config_db() == before


def test_the_first_profile_of_all_brings_its_table(make: Make, sonic: Started) -> None:
    rows = qos_config(PORTS, OLD)
    del rows["WRED_PROFILE|AZURE_LOSSLESS"]
    for row in rows.values():
        row.pop("wred_profile", None)
    sonic.switch.reset(rows)
    before = sonic.switch.config_db()
    assert make().read().queues[0].watermark is None
    change = done(make())
    assert next(iter(sonic.server.asked[0].update)) == f"{CONFIG}/WRED_PROFILE"
    make().rollback(change)
    assert sonic.switch.config_db() == before


def test_hardware_is_believed_and_not_what_was_asked(make: Make, sonic: Started) -> None:
    adapter = make(settle_s=0.3)
    change = adapter.stage(NEW, "r1-a")
    sonic.switch.faults.refusing = True
    adapter.apply(change)
    assert adapter.read().watermark == OLD
    with pytest.raises(ReadBackError, match="after applying, every queue must run Kmin 50000"):
        adapter.verify(change)
    sonic.switch.faults.refusing = False
    adapter.rollback(change)
    assert set(sonic.switch.hardware().values()) == {OLD}


def test_an_undo_that_hardware_does_not_follow_is_a_read_back_error_and_may_run_again(
    make: Make, sonic: Started
) -> None:
    change = done(make())
    sonic.switch.faults.refusing = True
    with pytest.raises(ReadBackError, match="after rolling back, every queue must run what it did before"):
        make(settle_s=0.3).rollback(change)
    assert f"WRED_PROFILE|{own_of(change)}" in sonic.switch.config_db()
    sonic.switch.faults.refusing = False
    sonic.switch.set_config({f"QUEUE|{port}|3": {"wred_profile": "AZURE_LOSSLESS"} for port in PORTS})
    make().rollback(change)
    assert f"WRED_PROFILE|{own_of(change)}" not in sonic.switch.config_db()


def test_nothing_is_staged_on_a_switch_that_does_not_run_what_it_is_asked(make: Make, sonic: Started) -> None:
    sonic.switch.faults.ignoring = True
    sonic.switch.set_config(
        {"WRED_PROFILE|AZURE_LOSSLESS": {"green_min_threshold": "1", "green_max_threshold": "900"}}
    )
    with pytest.raises(ReadBackError, match="hardware runs what CONFIG_DB asks for"):
        make(waiting=in_no_time()).stage(NEW, "r1-a")


@pytest.mark.parametrize("rounding_bytes", [208, 256])
def test_rounding_in_hardware_is_what_was_asked_within_limits(
    make: Make, sonic: Started, rounding_bytes: int
) -> None:
    sonic.switch.faults.rounding_bytes = rounding_bytes
    assert done(make()).after == NEW
    strict = make(options={"asic_rounding_bytes": 10}, waiting=in_no_time())
    with pytest.raises(ReadBackError, match="or let asic_rounding_bytes be what hardware rounds by"):
        strict.stage(Watermark(51_001, 201_001, 0.1), "r2-a")


def test_without_queue_counters_values_are_compared(make: Make, sonic: Started, uncounted: Started) -> None:
    uncounted.switch.reset()
    change = done(make(uncounted))
    assert set(uncounted.switch.hardware().values()) == {NEW}
    make(uncounted).rollback(change)
    uncounted.switch.settle()  # the old values leave ASIC_DB a moment after the undo has ended
    uncounted.switch.faults.ignoring = True
    adapter = make(uncounted, settle_s=0.3)
    change = adapter.stage(NEW, "r2-a")
    adapter.apply(change)
    with pytest.raises(ReadBackError, match=r"in CONFIG_DB, and no such values in ASIC_DB"):
        adapter.verify(change)


def test_where_gnmi_shows_no_hardware_only_config_can_be_read_and_that_is_said(
    make: Make, sonic: Started
) -> None:
    sonic.gnmi.hides_asic = True
    with pytest.raises(ReadBackError, match="let read_back be config where gNMI shows no ASIC_DB"):
        make(waiting=in_no_time()).read()
    adapter = make(options={"read_back": "config"})
    assert adapter.capabilities().read_back == "CONFIG_DB: what was asked, not what runs"
    assert make().capabilities().read_back == "ASIC_DB"
    change = done(adapter)
    assert adapter.read().watermark == NEW
    adapter.rollback(change)
    assert set(sonic.switch.hardware().values()) == {OLD}


def test_an_updater_that_dies_half_way_is_undone(make: Make, sonic: Started) -> None:
    before = sonic.switch.config_db()
    change = make().stage(NEW, "r1-a")
    for moves in (1, 2):
        sonic.gnmi.stops_after = len(sonic.gnmi.moves) + moves
        with pytest.raises(RefusedError, match="UNKNOWN to Set: the host service has gone"):
            make().apply(change)
        sonic.gnmi.stops_after = None
        make().rollback(change)
        assert sonic.switch.config_db() == before
    make().apply(change)
    make().verify(change)


def test_an_old_image_takes_replacements_of_greens_values_and_nothing_else(
    make: Make, sonic: Started
) -> None:
    sonic.gnmi.image_2025 = True
    before = sonic.switch.config_db()
    with pytest.raises(RefusedError, match="Modification of WRED_PROFILE table is illegal"):
        done(make())
    sonic.server.asked.clear()
    old = make(queues=(3, 4), options={"replace_only": True})
    change = done(old)
    at = f"{CONFIG}/WRED_PROFILE/AZURE_LOSSLESS"
    assert sonic.server.asked == [
        Asked(
            replace={
                f"{at}/green_min_threshold": "50000",
                f"{at}/green_max_threshold": "200000",
                f"{at}/green_drop_probability": "5",
            }
        )
    ]
    assert set(sonic.switch.hardware((3, 4)).values()) == {NEW}
    assert old.capabilities().per == "profile"
    assert not old.capabilities().atomic
    old.rollback(change)
    assert sonic.switch.config_db() == before
    assert all(kmin <= kmax for kmin, kmax in sonic.switch.history())


def test_an_edited_profile_is_everybodys(make: Make, sonic: Started) -> None:
    with pytest.raises(CapabilityError, match=r"AZURE_LOSSLESS, to which QUEUE\|Ethernet0\|4"):
        make(options={"replace_only": True}).stage(NEW, "r1-a")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"wred_green_enable": "false"}, "wred_green_enable false"),
        ({"ecn": "ecn_red"}, "ecn ecn_red"),
        ({"green_drop_probability": None}, "green_drop_probability"),
    ],
)
def test_an_old_image_turns_nothing_on(
    make: Make, sonic: Started, fields: dict[str, str | None], says: str
) -> None:
    rows = qos_config(PORTS, OLD)
    for field, value in fields.items():
        del rows["WRED_PROFILE|AZURE_LOSSLESS"][field]
        if value is not None:
            rows["WRED_PROFILE|AZURE_LOSSLESS"][field] = value
    sonic.switch.reset(rows)
    with pytest.raises(CapabilityError, match=says):
        make(queues=(3, 4), options={"replace_only": True}).stage(NEW, "r1-a")


def test_a_row_edited_by_hand_is_left_alone(make: Make, sonic: Started) -> None:
    change = done(make())
    sonic.switch.set_config({f"WRED_PROFILE|{own_of(change)}": {"green_max_threshold": "777777"}})
    with pytest.raises(ConcurrentEditError):
        make().rollback(change)
    sonic.switch.reset()
    change = make().stage(NEW, "r1-a")
    sonic.switch.set_config({"WRED_PROFILE|AZURE_LOSSLESS": {"yellow_max_threshold": "777777"}})
    with pytest.raises(ConcurrentEditError, match="with other values"):
        make().apply(change)


@pytest.mark.parametrize("bound", [True, False], ids=["bound", "unbound"])
def test_a_patch_that_outlives_its_call_is_undone_too(bound: bool, make: Make, sonic: Started) -> None:
    """The switch goes on with it when its time is over here: CONFIG_DB shows it only later."""
    if not bound:
        rows = qos_config(PORTS, OLD)
        for port in PORTS:
            del rows[f"QUEUE|{port}|3"]["wred_profile"]
        sonic.switch.reset(rows)
    before, hasty, server = sonic.switch.config_db(), make(), sonic.server
    change = hasty.stage(NEW, "r1-a")
    server.taken = threading.Semaphore(0)
    server.working.clear()
    with ThreadPoolExecutor(2) as threads:
        try:
            applying = threads.submit(hasty.apply, change)
            assert server.taken.acquire(timeout=PATIENCE_S)
            hasty.close()  # as where its time is over
            with pytest.raises(UnreachableError):
                applying.result(PATIENCE_S)
            undoing = threads.submit(make().rollback, change)
            assert server.taken.acquire(timeout=PATIENCE_S), "the undo does not wait for its turn"
        finally:
            server.working.set()
        undoing.result(PATIENCE_S)
    assert sonic.switch.config_db() == before
    assert sonic.switch.hardware((3,)) == {(port, 3): OLD if bound else None for port in PORTS}


def test_a_configuration_that_does_not_fit_the_models_is_refused_whole(make: Make, sonic: Started) -> None:
    change = make().stage(NEW, "r1-a")
    own = own_of(change)
    change.undo["after"]["profiles"][own]["green_min_threshold"] = "300000"
    before = sonic.switch.config_db()
    with pytest.raises(RefusedError, match="Given patch is not valid"):
        make().apply(change)
    assert sonic.switch.config_db() == before


def test_another_asic_has_another_path(make: Make, sonic: Started) -> None:
    asked: list[Any] = []
    get = sonic.gnmi.get
    try:
        sonic.gnmi.get = lambda origin, path, kind: asked.append(path) or []  # type: ignore[method-assign,func-returns-value]
        with pytest.raises(InventoryError, match="no row of QUEUE"):
            make(options={"namespace": "asic1"}).read()
    finally:
        sonic.gnmi.get = get  # type: ignore[method-assign]
    assert [name for name, _ in asked[0]] == ["CONFIG_DB", "asic1", "QUEUE"]


@pytest.mark.parametrize("value", ["text", ["QUEUE"], {"Ethernet0|3": "no fields"}])
def test_an_answer_that_is_no_table_is_a_refusal(make: Make, sonic: Started, value: Any) -> None:
    get = sonic.gnmi.get
    try:
        sonic.gnmi.get = lambda origin, path, kind: [(path, value)]  # type: ignore[method-assign]
        with pytest.raises(RefusedError, match="received table QUEUE that cannot be read"):
            make().read()
    finally:
        sonic.gnmi.get = get  # type: ignore[method-assign]


def test_a_chassis_names_its_queues_in_another_map(make: Make, sonic: Started) -> None:
    rows = qos_config((), OLD)
    for port in PORTS:
        rows[f"PORT|{port}"] = {"lanes": "0", "speed": "100000"}
        rows[f"QUEUE|leaf1|Asic0|{port}|3"] = {"wred_profile": "AZURE_LOSSLESS"}
    sonic.switch.reset(rows)
    adapter = make(ports=("Ethernet*",), options={"read_back": "asic"})
    assert [queue.port for queue in adapter.read().queues] == [f"leaf1|Asic0|{port}" for port in PORTS]
    assert adapter.read().watermark == OLD


def test_it_is_found_by_its_kind() -> None:
    device = Device(name="leaf1", platform="sonic-gnmi", address="leaf1.example")
    adapter = AdapterRegistry().make(device, clock_ns=lambda: 7)
    assert isinstance(adapter, SonicGnmiAdapter)
    assert adapter.capabilities().kind == "sonic-gnmi"
    adapter.close()
