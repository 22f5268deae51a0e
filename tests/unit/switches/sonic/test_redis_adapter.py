"""What is told, set, kept and undone on a SONiC switch, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import switches.sonic.redis_adapter as under_test
from switches.by_role import ByRoleAdapter
from switches.device import Device, Secret, Tls
from switches.errors import (
    AccessError,
    BusyError,
    CapabilityError,
    ConcurrentEditError,
    InventoryError,
    ReadBackError,
    RefusedError,
    UnreachableError,
)
from switches.sonic.databases import Hardware
from switches.sonic.redis_adapter import SonicAdapter
from tests.counterparts.dripping import dripping
from tests.counterparts.switches.sonic_switch import SonicSwitch, qos_config, wred_row
from twin.watermark import Watermark

MakeAdapter = Callable[..., SonicAdapter]

OLD = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)
HIGHER = Watermark(2_000_000, 8_000_000, 0.5)
PORTS = ("Ethernet0", "Ethernet4", "Ethernet8")


def made(adapter: SonicAdapter, watermark: Watermark, change_id: str = "r1-a") -> Any:
    change = adapter.stage(watermark, change_id)
    adapter.apply(change)
    adapter.verify(change)
    return change


def profiles(switch: SonicSwitch) -> set[str]:
    return {key for key in switch.config_db() if key.startswith("WRED_PROFILE|")}


def test_other_queues_of_the_same_profile_keep_it(switch: SonicSwitch, adapter: MakeAdapter) -> None:
    made(adapter(), NEW)
    assert set(switch.hardware((3,)).values()) == {NEW}
    assert set(switch.hardware((4,)).values()) == {OLD}


def test_only_the_ports_of_the_inventory_are_set(switch: SonicSwitch, adapter: MakeAdapter) -> None:
    leaf = adapter(ports=("Ethernet[04]",))
    assert [queue.port for queue in leaf.read().queues] == ["Ethernet0", "Ethernet4"]
    made(leaf, NEW)
    assert switch.hardware() == {("Ethernet0", 3): NEW, ("Ethernet4", 3): NEW, ("Ethernet8", 3): OLD}


def test_it_tells_what_hardware_runs_and_not_what_it_was_asked(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    switch.faults.ignoring = True
    switch.set_config({"WRED_PROFILE|AZURE_LOSSLESS": wred_row(NEW)})
    assert adapter().read().watermark == OLD
    with pytest.raises(ReadBackError, match=r"hardware runs what CONFIG_DB asks for"):
        adapter(timeout_s=2.0).stage(HIGHER, "r1-a")


def test_without_queue_counters_a_value_not_in_asic_db_is_never_told(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    switch.queue_map = False
    switch.reset()
    assert adapter().read().watermark == OLD
    switch.faults.ignoring = True
    switch.set_config({"WRED_PROFILE|AZURE_LOSSLESS": wred_row(NEW)})
    with pytest.raises(ReadBackError, match="no such values in ASIC_DB"):
        adapter(timeout_s=2.0).read()


def test_a_reading_waits_out_the_moment_between_config_and_hardware(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    switch.queue_map = False
    switch.reset()
    switch.faults.lag_s = 0.2
    switch.set_config({"WRED_PROFILE|AZURE_LOSSLESS": wred_row(NEW)})
    assert adapter().read().watermark == NEW


def test_a_late_orchagent_is_waited_for(switch: SonicSwitch, adapter: MakeAdapter) -> None:
    switch.faults.lag_s = 0.05
    leaf = adapter()
    change = leaf.stage(NEW, "r1-a")
    leaf.apply(change)
    assert leaf.verify(change).watermark == NEW
    leaf.rollback(change)
    assert set(switch.hardware().values()) == {OLD}


def test_hardware_that_rounds_runs_what_was_asked(switch: SonicSwitch, adapter: MakeAdapter) -> None:
    switch.faults.rounding_bytes = 144
    assert made(adapter(), NEW).after == NEW
    (running,) = set(switch.hardware().values())
    assert running == Watermark(50_112, 200_016, 0.05)
    assert adapter().read().watermark == NEW
    exact = adapter(options={"asic_rounding_bytes": 0}, settle_s=0.2)
    assert exact.read().watermark == running


def test_a_profile_the_hardware_refuses_is_a_read_back_error(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    leaf = adapter(settle_s=0.3)
    change = leaf.stage(NEW, "r1-a")
    switch.faults.refusing = True
    leaf.apply(change)
    with pytest.raises(ReadBackError, match=r"Ethernet0 queue 3 and 2 more where CONFIG_DB asks for"):
        leaf.verify(change)
    switch.faults.refusing = False
    leaf.rollback(change)
    assert set(switch.hardware().values()) == {OLD}


def test_an_image_that_sets_thresholds_in_any_order_never_runs_a_mix(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    switch.faults.deferring = False
    leaf = adapter()
    for number, asked in enumerate((NEW, HIGHER, NEW)):
        change = made(leaf, asked, f"r{number}-a")
    leaf.rollback(change)
    known = {(mark.kmin_bytes, mark.kmax_bytes) for mark in (OLD, NEW, HIGHER)}
    assert set(switch.history()) <= known


def test_the_stand_in_would_show_a_mix(switch: SonicSwitch, adapter: MakeAdapter) -> None:
    switch.faults.deferring = False
    made(adapter(queues=(3, 4), options={"own_profile": False}), HIGHER)
    made(adapter(queues=(3, 4), options={"own_profile": False}), NEW, "r2-a")
    assert any(kmin > kmax for kmin, kmax in switch.history())


def test_changes_in_a_row_are_undone_in_reverse_and_leave_nothing(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    before = switch.config_db()
    asked = [NEW, HIGHER, NEW, Watermark(60_000, 250_000, 0.1)]
    changes = [made(adapter(), mark, f"r{number}-a") for number, mark in enumerate(asked)]
    own = {name for name in profiles(switch) if "ECNTWIN" in name}
    assert len(own) <= 2  # the one that runs, and the one before
    for change, mark in zip(reversed(changes), [*reversed(asked[:-1]), OLD], strict=True):
        adapter().rollback(change)
        assert set(switch.hardware().values()) == {mark}
    assert switch.config_db() == before
    assert switch.log() == []


def test_a_queue_without_a_profile_gets_one_and_loses_it_again(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    rows = qos_config(PORTS, OLD)
    del rows["QUEUE|Ethernet8|3"]["wred_profile"]
    switch.reset(rows)
    leaf = adapter()
    assert leaf.read().queues[-1].watermark is None
    change = leaf.stage(NEW, "r1-a")
    assert "-Ethernet8/3 ecn: off" in change.diff
    leaf.apply(change)
    leaf.verify(change)
    assert set(switch.hardware().values()) == {NEW}
    leaf.rollback(change)
    assert switch.config_db() == rows
    assert switch.hardware()[("Ethernet8", 3)] is None


def test_ranges_lists_and_old_references_are_bound_in_their_own_form(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    rows = qos_config((), OLD) | {
        "QUEUE|Ethernet0,Ethernet4|3-4": {
            "wred_profile": "[WRED_PROFILE|AZURE_LOSSLESS]",
            "scheduler": "[S|1]",
        },
        "QUEUE|Ethernet8|3": {"wred_profile": "AZURE_LOSSLESS"},
        "QUEUE|Ethernet8|4": {"wred_profile": "AZURE_LOSSLESS"},
    }
    switch.reset(rows)
    change = made(adapter(queues=(3, 4)), NEW)
    assert set(switch.hardware((3, 4)).values()) == {NEW}
    now = switch.config_db()
    assert now["QUEUE|Ethernet0,Ethernet4|3-4"]["wred_profile"].startswith("[WRED_PROFILE|ECNTWIN_Q3-4_")
    assert now["QUEUE|Ethernet0,Ethernet4|3-4"]["scheduler"] == "[S|1]"
    adapter(queues=(3, 4)).rollback(change)
    assert switch.config_db() == rows


def test_a_row_for_other_queues_too_is_not_set(switch: SonicSwitch, adapter: MakeAdapter) -> None:
    rows = qos_config((), OLD) | {"QUEUE|Ethernet0|3-4": {"wred_profile": "AZURE_LOSSLESS"}}
    switch.reset(rows)
    assert len(adapter().read().queues) == 2
    with pytest.raises(CapabilityError, match="Ethernet0 queue 4 too"):
        adapter().stage(NEW, "r1-a")


def test_a_chassis_is_read_by_its_virtual_queues(switch: SonicSwitch, adapter: MakeAdapter) -> None:
    rows = qos_config((), OLD) | {
        f"QUEUE|host-1|asic0|{port}|3": {"wred_profile": "AZURE_LOSSLESS"}
        for port in ("Ethernet0", "Ethernet4")
    }
    switch.reset(rows)
    leaf = adapter(ports=("Ethernet0",))
    assert [queue.port for queue in leaf.read().queues] == ["host-1|asic0|Ethernet0"]
    made(leaf, NEW)
    running = switch.hardware()
    assert running[("host-1|asic0|Ethernet0", 3)] == NEW
    assert running[("host-1|asic0|Ethernet4", 3)] == OLD
    switch.faults.ignoring = True
    name = switch.config_db()["QUEUE|host-1|asic0|Ethernet0|3"]["wred_profile"]
    switch.set_config({f"WRED_PROFILE|{name}": wred_row(HIGHER)})
    assert leaf.read().watermark == NEW  # by the queue's own object, and not by values


def test_a_profile_with_a_field_nobody_knows_is_not_copied(switch: SonicSwitch, adapter: MakeAdapter) -> None:
    leaf = adapter()
    with switch.server.client(4) as image:  # of a later image, whose orchagent knows it
        switch.faults.ignoring = True
        image.hset("WRED_PROFILE|AZURE_LOSSLESS", "green_ect_min_threshold", "1")
    with pytest.raises(CapabilityError, match="field 'green_ect_min_threshold'"):
        leaf.stage(NEW, "r1-a")


def test_a_queue_that_runs_the_watermark_already_keeps_its_profile(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    switch.set_config({"WRED_PROFILE|TWIN": wred_row(NEW), "QUEUE|Ethernet4|3": {"wred_profile": "TWIN"}})
    switch.settle()
    made(adapter(), NEW)
    assert set(switch.hardware().values()) == {NEW}
    assert switch.config_db()["QUEUE|Ethernet4|3"]["wred_profile"] == "TWIN"


@pytest.mark.parametrize("field", ["green_drop_probability", "ecn", "wred_green_enable"])
def test_no_field_is_added_in_place_since_hardware_would_keep_it(
    switch: SonicSwitch, adapter: MakeAdapter, field: str
) -> None:
    rows = qos_config(PORTS, OLD)
    del rows["WRED_PROFILE|AZURE_LOSSLESS"][field]
    switch.reset(rows)
    with pytest.raises(CapabilityError, match=f"WRED_PROFILE.AZURE_LOSSLESS without {field}"):
        adapter(queues=(3, 4), options={"own_profile": False}).stage(NEW, "r1-a")
    leaf = adapter(queues=(3, 4))
    leaf.rollback(made(leaf, NEW))
    assert switch.config_db() == rows


def test_no_profile_is_removed_that_hardware_may_still_run(
    switch: SonicSwitch, adapter: MakeAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(adapter(), NEW)
    made(adapter(), HIGHER, "r2-a")
    spare = {name for name in profiles(switch) if "ECNTWIN" in name}
    leaf = adapter()
    change = leaf.stage(Watermark(60_000, 250_000, 0.1), "r3-a")
    monkeypatch.setattr(under_test, "read_hardware", lambda *_: Hardware((), ()))
    leaf.apply(change)
    assert len(spare) == 2
    assert spare < profiles(switch)


def test_a_shared_profile_is_not_edited_under_others(switch: SonicSwitch, adapter: MakeAdapter) -> None:
    with pytest.raises(CapabilityError, match=r"to which QUEUE\|Ethernet0\|4, .* are bound too"):
        adapter(options={"own_profile": False}).stage(NEW, "r1-a")


def test_a_profile_of_ours_that_somebody_edited_is_left_to_them(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    made(adapter(), NEW)
    (own,) = (name for name in profiles(switch) if "ECNTWIN" in name)
    switch.set_config({own: {"green_max_threshold": "300000"}})
    switch.settle()
    assert adapter().read().watermark == Watermark(50_000, 300_000, 0.05)
    change = made(adapter(), NEW, "r2-a")
    assert set(switch.hardware().values()) == {NEW}
    assert switch.config_db()[own]["green_max_threshold"] == "300000"
    adapter().rollback(change)
    assert set(switch.hardware().values()) == {Watermark(50_000, 300_000, 0.05)}


def test_another_colour_edited_since_staging_is_somebody_elses_work(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    leaf = adapter()
    change = leaf.stage(NEW, "r1-a")
    switch.set_config({"WRED_PROFILE|AZURE_LOSSLESS": {"red_drop_probability": "77"}})
    with pytest.raises(ConcurrentEditError, match=r"WRED_PROFILE\|AZURE_LOSSLESS with other values"):
        leaf.apply(change)


def test_a_queue_bound_elsewhere_with_the_same_values_is_somebody_elses_work(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    leaf = adapter()
    change = leaf.stage(NEW, "r1-a")
    switch.set_config({"WRED_PROFILE|TWIN": wred_row(OLD), "QUEUE|Ethernet4|3": {"wred_profile": "TWIN"}})
    with pytest.raises(ConcurrentEditError, match=r"QUEUE\|Ethernet4\|3 bound to TWIN"):
        leaf.apply(change)


def test_an_edit_between_looking_and_setting_stops_the_change(
    switch: SonicSwitch, adapter: MakeAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf = adapter()
    change = leaf.stage(NEW, "r1-a")
    looked = under_test.read_hardware

    def interrupted(*arguments: Any) -> Any:
        switch.set_config({"WRED_PROFILE|AZURE_LOSSLESS": {"green_drop_probability": "6"}})
        return looked(*arguments)

    monkeypatch.setattr(under_test, "read_hardware", interrupted)
    with pytest.raises(BusyError, match="changed while it was being set"):
        leaf.apply(change)
    rows = switch.config_db()
    assert {rows[f"QUEUE|{port}|3"]["wred_profile"] for port in PORTS} == {"AZURE_LOSSLESS"}


def test_an_edit_of_the_same_rows_while_it_is_undone_does_not_end_the_undo(
    switch: SonicSwitch, adapter: MakeAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another field of a queue's row: the watermark is still ours to take back."""
    leaf = adapter()
    change = made(leaf, NEW)
    looked = under_test.read_config

    def interrupted(*arguments: Any) -> Any:
        found = looked(*arguments)
        switch.set_config({"QUEUE|Ethernet4|3": {"scheduler": "scheduler.1"}})
        monkeypatch.undo()
        return found

    monkeypatch.setattr(under_test, "read_config", interrupted)
    with pytest.raises(BusyError, match="changed while it was being set"):
        leaf.rollback(change)
    assert set(switch.hardware().values()) == {NEW}
    leaf.rollback(change)
    assert set(switch.hardware().values()) == {OLD}


def test_a_profile_removed_since_is_written_again_to_undo(switch: SonicSwitch, adapter: MakeAdapter) -> None:
    leaf = adapter(queues=(3, 4))
    before = switch.config_db()
    change = made(leaf, NEW)
    with switch.server.client(4) as somebody:
        somebody.delete("WRED_PROFILE|AZURE_LOSSLESS")
    switch.settle()
    leaf.rollback(change)
    assert switch.config_db() == before
    assert set(switch.hardware((3, 4)).values()) == {OLD}


def test_the_socket_of_a_switch_will_do(switch: SonicSwitch, adapter: MakeAdapter) -> None:
    leaf = adapter(address=f"unix:{switch.server.socket}", port=None)
    leaf.rollback(made(leaf, NEW))
    assert leaf.read().watermark == OLD


def test_a_password_that_is_missing_or_wrong_is_an_access_error(
    switch: SonicSwitch, adapter: MakeAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SONIC_TEST_WRONG", "wrong-password")
    with switch.server.client(0) as somebody:
        somebody.config_set("requirepass", "right-password")
        try:
            for secret in (None, Secret(env="SONIC_TEST_WRONG")):
                with pytest.raises(AccessError) as refused:
                    adapter(password=secret).read()
                assert "wrong-password" not in str(refused.value)
        finally:
            somebody.config_set("requirepass", "")


def test_a_database_that_is_not_there_is_refused(adapter: MakeAdapter) -> None:
    with pytest.raises(RefusedError, match="DB index is out of range"):
        adapter(options={"counters_db": 99}).read()


@pytest.mark.parametrize("address", ["127.0.0.1", "unix:/nowhere/redis.sock"])
def test_nothing_that_listens_is_unreachable(adapter: MakeAdapter, address: str) -> None:
    with pytest.raises(UnreachableError, match="no connection to redis"):
        adapter(address=address, port=1).read()


@pytest.mark.parametrize("host", ["leaf..1", "x" * 64])
def test_a_host_that_no_name_server_could_know_is_the_inventorys(adapter: MakeAdapter, host: str) -> None:
    with pytest.raises(InventoryError, match="no host's name"):
        adapter(address=host).read()


@pytest.mark.parametrize("answer", [b"*abc\r\n", b":x\r\n", b"+OK\r\n", b"SSH-2.0\r\n", b"*1\r\n" * 3000])
def test_what_is_no_redis_is_refused(adapter: MakeAdapter, answer: bytes) -> None:
    with dripping(answer, every_s=0.01, byte=answer) as port, pytest.raises(RefusedError):
        adapter(port=port).read()


@pytest.mark.parametrize("beginning", [b"$100000\r\n", b"*100000\r\n:1"])
def test_an_answer_that_never_ends_is_none(adapter: MakeAdapter, beginning: bytes) -> None:
    """Part after part comes in time, and a thread would be held for as long as they do."""
    with (
        dripping(beginning, every_s=0.02, byte=b"1") as port,
        pytest.raises(UnreachableError, match="no answer to the commands within"),
    ):
        adapter(port=port, timeout_s=0.3).read()


def test_a_certificate_file_that_is_not_there_is_named(adapter: MakeAdapter, tmp_path: Any) -> None:
    with pytest.raises(InventoryError, match=r"absent\.pem: No such file"):
        adapter(tls=Tls(enabled=True, ca_file=tmp_path / "absent.pem")).read()


@pytest.mark.parametrize("address", ["", "http://10.0.0.1", "unix:"])
def test_an_address_that_names_no_redis_is_found_without_asking(address: str) -> None:
    with pytest.raises(InventoryError, match="give a host"):
        SonicAdapter(Device(name="leaf1", platform="sonic", address=address), clock_ns=lambda: 7)


@pytest.mark.parametrize(
    "options", [{"own_profil": True}, {"asic_rounding_bytes": -1}, {"config_db": "4"}, {"own_profile": "no"}]
)
def test_options_are_checked_without_asking(options: dict[str, Any]) -> None:
    with pytest.raises(InventoryError, match="options of sonic are own_profile"):
        SonicAdapter(
            Device(name="leaf1", platform="sonic", address="10.0.0.1", options=options), clock_ns=lambda: 7
        )


def test_a_change_of_another_platform_is_not_taken_for_its_own(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    change = replace(adapter().stage(NEW, "r1-a"), undo={"revision": "7"})
    for act in (adapter().apply, adapter().rollback):
        with pytest.raises(InventoryError, match="staged in another way"):
            act(change)


def test_it_says_what_it_can_do() -> None:
    def of(**options: Any) -> Any:
        device = Device(name="leaf1", platform="sonic", address="10.0.0.1", options=options)
        return SonicAdapter(device, clock_ns=lambda: 7).capabilities()

    assert (of().per, of().atomic, of().dead_man, of().read_back) == ("queue", True, False, "ASIC_DB")
    assert (of(own_profile=False).per, of(own_profile=False).atomic) == ("profile", False)


def test_ports_by_role_are_set_and_undone_as_one_change(switch: SonicSwitch, adapter: MakeAdapter) -> None:
    ports = {"leaf-host-100G": ("Ethernet0", "Ethernet4"), "leaf-up-400G": ("Ethernet8",)}

    def by_role() -> ByRoleAdapter:
        roles = {role: adapter(role=role, ports=names) for role, names in ports.items()}
        return ByRoleAdapter(adapter(role="by-role", ports=PORTS), roles, ports)

    before = switch.config_db()
    one = by_role()
    change = one.stage_by_role({"leaf-host-100G": NEW, "leaf-up-400G": HIGHER}, NEW, "r1-a")
    one.apply(change)
    assert change.made_in(one.verify(change))
    assert switch.hardware() == {("Ethernet0", 3): NEW, ("Ethernet4", 3): NEW, ("Ethernet8", 3): HIGHER}
    by_role().rollback(change)
    assert switch.config_db() == before
