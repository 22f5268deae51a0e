"""Whatever a switch's HTTP server answers, a reading is a reading or a ``SwitchError``."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switches.adapter import Waiting
from switches.base import Reading
from switches.cli.eos import EosAdapter
from switches.cli.nxos import NxosAdapter
from switches.device import Device, Secret
from switches.errors import SwitchError
from switches.lab import LabAdapter
from switches.nvue import NvueAdapter
from switches.webhook import WebhookAdapter
from twin.watermark import Watermark

ADAPTERS: dict[str, Any] = {
    "eos": EosAdapter,
    "lab": LabAdapter,
    "nvue": NvueAdapter,
    "nxos": NxosAdapter,
    "webhook": WebhookAdapter,
}
WORDS = [
    "3",
    "1",
    "body",
    "clierror",
    "code",
    "data",
    "detail",
    "ecn",
    "error",
    "errors",
    "ins_api",
    "input",
    "issue",
    "kmax_bytes",
    "kmin_bytes",
    "max-threshold",
    "message",
    "min-threshold",
    "msg",
    "output",
    "outputs",
    "pmax",
    "port",
    "probability",
    "queue",
    "queues",
    "result",
    "sessions",
    "state",
    "transition",
]
LINES = (
    "qos profile P",
    "   uc-tx-queue 3",
    "      random-detect ecn minimum-threshold 1 kbytes maximum-threshold 2 kbytes max-mark-probability 5",
    "interface Ethernet1",
    "   service-profile P",
    "policy-map type queuing P",
    "  class type queuing c-out-8q-q3",
    "    random-detect minimum-threshold 9 kbytes maximum-threshold 2 kbytes drop-probability 7 weight 0 ecn",
    "    random-detect threshold burst-optimized ecn",
    "system qos",
    "  service-policy type queuing output P",
)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["200", "enable", "on", "disable", "3", "pending", "applied"])
    | st.lists(st.sampled_from(LINES), max_size=8).map("\n".join)
    | st.text(max_size=20)
)
answers = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=30,
)


def answer_of(kind: str, value: Any) -> Any:
    """The value where the platform looks for its outputs."""
    if kind == "eos":
        return {"result": [{}, *({"output": one} for one in value)]} if isinstance(value, list) else value
    if kind == "nxos":
        return {"ins_api": {"outputs": {"output": {"code": "200", "body": value}}}}
    return value


@pytest.mark.parametrize("kind", ADAPTERS)
@given(value=answers, whole=st.booleans(), status=st.sampled_from([200, 200, 200, 400, 500]))
def test_any_json_is_a_reading_or_an_error(kind: str, value: Any, whole: bool, status: int) -> None:
    content = json.dumps(value if whole else answer_of(kind, value)).encode()
    answered(kind, status, content)


@pytest.mark.parametrize("kind", ADAPTERS)
@pytest.mark.parametrize(
    "content", [b"", b"<html>", b"\xff\xfe", b"[" * 100_000, b'{"queues":' * 50_000, b"1" * 5_000]
)
def test_what_is_no_json_is_an_error(kind: str, content: bytes) -> None:
    answered(kind, 200, content)
    answered(kind, 500, content)


def answered(kind: str, status: int, content: bytes) -> None:
    """Reads and stages over a switch that gives every call this answer."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SOME_SECRET", "s3cret")
        device = Device(
            name="leaf1",
            platform=kind,
            address="http://127.0.0.1:9",
            username=Secret(env="SOME_SECRET"),
            password=Secret(env="SOME_SECRET"),
        )
        transport = httpx.MockTransport(
            lambda _: httpx.Response(status, content=content, headers={"content-type": "text/plain"})
        )
        over = iter(range(10**6))
        given_waiting = (
            {"waiting": Waiting(lambda: 100.0 * next(over), lambda _: None)}
            if kind in ("nvue", "webhook")
            else {}
        )
        adapter = ADAPTERS[kind](device, clock_ns=lambda: 7, transport=transport, **given_waiting)
        with suppress(SwitchError):
            assert isinstance(adapter.read(), Reading)
        with suppress(SwitchError):
            change = adapter.stage(Watermark(1000, 2000, 0.5), "r1")
            adapter.apply(change)
            adapter.rollback(change)


@pytest.mark.parametrize("data", [None, 5, "no", [5], [{"errors": 5}], [{"errors": ["why"]}]])
def test_eapis_reasons_may_have_any_form(data: Any) -> None:
    error = {"code": 1002, "message": "invalid command", "data": data}
    answered("eos", 200, json.dumps({"error": error}).encode())
