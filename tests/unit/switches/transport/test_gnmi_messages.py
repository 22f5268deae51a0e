"""One tree from an answer, however a switch cuts it into values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switches.transport.gnmi_messages import Elem, GnmiPath, PathValue, tree_of

KEYS = {"interface": "interface-id", "queue": "name"}
NAMES = st.sampled_from(["config", "state", "weight", "drop"])
LEAVES = st.one_of(st.integers(0, 9), st.booleans(), st.text(max_size=3))


def plain_tree() -> st.SearchStrategy[dict[str, Any]]:
    """A tree as ``tree_of`` gives it: containers, lists by key, leaves; nothing empty."""
    leaves = st.dictionaries(NAMES, LEAVES, min_size=1)
    entry = st.fixed_dictionaries({"inside": leaves})
    queues = st.dictionaries(st.text(min_size=1, max_size=3), entry, min_size=1)
    interfaces = st.dictionaries(
        st.text(min_size=1, max_size=3), st.fixed_dictionaries({"queue": queues}), min_size=1
    )
    return st.fixed_dictionaries({"qos": st.fixed_dictionaries({"interface": interfaces, "top": leaves})})


def as_json(tree: dict[str, Any]) -> dict[str, Any]:
    """As RFC 7951 has it: lists of entries that hold their key."""
    written: dict[str, Any] = {}
    for name, value in tree.items():
        if name in KEYS:
            written[name] = [{KEYS[name]: key} | as_json(entry) for key, entry in value.items()]
        else:
            written[name] = as_json(value) if isinstance(value, dict) else value
    return written


def cut(tree: dict[str, Any], draw: st.DataObject, at: tuple[Elem, ...] = ()) -> list[PathValue]:
    """Values that make up a tree, each part of it told whole or further apart."""
    found = []
    for name, value in tree.items():
        if not isinstance(value, dict) or draw.draw(st.booleans()):
            told = as_json({name: value})[name]
            found.append(PathValue(GnmiPath((*at, Elem(name))), told))
        elif name in KEYS:
            for key, entry in value.items():
                found += cut(entry, draw, (*at, Elem(name, {KEYS[name]: key})))
        else:
            found += cut(value, draw, (*at, Elem(name)))
    return found


def without_keys(tree: dict[str, Any]) -> dict[str, Any]:
    return {
        name: without_keys(value) if isinstance(value, dict) else value
        for name, value in tree.items()
        if name not in KEYS.values()
    }


@given(plain_tree(), st.data())
def test_a_tree_is_the_same_however_it_is_cut(tree: dict[str, Any], draw: st.DataObject) -> None:
    assert without_keys(tree_of(cut(tree, draw), KEYS)) == without_keys(tree)


def test_module_names_are_no_part_of_a_name() -> None:
    path = GnmiPath.of("openconfig-qos:qos")
    queue = {"name": "3", "openconfig-qos-types:y": 1}
    value = {"openconfig-qos:interface": [{"interface-id": "a:b", "openconfig-qos:queue": [queue]}]}
    assert tree_of([PathValue(path, value)], KEYS) == {
        "qos": {
            "interface": {"a:b": {"interface-id": "a:b", "queue": {"3": {"name": "3", "y": 1}}}},
        }
    }


def test_other_lists_are_no_hindrance() -> None:
    values = [
        PathValue(GnmiPath.of("qos"), {"classifiers": [{"name": "dscp"}], "top": 1}),
        PathValue(GnmiPath.of("qos", ("scheduler", {"sequence": "1"}), "state"), {"x": 1}),
    ]
    assert tree_of(values, KEYS) == {"qos": {"classifiers": [{"name": "dscp"}], "top": 1}}


def test_a_whole_tree_may_have_no_path() -> None:
    assert tree_of([PathValue(GnmiPath(()), {"qos": {"top": 1}})], KEYS) == {"qos": {"top": 1}}


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (GnmiPath(()), 3, "int where members belong"),
        (GnmiPath.of("qos"), {"interface": [{"name": "a"}]}, "an entry of interface without its"),
        (GnmiPath.of("qos"), {"interface": ["a"]}, "str where members belong"),
        (GnmiPath.of("qos", ("interface", {"name": "a"})), {}, "an entry of interface without"),
        (GnmiPath.of("qos", ("interface", {"name": "a"}), "x"), 3, "an entry of interface without"),
        (GnmiPath.of("qos", ("interface", {"interface-id": "a"})), 3, "int where members belong"),
    ],
)
def test_what_is_no_tree_is_told(path: GnmiPath, value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        tree_of([PathValue(path, value)], KEYS)


def test_a_value_and_a_container_of_one_name_are_no_tree() -> None:
    values = [PathValue(GnmiPath.of("qos"), 3), PathValue(GnmiPath.of("qos", "top"), 1)]
    with pytest.raises(ValueError, match="qos is a value and holds values"):
        tree_of(values, KEYS)


def test_a_vendors_leaf_keeps_its_prefix_beside_the_models_own() -> None:
    leaves = {"openconfig-qos:weight": 0, "acme-qos-ext:count-marks": True, "acme-qos-ext:weight": 9}
    tree = tree_of([PathValue(GnmiPath.of("openconfig-qos:qos", "config"), leaves)], KEYS)
    assert tree == {
        "qos": {"config": {"weight": 0, "acme-qos-ext:count-marks": True, "acme-qos-ext:weight": 9}}
    }
