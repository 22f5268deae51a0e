"""The lab's adapter: reads, sets and undoes over HTTP, and says in one sentence why it cannot."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from switches.base import QueueWatermark
from switches.device import Device
from switches.errors import ReadBackError, SwitchError, UnreachableError
from switches.lab import LabAdapter
from tests.unit.switches.labs import NEW, OLD, Lab
from twin.watermark import Watermark

URL = "http://127.0.0.1:9000"
LEAF1 = Device(name="leaf1", platform="lab", address=URL)
OTHER = Watermark(1_000, 2_000, 0.9)


def test_a_reading_is_what_every_queue_runs() -> None:
    reading = Lab().adapter().read()
    assert (reading.switch, reading.watermark, reading.read_ns) == ("leaf1", OLD, 7)
    assert [(queue.port, queue.queue) for queue in reading.queues] == [("Ethernet0", 3), ("Ethernet1", 3)]


def test_queues_that_differ_are_told_apart() -> None:
    lab = Lab(leaf1=("a", "b", "c"))
    lab.ports["leaf1"]["b"] = NEW
    reading = lab.adapter().read()
    assert reading.watermark is None
    assert reading.usual == OLD
    assert reading.queues[1] == QueueWatermark("b", 3, NEW)


def test_a_name_is_a_name_whatever_it_is_made_of() -> None:
    lab = Lab(**{"rack 1/leaf?": ("a",)})
    assert lab.adapter("rack 1/leaf?").read().watermark == OLD


def test_only_the_ports_of_the_inventory_are_read_and_set() -> None:
    lab = Lab(leaf1=("Ethernet0", "Ethernet1", "Ethernet8"))
    device = Device(name="leaf1", platform="lab", address=URL, ports=("Ethernet[01]",))
    adapter = LabAdapter(device, clock_ns=lambda: 7, transport=lab)
    adapter.apply(adapter.stage(NEW, "r1"))
    assert lab.ports["leaf1"] == {"Ethernet0": NEW, "Ethernet1": NEW, "Ethernet8": OLD}


def test_a_change_is_one_call_and_an_undo_one_for_each_watermark() -> None:
    lab = Lab(leaf1=("a", "b", "c"))
    lab.ports["leaf1"]["b"] = NEW
    adapter = lab.adapter()
    change = adapter.stage(OTHER, "r1")
    adapter.apply(change)
    assert lab.seen == [OTHER]
    adapter.rollback(change)
    assert sorted(lab.seen[1:]) == sorted([OLD, NEW])
    assert lab.ports["leaf1"] == {"a": OLD, "b": NEW, "c": OLD}


def test_an_undo_that_does_not_take_is_a_read_back_error() -> None:
    lab = Lab()
    adapter = lab.adapter()
    change = adapter.stage(NEW, "r1")
    adapter.apply(change)
    lab.deaf = True
    with pytest.raises(ReadBackError, match="after rolling back"):
        adapter.rollback(change)


@pytest.mark.parametrize(
    ("met", "says"),
    [
        (httpx.ConnectError("Connection refused"), "check that it is up, or correct the address"),
        (httpx.ConnectTimeout("slow"), "within 60 s"),
        (httpx.ReadTimeout("slow"), "within 60 s"),
        (httpx.RemoteProtocolError("peer closed connection"), "peer closed connection"),
        (httpx.ReadError(""), "ReadError"),
    ],
)
def test_a_lab_that_is_away_is_unreachable(met: Exception, says: str) -> None:
    lab = Lab()
    lab.away = met
    with pytest.raises(UnreachableError) as caught:
        lab.adapter().stage(NEW, "r1")
    assert says in str(caught.value)
    assert caught.value.where == "switch 'leaf1' (lab at http://127.0.0.1:9000)"


def test_nobody_listening_is_unreachable() -> None:
    with pytest.raises(UnreachableError, match="refused"):
        LabAdapter(replace(LEAF1, address="http://127.0.0.1:1"), clock_ns=lambda: 7).read()


def test_a_switch_the_lab_does_not_have_is_said_in_its_words() -> None:
    with pytest.raises(SwitchError, match=r"404 to GET /switches/spine9.*no such switch"):
        Lab().adapter("spine9").read()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b"\xff",
        b'{"queues": 3}',
        b'{"queues": [{"port": "a"}]}',
        b'{"queues": [{"port": "a", "queue": 3, "kmin_bytes": 9, "kmax_bytes": 5, "pmax": 0.1}]}',
    ],
)
def test_something_else_that_listens_there_is_found_out(answer: bytes) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=answer))
    adapter = LabAdapter(LEAF1, clock_ns=lambda: 7, transport=transport)
    with pytest.raises(SwitchError, match="cannot be read"):
        adapter.read()


@pytest.mark.parametrize("content", [b"", b"<html>no</html>", b"[]", b'{"detail": 3}'])
def test_an_error_answer_need_not_be_a_problem_document(content: bytes) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(500, content=content))
    adapter = LabAdapter(LEAF1, clock_ns=lambda: 7, transport=transport)
    with pytest.raises(SwitchError, match="500 to GET"):
        adapter.read()


def test_an_undo_of_which_no_port_is_left_is_tried_again() -> None:
    lab = Lab()
    adapter = lab.adapter()
    change = adapter.stage(NEW, "r1")
    adapter.apply(change)
    lab.ports["leaf1"] = {}
    with pytest.raises(ReadBackError, match="none of them"):
        adapter.rollback(change)
    assert lab.ports["leaf1"] == {}
