"""No secret reaches an error, a log at any level, a staged change or a reading, whatever happens."""

from __future__ import annotations

import base64
import logging
import os
import traceback
from collections.abc import Callable, Iterator

import msgspec
import pytest

from switches.base import StagedChange, SwitchAdapter
from switches.errors import SwitchError
from tests.contract.rig import Rig
from tests.contract.test_adapters import HIGHER, LOWER
from tests.counterparts.switches.http_switch import PASSWORD, USER
from tests.counterparts.switches.webhook_switch import TOKEN

SECRETS = ("right-password", "wrong-password", PASSWORD, TOKEN)


def forms(secret: str) -> Iterator[str]:
    yield secret
    yield repr(secret)[1:-1]
    yield base64.b64encode(f"{USER}:{secret}".encode()).decode()


class Told:
    """Everything that came out of an adapter: failures with their whole chain, changes, readings."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.failures = 0

    def note(self, *values: object) -> None:
        self.texts += [repr(value) for value in values]

    def trying(self, step: Callable[[], object]) -> None:
        try:
            self.note(step())
        except SwitchError as error:
            self.failures += 1
            self.texts += traceback.format_exception(error)


def every_step(adapter: SwitchAdapter, change: StagedChange, told: Told) -> None:
    for step in (
        adapter.read,
        lambda: adapter.stage(HIGHER, "r2-a"),
        lambda: adapter.apply(change),
        lambda: adapter.verify(change),
        lambda: adapter.confirm(change),
        lambda: adapter.rollback(change),
    ):
        told.trying(step)
    adapter.close()


def test_no_secret_is_told_to_anybody(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    if rig.kind != "lab":  # a lab knows no credentials
        assert set(SECRETS) & set(os.environ.values())
    told = Told()
    caplog.set_level(logging.DEBUG)
    adapter = rig.adapter()
    change = adapter.stage(LOWER, "r1-a")
    told.note(adapter.capabilities(), change, msgspec.json.encode(change), change.diff)
    every_step(adapter, change, told)
    assert told.failures == 0
    with rig.silent():
        every_step(rig.adapter(timeout_s=0.2, settle_s=0.2), change, told)
    with rig.losing_replies():
        every_step(rig.adapter(settle_s=0.2), change, told)
    rig.adapter().rollback(change)
    with rig.ignoring():
        every_step(rig.adapter(settle_s=0.2), change, told)
    refused = rig.refused()
    if refused is not None:
        every_step(refused, change, told)
    rig.somebody_sets(HIGHER)
    every_step(rig.adapter(settle_s=0.2), change, told)
    assert told.failures > 5
    everything = "\n".join([*told.texts, caplog.text]).splitlines()
    for form in {form for secret in SECRETS for form in forms(secret)}:
        assert [line for line in everything if form in line] == []
