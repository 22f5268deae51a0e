"""What one change does to the profiles and bindings of a switch, as its record for any later process.

Must not talk to a switch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from switches.openconfig.model import Profile, Qos, marking


class PlannedQueue(msgspec.Struct, frozen=True, kw_only=True):
    """An output queue by port and name: the profile it was bound to (None: to none), and the one it gets."""

    port: str
    name: str
    bound: str | None
    binds: str


class PlannedProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The leaves a profile gets, and those it had; ``was`` None: there was no such profile."""

    becomes: dict[str, Any]
    was: dict[str, Any] | None


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``profiles`` are made, ``queues`` bound to them; ``ran`` is what the profiles bound before held."""

    queues: list[PlannedQueue] = msgspec.field(default_factory=list)
    profiles: dict[str, PlannedProfile] = msgspec.field(default_factory=dict)
    ran: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Plan:
        """From a staged change's ``undo``."""
        return msgspec.convert(record, cls)

    def recorded(self) -> dict[str, Any]:
        """As JSON values."""
        record: dict[str, Any] = msgspec.to_builtins(self)
        return record

    def made_in(self, qos: Qos) -> bool:
        """Whether the switch is configured as planned."""
        return all(self._made(queue, qos) for queue in self.queues)

    def shows_in(self, qos: Qos) -> bool:
        """Whether it was made and nobody has configured anything else since, whatever hardware does."""
        return bool(self.queues) and self.made_in(qos)

    def undone_in(self, qos: Qos) -> bool:
        """Whether the switch is configured as it was."""
        return all(self._undone(queue, qos) for queue in self.queues)

    def stranger_in(self, qos: Qos) -> str | None:
        """What somebody else has configured since, as a text: neither planned nor as before; or None."""
        for queue in self.queues:
            if not (self._made(queue, qos) or self._undone(queue, qos)):
                binding = qos.queues.get((queue.port, queue.name))
                bound = "nothing" if binding is None else binding.config or "no profile"
                return f"{queue.port} queue {queue.name} bound to {bound}, which is not as it was"
        for name, leaves in self.ran.items():
            now = qos.profiles.get(name)
            if now is not None and name not in self.profiles and marking(now.config) != marking(leaves):
                return f"profile {name} changed"
        return None

    def _made(self, queue: PlannedQueue, qos: Qos) -> bool:
        planned = self.profiles[queue.binds]
        return self._bound(queue, queue.binds, qos) and (
            marking(_profile(qos, queue.binds).config) == marking(planned.becomes)
        )

    def _undone(self, queue: PlannedQueue, qos: Qos) -> bool:
        if not self._bound(queue, queue.bound, qos):
            return False
        return queue.bound is None or (
            marking(_profile(qos, queue.bound).config) == marking(self.ran[queue.bound])
        )

    def _bound(self, queue: PlannedQueue, profile: str | None, qos: Qos) -> bool:
        binding = qos.queues.get((queue.port, queue.name))
        return binding is not None and binding.config == profile


def _profile(qos: Qos, name: str) -> Profile:
    return qos.profiles.get(name, Profile())
