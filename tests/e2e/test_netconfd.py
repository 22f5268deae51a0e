"""OpenConfig QoS over NETCONF against netconfd, which nobody here wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from switches.adapter import Waiting
from switches.base import SwitchAdapter
from switches.device import Device, Secret
from switches.errors import ConcurrentEditError, RefusedError
from switches.openconfig.netconf import NAMESPACE, NetconfAdapter
from switches.transport.netconf import NetconfOptions, NetconfSession
from tests.counterparts.switches.netconfd import Netconfd, find
from tests.counterparts.switches.openconfig_documents import factory
from tests.counterparts.switches.openconfig_netconf import running_of
from tests.counterparts.switches.ssh_server import LOOPBACK, Account
from twin.watermark import Watermark

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

OLD = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)
PATIENCE_S = 120.0
EVERYTHING = f'<qos xmlns="{NAMESPACE}"/>'


@pytest.fixture(scope="module")
def netconfd() -> Iterator[Netconfd]:
    program = find()
    if program is None:
        pytest.skip("netconfd is not installed: scripts/system-packages netconfd")
    with closing(Netconfd(program, Account("ecn", "right-password"))) as server:
        yield server


@pytest.fixture
def device(netconfd: Netconfd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("NETCONFD_USER", "ecn")
    monkeypatch.setenv("NETCONFD_PASSWORD", "right-password")
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(netconfd.ssh.known_hosts(), "utf-8")
    described = {
        "name": "leaf1",
        "platform": "netconf",
        "address": LOOPBACK,
        "port": netconfd.ssh.port,
        "ports": ("Ethernet*",),
        "username": Secret(env="NETCONFD_USER"),
        "password": Secret(env="NETCONFD_PASSWORD"),
        "timeout_s": PATIENCE_S,
        "options": {"known_hosts": str(known_hosts), "read_back": "config"},
    }
    with session(described) as opened, opened.locked():
        if not len(opened.get_config(EVERYTHING)):
            opened.edit(configured(OLD))
            opened.commit()
    return described


def session(device: dict[str, Any]) -> NetconfSession:
    return NetconfSession(Device(**device), NetconfOptions(known_hosts=device["options"]["known_hosts"]))


def adapter(device: dict[str, Any], **options: Any) -> SwitchAdapter:
    """As another process would make it."""
    return NetconfAdapter(Device(**{**device, "options": device["options"] | options}), clock_ns=lambda: 7)


def everything(device: dict[str, Any]) -> str:
    with session(device) as opened:
        return ElementTree.canonicalize(ElementTree.tostring(opened.get_config(EVERYTHING)), strip_text=True)


def configured(watermark: Watermark) -> str:
    return ElementTree.tostring(running_of(factory(watermark))[0], "unicode")


def test_a_change_is_made_confirmed_by_another_process_and_undone(device: dict[str, Any]) -> None:
    with session(device) as opened:
        before = ElementTree.canonicalize(
            ElementTree.tostring(opened.get_config(EVERYTHING)), strip_text=True
        )
    change = adapter(device).stage(NEW, "r1-a")
    adapter(device).apply(change)
    adapter(device).apply(change)  # it waits to be confirmed, and is made
    assert adapter(device).verify(change).watermark == NEW
    adapter(device).confirm(change)
    adapter(device).confirm(change)
    assert adapter(device).read().watermark == NEW
    adapter(device).rollback(change)
    assert adapter(device).read().watermark == OLD
    assert everything(device) == before


def test_a_change_that_waits_is_taken_back_by_another_process(device: dict[str, Any]) -> None:
    change = adapter(device).stage(NEW, "r2-a")
    adapter(device).apply(change)
    adapter(device).rollback(change)
    assert adapter(device).read().watermark == OLD
    adapter(device).confirm(change)  # nothing waits
    assert adapter(device).read().watermark == OLD


def test_its_own_timer_takes_an_unconfirmed_change_back(device: dict[str, Any]) -> None:
    change = adapter(device).stage(NEW, "r3-a")
    adapter(device).apply(change)
    adapter(device).confirm(change)
    back = adapter(device).stage(OLD, "r4-a")
    adapter(device, confirm_timeout_s=1).apply(back)
    assert adapter(device).read().watermark in (OLD, NEW)
    for _ in Waiting().until(PATIENCE_S):
        if adapter(device).read().watermark == NEW:
            break
    assert adapter(device).read().watermark == NEW
    adapter(device).rollback(back)  # finds nothing to do
    adapter(device).rollback(change)
    assert adapter(device).read().watermark == OLD


def test_a_configuration_that_somebody_edits_is_left_to_them(device: dict[str, Any]) -> None:
    change = adapter(device).stage(NEW, "r5-a")
    with session(device) as somebody:
        with somebody.locked(), pytest.raises(ConcurrentEditError, match=r"lock denied \(session \d+\)"):
            adapter(device).apply(change)
        somebody.edit(configured(Watermark(1, 2, 0.5)))  # and leaves it uncommitted
        with pytest.raises(ConcurrentEditError, match="discard-changes needed"):
            adapter(device).apply(change)
        somebody.discard()
    adapter(device).apply(change)
    other = adapter(device)
    with pytest.raises(ConcurrentEditError, match="confirmed-commit pending"):
        other.apply(other.stage(Watermark(1, 2, 0.5), "r6-a"))
    other.rollback(change)


def test_an_edit_that_the_model_forbids_is_refused_and_leaves_nothing(device: dict[str, Any]) -> None:
    dangling = configured(OLD).replace(">ROCE<", ">NOWHERE<", 1)
    with session(device) as opened:
        with pytest.raises(RefusedError, match="required value instance not found"), opened.locked():
            opened.edit(dangling)
        with opened.locked():
            assert adapter(device).read().watermark == OLD
