"""A server of the webhook contract on loopback, behind a bearer token."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from switches.base import SwitchAdapter
from switches.device import Secret
from switches.webhook import WebhookAdapter
from tests.contract.rig import NEW_PORT, OTHER, REMOVED, UNREADABLE, Elsewhere, Hardware
from tests.contract.rigs.http import HttpRig
from tests.counterparts.switches.webhook_switch import NAME, OUTSIDE, TOKEN, WebhookSwitch
from twin.watermark import Watermark

_NO_CURVE = SimpleNamespace(kmin_bytes=900_000, kmax_bytes=700_000, pmax=0.9)


class WebhookRig(HttpRig):
    kind = "webhook"
    switch: WebhookSwitch

    def __init__(self, folder: Path) -> None:
        self.start()
        self._environment.setenv("ECNTWIN_TEST_TOKEN", TOKEN)
        self.switch = WebhookSwitch(self.first)

    def adapter(self, **device: Any) -> SwitchAdapter:
        described = self.device(
            device,
            name=NAME,
            address=self.switch.url,
            ports=("eth*",),
            username=None,
            password=None,
            token=Secret(env="ECNTWIN_TEST_TOKEN"),
        )
        return self.kept(WebhookAdapter(described, clock_ns=lambda: 7))

    def refused(self) -> SwitchAdapter | None:
        return self.adapter(token=Secret(env="ECNTWIN_TEST_WRONG"))

    def hardware(self) -> Hardware:
        assert self.switch.unexpected == []
        return self.switch.set_queues

    def bystanders(self) -> object:
        return {key: self.switch.queues[key] for key in OUTSIDE}

    def somebody_sets(self, watermark: Watermark, *, only_first: bool = False) -> None:
        for key in list(self.switch.set_queues)[: 1 if only_first else None]:
            self.switch.queues[key] = watermark

    def elsewhere(self) -> Elsewhere:
        def added(mark: Any) -> None:
            self.switch.queues["eth9", 3] = mark

        def removed() -> set[str]:
            del self.switch.queues["eth2", 3]
            return {"eth2"}

        return {
            UNREADABLE: lambda: added(_NO_CURVE),
            NEW_PORT: lambda: added(OTHER),
            REMOVED: removed,
        }

    def somebody_sets_no_watermark(self) -> bool:
        no_curve: Any = _NO_CURVE
        self.switch.queues["eth0", 3] = no_curve
        return True

    def starting(self) -> AbstractContextManager[None]:
        return self.unconfigured("queues")

    def applying_half(self) -> AbstractContextManager[None] | None:
        return self.fault("halving")


RIGS = (WebhookRig,)
