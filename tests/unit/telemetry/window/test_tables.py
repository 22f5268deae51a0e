"""Which paths a full table takes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from telemetry.columns import offsets
from telemetry.report import HopSite
from telemetry.state import QueueRef
from telemetry.window.hash_table import ABSENT
from telemetry.window.tables import KnownPaths, Path, path_fingerprints, queue_of


class OneByOne:
    """Takes each path where its own queues still fit."""

    def __init__(self, max_paths: int, max_queues: int) -> None:
        self.max_paths, self.max_queues = max_paths, max_queues
        self.paths: list[Path] = []
        self.queues: set[QueueRef] = set()

    def number(self, path: Path) -> int:
        if path in self.paths:
            return self.paths.index(path)
        queues = self.queues | {ref for site in path if (ref := queue_of(site)) is not None}
        if len(self.paths) == self.max_paths or len(queues) > self.max_queues:
            return ABSENT
        self.paths.append(path)
        self.queues = queues
        return len(self.paths) - 1


@pytest.mark.parametrize("seed", range(60))
def test_a_table_that_fills_takes_the_paths_it_would_one_by_one(seed: int) -> None:
    choose = random.Random(seed)
    bounds = choose.randint(1, 30), choose.randint(1, 12)
    table, expected = KnownPaths(*bounds), OneByOne(*bounds)
    sites = [
        HopSite(choose.choice(["a", "b", None]), "in", choose.choice(["1", "2", "3", None]), queue)
        for queue in (0, 1, 2, None)
        for _ in range(6)
    ]
    for _ in range(4):
        paths = [tuple(choose.choices(sites, k=choose.randint(1, 4))) for _ in range(20)]
        used = tuple({site: None for path in paths for site in path})
        offset = offsets(np.array([len(path) for path in paths]))
        site = np.array([used.index(one) for path in paths for one in path], np.int32)
        fingerprints = path_fingerprints(offset, table.site_fingerprints(used)[site])
        numbers = table.numbers(fingerprints, used, offset, site).tolist()
        assert numbers == [expected.number(path) for path in paths]
    assert list(table.paths()) == expected.paths


def test_a_site_that_a_batch_names_twice_is_one() -> None:
    a, b = HopSite("a", "in", "out", 0), HopSite("b", "in", "out", 0)
    table = KnownPaths(10, 10)
    for used, hops in (((a, b, a), [0, 1, 1, 2]), ((b, a), [1, 0, 0, 1])):
        offset, site = np.array([0, 2, 4]), np.array(hops, np.int32)
        fingerprints = path_fingerprints(offset, table.site_fingerprints(used)[site])
        assert table.numbers(fingerprints, used, offset, site).tolist() == [0, 1]
    assert list(table.paths()) == [(a, b), (b, a)]
    assert set(table.paths().number.tolist()) == {0, 1}
    table.keep(np.array([1]))
    assert list(table.paths()) == [(b, a)]
