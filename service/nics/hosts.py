"""Makes and checks the NIC adapters of an inventory; finds all problems in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nics.base import NicAdapter
from nics.host import Host
from nics.registry import make
from switches.errors import CredentialsError, SwitchError


@dataclass(frozen=True, slots=True)
class MadeNics:
    """Adapters by host, and why the others could not be made."""

    adapters: Mapping[str, NicAdapter]
    problems: Mapping[str, SwitchError]

    def close(self) -> None:
        for adapter in self.adapters.values():
            adapter.close()


def make_nics(hosts: Mapping[str, Host], *, clock_ns: Callable[[], int]) -> MadeNics:
    """An adapter for every host that can have one; connects to none."""
    adapters: dict[str, NicAdapter] = {}
    problems: dict[str, SwitchError] = {}
    for name, host in hosts.items():
        try:
            adapters[name] = make(host, clock_ns=clock_ns)
        except SwitchError as error:
            problems[name] = error
    return MadeNics(adapters, problems)


def check_hosts(hosts: Mapping[str, Host], *, clock_ns: Callable[[], int]) -> tuple[SwitchError, ...]:
    """All problems of platforms, secrets and files; connects to nothing."""
    made = make_nics(hosts, clock_ns=clock_ns)
    problems = list(made.problems.values())
    for host in hosts.values():
        for name in ("username", "password"):
            try:
                host.credential(name)
            except CredentialsError as error:
                problems.append(error)
    return tuple(problems)
