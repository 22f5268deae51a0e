"""The adapter to a switch with OpenConfig QoS over NETCONF.

One edit makes the profile of a change and binds its queues to it; one confirmed commit puts it in force,
named after the change where the switch can, so that another process may confirm it or take it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

import msgspec

from switches.adapter import Waiting
from switches.base import Capabilities, QueueWatermark, Wanted
from switches.candidate_config import CandidateAdapter, Found, PersistentCommits, Record
from switches.device import Device, options_of
from switches.openconfig import model
from switches.openconfig.model import Leaves, Qos
from switches.openconfig.queues import OpenConfigQueues, Plan
from switches.transport.netconf import BASE, NetconfOptions, NetconfSession
from switches.units import Rounded

NAMESPACE = "http://openconfig.net/yang/qos"
_STATE = "<state><queue-management-profile/></state>"  # excludes the counters from state
_QUEUES = f"<queues><queue><name/><config/>{_STATE}</queue></queues>"
_FILTER = (
    f'<qos xmlns="{NAMESPACE}"><interfaces><interface><interface-id/>'
    f"<output>{_QUEUES}</output><input>{_QUEUES}</input></interface></interfaces>"
    "<queue-management-profiles/></qos>"
)


class OpenConfigNetconfOptions(NetconfOptions, frozen=True, forbid_unknown_fields=True):
    """``queue_names``: the switch's names of queues, by number. ``read_back``: the leaves of a reading.
    ``profile``: the prefix of own profiles' names.
    """

    queue_names: dict[int | str, str] = msgspec.field(default_factory=dict)
    read_back: Literal["state", "config"] = "state"
    profile: str = "ecntwin"


class NetconfAdapter(CandidateAdapter[Qos]):
    def __init__(
        self, device: Device, *, clock_ns: Callable[[], int], waiting: Waiting | None = None
    ) -> None:
        options = options_of(device, OpenConfigNetconfOptions)
        from_state = options.read_back == "state"
        queues = OpenConfigQueues.of(
            device, options.queue_names, from_state=from_state, profile=options.profile
        )
        super().__init__(
            device,
            OpenConfigOverNetconf(queues),
            PersistentCommits(device, options.confirm_timeout_s),
            lambda: NetconfSession(device, options),
            capabilities=Capabilities(
                kind="netconf",
                writes=True,
                units=queues.units,
                dead_man=True,
                undo="one commit binds the queues as they were; a confirmed commit does it by itself",
                read_back=queues.read_back,
                one_for_all="",
            ),
            clock_ns=clock_ns,
            waiting=waiting,
        )


class OpenConfigOverNetconf:
    """OpenConfig's QoS model in XML."""

    record_kind = Plan
    lags = True

    def __init__(self, queues: OpenConfigQueues) -> None:
        self._queues = queues

    def look(self, session: NetconfSession) -> Qos:
        data = session.get(_FILTER) if self._queues.from_state else session.get_config(_FILTER)
        with self._queues.shaped():
            return model.parse(_tree(data))

    def running(self, config: Qos, wanted: Wanted | None = None) -> tuple[QueueWatermark, ...]:
        with self._queues.shaped():
            running = tuple(self._queues.running(config, wanted))
        if not running and wanted is None:
            raise self._queues.none_found()
        return running

    def unsettled(self, config: Qos) -> str | None:
        return self._queues.unsettled(config)

    def plan(self, now: Found[Qos], rounded: Rounded) -> Record:
        return self._queues.plan(now.config, now.queues, rounded.device).recorded()

    def left(self, record: Record, config: Qos, wanted: Wanted) -> Record:
        left = Plan.of(record).left_in(config)
        return left.recorded() if left.queues else {}

    def made(self, record: Record, config: Qos) -> bool:
        with self._queues.shaped():
            return Plan.of(record).made_in(config)

    def undone(self, record: Record, config: Qos) -> bool:
        with self._queues.shaped():
            return Plan.of(record).undone_in(config)

    def foreign_change(self, record: Record, config: Qos) -> str | None:
        with self._queues.shaped():
            return Plan.of(record).foreign_change_in(config)

    def foreign_since(self, record: Record, config: Qos, wanted: Wanted) -> str | None:
        return self.foreign_change(record, config)

    def forward(self, record: Record, config: Qos) -> str:
        plan = Plan.of(record)
        left = (name for name in plan.ran if self._queues.is_own(name) and name not in plan.profiles)
        return _qos(
            [_profile(name, planned.becomes, config) for name, planned in plan.profiles.items()]
            + [_without(name) for name in _unused(left, plan, config)],
            [_binding(queue.port, queue.name, queue.binds) for queue in plan.queues],
        )

    def backward(self, record: Record, config: Qos) -> str:
        plan = Plan.of(record)
        gone = {name: leaves for name, leaves in plan.ran.items() if name not in config.profiles}
        kept = {name: planned.was for name, planned in plan.profiles.items() if planned.was is not None}
        made = (name for name, planned in plan.profiles.items() if planned.was is None)
        return _qos(
            [_profile(name, leaves, config) for name, leaves in (gone | kept).items()]
            + [_without(name) for name in _unused(made, plan, config)],
            [
                _binding(queue.port, queue.name, queue.bound)
                for queue in plan.queues
                if queue.bound is not None or config.queues[queue.port, queue.name].config is not None
            ],
        )


def _unused(names: Iterable[str], plan: Plan, config: Qos) -> list[str]:
    """The profiles among ``names`` that only the plan's queues use."""
    ours = {(queue.port, queue.name) for queue in plan.queues}
    return [
        name
        for name in names
        if name in config.profiles and config.users(name) <= ours and name not in config.other_users
    ]


def _tree(data: Element) -> dict[str, Any]:
    """Containers by name, lists by name and key, leaves as texts; names of other models with namespace."""
    tree: dict[str, Any] = {}
    for child in data:
        namespace, _, local = str(child.tag).rpartition("}")
        name = local if namespace in ("", f"{{{NAMESPACE}") else str(child.tag)
        if not len(child):
            if (child.text or "").strip():
                tree[name] = (child.text or "").strip()
            continue
        inside = _tree(child)
        if name in model.LIST_KEYS:
            key = inside.get(model.LIST_KEYS[name])
            if not isinstance(key, str):
                raise ValueError(f"an entry of {name} without its {model.LIST_KEYS[name]}")
            tree.setdefault(name, {})[key] = inside
        else:
            tree[name] = inside
    return tree


def _qos(profiles: list[str], bindings: list[str]) -> str:
    return (
        f'<qos xmlns="{NAMESPACE}" xmlns:nc="{BASE}">'
        f"<queue-management-profiles>{''.join(profiles)}</queue-management-profiles>"
        f"<interfaces>{''.join(bindings)}</interfaces></qos>"
    )


def _profile(name: str, leaves: Leaves, config: Qos) -> str:
    written = "".join(_leaf(leaf, value) for leaf, value in leaves.items())
    operation = ' nc:operation="replace"' if name in config.profiles else ""
    return (
        f"<queue-management-profile{operation}><name>{escape(name)}</name>"
        f"<config><name>{escape(name)}</name></config>"
        f"<wred><uniform><config>{written}</config></uniform></wred></queue-management-profile>"
    )


def _without(name: str) -> str:
    return (
        f'<queue-management-profile nc:operation="delete"><name>{escape(name)}</name>'
        "</queue-management-profile>"
    )


def _binding(port: str, queue: str, profile: str | None) -> str:
    bound = (
        '<queue-management-profile nc:operation="delete"/>'
        if profile is None
        else f"<queue-management-profile>{escape(profile)}</queue-management-profile>"
    )
    return (
        f"<interface><interface-id>{escape(port)}</interface-id><output><queues>"
        f"<queue><name>{escape(queue)}</name><config>{bound}</config></queue>"
        "</queues></output></interface>"
    )


def _leaf(name: str, value: Any) -> str:
    namespace, _, local = name.rpartition("}")
    tag = f'{local} xmlns="{escape(namespace[1:])}"' if namespace else local
    text = str(value).lower() if isinstance(value, bool) else escape(str(value))
    return f"<{tag}>{text}</{local}>"
