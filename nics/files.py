"""The RDMA devices of a host and the kernel's files of each, over SSH."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from nics.base import NicReading, Reading
from nics.commands import READ, FoundNic, found_nics
from nics.host import Host
from nics.ssh import SshSession
from switches.errors import CapabilityError, InventoryError, RefusedError, SwitchError, one_line

_PLAIN = re.compile(r"/[A-Za-z0-9_./-]*")


class FilesAdapter(ABC):
    """The NICs of ``host``, read from these files. ``clock_ns`` gives wall-clock nanoseconds since 1970.

    Raises ``InventoryError`` for a host that cannot be used; connects to nothing yet.
    """

    def __init__(self, host: Host, *, clock_ns: Callable[[], int]) -> None:
        if not _PLAIN.fullmatch(host.sysfs):
            rule = "it is an absolute path of letters, digits and . _ - /"
            raise InventoryError(f"{host.where} sysfs", repr(host.sysfs), rule, "give /sys")
        self.host = host.name
        self._host = host
        self._clock_ns = clock_ns
        self._session = SshSession(host)

    def read(self) -> Reading:
        return self._reading(self._found())

    def close(self) -> None:
        self._session.close()

    @abstractmethod
    def _nic(self, nic: FoundNic) -> NicReading:
        """What its files say."""

    def _reading(self, found: Iterable[FoundNic]) -> Reading:
        return Reading(self.host, self._clock_ns(), tuple(self._nic(nic) for nic in found))

    def _run(self, script: str, *arguments: str) -> str:
        """What ``script`` says; its first argument is where the kernel's files lie."""
        return self._session.run(script, self._host.sysfs, *arguments)

    def _found(self) -> list[FoundNic]:
        """The NICs that the inventory wants; raises ``CapabilityError`` where there is none."""
        said = self._run(READ)
        every = found_nics(said)
        if every is None:
            raise self._unexpected(said)
        found = [nic for nic in every if self._host.wants(nic.name, nic.rdma)]
        if not found:
            received = ", ".join(f"{nic.name} ({nic.rdma})" for nic in every) or "no RDMA device"
            rule = "a host has NICs that the inventory names"
            remedy = "correct nics of the inventory, or load the driver (mlx5_ib, bnxt_re)"
            raise CapabilityError(self._host.where, received, rule, remedy)
        return found

    def _unexpected(self, said: str) -> SwitchError:
        words = one_line(said)[:200]
        if words.startswith("missing"):
            rule = "sysfs is where the kernel's files lie"
            return CapabilityError(self._host.where, f"no {words[8:]}", rule, "check the host, or give /sys")
        rule = "the host's shell runs the script to its end"
        remedy = "check what its shell says when one logs in, and its rights"
        return RefusedError(self._host.where, words or "no answer", rule, remedy)
