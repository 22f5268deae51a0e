"""Classes of hosts, whose NICs may run DCQCN values of their own."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from telemetry.topology import GBPS, Topology
from twin.senders.dcqcn import DcqcnParams


def nic_classes(said: Mapping[str, str], topology: Topology | None) -> Mapping[str, str]:
    """The class of each host of the topology, and of each that something is ``said`` of; empty where all are
    of one.

    A host that is given no class (or "") has the one that most hosts at its NIC's rate are given, the first
    by name of equally many; where none is, its class is that rate, such as ``25G``. Without a topology all
    rates are alike.
    """
    rates: dict[str, float | None] = dict.fromkeys(said, None)
    rates.update({} if topology is None else topology.nic_bytes_per_s)
    at_rate: defaultdict[float | None, Counter[str]] = defaultdict(Counter)
    for host, rate in rates.items():
        if name := said.get(host):
            at_rate[rate][name] += 1
    usual = {rate: min(found, key=lambda name: (-found[name], name)) for rate, found in at_rate.items()}
    classes = {
        host: said.get(host) or usual.get(rate) or ("" if rate is None else f"{rate / GBPS:g}G")
        for host, rate in rates.items()
    }
    return classes if len(set(classes.values())) > 1 else {}


def unlike_most(
    nic_class: Mapping[str, str], by_class: Mapping[str, DcqcnParams], most: DcqcnParams
) -> dict[str, DcqcnParams]:
    """The hosts that run something else than ``most``, and what: each what its class does."""
    own = ((host, by_class.get(name, most)) for host, name in nic_class.items())
    return {host: params for host, params in own if params != most}
