"""EOS's running configuration as the lossless configuration of ports: PFC, marking and maps, and no buffers.

Lines: templates of aristanetworks/avd (``qos-profiles.j2``, ``priority-flow-control.j2``, ``qos.j2``).
Defaults, which are not shown, as guides for EOS 4.36 quote its manual: a traffic class has the transmit queue
of its number; DSCP 0 to 7 are class 1, 8 to 15 class 0, each eight after that the next class; routed ports
trust DSCP; a queue does not mark. A PFC priority is taken to be the class of its number, as EOS maps 2 to 7.
PFC thresholds, headroom and cables are the platform's own, and not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from switches.cli.policies import Section
from switches.cli.wred_line import Spot, below
from switches.errors import CapabilityError
from switches.lossless import LosslessPort, LosslessPriority
from twin.watermark import Watermark

COMMANDS = tuple(
    f"show running-config section {part}" for part in ("interface", "qos", "priority-flow-control")
)
_ALL_OFF = "priority-flow-control all off"
_SWITCHED = {"priority-flow-control on": True, "no priority-flow-control": False}
_PRIORITY = re.compile(r"priority-flow-control priority (\d) (no-drop|drop)")
_ECN_OF_ALL = re.compile(r"qos random-detect ecn (?!allow non-ect)")  # other queues may then mark too
_QUEUE = re.compile(r"qos map traffic-class (\d) to (?:uc-)?tx-queue (\d)")
# A blank after each DSCP: were it optional, a long line that does not fit would be tried for hours.
_CLASS = re.compile(r"qos map dscp ((?:\d+ )+)to traffic-class (\d)")
_REWRITES = re.compile(r"qos map traffic-class \d to (?!(?:uc-)?tx-queue)\S+ .*")


def eos_ports(
    running: Section, spot: Callable[[str, int, Iterable[str]], Spot], wants: Callable[[str], bool]
) -> tuple[LosslessPort, ...]:
    """``spot`` reads the watermark of a port and queue in the lines below it."""
    queue_of_class, queue_of_dscp = _maps(running)
    profiles = dict(below(running, "qos profile "))
    ports = []
    for name, own in below(running, "interface "):
        if not name.startswith("Ethernet") or not wants(name) or "shutdown" in own:
            continue
        sources = [*(profiles.get(profile, {}) for profile, _ in below(own, "service-profile ")), own]
        marks: dict[int, Watermark | None] = {}
        if not any(map(_ECN_OF_ALL.match, running)):
            marks = dict.fromkeys(range(8))
        strict: dict[int, bool] = {}
        for source in sources:
            for word in ("uc-tx-queue ", "tx-queue "):
                for number, inner in below(source, word):
                    _queue(name, int(number), inner, spot, marks, strict)
        mtu = next((rest for rest, _ in below(own, "mtu ") if rest.isdecimal()), None)
        trusts_dscp = any("qos trust dscp" in source for source in sources) or "no switchport" in own
        ports.append(
            LosslessPort(
                port=name,
                priorities=tuple(
                    LosslessPriority(priority=one, queue=queue_of_class.get(one) if one > 1 else None)
                    for one in (() if _ALL_OFF in running else _no_drop(sources))
                ),
                watermarks=marks,
                strict=strict,
                queue_of_dscp=queue_of_dscp if trusts_dscp else {},
                mtu_bytes=None if mtu is None else int(mtu),
            )
        )
    return tuple(ports)


def _no_drop(sources: Iterable[Section]) -> list[int]:
    """The priorities with PFC; what a later source says goes before."""
    on, found = False, dict[int, bool]()
    for line in (line for source in sources for line in source):
        on = _SWITCHED.get(line, on)
        if match := _PRIORITY.fullmatch(line):
            found[int(match[1])] = match[2] == "no-drop"
    return sorted(number for number, lossless in found.items() if on and lossless)


def _queue(
    port: str,
    queue: int,
    lines: Section,
    spot: Callable[[str, int, Iterable[str]], Spot],
    marks: dict[int, Watermark | None],
    strict: dict[int, bool],
) -> None:
    try:
        found = spot(port, queue, lines)
        if found.line is not None:
            marks[queue] = found.watermark
    except CapabilityError:
        marks.pop(queue, None)
    if "priority strict" in lines or "no priority" in lines:
        strict[queue] = "priority strict" in lines


def _maps(running: Section) -> tuple[dict[int, int], dict[int, int]]:
    """The queue of each traffic class, and of each DSCP; empty where a map is of another kind."""
    queue_of_class = {number: number for number in range(8)}
    class_of_dscp = {dscp: (1, 0, 2, 3, 4, 5, 6, 7)[dscp // 8] for dscp in range(64)}
    for line in running:
        if match := _QUEUE.fullmatch(line):
            queue_of_class[int(match[1])] = int(match[2])
        elif match := _CLASS.fullmatch(line):
            class_of_dscp |= dict.fromkeys(map(int, match[1].split()), int(match[2]))
        elif line.startswith("qos map ") and not _REWRITES.fullmatch(line):
            return {}, {}
    return queue_of_class, {dscp: queue_of_class[tc] for dscp, tc in class_of_dscp.items()}
