"""The rows of CONFIG_DB that a change sets, and their old values.

By default a change makes a profile of its own and binds the queues to it. orchagent sets the attributes of a
profile one after the other, so a profile edited in place shows hardware a mix for a moment (in an order that
keeps Kmin below Kmax only since sonic-swss pull request 2379), and it is shared by every queue bound to it. A
new profile is one create call, and binding a queue is one attribute: no queue ever runs a mix, on any image.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from switches.device import Device
from switches.errors import CapabilityError, ConcurrentEditError
from switches.sonic.config_db import FIELD, PROFILE, Config, Setting, check_alone, profile_named, written_as
from switches.sonic.wred_profile import check_known, own_name, own_prefix, watermark_in, with_watermark
from switches.units import Rounded


class Plan(msgspec.Struct, frozen=True):
    """The rows of a change before and after; a staged change's ``undo``."""

    before: Setting
    after: Setting

    @property
    def made(self) -> list[str]:
        """New profiles."""
        return [name for name in self.after.profiles if name not in self.before.profiles]


def planned(device: Device, config: Config, rounded: Rounded, *, own_profile: bool) -> Plan:
    """Raises ``CapabilityError`` where queues outside the inventory would change too."""
    names = {profile_named(binding.bound) or "" for binding in config.bindings}
    before = Setting(
        {binding.key: binding.bound for binding in config.bindings},
        {name: dict(config.profiles[name]) for name in sorted(names) if name in config.profiles},
    )
    for name, row in before.profiles.items():
        check_known(name, row, device.where)
    if own_profile:
        return Plan(before, _rebound(device, config, before, rounded))
    return Plan(before, _edited(device, config, before, rounded))


def _rebound(device: Device, config: Config, before: Setting, rounded: Rounded) -> Setting:
    check_alone(device, config.bindings)
    prefix = own_prefix(device.queues, device.ports)
    written = next((bound for bound in before.bound.values() if bound), None)
    bound, profiles = dict(before.bound), {}
    for key, was in before.bound.items():
        row = before.profiles.get(profile_named(was) or "", {})
        if watermark_in(row, f"{device.where} {key}") == rounded.watermark:
            continue
        made = with_watermark(row, rounded.device)
        attempt = 0
        while config.profiles.get(name := own_name(prefix, made, attempt), made) != made:
            attempt += 1  # somebody has edited that one by hand
        profiles[name] = made
        bound[key] = written_as(was or written, name)
    return Setting(bound, profiles)


def _edited(device: Device, config: Config, before: Setting, rounded: Rounded) -> Setting:
    for key, was in before.bound.items():
        if profile_named(was) not in before.profiles:
            raise CapabilityError(
                device.where,
                f"{key}, which is bound to no profile",
                "with own_profile: false the profile that a queue is bound to is edited",
                "bind one on the switch, or drop own_profile",
            )
    mine = {queue for binding in config.bindings for queue in binding.queues}
    check_alone(device, config.bindings)
    for name in before.profiles:
        others = [key for key in config.referring(name) if key not in before.bound]
        if others:
            shown = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
            raise CapabilityError(
                device.where,
                f"WRED_PROFILE|{name}, to which {shown} are bound too",
                f"an edited profile changes for every queue bound to it, and {len(mine)} are to be set",
                "drop own_profile: false, or add those queues and ports to the inventory",
            )
    edited = {name: with_watermark(row, rounded.device) for name, row in before.profiles.items()}
    for name, row in edited.items():
        added = sorted(set(row) - set(before.profiles[name]))
        if added:
            raise CapabilityError(
                device.where,
                f"WRED_PROFILE|{name} without {added[0]}",
                "an edit in place adds no field: hardware would keep its value when the field is gone again",
                f"drop own_profile: false, or write {added[0]} into the profile on the switch",
            )
    return Setting(dict(before.bound), edited)


def check_rows(plan: Plan, config: Config, where: str) -> None:
    """Raises ``ConcurrentEditError`` where a row is neither as before nor as after."""
    for key in plan.before.bound:
        now = config.queues.get(key, {}).get(FIELD)
        if now not in (plan.before.bound[key], plan.after.bound[key]):
            raise _foreign(where, f"{key} bound to {now or 'no profile'}")
    for name in {**plan.before.profiles, **plan.after.profiles}:
        row = config.profiles.get(name)
        if row is None:
            continue  # made in the same transaction
        known = [setting.profiles[name] for setting in (plan.before, plan.after) if name in setting.profiles]
        if not _explained(row, known):
            raise _foreign(where, f"{PROFILE}{name} with other values")


def _explained(row: Mapping[str, str], known: Iterable[Mapping[str, str]]) -> bool:
    return all(any(of.get(field) == value for of in known) for field, value in row.items())


def _foreign(where: str, found: str) -> ConcurrentEditError:
    return ConcurrentEditError(
        where,
        found,
        "since the change was staged, only it may set these rows",
        "find out who set them; stage again, or put the old values back by hand",
    )
