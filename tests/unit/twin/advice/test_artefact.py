"""The artefact that comes with ecntwin, what the reader refuses, and the kernel against two other walks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from tests.unit.twin.advice.test_guard import LEARNT
from twin.advice._tree import leaf_of
from twin.advice.artefact import MOST_BYTES, SHIPPED, read
from twin.advice.features import FEATURES
from twin.errors import ParameterError


def test_the_shipped_artefact_is_small_and_says_where_it_comes_from() -> None:
    learnt = read()
    assert SHIPPED.stat().st_size <= MOST_BYTES
    assert {"states", "recipe", "versions", "held out"} <= set(learnt.provenance)
    reached = {place for f, place in zip(learnt.tree.feature, learnt.tree.left, strict=True) if f < 0}
    assert reached == set(range(len(learnt.leaves)))


@pytest.fixture
def document() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(msgspec.json.encode(LEARNT))
    return made


def put(*place: Any) -> Callable[[dict[str, Any]], None]:
    *way, last, value = place

    def change(document: Any) -> None:
        for step in way:
            document = document[step]
        document[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("schema", "other/2"), "its schema is 'other/2', and this version reads 'ecntwin-advice/1'"),
        (put("features", []), f"it has 0 features, and this version has {len(FEATURES)}"),
        (put("features", 3, "name", "charm"), f"the feature 'charm' where {FEATURES[3]!r} is expected"),
        (put("features", 3, "low", 2.0), f"the range of the feature {FEATURES[3]!r} ends before it begins"),
        (put("features", 3, "low", float("nan")), "JSON is malformed"),
        (put("tree", "threshold", [1.0]), "the columns of its tree are empty, or differ in length"),
        (put("tree", "feature", 0, 99), "node 0 of its tree asks for feature 99"),
        (put("tree", "left", 1, 2), "node 1 of its tree leads to leaf 2"),
        (put("tree", "right", 0, 0), "node 0 of its tree has children that do not come after it"),
        (put("leaves", 0, "behind", [0.1]), "it has 2 codes, and leaves that know another number"),
        (put("codes", 0, "pmax", 1.5), "Expected `float` <= 1.0 - at `$.codes[0].pmax`"),
        (put("regret_limit", "much"), "Expected `float`, got `str` - at `$.regret_limit`"),
        (put("surplus", 1), "Object contains unknown field `surplus`"),
        (put("provenance", "x" * MOST_BYTES), f"received more than {MOST_BYTES} bytes"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(
    change: Callable[[dict[str, Any]], None], said: str, document: dict[str, Any], tmp_path: Path
) -> None:
    change(document)
    file = tmp_path / "own.json"
    file.write_text(json.dumps(document))
    with pytest.raises(ParameterError) as refused:
        read(file)
    assert str(refused.value).startswith("advice own.json: ")
    assert said in str(refused.value)


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"advice own.json: there is no such file"):
        read(tmp_path / "own.json")


@pytest.mark.kernels
def test_the_kernel_goes_the_way_of_scikit_learn_and_of_plain_python() -> None:
    rng = np.random.default_rng(1)
    # Few values each, so that many rows equal a threshold or its neighbours in single precision.
    x = rng.integers(0, 6, (600, 5)) / 3.0
    found = DecisionTreeRegressor(max_depth=7, random_state=1).fit(x, rng.random((600, 3)))
    tree = found.tree_
    rows = np.concatenate((x, np.nextafter(x, 9.0), x + 2e-7, tree.threshold[rng.integers(0, 9, (600, 5))]))
    rows = np.maximum(rows, 0.0)
    f = np.maximum(tree.feature, -1).astype(np.int32)
    left = np.where(f < 0, np.arange(len(f)), tree.children_left).astype(np.int32)
    columns = (np.zeros(5), np.full(5, 9.0), f, tree.threshold, left, tree.children_right.astype(np.int32))

    def plainly(row: np.ndarray[Any, np.dtype[np.float64]]) -> int:
        node = 0
        while f[node] >= 0:
            below = float(np.float32(row[f[node]])) <= float(tree.threshold[node])
            node = int(left[node] if below else tree.children_right[node])
        return node

    assert (
        [leaf_of(row, *columns) for row in rows]
        == found.apply(rows).tolist()
        == [plainly(row) for row in rows]
    )
    assert leaf_of(np.array([0.0, 0.0, 9.5, 0.0, 0.0]), *columns) == -3
