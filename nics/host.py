"""A host as the inventory describes it: where its NICs are, and how one logs in to read and set them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from switches.device import Secret
from switches.errors import InventoryError

SSH_PORT = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """``platform`` names the adapter of its NICs, ``nic_class`` its class in the inventory. NICs are those
    whose network or RDMA name matches one of the patterns ``nics`` (none: all).

    It is asked over SSH as ``username``, by ``key_file`` (then ``password`` is its passphrase) or by
    ``password``; its key is in the file ``known_hosts`` (None: ``~/.ssh/known_hosts``). With ``sudo``
    commands run as root. A call ends within ``timeout_s``. ``sysfs`` is where the kernel's files lie.
    """

    name: str
    platform: str
    nic_class: str = ""
    address: str = ""
    port: int = SSH_PORT
    nics: tuple[str, ...] = ()
    username: Secret | None = None
    password: Secret | None = None
    key_file: Path | None = None
    known_hosts: Path | None = None
    sudo: bool = False
    timeout_s: float = 10.0
    sysfs: str = "/sys"

    @property
    def where(self) -> str:
        """The host in errors."""
        at = f" at {self.address}" if self.address else ""
        return f"host {self.name!r} ({self.platform}{at})"

    def wants(self, *names: str) -> bool:
        """Whether the NIC of these names is one of the inventory's."""
        return not self.nics or any(fnmatchcase(name, pattern) for name in names for pattern in self.nics)

    def credential(self, name: str) -> str | None:
        """The text of ``username`` or ``password``, or None. Raises ``CredentialsError``."""
        secret: Secret | None = getattr(self, name)
        return None if secret is None else secret.reveal(f"{self.where} {name}")

    def secrets(self) -> Iterable[str]:
        """The texts that no message may repeat, as far as they can be read."""
        if self.password is not None:
            try:
                yield self.password.reveal(self.where)
            except InventoryError:
                return
