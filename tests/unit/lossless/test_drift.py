"""Switches and NICs against templates: every difference is found, and none is invented."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lossless.fabric import Template
from lossless.rules import check
from tests.unit.lossless.fabrics import MARK, NIC, PORT, fabric, the_fault, with_priority
from tests.unit.nics.sysfs import DEFAULTS
from twin.watermark import Watermark

AS_IT_IS = Template(
    name="leaf", pfc=frozenset({3}), watermark=MARK, xoff_bytes=1_000_000, headroom_bytes=50_000
)
LEAF = {"leaf1": AS_IT_IS, "leaf2": AS_IT_IS}
HOST_PORTS = {("leaf1", "Ethernet0"), ("leaf2", "Ethernet0")}


def test_what_is_as_written_is_no_drift() -> None:
    found = check(fabric(templates=LEAF, host_templates={"h0": Template(name="nic", dcqcn=DEFAULTS)}))
    assert found.faults == ()
    assert found.unchecked == ()


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"headroom_bytes": 60_000}, "the headroom of priority 3 is 50000 B, and template leaf has 60000 B"),
        (
            {"xoff_bytes": 900_000},
            "the XOFF threshold of priority 3 is 1000000 B, and template leaf has 900000 B",
        ),
        (
            {"xoff_bytes": None, "alpha": 0.125},
            "the XOFF threshold of priority 3 is 1000000 B, and template leaf has alpha 0.125",
        ),
        ({"pfc": frozenset({3, 4})}, "PFC is on for 3, and template leaf has on for 3, 4"),
        (
            {"watermark": Watermark(1_000, 2_000, 1.0)},
            f"the watermark of priority 3 is {MARK}, and template leaf has Kmin 1000 B, Kmax 2000 B, Pmax 1",
        ),
        (
            {"by_role": {"leaf-host-100G": Watermark(1_000, 2_000, 1.0)}},
            f"the watermark of priority 3 is {MARK}, and template leaf has Kmin 1000 B, Kmax 2000 B, Pmax 1",
        ),
    ],
)
def test_each_difference_of_a_switch_is_found(changed: dict[str, Any], found: str) -> None:
    fault = the_fault(fabric(templates={"leaf1": replace(AS_IT_IS, **changed)}))
    assert (fault.rule, fault.severity, fault.found) == ("drift", "warning", found)
    assert fault.where == ("leaf1 Ethernet0" if "by_role" in changed else "leaf1 Ethernet0, Ethernet1")


def test_ports_of_a_role_may_have_a_watermark_of_their_own() -> None:
    other = Watermark(1_000, 2_000, 1.0)
    ports = {place: replace(PORT, watermarks={3: other, 6: None}) for place in HOST_PORTS}
    template = replace(AS_IT_IS, by_role={"leaf-host-100G": other})
    assert check(fabric(ports, templates={"leaf1": template, "leaf2": template})).faults == ()


def test_a_dynamic_threshold_is_compared_by_its_alpha() -> None:
    dynamic = {place: with_priority(alpha=0.125) for place in fabric().ports}
    of_alpha = replace(AS_IT_IS, xoff_bytes=None, alpha=0.125)
    assert check(fabric(dynamic, templates={"leaf1": of_alpha})).faults == ()
    found = the_fault(fabric(dynamic, templates={"leaf1": AS_IT_IS})).found
    assert found == "the XOFF threshold of priority 3 is alpha 0.125, and template leaf has 1000000 B"


def test_a_template_gives_the_headroom_that_the_vendor_asks_for() -> None:
    """Then less than the standard's sum is no fault, unless it is lost anyhow."""
    ports = {("leaf1", port): with_priority(headroom_bytes=20_000) for port in ("Ethernet0", "Ethernet1")}
    template = replace(AS_IT_IS, headroom_bytes=20_000)
    assert the_fault(fabric(ports)).rule == "headroom"
    assert check(fabric(ports, templates={"leaf1": template})).faults == ()


def test_what_the_platform_does_not_show_is_said() -> None:
    bare = with_priority(queue=None, xoff_bytes=None, headroom_bytes=None)
    ports = {("leaf1", port): bare for port in ("Ethernet0", "Ethernet1")}
    found = check(fabric(ports, templates={"leaf1": AS_IT_IS}))
    assert [one.rule for one in found.faults] == []
    drifts = [one for one in found.unchecked if "drift" in one]
    assert {one.partition(": ")[2].partition(";")[0] for one in drifts} == {
        "the watermark of priority 3 is not known",
        "the headroom of priority 3 is not known",
        "the XOFF threshold of priority 3 is not known",
    }


def test_roles_need_a_topology() -> None:
    template = replace(AS_IT_IS, by_role={"leaf-host-100G": Watermark(1_000, 2_000, 1.0)})
    found = check(fabric(templates={"leaf1": template}, topology=None))
    assert found.faults == ()
    assert "leaf1: the role of its ports is not known; not checked: drift" in found.unchecked


def test_a_role_that_no_port_has_is_told() -> None:
    template = replace(
        AS_IT_IS, by_role={"leaf-hosts-100G": Watermark(1_000, 2_000, 1.0), "leaf-host-100G": MARK}
    )
    found = check(fabric(templates={"leaf1": template, "leaf2": template}))
    assert found.faults == ()
    assert found.unchecked == (
        "the fabric: which port has role leaf-hosts-100G of template leaf is not known; not checked: drift",
    )


def test_a_nic_that_differs_or_does_not_show_a_parameter() -> None:
    template = Template(name="nic", dcqcn={"rpg_ai_rate": 50, "cnp_dscp": 48})
    found = the_fault(fabric(host_templates={"h1": template}))
    assert (found.rule, found.where) == ("drift", "h1 ens1")
    assert found.found == "rpg_ai_rate is 5 Mbit/s, and template nic has 50 Mbit/s"
    shown = {name: value for name, value in DEFAULTS.items() if name != "rpg_ai_rate"}
    dark = check(fabric(nics={"h1": replace(NIC, values=shown)}, host_templates={"h1": template}))
    assert dark.faults == ()
    assert dark.unchecked == ("h1 ens1: rpg_ai_rate is not known; not checked: drift",)
