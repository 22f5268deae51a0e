"""The rules that a lossless fabric keeps, hop by hop (``report.RULES``)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from lossless.drift import drift
from lossless.fabric import End, Fabric, Template
from lossless.headroom import headroom
from lossless.report import Notes, Report
from nics.base import NicReading
from nics.parameters import value_text
from switches.lossless import LosslessPort, LosslessPriority
from twin.units import bytes_text
from twin.watermark import Watermark

_FABRIC, _NO_TOPOLOGY = "the fabric", "the topology is"
_SIDES = ("pfc_one_side", "ecn_one_side")


def check(fabric: Fabric) -> Report:
    """Every rule on all that is known of the fabric; what is not known is never taken to be right."""
    notes = Notes()
    for (switch, _), port in fabric.ports.items():
        _pfc_without_ecn(notes, switch, port)
        _headroom(notes, fabric.templates.get(switch), switch, port)
    for name, reading in fabric.switches.items():
        _kmax_above_xoff(notes, name, reading.ports)
    _one_side(notes, fabric)
    _unequal_ecn(notes, fabric)
    _nics(notes, fabric)
    _cnp_queue(notes, fabric)
    drift(notes, fabric)
    return notes.report()


def _pfc_without_ecn(notes: Notes, switch: str, port: LosslessPort) -> None:
    rule = "pfc_without_ecn"
    for one in port.priorities:
        if (what := _unknown_mark(port, one)) is not None:
            notes.unknown(rule, switch, port.port, what)
        elif one.queue is not None and port.watermarks[one.queue] is None:
            found = f"PFC of priority {one.priority} is on, and its queue {one.queue} does not mark"
            notes.fault(rule, switch, port.port, found, "turn ECN on there, or PFC off")


def _no_queue(one: LosslessPriority) -> str:
    return f"the queue of priority {one.priority} is"


def _no_mark(queue: int) -> str:
    return f"whether queue {queue} marks is"


def _unknown_mark(port: LosslessPort, one: LosslessPriority) -> str | None:
    """What is not known of whether the queue of that priority marks; None where it is."""
    if one.queue is None:
        return _no_queue(one)
    return None if one.queue in port.watermarks else _no_mark(one.queue)


def _without_mark(port: LosslessPort) -> list[int]:
    """The queues of its PFC priorities of which it is not known whether they mark."""
    queues = {one.queue for one in port.priorities if one.queue is not None}
    return sorted(queues.difference(port.watermarks))


def _kmax_above_xoff(notes: Notes, switch: str, ports: Iterable[LosslessPort]) -> None:
    """Against the lowest threshold of the switch's ports: what waits at one port came in at any other."""
    rule = "kmax_above_xoff"
    placed = [(port, one) for port in ports for one in port.priorities]
    for priority in sorted({one.priority for _, one in placed}):
        of_it = [(port, one) for port, one in placed if one.priority == priority]
        for port, one in of_it:
            if (what := _unknown_mark(port, one)) is not None:
                notes.unknown(rule, switch, port.port, what)
            if one.xoff_bytes is None:
                notes.unknown(rule, switch, port.port, f"the XOFF threshold of priority {priority} is")
        known = [(one.xoff_bytes, one) for _, one in of_it if one.xoff_bytes is not None]
        if not known:
            continue
        xoff_bytes, lowest = min(known, key=lambda pair: pair[0])
        for port, one in of_it:
            mark = None if one.queue is None else port.watermarks.get(one.queue)
            if mark is not None and mark.kmax_bytes >= xoff_bytes:
                kmax, xoff = bytes_text(mark.kmax_bytes), _threshold(xoff_bytes, lowest)
                found = (
                    f"Kmax of queue {one.queue} is {kmax}, and PFC of priority {priority} pauses at {xoff}"
                )
                notes.fault(rule, switch, port.port, found, "lower Kmax, or raise the threshold")


def _threshold(xoff_bytes: int, one: LosslessPriority) -> str:
    if one.alpha is None or one.pool_bytes is None:
        return bytes_text(xoff_bytes)
    return f"{bytes_text(xoff_bytes)} at most (alpha {one.alpha:g}, a pool of {bytes_text(one.pool_bytes)})"


def _headroom(notes: Notes, template: Template | None, switch: str, port: LosslessPort) -> None:
    """Below what arrives at once it is an error; between that and the standard's sum the sender's reaction
    decides, unless a template gives the headroom that the operator has worked out.
    """
    rule = "headroom"
    if not port.priorities:
        return
    if port.rate_gbps is None or port.cable_m is None or port.mtu_bytes is None:
        missing = {"rate": port.rate_gbps, "cable's length": port.cable_m, "MTU": port.mtu_bytes}
        named = " or ".join(name for name, value in missing.items() if value is None)
        notes.unknown(rule, switch, port.port, f"the {named} is")
        return
    needs = headroom(port.rate_gbps, port.cable_m, port.mtu_bytes)
    if needs is None:
        notes.unknown(rule, switch, port.port, f"how fast a sender at {port.rate_gbps:g} Gbit/s reacts is")
        return
    said = template is not None and template.headroom_bytes is not None
    for one in port.priorities:
        if one.headroom_bytes is None:
            notes.unknown(rule, switch, port.port, f"the headroom of priority {one.priority} is")
            continue
        lost = one.headroom_bytes < needs.at_once_bytes
        if lost or (one.headroom_bytes < needs.needed_bytes and not said):
            found = (
                f"headroom of priority {one.priority} is {bytes_text(one.headroom_bytes)}, and "
                f"{bytes_text(needs.needed_bytes)} may arrive: {needs}"
            )
            if lost:
                found += f"; {bytes_text(needs.at_once_bytes)} of it even where it reacts at once"
                remedy = "raise it, or correct the cable's length"
            else:
                remedy = "raise it, or say in a template what the switch's vendor gives for this cable"
            notes.fault(rule, switch, port.port, found, remedy, "error" if lost else "warning")


def _one_side(notes: Notes, fabric: Fabric) -> None:
    if fabric.topology is None:
        for rule in _SIDES:
            notes.unknown(rule, _FABRIC, "", _NO_TOPOLOGY)
        return
    for ends in fabric.cables():
        for here, there in (ends, ends[::-1]):
            if here.port is None:
                for rule in _SIDES:
                    notes.unknown(rule, here.switch, here.name, "the configuration of the port is")
            elif there.port is not None:
                _compare_ends(notes, here, here.port, there, there.port)


def _compare_ends(notes: Notes, here: End, own: LosslessPort, there: End, far: LosslessPort) -> None:
    place = f"{here.name} (to {there})"
    for priority in sorted(far.pfc - own.pfc):
        found = f"PFC of priority {priority} is off, and on at the other end"
        notes.fault("pfc_one_side", here.switch, place, found, "turn it on here, or off there")
    marking = {queue for queue, mark in far.watermarks.items() if mark is not None}
    for queue in sorted(marking.union(_without_mark(own))):  # maybe known at neither end
        if queue not in own.watermarks:
            notes.unknown("ecn_one_side", here.switch, here.name, _no_mark(queue))
        elif own.watermarks[queue] is None:
            found = f"queue {queue} does not mark, and does at the other end"
            notes.fault("ecn_one_side", here.switch, place, found, "turn ECN on here, or off there")


def _unequal_ecn(notes: Notes, fabric: Fabric) -> None:
    rule = "unequal_ecn"
    if fabric.topology is None:
        notes.unknown(rule, _FABRIC, "", _NO_TOPOLOGY)
        return
    marks: defaultdict[tuple[str, int], dict[tuple[str, str], Watermark | None]] = defaultdict(dict)
    for place, role in fabric.roles.items():
        port = fabric.ports.get(place)
        if port is None:
            continue
        for queue, mark in port.watermarks.items():
            marks[role, queue][place] = mark
        for queue in _without_mark(port):
            notes.unknown(rule, *place, _no_mark(queue))
    for (role, queue), of_role in marks.items():
        usual = _most(of_role.values())
        for (switch, name), mark in of_role.items():
            if mark != usual:
                found = f"queue {queue} {_says(mark)}; on most {role} ports it {_says(usual)}"
                notes.fault(rule, switch, name, found, "set it as the others are", "warning")


def _says(mark: Watermark | None) -> str:
    return "does not mark" if mark is None else f"marks with {mark}"


def _nics(notes: Notes, fabric: Fabric) -> None:
    if not fabric.hosts:
        for rule in ("nic_priority", "cnp_queue", "unequal_nics"):
            notes.unknown(rule, _FABRIC, "", "what NICs run is")
        return
    of_class: defaultdict[str, list[tuple[str, NicReading]]] = defaultdict(list)
    for host, reading in fabric.hosts.items():
        for nic in reading.nics:
            of_class[fabric.classes.get(host, "")].append((host, nic))
            _nic_priority(notes, host, nic, fabric.lossless_at(host, nic.nic))
    for name, nics in of_class.items():
        _unequal_nics(notes, f"NICs of class {name}" if name else "NICs", nics)


def _nic_priority(notes: Notes, host: str, nic: NicReading, lossless: frozenset[int] | None) -> None:
    rule = "nic_priority"
    if lossless is None:
        notes.unknown(rule, host, nic.nic, "what its switch port keeps lossless is")
        return
    for does, on in (("reacts to CNPs", nic.reacts), ("sends CNPs", nic.notifies)):
        if on is None:
            notes.unknown(rule, host, nic.nic, f"on which priorities it {does} is")
        elif missing := sorted(lossless.difference(on)):
            found = (
                f"it {does} on {_numbers(on)}, and the switches keep {_numbers(sorted(lossless))} lossless"
            )
            remedy = f"turn it on for {_numbers(missing)}, or PFC off there"
            notes.fault(rule, host, nic.nic, found, remedy)


def _unequal_nics(notes: Notes, which: str, nics: Sequence[tuple[str, NicReading]]) -> None:
    rule = "unequal_nics"
    names = {name for _, nic in nics for name in nic.values}
    usual = {name: _most(nic.values[name] for _, nic in nics if name in nic.values) for name in names}
    for host, nic in nics:
        if not nic.values:
            notes.unknown(rule, host, nic.nic, "what it runs is")
        other = [
            f"{name} {value_text(name, value)} (most {value_text(name, usual[name])})"
            for name, value in nic.values.items()
            if value != usual[name]
        ]
        if other:
            found = f"it runs other values than most {which}: {', '.join(other)}"
            notes.fault(rule, host, nic.nic, found, "set it as the others are", "warning")


def _cnp_queue(notes: Notes, fabric: Fabric) -> None:
    rule = "cnp_queue"
    told = {
        nic.values["cnp_dscp"]
        for reading in fabric.hosts.values()
        for nic in reading.nics
        if "cnp_dscp" in nic.values
    }
    if fabric.hosts and not told:
        notes.unknown(rule, _FABRIC, "", "the DSCP of CNPs is")
    for dscp in sorted(told):
        for (switch, name), port in fabric.ports.items():
            queue = port.queue_of_dscp.get(dscp)
            for one in port.priorities:
                if one.queue is None:
                    notes.unknown(rule, switch, name, _no_queue(one))
            if queue is None:
                notes.unknown(rule, switch, name, f"the queue of CNPs (DSCP {dscp}) is")
            elif any(one.queue == queue for one in port.priorities):
                found = f"CNPs (DSCP {dscp} of the NICs) go into queue {queue}, which is lossless traffic's"
                notes.fault(rule, switch, name, found, "map that DSCP to another queue")
            elif queue not in port.strict:
                notes.unknown(rule, switch, name, f"whether queue {queue} of CNPs is strict is")
            elif not port.strict[queue]:
                found = f"queue {queue} of CNPs (DSCP {dscp} of the NICs) is not strict"
                notes.fault(rule, switch, name, found, "schedule it as strict", "warning")


def _numbers(of: Iterable[int]) -> str:
    return ", ".join(map(str, of)) or "none"


T = TypeVar("T")


def _most(values: Iterable[T]) -> T | None:
    """The most common value, the first of equally common ones."""
    counted = Counter(values).most_common(1)
    return counted[0][0] if counted else None
