"""``ecntwin lab``: a packet-level fabric under traffic in this process, for so long or until it is told."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

import typer
import uvicorn
from fastapi import FastAPI

from api.addresses import is_loopback, server_url
from api.cli_output import console, print_json
from api.errors import InputError
from api.lab.control import Lab, control_app
from api.lab.counters import CounterWriter
from api.lab.poster import Poster
from api.lab.reports import EPOCH_NS, ReportWriter
from api.lab.runner import Runner
from api.lab.setup import LabOptions, lab_parts
from api.logs import configure_logging
from api.schemas.lab import LabDocument
from api.settings_source import TOKEN_VARIABLE
from twin.packet.fabric import Fabric
from twin.units import bytes_text, duration_text
from twin.watermark import Watermark

GRACE_S = 2
LATEST_EPOCH_NS = 1 << 62  # the year 2116: the same again is left for simulated time

_log = logging.getLogger("ecntwin.lab")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRun:
    """How the lab runs: where it listens, where its reports go, how its time passes."""

    watermark: Watermark
    sampling_rate: float
    listen: str
    post_to: str | None
    compressed: bool
    stepwise: bool
    pace: float | None
    epoch_ns: int | None


def lab(options: LabOptions, run: LabRun, *, as_json: bool) -> None:
    """Runs until the simulated time is over (exit 0), a signal (exit 0), or the service refuses (exit 2)."""
    host, port = listen_address(run.listen)
    if run.pace is not None and not 0 < run.pace < math.inf:
        raise InputError(
            "--pace",
            str(run.pace),
            "simulated seconds a second are finite and above 0",
            "give such as 0.01, or leave it out",
        )
    if run.epoch_ns is not None and run.epoch_ns > LATEST_EPOCH_NS:
        raise InputError(
            "--epoch-ns",
            str(run.epoch_ns),
            "it is nanoseconds since 1970, in 64 bits with the simulated time",
            f"give at most {LATEST_EPOCH_NS}",
        )
    if run.stepwise and run.pace is not None:
        raise InputError("--pace", "it beside --step", "a step takes as long as it takes", "drop one of them")
    configure_logging("info")
    made = made_lab(options, run)
    app = control_app(made, loopback=is_loopback(host))
    if not is_loopback(host):
        _log.warning("whoever reaches %s may set this lab: it knows no tokens", run.listen)
    plan = made.plan
    _log.info(
        "%d hosts, %d switches, %s simulated; where its kernels are not compiled yet, a minute passes first",
        len(plan.hosts),
        len(plan.switches),
        duration_text(made.runner.duration_s),
    )
    server = _Server(app, made, host, port)
    made.runner.on_end(server.end)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _done)
    with suppress(typer.Exit):  # a signal: done as well
        server.run()
    if made.runner.failure is not None:
        raise made.runner.failure
    _show(made.document(), as_json=as_json)


def made_lab(options: LabOptions, run: LabRun) -> Lab:
    """The lab, not started yet."""
    parts = lab_parts(options)
    fabric = Fabric(parts.plan, watermark=run.watermark, seed=options.seed, sampling_rate=run.sampling_rate)
    epoch_ns = run.epoch_ns
    if epoch_ns is None:
        # One that runs by itself is never reported earlier than the one that ran before it.
        epoch_ns = EPOCH_NS if run.stepwise else time.time_ns()
    poster = None
    if run.post_to is not None:
        token = checked_token(os.environ.get(TOKEN_VARIABLE))
        poster = Poster(checked_url(run.post_to), token=token, compressed=run.compressed)
    runner = Runner(
        fabric,
        parts.plan.switch_ports,
        parts.feed,
        writer=ReportWriter(parts.plan, parts.addresses, sampling_rate=run.sampling_rate, epoch_ns=epoch_ns),
        poster=poster,
        counters=CounterWriter(parts.plan, epoch_ns=epoch_ns),
        duration_s=parts.duration_s,
        stepwise=run.stepwise,
        pace=run.pace,
    )
    return Lab(parts.plan, runner, poster, options.seed)


def listen_address(text: str) -> tuple[str, int]:
    """``HOST:PORT``; raises ``InputError``."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise InputError(
            "--listen", repr(text), "it is HOST:PORT, port 0 taking a free one", "give such as 127.0.0.1:9000"
        )
    return host.strip("[]"), int(port)


def checked_url(text: str) -> str:
    """The URL of a service; raises ``InputError``."""
    try:
        return server_url(text)
    except ValueError as error:
        raise InputError("--post-to", repr(text), str(error), "give such as http://127.0.0.1:8080") from None


def checked_token(text: str | None) -> str | None:
    """A bearer token that a header can carry; raises ``InputError``, which does not show it."""
    if text is None or (text.isascii() and text.isprintable()):
        return text
    raise InputError(
        TOKEN_VARIABLE, "a token with other characters", "a token is printable ASCII", "give the token alone"
    )


class _Server(uvicorn.Server):
    """Stops with the fabric, and the fabric with it."""

    def __init__(self, app: FastAPI, made: Lab, host: str, port: int) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._lab = made

    def end(self) -> None:
        """From any thread."""
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Whoever waits for an advance is told before connections are waited for.

        By the event loop, not here: a signal may come while this very thread holds the runner's lock.
        """
        asyncio.get_running_loop().call_soon_threadsafe(self._lab.runner.stop_soon)
        super().handle_exit(sig, frame)


def _done(number: int, frame: FrameType | None) -> None:
    raise typer.Exit(0)


def _show(document: LabDocument, *, as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    reports, lately = document.reports, document.lately
    screen = console()
    screen.print(
        f"{duration_text(document.now_s)} of {duration_text(document.duration_s)} simulated: "
        f"{document.flows_completed} of {document.flows_offered} flows completed, "
        f"{reports.made} reports, {reports.posted} of them posted."
    )
    if lately is not None:
        screen.print(
            f"Lately: mean queue {bytes_text(lately.queue_mean_bytes)}, "
            f"p99 {bytes_text(lately.queue_p99_bytes)}, {lately.pauses} PFC pauses."
        )
