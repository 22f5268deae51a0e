"""Which ports conditions on links look at."""

from __future__ import annotations

from dataclasses import replace

from service.alarms.links import Fabric, LinkChecks
from telemetry.alarms import Rule
from telemetry.counters.window import PortRates, Rates
from telemetry.links import LinkCondition
from telemetry.topology import Topology, leaf_spine

RULE = Rule(warning=0.8, critical=None, hold_s=0, clear_s=0)


def test_ports_that_are_seen_no_more_are_forgotten() -> None:
    checks = LinkChecks([LinkCondition(name="mine", figure="pause_share", rule=RULE, ports=("leaf9:*",))])
    for number in range(3):
        seen = [PortRates("leaf1", f"Ethernet{number}", 1.0, Rates(), {})]
        assert list(checks.findings(None, None, seen, None)) == []
        (note,) = checks.notes()
        assert "none of 1 known ports fits leaf9:*" in note


def test_a_link_that_no_packet_crosses_any_more_keeps_its_name_while_counters_tell_of_it() -> None:
    checks = LinkChecks([LinkCondition(name="mine", figure="pause_share", rule=RULE)])
    seen = [PortRates("leaf1", "Ethernet2", 1.0, Rates(pause_share=0.9), {})]
    whole = leaf_spine(2, 1, 2)
    without = replace(whole, links=tuple(link for link in whole.links if "spine1" not in (link.a, link.b)))

    def told(topology: Topology, *, declared: bool) -> list[str]:
        return [one.subject.of for one in checks.findings(Fabric(topology, declared), None, seen, None)]

    for topology in (whole, without):
        assert told(topology, declared=False) == ["leaf1 Ethernet2 to spine1 Ethernet0"]
    assert told(without, declared=True) == ["leaf1 Ethernet2"]
