"""Measurements for alarms, from queue states, port rates and sequence counts.

Each function yields every subject it could measure, good or bad; what it leaves out is unknown. As ports may
be many, figures of 0 on switches not in ``awaited`` (None: all are) are left out too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping

from telemetry.alarms.board import Finding, Level, Subject
from telemetry.counters.window import PortRates
from telemetry.decode.p4.sequence import Sender, SequenceCounts
from telemetry.state import QueueRef, QueueState

PFC_STORM = "pfc_storm"
PFC_FRAMES = "pfc_frames"
LOSSLESS_LOSS = "lossless_loss"
ECN_OFF = "ecn_off"
SEQUENCE_GAPS = "sequence_gaps"

LEAST_SAMPLES = 200
"""Samples of a queue below which missing marks prove nothing."""


def pause_findings(ports: Iterable[PortRates], awaited: Container[str] | None = None) -> Iterator[Finding]:
    """Share of time that ports were paused, and PFC frames they sent per second."""
    for port in ports:
        rates = port.rates
        well = not rates.pause_share and not rates.pfc_tx_frames_per_s
        if well and awaited is not None and port.switch not in awaited:
            continue
        of = f"{port.switch} {port.port}"
        if rates.pause_share is not None:
            yield Finding(
                Subject(PFC_STORM, of, port.switch),
                rates.pause_share,
                f"PFC kept {of} from sending for {rates.pause_share:.1%} of the last {port.covered_s:.3g} s: "
                "its peer cannot take what it sends",
            )
        if rates.pfc_tx_frames_per_s is not None:
            yield Finding(
                Subject(PFC_FRAMES, of, port.switch),
                rates.pfc_tx_frames_per_s,
                f"{of} sent {_figure(rates.pfc_tx_frames_per_s)} PFC frames a second: its buffer was full, "
                "and it paused its peer",
            )


def loss_findings(
    ports: Iterable[PortRates], lossless: Collection[int], awaited: Container[str] | None = None
) -> Iterator[Finding]:
    """Drops per second of the queues in ``lossless`` (empty: all), or of ports without queue counters."""
    for port in ports:
        if awaited is not None and not port.rates.drops_per_s and port.switch not in awaited:
            continue
        drops_of = {number: rates.drops_per_s for number, rates in port.queues.items()}
        if all(drops is None for drops in drops_of.values()):
            if port.rates.drops_per_s is not None:
                of = f"{port.switch} {port.port}"
                found = _loss(
                    of, port, port.rates.drops_per_s, "though it may not be the lossless queue's loss"
                )
                # Lossy queues drop many packets; those must not page anybody or hold a policy back.
                yield found._replace(worst=Level.WARNING)
            continue
        for number, drops in drops_of.items():
            if drops is not None and (not lossless or number in lossless):
                of = f"{port.switch} {port.port} queue {number}"
                yield _loss(of, port, drops, "though PFC should let it lose nothing")


def _loss(of: str, port: PortRates, drops_per_s: float, though: str) -> Finding:
    return Finding(
        Subject(LOSSLESS_LOSS, of, port.switch),
        drops_per_s,
        f"{of} dropped {_figure(drops_per_s)} packets a second over the last {port.covered_s:.3g} s, "
        f"{though}",
    )


def ecn_findings(
    queues: Iterable[QueueState],
    ports: Iterable[PortRates],
    kmax_of: Callable[[QueueRef], int | None],
) -> Iterator[Finding]:
    """Depth (99th percentile) ÷ Kmax of queues that mark nothing; 0 for queues that mark.

    Every packet that meets a queue over Kmax is marked. Marks are those of INT reports, else of the queue's
    or the port's counters. Queues without either, with few samples, or without a known Kmax (bytes, by
    ``kmax_of``) are left out.
    """
    counted: Mapping[tuple[str, str], PortRates] = {(port.switch, port.port): port for port in ports}
    for queue in queues:
        ref, kmax_bytes = queue.ref, kmax_of(queue.ref)
        marked_per_s = queue.marked_packets_per_s
        if marked_per_s is None and (port := counted.get((ref.switch, ref.port))) is not None:
            rates = port.queues.get(ref.queue)
            if rates is not None:
                marked_per_s = rates.ecn_marked_per_s
            elif all(other.ecn_marked_per_s is None for other in port.queues.values()):
                marked_per_s = port.rates.ecn_marked_per_s  # otherwise it is the sum of other queues
        if marked_per_s is None or kmax_bytes is None or queue.n_samples < LEAST_SAMPLES:
            continue
        of = f"{ref.switch} {ref.port} queue {ref.queue}"
        subject = Subject(ECN_OFF, of, ref.switch)
        if marked_per_s > 0:
            yield Finding(subject, 0.0, f"{of} marks: {_figure(marked_per_s)} packets a second")
            continue
        if not queue.has_depth:
            continue
        over = queue.depth_p99_bytes / kmax_bytes
        yield Finding(
            subject,
            over,
            f"{of} held {_figure(queue.depth_p99_bytes)} bytes (99th percentile), {over:.3g} times its Kmax "
            f"of {_figure(kmax_bytes)}, and not one packet was marked: ECN seems to be off on it",
        )


def gap_findings(
    before: Mapping[Sender, SequenceCounts],
    now: Mapping[Sender, SequenceCounts],
    name_of: Callable[[Sender], tuple[str, str | None]],
) -> Iterator[Finding]:
    """Share of datagrams lost between two counts, of each sender that sent any.

    ``name_of`` gives a sender's name and its switch, if known. Senders of one name (several addresses, two
    versions) are added up.
    """
    grown: dict[tuple[str, str | None], tuple[int, int]] = {}
    for sender, counts in now.items():
        earlier = before.get(sender, SequenceCounts())
        received, lost = counts.received - earlier.received, max(counts.lost - earlier.lost, 0)
        if received > 0:
            named = name_of(sender)
            others = grown.get(named, (0, 0))
            grown[named] = (others[0] + received, others[1] + lost)
    for (of, switch), (received, lost) in grown.items():
        share = lost / (lost + received)
        yield Finding(
            Subject(SEQUENCE_GAPS, of, switch),
            share,
            f"{lost} of the last {lost + received} datagrams of {of} were lost ({share:.2%}): their reports "
            "are missing from the window",
        )


def _figure(value: float) -> str:
    """Three significant digits, or all digits before the point."""
    return f"{value:.3g}" if value < 1_000 else f"{value:,.0f}".replace(",", " ")
