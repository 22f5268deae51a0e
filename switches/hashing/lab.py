"""The ECMP seed of a switch of a running lab, over its HTTP control interface."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import msgspec

from switches.device import Device
from switches.errors import unreadable
from switches.hashing.base import HashAdapter
from switches.hashing.values import HashReading
from switches.transport.http import HttpSession


class _Switch(msgspec.Struct, frozen=True):
    ecmp_seed: int | None


class LabHash(HashAdapter):
    setting = "ecmp-seed"

    def __init__(self, device: Device, *, transport: httpx.BaseTransport | None = None) -> None:
        super().__init__(device)
        self._path = f"/switches/{quote(device.name, safe='')}"
        self._session = HttpSession(device, device.address, keep_alive=False, transport=transport)

    def read(self) -> HashReading:
        answer = self._session.call("GET", self._path)
        try:
            seed = answer.json(_Switch).ecmp_seed
        except ValueError as error:
            raise unreadable(
                self._device.where, error, "a lab answers with the seed of its switch"
            ) from error
        return HashReading(setting=self.setting, value=None if seed is None else str(seed))

    def close(self) -> None:
        self._session.close()

    def _set(self, value: str | None, instead_of: str | None) -> None:
        seed = None if value is None else int(value)
        self._session.call("PUT", f"{self._path}/ecmp-seed", json={"seed": seed})
