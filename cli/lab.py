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
from pathlib import Path
from types import FrameType

import typer
import uvicorn
from fastapi import FastAPI

from api.listening import options
from cli.api_cli_output import console, print_json
from cli.bearer import checked_token
from lab.control import Lab, control_app
from lab.counters import CounterWriter
from lab.documents import LabDocument
from lab.int_numbers import inventory
from lab.p4_reports import IntReportWriter
from lab.p4_sender import IntSender, Taker
from lab.poster import Poster
from lab.reports import EPOCH_NS, ReportWriter
from lab.runner import Binary, Runner
from lab.setup import LabOptions, lab_parts
from settings.addresses import is_loopback, server_url
from settings.errors import InputError
from settings.logging import configure_logging
from settings.model import ServerSettings
from settings.variables import TOKEN_VARIABLE
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
    int_udp: str | None = None
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
    poster, token, url = None, None, None
    if run.post_to is not None:
        token, url = checked_token(os.environ.get(TOKEN_VARIABLE)), checked_url(run.post_to)
        poster = Poster(url, token=token, compressed=run.compressed)
    binary = None
    if run.int_udp is not None:
        host, port = host_and_port("--int-udp", run.int_udp, least=1, such_as="127.0.0.1:32766")
        # What takes itself one step at a time waits for what it has sent.
        taker = Taker(url, token=token) if url is not None and run.stepwise else None
        written = IntReportWriter(parts.plan, parts.addresses, epoch_ns=epoch_ns)
        binary = Binary(written, IntSender(host, port, taker=taker))
    runner = Runner(
        fabric,
        parts.plan.switch_ports,
        parts.feed,
        writer=ReportWriter(parts.plan, parts.addresses, sampling_rate=run.sampling_rate, epoch_ns=epoch_ns),
        poster=poster,
        binary=binary,
        counters=CounterWriter(parts.plan, epoch_ns=epoch_ns),
        duration_s=parts.duration_s,
        stepwise=run.stepwise,
        pace=run.pace,
    )
    sender = None if binary is None else binary.sender
    return Lab(parts.plan, runner, poster, options.seed, sender)


def write_inventory(options: LabOptions, run: LabRun, path: Path) -> None:
    """Writes what a service must know to read this lab's binary reports, and to set its switches."""
    host, port = host_and_port("--listen", run.listen, least=1, such_as="127.0.0.1:9000")
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    plan = lab_parts(options).plan
    try:
        path.write_text(inventory(plan, address=address, sampling_rate=run.sampling_rate), "utf-8")
    except OSError as error:
        raise InputError(
            "--write-inventory",
            str(path),
            error.strerror or "the file must be writable",
            "name a file that can be written",
        ) from error
    console().print(f"Wrote {len(plan.switches)} switches to {path}: what a service takes as push.inventory.")


def listen_address(text: str) -> tuple[str, int]:
    """Where it listens; raises ``InputError``."""
    return host_and_port("--listen", text, least=0, such_as="127.0.0.1:9000")


def host_and_port(option: str, text: str, *, least: int, such_as: str) -> tuple[str, int]:
    """An address of the option; raises ``InputError``."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not least <= int(port) <= 65_535:
        free = ", port 0 taking a free one" if least == 0 else f", a port from {least} to 65535"
        raise InputError(option, repr(text), f"it is HOST:PORT{free}", f"give such as {such_as}")
    return host.strip("[]"), int(port)


def checked_url(text: str) -> str:
    """The URL of a service; raises ``InputError``."""
    try:
        return server_url(text)
    except ValueError as error:
        raise InputError("--post-to", repr(text), str(error), "give such as http://127.0.0.1:8080") from None


class _Server(uvicorn.Server):
    """Stops with the fabric, and the fabric with it."""

    def __init__(self, app: FastAPI, made: Lab, host: str, port: int) -> None:
        settings = ServerSettings(host=host, port=port, shutdown_grace_s=GRACE_S)
        super().__init__(uvicorn.Config(app, **options(settings, None)))
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
