"""What binary reports tell besides traffic: who lost what, who dropped what, who speaks in strange units."""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from service.ingest import p4_reports
from service.ingest.p4_reports import DATAGRAMS_AT_ONCE, MOST_DROP_PLACES, BinaryReports
from service.ingest.senders import FORGOTTEN_AFTER_S, MOST_SENDERS, MOST_UNTUNED, UntunedDevices
from service.metrics import OTHERS, BinaryMetrics
from service.network_metrics import MOST_STRANGERS
from settings.telemetry import IntSettings
from telemetry.decode.p4.assemble import P4Reports
from telemetry.decode.p4.devices import Devices, UnitProfile
from telemetry.decode.p4.sequence import Sender, SequenceCounts
from telemetry.encode.p4 import datagram_v2
from telemetry.state import FlowKey
from tests.counterparts.p4_reports import PAYLOADS
from tests.counterparts.p4_writer import InnerType, Metadata, base_transport, packet, report_v2

FLOW = FlowKey("10.0.0.1", "10.0.0.2", 49152, 4791, 17)
DEVICES = Devices({1: "leaf1", 2: "leaf2"}, profiles={1: UnitProfile("cells", 80)}, sources={"192.0.2.1": 1})
QUEUE_TOLD = Metadata(layer1=(9, 17), queue=(3, 10))


class Made:
    """Reports under test, and their metrics."""

    def __init__(self, settings: IntSettings | None = None, devices: Devices = DEVICES) -> None:
        self.registry = CollectorRegistry()
        self.now_s = 100.0
        self.reports = BinaryReports(
            settings or IntSettings(),
            devices,
            metrics=BinaryMetrics(self.registry),
            clock_s=lambda: self.now_s,
        )

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def labels(self, name: str, label: str) -> set[str]:
        found = (sample for family in self.registry.collect() for sample in family.samples)
        return {sample.labels[label] for sample in found if sample.name == name}


def report(told: Metadata = QUEUE_TOLD, *, flags: int = 2, number: int = 1, hop_limit: int = 64) -> bytes:
    inner = packet(FLOW, base_transport(5, number), packet_bytes=1_096, hop_limit=hop_limit)
    return report_v2(told, flags=flags, inner=inner, inner_type=InnerType.IPV4)


def dropped(queue: int, reason: int = 71, port: int = 17) -> bytes:
    return report(Metadata(layer1=(9, port), drop=(queue, reason)), flags=8)


def sent(node: int, *sequences: int, hardware: int = 0) -> list[bytes]:
    return [datagram_v2(node, hardware, sequence, [report()]) for sequence in sequences]


def old(sequence: int, *, switch_id: int | None = None) -> bytes:
    """A report of v0.5, as it is or with a switch-local header."""
    inner = packet(FLOW, b"", packet_bytes=200, ethernet=True)
    kind, own = (0, b"") if switch_id is None else (2, struct.pack(">IHHII", switch_id, 9, 17, 3 << 24, 0))
    return struct.pack(">III", kind << 24 | 0x20_0000, sequence, 1_000) + own + inner


def test_a_batch_is_what_a_window_takes_and_drops_are_not_in_it() -> None:
    made = Made()
    payload = datagram_v2(1, 0, 1, [report(), dropped(3), report(), dropped(3), dropped(4, 9)])
    decoded = made.reports.decode([payload], 1_000)
    assert (len(decoded.batch), decoded.aside, decoded.errors) == (2, 3, ())
    assert decoded.batch.queue_bytes.tolist() == [800.0, 800.0]
    assert made.metric("ecntwin_int_drop_reports_total", switch="leaf1", queue="3") == 2
    assert made.metric("ecntwin_int_drop_reports_total", switch="leaf1", queue="4") == 1


def test_each_sender_counts_for_itself_and_a_late_datagram_is_lost_no_more() -> None:
    made = Made()
    made.reports.decode([*sent(1, 5, 8), *sent(2, 1, 2), *sent(1, 100, hardware=7)], 0)
    made.reports.decode(sent(1, 7), 0)
    assert made.reports.sequence_counts() == {
        Sender(1, 0, 2): SequenceCounts(3, lost=1, late=1),
        Sender(2, 0, 2): SequenceCounts(2),
        Sender(1, 7, 2): SequenceCounts(1),
    }
    assert made.metric("ecntwin_int_datagrams_lost", switch="leaf1") == 1
    assert made.metric("ecntwin_int_datagrams_total", switch="leaf1") == 4
    made.reports.decode(sent(1, 3_000_000), 0)
    assert made.metric("ecntwin_int_sender_restarts_total", switch="leaf1") == 1


def test_reports_of_v05_share_a_sequence_by_where_they_come_from() -> None:
    made = Made()
    payloads = [old(1), old(2, switch_id=1), old(3), old(9)]
    made.reports.decode(payloads, 0, ["192.0.2.1", "192.0.2.1", "192.0.2.1", "198.51.100.1"])
    counts = made.reports.sequence_counts()
    assert counts == {
        Sender(-1, 0, 0, "192.0.2.1"): SequenceCounts(3),
        Sender(-1, 0, 0, "198.51.100.1"): SequenceCounts(1),
    }
    assert [made.reports.name(sender) for sender in counts] == ["leaf1", "198.51.100.1"]


def test_of_reports_of_v05_without_an_address_no_sequence_is_watched() -> None:
    made = Made()
    made.reports.decode([old(1), old(900)], 0)
    assert made.reports.sequence_counts() == {}
    assert made.metric("ecntwin_int_datagrams_total", switch="unknown") == 2


def test_a_report_of_v05_is_that_of_the_switch_with_its_address() -> None:
    made = Made()
    batch = made.reports.decode([old(1), old(1)], 0, ["192.0.2.1", "198.51.100.1"]).batch
    assert [batch.sites[number].switch for number in batch.hop_site.tolist()] == ["leaf1", None]


def test_flags_are_counted_by_sender() -> None:
    made = Made()
    both = datagram_v2(1, 0, 0, [report(flags=4 | 2), report(flags=1), report(flags=0)])
    made.reports.decode([both, *sent(2, 1)], 0)
    found = {
        (switch, flag): made.metric("ecntwin_int_flagged_reports_total", switch=switch, flag=flag)
        for switch in ("leaf1", "leaf2")
        for flag in ("congested_queue", "tracked_flow", "intermediate")
    }
    assert found == {
        ("leaf1", "congested_queue"): 1,
        ("leaf1", "tracked_flow"): 1,
        ("leaf1", "intermediate"): 1,
        ("leaf2", "congested_queue"): None,
        ("leaf2", "tracked_flow"): 1,
        ("leaf2", "intermediate"): None,
    }


def test_devices_without_units_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    made = Made()
    for _ in range(3):
        made.reports.decode([*sent(1, 1), *sent(2, 1), *sent(77, 1)], 0)
    assert made.reports.untuned == ("77", "leaf2")
    assert len([one for one in caplog.messages if "leaf2" in one]) == 1
    assert made.metric("ecntwin_int_untuned", switch="leaf2") == 1
    assert made.metric("ecntwin_int_untuned", switch="leaf1") is None


def test_what_strangers_can_make_it_remember_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    made = Made(devices=Devices({10**9 + n: f"leaf{n}" for n in range(300)}))
    nodes = [one for node in range(MOST_SENDERS + 10) for one in sent(node, 1)]
    made.reports.decode(nodes, 0)
    made.reports.decode(sent(10**9 + 299, 1), 0)
    assert len(made.reports.sequence_counts()) == MOST_SENDERS
    assert len(made.reports.untuned) == MOST_UNTUNED + 1
    assert "leaf299" in made.reports.untuned  # the inventory's have room however many strangers there were
    assert len(caplog.messages) == MOST_UNTUNED + 1
    labels = made.labels("ecntwin_int_datagrams_total", "switch")
    assert len(labels) == MOST_STRANGERS + 2
    assert {OTHERS, "leaf299"} <= labels  # the inventory's are told apart however many strangers there were


def test_a_stranger_that_is_heard_no_more_is_forgotten_and_makes_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = Made()
    made.reports.decode(sent(2, 1), 0)
    made.reports.decode([one for node in range(100, 100 + MOST_UNTUNED) for one in sent(node, 1)], 0)
    made.now_s += FORGOTTEN_AFTER_S / 2
    made.reports.decode([*sent(100, 2), *sent(7, 1)], 0)
    assert "7" not in made.reports.untuned
    made.now_s += FORGOTTEN_AFTER_S / 2 + 1
    assert set(made.reports.untuned) == {"100", "leaf2"}
    assert made.metric("ecntwin_int_untuned", switch="101") == 0
    made.reports.decode([one for node in range(7, 9) for one in sent(node, 2)], 0)
    assert set(made.reports.untuned) == {"100", "7", "8", "leaf2"}
    assert len(caplog.messages) == 1 + MOST_UNTUNED + 1  # strangers without end do not fill the log


def test_queues_that_strangers_invent_do_not_fill_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 400
    monkeypatch.setattr(p4_reports, "MOST_DROP_PLACES", most)
    made = Made()
    every = [
        datagram_v2(1_000 + at, 0, 1, [dropped(queue) for queue in range(100)])
        for at in range(most // 100 + 2)
    ]
    made.reports.decode(every, 0)
    made.reports.decode([datagram_v2(1, 0, 1, [dropped(3)])], 0)
    samples = made.registry.collect()
    queues = [
        (one.labels["switch"], one.labels["queue"])
        for family in samples
        for one in family.samples
        if one.name == "ecntwin_int_drop_reports_total"
    ]
    assert len(queues) <= most + 3
    assert made.metric("ecntwin_int_drop_reports_total", switch="leaf1", queue="3") == 1


def test_places_of_drops_are_bounded() -> None:
    made = Made()
    every = [
        datagram_v2(1, 0, at, [dropped(queue, port=at) for queue in range(100)])
        for at in range(MOST_DROP_PLACES // 100 + 1)
    ]
    made.reports.decode(every, 0)
    assert len(made.reports._drop_places) == MOST_DROP_PLACES
    for queue in range(100):
        assert made.metric("ecntwin_int_drop_reports_total", switch="leaf1", queue=f"{queue}") == len(every)


def test_nothing_is_lost_where_nothing_came() -> None:
    made = Made(IntSettings(merge_postcards_s=0.01))
    decoded = made.reports.decode([], 0)
    assert (len(decoded.batch), decoded.errors) == (0, ())


def test_counts_may_be_asked_while_others_come_in() -> None:
    made = Made()
    payloads = [one for node in range(500) for one in sent(node, 1, 3)]
    failures: list[BaseException] = []
    ended = threading.Event()

    def ask() -> None:
        try:
            while not ended.is_set():
                assert all(count.received for count in made.reports.sequence_counts().values())
                assert made.reports.untuned is not None
        except BaseException as error:
            failures.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    for _ in range(5):
        made.reports.decode(payloads, 0)
    ended.set()
    asking.join()
    assert failures == []


def postcards(*numbers: int, nodes: Sequence[int] = (1, 2)) -> list[bytes]:
    """What each of the nodes sends of the packets of these numbers."""
    return [
        datagram_v2(node, 0, number, [report(number=number, hop_limit=64 - hop)])
        for number in numbers
        for hop, node in enumerate(nodes)
    ]


def test_postcards_wait_for_each_other_and_become_a_path() -> None:
    made = Made(IntSettings(merge_postcards_s=0.01))
    first = made.reports.decode(postcards(1, 2), 1_000_000_000)
    assert (len(first.batch), first.aside, made.reports.pending) == (0, 4, 4)
    due = made.reports.due(1_050_000_000)
    assert due.batch.hop_count.tolist() == [2, 2]
    assert (due.aside, due.accepted_before) == (-2, True)
    assert made.reports.pending == 0
    assert made.metric("ecntwin_int_postcards_total", outcome="merged") == 4


def test_a_capture_of_postcards_is_merged_at_once_by_its_own_times() -> None:
    made = Made(IntSettings(merge_postcards_s=0.01))
    payloads = postcards(*range(50))
    times = np.repeat(np.arange(50) * 1_000_000, 2)
    decoded = made.reports.decode_capture(payloads, times, ["192.0.2.1"] * 100)
    assert decoded.batch.hop_count.tolist() == [2] * 50
    assert (decoded.aside, made.reports.pending) == (50, 0)
    assert np.sort(decoded.batch.ts_ns).tolist() == (np.arange(50) * 1_000_000).tolist()
    # Each path is named by the first of its reports in the body.
    assert (decoded.batch.index * 500_000).tolist() == decoded.batch.ts_ns.tolist()


def test_live_datagrams_wait_for_no_whole_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the parts of a capture the decoder is free, merged or not."""
    made = Made(IntSettings(merge_postcards_s=0.01))
    read, taken = made.reports._decoder.decode, []

    def decode(payloads: Sequence[bytes], *others: Any) -> P4Reports:
        taken.append(len(payloads))
        assert made.reports._decoding.locked()
        return read(payloads, *others)

    monkeypatch.setattr(made.reports._decoder, "decode", decode)
    payloads = [*postcards(*range(1_500)), b"\x90"]
    times = np.append(np.repeat(np.arange(1_500)[::-1] * 1_000_000, 2), 3_000_000)
    decoded = made.reports.decode_capture(payloads, times, ["192.0.2.1"] * len(payloads))
    assert taken == [DATAGRAMS_AT_ONCE, DATAGRAMS_AT_ONCE, len(payloads) - 2 * DATAGRAMS_AT_ONCE]
    assert decoded.batch.hop_count.tolist() == [2] * 1_500
    assert np.sort(decoded.batch.ts_ns).tolist() == (np.arange(1_500) * 1_000_000).tolist()
    assert decoded.aside == 1_500
    ((index, detail),) = [(problem.index, problem.detail) for problem in decoded.errors]
    assert (index, detail.partition(":")[0]) == (3_000, "datagram 3000 byte 0")


def test_reports_stay_as_they_are_unless_merging_is_wanted() -> None:
    made = Made()
    decoded = made.reports.decode(postcards(1), 0)
    assert (len(decoded.batch), decoded.aside, made.reports.pending) == (2, 0, 0)


def test_the_published_vectors(caplog: pytest.LogCaptureFixture) -> None:
    made = Made(devices=Devices({0x0A000001: "leaf1"}))
    decoded = made.reports.decode(list(PAYLOADS.values()), 0)
    assert (len(decoded.batch), decoded.aside, decoded.errors) == (8, 2, ())
    assert made.metric("ecntwin_int_drop_reports_total", switch="leaf1", queue="3") == 2
    assert made.reports.untuned == ("1", "2", "3", "4", "leaf1")


def test_the_settings_tell_what_a_source_alone_adds() -> None:
    known = IntSettings.model_validate({"source_only_bytes": {"4660": 8}}).marks().source_only_bytes
    assert known == {0x1234: 8, 0x5453: 8}
    with pytest.raises(ValueError, match="multiple of 4"):
        IntSettings(source_only_bytes={1: 6})


def test_strangers_are_looked_through_once_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends makes up node ids: to look through those known for each takes far too long."""
    made, looked = Made(), []
    forget = UntunedDevices._forget
    monkeypatch.setattr(UntunedDevices, "_forget", lambda devices: looked.append(1) or forget(devices))
    made.reports.decode([one for node in range(10, 2 * MOST_UNTUNED + 10) for one in sent(node, 1)], 0)
    assert len(made.reports.untuned) == MOST_UNTUNED
    assert len(looked) == 2
