"""What ports and queues did lately, as rates, from how much their counters grew; knows only ``telemetry``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from telemetry.counters.counters import Counters, SeriesKey
from telemetry.counters.model import Grown

NS_PER_S = 1e9
LEAST_SPAN_NS = 1_000_000
"""Between readings that lie closer together there is no rate: one event would be thousands a second."""


class Rates(NamedTuple):
    """Of one port or queue, by its own clock; None: the device does not tell it.

    ``pause_share`` is the share (0 to 1) of the time in which its peer kept it from sending, the others are
    events a second: PFC frames received and sent, packets marked, notifications passed, packets dropped, and
    of those the ones WRED dropped.
    """

    pause_share: float | None = None
    pfc_rx_frames_per_s: float | None = None
    pfc_tx_frames_per_s: float | None = None
    ecn_marked_per_s: float | None = None
    cnp_per_s: float | None = None
    drops_per_s: float | None = None
    wred_drops_per_s: float | None = None


UNKNOWN = Rates()
_COUNTED = (
    "pfc_pause_ns",
    "pfc_rx_frames",
    "pfc_tx_frames",
    "ecn_marked_packets",
    "cnp_packets",
    "dropped_packets",
    "wred_dropped_packets",
)
_COLUMNS = tuple(Counters._fields.index(name) for name in _COUNTED)


@dataclass(frozen=True, slots=True)
class PortRates:
    """One port: ``rates`` of it as a whole, ``queues`` those of its queues by number.

    As a whole: paused for as large a share as its most paused queue, and of everything else the sum over its
    queues; where no queue tells a figure, what the port as a whole tells. ``covered_s``: the time between the
    readings that were used, the longest of the port's.
    """

    switch: str
    port: str
    covered_s: float
    rates: Rates
    queues: dict[int, Rates]


def port_rates(grown: Iterable[tuple[SeriesKey, Grown]]) -> tuple[PortRates, ...]:
    """The ports these series belong to, by switch and port; each series over its own time."""
    ports: defaultdict[tuple[str, str], list[tuple[int | None, Grown]]] = defaultdict(list)
    for key, one in grown:
        ports[key.switch, key.port].append((key.queue, one))
    return tuple(_port(switch, port, series) for (switch, port), series in sorted(ports.items()))


def _port(switch: str, port: str, series: list[tuple[int | None, Grown]]) -> PortRates:
    queues = {queue: _rates(one) for queue, one in series if queue is not None}
    whole = next((_rates(one) for queue, one in series if queue is None), UNKNOWN)
    if not queues:
        rates = whole
    elif len(queues) == 1 and whole is UNKNOWN:
        (rates,) = queues.values()
    else:
        columns = [
            [value for value in column if value is not None] for column in zip(*queues.values(), strict=True)
        ]
        paused, *counted = columns
        rates = Rates(
            max(paused, default=whole.pause_share),
            *(sum(given) if given else own for given, own in zip(counted, whole[1:], strict=True)),
        )
    covered_s = max(one.end_ns - one.begin_ns for _, one in series) / NS_PER_S
    return PortRates(switch, port, covered_s, rates, dict(sorted(queues.items())))


def _rates(grown: Grown) -> Rates:
    if grown.end_ns - grown.begin_ns < LEAST_SPAN_NS:
        return UNKNOWN
    span_s = (grown.end_ns - grown.begin_ns) / NS_PER_S
    paused_ns, *counts = map(grown.by_field.__getitem__, _COLUMNS)
    return Rates(
        # A pause that is counted when it ends may have begun before the first reading.
        None if paused_ns is None else min(paused_ns / NS_PER_S / span_s, 1.0),
        *[None if count is None else count / span_s for count in counts],
    )
