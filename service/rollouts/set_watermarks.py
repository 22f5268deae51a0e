"""What each switch was last set to from here, as a whole or by port role, from the events of rollouts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rollout.plan import RoleTarget
from rollout.state import Applying, Event, Phase, Progress, RolloutState, ToMember, Undone
from switches.base import StagedChange
from switches.by_role import part_id
from twin.watermark import Watermark

MOST_UNDONE = 4  # rollouts of one switch, one after the other, whose undos give back roles


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The journal's summary of rollouts whose own entries were removed."""

    set_to: dict[str, Watermark]
    last_set_s: float | None
    by_role: dict[str, dict[str, RoleTarget]] = {}
    half: list[str] = []
    roles_before: dict[str, dict[str, dict[str, RoleTarget]]] = {}


class SetWatermarks:
    """What each switch was last set to from here. ``last_set_s`` is seconds since 1970; None for never.

    A switch has no entry where nothing was set on it, or a change is half done: then it cannot drift. One
    that was set by port role keeps its roles, by which it is read, until it is set as a whole. Where the
    rollout after that is undone, its ports should run by role what they did before.
    """

    def __init__(self) -> None:
        self._set_to: dict[str, Watermark] = {}
        self._roles: dict[str, dict[str, RoleTarget]] = {}
        self._half: set[str] = set()  # of those set by role: what they should run is not known
        self._before: dict[str, dict[str, dict[str, RoleTarget]]] = {}  # the roles before each rollout
        self.last_set_s: float | None = None

    def get(self, switch: str) -> Watermark | None:
        """What it should run; None where nothing is known."""
        return self._set_to.get(switch)

    def roles(self, switch: str) -> Mapping[str, RoleTarget]:
        """The roles it was last set by, or is being set by; empty where it is set as a whole."""
        return self._roles.get(switch, {})

    def by_role(self, switch: str) -> Mapping[str, RoleTarget]:
        """What its ports should run by role; empty where it was set as a whole, or nothing is known."""
        return {} if switch in self._half else self.roles(switch)

    def put(self, switch: str, watermark: Watermark | None) -> None:
        """From now on it should run this; None: whatever it runs is right."""
        self._half.add(switch)
        if watermark is None:
            self._set_to.pop(switch, None)
        else:
            self._set_to[switch] = watermark

    def follow(self, state: RolloutState, event: Event) -> None:
        """Updates the switch of a rollout's event, where devices are written; of a host only the time."""
        if not isinstance(event, ToMember) or event.switch not in state.plan.written:
            return
        if isinstance(event, Applying | Undone):
            self._was_set_at(event.at_s)
        name, one = event.switch, state.members[event.switch]
        if not isinstance(one.change, StagedChange):  # nothing staged yet, or a host
            return
        roles = state.plan.by_role.get(name)
        if isinstance(event, Applying):
            if before := self.by_role(name):  # a retry finds it half set
                kept = self._before.setdefault(name, {})
                kept[state.plan.id] = dict(before)
                if len(kept) > MOST_UNDONE:
                    del kept[next(iter(kept))]
            if roles is None:
                self._roles.pop(name, None)
            else:
                self._roles[name] = dict(roles)
        if one.progress is Progress.SET and state.phase is not Phase.ROLLING_BACK:
            self.put(name, None if roles else one.change.after)
            if roles:
                # No part is of a role none of whose ports the inventory has.
                held = {part.id: part.after for part in one.change.parts}
                self._roles[name] = {
                    role: RoleTarget(target.ports, held[part])
                    for role, target in roles.items()
                    if (part := part_id(one.change.id, role)) in held
                }
                self._half.discard(name)
        elif one.progress is Progress.RESTORED:
            were = self._before.get(name, {}).get(state.plan.id)
            if were is not None:
                self.put(name, None)
                self._roles[name] = were
                self._half.discard(name)
            else:
                self.put(name, one.change.ran)
        elif one.progress is Progress.LEFT_ALONE:
            self.put(name, one.change.ran or one.change.after)  # it runs neither: shown as drift
        elif one.progress.touched or one.progress is Progress.GIVEN_UP:  # it runs what a reading shows
            self.put(name, None)

    def to_json(self) -> bytes:
        """All of them, for the journal."""
        return msgspec.json.encode(
            _Snapshot(
                set_to=self._set_to,
                last_set_s=self.last_set_s,
                by_role=self._roles,
                half=sorted(self._half & self._roles.keys()),
                roles_before=self._before,
            )
        )

    def restore(self, document: str) -> None:
        """Reads what ``to_json`` wrote; raises ``msgspec.ValidationError``."""
        snapshot = msgspec.json.decode(document, type=_Snapshot)
        self._set_to = dict(snapshot.set_to)
        self._roles, self._half = dict(snapshot.by_role), set(snapshot.half)
        self._before = dict(snapshot.roles_before)
        self._was_set_at(snapshot.last_set_s)

    def _was_set_at(self, at_s: float | None) -> None:
        if at_s is not None:
            self.last_set_s = at_s if self.last_set_s is None else max(self.last_set_s, at_s)
