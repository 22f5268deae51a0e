"""Telemetry reports a second that one service process takes by UDP on loopback without loss.

The service and the sender are processes of their own. The rate offered rises until something is lost in each
of three tries; the figure is the highest at which nothing was, and every report is in the window within a
second of the last.
"""

from __future__ import annotations

import math
import multiprocessing
import socket
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from multiprocessing.connection import Connection
from typing import Any

import httpx
import numpy as np

from bench.figure import Figure
from bench.telemetry.ingest import served
from telemetry.encode.p4 import ReportColumns, datagram_v2, reports_v2

GOAL_PER_S = 150_000
LASTING_S = 3.0
TICK_S = 0.002
WARM_UP_PER_S = 50_000
STEP = 1.15
MOST_PER_S = 2_000_000
SETTLE_S = 1.0
N_FLOWS, N_NODES, N_PORTS = 10_000, 32, 64
REPORTS = 65_536
TRIES = 3
SENDERS = 8
UDP_SEGMENT = 103  # linux/udp.h: a call of the kernel sends up to 64 datagrams of one length
SEGMENTS, MOST_BYTES = 64, 60_000
SETTINGS = {
    "ECNTWIN_TUNING__ENABLED": "false",
    "ECNTWIN_TELEMETRY__UDP__PORTS": "0",
    "ECNTWIN_TELEMETRY__INT": '{"default_units": {"occupancy": "bytes"}}',
}


@dataclass(frozen=True, slots=True)
class Offered:
    """A stretch of sending: reports a second that the sender managed, how many datagrams in all, and how many
    of these never came into the window.
    """

    per_s: float
    sent: int
    lost: int


def datagrams(hops: int, reports_each: int) -> list[bytes]:
    """Datagrams of 10 000 flows over paths of ``hops`` switches; a flow has one path."""
    random = np.random.default_rng(1)
    flow = random.integers(N_FLOWS, size=REPORTS)
    flow = flow[np.argsort(flow % N_NODES, kind="stable")]  # a datagram is of one node
    node = (flow % N_NODES)[:, None] + N_NODES * np.arange(hops)[::-1]
    depth = random.integers(100_000, size=(REPORTS, hops))
    begun = 1_700_000_000_000_000_000 + np.arange(REPORTS)[:, None] * 1_000 + np.zeros((1, hops), np.int64)
    address = np.zeros((REPORTS, 4), np.uint8)
    address[:, 0], address[:, 2], address[:, 3] = 10, flow >> 8, flow & 255
    columns = ReportColumns(
        node=node,
        ingress=(flow // N_NODES % 8)[:, None] + np.zeros((1, hops), np.int64),
        egress=(flow % N_PORTS)[:, None] + np.zeros((1, hops), np.int64),
        queue=np.full((REPORTS, hops), 3),
        occupancy=depth,
        ingress_time=begun,
        egress_time=begun + depth,
        source=address,
        destination=np.tile(np.array([10, 1, 0, 1], np.uint8), (REPORTS, 1)),
        source_port=10_000 + flow,
        destination_port=np.full(REPORTS, 4791),
        packet_bytes=np.full(REPORTS, 1_096),
        ecn=np.full(REPORTS, 2),
    )
    rows = [row.tobytes() for row in reports_v2(columns)]
    nodes = node[:, -1].tolist()
    held: list[tuple[int, list[bytes]]] = []
    begin = 0
    while begin < REPORTS:
        end = begin + 1
        while end < REPORTS and end - begin < reports_each and nodes[end] == nodes[begin]:
            end += 1
        held.append((nodes[begin], rows[begin:end]))
        begin = end
    made: list[bytes] = []
    sequence = dict.fromkeys(nodes, 0)
    for number in random.permutation(len(held)).tolist():
        sender, reports = held[number]
        made.append(datagram_v2(sender, 0, sequence[sender], reports))
        sequence[sender] += 1
    return made


def blocks(payloads: Sequence[bytes]) -> list[tuple[bytes, int, int]]:
    """Runs of one length joined, as the kernel takes many in a call: bytes, length, and how many."""
    made: list[tuple[bytes, int, int]] = []
    for length, run in groupby(payloads, len):
        alike = list(run)
        most = min(SEGMENTS, MOST_BYTES // length)
        parts = (alike[at : at + most] for at in range(0, len(alike), most))
        made += [(b"".join(part), length, len(part)) for part in parts]
    return made


def _send(channel: Connection, payloads: Sequence[bytes], port: int) -> None:
    """In its own process: sends datagrams at the rate it receives, until that is 0."""
    ends = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(SENDERS)]
    for end in ends:
        end.connect(("127.0.0.1", port))
    joined, at = blocks(payloads), 0
    while (per_s := channel.recv()) > 0:
        begun_s, sent = time.perf_counter(), 0
        while (now_s := time.perf_counter() - begun_s) < LASTING_S:
            due = int(now_s * per_s)
            while sent < due:
                content, length, count = joined[at]
                end = ends[at % SENDERS]
                end.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, length)
                end.send(content)
                at = (at + 1) % len(joined)
                sent += count
            time.sleep(TICK_S)
        channel.send((sent, time.perf_counter() - begun_s))
    for end in ends:
        end.close()


class _Service:
    """The service's counts of datagrams."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=60)

    @property
    def port(self) -> int:
        return int(self._said()["addresses"][0].rpartition(":")[2])

    def _said(self) -> dict[str, Any]:
        document: dict[str, Any] = self._client.get("/v1/telemetry/udp").raise_for_status().json()
        return document

    def taken(self) -> int:
        """Datagrams in the window."""
        return int(self._said()["taken"])

    def accepted(self) -> int:
        """Reports in the window."""
        text = self._client.get("/metrics").raise_for_status().text
        line = next(line for line in text.splitlines() if line.startswith("ecntwin_reports_accepted_total "))
        return round(float(line.split()[1]))

    def dropped(self) -> str:
        """Where datagrams were dropped."""
        return ", ".join(f"{name} {count}" for name, count in self._said()["dropped"].items() if count)


def highest(hops: int, reports_each: int) -> tuple[list[Offered], str]:
    """The stretches until something was lost, or the sender could not send faster; and what happened."""
    payloads = datagrams(hops, reports_each)
    each = REPORTS / len(payloads)
    here, there = multiprocessing.Pipe()
    with served(**SETTINGS) as url:
        service = _Service(url)
        sender = multiprocessing.Process(target=_send, args=(there, payloads, service.port), daemon=True)
        sender.start()
        _stretch(service, here, WARM_UP_PER_S, each)
        stretches: list[Offered] = []
        asked_per_s = float(GOAL_PER_S) / STEP
        ended = "the sender's own limit"
        while asked_per_s < MOST_PER_S:
            for _ in range(TRIES):
                stretches.append(_stretch(service, here, asked_per_s, each))
                if not stretches[-1].lost:
                    break
            if stretches[-1].lost:
                ended = f"{stretches[-1].lost} of {stretches[-1].sent} datagrams lost ({service.dropped()})"
                break
            if stretches[-1].per_s < 0.9 * asked_per_s:
                break
            asked_per_s *= STEP
        here.send(0)
        sender.join()
    return stretches, ended


def _stretch(service: _Service, sender: Connection, asked_per_s: float, each: float) -> Offered:
    before, accepted = service.taken(), service.accepted()
    sender.send(asked_per_s / each)
    sent, lasted_s = sender.recv()
    deadline_s = time.monotonic() + SETTLE_S
    while (taken := service.taken() - before) < sent and time.monotonic() < deadline_s:
        time.sleep(0.02)
    if taken == sent and service.accepted() - accepted < 0.999 * sent * each:
        raise RuntimeError("datagrams were taken whose reports are not in the window")
    return Offered(sent * each / lasted_s, sent, sent - taken)


def measure() -> Iterable[Figure]:
    """The highest rate without loss, for short and long paths, one report a datagram and several."""
    for hops, reports_each, goal in (
        (1, 1, GOAL_PER_S),
        (3, 1, None),
        (1, 8, GOAL_PER_S),
        (3, 8, GOAL_PER_S),
    ):
        stretches, ended = highest(hops, reports_each)
        sound = [one.per_s for one in stretches if not one.lost]
        path = "one hop" if hops == 1 else f"a path of {hops}"
        yield Figure(
            f"reports by UDP into the window, {path}, {reports_each} a datagram",
            max(sound, default=math.nan),
            "reports/s",
            goal=goal,
            better="higher",
            note=f"{LASTING_S:g} s, best of {TRIES} each, {N_FLOWS} flows; then {ended}",
        )


if __name__ == "__main__":
    for figure in measure():
        print(figure)
