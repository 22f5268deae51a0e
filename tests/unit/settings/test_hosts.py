"""The hosts of the inventory: a class says what is common, and every mistake is named by host and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from nics.host import Host
from service.nics.hosts import check_hosts
from settings.errors import SettingsError
from settings.inventory import Inventory
from switches.device import Secret

WHOLE = """
switches:
  leaf1: {platform: sonic, address: 10.0.0.1}
classes:
  h100:
    platform: connectx
    username: {env: HOST_USER}
    key_file: ssh/key
    known_hosts: /etc/ssh/known
    nics: [ens1np0, "mlx5_*"]
    timeout_s: 5
  bare:
hosts:
  gpu1: {class: h100, address: 10.1.0.1}
  gpu2: {class: h100, address: 10.1.0.1, port: 2222, nics: [ens5], sudo: true, key_file: null,
         password: {file: secrets/gpu2}}
  gpu3: {class: bare, platform: connectx, sysfs: /tmp/sys}
"""


def inventory(tmp_path: Path, text: str) -> Inventory:
    path = tmp_path / "inventory.yaml"
    path.write_text(text, "utf-8")
    return Inventory.read(path)


def test_what_a_host_says_beats_its_class(tmp_path: Path) -> None:
    found = inventory(tmp_path, WHOLE).hosts()
    user = Secret(env="HOST_USER")
    assert found == {
        "gpu1": Host(
            name="gpu1",
            platform="connectx",
            nic_class="h100",
            address="10.1.0.1",
            username=user,
            key_file=tmp_path / "ssh/key",
            known_hosts=Path("/etc/ssh/known"),
            nics=("ens1np0", "mlx5_*"),
            timeout_s=5,
        ),
        "gpu2": Host(
            name="gpu2",
            platform="connectx",
            nic_class="h100",
            address="10.1.0.1",
            port=2222,
            username=user,
            password=Secret(file=tmp_path / "secrets/gpu2"),
            known_hosts=Path("/etc/ssh/known"),
            nics=("ens5",),
            timeout_s=5,
            sudo=True,
        ),
        "gpu3": Host(name="gpu3", platform="connectx", nic_class="bare", sysfs="/tmp/sys"),
    }
    assert list(inventory(tmp_path, WHOLE).devices()) == ["leaf1"]


def test_hosts_that_do_not_send_by_dcqcn_are_not_read(tmp_path: Path) -> None:
    more = """
  dpu1: {sender: swift}
  dpu2: {class: h100, sender: rl-cc-trees}
  gpu4: {class: h100, address: 10.1.0.4, sender: dcqcn}
"""
    found = inventory(tmp_path, WHOLE.rstrip() + more)
    senders = {name: sender.name for name, sender in found.senders().items()}
    assert senders == {"dpu1": "swift", "dpu2": "rl-cc-trees"}
    assert set(found.hosts()) == {"gpu1", "gpu2", "gpu3", "gpu4"}


def test_an_inventory_needs_no_hosts(tmp_path: Path) -> None:
    assert inventory(tmp_path, "switches: {leaf1: {platform: sonic}}").hosts() == {}


@pytest.mark.parametrize(
    ("hosts", "says"),
    [
        (
            "gpu1: {class: h10}",
            "hosts.gpu1.class: received 'h10'; known classes are h100; did you mean h100?",
        ),
        ("gpu1: {address: 10.1.0.1}", "hosts.gpu1.platform: a host names the platform of its NICs"),
        ("gpu1: {platfrom: connectx}", "hosts.gpu1.platfrom: "),
        ("gpu1: {address: root@10.1.0.1}", "an address holds no user name or password"),
        ("gpu1: {username: root}", "hosts.gpu1.username: received a value that is not shown"),
        ("gpu1: {port: 0}", "hosts.gpu1.port: received 0"),
        ("gpu1: {nics: ens1}", "hosts.gpu1.nics: received 'ens1'; input should be a valid list"),
        (
            "gpu1: {sender: bbr}",
            "hosts.gpu1.sender: received 'bbr'; known senders are dcqcn, rtt-rule, swift",
        ),
        ("' gpu1': {class: h100}", "hosts: received name ' gpu1'"),
        (
            "gpu1: {class: h100, address: 10.1.0.1}\n  gpu2: {class: h100, address: 10.1.0.1}",
            "hosts.gpu2.address: received 10.1.0.1, gpu1's; each address belongs to one host",
        ),
        (
            "gpu1: {class: h100, address: gpu2}\n  gpu2: {class: h100, address: 10.1.0.1}",
            "hosts.gpu2.address: received gpu2, gpu1's; each address belongs to one host",
        ),
        (
            "gpu1: {class: h100}\n  gpu2: {class: h100, address: gpu1}",
            "hosts.gpu2.address: received gpu1, gpu1's; each address belongs to one host",
        ),
        (
            "a: {class: h100}",
            "hosts.a: received 'a', a switch's name; a rollout knows switches and hosts by name",
        ),
    ],
)
def test_a_mistake_is_named_by_host_and_key(tmp_path: Path, hosts: str, says: str) -> None:
    text = "switches: {a: {platform: sonic}}\nclasses: {h100: {platform: connectx}}\n"
    with pytest.raises(SettingsError) as caught:
        inventory(tmp_path, f"{text}hosts:\n  {hosts}").hosts()
    assert says in str(caught.value)


def test_the_check_finds_every_problem_without_asking_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOST_USER", raising=False)
    found = inventory(
        tmp_path, WHOLE.replace("platform: connectx, sysfs: /tmp/sys", "platform: bnxt")
    ).hosts()
    problems = [str(one) for one in check_hosts(found, clock_ns=lambda: 0)]
    for says in (
        "host 'gpu1' (connectx at 10.1.0.1) known_hosts: received",
        "host 'gpu1' (connectx at 10.1.0.1) username: there is nothing in $HOST_USER",
        "host 'gpu2' (connectx at 10.1.0.1) known_hosts: received /etc/ssh/known",
        "host 'gpu2' (connectx at 10.1.0.1) password: received file",
        "host 'gpu3' platform: received 'bnxt'; known platforms of NICs are broadcom, connectx",
    ):
        assert any(says in problem for problem in problems), says
