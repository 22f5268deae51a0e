"""Senders beside senders: DCQCN, DCQCN under the twin's watermark, and policies on round-trip times.

``python -m bench.rivals.senders`` prints a table for each question, all by the packet engine:

    traffic   what each sender makes of four kinds of traffic, as gain over DCQCN under a static watermark
    settled   where N equal flows settle
    mixed     what DCQCN gets beside policies, over Kmin (``--plot FILE`` draws it)
    floors    the Kmin floor that the twin finds for mixed fleets, beside sweeps
    ladder    what a decision costs, and what its delay does to the fabric

Nothing here chose a policy: the network is trained on other numbers of flows, on one switch, and on flows
that never end.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.accuracy import markdown
from bench.co_tuning import JUDGED_ON, PROBLEMS, TUNED_ON, best_alone, gain_of
from bench.replay import INCUMBENT
from telemetry.topology import GBPS, Host, Link, Topology
from twin.engine import engine
from twin.jit import kernel
from twin.packet._policy import decided
from twin.packet.fabric import Fabric
from twin.packet.kmin_floor import KminFloor, dcqcn_share, endless, kmin_floor, shaped
from twin.packet.layout import Floats, Params, State
from twin.packet.plan import FabricPlan
from twin.packet.policies import DECISION
from twin.prediction import Prediction
from twin.scenario import Scenario
from twin.senders.artefact import known_senders
from twin.senders.dcqcn import PAPER, PRESETS, DcqcnParams
from twin.senders.rtt import DECC_INPUTS, DeccPolicy, Network, RttPolicy, RttSender
from twin.traffic.base import Traffic
from twin.units import gain_text
from twin.watermark import Watermark
from twin.workers.pool import Workers, make_workers

SENDERS = ("rl-cc", "rl-cc-trees", "decc", "decc-trees", "window-line", "rtt-rule", "swift")
FLOWS = (2, 16, 64)
SETTLED_S, MEASURED_S = 0.1, 0.04
KMIN_KB = (5, 10, 20, 30, 40, 60, 80, 100, 120, 150, 200, 300, 400, 800)
DELAYS_S = (0.0, 1.53e-6, 17e-6, 458e-6)  # DECC's trees, compressed network and network, table 3
DECISIONS = 1_000_000
TIMED = 200_000  # decisions


def window_line() -> DeccPolicy:
    """One line on DECC's windows: 2a = tanh(1.3 − RTT ÷ RTT0 − 0.2 · rate ÷ line rate), RTT up to 2 RTT0.

    The best of four that were guessed, by where 2, 16 and 64 equal flows settle.
    """
    weights = {"constant": 1.3, "latency": -1.0, "rate": -0.2}
    row = tuple(weights.get(name, 0.0) for name in DECC_INPUTS)
    return DeccPolicy(name="window-line", form=Network(((row,),)))


KNOWN = {**known_senders(), "window-line": window_line()}


def on_all(scenario: Scenario, name: str, *, every: int = 1) -> Scenario:
    """With that sender on every host, or on each second, third, ... one."""
    hosts = [port.node for port in scenario.ports if port.port is None]
    return replace(scenario, senders=dict.fromkeys(hosts[::every], KNOWN[name]))


def traffic(workers: Workers, duration_s: float | None, *, advice: bool = True) -> Table:
    """Gain over DCQCN under the incumbent, and what it is made of, over draws that chose nothing."""
    table = markdown("traffic", "sender", "gain", "mice p99", "elephants", "goodput", "paused", "p99 queue")
    for problem in PROBLEMS:
        if "nic" not in problem.what:
            continue
        if duration_s is not None:
            problem = replace(problem, duration_s=duration_s)
        fresh = [problem.scenario(seed, "paper") for seed in JUDGED_ON]
        rows: dict[str, tuple[list[Scenario], Watermark]] = {f"DCQCN, {INCUMBENT}": (fresh, INCUMBENT)}
        if advice:
            advised = best_alone(problem.scenario(TUNED_ON, "paper"), workers)
            rows[f"DCQCN, the twin's {advised}"] = fresh, advised
        rows |= {name: ([on_all(one, name) for one in fresh], INCUMBENT) for name in SENDERS}
        rows["half DCQCN, half rl-cc-trees"] = (
            [on_all(one, "rl-cc-trees", every=2) for one in fresh],
            INCUMBENT,
        )
        before: list[Prediction] = []
        for name, (scenarios, mark) in rows.items():
            after = [engine("packet").predict(one, [mark], seed=1)[0] for one in scenarios]
            before = before or after
            table.add_row(problem.name, name, *_figures(fresh, before, after))
            sys.stderr.write(f"{problem.name}: {name}\n")
    return table


def _figures(
    scenarios: Sequence[Scenario], before: Sequence[Prediction], after: Sequence[Prediction]
) -> Iterator[str]:
    gain = gain_of(scenarios, before, after)
    yield gain_text(gain.value, gain.noise) if after is not before else "0"
    for size_class, figure in (("mice", "p99"), ("elephant", "mean")):
        known = [getattr(one.slowdown[size_class], figure) for one in after if size_class in one.slowdown]
        yield f"{np.mean(known):.1f}" if known else ""
    yield f"{np.mean([one.goodput_bytes_per_s for one in after]) * 8e-9:.1f}"
    paused_s = np.array([one.pfc_pause_s for one in after])
    yield f"{np.mean(paused_s) * 1e3:.2f} ms"
    yield f"{np.mean([one.queue_p99_bytes for one in after]) / 1e3:.0f} KB"


@dataclass(frozen=True, slots=True)
class Settled:
    """Flows that never end from a host each to one host; ``shares`` of what they got together, by flow."""

    utilisation: float
    shares: Floats
    inflation: Floats
    queue_mean_bytes: float
    queue_p99_bytes: float

    @property
    def jain(self) -> float:
        return float(self.shares.sum() ** 2 / (len(self.shares) * (self.shares**2).sum()))


def star(
    flows: int, senders: Mapping[str, RttSender], *, gbps: float = 100.0, dcqcn: DcqcnParams = PAPER
) -> FabricPlan:
    """h0 and so many other hosts on one switch; ``senders`` of hosts by name."""
    names = [f"h{number}" for number in range(flows + 1)]
    links = [Link(name, "s", gbps, 2.0, b_port=f"to-{name}") for name in names]
    topology = Topology(tuple(map(Host, names)), ("s",), tuple(links))
    return FabricPlan(ports=topology.ports, dcqcn=dcqcn, senders=senders)


def settled(flows: int, senders: Mapping[int, RttSender], mark: Watermark) -> Settled:
    """``senders`` of flows by number; the others run DCQCN. 100 Gbit/s, a packet alone takes 8.2 µs."""
    plan = star(flows, {f"h{number + 1}": sender for number, sender in senders.items()})
    [hot] = [index for index, port in enumerate(plan.ports) if port.port == "to-h0"]
    fabric = Fabric(plan, watermark=mark, seed=1, monitored=[hot])
    fabric.offer(endless(plan, "h0", plan.hosts[1:], seed=1))
    fabric.advance(SETTLED_S)
    fabric.forget_depths()
    fabric.keep_decisions(DECISIONS)
    opened, before = fabric.measured(), fabric.acknowledged_bytes()
    fabric.advance(SETTLED_S + MEASURED_S)
    got, window = fabric.acknowledged_bytes() - before, fabric.measured().since(opened)
    carried = plan.ports[hot].rate_bytes_per_s * plan.mtu_payload_bytes / plan.packet_wire_bytes
    return Settled(
        utilisation=float(got.sum() / MEASURED_S / carried),
        shares=got / got.sum(),
        inflation=fabric.decisions[:, DECISION.index("inflation")],
        queue_mean_bytes=float(window.depth_sum_bytes[hot] / max(window.depth_samples, 1)),
        queue_p99_bytes=window.queue_quantile_bytes(0.99),
    )


def equal_flows() -> Table:
    """Where N equal flows settle; the law is β + target · √N."""
    table = markdown(
        "sender", "N", "RTT ÷ RTT0", "law", "p99", "utilisation", "Jain", "mean queue", "p99 queue"
    )
    for name in ("dcqcn", *SENDERS):
        for flows in FLOWS:
            sender = KNOWN.get(name)
            found = settled(flows, {} if sender is None else dict.fromkeys(range(flows), sender), INCUMBENT)
            probed = len(found.inflation) > 0
            table.add_row(
                name,
                str(flows),
                f"{found.inflation.mean():.2f}" if probed else "",
                f"{sender.inflation(flows):.2f}" if isinstance(sender, RttPolicy) else "",
                f"{np.quantile(found.inflation, 0.99):.2f}" if probed else "",
                f"{found.utilisation:.1%}",
                f"{found.jain:.4f}",
                f"{found.queue_mean_bytes / 1e3:.0f} KB",
                f"{found.queue_p99_bytes / 1e3:.0f} KB",
            )
    return table


@dataclass(frozen=True, slots=True)
class Mix:
    """Flows to one receiver, each from a host of its own; the others run DCQCN."""

    sender: str
    n_senders: int
    n_dcqcn: int
    gbps: float = 100.0
    clocks: str = "paper"

    @property
    def plan(self) -> FabricPlan:
        """h0 is the receiver, and the hosts after it run ``sender``."""
        senders = {f"h{number + 1}": KNOWN[self.sender] for number in range(self.n_senders)}
        return star(self.n_senders + self.n_dcqcn, senders, gbps=self.gbps, dcqcn=PRESETS[self.clocks])

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.plan.hosts[1:]

    @property
    def bdp_bytes(self) -> float:
        """Of a packet alone: four times 2 µs of cable, twice its own time and that of its acknowledgement."""
        plan = self.plan
        return 8e-6 * self.gbps * GBPS + 2.0 * (plan.packet_wire_bytes + plan.ack_wire_bytes)

    def floor(self) -> KminFloor:
        """What the twin finds."""
        return kmin_floor(self.plan, "h0", self.hosts, INCUMBENT, seed=1)

    def swept(self, first_bytes: float, *, seed: int) -> float:
        """The least Kmin at which DCQCN has its share, as one run raises it by 4 % every 250 ms."""
        plan, dcqcn = self.plan, slice(self.n_senders, None)
        fabric = Fabric(plan, watermark=shaped(first_bytes, INCUMBENT), seed=seed)
        fabric.offer(endless(plan, "h0", self.hosts, seed=seed))
        for dwell in range(SWEPT):
            kmin_bytes = first_bytes * 1.04**dwell
            fabric.set_watermark(plan.switch_ports, shaped(kmin_bytes, INCUMBENT))
            fabric.advance(SETTLED_S + (dwell + 0.5) * DWELL_S)
            before = fabric.acknowledged_bytes()
            fabric.advance(SETTLED_S + (dwell + 1.0) * DWELL_S)
            got = fabric.acknowledged_bytes() - before
            if got[dcqcn].mean() >= got.mean():
                return kmin_bytes
        return np.inf


SEEN = tuple(Mix(name, half, half) for name in ("rl-cc-trees", "swift") for half in (1, 8))
UNSEEN = (
    Mix("rl-cc-trees", 4, 12),
    Mix("rl-cc-trees", 12, 4),
    Mix("rl-cc-trees", 8, 8, clocks="vendor"),
    Mix("rl-cc-trees", 2, 2, gbps=25.0),
    Mix("swift", 8, 24),
    Mix("swift", 3, 1, gbps=200.0, clocks="vendor"),
    Mix("decc-trees", 4, 4),
    Mix("rl-cc", 6, 2, gbps=200.0),
    Mix("rl-cc", 2, 6, clocks="vendor"),
    Mix("swift", 6, 2, gbps=25.0, clocks="vendor"),
    Mix("decc", 12, 4, clocks="vendor"),
)
SWEPT, DWELL_S = 60, 0.25


def floors() -> Table:
    """The twin's Kmin floor beside that of sweeps by other draws, and what the law of the mean gives."""
    table = markdown("beside", "flows", "by DCQCN", "rate", "clocks", "law", "the twin's floor", "sweeps")
    for mix in (*SEEN, *UNSEEN):
        found = mix.floor().watermark
        begin_bytes = 0.4 * (INCUMBENT if found is None else found).kmin_bytes
        swept = [mix.swept(begin_bytes, seed=seed) for seed in (11, 12)]
        policy, n_flows = KNOWN[mix.sender], mix.n_senders + mix.n_dcqcn
        law = ""
        if isinstance(policy, RttPolicy):
            law = f"{(policy.inflation(n_flows) - 1.0) * mix.bdp_bytes / 1e3:.3g} KB"
        table.add_row(
            mix.sender,
            str(n_flows),
            str(mix.n_dcqcn),
            f"{mix.gbps:g} Gbit/s",
            mix.clocks,
            law,
            "none" if found is None else f"{found.kmin_bytes / 1e3:.3g} KB",
            ", ".join(f"{kmin_bytes / 1e3:.3g} KB" for kmin_bytes in swept),
        )
        sys.stderr.write(f"floors: {mix}\n")
    return table


def mixed(plot: Path | None) -> Table:
    """DCQCN's share over Kmin beside policies, 1 being its fair one, and the queue that they hold alone."""
    table = markdown("beside", "flows", "they hold", *(f"{kmin} KB" for kmin in KMIN_KB))
    curves = {}
    for mix in SEEN:
        found, n_flows = mix.floor(), 2 * mix.n_dcqcn
        shares = []
        for kmin_kb in KMIN_KB:
            mark = shaped(1e3 * kmin_kb, INCUMBENT)
            shares.append(dcqcn_share(mix.plan, "h0", mix.hosts, mark, seed=1))
        curves[mix] = shares, found
        alone = settled(n_flows, dict.fromkeys(range(n_flows), KNOWN[mix.sender]), INCUMBENT)
        held = f"{alone.queue_mean_bytes / 1e3:.0f} KB (p99 {alone.queue_p99_bytes / 1e3:.0f})"
        table.add_row(mix.sender, str(n_flows), held, *(f"{share:.2f}" for share in shares))
        sys.stderr.write(f"mixed: {mix}\n")
    if plot is not None:
        _draw(curves, plot)
    return table


def _draw(curves: Mapping[Mix, tuple[Sequence[float], KminFloor]], into: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "senders", "font.size": 9})
    mpl.rcParams["axes.spines.top"] = mpl.rcParams["axes.spines.right"] = False
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 3.2), layout="constrained")
    for (mix, (shares, floor)), line in zip(curves.items(), ("-", "--", "-", "--"), strict=True):
        colour = "#e3001b" if mix.sender == "swift" else "#0072b2"
        tried = dict(zip((1e3 * kmin for kmin in KMIN_KB), shares, strict=True)) | floor.shares
        kmins_kb, points = np.array(sorted(tried.items())).T
        label = f"beside {mix.sender}, {2 * mix.n_dcqcn} flows"
        axes.plot(kmins_kb / 1e3, points, line, color=colour, label=label)
        if floor.watermark is not None:
            at_kb = floor.watermark.kmin_bytes / 1e3
            axes.plot(at_kb, 1.0, "o", color=colour, markersize=5, markerfacecolor="white")
            left = line == "--"
            axes.annotate(
                f"{at_kb:.0f}",
                (at_kb, 1.0),
                (-4, 4) if left else (4, -10),
                textcoords="offset points",
                color=colour,
                ha="right" if left else "left",
            )
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.text(KMIN_KB[0], 1.04, "fair share", color="grey")
    axes.set_xscale("log")
    axes.set_xticks(KMIN_KB[::2], [str(kmin) for kmin in KMIN_KB[::2]])
    axes.minorticks_off()
    axes.set_xlabel("Kmin in KB (Kmax four times that, Pmax 20 %)")
    axes.set_ylabel("what DCQCN flows get")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, 0.92))
    figure.savefig(into, metadata={"Date": None})


@kernel
def _decide(state: State, params: Params, times: int) -> float:
    """As many decisions of flow 0, on round trips from RTT0 to twice that, of 50 packets each."""
    flow, mine = state.flows[0], state.learners[0]
    policy = state.policies[state.ports[flow.nic].policy]
    total = 0.0
    for k in range(times):
        rtt = mine.rtt0 * (1.0 + (k & 1023) / 1024.0)
        total += decided(state, params, 0, policy, 50 * (k + 1), rtt, rtt * (k + 1))
    return total


def ladder() -> Table:
    """Nanoseconds a decision, median of five, and 16 flows whose decisions come late as DECC's do."""
    table = markdown("sender", "a decision", *(f"{delay * 1e6:g} µs late" for delay in DELAYS_S))
    for name in ("rl-cc", "rl-cc-trees", "decc", "decc-trees", "window-line", "rtt-rule"):
        policy = KNOWN[name]
        if name == "decc":
            table.add_row("as decc, not pruned", f"{_decision_ns(_filled(policy)):.0f} ns")
        late = []
        for delay_s in DELAYS_S:
            found = settled(16, dict.fromkeys(range(16), replace(policy, decision_s=delay_s)), INCUMBENT)
            tail = np.quantile(found.inflation, 0.99)
            late.append(f"{found.utilisation:.0%}, p99 {tail:.1f} RTT0")
        table.add_row(name, f"{_decision_ns(policy):.0f} ns", *late)
    return table


def _filled(policy: RttSender) -> RttSender:
    """With a small weight in place of each that was pruned: as many steps of a decision as before."""
    assert isinstance(policy, DeccPolicy)
    assert isinstance(policy.form, Network)
    layers = tuple(tuple(tuple(w or 1e-3 for w in row) for row in layer) for layer in policy.form.weights)
    return replace(policy, form=Network(layers))


def _decision_ns(policy: RttSender) -> float:
    links = (Link("a", "s", 100.0, 2.0, b_port="to-a"), Link("b", "s", 100.0, 2.0, b_port="to-b"))
    topology = Topology((Host("a"), Host("b")), ("s",), links)
    plan = FabricPlan(ports=topology.ports, dcqcn=PAPER, senders={"a": policy})
    fabric = Fabric(plan, watermark=INCUMBENT, seed=1)
    fabric.offer(Traffic.independent([0], [1], [np.inf], 0.0))
    _decide(fabric._state, fabric._params, 1)
    spent = []
    for _ in range(5):
        begin_s = time.perf_counter()
        _decide(fabric._state, fabric._params, TIMED)
        spent.append(time.perf_counter() - begin_s)
    return float(np.median(spent)) / TIMED * 1e9


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.rivals.senders")
    parser.add_argument("which", nargs="*", default=["traffic", "settled", "mixed", "floors", "ladder"])
    parser.add_argument("--ms", type=float, help="traffic: of so many milliseconds, in place of 10 or 15")
    parser.add_argument(
        "--no-advice",
        action="store_true",
        help="traffic: not the twin's watermark, which takes most of the time",
    )
    parser.add_argument("--plot", type=Path, help="draw what DCQCN gets in mixed fleets into this SVG file")
    asked = parser.parse_args(arguments)
    if asked.plot is not None and find_spec("matplotlib") is None:
        parser.error("--plot: it takes matplotlib; run scripts/setup bench")
    workers = make_workers(os.cpu_count() or 1)
    tables: dict[str, Callable[[], Table]] = {
        "traffic": lambda: traffic(
            workers, None if asked.ms is None else asked.ms * 1e-3, advice=not asked.no_advice
        ),
        "settled": equal_flows,
        "mixed": lambda: mixed(asked.plot),
        "floors": floors,
        "ladder": ladder,
    }
    try:
        for name in asked.which:
            if name not in tables:
                parser.error(f"{name!r} is none of {', '.join(tables)}")
            Console(width=200).print(tables[name]())
    finally:
        workers.close()


if __name__ == "__main__":
    main()
