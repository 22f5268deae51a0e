"""One switch whose ports are set by role: an adapter for each role, and a change with a part for each.

A part is a change of its own. Devices whose commits wait to be confirmed have one waiting at a time: each
part but the last is read back and confirmed before the next is made, and the device's timer guards the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from switches.base import Capabilities, Reading, StagedChange, SwitchAdapter
from switches.errors import (
    BusyError,
    CapabilityError,
    ConcurrentEditError,
    GoneError,
    InventoryError,
    SwitchError,
)
from twin.watermark import Watermark


def part_id(change_id: str, role: str) -> str:
    """The id of the part of a change that sets the ports of a role."""
    return f"{change_id}-{role}"


class ByRoleAdapter:
    """``whole`` reads the ports of all roles; ``roles`` are the adapters of each role's ``ports``."""

    def __init__(
        self, whole: SwitchAdapter, roles: Mapping[str, SwitchAdapter], ports: Mapping[str, tuple[str, ...]]
    ) -> None:
        self.switch = whole.switch
        self._whole = whole
        self._roles = dict(sorted(roles.items()))
        self._ports = ports

    def capabilities(self) -> Capabilities:
        return replace(self._whole.capabilities(), atomic=False)

    def read(self) -> Reading:
        return self._whole.read()

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        return self.stage_by_role(dict.fromkeys(self._roles, watermark), watermark, change_id)

    def stage_by_role(
        self, watermarks: Mapping[str, Watermark], usual: Watermark, change_id: str
    ) -> StagedChange:
        """Stages a watermark for each role; ``usual`` is that of most ports of the fabric.

        Raises ``CapabilityError`` where a port of a role cannot be set, and what the roles' adapters do.
        """
        parts = []
        for role, adapter in self._roles.items():
            part = adapter.stage(watermarks[role], part_id(change_id, role))
            self._check_whole(role, part)
            parts.append(part)
        counted = Counter(part.after for part in parts for _ in part.before)
        return StagedChange(
            id=change_id,
            switch=self.switch,
            asked=usual,
            after=max(counted, key=lambda mark: (counted[mark], mark)),
            before=tuple(queue for part in parts for queue in part.before),
            diff="\n".join(f"# {role}\n{part.diff}" for role, part in self._with(parts) if part.diff),
            notes=tuple(f"{role}: {note}" for role, part in self._with(parts) for note in part.notes),
            parts=tuple(parts),
        )

    def is_of(self, change: StagedChange) -> bool:
        """Whether the change has a part for each of these roles, and no other."""
        return [part.id for part in change.parts] == [part_id(change.id, role) for role in self._roles]

    def apply(self, change: StagedChange) -> None:
        *earlier, (role, last) = self._of(change)
        for role_before, part in earlier:
            adapter = self._roles[role_before]
            adapter.apply(part)
            if adapter.capabilities().dead_man:
                adapter.verify(part)
                adapter.confirm(part)
        self._roles[role].apply(last)

    def verify(self, change: StagedChange) -> Reading:
        found = [self._roles[role].verify(part) for role, part in self._of(change)]
        queues = (queue for reading in found for queue in reading.queues)
        return Reading.of(self.switch, queues, max(reading.read_ns for reading in found))

    def confirm(self, change: StagedChange) -> None:
        # The last part first: until its commit is confirmed, a switch may refuse all others.
        for role, part in reversed(list(self._of(change))):
            self._roles[role].confirm(part)

    def rollback(self, change: StagedChange) -> None:
        """Restores part by part, the last first; one that fails does not stop the others, and one whose
        queues are gone is passed over where another is restored.

        Raises the first failure after which another try may help, else that of a part that others have set.
        """
        foreign: SwitchError | None = None
        failed: SwitchError | None = None
        gone: SwitchError | None = None
        restored = False
        for role, part in reversed(list(self._of(change))):
            try:
                self._roles[role].rollback(part)
                restored = True
            except GoneError as error:
                gone = gone or error
            except BusyError as error:  # of ``ConcurrentEditError`` the one that passes
                failed = failed or error
            except ConcurrentEditError as error:
                foreign = foreign or error
            except SwitchError as error:
                failed = failed or error
        if (worst := failed or foreign or (None if restored else gone)) is not None:
            raise worst

    def close(self) -> None:
        for adapter in (self._whole, *self._roles.values()):
            adapter.close()

    def _of(self, change: StagedChange) -> Iterator[tuple[str, StagedChange]]:
        """The parts by role; raises ``InventoryError`` for a change of other roles."""
        if not self.is_of(change):
            found = [part.id for part in change.parts]
            rule = f"a change by role has a part for {', '.join(self._roles)}"
            remedy = "put the inventory back as it was, or put the switch back by hand"
            raise InventoryError(f"switch {self.switch!r}", f"parts {', '.join(found)}", rule, remedy)
        return self._with(change.parts)

    def _with(
        self, parts: list[StagedChange] | tuple[StagedChange, ...]
    ) -> Iterator[tuple[str, StagedChange]]:
        return zip(self._roles, parts, strict=True)

    def _check_whole(self, role: str, part: StagedChange) -> None:
        found = {name for queue in part.before for name in (queue.port, queue.port.rpartition("|")[2])}
        missing = [port for port in self._ports[role] if port not in found]
        if missing and self._roles[role].capabilities().per != "switch":
            where = f"switch {self.switch!r} {role}"
            rule = "each port of a role has a queue to set"
            remedy = "set the queue up on the switch, or take the port out of the inventory's ports"
            raise CapabilityError(where, f"no queue of {', '.join(missing[:3])}", rule, remedy)
