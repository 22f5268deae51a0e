"""What every hash adapter must do: read, stage, set, read back and undo, and leave what others have set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from switches.adapter import Waiting
from switches.device import Device, Secret
from switches.errors import CapabilityError, ConcurrentEditError, InventoryError, ReadBackError
from switches.hashing.base import HashAdapter
from switches.hashing.lab import LabHash
from switches.hashing.nvue import NvueHash
from switches.hashing.registry import hash_adapter, set_by_hand
from switches.hashing.sonic import SonicHash
from switches.hashing.values import StagedHash
from tests.contract.rig import PATIENT, fault
from tests.counterparts.background import Background
from tests.counterparts.redis_server import RedisServer
from tests.counterparts.switches.http_switch import PASSWORD, USER
from tests.counterparts.switches.nvue_switch import NvueSwitch
from tests.counterparts.switches.orchagent import ALGORITHMS
from tests.counterparts.switches.sonic_switch import SonicSwitch
from tests.integration.lab.labs import running_lab
from twin.watermark import Watermark


class HashRig(ABC):
    """One switch that hashes by ``values[0]`` after ``reset``; the others are what it may be set to."""

    values: tuple[str | None, str, str]
    refused = "4294967296"

    made: list[HashAdapter]

    def adapter(self, **device: Any) -> HashAdapter:
        """A new one, as another process would make it."""
        self.made.append(self.make(**device))
        return self.made[-1]

    @abstractmethod
    def make(self, **device: Any) -> HashAdapter: ...

    @abstractmethod
    def reset(self) -> None: ...

    @abstractmethod
    def runs(self) -> str | None: ...

    @abstractmethod
    def somebody_sets(self, value: str) -> None: ...

    def ignoring(self) -> AbstractContextManager[None]:
        pytest.skip("it sets or refuses at once")

    @abstractmethod
    def close(self) -> None: ...


class SonicRig(HashRig):
    values = ("CRC", "XOR", "CRC_32LO")
    refused = "RANDOM"

    def __init__(self, folder: Path) -> None:
        self.switch = SonicSwitch(folder)
        state = self.switch.server.client(self.switch.state_database)
        can: dict[Any, Any] = {
            "ECMP_HASH_ALGORITHM_CAPABLE": "true",
            "ECMP_HASH_ALGORITHM": ",".join(ALGORITHMS),
        }
        state.hset("SWITCH_CAPABILITY|switch", mapping=can)
        state.close()

    def make(self, **device: Any) -> HashAdapter:
        fields: dict[str, Any] = {
            **PATIENT,
            "name": "leaf1",
            "platform": "sonic",
            "address": "127.0.0.1",
        } | device
        return SonicHash(Device(port=self.switch.port, **fields))

    def reset(self) -> None:
        self.somebody_sets("CRC")

    def runs(self) -> str | None:
        rows = self.switch.asic_db()
        (row,) = (row for key, row in rows.items() if "OBJECT_TYPE_SWITCH" in key)
        return row["SAI_SWITCH_ATTR_ECMP_DEFAULT_HASH_ALGORITHM"].removeprefix("SAI_HASH_ALGORITHM_")

    def somebody_sets(self, value: str) -> None:
        row = {"ecmp_hash_algorithm": value, "ecmp_hash@": "SRC_IP,DST_IP,L4_SRC_PORT"}
        self.switch.set_config({"SWITCH_HASH|GLOBAL": row})
        self.switch.settle()

    def ignoring(self) -> AbstractContextManager[None]:
        return fault(self.switch.faults, "ignoring")

    def close(self) -> None:
        self.switch.close()


class NvueRig(HashRig):
    values = (None, "50", "51")

    def __init__(self, folder: Path) -> None:
        self.switch = NvueSwitch(Watermark(400_000, 1_600_000, 0.2))
        self.pauses: list[float] = []

    def make(self, **device: Any) -> HashAdapter:
        fields: dict[str, Any] = {**PATIENT, "name": "leaf1", "platform": "nvue", "address": self.switch.url}
        credentials = {"username": Secret(env="TEST_USER"), "password": Secret(env="TEST_PASSWORD")}
        # Time passes in its pauses only.
        waiting = Waiting(lambda: sum(self.pauses), self.pauses.append)
        return NvueHash(Device(**(fields | credentials | device)), waiting=waiting)

    def reset(self) -> None:
        self.switch.reset(Watermark(400_000, 1_600_000, 0.2))

    def runs(self) -> str | None:
        assert self.switch.unexpected == []
        seed = self.switch.applied["system"]["forwarding"].get("hash-seed")
        return None if seed is None else str(seed)

    def somebody_sets(self, value: str) -> None:
        self.switch.applied["system"]["forwarding"]["hash-seed"] = int(value)

    def ignoring(self) -> AbstractContextManager[None]:
        return fault(self.switch, "ignoring")

    def close(self) -> None:
        self.switch.close()


class LabRig(HashRig):
    values = (None, "7", "8")

    def __init__(self, folder: Path) -> None:
        self._background = Background()
        self._manager = running_lab(traffic="websearch:0.1", duration_s=1e-3)
        self.lab = self._background.run(self._manager.__aenter__())

    def make(self, **device: Any) -> HashAdapter:
        fields: dict[str, Any] = {
            **PATIENT,
            "name": "leaf1",
            "platform": "lab",
            "address": "http://127.0.0.1:9000",
        } | device
        return LabHash(Device(**fields), transport=self.lab.bridge)

    def reset(self) -> None:
        self.lab.lab.runner.set_ecmp_seed("leaf1", None).result()

    def runs(self) -> str | None:
        seed = self.lab.lab.runner.view.ecmp_seeds["leaf1"]
        return None if seed is None else str(seed)

    def somebody_sets(self, value: str) -> None:
        self.lab.lab.runner.set_ecmp_seed("leaf1", int(value)).result()

    def close(self) -> None:
        self._background.run(self._manager.__aexit__(None, None, None))
        self._background.close()


@pytest.fixture(scope="module", params=[SonicRig, NvueRig, LabRig], ids=["sonic", "nvue", "lab"])
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HashRig]:
    rig: HashRig = request.param(tmp_path_factory.mktemp("hash"))
    yield rig
    rig.close()


@pytest.fixture
def rig(started: HashRig, monkeypatch: pytest.MonkeyPatch) -> Iterator[HashRig]:
    monkeypatch.setenv("TEST_USER", USER)
    monkeypatch.setenv("TEST_PASSWORD", PASSWORD)
    started.reset()
    started.made = []
    yield started
    for adapter in started.made:
        adapter.close()


def another_process(change: StagedHash) -> StagedHash:
    """The change as a journal gives it back."""
    return msgspec.json.decode(msgspec.json.encode(change), type=StagedHash)


def test_a_reading_tells_what_is_hashed_by(rig: HashRig) -> None:
    reading = rig.adapter().read()
    assert reading.value == rig.values[0]
    assert reading.setting
    assert rig.refused not in reading.choices
    assert reading.fixed is None


def test_a_change_is_staged_set_read_back_and_undone(rig: HashRig) -> None:
    first, new, _ = rig.values
    change = rig.adapter().stage(new, "r1-a")
    assert (change.before, change.after, rig.runs()) == (first, new, first)
    assert f"+{change.setting}: {new}" in change.diff.splitlines()
    for _ in range(2):  # a step may run twice
        rig.adapter().apply(another_process(change))
        assert rig.adapter().verify(change).value == rig.runs() == new
    for _ in range(2):
        rig.adapter().rollback(another_process(change))
        assert rig.runs() == first
        assert rig.adapter().read().value == first


def test_what_runs_already_is_no_change(rig: HashRig) -> None:
    rig.somebody_sets(rig.values[1])
    assert rig.adapter().stage(rig.values[1], "r1-a").diff == ""


def test_values_of_others_are_left_alone(rig: HashRig) -> None:
    _, new, other = rig.values
    change = rig.adapter().stage(new, "r1-a")
    rig.somebody_sets(other)
    for step in (rig.adapter().apply, rig.adapter().rollback):
        with pytest.raises(ConcurrentEditError, match="find out who set it"):
            step(change)
        assert rig.runs() == other


def test_a_value_that_the_switch_does_not_have_is_refused(rig: HashRig) -> None:
    for value in (rig.refused, "", "-1", "07", "seven"):
        with pytest.raises(CapabilityError, match="name one of those"):
            rig.adapter().stage(value, "r1-a")
    assert rig.runs() == rig.values[0]


def test_a_switch_that_does_not_follow_is_noticed_and_undone(rig: HashRig) -> None:
    change = rig.adapter().stage(rig.values[1], "r1-a")
    with rig.ignoring():
        rig.adapter().apply(change)
        with pytest.raises(ReadBackError, match="check the switch's own log"):
            rig.adapter(settle_s=0.0).verify(change)
    rig.adapter().rollback(change)
    assert rig.adapter().read().value == rig.runs() == rig.values[0]


def test_sonic_changes_only_what_it_could_put_back(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    switch = SonicSwitch(tmp_path, server=server)
    try:
        fields: dict[str, Any] = {**PATIENT, "name": "leaf1", "platform": "sonic", "address": "127.0.0.1"}
        adapter = SonicHash(Device(port=switch.port, **fields))
        reading = adapter.read()
        assert (reading.value, reading.choices) == (None, ())
        assert "that can choose one" in (reading.fixed or "")
        with pytest.raises(CapabilityError, match="that can choose one"):
            adapter.stage("XOR", "r1-a")
        state = server.client(switch.state_database)
        state.hset(
            "SWITCH_CAPABILITY|switch",
            mapping={"ECMP_HASH_ALGORITHM_CAPABLE": "true", "ECMP_HASH_ALGORITHM": "CRC,XOR"},
        )
        state.close()
        with pytest.raises(CapabilityError, match="SONiC cannot remove it again"):
            adapter.stage("XOR", "r1-a")
        assert "SONiC cannot remove it again" in (adapter.read().fixed or "")
    finally:
        switch.close()
        server.close()


def test_platforms_without_an_adapter_say_what_to_set_by_hand_or_nothing() -> None:
    def made(platform: str, address: str) -> HashAdapter | None:
        return hash_adapter(Device(name="leaf1", platform=platform, address=address))

    assert isinstance(made("lab", "http://127.0.0.1:9000"), LabHash)
    assert isinstance(made("sonic", "127.0.0.1"), SonicHash)
    assert made("eos", "leaf1.example") is None
    with pytest.raises(InventoryError, match="address"):
        made("sonic", "http://leaf1")
    assert "universal-id" in (set_by_hand("nxos") or "")
    assert set_by_hand("eos") is None
