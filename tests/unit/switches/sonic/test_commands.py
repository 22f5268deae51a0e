"""The exact commands that reach redis, and the events that they make there."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from switches.sonic.redis_adapter import SonicAdapter
from tests.counterparts.switches.sonic_switch import SonicSwitch, wred_row
from twin.watermark import Watermark

MakeAdapter = Callable[..., SonicAdapter]

OLD = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)
OWN = "WRED_PROFILE|ECNTWIN_Q3_"
READS = {"SELECT", "CLIENT", "SCAN", "HGETALL", "HGET", "HMGET", "WATCH", "UNWATCH"}
QUEUES = ["QUEUE|Ethernet0|3", "QUEUE|Ethernet4|3", "QUEUE|Ethernet8|3"]


@contextmanager
def seen(switch: SonicSwitch) -> Iterator[list[list[str]]]:
    """The commands that clients over TCP send meanwhile: the stand-in uses the socket."""
    commands: list[list[str]] = []
    with switch.server.client(0) as asking, asking.monitor() as monitor:
        yield commands
        with switch.server.client(0) as marking:
            marking.echo("end")
        for heard in monitor.listen():
            if heard["command"].startswith("ECHO"):
                break
            if heard["client_type"] == "tcp":
                commands.append(shlex.split(heard["command"]))


@contextmanager
def events(switch: SonicSwitch) -> Iterator[Counter[tuple[str, str]]]:
    """How often each key of CONFIG_DB changed meanwhile, and how."""
    counted: Counter[tuple[str, str]] = Counter()
    space = f"__keyspace@{switch.databases[0]}__:"
    with switch.server.client(0) as asking, asking.pubsub() as listening:
        listening.psubscribe(f"{space}*")
        yield counted
        with switch.server.client(0) as marking:
            marking.publish(f"{space}end", "end")
        for heard in listening.listen():
            if heard["type"] == "pmessage":
                if heard["data"] == "end":
                    break
                counted[heard["channel"].removeprefix(space), heard["data"]] += 1


def writes(commands: list[list[str]]) -> list[list[str]]:
    return [command for command in commands if command[0].upper() not in READS]


def test_a_change_is_one_transaction_of_one_hset_a_row(switch: SonicSwitch, adapter: MakeAdapter) -> None:
    leaf = adapter()
    change = leaf.stage(NEW, "r1-a")
    with seen(switch) as commands, events(switch) as changed:
        leaf.apply(change)
    (own,) = (key for key, _ in changed if key.startswith(OWN))
    begun, profile, *bound, ended = writes(commands)
    assert (begun, ended) == (["MULTI"], ["EXEC"])
    assert profile[:2] == ["HSET", own]
    assert dict(zip(profile[2::2], profile[3::2], strict=True)) == wred_row(NEW)
    assert bound == [["HSET", key, "wred_profile", own.removeprefix("WRED_PROFILE|")] for key in QUEUES]
    assert changed == {(own, "hset"): 1} | {(key, "hset"): 1 for key in QUEUES}
    watched = {key for command in commands if command[0] == "WATCH" for key in command[1:]}
    assert watched == {own, "WRED_PROFILE|AZURE_LOSSLESS", *QUEUES}


def test_reading_and_staging_write_nothing(switch: SonicSwitch, adapter: MakeAdapter) -> None:
    leaf = adapter()
    with seen(switch) as commands:
        leaf.read()
        change = leaf.stage(NEW, "r1-a")
    assert commands
    assert writes(commands) == []
    with seen(switch) as commands:
        leaf.confirm(change)
        leaf.rollback(change)
    assert writes(commands) == []


def test_an_undo_binds_the_old_profile_and_then_removes_its_own(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    leaf = adapter()
    before = switch.config_db()
    change = leaf.stage(NEW, "r1-a")
    leaf.apply(change)
    leaf.verify(change)
    (own,) = set(switch.config_db()) - set(before)
    with seen(switch) as commands:
        leaf.rollback(change)
    assert writes(commands) == [
        ["MULTI"],
        *(["HSET", key, "wred_profile", "AZURE_LOSSLESS"] for key in QUEUES),
        ["EXEC"],
        ["MULTI"],
        ["DEL", own],
        ["EXEC"],
    ]
    assert switch.config_db() == before
    assert switch.log() == []


def test_a_profile_edited_in_place_is_one_hset_of_what_differs(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    leaf = adapter(queues=(3, 4), options={"own_profile": False})
    change = leaf.stage(Watermark(400_000, 800_000, 0.2), "r1-a")
    with seen(switch) as commands, events(switch) as changed:
        leaf.apply(change)
    begun, edited, ended = writes(commands)
    assert (begun, ended) == (["MULTI"], ["EXEC"])
    assert edited[:2] == ["HSET", "WRED_PROFILE|AZURE_LOSSLESS"]
    assert dict(zip(edited[2::2], edited[3::2], strict=True)) == {
        f"{colour}_max_threshold": "800000" for colour in ("green", "yellow", "red")
    }
    assert changed == {("WRED_PROFILE|AZURE_LOSSLESS", "hset"): 1}


def test_no_step_uses_a_command_that_stops_or_saves_a_switch(
    switch: SonicSwitch, adapter: MakeAdapter
) -> None:
    with seen(switch) as commands:
        leaf = adapter()
        change = leaf.stage(NEW, "r1-a")
        leaf.apply(change)
        leaf.verify(change)
        leaf.confirm(change)
        leaf.rollback(change)
    assert {command[0].upper() for command in commands} <= READS | {"MULTI", "EXEC", "HSET", "DEL"}


@pytest.mark.parametrize("queues", [(3,), (3, 4)])
def test_what_orchagent_hears_it_takes(
    switch: SonicSwitch, adapter: MakeAdapter, queues: tuple[int, ...]
) -> None:
    leaf = adapter(queues=queues)
    for number, asked in enumerate([NEW, Watermark(0, 2**31 - 1, 1.0), OLD]):
        change = leaf.stage(asked, f"r{number}-a")
        leaf.apply(change)
        leaf.verify(change)
    assert switch.log() == []
    assert set(switch.hardware(queues).values()) == {OLD}
