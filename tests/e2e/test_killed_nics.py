"""Rollouts of NICs and switches killed at named instants: nothing is left half set, and a restart ends them.

The process that is killed is the service's conductor, journal, adapters and telemetry. Hosts are trees of
files behind a real sshd, switches real redis-servers with a stand-in for orchagent.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import psutil
import pytest

from nics.host import Host
from rollout.plan import Figures, Limits, RolloutPlan
from rollout.state import Phase
from store.journal import Journal
from switches.device import Device, Secret
from tests.counterparts.rollouts_alone import ended, rollouts_alone
from tests.counterparts.switches.sonic_fabric import SonicFabric
from tests.unit.nics.sshd import Sshd, find
from tests.unit.nics.sysfs import Sysfs
from twin.watermark import Watermark

OLD, NEW = Watermark(1_048_576, 2_097_152, 0.05), Watermark(200_000, 900_000, 0.1)
VALUES = {"rate_reduce_monitor_period": 10, "min_time_between_cnps": 10}
BEFORE = {4}
AFTER = {10}
HOSTS = ("gpu1", "gpu2", "gpu3", "gpu4")
NICS = ("ens1", "ens2")
PATIENCE_S = 300.0
BEGUN, OVER = b"+", b"."

When = Literal["before entry", "after entry", "script"]
"""Killed just before or after the journal's n-th entry, or once a host's n-th script that sets has begun."""


@dataclass(frozen=True)
class Kill:
    when: When
    number: int


def plan(rollout_id: str, switches: list[str], *, breach: bool) -> RolloutPlan:
    """Hosts in two stages, then switches; ``breach``: the last soak ends in a guard's breach."""
    fine, broken = Figures(throughput_bytes_per_s=1.0), Figures(throughput_bytes_per_s=1e15)
    return RolloutPlan(
        id=rollout_id,
        recommendation="r",
        targets=dict.fromkeys(switches, NEW),
        nics=dict.fromkeys(HOSTS, VALUES),
        stages=(HOSTS[:1], HOSTS[1:], tuple(switches)),
        limits=Limits(soak_s=0.05, batch_soak_s=0.0, patience_s=60.0),
        before=(fine, fine, broken if breach else fine),
        written=(*HOSTS, *switches),
    )


def conduct(
    devices: Mapping[str, Device],
    hosts: Mapping[str, Host],
    journal: str,
    wanted: RolloutPlan | None,
    kill: Kill | None,
    told: Connection,
) -> None:
    """In the process that is killed: begins ``wanted``, or takes up what the journal holds, to the end.

    ``told`` hears how each rollout ended, and how many entries were written.
    """
    append, count = Journal.append, 0

    async def counted(self: Journal, subject: str, at_s: float, document: bytes) -> None:
        nonlocal count
        count += 1
        if kill == Kill("before entry", count):
            os.kill(os.getpid(), signal.SIGKILL)
        await append(self, subject, at_s, document)
        if kill == Kill("after entry", count):
            os.kill(os.getpid(), signal.SIGKILL)

    Journal.append = counted  # type: ignore[method-assign]

    async def main() -> None:
        async with rollouts_alone(devices, f"sqlite:///{journal}", at_once=3, hosts=hosts) as rollouts:
            if wanted is not None:
                await rollouts.start(wanted, "test")
            for rollout in rollouts.newest(100):
                state = await ended(rollouts, rollout.id, PATIENCE_S)
                told.send((rollout.id, state.phase, state.why, count))

    asyncio.run(main())
    told.close()


class Cluster:
    """Two switches and four hosts of two NICs, with a journal."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.switches = SonicFabric(folder, 2, lag_s=0.01)
        self.sshd = Sshd(program, tuple(f"127.0.0.{number}" for number in range(1, len(HOSTS) + 1)))
        self.begun = self.sshd.folder / "begun"
        os.mkfifo(self.begun)
        self._scripts = os.open(self.begun, os.O_RDWR)  # open throughout: no script waits for a reader
        # It tells of each script that sets; reading takes no lock.
        self.sshd.shadow("flock", f'printf {BEGUN.decode()} >{self.begun}\nexec /usr/bin/flock "$@"')
        self.sysfs = {}
        for name in HOSTS:
            self.sysfs[name] = Sysfs(self.sshd.folder / name)
            for nic in NICS:
                self.sysfs[name].add(nic)
        self.sshd.give_to_account(self.sshd.folder)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__])

    def close(self) -> None:
        self.sshd.close()
        os.close(self._scripts)
        self.switches.close()

    def reset(self) -> None:
        self.switches.reset()
        for sysfs in self.sysfs.values():
            for nic in NICS:
                for name in VALUES:
                    sysfs.write(nic, name, *BEFORE)

    def hosts(self) -> dict[str, Host]:
        return {
            name: Host(
                name=name,
                platform="connectx",
                address=address,
                port=self.sshd.port,
                username=Secret(env="TEST_HOST_USER"),
                key_file=self.sshd.key_file,
                known_hosts=self.sshd.known_hosts,
                timeout_s=60.0,
                sysfs=str(self.sysfs[name].folder),
            )
            for name, address in zip(HOSTS, self.sshd.addresses, strict=True)
        }

    def values(self) -> dict[str, set[int]]:
        """What the files of each host hold."""
        return {
            name: {sysfs.value(nic, value) for nic in NICS for value in VALUES}
            for name, sysfs in self.sysfs.items()
        }

    def run(
        self, journal: Path, wanted: RolloutPlan | None = None, kill: Kill | None = None
    ) -> dict[str, tuple[Phase, str | None, int]]:
        """Runs to the end or is killed; how rollouts ended, if they did, and the entries until then."""
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=conduct,
            args=(self.switches.devices(), self.hosts(), str(journal), wanted, kill, theirs),
        )
        listening = threading.Thread(target=self._kill_at_script, args=(process, kill))
        process.start()
        theirs.close()
        listening.start()
        found = {}
        try:
            while ours.poll(PATIENCE_S):
                rollout, *how = ours.recv()
                found[rollout] = tuple(how)
        except EOFError:
            pass  # it has ended, of its own accord or not
        finally:
            process.kill()
            process.join()
            ours.close()
            try:
                self._let_scripts_end()
            finally:
                os.write(self._scripts, OVER)
                listening.join()
        return found

    def _kill_at_script(self, process: multiprocessing.process.BaseProcess, kill: Kill | None) -> None:
        heard = 0
        while (said := os.read(self._scripts, 1)) != OVER:
            heard += said == BEGUN
            if kill == Kill("script", heard):
                process.kill()

    def _let_scripts_end(self) -> None:
        """A host finishes a script whose connection is lost; its shell is sshd's child no more then.

        Sessions first: one that has taken a command may not have started its shell yet.
        """
        assert self.sshd.process is not None
        _, alive = psutil.wait_procs(psutil.Process(self.sshd.process.pid).children(), timeout=PATIENCE_S)
        assert not alive, "a session of a lost connection does not end"
        shells = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if self._is_a_shell(process):
                    shells.append(process)
        _, alive = psutil.wait_procs(shells, timeout=PATIENCE_S)
        assert not alive, "a host's script does not end"

    def _is_a_shell(self, process: psutil.Process) -> bool:
        """Whether it runs a script of a host, or will: a session that has ended may leave one of which sshd's
        program is not replaced yet.
        """
        command = " ".join(process.cmdline())
        if process.name().startswith("sshd"):
            parent = process.parent()
            return " -D " not in command and not (parent and parent.name().startswith("sshd"))
        return str(self.sshd.folder / "gpu") in command


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with closing(Cluster(tmp_path_factory.mktemp("cluster"), find())) as made:
        yield made


@pytest.fixture(scope="module")
def entries(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, int]:
    """How many entries a rollout's journal has that nobody kills, by whether it is taken back."""
    found = {}
    os.environ["TEST_HOST_USER"] = cluster.sshd.user
    for breach in (False, True):
        cluster.reset()
        wanted = plan("whole", sorted(cluster.switches.switches), breach=breach)
        journal = tmp_path_factory.mktemp("whole") / "journal.db"
        phase, why, found[breach] = cluster.run(journal, wanted)["whole"]
        assert phase is (Phase.ROLLED_BACK if breach else Phase.DONE), why
        assert set(map(frozenset, cluster.values().values())) == {frozenset(BEFORE if breach else AFTER)}
    return found


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("when", "at", "breach"),
    [
        ("after entry", 0.31, False),  # hosts are being set
        ("before entry", 0.62, False),
        ("script", 2, False),  # the second host has begun to set
        ("after entry", 0.9, True),  # all are being undone
        ("script", 6, True),
        *(
            pytest.param(when, at, breach, marks=pytest.mark.slow)
            for number, at in enumerate((0.03, 0.12, 0.2, 0.26, 0.37, 0.44, 0.52, 0.71, 0.77, 0.83, 0.97))
            for when, breach in [(("before entry", "after entry")[number % 2], number % 3 == 0)]
        ),
        *(pytest.param("script", number, number > 4, marks=pytest.mark.slow) for number in (1, 3, 5, 8)),
    ],
)
def test_a_killed_rollout_of_nics_is_ended_by_whoever_restarts(
    cluster: Cluster, entries: dict[bool, int], tmp_path: Path, when: When, at: float, breach: bool
) -> None:
    cluster.reset()
    number = int(at) if when == "script" else max(1, round(at * entries[breach]))
    wanted = plan("r", sorted(cluster.switches.switches), breach=breach)
    journal = tmp_path / "journal.db"
    assert not cluster.run(journal, wanted, Kill(when, number)), "it was not killed"
    for name, values in cluster.values().items():
        assert values in (BEFORE, AFTER), f"{name} runs {values} after a kill"
    found = cluster.run(journal)
    values, marks = cluster.values(), cluster.switches.hardware()
    if found and found["r"][0] is Phase.DONE:
        assert set(map(frozenset, values.values())) == {frozenset(AFTER)}, values
        assert all(running == {NEW} for running in marks.values()), marks
    else:  # taken back, or killed before its first word was written down
        assert not found or found["r"][0] is Phase.ROLLED_BACK
        assert set(map(frozenset, values.values())) == {frozenset(BEFORE)}, values
        assert all(running == {OLD} for running in marks.values()), marks
    assert not breach or not found or found["r"][0] is Phase.ROLLED_BACK
