"""Hosts of their own for each test, on one sshd."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from nics.connectx import ConnectXAdapter
from nics.host import Host
from switches.device import Secret
from tests.unit.nics.sshd import LOOPBACK, Sshd, find
from tests.unit.nics.sysfs import Sysfs

USER = "ECNTWIN_TEST_HOST_USER"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def every_host() -> Iterator[Sshd]:
    server = Sshd(find())
    yield server
    server.close()


@pytest.fixture
def sshd(every_host: Sshd, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    monkeypatch.setenv(USER, every_host.user)
    yield every_host
    for program in every_host.programs.iterdir():
        program.unlink()


class Rig(NamedTuple):
    """A host, its files, and what makes adapters to it."""

    host: Host
    sysfs: Sysfs
    adapter: Callable[[], ConnectXAdapter]


def host_of(sshd: Sshd, folder: Path) -> Host:
    return Host(
        name="gpu1",
        platform="connectx",
        address=LOOPBACK,
        port=sshd.port,
        username=Secret(env=USER),
        key_file=sshd.key_file,
        known_hosts=sshd.known_hosts,
        timeout_s=60.0,
        sysfs=str(folder),
    )


@pytest.fixture
def rig(sshd: Sshd) -> Iterator[Rig]:
    """A host with two ports, ``ens1`` and ``ens2``, of the driver's defaults."""
    sysfs = Sysfs(sshd.folder / f"sys{next(_numbers)}")
    for nic in ("ens1", "ens2"):
        sysfs.add(nic)
    sshd.give_to_account(sysfs.folder)
    host = host_of(sshd, sysfs.folder)
    made: list[ConnectXAdapter] = []

    def adapter() -> ConnectXAdapter:
        made.append(ConnectXAdapter(host, clock_ns=lambda: 1_000))
        return made[-1]

    yield Rig(host, sysfs, adapter)
    for one in made:
        one.close()


@pytest.fixture
def changed(rig: Rig) -> Iterator[Callable[..., ConnectXAdapter]]:
    """An adapter to the host with other entries in the inventory."""
    made: list[ConnectXAdapter] = []

    def adapter(**more: object) -> ConnectXAdapter:
        made.append(ConnectXAdapter(replace(rig.host, **more), clock_ns=lambda: 1_000))  # type: ignore[arg-type]
        return made[-1]

    yield adapter
    for one in made:
        one.close()
