from __future__ import annotations

import asyncio
import math

import pytest

from nics.base import Reading
from service.nics.polling import NicPolling
from switches.errors import InventoryError, UnreachableError
from tests.unit.nics.sysfs import DEFAULTS
from tests.unit.service.nics.making import Hosts, nic, reading
from tests.unit.service.tuning.rounds import ask
from twin.senders.dcqcn import PAPER, VENDOR

pytestmark = pytest.mark.anyio

OTHER = {**DEFAULTS, "rpg_ai_rate": 50}
AWAY = UnreachableError("host 'a'", None, "a host answers in time", "check that it is up")


async def test_a_round_takes_what_the_nics_run() -> None:
    hosts = Hosts("a", "b")
    before = hosts.polling.asked(ask(0.1))
    assert before.fabric.dcqcn == PAPER
    assert "known of no host" in before.notes[0]
    await hosts.read()
    after = hosts.polling.asked(ask(0.1))
    assert after.fabric.dcqcn == VENDOR
    assert after.notes == ()
    await hosts.polling.stop()
    assert all(one.closed for one in hosts.adapters.values())


async def test_a_host_that_fails_keeps_what_it_ran_and_is_told() -> None:
    hosts = Hosts("a", "b")
    await hosts.read()
    hosts.adapters["a"].now = AWAY
    await hosts.read()
    assert hosts.polling.known("a").reading is not None
    assert hosts.polling.senders.params == VENDOR
    assert hosts.polling.failing() == {"a": f"The NICs of a cannot be read: {AWAY}"}
    assert hosts.metric("nic_hosts_unread") == 1
    assert hosts.metric("nic_read_failures_total", adapter="connectx", reason="unreachable") == 1
    hosts.adapters["a"].now = reading("a")
    await hosts.read()
    assert not hosts.polling.failing()
    assert hosts.metric("nic_hosts_unread") == 0
    await hosts.polling.stop()


async def test_a_bug_in_an_adapter_is_a_failure_of_its_host() -> None:
    hosts = Hosts("a", "b")
    hosts.adapters["a"].now = ZeroDivisionError("secret words")
    await hosts.read()
    (sentence,) = hosts.polling.failing().values()
    assert "ZeroDivisionError" in sentence
    assert "secret words" not in sentence
    assert hosts.polling.senders.params == VENDOR
    await hosts.polling.stop()


async def test_what_fails_over_a_reading_does_not_end_the_polling() -> None:
    hosts = Hosts("a", every_s=0.0)
    heard, again = 0, asyncio.Event()

    def on_reading(_: Reading) -> None:
        nonlocal heard
        heard += 1
        if heard == 1:
            raise ZeroDivisionError
        again.set()

    hosts.on_reading = on_reading
    hosts.polling.start()
    await asyncio.wait_for(again.wait(), 300)
    await hosts.polling.stop()


async def test_an_entry_that_cannot_be_used_stops_no_other() -> None:
    problem = InventoryError("host 'c'", None, "a host is found by its address", "give address")
    hosts = Hosts("a", problems={"c": problem})
    await hosts.read()
    assert hosts.polling.failing() == {"c": f"The NICs of c cannot be read: {problem}"}
    assert hosts.metric("nic_hosts_unread") == 1
    assert hosts.polling.senders.params == VENDOR
    await hosts.polling.stop()


async def test_a_nic_that_is_not_known_is_told_by_its_host() -> None:
    hosts = Hosts("a", "b")
    values = {name: value for name, value in DEFAULTS.items() if name != "dce_tcp_g"}
    hosts.adapters["b"].now = reading("b", nic("ens1", values))
    await hosts.read()
    assert "What a NIC of b runs is not known: " in hosts.polling.failing()["b"]
    await hosts.polling.stop()


async def test_what_is_at_odds_is_counted() -> None:
    hosts = Hosts("a", "b", "c", configured=PAPER, said=True)
    hosts.adapters["c"].now = reading("c", nic("ens1", OTHER))
    await hosts.read()
    assert hosts.metric("nics_differing") == 1
    assert hosts.metric("sender_contradicts") == 1
    assert [of for of, how in hosts.polling.contradictions() if how] == ["NICs", "NICs and settings"]
    hosts.adapters["c"].now = reading("c")
    await hosts.read("c")
    assert hosts.metric("nics_differing") == 0
    await hosts.polling.stop()


async def test_readings_that_change_nothing_do_not_go_through_all_hosts() -> None:
    hosts = Hosts("a", "b")
    await hosts.read()
    known = hosts.polling.senders
    hosts.adapters["a"].now = reading("a", nic(counters={"np_cnp_sent": 7}))
    await hosts.read()
    assert hosts.polling.senders is known
    hosts.adapters["b"].now = reading("b", nic("ens1", OTHER))
    await hosts.read()
    assert hosts.polling.senders.differing == 1
    await hosts.polling.stop()


async def test_counters_are_added_up_by_class_and_may_begin_anew() -> None:
    hosts = Hosts("a")
    for sent, pauses in ((1_000, 5), (1_300, 9), (20, 0), (70, 1)):
        counters = {"np_cnp_sent": sent, "rx_prio3_pause": pauses, "rx_prio4_pause": pauses}
        hosts.adapters["a"].now = reading("a", nic(counters=counters))
        await hosts.read()
    labels = {"class": "h100", "counter": "np_cnp_sent"}
    assert hosts.metric("nic_events_total", **labels) == 300 + 70
    assert hosts.metric("nic_events_total", **labels | {"counter": "rx_pause"}) == 8 + 2
    await hosts.polling.stop()


@pytest.mark.parametrize("glitch", [0, 999])
async def test_one_reading_that_went_down_counts_no_event_and_tells_of_no_cnp(glitch: int) -> None:
    hosts = Hosts("a")
    for count in (1_000, glitch, 1_000, 1_004):
        counters = {"rx_prio3_pause": count, "rp_cnp_ignored": count, "rp_cnp_handled": 0}
        hosts.adapters["a"].now = reading("a", nic(counters=counters))
        await hosts.read()
    for counter in ("rx_pause", "rp_cnp_ignored"):
        assert hosts.metric("nic_events_total", **{"class": "h100", "counter": counter}) == 4
    assert hosts.polling.ignoring is None
    await hosts.polling.stop()


async def test_the_age_is_that_of_the_host_longest_unread() -> None:
    hosts = Hosts("a", "b")
    await hosts.read("a")
    assert math.isnan(hosts.metric("nic_read_age_seconds") or 0.0)
    hosts.now_s += 10
    await hosts.read("b")
    hosts.now_s += 1
    assert hosts.metric("nic_read_age_seconds") == 11
    await hosts.polling.stop()


async def test_all_are_read_at_once_when_it_starts() -> None:
    hosts = Hosts(*(f"gpu{number}" for number in range(40)))

    def read(polling: NicPolling) -> bool:
        return all(polling.known(name).reading is not None for name in polling.hosts)

    hosts.polling.start()
    async with asyncio.timeout(60):
        while not read(hosts.polling):
            await asyncio.to_thread(lambda: None)
    await hosts.polling.stop()


async def test_none_is_read_where_polling_is_off() -> None:
    hosts = Hosts("a", poll=False)
    hosts.polling.start()
    assert not hosts.polling.polls
    assert hosts.polling.asked(ask(0.1)) == ask(0.1)
    await hosts.polling.stop()


async def test_a_host_whose_platform_only_reads_is_not_set() -> None:
    hosts = Hosts("a", "b")
    hosts.adapters["b"].writes = False
    await hosts.read()
    assert [name for name in "ab" if hosts.polling.settable(name)] == ["a"]
    await hosts.polling.stop()


async def test_a_nic_that_acts_on_no_cnp_is_told_until_it_acts_on_one() -> None:
    hosts = Hosts("a", "b")
    told = []
    for ignored, handled in (
        (5_000, 7),
        (5_099, 7),
        (5_400, 7),
        (5_400, 7),
        (0, 0),
        (400, 1),
        (9_000, 2),
        (9_500, 0),
    ):
        counters = {"rp_cnp_ignored": ignored, "rp_cnp_handled": handled}
        hosts.adapters["b"].now = reading("b", nic(counters=counters))
        await hosts.read()
        told.append(dict(hosts.polling.contradictions())["NICs and CNPs"])
    sentence = (
        "b/ens1 (301 CNPs) ignored every CNP between two readings: turn DCQCN on there, or say sender in the "
        "inventory"
    )
    # What was counted before the first reading says nothing, nor do 99, none, and counters that began anew.
    assert told == [None, None, sentence, sentence, sentence, None, None, None]
    await hosts.polling.stop()


async def test_a_nic_that_is_gone_is_no_longer_told_to_act_on_no_cnp() -> None:
    hosts = Hosts("a")
    for ignored in (0, 500):
        counters = {"rp_cnp_ignored": ignored, "rp_cnp_handled": 0}
        hosts.adapters["a"].now = reading("a", nic(counters=counters))
        await hosts.read()
    assert hosts.polling.ignoring is not None
    hosts.adapters["a"].now = reading("a", nic("ens2"))
    await hosts.read()
    assert hosts.polling.ignoring is None
    await hosts.polling.stop()


async def test_recommendations_say_which_nics_act_on_no_cnp() -> None:
    hosts = Hosts("a")
    for ignored in (0, 500):
        counters = {"rp_cnp_ignored": ignored, "rp_cnp_handled": 0}
        hosts.adapters["a"].now = reading("a", nic(counters=counters))
        await hosts.read()
    assert hosts.polling.asked(ask(0.1)).notes == (
        "a/ens1 (500 CNPs) ignored every CNP between two readings; the twin takes them to run DCQCN.",
    )
    await hosts.polling.stop()
