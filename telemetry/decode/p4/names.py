"""Flows and places by what the wire calls them; imports only ``telemetry.report``, ``telemetry.state`` and
its neighbours.

Thousands of reports are about one flow at one place: each is named once, and remembered.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import NamedTuple

from telemetry.decode.p4.devices import Devices, TimeUnit
from telemetry.decode.p4.raw import NOTHING_8, NOTHING_32
from telemetry.report import HopSite
from telemetry.state import FlowKey

NO_FLOW = FlowKey("0.0.0.0", "0.0.0.0", 0, 0, 0)
NO_UNIT = -1
TIME_UNITS: tuple[TimeUnit, ...] = ("ns", "us", "2^-32 s")
_MOST_REMEMBERED = 1 << 18


class Place(NamedTuple):
    """A place among hops, the node that is there (None: not told), and what that counts in: NaN or
    ``NO_UNIT`` where it has no profile; ``time_unit`` is a number in ``TIME_UNITS``.
    """

    site: HopSite
    node: int | None
    unit_bytes: float
    time_unit: int
    utilisation_scale: float
    sampling_rate: float


class Names:
    """Names what it is asked for; ``devices`` must stay as they are. Remembers a bounded number."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._flows: dict[tuple[int, ...], FlowKey] = {}
        self._places: dict[tuple[int, int], Place] = {}

    def flows(self, version: int, words: Sequence[Sequence[int]]) -> list[FlowKey]:
        """The flows whose columns these are (``columns.FlowColumns``), all of one IP version."""
        if version == 0:
            return [NO_FLOW] * len(words[0])
        known = self._flows
        if len(known) > _MOST_REMEMBERED:
            known.clear()
        named = []
        for row in zip(*words, strict=True):  # rows of IPv6 are longer: none is taken for one of IPv4
            flow = known.get(row)
            if flow is None:
                flow = known[row] = _flow(version, row)
            named.append(flow)
        return named

    def places(self, rows: Sequence[tuple[int, int]]) -> list[Place]:
        """The places that these pairs mean: node and queue (8 bits), ingress and egress interface (32)."""
        known = self._places
        if len(known) > _MOST_REMEMBERED:
            known.clear()
        named = []
        for row in rows:
            place = known.get(row)
            if place is None:
                place = known[row] = self._place(*row)
            named.append(place)
        return named

    def _place(self, at: int, ports: int) -> Place:
        number, queue = at >> 8, at & NOTHING_8
        node = None if number == NOTHING_32 else number
        ingress, egress = (
            None if port == NOTHING_32 else self._devices.port(node, port)
            for port in (ports >> 32, ports & NOTHING_32)
        )
        switch = None if node is None else self._devices.switch(node)
        site = HopSite(switch, ingress, egress, None if queue == NOTHING_8 else queue)
        units = self._devices.profile(node)
        if units is None:
            return Place(site, node, float("nan"), NO_UNIT, float("nan"), 1.0)
        unit = TIME_UNITS.index(units.time)
        return Place(site, node, units.unit_bytes, unit, units.utilisation_scale, units.sampling_rate)


def _flow(version: int, words: Sequence[int]) -> FlowKey:
    tail = words[-1]
    ports = tail >> 24 & 0xFFFF, tail >> 8 & 0xFFFF, tail & 0xFF
    if version == 4:
        return FlowKey(_ipv4(words[0] >> 32), _ipv4(words[0] & NOTHING_32), *ports)
    begin, end = (
        socket.inet_ntop(socket.AF_INET6, (words[at] << 64 | words[at + 1]).to_bytes(16, "big"))
        for at in (0, 2)
    )
    return FlowKey(begin, end, *ports)


def _ipv4(address: int) -> str:
    return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"
