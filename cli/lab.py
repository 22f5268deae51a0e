"""``ecntwin lab``: a packet-level fabric under traffic, and ``ecntwin demo``: a closed loop on labs."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import sys
import textwrap
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import typer
import uvicorn
from fastapi import FastAPI
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from api.server import listening, options
from cli.client import ServiceClient, bearer_token, checked_url
from cli.options import SERVICE
from cli.output import LINE_EVERY_S, configure_logging, console, print_json, say, screen_for_asking
from cli.watch import EventLines
from lab.control import Lab, control_app
from lab.demo.closed_loop import DemoDocument, Outcome
from lab.demo.conduct import conduct
from lab.demo.picture import picture
from lab.demo.plan import FULL, QUICK
from lab.demo.screen import Shown, opening, queue_lines, result_table, verdict
from lab.demo.served import Served, served
from lab.documents import LabDocument, ReportsDocument
from lab.p4_reports import IntReportWriter, IntSender, Taker, inventory
from lab.reports import EPOCH_NS, CounterWriter, Poster, ReportWriter
from lab.runner import Binary, Runner
from lab.setup import LabOptions, lab_parts
from settings.errors import AwayError, InputError
from settings.model import ServerSettings
from settings.validation import URL_VARIABLE, is_loopback
from twin.packet.fabric import Fabric
from twin.units import bytes_text, duration_text
from twin.watermark import Watermark

PICTURE = Path("ecntwin-demo.svg")
ENDED_BY_SIGNAL = 128


def demo(*, seed: int, quick: bool, drawn: Path | None, as_json: bool) -> None:
    """Runs the demo, prints the table and draws the picture (with ``--json`` only if asked to)."""
    plan = QUICK if quick else FULL
    screen = None if as_json else console()
    file = drawn or (None if as_json else PICTURE)
    if drawn is not None:
        _check_writable(drawn)
    if screen is not None:
        screen.print(opening(plan, seed), markup=True)
    with _ended_by_signals(), Shown(plan, screen) as shown:
        outcome = conduct(plan, seed, shown)
    written = None if file is None else _draw(outcome, file, needed=drawn is not None)
    if screen is None:
        print_json(DemoDocument.of(outcome, None if written is None else str(written)))
        return
    screen.print(result_table(outcome))
    screen.print("Mean queue over time")
    for line in queue_lines(outcome):
        screen.print(line)
    # The screen itself would part a number from its unit.
    sentence = textwrap.fill(verdict(outcome).replace(" %", "\N{NO-BREAK SPACE}%"), screen.width)
    screen.print("\n" + sentence.replace("\N{NO-BREAK SPACE}", " "))
    drawing = f" Picture: {written}." if written else ""
    screen.print(f"{duration_text(outcome.wall_s)} in all.{drawing}\n")
    screen.print(
        "Next: [bold]ecntwin demo --recording[/] for one round in detail, [bold]docs/start/lab.md[/] for a "
        "lab of your own,\n[bold]ecntwin serve[/] for your fabric.",
        markup=True,
    )


def demo_service(*, port: int, lab_port: int, seed: int, browser: bool) -> None:
    """Runs a service on a lab until Ctrl-C, SIGTERM or the end of the lab: exit 0.

    Progress goes to standard error until the first recommendation, which is the line on standard output.
    """
    began_s = time.monotonic()

    def tell(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began_s:4.0f} s  {text}\n")

    try:
        with _ended_by_signals():
            tell("starting a service and a lab; where kernels are not compiled yet, a minute passes first")
            with served(port, lab_port, seed=seed) as running:
                tell(f"the page: {running.url}/ (the lab's switches: {running.lab_url}/switches)")
                if browser and _has_display():
                    webbrowser.open(f"{running.url}/")
                _follow(running, tell)
                tell("the lab has run for its hour")
    except (KeyboardInterrupt, typer.Exit):
        pass
    tell("the service and the lab have ended, and their database is deleted")


def _has_display() -> bool:
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


def _follow(running: Served, tell: Callable[[str], None]) -> None:
    """Prints events until the first recommendation, then that recommendation; returns when the lab has ended.

    Raises ``UnavailableError`` if the service, or the lab with an error, ends first.
    """
    lines, found, rounds = EventLines(time.monotonic), False, False
    with ServiceClient(running.url) as service:
        try:
            for event in service.events():
                running.check()
                if not running.lab.running:
                    return
                if found or event is None:
                    continue
                rounds |= event.event == "round"
                if event.event == "recommendation" and event.data.get("status") == "pending":
                    found = True
                    _show_found(running, event.data)
                elif event.event == "round" or (event.event == "reports" and not rounds):
                    if (line := lines.line(event)) is not None:
                        tell(f"round: {line.plain}" if rounds else line.plain)
                elif event.event == "recommendation":
                    tell(f"no change recommended: {event.data['why']}")
        except AwayError:
            running.check()
            raise
    running.check()
    raise running.service.failure("the end of its events")


def _show_found(running: Served, data: Mapping[str, Any]) -> None:
    screen = console()
    screen.print(f"Recommendation {data['id']}: {data['why']}", soft_wrap=True)
    own = "" if running.url == SERVICE else f"export {URL_VARIABLE}={running.url}\n"
    screen.print(
        f"\nNext, in another terminal:\n{own}ecntwin recommendations current\necntwin approve current\n\n"
        "Ctrl-C ends the service and the lab."
    )
    screen.file.flush()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP raise like an interrupt, so that child processes are ended first."""

    def ended(number: int, frame: FrameType | None) -> None:
        raise typer.Exit(ENDED_BY_SIGNAL + number)

    before = {number: signal.signal(number, ended) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_writable(file: Path) -> None:
    if not file.parent.is_dir() or file.is_dir():
        raise InputError(
            "--picture", str(file), "it is a file in a folder that exists", "give such as demo.svg"
        )


def _draw(outcome: Outcome, file: Path, *, needed: bool) -> Path | None:
    """Writes the picture; None if that fails and it was not asked for."""
    try:
        file.write_text(picture(outcome), "utf-8")
    except OSError as error:
        if not needed:
            return None
        said = (error.strerror or type(error).__name__).lower()
        raise InputError("--picture", f"{file}: {said}", "the file can be written", "name another") from error
    return file


GRACE_S = 2
LATEST_EPOCH_NS = 1 << 62  # the year 2116; simulated time may add as much again

_log = logging.getLogger("ecntwin.lab")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRun:
    """Options of a run: address, destinations of reports, pace."""

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
    """Runs until the simulated time is over or a signal (exit 0), or until the service refuses (exit 2)."""
    host, port = host_and_port("--listen", run.listen, least=0, such_as="127.0.0.1:9000")
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
        raise InputError(
            "--pace", None, "cannot be combined with --step, which runs at no pace", "drop one of them"
        )
    listening(host, port).close()  # uvicorn would find out last
    with _shown_progress(quiet=as_json or run.stepwise) as progress:
        made = _run_to_its_end(options, run, host, port, progress)
    if made.runner.failure is not None:
        raise made.runner.failure
    _show(made.document(), as_json=as_json)


def _run_to_its_end(
    options: LabOptions, run: LabRun, host: str, port: int, progress: Callable[[Lab], None] | None
) -> Lab:
    """Runs a lab until it ends; ``progress`` is called now and then."""
    configure_logging("info")
    made = made_lab(options, run)
    app = control_app(made, loopback=is_loopback(host))
    if not is_loopback(host):
        _log.warning("anyone who can reach %s can set this lab: it has no tokens", run.listen)
    plan = made.plan
    _log.info(
        "%d hosts, %d switches, %s simulated; where its kernels are not compiled yet, a minute passes first",
        len(plan.hosts),
        len(plan.switches),
        duration_text(made.runner.duration_s),
    )
    server = _Server(app, made, host, port, progress)
    made.runner.on_end(server.end)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _done)
    with suppress(typer.Exit):  # ended by a signal, which counts as success
        server.run()
    return made


BAR_EVERY_S = 1.0
BAR_WIDTH = 20
_UNITS = ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min"))


@contextmanager
def _shown_progress(*, quiet: bool) -> Iterator[Callable[[Lab], None] | None]:
    """Progress on standard error: a bar on a terminal, else a line now and then; None if ``quiet``."""
    screen = screen_for_asking()
    if quiet:
        yield None
        return
    if not screen.is_terminal:
        yield LabProgress(lambda _, line: say(line), every_s=LINE_EVERY_S, clock_s=time.monotonic)
        return
    columns = (BarColumn(BAR_WIDTH), TextColumn("{task.description}", markup=False))
    with Bars(*columns, console=screen, transient=True) as bars:
        task = bars.add_task("", total=1.0)

        def tell(status: LabDocument, line: str) -> None:
            bars.update(task, completed=status.now_s / status.duration_s, description=line)

        yield LabProgress(tell, every_s=BAR_EVERY_S, clock_s=time.monotonic)


class LabProgress:
    """Reports progress every ``every_s`` of ``clock_s``, with the pace since the last report."""

    def __init__(
        self, tell: Callable[[LabDocument, str], None], *, every_s: float, clock_s: Callable[[], float]
    ) -> None:
        self._tell = tell
        self._every_s = every_s
        self._clock_s = clock_s
        self._told_s = clock_s()
        self._came_s = 0.0  # simulated

    def __call__(self, lab: Lab) -> None:
        """Reports progress if it is due; call it often."""
        took_s = self._clock_s() - self._told_s
        if took_s < self._every_s:
            return
        status = lab.document()
        came_s = status.now_s - self._came_s
        self._told_s, self._came_s = self._told_s + took_s, status.now_s
        self._tell(status, progress_line(status, came_s / took_s if took_s > 0 else 0.0))


def progress_line(status: LabDocument, pace: float) -> str:
    """``pace``: simulated seconds a second."""
    line = f"{duration_text(status.now_s)} of {duration_text(status.duration_s)} simulated"
    if pace > 0 and not status.ended:
        left = _roughly((status.duration_s - status.now_s) / pace)
        line += f", {duration_text(pace)} a second, about {left} left"
    reports = status.reports
    line += f"; {status.flows_completed} flows completed, {reports.made} reports"
    if reports.posted:
        line += f", {_posted(reports)}"
    return line if reports.waits_for is None else f"{line}; reports wait: {reports.waits_for}"


def _posted(reports: ReportsDocument) -> str:
    rejected = f", {reports.rejected} rejected by the service" if reports.rejected else ""
    return f"{reports.posted} of them posted{rejected}"


def _roughly(left_s: float) -> str:
    """Whole seconds, minutes, hours or days."""
    for unit_s, name in _UNITS:
        if left_s >= 2 * unit_s:
            return f"{left_s / unit_s:.0f} {name}"
    return f"{left_s:.0f} s"


def made_lab(options: LabOptions, run: LabRun) -> Lab:
    parts = lab_parts(options)
    fabric = Fabric(parts.plan, watermark=run.watermark, seed=options.seed, sampling_rate=run.sampling_rate)
    epoch_ns = run.epoch_ns
    if epoch_ns is None:
        # Without --step a later lab must not report earlier times than the one before it.
        epoch_ns = EPOCH_NS if run.stepwise else time.time_ns()
    poster, token, url = None, None, None
    if run.post_to is not None:
        token, url = bearer_token(), checked_url(run.post_to, "--post-to")
        poster = Poster(url, token=token, compressed=run.compressed)
    binary = None
    if run.int_udp is not None:
        host, port = host_and_port("--int-udp", run.int_udp, least=1, such_as="127.0.0.1:32766")
        # With --step the lab waits until the service has taken what it sent.
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
    """Writes the inventory with which a service reads this lab's binary reports and sets its switches."""
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


def host_and_port(option: str, text: str, *, least: int, such_as: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not least <= int(port) <= 65_535:
        free = ", port 0 taking a free one" if least == 0 else f", a port from {least} to 65535"
        raise InputError(option, repr(text), f"it is HOST:PORT{free}", f"give such as {such_as}")
    return host.strip("[]"), int(port)


class _Server(uvicorn.Server):
    def __init__(
        self, app: FastAPI, made: Lab, host: str, port: int, progress: Callable[[Lab], None] | None
    ) -> None:
        settings = ServerSettings(host=host, port=port, shutdown_grace_s=GRACE_S)
        super().__init__(uvicorn.Config(app, **options(settings, None)))
        self._lab = made
        self._progress = progress

    async def on_tick(self, counter: int) -> bool:
        """uvicorn calls it ten times a second."""
        if self._progress is not None:
            self._progress(self._lab)
        return await super().on_tick(counter)

    def end(self) -> None:
        """Stops the server; from any thread."""
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stops the runner first, so that pending advances are answered before connections are drained.

        Via the event loop: the signal may interrupt this thread while it holds the runner's lock.
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
        f"{reports.made} reports, {_posted(reports)}."
    )
    if lately is not None:
        screen.print(
            f"Lately: mean queue {bytes_text(lately.queue_mean_bytes)}, "
            f"p99 {bytes_text(lately.queue_p99_bytes)}, {lately.pauses} PFC pauses."
        )
