"""The interface of hash adapters, and what they share.

A platform has one setting that hashes all flows anew: a seed, or the choice of a hash function. A change goes
stage → apply → verify, and back by rollback, as one of a watermark does (``switches.base``): staging sets
nothing, and the ``StagedHash`` holds all that a later step needs, in another process too.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from switches.adapter import Waiting
from switches.device import Device
from switches.errors import CapabilityError, ConcurrentEditError, ReadBackError
from switches.hashing.values import SEEDS, HashReading, StagedHash


class HashAdapter:
    """The hash of one switch at the device's ``address``.

    Methods block and raise ``SwitchError`` only, as those of ``SwitchAdapter``.
    """

    setting: ClassVar[str]
    notes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, device: Device, *, waiting: Waiting | None = None) -> None:
        self.switch = device.name
        self._device = device
        self._waiting = waiting or Waiting()

    @abstractmethod
    def read(self) -> HashReading:
        """What the switch hashes by now."""

    @abstractmethod
    def _set(self, value: str | None, instead_of: str | None) -> None:
        """Sets it; where the platform can, only in place of ``instead_of``."""

    @abstractmethod
    def close(self) -> None:
        """Closes connections; the next call opens them anew."""

    def stage(self, value: str, change_id: str) -> StagedHash:
        """Raises ``CapabilityError`` for a value that the switch does not have."""
        now = self.read()
        seed = value.isdecimal() and str(int(value)) == value and int(value) < SEEDS
        if not (value in now.choices if now.choices else seed):
            rule = f"it is {', '.join(now.choices) or f'a whole number below {SEEDS}'}"
            raise CapabilityError(
                f"{self._device.where} {self.setting}", repr(value), rule, "name one of those"
            )
        notes = self.notes if value != now.value else ()
        return StagedHash(
            id=change_id, switch=self.switch, setting=self.setting, before=now.value, after=value, notes=notes
        )

    def apply(self, change: StagedHash) -> None:
        """Does nothing if it is made. Raises ``ConcurrentEditError`` where somebody else has set it since."""
        self._replace(change.before, change.after)

    def verify(self, change: StagedHash) -> HashReading:
        """Waits at most ``settle_s`` until the switch shows it; raises ``ReadBackError``."""
        return self._shown(change.after, "after applying, the switch hashes by what was set")

    def rollback(self, change: StagedHash) -> None:
        """Restores what was set before, and reads that back; raises as ``apply`` and ``verify``."""
        self._replace(change.after, change.before)
        self._shown(change.before, "after rolling back, the switch hashes by what it did before")

    def _configured(self) -> str | None:
        """What is set, where hardware may lag behind."""
        return self.read().value

    def _replace(self, old: str | None, new: str | None) -> None:
        now = self._configured()
        if now == new:
            return
        if now != old:
            raise self._foreign(now, old)
        self._set(new, old)

    def _foreign(self, now: str | None, old: str | None) -> ConcurrentEditError:
        rule = f"only what this change knows ({_text(old)}) is replaced"
        remedy = "find out who set it; stage again, or set it by hand"
        return ConcurrentEditError(f"{self._device.where} {self.setting}", _text(now), rule, remedy)

    def _shown(self, wanted: str | None, rule: str) -> HashReading:
        for _ in self._waiting.until(self._device.settle_s):
            found = self.read()
            if found.value == wanted:
                return found
        where = f"{self._device.where} {self.setting}"
        received = f"{_text(found.value)} in place of {_text(wanted)}"
        raise ReadBackError(where, received, rule, "check the switch's own log")


def _text(value: str | None) -> str:
    return "none of its own" if value is None else value
