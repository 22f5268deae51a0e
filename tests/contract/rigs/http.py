"""What the rigs of the HTTP platforms have in common; it has no rig of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from switches.base import SwitchAdapter
from switches.device import Device, Secret
from tests.contract.rig import PATIENT, Rig, fault
from tests.counterparts.switches.eos_switch import EosSwitch
from tests.counterparts.switches.http_switch import named_credentials
from tests.counterparts.switches.nvue_switch import NvueSwitch
from tests.counterparts.switches.nxos_switch import NxosSwitch
from tests.counterparts.switches.webhook_switch import WebhookSwitch


class HttpRig(Rig):
    """A rig whose switch is an HTTP server that keeps a list of what it did not expect."""

    switch: EosSwitch | NvueSwitch | NxosSwitch | WebhookSwitch

    def start(self) -> None:
        self._made: list[SwitchAdapter] = []
        self._environment = pytest.MonkeyPatch()
        self._credentials = named_credentials(self._environment)
        self._environment.setenv("ECNTWIN_TEST_WRONG", "wrong-password")

    def close(self) -> None:
        self.let_go()
        self._environment.undo()
        self.switch.close()

    def reset(self) -> None:
        self.let_go()
        self.switch.reset(self.first)

    def history(self) -> list[tuple[int, int]]:
        return self.switch.history

    def let_go(self) -> None:
        """Ends the adapters' connections, and holds the test to what the switch expected."""
        while self._made:
            self._made.pop().close()
        assert self.switch.unexpected == []

    def kept(self, adapter: SwitchAdapter) -> SwitchAdapter:
        self._made.append(adapter)
        return adapter

    def device(self, device: dict[str, Any], **usual: Any) -> Device:
        return Device(platform=self.kind, **(PATIENT | self._credentials | usual | device))

    def refused(self) -> SwitchAdapter | None:
        return self.adapter(password=Secret(env="ECNTWIN_TEST_WRONG"))

    def silent(self) -> AbstractContextManager[None]:
        return self.switch.silent()

    def losing_replies(self) -> AbstractContextManager[None]:
        return self.switch.losing_replies()

    def ignoring(self) -> AbstractContextManager[None]:
        return self.fault("ignoring")

    @contextmanager
    def unconfigured(self, name: str) -> Iterator[None]:
        """While inside, the switch's table of that name is empty."""
        configured = getattr(self.switch, name)
        setattr(self.switch, name, {})
        try:
            yield
        finally:
            setattr(self.switch, name, configured)

    def fault(self, name: str) -> AbstractContextManager[None]:
        return fault(self.switch, name)
