"""A change of NICs, or by port role, with the watermark: what an approval needs of it, and whether it may be
set.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self

from nics.parameters import Values, differing, values_changed
from rollout.plan import RoleTarget, host_stages_of
from service.documents.base import list_text
from service.fleet import Fleet
from service.nics.polling import NicPolling
from settings.model import RolloutSettings
from switches.errors import SwitchError
from telemetry.roles import port_roles
from telemetry.topology import Topology
from twin.search.explain import watermark_text
from twin.search.push_gate import within_step
from twin.search.recommendation import CoTuning
from twin.senders.dcqcn import DcqcnParams
from twin.watermark import Watermark

_NAMED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """A round's joint change. ``connectx`` are the values that NICs get, ``senders`` what they ran.
    ``by_role`` are roles whose ports get another watermark than most. ``nics_first``: on the way there, NICs
    without the watermark are predicted to gain more than the watermark without them.

    ``queue_ratio`` is the mean queue predicted ÷ that of now once all is set, ``queue_ratio_between`` once
    only what goes first is (None: unknown).
    """

    recommended: bool
    watermark: Watermark
    connectx: Mapping[str, int]
    senders: DcqcnParams
    nics_first: bool
    gain: float
    gain_error: float | None
    queue_ratio: float | None
    queue_ratio_between: float | None
    by_role: Mapping[str, Watermark] = field(default_factory=dict)

    @classmethod
    def of(cls, found: CoTuning) -> Self:
        marks, others = found.watermark_first, found.others_first
        nics_first = marks is None or others is None or others.gain >= marks.gain
        between = others if nics_first else marks
        return cls(
            recommended=found.recommended,
            watermark=found.watermark,
            connectx=dict(values_changed(found.senders_now, found.senders)),
            senders=found.senders_now,
            nics_first=nics_first,
            gain=found.gain,
            gain_error=found.gain_error if math.isfinite(found.gain_error) else None,
            queue_ratio=found.queue_ratio,
            queue_ratio_between=found.queue_ratio if between is None else between.queue_ratio,
            by_role=dict(found.by_role),
        )

    @property
    def settable(self) -> bool:
        """Whether it is a change of NICs that an approval can set, if hosts allow it."""
        return self.recommended and bool(self.connectx) and not self.by_role

    @property
    def settable_by_role(self) -> bool:
        """Whether it is a change by port role that an approval can set, if switches allow it."""
        return self.recommended and bool(self.by_role) and not self.connectx

    def targets(self, topology: Topology) -> Mapping[str, Mapping[str, RoleTarget]]:
        """What ports of each role get, by switch; without switches on which all ports get the same."""
        ports: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for port, role in zip(topology.ports, port_roles(topology.ports), strict=True):
            if port.port is not None and role is not None:
                ports[port.node][role].append(port.port)
        return {
            name: {
                role: RoleTarget(tuple(sorted(named)), self.by_role.get(role, self.watermark))
                for role, named in sorted(roles.items())
            }
            for name, roles in ports.items()
            if not self.by_role.keys().isdisjoint(roles)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePart:
    """A change by port role, and the ``targets`` of the switches where roles differ."""

    change: Together
    targets: Mapping[str, Mapping[str, RoleTarget]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NicPart:
    """The hosts of a rollout: their ``stages``, which of them are ``written``, and what each gets."""

    change: Together
    stages: tuple[tuple[str, ...], ...]
    written: tuple[str, ...]

    @property
    def targets(self) -> Mapping[str, Values]:
        return {name: self.change.connectx for names in self.stages for name in names}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why NICs cannot be set with a recommendation, and the remedy."""

    rule: str
    remedy: str


@dataclass(kw_only=True)
class JointChanges:
    """Whether NICs, or ports by role, may be set with a recommendation now, and on which hosts or ports.
    ``max_step`` is the factor by which a watermark may move, ``declared`` the topology that an operator gave.
    For one event loop.
    """

    nics: NicPolling
    fleet: Fleet
    settings: RolloutSettings
    max_step: float
    declared: Callable[[], Topology | None]

    @property
    def possible(self) -> bool:
        """Whether the inventory has hosts at all."""
        return bool(self.nics.hosts)

    def part(self, change: Together) -> NicPart:
        """The hosts it sets: those of the inventory but for hosts that were read to have no NIC to set."""
        hosts = {name: self.nics.hosts[name].nic_class for name in self._hosts()}
        unsure = [name for name in hosts if self.nics.known(name).reading is None or self._failing(name)]
        stages = host_stages_of(
            hosts, unsure=unsure, canary=self.settings.nic_canary, batch_size=self.settings.nic_batch_size
        )
        written = tuple(name for names in stages for name in names if self.nics.writes(name))
        return NicPart(change=change, stages=stages, written=written)

    def of(self, change: Together | None, switches: Mapping[str, Watermark]) -> Together | Refusal:
        """The change if it may be set now, on these switches, each with what it runs."""
        if change is None:
            return Refusal("its round did not look for a change of NICs", "approve the watermark alone")
        if not change.recommended:
            return Refusal("its joint change is not sure enough to recommend", "approve the watermark alone")
        if change.by_role:
            rule = "its joint change has thresholds by port role too, which are not set together with NICs"
            return Refusal(rule, "approve the watermark alone, or tune without one of them (tuning.what)")
        if not change.connectx:
            return Refusal("its joint change leaves NICs as they are", "approve the watermark alone")
        hosts = self._hosts()
        if not hosts:
            return Refusal(
                "the inventory has no hosts whose NICs are set", "add them: hosts of push.inventory"
            )
        return self._of_nics(change) or self._of_switches(change, hosts, switches) or change

    def by_role(self, change: Together | None, switches: Mapping[str, Watermark]) -> RolePart | Refusal:
        """The change by port role if it may be set now, on these switches, each with what it runs."""
        if change is None or not change.by_role:
            rule = "its round found no thresholds by port role"
            return Refusal(rule, "approve the watermark alone; tuning.what with roles looks for them")
        if not change.recommended:
            rule = "its thresholds by port role are not sure enough to recommend"
            return Refusal(rule, "approve the watermark alone")
        if change.connectx:
            rule = "its joint change has values of NICs too, which are not set together with roles"
            return Refusal(rule, "approve the watermark alone, or tune without one of them (tuning.what)")
        topology = self.declared()
        if topology is None:
            rule = "a port's role follows from its rate, which is guessed until a topology is declared"
            return Refusal(rule, "declare it (PUT /v1/topology, fabric.topology)")
        every = change.targets(topology)
        targets = {name: every[name] for name in switches if name in every}
        if not targets:
            return Refusal("none of its switches has ports of these roles", "approve the watermark alone")
        for name, runs in switches.items():
            try:
                if name in targets:
                    ports = {role: one.ports for role, one in targets[name].items()}
                    self.fleet.of_roles(name, ports)
            except SwitchError as error:
                return Refusal(str(error).rstrip("."), "approve the watermark alone")
            wanted = (
                {one.watermark for one in targets[name].values()} if name in targets else {change.watermark}
            )
            now = {runs, *(mark for mark in self.fleet.queues_of(name).values() if mark is not None)}
            if any(within_step(one, to, self.max_step) != to for one in now for to in wanted):
                rule = f"{name} would get a step towards its thresholds only, which was not predicted"
                return Refusal(rule, "raise tuning.max_step, or approve the watermark alone")
        return RolePart(change=change, targets=targets)

    def _hosts(self) -> list[str]:
        return [name for name in self.nics.hosts if self.nics.settable(name)]

    def _failing(self, host: str) -> bool:
        return self.nics.known(host).failure is not None

    def _of_nics(self, change: Together) -> Refusal | None:
        if broken := self.nics.unmade:
            host, error = next(iter(broken.items()))
            return Refusal(f"host {host!r} of the inventory cannot be used: {error}", "correct its entry")
        senders = self.nics.senders
        if senders.source != "nics":
            rule = f"what most NICs run is not known yet ({' '.join(senders.notes).rstrip('.')})"
            return Refusal(rule, "look at ecntwin nics; they are read unless telemetry.nics.poll is false")
        if found := differing(change.senders, senders.params):
            return Refusal(
                f"NICs run other values than its round assumed ({'; '.join(found)})",
                "wait for the next round",
            )
        return None

    def _of_switches(
        self, change: Together, hosts: list[str], switches: Mapping[str, Watermark]
    ) -> Refusal | None:
        clipped = [
            name
            for name, runs in switches.items()
            if within_step(runs, change.watermark, self.max_step) != change.watermark
        ]
        if clipped:
            return Refusal(
                f"{list_text(clipped, _NAMED)} would get a step towards {watermark_text(change.watermark)} "
                "only, which is not what was predicted together with the NICs",
                "raise tuning.max_step, or approve the watermark alone",
            )
        on = any(self.nics.writes(name) for name in hosts)
        if on != any(self.fleet.writes(name) for name in switches if self.fleet.away(name) is None):
            which, other = ("hosts", "switches") if on else ("switches", "hosts")
            return Refusal(
                f"{which} would be written and {other} not, and one without the other was not recommended",
                "set push.enabled and push.nics both, or approve the watermark alone",
            )
        return None
