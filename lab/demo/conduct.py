"""Runs the demo in processes of its own and ends them on success, error and interrupt."""

from __future__ import annotations

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Protocol

from lab.demo.closed_loop import (
    CLOSED_LOOP,
    PAPER_SETTING,
    VENDOR,
    Interval,
    LabAt,
    Outcome,
    Round,
    Run,
    ServiceAt,
    close_the_loop,
    keep,
    outcome_of,
)
from lab.demo.plan import PAPER, VENDOR_DEFAULT, DemoPlan
from lab.demo.processes import LOOPBACK, Child, Children, free_ports
from twin.watermark import Watermark

LEAST_WORKERS = 2
ENGINES = ("packet", "replay")  # compiled in parallel; the fluid engine, the slowest to compile, is not used


class Watcher(Protocol):
    """Callbacks of the demo's progress; from any thread."""

    def stage(self, text: str) -> None:
        """The demo has begun the step ``text``."""

    def interval(self, run: str, interval: Interval, round_: Round | None) -> None:
        """An interval of ``run`` and the round after it have ended."""


def conduct(plan: DemoPlan, seed: int, watcher: Watcher) -> Outcome:
    """Runs the demo; raises ``UnavailableError`` if a process fails. All have ended when it returns."""
    began_s = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ecntwin-demo-")))
        pool = stack.enter_context(ThreadPoolExecutor(2, thread_name_prefix="ecntwin-demo"))
        children = stack.enter_context(Children(folder))  # ends first: calls to its processes then fail
        watcher.stage("starting the service and three labs, compiling kernels (once: about a minute)")
        kernels = [children.start(f"kernels ({name})", name, module="twin.workers.warm") for name in ENGINES]
        statics = {
            name: children.start(
                f"lab ({name})", "lab", *plan.lab_arguments(seed, mark), "--sampling-rate", "0"
            )
            for name, mark in ((VENDOR, VENDOR_DEFAULT), (PAPER_SETTING, PAPER))
        }
        service, lab = _service_and_lab(children, plan, seed)
        for one in kernels:
            one.finish()

        def kept(name: str, mark: Watermark) -> Run:
            with closing(_lab_at(statics[name])) as alone:
                return keep(name, alone, plan, mark, lambda interval, _: watcher.interval(name, interval, _))

        watcher.stage("running")
        waiting = [pool.submit(kept, VENDOR, VENDOR_DEFAULT), pool.submit(kept, PAPER_SETTING, PAPER)]
        at_lab = stack.enter_context(closing(_lab_at(lab)))
        at_service = stack.enter_context(closing(ServiceAt(service, service.url())))
        closed = close_the_loop(
            CLOSED_LOOP,
            at_lab,
            at_service,
            plan,
            VENDOR_DEFAULT,
            lambda interval, round_: watcher.interval(CLOSED_LOOP, interval, round_),
        )
        runs = [closed, *(one.result() for one in waiting)]
        watcher.stage("ending the processes")
    return outcome_of(plan, seed, runs, time.monotonic() - began_s)


def _service_and_lab(children: Children, plan: DemoPlan, seed: int) -> tuple[Child, Child]:
    """Starts lab and service on free ports chosen here, as each is started with the other's address."""
    service_port, lab_port = free_ports({"service": 0, "lab": 0})
    settings = plan.service_settings(
        seed=seed,
        lab_url=f"http://{LOOPBACK}:{lab_port}",
        workers=max(LEAST_WORKERS, os.cpu_count() or 1),
    )
    service = children.start_service(plan.fabric, settings, service_port)
    lab = children.start(
        f"lab ({CLOSED_LOOP})",
        "lab",
        *plan.lab_arguments(seed, VENDOR_DEFAULT, port=lab_port),
        *("--sampling-rate", f"{plan.sampling_rate:g}", "--post-to", f"http://{LOOPBACK}:{service_port}"),
    )
    return service, lab


def _lab_at(child: Child) -> LabAt:
    return LabAt(child, child.url())
