"""A change of NICs, or by port role, with the watermark: what an approval needs of it, and whether it may be
set.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self

from nics.parameters import Values, values_changed
from rollout.plan import RoleTarget, host_stages_of
from service.documents.base import list_text
from service.documents.co_tuning import values_by_class
from service.nics.polling import NicPolling
from service.switches.fleet import Fleet
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

Kind = Literal["nic", "roles"]
Beside = frozenset[Kind]
"""What is set beside one watermark for all ports."""
NOTHING: Beside = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """A round's joint change. ``connectx`` are the values that NICs get, ``senders`` what they ran;
    ``connectx_by_class`` and ``senders_by_class`` are of classes of hosts where that is something else.
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
    connectx_by_class: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    senders_by_class: Mapping[str, DcqcnParams] = field(default_factory=dict)

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
            connectx_by_class=values_by_class(found),
            senders_by_class={
                one.nic_class: one.now for one in found.by_class if one.now != found.senders_now
            },
        )

    def values_of(self, nic_class: str) -> Values:
        """What NICs of hosts of that class get; nothing where they stay."""
        return self.connectx_by_class.get(nic_class, self.connectx)

    @property
    def beside(self) -> Beside:
        """What it changes beside one watermark for all ports."""
        nics = bool(self.connectx) or any(self.connectx_by_class.values())
        kinds: dict[Kind, bool] = {"nic": nics, "roles": bool(self.by_role)}
        return frozenset(kind for kind, changes in kinds.items() if changes)

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
class Part:
    """What an approval sets beside one watermark for all ports: ``by_role`` are the targets of the switches
    where roles differ, ``hosts`` the stages of the hosts whose NICs are set, ``written`` those of them that
    are devices, ``nics`` what the NICs of each get.
    """

    change: Together
    by_role: Mapping[str, Mapping[str, RoleTarget]] = field(default_factory=dict)
    hosts: tuple[tuple[str, ...], ...] = ()
    written: tuple[str, ...] = ()
    nics: Mapping[str, Values] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why NICs or ports by role cannot be set with a recommendation, and the remedy."""

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
    _last_targets: tuple[Together, Topology, Mapping[str, Mapping[str, RoleTarget]]] | None = field(
        default=None, init=False, repr=False
    )

    def of(
        self, change: Together | None, beside: Beside, switches: Mapping[str, Watermark]
    ) -> Part | Refusal:
        """What is set ``beside`` the watermark, if it may be now, on these switches, each with what it runs.

        A change of both NICs and roles was predicted as one, and is set as one.
        """
        targets: Mapping[str, Mapping[str, RoleTarget]] = {}
        if "nic" in beside and (refusal := self._of_change(change)):
            return refusal
        if "roles" in beside:
            found = self._by_role(change, switches)
            if isinstance(found, Refusal):
                return found
            targets = found
        assert change is not None
        if change.beside != beside:
            too = "thresholds by port role" if "nic" in beside else "values of NICs"
            rule = f"its joint change has {too} too, which were predicted with it"
            return Refusal(rule, "approve both (--with-nics --with-roles), or the watermark alone")
        if "nic" not in beside:
            return Part(change=change, by_role=targets)
        hosts = [name for name in self.nics.hosts if self.nics.settable(name)]
        if not hosts:
            return Refusal(
                "the inventory has no hosts whose NICs are set", "add them: hosts of push.inventory"
            )
        if refusal := self._of_nics(change) or self._of_switches(change, hosts, switches):
            return refusal
        return self._with_hosts(Part(change=change, by_role=targets), hosts)

    def _with_hosts(self, part: Part, names: Sequence[str]) -> Part | Refusal:
        """With all hosts of the inventory but for those that have no NIC to set, or whose class stays."""
        classes = self.nics.classes
        every = ((name, part.change.values_of(classes.get(name, ""))) for name in names)
        nics = {name: values for name, values in every if values}
        if not nics:
            rule = "no host of the inventory is of a class whose NICs are to change"
            return Refusal(rule, "approve the watermark alone")
        hosts = {name: classes.get(name, self.nics.hosts[name].nic_class) for name in nics}
        known = {name: self.nics.known(name) for name in hosts}
        unsure = [name for name, one in known.items() if one.reading is None or not one.reachable]
        stages = host_stages_of(
            hosts, unsure=unsure, canary=self.settings.nic_canary, batch_size=self.settings.nic_batch_size
        )
        written = tuple(name for names in stages for name in names if self.nics.writes(name))
        return replace(part, hosts=stages, written=written, nics=nics)

    def _of_change(self, change: Together | None) -> Refusal | None:
        """Why a change sets no NICs, whatever hosts and switches run."""
        if change is None:
            return Refusal("its round did not look for a change of NICs", "approve the watermark alone")
        if not change.recommended:
            return Refusal("its joint change is not sure enough to recommend", "approve the watermark alone")
        if "nic" not in change.beside:
            return Refusal("its joint change leaves NICs as they are", "approve the watermark alone")
        return None

    def _by_role(
        self, change: Together | None, switches: Mapping[str, Watermark]
    ) -> Mapping[str, Mapping[str, RoleTarget]] | Refusal:
        """The targets of a change by port role if it may be set now, on these switches."""
        if change is None or not change.by_role:
            rule = "its round found no thresholds by port role"
            return Refusal(rule, "approve the watermark alone; tuning.what with roles looks for them")
        if not change.recommended:
            rule = "its thresholds by port role are not sure enough to recommend"
            return Refusal(rule, "approve the watermark alone")
        topology = self.declared()
        if topology is None:
            rule = "a port's role follows from its rate, which is guessed until a topology is declared"
            return Refusal(rule, "declare it (PUT /v1/topology, fabric.topology)")
        every = self._targets_of(change, topology)
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
            steps = self._steps(name, runs, targets.get(name, {}), change.watermark)
            if any(within_step(now, to, self.max_step) != to for now, to in steps):
                rule = f"{name} would get a step towards its thresholds only, which was not predicted"
                return Refusal(rule, "raise tuning.max_step, or approve the watermark alone")
        return targets

    def _targets_of(self, change: Together, topology: Topology) -> Mapping[str, Mapping[str, RoleTarget]]:
        """The change's targets. The last are kept: the roles of a large fabric's ports take long to find."""
        last = self._last_targets
        if last is None or last[0] is not change or last[1] is not topology:
            self._last_targets = last = change, topology, change.targets(topology)
        return last[2]

    def _steps(
        self, name: str, runs: Watermark, roles: Mapping[str, RoleTarget], usual: Watermark
    ) -> set[tuple[Watermark, Watermark]]:
        """What queues of a switch run, each with what it would get: ``usual`` without ``roles``. One whose
        port is not known, as where profiles are read and not ports, may get what any port not read gets.
        """
        queues = self.fleet.queues_of(name)
        if not roles:
            return {(mark, usual) for mark in (runs, *queues.values()) if mark is not None}
        by_port = {port: (one.watermark,) for one in roles.values() for port in one.ports}
        read = {port for port, _ in queues}
        unread = {one.watermark for one in roles.values() if not read.issuperset(one.ports)}
        every = ((port, mark) for (port, _), mark in queues.items()) if queues else [("", runs)]
        return {(mark, to) for port, mark in every if mark is not None for to in by_port.get(port, unread)}

    def _of_nics(self, change: Together) -> Refusal | None:
        if broken := self.nics.unmade:
            host, error = next(iter(broken.items()))
            return Refusal(f"host {host!r} of the inventory cannot be used: {error}", "correct its entry")
        senders = self.nics.senders
        if senders.source != "nics":
            rule = f"what most NICs run is not known yet ({' '.join(senders.notes).rstrip('.')})"
            return Refusal(rule, "look at ecntwin nics; they are read unless telemetry.nics.poll is false")
        if gone := change.connectx_by_class.keys() - set(self.nics.classes.values()):
            rule = f"no host is of class {', '.join(sorted(gone))} now, of which its round set values"
            return Refusal(rule, "wait for the next round")
        if found := self.nics.unlike(change.senders, change.senders_by_class):
            return Refusal(
                f"NICs{found[0]} run other values than its round assumed ({found[1]})",
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
        if clipped and not change.by_role:  # of ports by role that is checked target by target
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
