"""What grows is found, and what only comes and goes is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.soak.conduct import Soak
from tests.soak.figures import Sample, judged

MEBIBYTE = 1 << 20
FIRST = Sample(
    at_s=0.0,
    service_bytes=180 * MEBIBYTE,
    workers_bytes=360 * MEBIBYTE,
    tasks=8,
    threads=24,
    files=28,
    database_bytes=MEBIBYTE,
    reports=1_000,
    rounds=10,
    failed_rounds=0,
    rollouts=5,
)


def run(count: int = 90, **a_minute: float) -> list[Sample]:
    """Two seconds apart, restless, and with what grows by so much a minute."""
    draws = np.random.default_rng(7)
    samples = []
    for number in range(count):
        grown = {name: getattr(FIRST, name) + round(rate * number / 30) for name, rate in a_minute.items()}
        one = replace(FIRST, at_s=2.0 * number, **grown)
        samples.append(
            replace(
                one,
                service_bytes=one.service_bytes + int(draws.exponential(3)) * MEBIBYTE,
                tasks=one.tasks + int(draws.integers(0, 9)),
                files=one.files + int(draws.integers(0, 5)),
                reports=FIRST.reports + number,
                rounds=FIRST.rounds + number // 3,
                rollouts=FIRST.rollouts + number // 6,
            )
        )
    return samples


def test_what_comes_and_goes_is_no_growth() -> None:
    assert all(one.good for one in judged(run()))
    assert Soak(samples=run()).wrong == []


@pytest.mark.parametrize(
    ("name", "a_minute", "told"),
    [
        ("service_bytes", 8 * MEBIBYTE, "memory of the service"),
        ("workers_bytes", 16 * MEBIBYTE, "memory of its workers"),
        ("tasks", 3, "tasks"),
        ("threads", 3, "threads"),
        ("files", 3, "open files"),
    ],
)
def test_what_leaks_is_found(name: str, a_minute: float, told: str) -> None:
    assert [one.name for one in judged(run(**{name: a_minute})) if not one.good] == [told]


def test_a_service_that_does_nothing_has_not_been_tried() -> None:
    still = Soak(samples=[FIRST] * 9, errors=["12:00:00 ERROR   ecntwin: it fell\n"])
    assert still.wrong == [
        "no reports since the warm-up",
        "no rounds since the warm-up",
        "no rollouts since the warm-up",
        "logged: 12:00:00 ERROR   ecntwin: it fell",
    ]
    assert Soak(samples=[replace(one, failed_rounds=2) for one in run()]).wrong == ["2 rounds failed"]
