"""A running packet-level RoCEv2 fabric: offer flows, advance, read and set watermarks, cut cables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from twin.errors import ParameterError, ScenarioError
from twin.packet import _kernels, _sender, _switch, layout
from twin.packet._calendar import SPARE
from twin.packet.flow_table import FlowTable, NewFlows
from twin.packet.layout import PacketSettings, State
from twin.packet.plan import FabricPlan, check_seed, sender_columns
from twin.packet.policies import DECISION, policy_tables
from twin.packet.results import BIN_LOWER_BYTES, Completions, Measured, PortReadings, Results, Samples
from twin.packet.routes import Routes, flow_key
from twin.probe._draws import PROBE_BINS
from twin.scenario import Background, Flows
from twin.senders.dcqcn import DcqcnParams
from twin.senders.rtt import INPUTS, PERIODS, RttSender
from twin.traffic.base import Traffic
from twin.watermark import Watermark

_FIRST_POOL = 4096  # packets; it grows
_SAMPLES = 8192  # INT stacks kept until they are taken
_MOST_HOPS = 16
_MOST_PROBED = 65_536  # flows offered last, whose paths probes take


class Fabric:
    """One fabric, its flows and packets, at ``now_s``.

    Every switch port starts with ``watermark``. ``sampling_rate`` is the share of packets INT reports;
    ``monitored`` the ports whose depth is sampled (None: every switch port). ``background`` shares its ports
    with the flows offered. The same seed, flows and changes at the same times give the same packets, however
    ``advance`` is sliced.
    """

    def __init__(
        self,
        plan: FabricPlan,
        *,
        watermark: Watermark,
        seed: int,
        settings: PacketSettings | None = None,
        sampling_rate: float = 0.0,
        monitored: Sequence[int] | None = None,
        background: Background | None = None,
    ) -> None:
        if not 0.0 <= sampling_rate <= 1.0:
            rule = "a share lies in [0, 1]"
            raise ParameterError("fabric sampling_rate", str(sampling_rate), rule, "give such as 0.015625")
        check_seed("seed", seed)
        self.plan = plan
        self._seed = seed
        self._routes = Routes(plan)
        self._flows = FlowTable(plan)
        self._paths: dict[int, tuple[int, ...]] = {}
        self._probed_ways = np.zeros(0, dtype=np.int32)
        self._params = plan.params(
            settings or PacketSettings(),
            seed=seed,
            sampling_rate=sampling_rate,
            bin_s=math.inf if background is None else background.bin_s,
        )
        chosen = plan.switch_ports if monitored is None else tuple(monitored)
        for port in chosen:
            self._check_port(port)
        self._state = self._empty(chosen)
        if background is not None:
            self._share_ports(background)
        self._dcqcn = [plan.dcqcn_of(host) for host in plan.hosts]
        self._watermarks = dict.fromkeys(plan.switch_ports, watermark)
        self.set_watermark(plan.switch_ports, watermark)

    @property
    def now_s(self) -> float:
        return float(self._state.clock["now"][0])

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.plan.hosts

    def watermark(self, port: int) -> Watermark:
        """The watermark of a switch port; raises ``ScenarioError`` for another kind of port."""
        try:
            return self._watermarks[port]
        except KeyError:
            rule = "only switch ports have a watermark"
            raise ScenarioError("fabric port", str(port), rule, "name one of those") from None

    def set_watermark(self, ports: Iterable[int], watermark: Watermark) -> None:
        table, chosen = self._state.ports, tuple(ports)
        for port in chosen:
            self.watermark(port)
        for port in chosen:
            self._watermarks[port] = watermark
            table[port]["kmin"] = watermark.kmin_bytes
            table[port]["kmax"] = watermark.kmax_bytes
            table[port]["pmax"] = watermark.pmax

    def dcqcn(self, host: int) -> DcqcnParams:
        """What the flows that a host sends run; raises ``ScenarioError``."""
        self._check_host(host)
        return self._dcqcn[host]

    def set_dcqcn(self, hosts: Iterable[int], params: DcqcnParams) -> None:
        """From now on the flows that these hosts send run ``params``, those under way too.

        A flow under way keeps its rate, target, α and stages. Its clocks tick when they were due and take the
        new periods from there; what has ticked until now did so by the old gain and periods. Bytes beyond a
        smaller byte counter count once. A rate below a higher ``min_rate_bytes_per_s`` rises to it with the
        next cut. ``initial_alpha`` is for flows that have had no CNP. ``feedback_delay_s`` is the fabric's
        own, whatever is given. Hosts that run ``params`` already are left alone. Raises ``ScenarioError``.
        """
        asked = tuple(hosts)
        for host in asked:
            self._check_host(host)
        nics = np.zeros(len(self.plan.ports), dtype=np.bool_)
        for host in asked:
            if self._dcqcn[host] != params:
                self._dcqcn[host] = params
                nics[list(self.plan.nics[host])] = True
        if not nics.any():
            return
        _sender.settle_clocks(self._state, nics)
        for name, value in sender_columns(params).items():
            self._state.ports[name][nics] = value
        flows = self._flows.rows
        counters = np.where(nics, self._state.ports["byte_counter"], np.inf)
        flows["counted"] = np.minimum(flows["counted"], counters[flows["nic"]])

    def ecmp_seed(self, switch: str) -> int | None:
        """What ``plan.ecmp_seeds`` or ``set_ecmp_seed`` gave a switch, None for nothing."""
        return self._routes.seed(switch)

    def set_ecmp_seed(self, switch: str, seed: int | None) -> None:
        """Changes a switch's ECMP seed; None takes it away (see ``FabricPlan``).

        Flows that have begun keep their paths; others that cross the switch choose again. Raises
        ``ScenarioError`` for another kind of node and ``ParameterError`` for no such seed.
        """
        self.plan.check_ecmp_seed(switch, 0 if seed is None else seed)
        if seed != self._routes.seed(switch):
            self._routes.set_seed(switch, seed)
            self._move_flows(across=switch)

    def offer(self, traffic: Traffic) -> NDArray[np.int64]:
        """Adds flows, each on an equal-cost path by its hash, and returns their numbers.

        A flow whose start has passed begins now. Raises ``ScenarioError`` where no path exists.
        """
        hosts, first = self.hosts, self._flows.numbered
        paths = []
        for number, (src, dst) in enumerate(
            zip(traffic.src.tolist(), traffic.dst.tolist(), strict=True), start=first
        ):
            if max(src, dst) >= len(hosts):
                rule = f"the fabric has {len(hosts)} hosts, numbered from 0"
                remedy = "make the traffic for this fabric"
                raise ScenarioError(f"traffic flow {number - first}", f"host {max(src, dst)}", rule, remedy)
            path = self._routes.path(hosts[src], hosts[dst], flow_key(self._seed, src, dst, number))
            if path is None:
                received = f"no path from {hosts[src]!r} to {hosts[dst]!r}"
                rule = "hosts that talk are joined by switches"
                remedy = "restore a cable, or add one"
                raise ScenarioError(f"traffic flow {number - first}", received, rule, remedy)
            paths.append(path)
        return self._enter(
            paths,
            src=traffic.src,
            dst=traffic.dst,
            payload_bytes=traffic.payload_bytes,
            start_s=traffic.start_s,
            gap_s=traffic.gap_s,
            rate_bytes_per_s=np.full(len(traffic), np.inf),
            after_offset=traffic.after_offset,
            after=traffic.after,
        )

    def offer_routed(self, flows: Flows) -> NDArray[np.int64]:
        """Adds a scenario's flows on their paths, and returns their numbers."""
        number = {name: index for index, name in enumerate(self.hosts)}
        paths, of_flow = flows.routes
        waits = flows.waits
        none = np.zeros(len(flows) + 1, np.int64), np.empty(0, np.int64)
        after_offset, after = none if waits is None else waits.of_each_flow()
        return self._enter(
            [paths[index] for index in of_flow.tolist()],
            src=np.array([number[name] for name in flows.src], dtype=np.int32),
            dst=np.array([number[name] for name in flows.dst], dtype=np.int32),
            payload_bytes=flows.payload_bytes,
            start_s=np.where(np.diff(after_offset) > 0, 0.0, flows.start_s),
            gap_s=np.zeros(len(flows)) if waits is None else waits.gap_s,
            rate_bytes_per_s=flows.start_rate_bytes_per_s,
            after_offset=after_offset,
            after=after,
        )

    def advance(self, until_s: float) -> Results:
        """Runs up to ``until_s``; returns flows and samples that ended. Raises ``ParameterError``."""
        if not (math.isfinite(until_s) and until_s >= self.now_s):
            rule = f"time goes on from {self.now_s:g} s"
            raise ParameterError("fabric until_s", str(until_s), rule, "give a later time")
        taken: list[Samples] = []
        while True:
            if _kernels.advance(self._state, self._params, until_s) == layout.FINISHED:
                break
            # One event may leave several arrays short.
            clock = self._state.clock[0]
            if clock["free_packets"] < SPARE:
                self._more_packets()
            if clock["timers"] + clock["spare_timers"] > len(self._state.timer_at):
                self._more_timers()
            if self._params.sampling_rate > 0 and clock["free_sample"] < 0:
                if clock["sampled"] > 0:
                    taken.append(self._take_samples())
                else:
                    self._more_samples()
        taken.append(self._take_samples())
        return Results(self._take_completions(), Samples.joined(taken))

    def fail_link(self, port: int) -> None:
        """Cuts a cable, both directions: packets on it or waiting for it are lost, flows are rerouted."""
        self._check_port(port)
        both = {port, self.plan.reverse[port]}
        for direction in sorted(both):
            _switch.fail(self._state, self._params, direction)
        self._routes.fail(both)
        self._move_flows()

    def restore_link(self, port: int) -> None:
        """Restores a cable: flows without a path use it, others stay on theirs."""
        self._check_port(port)
        both = {port, self.plan.reverse[port]}
        self._routes.restore(both)
        for direction in sorted(both):
            _switch.restore(self._state, self._params, direction)
        self._move_flows()

    def depths_bytes(self, ports: Sequence[int]) -> NDArray[np.float64]:
        return np.asarray(self._state.ports["depth"][list(ports)], dtype=np.float64)

    def read_ports(self, ports: Sequence[int]) -> PortReadings:
        """Totals, depths and peaks of these ports. Raises ``ScenarioError``.

        Each peak is that since the last reading of its port, so it suits one reader at a time.
        """
        for port in ports:
            self._check_port(port)
        return PortReadings.taken(self._state, ports)

    def set_policies(self, policies: Sequence[RttSender]) -> None:
        """Replaces what ``plan.policies`` run, in their order, by such with the same inputs, from the next
        decision on. Raises ``ParameterError``.
        """
        if len(policies) != len(self.plan.policies):
            rule = f"the fabric has {len(self.plan.policies)} policies"
            raise ParameterError("fabric policies", str(len(policies)), rule, "give one for each")
        tables = policy_tables(policies, self.plan.packet_wire_bytes)
        if np.any(tables["policies"]["inputs"] != self._state.policies["inputs"]):
            received = ", ".join(policy.name for policy in policies)
            rule = "each sees the inputs of the one that it replaces"
            raise ParameterError("fabric policies", received, rule, "make a fabric with them")
        self._state = self._state._replace(**tables)

    def keep_decisions(self, most: int) -> None:
        """Keeps the next decisions of policies, so many at most, for ``decisions``."""
        self._state.clock["decided"] = 0
        columns = len(DECISION) - len(INPUTS) + int(self._state.policies["inputs"].max(initial=0))
        self._state = self._state._replace(decisions=np.zeros((most, columns)))

    @property
    def decisions(self) -> NDArray[np.float64]:
        """Those kept so far, ``[decision, column]``: ``DECISION``, with the inputs of the widest sender."""
        return self._state.decisions[: int(self._state.clock["decided"][0])]

    def under_way(self, *, endless: bool = False) -> Completions:
        """The running flows that will end, as if they ended now; ``endless`` ones as well if asked for."""
        rows = self._flows.live
        flows = self._flows.rows[rows]
        begun = (flows["state"] != layout.WAITING) & (flows["start"] < self.now_s)
        rows = rows[begun & (endless | np.isfinite(flows["payload"]))]
        return self._flows.completions(rows, np.full(len(rows), self.now_s))

    def acknowledged_bytes(self) -> NDArray[np.float64]:
        """Payload acknowledged of each flow by its number; 0 for those that are over."""
        found, rows = np.zeros(self._flows.numbered), self._flows.live
        live = self._flows.rows[rows]
        found[live["number"]] = live["acked"] * float(self.plan.mtu_payload_bytes)
        return found

    def forget_depths(self) -> None:
        """Resets the depth figures (histogram, sums, peaks) as a metrics window opens."""
        self._state.histogram[:] = 0
        self._state.ports["depth_sum"] = 0.0
        self._state.ports["peak"] = 0.0

    def measured(self) -> Measured:
        return Measured.of(self._state)

    def _check_host(self, host: int) -> None:
        if not 0 <= host < len(self.hosts):
            rule = f"the fabric has {len(self.hosts)} hosts, numbered from 0"
            raise ScenarioError("fabric host", str(host), rule, "give the number of one of them")

    def _check_port(self, port: int) -> None:
        if not 0 <= port < len(self.plan.ports):
            rule = f"the fabric has {len(self.plan.ports)} ports, numbered from 0"
            raise ScenarioError("fabric port", str(port), rule, "name one of plan.ports")

    def _empty(self, monitored: Sequence[int]) -> State:
        plan = self.plan
        n_ports, (n_buckets, _, _) = len(plan.ports), plan.calendar()
        packets = np.zeros(n_ports + _FIRST_POOL, dtype=layout.PACKET)
        packets["kind"][:n_ports] = layout.FREE
        packets["next"][n_ports:] = _chained(n_ports, len(packets), -1)
        samples = np.zeros(_SAMPLES if self._params.sampling_rate > 0 else 1, dtype=layout.SAMPLE)
        samples["next"] = _chained(0, len(samples), -1)
        clock = np.zeros(1, dtype=layout.CLOCK)
        clock["free_packet"], clock["free_packets"] = n_ports, _FIRST_POOL
        clock["free_sample"] = 0
        clock["spare_timers"] = SPARE
        return State(
            clock=clock,
            packets=packets,
            ports=plan.port_table(),
            flows=self._flows.rows,
            switches=plan.switch_table(),
            samples=samples,
            hops=np.zeros((len(samples), _MOST_HOPS), dtype=layout.HOP),
            places=self._routes.places(),
            dependents=self._flows.dependents,
            buckets=np.full(n_buckets, -1, dtype=np.int32),
            timer_at=np.zeros(1024),
            timer_serial=np.zeros(1024, dtype=np.int64),
            timer_what=np.zeros(1024, dtype=np.int64),
            completed=np.zeros(1, dtype=np.int32),
            sampled=np.zeros(len(samples), dtype=np.int32),
            monitored=np.array(monitored, dtype=np.int32),
            histogram=np.zeros(len(BIN_LOWER_BYTES), dtype=np.int64),
            probed=self._routes.probed(self._probed_ways),
            probes=np.zeros((_MOST_HOPS, PROBE_BINS), dtype=np.int64),
            brought=np.zeros((0, 0)),
            n_others=np.zeros((0, 0)),
            **policy_tables(plan.policies, plan.packet_wire_bytes),
            learners=np.zeros(0, dtype=layout.LEARNER),
            seen=np.zeros((0, PERIODS * layout.OF_A_PERIOD)),
            decisions=np.zeros((0, len(DECISION))),
        )

    def _share_ports(self, background: Background) -> None:
        for row, port in enumerate(background.ports.tolist()):
            self._check_port(port)
            self._state.ports[port]["background"] = row
        # A flow may have begun and ended inside a bin.
        n_others = np.maximum(background.n_flows, 1.0).astype(np.float64, order="C")
        self._state = self._state._replace(brought=background.bytes_until(), n_others=n_others)

    def _enter(self, paths: Sequence[tuple[int, ...]], **columns: NDArray[np.generic]) -> NDArray[np.int64]:
        for path in paths:
            if len(path) > _MOST_HOPS:
                rule = f"at most {_MOST_HOPS} are crossed"
                raise ScenarioError("fabric, a path", f"{len(path)} ports", rule, "shorten it")
        columns["start_s"] = np.maximum(columns["start_s"], self.now_s)
        ways = [self._routes.way(path) for path in paths]
        kept = max(_MOST_PROBED, len(ways))
        offered = np.array([way.number for way in ways], dtype=np.int32)
        self._probed_ways = np.concatenate([self._probed_ways, offered])[-kept:]
        rows = self._flows.add(NewFlows(ways=ways, **columns), self._state.ports)  # type: ignore[arg-type]
        for row, path in zip(rows.tolist(), paths, strict=True):
            self._paths[row] = path
        if self.plan.policies:
            self._learn(rows, paths)
        completed = self._state.completed
        if len(completed) < len(self._flows.rows):
            completed = np.zeros(len(self._flows.rows), dtype=np.int32)
        self._state = self._state._replace(
            flows=self._flows.rows,
            dependents=self._flows.dependents,
            places=self._routes.places(),
            completed=completed,
            probed=self._routes.probed(self._probed_ways),
        )
        clock, table = self._state.clock[0], self._flows.rows[self._flows.live]
        dependents = table["dependent_end"] - table["dependent_first"]
        clock["spare_timers"] = SPARE + int(dependents.max(initial=0))
        if clock["timers"] + len(rows) + clock["spare_timers"] > len(self._state.timer_at):
            self._more_timers(len(rows))
        _kernels.set_starts(self._state, rows)
        return np.asarray(self._flows.rows["number"][rows], dtype=np.int64)

    def _learn(self, rows: NDArray[np.int64], paths: Sequence[tuple[int, ...]]) -> None:
        """Begins what policies know of these flows."""
        learners = np.zeros(len(self._flows.rows), dtype=layout.LEARNER)
        learners[: len(self._state.learners)] = self._state.learners
        packet = self.plan.packet_wire_bytes
        fresh = np.zeros(len(rows), dtype=layout.LEARNER)
        fresh["rtt0"] = [self._routes.way(path).alone_s(packet) for path in paths]
        fresh["hops"] = [len(path) for path in paths]
        fresh["multiplier"] = fresh["multiplier_before"] = 1.0
        fresh["window"] = np.maximum(self._flows.rows["rate"][rows] * fresh["rtt0"] / packet, 1.0)
        fresh["cut_at"] = -np.inf
        learners[rows] = fresh
        seen = np.zeros((len(learners), PERIODS * layout.OF_A_PERIOD))
        seen[: len(self._state.seen)] = self._state.seen
        seen[rows] = 0.0
        self._state = self._state._replace(learners=learners, seen=seen)

    def _move_flows(self, *, across: str | None = None) -> None:
        """Reroutes flows whose path is broken, or that have not begun and lead ``across``, where possible."""
        table = self._flows.rows
        for row in self._flows.live.tolist():
            path, flow = self._paths[row], table[row]
            chooses = flow["state"] == layout.WAITING and any(
                self.plan.ports[port].node == across for port in path
            )
            if self._routes.is_open(path) and not chooses:
                continue
            src, dst, number = int(flow["src"]), int(flow["dst"]), int(flow["number"])
            other = self._routes.path(
                self.hosts[src], self.hosts[dst], flow_key(self._seed, src, dst, number)
            )
            # A flow keeps its NIC, which has its clocks and its place in the round.
            if other is None or other[0] != flow["nic"]:
                continue
            way = self._routes.way(other)
            table["forward"][row], table["back"][row] = way.forward, way.back
            self._paths[row] = other
            if self.plan.policies:
                self._state.learners["rtt0"][row] = way.alone_s(self.plan.packet_wire_bytes)
                self._state.learners["hops"][row] = len(other)
        self._state = self._state._replace(places=self._routes.places())

    def _more_packets(self) -> None:
        packets, clock = self._state.packets, self._state.clock
        grown = np.zeros(2 * len(packets), dtype=layout.PACKET)
        grown[: len(packets)] = packets
        grown["next"][len(packets) :] = _chained(len(packets), len(grown), int(clock["free_packet"][0]))
        clock["free_packet"] = len(packets)
        clock["free_packets"] += len(packets)
        self._state = self._state._replace(packets=grown)

    def _more_timers(self, needed: int = 0) -> None:
        more = needed + len(self._state.timer_at) + int(self._state.clock["spare_timers"][0])
        at, serial, what = (
            np.concatenate([column, np.zeros(more, dtype=column.dtype)])
            for column in (self._state.timer_at, self._state.timer_serial, self._state.timer_what)
        )
        self._state = self._state._replace(timer_at=at, timer_serial=serial, timer_what=what)

    def _more_samples(self) -> None:
        samples = self._state.samples
        grown = np.zeros(2 * len(samples), dtype=layout.SAMPLE)
        grown[: len(samples)] = samples
        grown["next"][len(samples) :] = _chained(len(samples), len(grown), -1)
        hops = np.zeros((len(grown), _MOST_HOPS), dtype=layout.HOP)
        hops[: len(samples)] = self._state.hops
        self._state.clock["free_sample"] = len(samples)
        self._state = self._state._replace(
            samples=grown, hops=hops, sampled=np.zeros(len(grown), dtype=np.int32)
        )

    def _take_samples(self) -> Samples:
        clock, table = self._state.clock, self._state.samples
        rows = self._state.sampled[: clock["sampled"][0]].astype(np.int64)
        samples = table[rows]
        offset = np.concatenate([[0], np.cumsum(samples["hops"], dtype=np.int64)])
        hops = self._state.hops[rows][np.arange(_MOST_HOPS) < samples["hops"][:, None]]
        if rows.size:
            table["next"][rows[:-1]] = rows[1:]
            table["next"][rows[-1]] = clock["free_sample"][0]
            clock["free_sample"] = rows[0]
            clock["sampled"] = 0
        return Samples(
            flow=samples["flow"],
            src=samples["src"],
            dst=samples["dst"],
            delivered_s=samples["delivered"],
            wire_bytes=samples["wire"],
            hop_offset=offset,
            port=hops["port"],
            ingress_port=hops["ingress_port"],
            queue_bytes=hops["queue"],
            ingress_s=hops["ingress"],
            egress_s=hops["egress"],
            marked=hops["marked"].astype(np.bool_),
        )

    def _take_completions(self) -> Completions:
        clock = self._state.clock
        rows = self._state.completed[: clock["completed"][0]].astype(np.int64)
        clock["completed"] = 0
        return self._flows.completions(rows, self._flows.rows["end"][rows])


def _chained(first: int, end: int, then: int) -> NDArray[np.int64]:
    """Links of a free list over rows [first, end), ending in ``then``."""
    links = np.arange(first + 1, end + 1)
    links[-1:] = then
    return links
