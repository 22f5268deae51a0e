"""Which ports conditions on links look at."""

from __future__ import annotations

from service.alarms.links import LinkChecks
from telemetry.alarms import Rule
from telemetry.counters.window import PortRates, Rates
from telemetry.links import LinkCondition

RULE = Rule(warning=0.8, critical=None, hold_s=0, clear_s=0)


def test_ports_that_are_seen_no_more_are_forgotten() -> None:
    checks = LinkChecks([LinkCondition(name="mine", figure="pause_share", rule=RULE, ports=("leaf9:*",))])
    for number in range(3):
        seen = [PortRates("leaf1", f"Ethernet{number}", 1.0, Rates(), {})]
        assert list(checks.findings(None, None, seen, None)) == []
        (note,) = checks.notes()
        assert "none of 1 known ports fits leaf9:*" in note
