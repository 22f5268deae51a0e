"""Junos' class of service as a reply has it: from a queue to its drop profile, however it is written."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from switches.junos.cos import ClassOfService, Profile, parse

CURVE = (
    "<interpolate><fill-level>20</fill-level><fill-level>60</fill-level>"
    "<drop-probability>0</drop-probability><drop-probability>100</drop-probability></interpolate>"
)
CLASSES = (
    "<forwarding-classes><class><name>NO-LOSS</name><queue-num>3</queue-num></class></forwarding-classes>"
)
MAP = (
    "<scheduler-maps><name>sm1</name><forwarding-class><name>NO-LOSS</name><scheduler>s1</scheduler>"
    "</forwarding-class></scheduler-maps>"
)
SCHEDULER = (
    "<schedulers><name>s1</name><drop-profile-map><loss-priority>any</loss-priority><protocol>any</protocol>"
    "<drop-profile>dp1</drop-profile></drop-profile-map><explicit-congestion-notification/></schedulers>"
)
PORT = (
    "<interfaces><interface><name>et-0/0/0</name><scheduler-map>sm1</scheduler-map></interface></interfaces>"
)


def read(*parts: str) -> ClassOfService:
    inside = "".join(parts)
    return parse(
        ElementTree.fromstring(
            '<data xmlns="urn:ietf:params:xml:ns:netconf:base:1.0">'
            '<configuration xmlns="http://xml.juniper.net/xnm/1.1/xnm">'
            f"<class-of-service>{inside}</class-of-service></configuration></data>"
        )
    )


def test_a_port_leads_to_a_drop_profile() -> None:
    cos = read(f"<drop-profiles><name>dp1</name>{CURVE}</drop-profiles>", CLASSES, PORT, MAP, SCHEDULER)
    assert cos.bound == {("et-0/0/0", 3): "s1"}
    assert cos.schedulers["s1"].marking == {("any", "any"): "dp1"}
    assert cos.schedulers["s1"].ecn
    assert cos.profiles == {"dp1": Profile(((20, 0), (60, 100)))}
    assert cos.users("s1") == (("et-0/0/0", 3),)
    assert cos.holders("dp1") == {"s1"}


def test_a_traffic_control_profile_leads_there_too() -> None:
    port = (
        "<interfaces><interface><name>xe-0/0/1</name><forwarding-class-set><name>fcs</name>"
        "<output-traffic-control-profile><profile-name>tcp</profile-name></output-traffic-control-profile>"
        "</forwarding-class-set></interface></interfaces>"
        "<traffic-control-profiles><name>tcp</name><scheduler-map>sm1</scheduler-map>"
        "</traffic-control-profiles>"
    )
    queue = "<queue><name>3</name><class-name>NO-LOSS</class-name></queue>"
    assert read(f"<forwarding-classes>{queue}</forwarding-classes>", port, MAP, SCHEDULER).bound == {
        ("xe-0/0/1", 3): "s1"
    }


def test_what_is_deactivated_is_as_good_as_none() -> None:
    off = SCHEDULER.replace(
        "<explicit-congestion-notification/>", '<explicit-congestion-notification inactive="inactive"/>'
    )
    assert not read(CLASSES, PORT, MAP, off).schedulers["s1"].ecn


def test_entries_for_other_packets_are_no_marking() -> None:
    high = SCHEDULER.replace("<loss-priority>any<", "<loss-priority>high<")
    assert read(CLASSES, PORT, MAP, high).schedulers["s1"].marking == {}


def test_steps_are_no_curve() -> None:
    steps = (
        "<drop-profiles><name>dp1</name><fill-level><name>50</name><drop-probability>10</drop-probability>"
        "</fill-level></drop-profiles>"
    )
    assert read(steps).profiles == {"dp1": Profile(((50, 10),), interpolated=False)}


def test_an_empty_configuration_has_nothing() -> None:
    assert parse(ElementTree.fromstring("<data/>")) == ClassOfService({}, {}, {})


@pytest.mark.parametrize(
    "curve",
    [
        CURVE.replace("<fill-level>60</fill-level>", ""),
        CURVE.replace("20", "low"),
    ],
    ids=["a level too few", "no number"],
)
def test_what_is_no_profile_is_an_error(curve: str) -> None:
    with pytest.raises(ValueError, match=r"levels|invalid literal"):
        read(f"<drop-profiles><name>dp1</name>{curve}</drop-profiles>")
