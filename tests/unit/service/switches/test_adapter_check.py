"""Adapters of an inventory: every problem is found, and none keeps the others from being read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.switches.adapter_check import check_inventory, make_adapters, read_all
from switches.base import Reading, SwitchAdapter
from switches.device import Device, Secret, Tls
from switches.errors import UnreachableError
from switches.registry import AdapterRegistry
from twin.watermark import Watermark

MARK = Watermark(1_000, 2_000, 0.1)


def clock() -> int:
    return 7


def devices(*described: Device) -> dict[str, Device]:
    return {device.name: device for device in described}


def dry(name: str, **more: Any) -> Device:
    return Device(name=name, platform="dry-run", running=MARK, **more)


class Asked:
    """An adapter whose ``read`` is the test's."""

    def __init__(self, switch: str, read: Callable[[], Reading]) -> None:
        self.switch = switch
        self.read = read


def asked(switch: str, read: Callable[[], Reading]) -> SwitchAdapter:
    return Asked(switch, read)  # type: ignore[return-value] # no more of it is called


def reading(switch: str) -> Reading:
    return Reading(switch, MARK, 7)


def test_an_inventory_that_can_be_used_has_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SW_PASSWORD", "hunter2")
    described = devices(dry("a", password=Secret(env="SW_PASSWORD")), dry("b"))
    assert check_inventory(described, AdapterRegistry(), clock_ns=clock) == ()
    made = make_adapters(described, AdapterRegistry(), clock_ns=clock)
    assert list(made.adapters) == ["a", "b"]
    assert made.adapters["b"].read().watermark == MARK
    made.close()


def test_every_switch_s_problems_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    (tmp_path / "empty").touch()
    described = devices(
        Device(name="a", platform="dryrun"),
        Device(name="b", platform="lab", address="leaf"),
        dry("c", username=Secret(env="NOT_THERE"), password=Secret(file=tmp_path / "none")),
        dry("d", token=Secret(file=tmp_path / "empty"), tls=Tls(ca_file=tmp_path / "ca.pem")),
        dry("e"),
    )
    told = [str(one) for one in check_inventory(described, AdapterRegistry(), clock_ns=clock)]
    wanted = [
        ("'a' platform", "did you mean dry-run?"),
        ("'b'", "URL"),
        ("'c'", "username", "$NOT_THERE"),
        ("'c'", "password", "No such file"),
        ("'d'", "token", "empty"),
        ("'d'", "tls.ca_file", "ca.pem"),
    ]
    assert len(told) == len(wanted), told
    for sentence, parts in zip(told, wanted, strict=True):
        for part in parts:
            assert part in sentence


def test_an_adapter_that_fails_to_be_made_is_told_without_what_it_said() -> None:
    def failing(device: Device, *, clock_ns: Callable[[], int]) -> SwitchAdapter:
        raise KeyError("hunter2")

    registry = AdapterRegistry()
    registry.register("odd", failing)
    (problem,) = check_inventory(devices(Device(name="a", platform="odd")), registry, clock_ns=clock)
    assert "KeyError" in str(problem)
    assert "hunter2" not in str(problem)


def test_all_are_read_and_a_failure_stays_with_its_switch() -> None:
    away = UnreachableError("switch 'b'", "no answer", "it answers", "look")

    def fails() -> Reading:
        raise away

    def odd() -> Reading:
        raise RuntimeError("hunter2")

    adapters = {
        "a": asked("a", lambda: reading("a")),
        "b": asked("b", fails),
        "c": asked("c", odd),
        "d": asked("d", lambda: reading("d")),
    }
    steps: list[tuple[int, int]] = []
    found = read_all(adapters, progress=lambda done, total: steps.append((done, total)))
    assert list(found) == ["a", "b", "c", "d"]
    assert found["a"].reading == reading("a")
    assert found["d"].reading == reading("d")
    assert found["b"].failure is away
    assert "RuntimeError" in str(found["c"].failure)
    assert "hunter2" not in str(found["c"].failure)
    assert steps == [(done, 4) for done in range(5)]


def test_switches_are_read_at_the_same_time_and_no_more_than_allowed() -> None:
    met = threading.Barrier(3)
    now, most, lock = [0], [0], threading.Lock()

    def read() -> Reading:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        met.wait(60)  # only three at the same time pass
        with lock:
            now[0] -= 1
        return reading("x")

    found = read_all({f"s{number}": asked("x", read) for number in range(9)}, at_once=3)
    assert all(one.reading is not None for one in found.values())
    assert most[0] <= 3


def test_no_switches_are_read_too() -> None:
    assert read_all({}) == {}
