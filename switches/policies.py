"""Which of a switch's named policies are those of the wanted ports; must not know any platform."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from switches.device import Device
from switches.errors import CapabilityError


def policies_of(
    device: Device, applied: Iterable[tuple[str, str]], named: str | None, kind: str
) -> tuple[str, ...]:
    """The policy that the inventory names, else those applied to ports it wants, sorted.

    ``applied`` are pairs of a port and its policy; ``kind`` is what the platform calls one. Raises
    ``CapabilityError`` where there is none, or where one is also that of a port which is not wanted: to set
    it would set that port too.
    """
    if named is not None:
        return (named,)
    ports: defaultdict[str, list[str]] = defaultdict(list)
    for port, policy in applied:
        ports[policy].append(port)
    wanted = {policy: found for policy, found in ports.items() if any(map(device.wants, found))}
    if not wanted:
        raise CapabilityError(
            device.where,
            f"no {kind} on the ports asked for",
            f"the watermark of a port is in the {kind} applied to it",
            "apply one, name it in the options of the inventory, or correct its ports",
        )
    for policy, found in sorted(wanted.items()):
        others = sorted(port for port in found if not device.wants(port))
        if others:
            raise CapabilityError(
                f"{device.where} {kind} {policy}",
                f"it is applied to {', '.join(others[:3])} too",
                "a change sets the ports asked for, and no other",
                f"ask for these ports too, or give the others a {kind} of their own",
            )
    return tuple(sorted(wanted))
