"""What a service under soak takes, sample by sample, and whether that grows; starts nothing itself."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from prometheus_client.parser import text_string_to_metric_families

FLAT = 0.05
"""The share by which memory may be more at the end than at the beginning."""

SPARE = 2
"""Tasks, threads and files that may be more: pools make theirs when first so many are wanted at once."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The service at one moment, ``at_s`` seconds after it began to listen."""

    at_s: float
    service_bytes: int
    workers_bytes: int
    tasks: int
    threads: int
    files: int
    database_bytes: int
    reports: int
    rounds: int
    failed_rounds: int
    rollouts: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a figure went: its value at the beginning and at the end of what is judged."""

    name: str
    begin: float
    end: float
    limit: float
    unit: str

    @property
    def good(self) -> bool:
        """Whether it did not grow beyond the limit."""
        return self.end <= self.limit


def sample(process: int, workers: Sequence[int], metrics: str, database: Path, *, at_s: float) -> Sample:
    """Looks at the processes, at the service's own metrics (their text), and at the database's files."""
    service = psutil.Process(process)
    found = values(metrics)
    with service.oneshot():
        taken, threads, files = service.memory_info().rss, service.num_threads(), service.num_fds()
    return Sample(
        at_s=at_s,
        service_bytes=taken,
        workers_bytes=sum(_rss_bytes(worker) for worker in workers),
        tasks=round(found["ecntwin_asyncio_tasks"]),
        threads=threads,
        files=files,
        database_bytes=sum(path.stat().st_size for path in database.parent.glob(f"{database.name}*")),
        reports=round(found["ecntwin_reports_accepted_total"]),
        rounds=sum(round(found[f"ecntwin_rounds_total {outcome}"]) for outcome in ("recommended", "kept")),
        failed_rounds=round(found["ecntwin_rounds_total failed"]),
        rollouts=round(found["ecntwin_rollouts_total done"]),
    )


def values(metrics: str) -> Mapping[str, float]:
    """By name, and after a space the values of its labels."""
    return {
        " ".join([one.name, *one.labels.values()]): one.value
        for family in text_string_to_metric_families(metrics)
        for one in family.samples
    }


def judged(samples: Sequence[Sample]) -> list[Verdict]:
    """The first third of ``samples``, which begin after the warm-up, against the last.

    Memory by medians: what a round takes comes and goes. What is counted by its least: requests come and go,
    and what leaks stays.
    """
    third = math.ceil(len(samples) / 3)
    first, last = samples[:third], samples[-third:]

    def grew(name: str, of: Callable[[Sample], int]) -> Verdict:
        begin, end = (statistics.median(map(of, part)) for part in (first, last))
        return Verdict(name, begin, end, begin * (1 + FLAT), "bytes")

    def leaks(name: str, of: Callable[[Sample], int]) -> Verdict:
        begin, end = (min(map(of, part)) for part in (first, last))
        return Verdict(name, begin, end, begin + SPARE, "")

    return [
        grew("memory of the service", lambda one: one.service_bytes),
        grew("memory of its workers", lambda one: one.workers_bytes),
        leaks("tasks", lambda one: one.tasks),
        leaks("threads", lambda one: one.threads),
        leaks("open files", lambda one: one.files),
    ]


def _rss_bytes(process: int) -> int:
    try:
        taken: int = psutil.Process(process).memory_info().rss
    except psutil.NoSuchProcess:  # another takes its place
        return 0
    return taken
