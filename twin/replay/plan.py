"""Compiles a ``Scenario`` into the tables and working arrays of the replay kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from twin.errors import ScenarioError
from twin.prediction import BLOCKS
from twin.probe._draws import PROBE_BINS
from twin.probe.figures import block_ends, drawn_paths, probe_paths
from twin.replay import layout
from twin.replay.layout import Table, Tables, Work
from twin.scenario import Scenario, pfc_shares, reverse_ports
from twin.senders.dcqcn import DcqcnParams

# The reference switches' PFC: 4 KB reserved and three bandwidth-delay products of headroom an ingress port,
# resume 3 KB below the threshold (HPCC's public simulator, whose switch model the reference problems ran on).
RESERVE_BYTES = 4096.0
RESUME_BYTES = 3072.0
HEADROOM_BDP = 3.0

# A first mark starts the clocks only, from when it came: looking for it LOOKS times a CNP interval is enough.
LOOKS = 3
MOST_LOOK_STEPS = 8


def queue_ports(scenario: Scenario) -> list[int]:
    """Scenario port of each queue, in the order of ``Tables.queues``."""
    flows = scenario.flows
    is_first = np.zeros(flows.path_ports.size, dtype=np.bool_)
    is_first[flows.path_offset[:-1]] = True
    crossed = set(flows.path_ports[~is_first].tolist())
    return sorted(
        crossed | set(scenario.monitored) | {port for port in others(scenario) if not scenario.is_nic[port]}
    )


def others(scenario: Scenario) -> list[int]:
    """Scenario ports in which flows outside the slice count."""
    return [] if scenario.background is None else scenario.background.ports.tolist()


def compile_params(runs: Sequence[DcqcnParams], step_s: float) -> Table:
    """A row for each at ``step_s`` seconds a step; cut and increase clocks tick at most once a step."""
    table = layout.records(len(runs), layout.PARAMS)
    for row, params in zip(table, runs, strict=True):
        cnp_steps = max(1.0, params.cnp_interval_s / step_s)
        row["ai_rate"] = params.ai_rate_bytes_per_s * step_s
        row["hai_rate"] = params.hai_rate_bytes_per_s * step_s
        row["gain"] = params.gain
        row["cnp_steps"] = cnp_steps
        row["look_steps"] = min(max(1, int(cnp_steps / LOOKS)), MOST_LOOK_STEPS)
        row["alpha_steps"] = params.alpha_timer_s / step_s
        row["increase_steps"] = max(1.0, params.increase_timer_s / step_s)
        row["byte_counter"] = math.inf if params.byte_counter_bytes is None else params.byte_counter_bytes
        row["fast_recovery_steps"] = params.fast_recovery_steps
        row["min_rate"] = params.min_rate_bytes_per_s * step_s
        row["clamp_target"] = params.clamp_target_rate
        row["initial_alpha"] = params.initial_alpha
    return table


def compile_tables(scenario: Scenario, step_s: float, group_of: Mapping[int, int] | None = None) -> Tables:
    """The tables of ``scenario`` at ``step_s`` seconds a step; raises ``ScenarioError``.

    ``group_of`` gives last ports of paths the number under which their flows are recorded, others the last.
    """
    paths = _Paths(scenario, step_s, group_of or {})
    probed = probe_paths(
        *scenario.flows.routes, scenario.packet_alone_s, scenario.port_rate_bytes_per_s, paths.queue_of
    )
    n_steps = max(1, round(scenario.duration_s / step_s))
    window_first, window_last = (round(at_s / step_s) for at_s in scenario.window_s)
    window_first = min(window_first, n_steps - 1)
    window_last = max(window_last, window_first + 1)  # a shorter window is the step that it is in
    queues, ingresses = paths.queues(), paths.ingresses()
    barriers, opens = paths.barriers()
    drawn, every = drawn_paths(probed, window_last - window_first)
    return Tables(
        flows=paths.flows(),
        barriers=barriers,
        opens=opens,
        entries=paths.entries(),
        nics=paths.nics(),
        inlets=paths.inlets(),
        suffixes=paths.suffixes(),
        queues=queues,
        feeders=paths.feeders(),
        ingresses=ingresses,
        switches=paths.switches(queues["switch"], ingresses),
        queues_of=np.argsort(queues["switch"], kind="stable"),
        ingresses_of=np.argsort(ingresses["switch"], kind="stable"),
        n_steps=n_steps,
        packet_bytes=float(scenario.packet_wire_bytes),
        ack_ratio=scenario.ack_wire_bytes / scenario.packet_wire_bytes,
        pfc=scenario.pfc,
        buffer_bytes=float(scenario.buffer_bytes),
        reserve_bytes=RESERVE_BYTES,
        resume_bytes=RESUME_BYTES,
        window_first=window_first,
        window_last=window_last,
        block_ends=block_ends(window_first, window_last),
        probed=probed,
        drawn=drawn,
        probe_every=every,
        background=paths.background(),
        background_flows=paths.background_flows(),
    )


def allocate(tables: Tables, room: int = 1, n_groups: int = 0) -> Work:
    """Working arrays for a scenario's tables; pools are ``room`` times their first size.

    ``n_groups`` groups of flows are recorded.
    """
    n_queues, n_flows = tables.queues.size, tables.flows.size
    n_hops = int(np.diff(tables.probed.offset).max())
    horizon = 1 + int(max(tables.inlets["delay"].max(), tables.queues["delay"].max()))
    n_rows = (tables.n_steps + horizon) // layout.PAGE + 1
    n_pages = room * min(n_rows, 16) * n_queues
    n_parcels = room * 16 * tables.suffixes.size
    n_bins = (tables.n_steps + horizon) // layout.BIN_STEPS + 1
    n_logs = min(tables.n_steps // layout.LOG_STEPS + 2, layout.LOG_ROWS)
    return Work(
        slots=layout.records(n_flows, layout.SLOT),
        # A spare column: rows a power of two apart would share a few cache lines.
        segments=np.zeros((n_flows, layout.SEGMENTS + 1), dtype=layout.SEGMENT),
        reads=np.zeros((n_flows, n_hops), dtype=layout.READ),
        wheel=np.full(layout.WHEEL, -1, dtype=np.int64),
        pages=np.full((n_rows, n_queues), -1, dtype=np.int32),
        marks=np.zeros((n_rows, n_queues)),
        losses=np.zeros((1, 1) if tables.pfc else (n_rows, n_queues)),
        cells=layout.records(n_pages * layout.PAGE, layout.CELL),
        lost=layout.records(0 if tables.pfc else n_pages * layout.PAGE, layout.LOSS),
        parcels=layout.records(n_parcels, layout.PARCEL),
        free_pages=np.zeros(n_pages, dtype=np.int64),
        pool=np.zeros(1, dtype=layout.POOL),
        curves=np.zeros((n_queues, 3)),
        busy=np.zeros(2 * n_queues, dtype=np.int64),
        sending=np.zeros(tables.inlets.size, dtype=np.int64),
        changes=np.zeros(tables.ingresses.size, dtype=np.int64),
        logs=np.zeros((n_logs, tables.feeders.size if tables.pfc else 1)),
        free=np.zeros(n_flows, dtype=np.int64),
        dirty=np.zeros(tables.nics.size, dtype=np.int64),
        due=np.zeros(1 + np.count_nonzero(tables.flows["barrier"] >= 0), dtype=np.int64),
        by_block=np.zeros((BLOCKS, layout.N_TOTALS)),
        probes=np.zeros((BLOCKS, n_hops, PROBE_BINS), dtype=np.int64),
        recorded_flows=np.zeros((n_groups, tables.nics.size, n_bins), dtype=np.float32),
        recorded=np.zeros((n_groups, n_queues + tables.nics.size, n_bins), dtype=np.float32),
    )


class _Paths:
    """Numbers the parts of every path, then fills the tables, column by column: records take long."""

    def __init__(self, scenario: Scenario, step_s: float, group_of: Mapping[int, int]) -> None:
        self.scenario = scenario
        self.step_s = step_s
        self.group_of = group_of
        paths, self.of_flow = scenario.flows.routes
        for index, path in enumerate(paths):
            if len(path) < 2:
                raise ScenarioError(
                    f"scenario {scenario.name!r} flow {int(np.argmax(self.of_flow == index))}",
                    f"a path of {len(path)} ports",
                    "a flow crosses its NIC and at least one switch port",
                    "correct the topology",
                )
        self.entry_of = {path: index for index, path in enumerate(paths)}
        self.row_of = {port: row for row, port in enumerate(others(scenario))}
        nics = {path[0] for path in self.entry_of} | {port for port in self.row_of if scenario.is_nic[port]}
        self.nic_of = {port: index for index, port in enumerate(sorted(nics))}
        self.queue_ports = queue_ports(scenario)
        self.queue_of = {port: index for index, port in enumerate(self.queue_ports)}
        found = {path[hop:] for path in self.entry_of for hop in range(1, len(path))}
        ordered = sorted(found, key=lambda suffix: (self.queue_of[suffix[0]], suffix))
        self.suffix_of = {suffix: index for index, suffix in enumerate(ordered)}
        upstream = sorted({port for path in self.entry_of for port in path[:-1]})
        self.ingress_of = {port: index for index, port in enumerate(upstream)}
        ports = scenario.ports
        names = sorted(
            {ports[port].node for port in self.queue_ports} | {ports[port].peer for port in upstream}
        )
        self.switch_of = {name: index for index, name in enumerate(names)}
        self.reverse_of = reverse_ports(scenario.ports)
        self.pfc_shares = pfc_shares(scenario.ports).tolist()
        inlets = dict.fromkeys((self.suffix_of[path[1:]], self._nic_steps[path[0]]) for path in self.entry_of)
        self.inlet_of = {inlet: index for index, inlet in enumerate(inlets)}
        # Feeders sorted by queue: (queue, ingress port, entry path or upstream suffix).
        feeders = [(self.queue_of[path[1]], path[0], path, True) for path in self.entry_of]
        feeders += [(self.queue_of[s[1]], s[0], s, False) for s in self.suffix_of if len(s) > 1]
        self.feeder_list = sorted(feeders, key=lambda feeder: feeder[0])

    @cached_property
    def _steps(self) -> list[int]:
        """Per port: how long a queue's cable takes."""
        return np.maximum(1, np.rint(self.scenario.port_delay_s / self.step_s)).astype(int).tolist()

    @cached_property
    def _nic_steps(self) -> list[int]:
        """Per port: how long a NIC's cable takes."""
        return (self.scenario.port_delay_s / self.step_s).astype(int).tolist()

    def flows(self) -> Table:
        scenario = self.scenario
        table = layout.records(len(self.of_flow), layout.FLOW)
        table["start"] = scenario.flows.start_s / self.step_s
        table["bytes"] = scenario.flow_wire_bytes
        table["rate"] = scenario.flows.start_rate_bytes_per_s * self.step_s
        table["entry"] = self.of_flow
        table["barrier"] = table["sibling"] = -1
        waits = scenario.flows.waits
        if waits is not None:
            table["barrier"], table["gap"] = waits.barrier, waits.gap_s / self.step_s
            last_cable_s = np.array([scenario.port_delay_s[path[-1]] for path in self.entry_of])
            table["cable"] = last_cable_s[self.of_flow] / self.step_s
            together = np.argsort(waits.barrier, kind="stable")
            same = (np.diff(waits.barrier[together]) == 0) & (waits.barrier[together[1:]] >= 0)
            table["sibling"][together[:-1][same]] = together[1:][same]
            table["opens_end"] = np.cumsum(np.bincount(waits.row, minlength=len(table)))
            table["opens_first"] = np.concatenate([[0], table["opens_end"][:-1]])
        return table

    def barriers(self) -> tuple[Table, NDArray[np.int64]]:
        """The barriers, and those that wait for each flow, one flow after the other."""
        waits = self.scenario.flows.waits
        if waits is None:
            return layout.records(0, layout.BARRIER), np.empty(0, np.int64)
        table = layout.records(len(waits.offset) - 1, layout.BARRIER)
        table["rows"], table["first"] = np.diff(waits.offset), waits.first_start
        return table, waits.barrier_of_row[np.argsort(waits.row, kind="stable")]

    def entries(self) -> Table:
        table = layout.records(len(self.entry_of), layout.ENTRY)
        paths = list(self.entry_of)  # in the order of their numbers
        delays = [self._nic_steps[path[0]] for path in paths]
        suffixes = [self.suffix_of[path[1:]] for path in paths]
        table["nic"] = [self.nic_of[path[0]] for path in paths]
        table["suffix"] = suffixes
        table["group"] = [self.group_of.get(path[-1], -1) for path in paths]
        table["inlet"] = [self.inlet_of[inlet] for inlet in zip(suffixes, delays, strict=True)]
        table["delay"] = delays
        table["walked"] = [
            delay + sum(self._steps[port] for port in path[1:-1])
            for path, delay in zip(paths, delays, strict=True)
        ]
        # The kernel simulates the cables up to the last queue; the rest of the loop comes after it.
        scenario = self.scenario
        # A byte leaves its sender half a packet's time before the packet has.
        first = np.array([path[0] for path in paths])
        half_s = 0.5 * scenario.packet_wire_bytes / scenario.port_rate_bytes_per_s[first]
        loop_s = scenario.packet_alone_s - half_s
        for index, path in enumerate(paths):
            fixed_s = scenario.dcqcn_of(scenario.ports[path[0]].node).feedback_delay_s
            if fixed_s is not None:
                loop_s[index] = fixed_s
        table["return_delay"] = np.maximum(1.0, loop_s / self.step_s - table["walked"])
        return table

    def nics(self) -> Table:
        table = layout.records(len(self.nic_of), layout.NIC)
        ports = list(self.nic_of)
        table["rate"] = self.scenario.port_rate_bytes_per_s[ports] * self.step_s
        table["reverse_queue"] = [self.queue_of.get(self.reverse_of[port], -1) for port in ports]
        table["background"] = [self.row_of.get(port, -1) for port in ports]
        rows = {params: row for row, params in enumerate(self.scenario.dcqcn_run)}
        table["params"] = [rows[self.scenario.dcqcn_of(self.scenario.ports[port].node)] for port in ports]
        return table

    def inlets(self) -> Table:
        table = layout.records(len(self.inlet_of), layout.INLET)
        table["suffix"], table["delay"] = zip(*self.inlet_of, strict=True)
        return table

    def suffixes(self) -> Table:
        table = layout.records(len(self.suffix_of), layout.SUFFIX)
        table["queue"] = [self.queue_of[suffix[0]] for suffix in self.suffix_of]
        table["onward"] = [self.suffix_of[suffix[1:]] if len(suffix) > 1 else -1 for suffix in self.suffix_of]
        table["group"] = [self.group_of.get(suffix[-1], -1) for suffix in self.suffix_of]
        return table

    def queues(self) -> Table:
        scenario, ports = self.scenario, self.queue_ports
        table = layout.records(len(ports), layout.QUEUE)
        monitored = {port: place for place, port in enumerate(scenario.monitored)}
        last = {path[-1] for path in self.entry_of}
        feeding = [feeder[0] for feeder in self.feeder_list]
        table["rate"] = scenario.port_rate_bytes_per_s[ports] * self.step_s
        table["delay"] = [self._steps[port] for port in ports]
        table["switch"] = [self.switch_of[scenario.ports[port].node] for port in ports]
        table["reverse_queue"] = [self.queue_of.get(self.reverse_of[port], -1) for port in ports]
        table["reverse_nic"] = [self.nic_of.get(self.reverse_of[port], -1) for port in ports]
        table["background"] = [self.row_of.get(port, -1) for port in ports]
        table["monitored"] = [monitored.get(port, -1) + 1 for port in ports]
        table["is_last"] = [port in last for port in ports]
        table["in_turn"] = self._in_turn
        table["feeder_first"] = np.searchsorted(feeding, np.arange(len(ports)), side="left")
        table["feeder_end"] = np.searchsorted(feeding, np.arange(len(ports)), side="right")
        return table

    @property
    def _in_turn(self) -> NDArray[np.bool_]:
        """Per queue: whether a single NIC, no faster than its port, brings all that it gets."""
        scenario, rate = self.scenario, self.scenario.port_rate_bytes_per_s
        from_: list[set[int]] = [set() for _ in self.queue_ports]
        for queue, port, _, _ in self.feeder_list:
            from_[queue].add(port)
        return np.array(
            [
                len(before) == 1
                and port not in self.row_of
                and all(scenario.is_nic[one] and rate[one] <= rate[port] for one in before)
                for port, before in zip(self.queue_ports, from_, strict=True)
            ]
        )

    def background(self) -> NDArray[np.float64]:
        """By row, what flows outside the slice bring, bytes a step, in bins of ``BIN_STEPS`` steps."""
        found = self.scenario.background
        if found is None:
            return np.zeros((0, 0))
        return found.bytes_in(self._bin_edges_s) / layout.BIN_STEPS

    def background_flows(self) -> NDArray[np.float64]:
        """By row, how many flows that is, in the same bins."""
        found = self.scenario.background
        if found is None:
            return np.zeros((0, 0))
        return found.flows_in(self._bin_edges_s)

    @property
    def _bin_edges_s(self) -> NDArray[np.float64]:
        n_steps = max(1, round(self.scenario.duration_s / self.step_s))
        edges = layout.BIN_STEPS * np.arange((n_steps - 1) // layout.BIN_STEPS + 2, dtype=np.float64)
        return edges * self.step_s

    def feeders(self) -> Table:
        table = layout.records(len(self.feeder_list), layout.FEEDER)
        queues, ports, paths, are_entries = zip(*self.feeder_list, strict=True)
        table["queue"] = queues
        table["delay"] = np.array(self._steps)[list(ports)]
        table["ingress"] = [self.ingress_of[port] for port in ports]
        table["entry"] = [
            self.entry_of[path] if is_entry else -1 for path, is_entry in zip(paths, are_entries, strict=True)
        ]
        table["suffix"] = [
            -1 if is_entry else self.suffix_of[path]
            for path, is_entry in zip(paths, are_entries, strict=True)
        ]
        return table

    def ingresses(self) -> Table:
        table = layout.records(len(self.ingress_of), layout.INGRESS)
        ports = list(self.ingress_of)
        table["switch"] = [self.switch_of[self.scenario.ports[port].peer] for port in ports]
        table["delay"] = [self._steps[port] for port in ports]
        table["nic"] = [self.nic_of.get(port, -1) for port in ports]
        table["queue"] = [self.queue_of.get(port, -1) for port in ports]
        table["share"] = [self.pfc_shares[port] for port in ports]
        return table

    def switches(self, of_queue: NDArray[np.int64], ingresses: Table) -> Table:
        scenario = self.scenario
        number = np.array([self.switch_of.get(port.node, -1) for port in scenario.ports])
        own = number >= 0
        bdp = HEADROOM_BDP * scenario.port_rate_bytes_per_s * scenario.port_delay_s
        set_aside = np.bincount(number[own], weights=bdp[own] + RESERVE_BYTES, minlength=len(self.switch_of))
        table = layout.records(len(self.switch_of), layout.SWITCH)
        # A buffer smaller than its own set-asides still shares something.
        table["shared"] = np.maximum(scenario.buffer_bytes - set_aside, 0.1 * scenario.buffer_bytes)
        # An ingress holds at most what its switch holds.
        share = np.ones(len(table))
        np.minimum.at(share, ingresses["switch"], ingresses["share"])
        table["calm"] = table["shared"] * share / (1.0 + share)
        each = np.arange(len(table))
        for first, end, of in (
            ("queue_first", "queue_end", np.sort(of_queue)),
            ("ingress_first", "ingress_end", np.sort(ingresses["switch"])),
        ):
            table[first] = np.searchsorted(of, each, side="left")
            table[end] = np.searchsorted(of, each, side="right")
        return table
