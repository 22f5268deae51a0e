from __future__ import annotations

from dataclasses import replace

from service.nics.senders import senders_of
from tests.unit.nics.sysfs import DEFAULTS
from tests.unit.service.nics.making import nic, reading
from twin.senders.dcqcn import PAPER, VENDOR

OTHER = {**DEFAULTS, "rpg_ai_rate": 50, "dce_tcp_g": 1020}


def test_without_hosts_the_settings_are_all_that_is_known() -> None:
    found = senders_of((), {}, PAPER, said=True)
    assert (found.params, found.source, found.notes) == (PAPER, "settings", ())


def test_nics_that_agree_replace_the_preset() -> None:
    found = senders_of(["a", "b"], {"a": reading("a"), "b": reading("b")}, PAPER, said=False)
    assert (found.params, found.source, found.notes) == (VENDOR, "nics", ())
    assert found.differ is found.contradict is None


def test_before_a_host_is_read_the_settings_hold_and_that_is_said() -> None:
    found = senders_of(["a", "b"], {}, PAPER, said=False)
    assert (found.params, found.source) == (PAPER, "settings")
    assert found.notes == (
        "DCQCN of the NICs is known of no host; the twin takes senders to run what the settings say.",
    )


def test_half_of_the_hosts_stand_for_all_and_fewer_do_not() -> None:
    hosts = ["a", "b", "c", "d"]
    few = senders_of(hosts, {"a": reading("a")}, PAPER, said=False)
    assert few.params == PAPER
    assert "known of only 1 of 4 hosts" in few.notes[0]
    half = senders_of(hosts, {"a": reading("a"), "c": reading("c")}, PAPER, said=False)
    assert half.params == VENDOR
    assert half.notes == (
        "DCQCN of the NICs of 2 of 4 hosts is not known; the twin takes them to run what the others do.",
    )


def test_a_nic_that_runs_something_else_is_named_with_what() -> None:
    found = senders_of(
        ["a", "b"],
        {"a": reading("a", nic("ens1"), nic("ens2")), "b": reading("b", nic("ens1", OTHER))},
        PAPER,
        said=False,
    )
    assert found.params == VENDOR
    assert found.differing == 1
    assert found.differ == (
        "1 of 3 NICs run other DCQCN parameters than most: b/ens1 (rpg_ai_rate 50 against 5 Mbit/s; "
        "dce_tcp_g 1020 against 1019/1024)"
    )
    assert found.notes == (f"{found.differ}; the twin takes all to run what most do.",)


def test_a_preset_that_the_settings_state_is_contradicted() -> None:
    readings = {"a": reading("a")}
    assert senders_of(["a"], readings, VENDOR, said=True).contradict is None
    delayed = replace(VENDOR, feedback_delay_s=1e-6)  # no NIC has that
    assert senders_of(["a"], readings, delayed, said=True).contradict is None
    found = senders_of(["a"], readings, PAPER, said=True)
    assert found.params == VENDOR
    assert found.contradict is not None
    assert "rpg_time_reset 300 against 55 µs" in found.contradict
    assert found.notes == (f"{found.contradict}.",)


def test_nics_that_do_not_react_are_named() -> None:
    found = senders_of(["a"], {"a": reading("a", nic("ens1", reacts=()))}, PAPER, said=False)
    assert found.differ == "a/ens1 slow down on no priority: DCQCN is off there"


def test_what_the_twin_leaves_out_is_noted_once() -> None:
    values = {**DEFAULTS, "rate_to_set_on_first_cnp": 1_000}
    readings = {"a": reading("a", nic("ens1", values), nic("ens2", values))}
    found = senders_of(["a"], readings, PAPER, said=False)
    assert found.notes == ("rate_to_set_on_first_cnp is 1000, and the twin takes it to be 0.",)


def test_a_host_of_which_nothing_is_known_counts_as_unread() -> None:
    without = {name: value for name, value in DEFAULTS.items() if name != "rpg_gd" and name != "dce_tcp_g"}
    found = senders_of(["a"], {"a": reading("a", nic("ens1", without))}, PAPER, said=False)
    assert found.params == PAPER


CLASSES = {"a": "gpu", "b": "gpu", "c": "disk", "d": "disk"}


def test_each_class_runs_what_most_of_it_do_and_that_is_no_contradiction() -> None:
    readings = {host: reading(host, nic("ens1", OTHER if host == "c" else DEFAULTS)) for host in "abc"}
    found = senders_of(CLASSES, readings, PAPER, said=False, classes=CLASSES)
    assert found.params == found.of_class("gpu") == VENDOR
    assert found.by_class == {"disk": found.of_class("disk")}
    assert found.of_class("disk").ai_rate_bytes_per_s == 50 * 125_000
    assert (found.differ, found.differing, found.contradict) == (None, 0, None)
    alike = senders_of(CLASSES, readings, PAPER, said=False)
    assert (alike.by_class, alike.differing) == ({}, 1)


def test_a_nic_unlike_its_class_is_named() -> None:
    readings = {host: reading(host, nic("ens1", DEFAULTS if host in "ad" else OTHER)) for host in "abcd"}
    more = {"e": "disk"}
    readings |= {"e": reading("e", nic("ens1", OTHER)), "f": reading("f")}
    classes = CLASSES | more | {"f": "gpu"}
    found = senders_of(classes, readings, PAPER, said=False, classes=classes)
    assert found.differ == (
        "2 of 6 NICs run other DCQCN parameters than most of their class: b/ens1, d/ens1 (rpg_ai_rate 50 "
        "against 5 Mbit/s; dce_tcp_g 1020 against 1019/1024)"
    )
    assert found.notes == (f"{found.differ}; the twin takes all to run what most of their class do.",)


def test_a_class_of_which_too_few_were_read_is_taken_to_run_what_the_others_do() -> None:
    readings = {host: reading(host) for host in "ab"}
    found = senders_of(CLASSES, readings, PAPER, said=False, classes=CLASSES)
    assert (found.params, found.by_class) == (VENDOR, {})
    assert "of class disk is known of too few" in found.notes[0]


def test_a_class_that_contradicts_the_settings_is_told_of() -> None:
    readings = {host: reading(host, nic("ens1", OTHER if host in "cd" else DEFAULTS)) for host in "abcd"}
    found = senders_of(CLASSES, readings, VENDOR, said=True, classes=CLASSES)
    assert found.contradict is not None
    assert found.contradict.startswith("NICs of disk run other DCQCN parameters than the settings say")


def test_what_was_assumed_is_compared_class_by_class() -> None:
    readings = {host: reading(host, nic("ens1", OTHER if host in "cd" else DEFAULTS)) for host in "abcd"}
    found = senders_of(CLASSES, readings, PAPER, said=False, classes=CLASSES)
    disk = found.of_class("disk")
    assert found.unlike(found.params, found.by_class, CLASSES.values()) is None
    # Which of them is the one of most does not matter.
    assert found.unlike(disk, {"gpu": found.params}, CLASSES.values()) is None
    how = "rpg_ai_rate 5 against 50 Mbit/s; dce_tcp_g 1019 against 1020/1024"
    assert found.unlike(found.params, {}, CLASSES.values()) == (" of disk", how)
    assert found.unlike(found.params, {}, [""]) is None
    assert found.unlike(disk, {}, [""]) == (
        "",
        "rpg_ai_rate 50 against 5 Mbit/s; dce_tcp_g 1020 against 1019/1024",
    )
    # Where all differ alike, it is said of all.
    assumed = dict.fromkeys(CLASSES.values(), replace(found.params, ai_rate_bytes_per_s=1e6))
    now = senders_of(CLASSES, {host: reading(host) for host in "abcd"}, PAPER, said=False, classes=CLASSES)
    assert now.unlike(PAPER, assumed, CLASSES.values()) == ("", "rpg_ai_rate 8 against 5 Mbit/s")
