"""The RDMA devices of a host and the kernel's files of each, over SSH."""

from __future__ import annotations

import re

from nics.commands import READ, FoundNic, found_nics
from nics.host import Host
from nics.ssh import SshSession
from switches.errors import CapabilityError, InventoryError, RefusedError, SwitchError

_PLAIN = re.compile(r"/[A-Za-z0-9_./-]*")


class HostFiles:
    """Of ``host``. Raises ``InventoryError`` for a host that cannot be used; connects to nothing yet."""

    def __init__(self, host: Host) -> None:
        if not _PLAIN.fullmatch(host.sysfs):
            rule = "it is an absolute path of letters, digits and . _ - /"
            raise InventoryError(f"{host.where} sysfs", repr(host.sysfs), rule, "give /sys")
        self._host = host
        self._session = SshSession(host)

    def run(self, script: str, *arguments: str) -> str:
        """What ``script`` says; its first argument is where the kernel's files lie."""
        return self._session.run(script, self._host.sysfs, *arguments)

    def found(self) -> list[FoundNic]:
        """The NICs that the inventory wants; raises ``CapabilityError`` where there is none."""
        said = self.run(READ)
        every = found_nics(said)
        if every is None:
            raise self.unexpected(said)
        found = [nic for nic in every if self._host.wants(nic.name, nic.rdma)]
        if not found:
            received = ", ".join(f"{nic.name} ({nic.rdma})" for nic in every) or "no RDMA device"
            rule = "a host has NICs that the inventory names"
            remedy = "correct nics of the inventory, or load the driver (mlx5_ib, bnxt_re)"
            raise CapabilityError(self._host.where, received, rule, remedy)
        return found

    def unexpected(self, said: str) -> SwitchError:
        words = " ".join(said.split())[:200]
        if words.startswith("missing"):
            rule = "sysfs is where the kernel's files lie"
            return CapabilityError(self._host.where, f"no {words[8:]}", rule, "check the host, or give /sys")
        rule = "the host's shell runs the script to its end"
        remedy = "check what its shell says when one logs in, and its rights"
        return RefusedError(self._host.where, words or "no answer", rule, remedy)

    def close(self) -> None:
        self._session.close()
