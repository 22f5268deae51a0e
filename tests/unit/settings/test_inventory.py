"""The inventory: what is said of all, of some and of one, and every mistake named by switch and key."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from settings.errors import SettingsError
from settings.inventory import Inventory, SwitchKeys, TlsKeys, UnitKeys, load_inventory
from settings.inventory_keys import SECRETS, merged, said_in
from switches.device import Device, Secret, Tls, UnitProfile

WHOLE = """
defaults:
  platform: sonic
  username: {env: SW_USER}
  password: {file: secrets/sw}
  queues: [3, 4]
  timeout_s: 2
  tls: {enabled: true, ca_file: ca.pem}
  units: {buffer_bytes: 1MB}
  options: {own_profile: true, nested: {a: 1, b: 2}}
profiles:
  th4: {units: {cell_bytes: 254}, options: {nested: {b: 3}}, tls: {verify: false}}
  empty:
switches:
  leaf1: {address: 10.0.0.1, profile: th4, ports: ["Ethernet*"], port: 8080}
  leaf2: {address: 10.0.0.2, password: {env: OTHER}, options: {nested: {a: null}}, queues: [5]}
  leaf3: {address: 10.0.0.3, profile: empty, password: null, tls: null}
"""


def loaded(tmp_path: Path, text: str) -> Mapping[str, Device]:
    path = tmp_path / "switches.yaml"
    path.write_text(text, "utf-8")
    return load_inventory(path)


def refused(tmp_path: Path, text: str) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        loaded(tmp_path, text)
    return caught.value


def test_an_inventory_without_switches_is_refused_in_words_of_the_file(tmp_path: Path) -> None:
    assert "an object should have at least 1 item, not 0" in str(refused(tmp_path, "switches: {}"))


def test_an_inventory_may_be_of_hosts_alone(tmp_path: Path) -> None:
    hosts = "hosts: {gpu1: {platform: connectx, address: 192.0.2.1}}"
    assert "switches: switches are read; add some" in str(refused(tmp_path, hosts))
    found = Inventory.read(tmp_path / "switches.yaml")
    assert (list(found.devices()), list(found.hosts())) == ([], ["gpu1"])
    assert "did you mean switches?" in str(refused(tmp_path, f"{hosts}\nswiches: {{}}"))


def test_what_a_switch_says_beats_its_profile_and_that_the_defaults(tmp_path: Path) -> None:
    found = loaded(tmp_path, WHOLE)
    assert list(found) == ["leaf1", "leaf2", "leaf3"]
    user = Secret(env="SW_USER")
    assert found["leaf1"] == Device(
        name="leaf1",
        platform="sonic",
        address="10.0.0.1",
        port=8080,
        queues=(3, 4),
        ports=("Ethernet*",),
        username=user,
        password=Secret(file=tmp_path / "secrets/sw"),
        tls=Tls(enabled=True, verify=False, ca_file=tmp_path / "ca.pem"),
        units=UnitProfile(cell_bytes=254, buffer_bytes=1_000_000),
        timeout_s=2.0,
        options={"own_profile": True, "nested": {"a": 1, "b": 3}},
    )
    assert found["leaf2"].password == Secret(env="OTHER")  # not both of env and file
    assert found["leaf2"].options == {"own_profile": True, "nested": {"b": 2}}
    assert found["leaf2"].queues == (5,)
    assert found["leaf3"].password is None
    assert found["leaf3"].tls == Tls()


def test_a_switch_nothing_is_said_of_is_all_defaults(tmp_path: Path) -> None:
    found = loaded(tmp_path, "defaults: {platform: dry-run}\nswitches:\n  leaf1:\n")
    assert found == {"leaf1": Device(name="leaf1", platform="dry-run")}


def test_absolute_files_stay_where_they_are(tmp_path: Path) -> None:
    text = "switches: {a: {platform: x, token: {file: /run/secrets/t}, tls: {ca_file: /etc/ca.pem}}}"
    device = loaded(tmp_path, text)["a"]
    assert device.token == Secret(file=Path("/run/secrets/t"))
    assert device.tls.ca_file == Path("/etc/ca.pem")


def test_every_value_of_a_device_can_be_given() -> None:
    """A field added to the device without a key here could never be set."""

    def names(kind: Any) -> set[str]:
        return {field.name for field in dataclasses.fields(kind)}

    assert set(SwitchKeys.model_fields) == names(Device) - {"name", "role", "running"} | {"int_", "template"}
    assert set(TlsKeys.model_fields) == names(Tls)
    assert set(UnitKeys.model_fields) == names(UnitProfile)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", ["switches", "needed"]),
        ("switches: {}", ["switches", "at least 1"]),
        ("switches: [leaf1]", ["switches", "array"]),
        ("swiches: {a: {}}", ["swiches", "did you mean switches?"]),
        ("switches: {a: {platform: x, timeout_s: true}}", ["switches.a.timeout_s", "it is a number"]),
        ("switches: {leaf1: {}}", ["switches.leaf1.platform", "names its platform"]),
        ("switches: {leaf1: {platfrom: sonic}}", ["switches.leaf1.platfrom", "did you mean platform?"]),
        ("switches: {leaf1: {tls: {verfy: false}}}", ["switches.leaf1.tls.verfy", "did you mean verify?"]),
        ("defaults: {unit: {}}\nswitches: {a: {}}", ["defaults.unit", "did you mean units?"]),
        ("profiles: {x: {querues: [3]}}\nswitches: {a: {}}", ["profiles.x.querues", "did you mean queues?"]),
        ("profiles: {th4: {}}\nswitches: {a: {profile: th5}}", ["switches.a.profile", "did you mean th4?"]),
        ("switches: {a: {profile: th5}}", ["known profiles are none"]),
        ("defaults: {profile: th4}\nswitches: {a: {}}", ["defaults.profile"]),
        ("switches: {1: {platform: x}}", ["name 1", "quotes"]),
        ("switches: {'a\tb': {platform: x}}", ["'a\\tb'", "printable"]),
        ("profiles: {2: {}}\nswitches: {a: {}}", ["profiles", "name 2", "quotes"]),
        ("switches: {' a': {platform: x}}", ["' a'", "printable"]),
        ("switches: {a: {platform: x, queues: []}}", ["switches.a.queues", "at least 1"]),
        ("switches: {a: {platform: x, queues: 3}}", ["switches.a.queues", "valid list"]),
        ("switches: {a: {platform: x, queues: [true]}}", ["switches.a.queues[0]", "integer"]),
        ("switches: {a: {platform: x, ports: 'E*'}}", ["switches.a.ports", "valid list"]),
        ("switches: {a: {platform: x, port: 0}}", ["switches.a.port", "greater than or equal to 1"]),
        ("switches: {a: {platform: x, timeout_s: 0}}", ["switches.a.timeout_s", "greater than 0"]),
        ("switches: {a: {platform: x, timeout_s: .nan}}", ["switches.a.timeout_s", "finite"]),
        ("switches: {a: {platform: x, units: {cell_bytes: 0}}}", ["switches.a.units.cell_bytes"]),
        ("switches: {a: {platform: x, address: '10.0.0.1 '}}", ["switches.a.address", "without spaces"]),
        ("switches: {a: {platform: x, address: 10}}", ["switches.a.address", "string"]),
        ("switches: {a: {platform: x, password: {}}}", ["switches.a.password", "one place"]),
        ("switches: {a: {platform: x, password: {env: A, file: b}}}", ["switches.a.password", "one place"]),
        ("switches: {a: {platform: x}, a: {platform: y}}", ["key 'a' twice"]),
        (
            "defaults: {platform: x}\nswitches: {a: {address: h}, b: {address: h}}",
            ["switches.b.address", "a's", "one switch"],
        ),
    ],
)
def test_every_mistake_is_named_by_its_place(tmp_path: Path, text: str, says: list[str]) -> None:
    told = str(refused(tmp_path, text))
    assert "inventory switches.yaml" in told
    for part in says:
        assert part in told


def test_further_mistakes_are_counted(tmp_path: Path) -> None:
    told = refused(tmp_path, "switches: {a: {x: 1, y: 2}, b: {password: hunter2}}")
    assert "2 more mistakes" in str(told)
    assert len(told.__notes__) == 2
    assert "hunter2" not in "".join(told.__notes__)


def test_one_host_may_be_two_switches_that_its_options_tell_apart(tmp_path: Path) -> None:
    text = "defaults: {platform: x, address: h}\nswitches: {a: {options: {n: 0}}, b: {options: {n: 1}}}"
    assert len(loaded(tmp_path, text)) == 2
    text = "defaults: {platform: x, address: 'http://h'}\nswitches: {a: {}, b: {}}"  # a lab's, a webhook's
    assert len(loaded(tmp_path, text)) == 2


@pytest.mark.parametrize("key", SECRETS)
@pytest.mark.parametrize(
    "written",
    [
        "hunter2",
        "[hunter2]",
        "{text: hunter2}",
        "{hunter2}",
        "{env: [hunter2]}",
        "{file: [hunter2]}",
    ],
)
@pytest.mark.parametrize("part", ["defaults: {%s}\nswitches: {a: {}}", "switches: {a: {%s}}"])
def test_a_secret_written_out_is_refused_and_never_repeated(
    tmp_path: Path, key: str, written: str, part: str
) -> None:
    error = refused(tmp_path, part % f"platform: x, {key}: {written}")
    assert "hunter2" not in str(error)
    assert error.where.endswith(f".{key}")


@pytest.mark.parametrize(
    "text", ["pasword: hunter2", "credentials: {password: hunter2}", "address: 'https://me:hunter2@leaf1'"]
)
def test_a_secret_in_the_wrong_place_is_not_repeated_either(tmp_path: Path, text: str) -> None:
    assert "hunter2" not in str(refused(tmp_path, f"switches: {{a: {{platform: x, {text}}}}}"))


def test_the_remedy_for_a_secret_written_out_names_env_and_file(tmp_path: Path) -> None:
    remedy = refused(tmp_path, "switches: {a: {platform: x, password: hunter2}}").remedy
    assert "{env: NAME}" in remedy
    assert "{file: PATH}" in remedy


leaves = st.one_of(st.integers(), st.text(max_size=3), st.booleans(), st.lists(st.integers(), max_size=2))
keys = st.sampled_from(["a", "b", "c", "password"])
layers = st.recursive(
    st.dictionaries(keys, st.none() | leaves, max_size=3),
    lambda inner: st.dictionaries(keys, st.none() | leaves | inner, max_size=3),
    max_leaves=6,
)


@given(layers)
def test_merging_nothing_and_merging_the_same_change_nothing(layer: dict[str, Any]) -> None:
    assert merged({}, layer) == merged(layer, {}) == merged(layer, layer) == layer


@given(layers, layers)
def test_a_merge_takes_each_key_from_the_one_above_that_says_it(
    under: dict[str, Any], over: dict[str, Any]
) -> None:
    before = repr((under, over))
    both = merged(under, over)
    assert both.keys() == under.keys() | over.keys()
    for key, value in both.items():
        if key not in over:
            assert value == under[key]
        elif key != "password" and isinstance(over[key], dict) and isinstance(under.get(key), dict):
            assert value == merged(under[key], over[key])
        else:
            assert value == over[key]
    assert repr((under, over)) == before  # a switch never changes its profile


@given(layers)
def test_null_is_as_if_nobody_had_said_it(layer: dict[str, Any]) -> None:
    def nulls(value: Any) -> bool:
        return value is None or (isinstance(value, dict) and any(map(nulls, value.values())))

    kept = said_in(layer)
    assert not nulls(kept)
    assert said_in(kept) == kept
    if not nulls(layer):
        assert kept == layer


values = {
    "timeout_s": st.floats(0.1, 600),
    "queues": st.lists(st.integers(0, 7), min_size=1, max_size=3),
    "ports": st.lists(st.sampled_from(["Ethernet*", "swp1", "et-0/0/*"]), max_size=2),
    "password": st.sampled_from([{"env": "A"}, {"file": "/a"}]),
    "tls": st.fixed_dictionaries({}, optional={"verify": st.booleans(), "server_name": st.just("leaf")}),
    "units": st.fixed_dictionaries({}, optional={"cell_bytes": st.integers(1, 999)}),
    "options": st.dictionaries(st.sampled_from("xyz"), st.integers() | st.booleans(), max_size=2),
}
said = st.fixed_dictionaries({}, optional={key: st.none() | value for key, value in values.items()})


@given(said, said, said)
def test_layers_of_an_inventory_are_the_same_as_one_written_out(
    tmp_path_factory: pytest.TempPathFactory,
    defaults: dict[str, Any],
    profile: dict[str, Any],
    own: dict[str, Any],
) -> None:
    layered = {
        "defaults": defaults | {"platform": "x"},
        "profiles": {"p": profile},
        "switches": {"a": own | {"profile": "p"}},
    }
    written_out = said_in(merged(merged(defaults, profile), own)) | {"platform": "x"}
    path = tmp_path_factory.getbasetemp() / "layered.yaml"
    found = []
    for document in (layered, {"switches": {"a": written_out}}):
        path.write_text(yaml.safe_dump(document), "utf-8")
        found.append(load_inventory(path))
    assert found[0] == found[1]
