"""One incast is one alarm: the pauses of its switch, of those above it, and its deep queue."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from service.alarms.groups import MOST_LEFT, AlarmGroups, IncastSite, JoinedChange, incast_sites
from telemetry.alarms import Alarm, Change, Level, Subject
from telemetry.state import Incast, QueueRef, QueueState
from telemetry.topology import Host, Link, Topology

TOPOLOGY = Topology(
    hosts=tuple(Host(f"h{number}", f"10.0.0.{number}") for number in range(4)),
    switches=("leaf1", "leaf2", "spine1"),
    links=(
        Link("h0", "leaf1", b_port="e0", rate_gbps=100, delay_us=1),
        Link("h1", "leaf1", b_port="e1", rate_gbps=100, delay_us=1),
        Link("h2", "leaf2", b_port="e0", rate_gbps=100, delay_us=1),
        Link("h3", "leaf2", b_port="e1", rate_gbps=100, delay_us=1),
        Link("leaf1", "spine1", a_port="up", b_port="s1", rate_gbps=100, delay_us=1),
        Link("leaf2", "spine1", a_port="up", b_port="s2", rate_gbps=100, delay_us=1),
    ),
)
INCAST = IncastSite("h0", 3, "leaf1", "e0", TOPOLOGY)


def alarm(kind: str, of: str, since_s: float = 10.0, level: Level = Level.WARNING) -> Alarm:
    subject = Subject(kind, of, of.split()[0])
    return Alarm(subject, level, 1.0, 1.0, since_s, since_s, f"{of} is bad")


class World:
    def __init__(self) -> None:
        self.groups = AlarmGroups(keep=9)
        self.before: dict[Subject, Alarm] = {}

    def sees(self, *active: Alarm, incasts: tuple[IncastSite, ...] = ()) -> list[tuple[str, str]]:
        """What changed, and how many it is about."""
        now = {one.subject: one for one in active}
        ended = [
            Change("cleared", Alarm(*_fields(one), ended_s=99.0), one.level)
            for subject, one in self.before.items()
            if subject not in now
        ]
        self.before = now
        return [
            told(one) for one in self.groups.update(active, ended, incasts, lambda at_s: round(at_s * 1e9))
        ]


def _fields(one: Alarm) -> tuple[Any, ...]:
    return (one.subject, one.level, one.value, one.threshold, one.since_s, one.seen_s, one.sentence)


def told(change: JoinedChange) -> tuple[str, str]:
    return change.what, f"{len(change.alarm.members)} {change.alarm.kind}"


FRAMES = (alarm("pfc_frames", "leaf1 e1"), alarm("pfc_frames", "leaf1 up"))
QUEUE = alarm("ecn_off", "leaf1 e0 queue 3", level=Level.CRITICAL)
ABOVE = (alarm("pfc_storm", "spine1 s1"), alarm("pfc_frames", "spine1 s2"), alarm("pfc_storm", "leaf2 up"))
ELSEWHERE = (alarm("pfc_storm", "spine1 s2"), alarm("ecn_off", "leaf2 e0 queue 3"))


def test_all_that_an_incast_does_is_one_alarm_and_nothing_else_is_in_it() -> None:
    world = World()
    changes = world.sees(*FRAMES, QUEUE, *ABOVE, *ELSEWHERE, incasts=(INCAST,))
    assert sorted(changes) == [("raised", "1 ecn_off"), ("raised", "1 pfc_storm"), ("raised", "6 ecn_off")]
    one = world.groups.active[0]
    assert {member.subject for member in one.members} == {a.subject for a in (*FRAMES, QUEUE, *ABOVE)}
    assert (one.level, one.switch, one.lead.subject) == (Level.CRITICAL, "leaf1", QUEUE.subject)
    assert one.sentence == (
        "3 senders at once to h0 (incast): leaf1 e0 queue 3 is bad (and 5 more are in this alarm)"
    )


def test_an_incast_found_later_makes_one_of_those_that_it_explains() -> None:
    world = World()
    assert world.sees(*FRAMES, QUEUE) == [("raised", "2 pfc_frames"), ("raised", "1 ecn_off")]
    first = world.groups.active[1].id
    assert world.sees(*FRAMES, QUEUE, incasts=(INCAST,)) in (
        [("cleared", "1 ecn_off"), ("level", "3 ecn_off")],
        [("cleared", "2 pfc_frames"), ("members", "3 ecn_off")],
    )
    (one,) = world.groups.active
    (other,) = world.groups.ended
    assert {one.id, other.id} >= {first}
    assert other.why == f"it is part of alarm {one.id}: one incast is behind both"


def test_what_joined_stays_when_the_incast_is_over_and_more_of_its_kind_joins() -> None:
    world = World()
    world.sees(*FRAMES, incasts=(INCAST,))
    later = alarm("pfc_frames", "leaf1 e9", since_s=20.0)
    assert world.sees(*FRAMES, later) == [("members", "3 pfc_frames")]
    assert world.sees(later) == [("members", "1 pfc_frames")]
    assert world.sees() == [("cleared", "3 pfc_frames")]
    assert world.groups.ended[0].ended_s == 99.0


def test_two_incasts_are_two_alarms() -> None:
    world = World()
    other = IncastSite("h2", 3, "leaf2", "e0", TOPOLOGY)
    world.sees(*FRAMES, *ELSEWHERE, incasts=(INCAST, other))
    assert {(one.incast.receiver, len(one.members)) for one in world.groups.active if one.incast} == {
        ("h0", 2),
        ("h2", 2),
    }


def test_two_incasts_at_ports_of_one_switch_are_two_alarms_and_end_apart() -> None:
    world = World()
    beside = alarm("ecn_off", "leaf1 e1 queue 3")
    incasts = INCAST, IncastSite("h1", 3, "leaf1", "e1", TOPOLOGY)
    assert world.sees(QUEUE, incasts=incasts) == [("raised", "1 ecn_off")]
    assert world.sees(QUEUE, beside, *FRAMES, incasts=incasts) == [
        ("members", "3 ecn_off"),
        ("raised", "1 ecn_off"),
    ]
    assert world.sees(beside, incasts=incasts[1:]) == [("cleared", "3 ecn_off")]
    (left,) = world.groups.active
    assert left.incast == incasts[1]


def test_the_lead_stays_until_another_is_worse() -> None:
    world = World()
    first, second = FRAMES
    world.sees(second)
    world.sees(first, second)
    assert world.groups.active[0].lead == second
    worse = alarm("pfc_frames", "leaf1 e1", level=Level.CRITICAL)
    assert world.sees(worse, second) == [("level", "2 pfc_frames")]
    assert world.groups.active[0].lead == worse


def test_senders_without_end_do_not_fill_an_alarm() -> None:
    world = World()
    stays = Alarm(Subject("sequence_gaps", "sender a"), Level.WARNING, 1, 1, 0, 0, "lost")
    for number in range(MOST_LEFT + 5):
        other = Alarm(Subject("sequence_gaps", f"sender {number}"), Level.WARNING, 1, 1, 0, 0, "lost")
        world.sees(stays, other)
    world.sees()
    assert len(world.groups.ended[0].members) == MOST_LEFT


def queue(port: str, p99_bytes: float) -> QueueState:
    return QueueState(QueueRef("leaf1", port, 3), 500, p99_bytes / 2, p99_bytes, p99_bytes, 0.1, 1e9, None)


def test_an_incast_has_senders_and_a_queue_over_its_kmax() -> None:
    def receivers(*incast: Incast, kmax_bytes: int | None = 100_000) -> list[tuple[str, str]]:
        queues = [queue("e0", 200_000), queue("e1", 50_000), queue("up", 900_000)]
        state = SimpleNamespace(incast=incast, queues=queues, topology=TOPOLOGY)
        return [(one.receiver, one.port) for one in incast_sites(cast(Any, state), lambda ref: kmax_bytes)]

    many, few, shallow = Incast("h0", 3, 3), Incast("h0", 2, 9), Incast("h1", 8, 8)
    assert receivers(shallow, many) == [("h0", "e0")]
    assert receivers(few, shallow) == []
    assert receivers(shallow, many, kmax_bytes=None) == [("h0", "e0"), ("h1", "e1")]
