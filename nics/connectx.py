"""NVIDIA ConnectX-4 and later through the kernel's files, over SSH.

MLNX_OFED and DOCA show a port's parameters under ``/sys/class/net/DEVICE/ecn``, the upstream driver in
debugfs under ``mlx5/PCI/cc_params``, to root alone. Each file is set by itself: a change is one script that
holds a lock, compares, writes, reads back, and undoes itself where a file does not take its value. Its host
finishes it also where the connection is lost; a host that stops in between has a mix of old and new values,
which ``rollback`` knows as its own.
"""

from __future__ import annotations

import re

import msgspec

from nics.base import NicReading, NicValues, Reading, StagedChange, understood, values_diff
from nics.commands import COUNTERS, FileChange, FoundNic, numbers, set_script
from nics.files import FilesAdapter
from nics.parameters import PARAMETERS, Values, check_values, too_old
from switches.errors import (
    BusyError,
    CapabilityError,
    ConcurrentEditError,
    GoneError,
    InventoryError,
    ReadBackError,
)

DRIVER = "mlx5_core"


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file of each parameter, by NIC and parameter, relative to ``class/net``."""

    files: dict[str, dict[str, str]]


class ConnectXAdapter(FilesAdapter):
    """As ``FilesAdapter``; it sets what NICs run, too."""

    writes = True

    def stage(self, values: Values, change_id: str) -> StagedChange:
        check_values(values, self._host.where)
        found = self._found()
        before, files = [], {}
        for nic, reading in zip(found, self._reading(found).nics, strict=True):
            where = f"{self._host.where} NIC {reading.nic}"
            if reading.driver != DRIVER:
                assert reading.problem is not None
                raise CapabilityError(
                    where,
                    reading.driver,
                    "only NICs of mlx5 are set",
                    "leave it out of nics of the inventory",
                )
            places = _places(nic)
            missing = [name for name in values if name not in places or name not in reading.values]
            if missing:
                raise too_old(where, missing)
            check_values(values, where, reading.line_rate_mbit)
            before.append(NicValues(reading.nic, {name: reading.values[name] for name in values}))
            files[reading.nic] = {name: places[name] for name in values}
        return StagedChange(
            id=change_id,
            host=self.host,
            after=dict(values),
            before=tuple(before),
            diff=values_diff(self.host, before, values),
            undo={"files": files},
        )

    def apply(self, change: StagedChange) -> None:
        answer = self._set(change, undo=False)
        if answer.refused:
            rule = "a NIC takes every value of a change, or the change is undone"
            if answer.left:
                undone = f"could not be undone in {', '.join(answer.left)}"
                remedy = "set the old values by hand, and check driver and firmware"
            elif not answer.undone:
                undone, remedy = "its undoing did not end", "undo the change"
            else:
                undone, remedy = "all was undone", "check the value, and the version of driver and firmware"
            received = f"{', '.join(answer.refused)}; {undone}"
            raise ReadBackError(self._host.where, received, rule, remedy)

    def verify(self, change: StagedChange) -> Reading:
        found = self.read()
        if change.made_in(found):
            return found
        rule = "after applying, every NIC must run the values of the change"
        remedy = "check for others who set this host, and its own log"
        raise ReadBackError(self._host.where, change.difference(found), rule, remedy)

    def rollback(self, change: StagedChange) -> None:
        answer = self._set(change, undo=True)
        if answer.refused:
            rule = "after rolling back, every NIC must run what it did before"
            remedy = "check the host's log, and set the old values by hand"
            raise ReadBackError(self._host.where, ", ".join(answer.refused), rule, remedy)

    def _nic(self, nic: FoundNic) -> NicReading:
        name, where = nic.name, f"{self._host.where} NIC {nic.name}"
        if nic.driver != DRIVER:
            other = f"{where}: its driver is {nic.driver}, and DCQCN is read of mlx5 NICs alone"
            return NicReading(nic=name, rdma=nic.rdma, driver=nic.driver, problem=other)
        values = {
            parameter: int(text)
            for parameter, path in _places(nic).items()
            if re.fullmatch(r"[0-9]{1,10}", text := nic.files[path].strip())
        }
        params, problem = understood(where, values)
        counters = numbers(nic.files, f"../infiniband/{nic.rdma}/ports/1/hw_counters")
        return NicReading(
            nic=name,
            rdma=nic.rdma,
            driver=nic.driver,
            values=values,
            counters={key: counters[key] for key in COUNTERS if key in counters} | nic.counters,
            reacts=_priorities(nic, "roce_rp"),
            notifies=_priorities(nic, "roce_np"),
            line_rate_mbit=numbers(nic.files, name).get("speed") or None,
            params=params,
            problem=problem,
        )

    def _set(self, change: StagedChange, *, undo: bool) -> _Answer:
        """Runs the script that makes or undoes the change; raises where it set nothing."""
        try:
            files = msgspec.convert(change.undo, _Record).files
            changes = [
                FileChange(
                    files[one.nic][name], *((change.after[name], was) if undo else (was, change.after[name]))
                )
                for one in change.before
                for name, was in one.values.items()
            ]
            script = set_script(changes)
        except (msgspec.ValidationError, KeyError, ValueError) as error:
            rule = "a host keeps its platform while a change is under way"
            remedy = "put the inventory back as it was, or put the NICs back by hand"
            received = f"a change staged in another way ({error})"
            raise InventoryError(self._host.where, received, rule, remedy) from error
        said = self._run(script, "each" if undo else "whole")
        answer = _Answer()
        for line in said.splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "busy":
                rule = "one change of a host's NICs is made at a time"
                received = "another change under way"
                raise BusyError(self._host.where, received, rule, "let it end, and try again")
            if kind == "gone":
                rule = "an undo finds at least one of the NICs that were set"
                remedy = "check the host, its NICs and their driver; the undo is tried again"
                raise GoneError(self._host.where, "none of them", rule, remedy)
            if kind == "foreign":
                path, _, value = rest.partition(" ")
                rule = (
                    "an undo takes back this change only, and leaves what others have set"
                    if undo
                    else "since it was staged, only this change may set it"
                )
                remedy = "find out who set it; read the NICs, and stage the change anew"
                raise ConcurrentEditError(self._host.where, f"{path}: {value}", rule, remedy)
            if kind == "missing":
                rule = "the NIC's file is there while a change is under way"
                remedy = "check the driver; where flock is missing, install util-linux"
                raise CapabilityError(self._host.where, f"no {rest}", rule, remedy)
            if kind in ("refused", "left"):
                path, _, value = rest.partition(" ")
                into = answer.refused if kind == "refused" else answer.left
                into.append(f"{path}: {value or 'nothing'}")
            answer.undone |= kind == "undone"
            answer.made |= kind == "done"
        if not answer.made and not answer.refused:
            raise self._unexpected(said)
        return answer


class _Answer:
    """What the script that sets values said. ``made`` all of it; ``undone`` what was set of it."""

    def __init__(self) -> None:
        self.made = self.undone = False
        self.refused: list[str] = []
        self.left: list[str] = []


def _places(nic: FoundNic) -> dict[str, str]:
    """The file of each parameter that the NIC shows: under ``ecn`` where it is there, else in debugfs."""
    places = {}
    for parameter in PARAMETERS.values():
        for path in (
            f"{nic.name}/ecn/roce_{parameter.side}/{parameter.name}",
            f"../../kernel/debug/mlx5/{nic.pci}/cc_params/{parameter.debug_name}",
        ):
            if path in nic.files:
                places[parameter.name] = path
                break
    return places


def _priorities(nic: FoundNic, side: str) -> tuple[int, ...] | None:
    found = numbers(nic.files, f"{nic.name}/ecn/{side}/enable")
    return (
        tuple(sorted(int(name) for name, on in found.items() if on and name.isdecimal())) if found else None
    )
