"""What NICs run is read and set through a real sshd, on a tree of files like the kernel's."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from contextlib import contextmanager

import msgspec
import pytest

from nics.base import StagedChange
from nics.connectx import ConnectXAdapter
from nics.parameters import Values
from switches.errors import (
    CapabilityError,
    ConcurrentEditError,
    GoneError,
    InventoryError,
    ReadBackError,
    UnreachableError,
)
from tests.unit.nics.conftest import Rig
from tests.unit.nics.sshd import Sshd
from tests.unit.nics.sysfs import DEFAULTS
from twin.senders.dcqcn import VENDOR

WANTED: Values = {"rpg_ai_rate": 50, "rpg_hai_rate": 150, "dce_tcp_g": 1000, "rpg_time_reset": 100}


def again(change: StagedChange) -> StagedChange:
    """The change in another process, after a crash."""
    return msgspec.json.decode(msgspec.json.encode(change), type=StagedChange)


def all_values(rig: Rig) -> dict[str, dict[str, int]]:
    return {nic: {name: rig.sysfs.value(nic, name) for name in DEFAULTS} for nic in ("ens1", "ens2")}


@contextmanager
def locked(rig: Rig):  # type: ignore[no-untyped-def]
    """Waits for the host's script to end, and keeps the next from beginning."""
    folder = os.open(rig.sysfs.folder / "class" / "net", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    yield
    os.close(folder)


def test_one_command_reads_every_value_and_counter(rig: Rig) -> None:
    reading = rig.adapter().read()
    assert reading.host == "gpu1"
    assert reading.read_ns == 1_000
    first, second = reading.nics
    assert first.params == second.params == VENDOR
    assert (first.nic, first.rdma, first.driver, first.line_rate_mbit) == (
        "ens1",
        "mlx5_0",
        "mlx5_core",
        100_000,
    )
    assert first.values == DEFAULTS
    assert first.counters["np_cnp_sent"] == 120
    assert "lifespan" not in first.counters
    assert first.reacts == first.notifies == (3,)
    assert second.nic == "ens2"


def test_the_upstream_drivers_files_are_in_debugfs(rig: Rig, sshd: Sshd) -> None:
    rig.sysfs.add("ens3", debugfs=True, values={**DEFAULTS, "rpg_ai_rate": 20})
    sshd.give_to_account(rig.sysfs.folder)
    adapter = rig.adapter()
    nic = adapter.read().nics[2]
    assert nic.values["rpg_ai_rate"] == 20
    assert nic.reacts is None
    change = adapter.stage({"rpg_ai_rate": 30}, "c")
    adapter.apply(change)
    assert adapter.verify(change).nics[2].values["rpg_ai_rate"] == 30
    assert rig.sysfs.debug_file("0000:3d:00.0", "rpg_ai_rate").read_text() == "30\n"


def test_pauses_come_from_ethtool_where_it_is_there(rig: Rig, sshd: Sshd) -> None:
    sshd.shadow("ethtool", 'printf "NIC statistics:\\n     rx_prio3_pause: 17\\n     rx_prio3_bytes: 9\\n"')
    assert rig.adapter().read().nics[0].counters["rx_prio3_pause"] == 17


@pytest.mark.parametrize("patterns", [("ens2",), ("mlx5_1",), ("*s2", "eth0")])
def test_only_nics_of_the_inventory_are_read(
    changed: Callable[..., ConnectXAdapter], patterns: tuple[str, ...]
) -> None:
    assert [nic.nic for nic in changed(nics=patterns).read().nics] == ["ens2"]


def test_a_name_that_no_nic_has_is_told_with_those_there(changed: Callable[..., ConnectXAdapter]) -> None:
    with pytest.raises(CapabilityError, match=r"ens1 \(mlx5_0\), ens2 \(mlx5_1\); .* correct nics"):
        changed(nics=("eth*",)).read()


def test_a_nic_of_another_make_is_known_and_not_read(rig: Rig, sshd: Sshd) -> None:
    rig.sysfs.add("ens9", driver="bnxt_en")
    sshd.give_to_account(rig.sysfs.folder)
    adapter = rig.adapter()
    nic = adapter.read().nics[2]
    assert nic.params is None
    assert "its driver is bnxt_en, and DCQCN is read of mlx5 NICs alone" in (nic.problem or "")
    with pytest.raises(CapabilityError, match="only NICs of mlx5 are set"):
        adapter.stage(WANTED, "c")


def test_a_file_that_is_missing_is_a_driver_too_old(rig: Rig) -> None:
    rig.sysfs.file("ens2", "dce_tcp_g").unlink()
    adapter = rig.adapter()
    reading = adapter.read()
    assert [nic.params for nic in reading.nics] == [VENDOR, None]
    assert "NIC ens2: received no file of dce_tcp_g" in (reading.nics[1].problem or "")
    with pytest.raises(CapabilityError, match="newer driver or firmware"):
        adapter.stage(WANTED, "c")
    assert adapter.stage({"rpg_ai_rate": 9}, "c").diff


def test_a_file_without_a_number_is_no_value(rig: Rig) -> None:
    rig.sysfs.write("ens1", "rpg_ai_rate", "N/A")
    reading = rig.adapter().read()
    assert "no file of rpg_ai_rate" in (reading.nics[0].problem or "")


def test_a_host_without_the_kernels_files_is_told(changed: Callable[..., ConnectXAdapter]) -> None:
    adapter = changed(sysfs="/nowhere")
    with pytest.raises(CapabilityError, match="no /nowhere/class/net"):
        adapter.read()


def test_a_place_that_a_shell_could_read_otherwise_is_refused(
    changed: Callable[..., ConnectXAdapter],
) -> None:
    with pytest.raises(InventoryError, match="absolute path"):
        changed(sysfs="/sys; reboot")


def test_a_change_is_made_read_back_and_undone(rig: Rig) -> None:
    rig.sysfs.write("ens2", "rpg_ai_rate", 7)
    before = all_values(rig)
    adapter = rig.adapter()
    change = adapter.stage(WANTED, "c1")
    assert change.diff.splitlines()[:2] == [
        "gpu1/ens1 rpg_ai_rate: 5 → 50 Mbit/s",
        "gpu1/ens1 rpg_hai_rate: 50 → 150 Mbit/s",
    ]
    assert "gpu1/ens2 rpg_ai_rate: 7 → 50 Mbit/s" in change.diff
    assert all_values(rig) == before
    for _ in range(2):  # each step may run again, in another process
        rig.adapter().apply(again(change))
        assert change.made_in(rig.adapter().verify(again(change)))
    assert all(all_values(rig)[nic] == {**before[nic], **WANTED} for nic in before)
    for _ in range(2):
        rig.adapter().rollback(again(change))
        assert all_values(rig) == before
    with pytest.raises(ReadBackError, match="ens1 rpg_ai_rate 5 Mbit/s; after applying"):
        adapter.verify(change)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"rpg_time_reset": 0}, "a NIC takes 1 to 131071 µs"),
        ({"rpg_ai_rate": 100_001}, "NIC ens1 rpg_ai_rate: received 100001 Mbit/s; a NIC takes 1 to 100000"),
        ({"rpg_speed": 1}, "parameters of a NIC are"),
    ],
)
def test_what_a_nic_does_not_take_is_not_staged(rig: Rig, values: Values, says: str) -> None:
    with pytest.raises(CapabilityError, match=says):
        rig.adapter().stage(values, "c")


def test_a_value_that_does_not_take_undoes_all_that_was_set(rig: Rig) -> None:
    before = all_values(rig)
    change = rig.adapter().stage(WANTED, "c")
    rig.sysfs.file("ens2", "dce_tcp_g").chmod(0o444)
    with pytest.raises(ReadBackError, match=r"ens2/ecn/roce_rp/dce_tcp_g: 1019; all was undone"):
        rig.adapter().apply(change)
    assert all_values(rig) == before


def test_an_undo_goes_on_where_one_value_does_not_take(rig: Rig) -> None:
    before = all_values(rig)
    adapter = rig.adapter()
    change = adapter.stage(WANTED, "c")
    adapter.apply(change)
    stuck = rig.sysfs.file("ens1", "rpg_ai_rate")
    stuck.chmod(0o444)
    with pytest.raises(ReadBackError, match=r"ens1/ecn/roce_rp/rpg_ai_rate: 50; after rolling back"):
        adapter.rollback(change)
    stuck.chmod(0o644)
    now = all_values(rig)
    assert now == {"ens1": {**before["ens1"], "rpg_ai_rate": 50}, "ens2": before["ens2"]}
    adapter.rollback(change)
    assert all_values(rig) == before


def test_values_of_somebody_else_are_left(rig: Rig) -> None:
    adapter = rig.adapter()
    change = adapter.stage(WANTED, "c")
    rig.sysfs.write("ens2", "rpg_ai_rate", 33)
    now = all_values(rig)
    for step in (adapter.apply, adapter.rollback):
        with pytest.raises(ConcurrentEditError, match=r"ens2/ecn/roce_rp/rpg_ai_rate: 33"):
            step(change)
    assert all_values(rig) == now


def test_of_two_writers_one_is_told_to_wait(rig: Rig) -> None:
    adapter = rig.adapter()
    change = adapter.stage(WANTED, "c")
    now = all_values(rig)
    with locked(rig), pytest.raises(ConcurrentEditError, match="another change under way"):
        adapter.apply(change)
    assert all_values(rig) == now
    adapter.apply(change)


def test_a_second_change_from_the_same_state_is_refused(rig: Rig) -> None:
    first, second = rig.adapter(), rig.adapter()
    one, other = first.stage({"rpg_ai_rate": 10}, "a"), second.stage({"rpg_ai_rate": 20}, "b")
    first.apply(one)
    with pytest.raises(ConcurrentEditError, match="only this change may set it"):
        second.apply(other)
    assert rig.sysfs.value("ens1", "rpg_ai_rate") == 10


# Each cat is a moment at which the script looks at a file: the n-th one ends what the second word names.
_AT = r"""
count=$(/bin/cat "$0.count" 2>/dev/null || echo 0)
count=$((count + 1))
echo $count >"$0.count"
if [ $count -eq {moment} ]; then
    {what}
fi
exec /bin/cat "$@"
"""


def at(sshd: Sshd, moment: int, what: str) -> None:
    sshd.shadow("cat", _AT.replace("{moment}", str(moment)).replace("{what}", what))


def test_what_could_not_be_undone_is_named(rig: Rig, sshd: Sshd) -> None:
    before = all_values(rig)
    adapter = rig.adapter()
    change = adapter.stage(WANTED, "c")
    first, stuck = rig.sysfs.file("ens1", "rpg_ai_rate"), rig.sysfs.file("ens2", "rpg_ai_rate")
    stuck.chmod(0o444)
    at(sshd, 18, f"chmod 444 {first}")  # eight values were looked at, and those of ens1 set by then
    with pytest.raises(ReadBackError, match=r"could not be undone in ens1/ecn/roce_rp/rpg_ai_rate: 50"):
        adapter.apply(change)
    for path in (first, stuck):
        path.chmod(0o644)
    adapter.rollback(change)
    assert all_values(rig) == before


@pytest.mark.parametrize("debugfs", [False, True])
def test_an_undo_passes_over_a_nic_that_is_gone(rig: Rig, sshd: Sshd, debugfs: bool) -> None:
    rig.sysfs.add("ens3", debugfs=debugfs)
    sshd.give_to_account(rig.sysfs.folder)
    before = all_values(rig)
    adapter = rig.adapter()
    change = adapter.stage(WANTED, "c")
    adapter.apply(change)
    pci = rig.sysfs.folder / "kernel" / "debug" / "mlx5" / "0000:3d:00.0"
    shutil.rmtree(pci if debugfs else rig.sysfs.folder / "class" / "net" / "ens3" / "ecn")
    for _ in range(2):
        adapter.rollback(again(change))
        assert all_values(rig) == before


def test_an_undo_is_tried_again_while_all_of_its_nics_are_gone(rig: Rig) -> None:
    """Their driver may be loaded anew."""
    before = all_values(rig)
    adapter = rig.adapter()
    change = adapter.stage(WANTED, "c")
    adapter.apply(change)
    shown = [rig.sysfs.folder / "class" / "net" / nic / "ecn" for nic in ("ens1", "ens2")]
    for path in shown:
        path.rename(path.with_name("away"))
    with pytest.raises(GoneError, match="received none of them"):
        adapter.rollback(change)
    for path in shown:
        path.with_name("away").rename(path)
    adapter.rollback(change)
    assert all_values(rig) == before


def test_a_nic_that_is_gone_fails_a_change(rig: Rig) -> None:
    adapter = rig.adapter()
    change = adapter.stage(WANTED, "c")
    shutil.rmtree(rig.sysfs.folder / "class" / "net" / "ens2" / "ecn")
    with pytest.raises(CapabilityError, match=r"no ens2/ecn/roce_rp/rpg_ai_rate"):
        adapter.apply(change)
    assert rig.sysfs.value("ens1", "rpg_ai_rate") == 5


def test_a_file_that_went_away_since_it_was_staged(rig: Rig) -> None:
    adapter = rig.adapter()
    change = adapter.stage(WANTED, "c")
    rig.sysfs.file("ens2", "rpg_hai_rate").unlink()
    for step in (adapter.apply, adapter.rollback):
        with pytest.raises(CapabilityError, match=r"no ens2/ecn/roce_rp/rpg_hai_rate"):
            step(change)
    assert rig.sysfs.value("ens1", "rpg_ai_rate") == 5


@pytest.mark.parametrize("moment", range(1, 21))
def test_a_host_that_stops_at_any_instant_is_undone_or_finished(rig: Rig, sshd: Sshd, moment: int) -> None:
    before = all_values(rig)
    adapter = rig.adapter()
    change = adapter.stage(WANTED, "c")
    at(sshd, moment, "kill -9 $PPID")
    with pytest.raises(UnreachableError, match=r"ended by signal 9|without an exit status"):
        adapter.apply(change)
    (sshd.programs / "cat").unlink()
    if moment % 2:
        adapter.rollback(again(change))
        assert all_values(rig) == before
    else:
        adapter.apply(again(change))
        assert change.made_in(adapter.read())


@pytest.mark.parametrize("moment", [1, 12, 17])
def test_a_change_is_finished_where_the_connection_is_lost(rig: Rig, sshd: Sshd, moment: int) -> None:
    # The session's own process is the nearest sshd above.
    up = (
        "up=$PPID; while ! grep -q '^Name:.*sshd' /proc/$up/status; do "
        "up=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$up/status); done; kill -9 $up"
    )
    change = rig.adapter().stage(WANTED, "c")
    at(sshd, moment, up)
    with pytest.raises(UnreachableError, match="a connection that ended"):
        rig.adapter().apply(change)
    with locked(rig):
        assert change.made_in(rig.adapter().read())


def test_a_change_of_another_platform_is_refused(rig: Rig) -> None:
    adapter = rig.adapter()
    change = adapter.stage(WANTED, "c")
    document = {**msgspec.to_builtins(change), "undo": {"places": 1}}
    with pytest.raises(InventoryError, match="staged in another way"):
        adapter.apply(msgspec.convert(document, StagedChange))
    document["undo"] = {"files": {nic: dict.fromkeys(WANTED, "x; reboot") for nic in ("ens1", "ens2")}}
    with pytest.raises(InventoryError, match="no path of a NIC"):
        adapter.apply(msgspec.convert(document, StagedChange))
