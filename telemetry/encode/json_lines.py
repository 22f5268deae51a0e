"""Writes decoded telemetry reports in the JSON format of INT reports, one per line."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from telemetry.decode.p4.assemble import NO_REASON, NOT_ROCE, NOT_TOLD, P4Reports, ReportFlags
from telemetry.report import MARK_UNKNOWN, MISSING_NS, HopSite


def json_lines(reports: P4Reports) -> Iterator[bytes]:
    """One line per report, without its newline; missing values are left out.

    Additional fields: ``flags`` (why it was reported), ``drop_reason``, ``queue_pair`` and
    ``packet_sequence`` (RoCEv2); per hop ``queue_occupancy`` where its unit is unknown, and
    ``tx_utilisation`` (1 is full). Readers of the format ignore them.
    """
    encoder = msgspec.json.Encoder()
    batch = reports.batch
    hops = _hops(reports)
    offset = batch.hop_offset.tolist()
    keys = [key._asdict() for key in batch.flow_keys]
    flags = [_named(bits) for bits in range(16)]
    rows = zip(
        batch.ts_ns.tolist(),
        batch.flow.tolist(),
        batch.packet_bytes.tolist(),
        batch.sampling_rate.tolist(),
        reports.flags.tolist(),
        reports.drop_reason.tolist(),
        reports.queue_pair.tolist(),
        reports.packet_sequence.tolist(),
        strict=True,
    )
    for number, (ts_ns, flow, packet_bytes, rate, bits, reason, pair, sequence) in enumerate(rows):
        document: dict[str, Any] = {
            "ts_ns": ts_ns,
            "flow": keys[flow],
            "packet_bytes": packet_bytes,
            "sampling_rate": rate,
            "hops": hops[offset[number] : offset[number + 1]],
            "flags": flags[bits],
        }
        if reason != NO_REASON:
            document["drop_reason"] = reason
        if pair != NOT_ROCE:
            document |= {"queue_pair": pair, "packet_sequence": sequence}
        yield encoder.encode(document)


def _named(bits: int) -> list[str]:
    return [str(flag.name).lower() for flag in reversed(ReportFlags) if bits & flag]


def _hops(reports: P4Reports) -> list[dict[str, Any]]:
    batch = reports.batch
    places = [_place(site) for site in batch.sites]
    hops = []
    for site, depth, occupancy, begun, ended, mark, used in zip(
        batch.hop_site.tolist(),
        batch.queue_bytes.tolist(),
        reports.occupancy.tolist(),
        batch.ingress_ns.tolist(),
        batch.egress_ns.tolist(),
        batch.marked.tolist(),
        reports.tx_utilisation.tolist(),
        strict=True,
    ):
        hop = dict(places[site])
        if not math.isnan(depth):
            hop["queue_bytes"] = int(depth)
        elif occupancy != NOT_TOLD:
            hop["queue_occupancy"] = occupancy
        if begun != MISSING_NS:
            hop["ingress_ts_ns"] = begun
        if ended != MISSING_NS:
            hop["egress_ts_ns"] = ended
        if mark != MARK_UNKNOWN:
            hop["ecn_marked"] = bool(mark)
        if not math.isnan(used):
            hop["tx_utilisation"] = used
        hops.append(hop)
    return hops


def _place(site: HopSite) -> dict[str, Any]:
    return {name: value for name, value in site._asdict().items() if value is not None}
