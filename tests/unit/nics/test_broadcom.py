"""What Broadcom NICs run is read through a real sshd, on a tree of files like the kernel's, and never set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from nics.base import NicReading, NicValues, StagedChange
from nics.broadcom import BroadcomAdapter
from nics.registry import make
from switches.errors import CapabilityError
from tests.unit.nics.conftest import Rig
from tests.unit.nics.sshd import Sshd

UPSTREAM = {
    "enable_cc": 1,
    "run_avg_weight_g": 8,
    "init_cr": 200,
    "alt_vlan_pcp": 7,
    "alt_vlan_dscp": 48,
    "rtt": 40,
}
UPSTREAM_COUNTED = {
    "tx_cnp_pkts": 5,
    "rx_cnp_pkts": 6,
    "rx_ecn_marked_pkts": 70,
    "oos_drop_count": 8,
    "seq_err_naks_rcvd": 9,
    "rx_pkts": 1_000,
}
SAME = {
    "np_cnp_sent": 5,
    "rp_cnp_handled": 6,
    "np_ecn_marked_roce_packets": 70,
    "out_of_sequence": 8,
    "packet_seq_err": 9,
}


def write(folder: Path, values: Mapping[str, int]) -> None:
    folder.mkdir(parents=True)
    for name, value in values.items():
        (folder / name).write_text(f"{value}\n")


@pytest.fixture
def adapter(rig: Rig, sshd: Sshd) -> BroadcomAdapter:
    """Of a host with a Broadcom port ``ens3`` beside two of mlx5, and no file of its parameters yet."""
    rig.sysfs.add("ens3", driver="bnxt_en", rdma="bnxt_re", counted=UPSTREAM_COUNTED)
    sshd.give_to_account(rig.sysfs.folder)
    made = make(replace(rig.host, platform="broadcom"), clock_ns=lambda: 1_000)
    assert isinstance(made, BroadcomAdapter)
    return made


def ens3(adapter: BroadcomAdapter) -> NicReading:
    found = adapter.read().nic("ens3")
    assert found is not None
    return found


def debugfs(rig: Rig, device: str) -> Path:
    return rig.sysfs.folder / "kernel" / "debug" / "bnxt_re" / device / "cc_config"


def test_the_upstream_driver_is_read(rig: Rig, sshd: Sshd, adapter: BroadcomAdapter) -> None:
    write(debugfs(rig, "0000:3d:00.0"), UPSTREAM)
    sshd.give_to_account(rig.sysfs.folder)
    nic = ens3(adapter)
    assert (nic.nic, nic.rdma, nic.driver, nic.line_rate_mbit) == ("ens3", "bnxt_re2", "bnxt_en", 100_000)
    assert nic.values == {
        "enable_cc": 1,
        "run_avg_weight_g": 8,
        "init_cr": 200,
        "cnp_802p_prio": 7,
        "cnp_dscp": 48,
        "rtt": 40,
    }
    assert nic.counters == SAME
    assert (nic.params, nic.problem, nic.reacts) == (None, None, None)
    assert nic.notes[0].startswith("Broadcom's congestion control is not DCQCN")


def test_broadcoms_own_driver_is_read(rig: Rig, sshd: Sshd, adapter: BroadcomAdapter) -> None:
    write(debugfs(rig, "bnxt_re2"), {"enable_cc": 0, "min_time_bet_cnp_store": 4, "ai_rate_incr": 1})
    for name, value in {**SAME, "rp_cnp_handled": 66}.items():
        (rig.sysfs.folder / "class/infiniband/bnxt_re2/ports/1/hw_counters" / name).write_text(f"{value}\n")
    sshd.give_to_account(rig.sysfs.folder)
    nic = ens3(adapter)
    assert nic.values == {"enable_cc": 0, "min_time_between_cnps": 4, "ai_rate_incr": 1}
    assert nic.reacts == ()  # congestion control is off


def test_where_its_parameters_are_not_shown_its_counters_are(adapter: BroadcomAdapter) -> None:
    nic = ens3(adapter)
    assert nic.counters == SAME
    assert nic.problem is not None
    assert "bnxt_re/0000:3d:00.0/cc_config" in nic.problem
    assert not nic.notes


def test_what_cannot_be_read_of_a_file_is_left_out(rig: Rig, sshd: Sshd, adapter: BroadcomAdapter) -> None:
    write(debugfs(rig, "0000:3d:00.0"), UPSTREAM)
    sshd.give_to_account(rig.sysfs.folder)
    (debugfs(rig, "0000:3d:00.0") / "init_cr").chmod(0)  # as the kernel refuses to read tx_queue
    values = ens3(adapter).values
    assert "init_cr" not in values
    assert values["rtt"] == 40


def test_nics_of_other_drivers_are_named(adapter: BroadcomAdapter) -> None:
    other = adapter.read().nic("ens1")
    assert other is not None
    assert other.values == {}
    assert other.problem is not None
    assert "its driver is mlx5_core" in other.problem


def test_nothing_is_set(adapter: BroadcomAdapter) -> None:
    assert not adapter.writes
    with pytest.raises(CapabilityError, match="are read, and not set"):
        adapter.stage({"rpg_ai_rate": 50}, "c")
    change = StagedChange(id="c", host="gpu1", after={}, before=(NicValues("ens3", {}),), diff="")
    for step in (adapter.apply, adapter.verify, adapter.rollback):
        with pytest.raises(CapabilityError, match="are read, and not set"):
            step(change)
