"""The lab's adapter: reads, sets and undoes over HTTP, and says in one sentence why it cannot."""

from __future__ import annotations

import httpx
import pytest

from switches.base import QueueWatermark
from switches.errors import ReadBackError, StageError, SwitchError, UnreachableError
from switches.lab import LabFabric
from switches.push import push
from tests.unit.switches.labs import NEW, OLD, Lab


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


def test_a_change_is_staged_set_and_read_back() -> None:
    lab = Lab()
    adapter = lab.adapter()
    change = adapter.stage(NEW)
    assert lab.ports["leaf1"]["Ethernet0"] == OLD
    assert "-kmin_bytes: 400000\n" in change.diff
    assert "+kmin_bytes: 50000\n" in change.diff
    adapter.apply(change)
    assert adapter.verify(change).watermark == NEW
    adapter.rollback(change)
    assert set(lab.ports["leaf1"].values()) == {OLD}


def test_queues_that_differed_are_put_back_one_by_one() -> None:
    lab = Lab(leaf1=("a", "b", "c"))
    lab.ports["leaf1"]["b"] = NEW
    before = dict(lab.ports["leaf1"])
    adapter = lab.adapter()
    change = adapter.stage(NEW)
    assert change.before is None
    assert "-a/3 kmin_bytes: 400000" in change.diff
    assert "-b/3" not in change.diff
    adapter.apply(change)
    assert set(lab.ports["leaf1"].values()) == {NEW}
    adapter.rollback(change)
    assert lab.ports["leaf1"] == before


def test_a_set_that_did_not_take_is_a_read_back_error() -> None:
    lab = Lab()
    adapter = lab.adapter()
    change = adapter.stage(NEW)
    lab.deaf = True
    adapter.apply(change)
    with pytest.raises(ReadBackError, match="every queue must run Kmin 50000"):
        adapter.verify(change)


def test_only_what_was_staged_last_is_applied() -> None:
    adapter = Lab().adapter()
    first = adapter.stage(NEW)
    adapter.stage(OLD)
    for act in (adapter.apply, adapter.rollback):
        with pytest.raises(StageError, match="stage it again"):
            act(first)


@pytest.mark.parametrize(
    ("met", "says"),
    [
        (httpx.ConnectError("Connection refused"), "start the lab there, or correct push.lab_url"),
        (httpx.ConnectTimeout("slow"), "no answer within 2 s"),
        (httpx.ReadTimeout("slow"), "no answer within 2 s"),
        (httpx.RemoteProtocolError("peer closed connection"), "peer closed connection"),
        (httpx.ReadError(""), "ReadError"),
    ],
)
def test_a_lab_that_is_away_is_unreachable(met: Exception, says: str) -> None:
    lab = Lab()
    lab.away = met
    with pytest.raises(UnreachableError) as caught:
        lab.adapter().stage(NEW)
    assert says in str(caught.value)
    assert caught.value.where == "switch 'leaf1' (lab at http://127.0.0.1:9000)"


def test_nobody_listening_is_unreachable() -> None:
    with pytest.raises(UnreachableError, match="refused"):
        LabFabric("http://127.0.0.1:1")("leaf1", None, clock_ns=lambda: 7).read()


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
    adapter = LabFabric("http://127.0.0.1:9000", transport=transport)("leaf1", None, clock_ns=lambda: 7)
    with pytest.raises(SwitchError, match="cannot be read"):
        adapter.read()


@pytest.mark.parametrize("content", [b"", b"<html>no</html>", b"[]", b'{"detail": 3}'])
def test_an_error_answer_need_not_be_a_problem_document(content: bytes) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(500, content=content))
    adapter = LabFabric("http://127.0.0.1:9000", transport=transport)("leaf1", None, clock_ns=lambda: 7)
    with pytest.raises(SwitchError, match="500 to GET"):
        adapter.read()


def test_nothing_is_set_anywhere_where_one_switch_is_away() -> None:
    here, away = Lab(), Lab()
    away.away = httpx.ConnectError("refused")
    with pytest.raises(UnreachableError):
        push([here.adapter(), away.adapter()], NEW)
    assert not any(call.startswith("PUT") for call in here.calls)


def test_a_lab_that_dies_between_two_sets_is_undone_as_far_as_it_goes() -> None:
    here, dying = Lab(), Lab()

    class Dying(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.method == "PUT":
                dying.away = httpx.ConnectError("refused")
            return dying.handle_request(request)

    gone = LabFabric("http://127.0.0.1:9001", transport=Dying())("leaf2", None, clock_ns=lambda: 7)
    dying.ports["leaf2"] = dict(dying.ports["leaf1"])
    with pytest.raises(UnreachableError) as caught:
        push([here.adapter(), gone], NEW)
    assert set(here.ports["leaf1"].values()) == {OLD}
    assert any("not undone" in note and "leaf2" in note for note in caught.value.__notes__)
