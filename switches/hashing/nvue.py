"""The hash seed of Cumulus Linux, over NVUE's REST API.

``nv set system forwarding hash-seed``, from 0 to 4294967295; without one switchd draws a seed at random
("Unique Hash Seed" of the page "Equal Cost Multipath Load Sharing", Cumulus Linux 5.9). The path in the API
follows from the command tree.
"""

from __future__ import annotations

from switches.adapter import Waiting
from switches.device import Device
from switches.hashing.base import HashAdapter
from switches.hashing.values import HashReading
from switches.nvue import NvueSession
from switches.transport.http import needs_password

_PATH = "/system/forwarding"
_ON = ("on", "enabled")  # by release


class NvueHash(HashAdapter):
    setting = "system forwarding hash-seed"
    notes = (
        "switchd may restart and interrupt traffic; without a seed, a switch draws another one each time",
    )

    def __init__(self, device: Device, *, waiting: Waiting | None = None) -> None:
        needs_password(device)
        super().__init__(device, waiting=waiting)
        self._session = NvueSession(device, waiting=self._waiting)

    def read(self) -> HashReading:
        set_here = self._session.show("/system", "applied", filled=False).get("forwarding", {})
        fields = self._session.show(_PATH, "applied").get("ecmp-hash")
        seed = set_here.get("hash-seed")
        return HashReading(
            setting=self.setting,
            value=None if seed is None else str(seed),
            fields=None if fields is None else tuple(name for name, on in fields.items() if on in _ON),
            notes=self.notes,
        )

    def close(self) -> None:
        self._session.close()

    def _configured(self) -> str | None:
        self._session.wait_until_quiet()  # a revision of ours, whose answer was lost, may be on its way
        return self.read().value

    def _set(self, value: str | None, instead_of: str | None) -> None:
        self._session.apply(_PATH, {"hash-seed": None if value is None else int(value)})
