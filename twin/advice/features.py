"""What the advice looks at: a network state, the watermark that runs and the policy, without dimensions.

Bytes are in products of bandwidth and delay (BDP): the NICs' median rate times the median over flows of the
time that one full packet and its acknowledgement take on an idle path (RTT). Times are in RTTs. Amounts that
span decades are logarithms. Marks are left out: some devices do not report them, and queue and watermark
tell them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemetry.state import NetworkState
from twin.prediction import ELEPHANT_FROM_BYTES, MOUSE_BELOW_BYTES
from twin.scenario import Scenario
from twin.search.gain import Policy
from twin.watermark import Watermark

TRAFFIC = (
    "load of a receiver, mean",
    "load of a receiver, highest",
    "load between switches, highest",
    "bytes of mice, share",
    "bytes of elephants, share",
    "bytes that wait for others, share",
    "mice that begin per receiver and RTT, log",
    "medium messages that begin per receiver and RTT, log",
    "elephants that begin per receiver and RTT, log",
    "senders of a receiver, log",
    "messages that begin together, mean, log",
    "messages that begin together, p99, log",
    "bytes that begin together, mean, log BDP",
    "bytes that begin together, p99, log BDP",
    "message size, median, log BDP",
    "message size, mean over bytes, log BDP",
    "message size, p99, log BDP",
    "buffer, log BDP",
    "PFC",
)
SENDERS = (
    "DCQCN CNP interval, log RTT",
    "DCQCN alpha timer, log RTT",
    "DCQCN increase timer, log RTT",
    "DCQCN gain, log",
    "DCQCN byte counter, log BDP",
    "DCQCN increase, log packets per RTT",
    "DCQCN hyper increase, log packets per RTT",
    "DCQCN fast recovery steps",
    "DCQCN target rate clamped",
)
RUNNING = (
    "queue, mean, log BDP",
    "queue of the deepest port, log BDP",
    "Kmin that runs, log BDP",
    "Kmax over Kmin that run, log",
    "Pmax that runs, log",
    "weight of small messages",
    "weight of the probe",
    "price of harm",
)
FEATURES = (*TRAFFIC, *SENDERS, *RUNNING)

_EMPTY_QUEUE_BYTES = 1_000.0  # as in the residual: below a packet or so, ratios mean nothing
_RAREST = 1e-6  # messages per receiver and RTT
_MOST_COUNTED_BYTES = 10e6  # the paper's byte counter; what counts more hardly ever rings, as one that is off


@dataclass(frozen=True, slots=True)
class Queue:
    """Depth over time of switch ports in bytes: the mean of the congested ones, and the deepest one's.

    A mean survives the sampling of reports, which a percentile does not.
    """

    mean_bytes: float
    deepest_bytes: float

    @classmethod
    def over(cls, depth_bytes: NDArray[np.float64]) -> Queue:
        """Of the mean depths [port]; congested is what queues a hundredth of the deepest or more."""
        deepest = float(depth_bytes.max())
        return cls(float(depth_bytes[depth_bytes >= 0.01 * deepest].mean()), deepest)


@dataclass(frozen=True, slots=True)
class Scales:
    """Round-trip time in seconds and bandwidth-delay product in bytes of a scenario's flows."""

    rtt_s: float
    bdp_bytes: float

    @classmethod
    def of(cls, scenario: Scenario) -> Scales:
        rtt_s = float(np.median(scenario.packet_alone_s[scenario.flows.routes[1]]))
        nics = scenario.flows.path_ports[scenario.flows.path_offset[:-1]]
        return cls(rtt_s, rtt_s * float(np.median(scenario.port_rate_bytes_per_s[nics])))


def features(
    scenario: Scenario, scales: Scales, queue: Queue, incumbent: Watermark, policy: Policy
) -> NDArray[np.float64]:
    """One number for each of ``FEATURES``."""
    return np.concatenate(
        (fixed_features(scenario, scales), running_features(queue, incumbent, policy, scales))
    )


def fixed_features(scenario: Scenario, scales: Scales) -> NDArray[np.float64]:
    """One number for each of ``TRAFFIC`` and ``SENDERS``: what does not depend on the watermark that runs."""
    return np.concatenate((traffic_features(scenario, scales), _sender_features(scenario, scales)))


def traffic_features(scenario: Scenario, scales: Scales) -> NDArray[np.float64]:
    """One number for each of ``TRAFFIC``. Of a message counts what its sender can send in the scenario."""
    flows, rtt_s, bdp = scenario.flows, scales.rtt_s, scales.bdp_bytes
    nic, last = flows.path_ports[flows.path_offset[:-1]], flows.path_ports[flows.path_offset[1:] - 1]
    rate = scenario.port_rate_bytes_per_s
    left_s = np.maximum(scenario.duration_s - flows.start_s, 0.0)
    sent = np.minimum(scenario.flow_wire_bytes, left_s * flows.start_rate_bytes_per_s)
    by_nic = np.bincount(nic, sent, minlength=len(rate))
    sent *= np.minimum(1.0, rate * scenario.duration_s / np.maximum(by_nic, 1.0))[nic]
    total = max(float(sent.sum()), 1.0)

    lengths = np.diff(flows.path_offset)
    crossed = np.bincount(flows.path_ports[: flows.path_offset[-1]], np.repeat(sent, lengths), len(rate))
    load = crossed / (rate * scenario.duration_s)
    receivers = np.unique(last)
    between = ~scenario.is_nic
    between[receivers] = False

    size = np.minimum(flows.payload_bytes, np.maximum(sent, 1.0))
    mice, elephants = flows.payload_bytes < MOUSE_BELOW_BYTES, flows.payload_bytes >= ELEPHANT_FROM_BYTES
    waits = np.zeros(len(flows), np.bool_) if flows.waits is None else flows.waits.waiting
    per_rtt = rtt_s / scenario.duration_s / len(receivers)
    begin = [np.count_nonzero(kind) * per_rtt for kind in (mice, ~mice & ~elephants, elephants)]
    pairs = len(np.unique(nic.astype(np.int64) * len(rate) + last))

    count, together = _together(flows.start_s, last, np.minimum(sent, bdp), rtt_s)
    return np.array(
        [
            load[receivers].mean(),
            load[receivers].max(),
            load[between].max(initial=0.0),
            sent[mice].sum() / total,
            sent[elephants].sum() / total,
            sent[waits].sum() / total,
            *(math.log(max(one, _RAREST)) for one in begin),
            math.log(pairs / len(receivers)),
            math.log(np.average(count, weights=sent)),
            math.log(np.percentile(count, 99)),
            math.log(max(np.average(together, weights=sent), 1.0) / bdp),
            math.log(max(np.percentile(together, 99), 1.0) / bdp),
            math.log(np.median(size) / bdp),
            math.log(np.average(size, weights=sent) / bdp),
            math.log(np.percentile(size, 99) / bdp),
            math.log(scenario.buffer_bytes / bdp),
            float(scenario.pfc),
        ]
    )


def _together(
    start_s: NDArray[np.float64], port: NDArray[np.int32], sent: NDArray[np.float64], rtt_s: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Per message: how many began at its receiver in the RTT up to its own start, and their bytes."""
    order = np.lexsort((start_s, port))
    # One key for both, so that a search for the RTT before stays at the receiver.
    apart_s = float(start_s.max()) + 2.0 * rtt_s
    key = port[order].astype(np.float64) * apart_s + start_s[order]
    first = np.searchsorted(key, key - rtt_s)
    until = np.concatenate(([0.0], np.cumsum(sent[order])))
    place = np.arange(len(key))
    count, together = np.empty(len(key)), np.empty(len(key))
    count[order] = place + 1 - first
    together[order] = until[1:] - until[first]
    return count, together


def _sender_features(scenario: Scenario, scales: Scales) -> NDArray[np.float64]:
    """One number for each of ``SENDERS``."""
    dcqcn = scenario.dcqcn
    packet_s = scenario.packet_wire_bytes / scales.rtt_s
    return np.array(
        [
            math.log(dcqcn.cnp_interval_s / scales.rtt_s),
            math.log(dcqcn.alpha_timer_s / scales.rtt_s),
            math.log(dcqcn.increase_timer_s / scales.rtt_s),
            math.log(dcqcn.gain),
            math.log(min(dcqcn.byte_counter_bytes or math.inf, _MOST_COUNTED_BYTES) / scales.bdp_bytes),
            math.log(dcqcn.ai_rate_bytes_per_s / packet_s),
            math.log(max(dcqcn.hai_rate_bytes_per_s, 1.0) / packet_s),
            float(dcqcn.fast_recovery_steps),
            float(dcqcn.clamp_target_rate),
        ]
    )


def running_features(
    queue: Queue, incumbent: Watermark, policy: Policy, scales: Scales
) -> NDArray[np.float64]:
    """One number for each of ``RUNNING``."""
    bdp = scales.bdp_bytes
    kmin = max(incumbent.kmin_bytes, 1)
    return np.array(
        [
            math.log((queue.mean_bytes + _EMPTY_QUEUE_BYTES) / bdp),
            math.log((queue.deepest_bytes + _EMPTY_QUEUE_BYTES) / bdp),
            math.log(kmin / bdp),
            math.log(incumbent.kmax_bytes / kmin),
            math.log(incumbent.pmax),
            policy.delay,
            policy.probe,
            policy.harm_price,
        ]
    )


def queue_of(state: NetworkState) -> Queue | None:
    """The ports' queues as the window shows them, a port's queues added; None where no depth is known."""
    depth: dict[tuple[str, str], float] = {}
    for one in state.queues:
        if one.has_depth:
            port = one.ref.switch, one.ref.port
            depth[port] = depth.get(port, 0.0) + one.depth_mean_bytes
    return Queue.over(np.array(list(depth.values()))) if depth else None
