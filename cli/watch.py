"""``ecntwin watch``: prints the service's events and a status header until Ctrl-C; reconnects when lost."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from cli.answers import (
    AlarmsAnswer,
    FreezeAnswer,
    MarkAnswer,
    ReadinessAnswer,
    RecommendationsAnswer,
    RolloutsAnswer,
)
from cli.client import ServiceClient, ServiceEvent
from cli.output import console, count_text, labelled_lines, say, watermark_text, words_of
from cli.rollouts import event_words, freeze_text, newest, progress_text
from cli.status import alarms_text
from settings.errors import AwayError

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
REFRESH_S = 1.0  # the header is read again this long after an event
REFRESH_IDLE_S = 15.0
REPORTS_EVERY_S = 5.0

_KIND_WIDTH = 14
# Events that leave the header as it is.
_QUIET = frozenset({"reports", "whatif", "round", "condition", "advice"})


@dataclass(frozen=True, slots=True)
class _Ended:
    """The stream failed: refused, or never connected."""

    error: Exception


_Heard = ServiceEvent | _Ended | None


def watch(url: str, *, as_json: bool) -> None:
    """Runs until Ctrl-C (exit 0); raises when the service refuses, or does not answer the first time."""
    with ServiceClient.at(url) as service:
        try:
            if as_json:
                for event in stream(service, say, time.sleep):
                    if isinstance(event, ServiceEvent):
                        sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
                        sys.stdout.flush()
            else:
                Watched(service, console(wide=True)).run()
        except KeyboardInterrupt:
            return


def stream(
    service: ServiceClient, lost: Callable[[str], None], sleep: Callable[[float], None]
) -> Iterator[ServiceEvent | bool | None]:
    """Yields events, None for keep-alives, and True whenever a connection is established.

    A lost connection is retried with growing pauses; a refusal, or no first connection, raises.
    """
    ever, pause_s = False, FIRST_PAUSE_S
    while True:
        try:
            connected = False
            for event in service.events():
                if not connected:
                    connected = ever = True
                    pause_s = FIRST_PAUSE_S
                    yield True
                yield event
            reason = "the service ended it"
        except AwayError as error:
            if not ever:
                raise
            reason = error.received or error.rule
        lost(f"connection lost ({reason}); trying again")
        sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


@dataclass
class Watched:
    """Prints a line per event and, on a terminal, keeps a status header below them."""

    service: ServiceClient
    screen: Console
    clock_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self._lines = EventLines(self.clock_s)
        self._heard: queue.SimpleQueue[_Heard | bool | str] = queue.SimpleQueue()
        self._refreshed_s = self.clock_s()
        self._stale = False

    def run(self) -> None:
        """Runs until interrupted; raises the error that ends it otherwise."""
        first = header(self.service)  # an error raised here ends the command before anything is printed
        self._refreshed_s = self.clock_s()
        listener = threading.Thread(target=self._listen, name="ecntwin-watch", daemon=True)
        listener.start()
        with self._header_place(first) as show:
            while True:
                try:
                    heard = self._heard.get(timeout=REFRESH_S)
                except queue.Empty:
                    heard = None
                if isinstance(heard, _Ended):
                    raise heard.error
                self._show(heard)
                self._refresh(show)

    def _listen(self) -> None:
        try:
            for event in stream(self.service, self._heard.put, self.sleep):
                self._heard.put(event)
        except Exception as error:
            self._heard.put(_Ended(error))

    def _show(self, heard: ServiceEvent | bool | str | None) -> None:
        if isinstance(heard, str):
            self._print("watch", Text(heard, "yellow"))
        elif heard is True:
            self._lines.reconnected()
            self._stale = True
            self._print("watch", Text(f"listening to {self.service.url}", "dim"))
        elif isinstance(heard, ServiceEvent):
            missed = self._lines.missed(heard)
            if missed:
                self._print("watch", Text(f"{missed} events were lost on the way", "yellow"))
            line = self._lines.line(heard)
            if line is not None:
                self._print(heard.event, line)
            self._stale |= heard.event not in _QUIET

    def _refresh(self, show: Callable[[Group], None]) -> None:
        since_s = self.clock_s() - self._refreshed_s
        if since_s < (REFRESH_S if self._stale else REFRESH_IDLE_S) or not self.screen.is_terminal:
            return
        self._refreshed_s, self._stale = self.clock_s(), False
        try:
            show(header(self.service))
        except AwayError:
            self._stale = True  # the listening thread reports the lost connection

    def _print(self, kind: str, line: Text) -> None:
        clock = datetime.now().astimezone().strftime("%H:%M:%S")
        row = Text.assemble((clock, "dim"), "  ", (f"{kind:<{_KIND_WIDTH}}  ", "cyan"), line)
        if not self.screen.is_terminal:
            self.screen.print(row, soft_wrap=True)
            self.screen.file.flush()
            return
        folded = Table.grid(padding=(0, 2), pad_edge=False)
        for width in (len(clock), _KIND_WIDTH, None):
            folded.add_column(width=width, overflow="fold")
        folded.add_row(Text(clock, "dim"), Text(kind, "cyan"), line)
        self.screen.print(folded)

    @contextmanager
    def _header_place(self, first: Group) -> Iterator[Callable[[Group], None]]:
        """Keeps the header below the lines of a terminal; otherwise prints it once before them."""
        if not self.screen.is_terminal:
            self.screen.print(first)
            yield lambda shown: None
            return
        with Live(first, console=self.screen, auto_refresh=False, transient=True) as live:
            yield lambda shown: live.update(shown, refresh=True)


def header(service: ServiceClient) -> Group:
    """Readiness, alarms, freeze, newest round and rollout; raises ``RefusedError`` and ``AwayError``."""
    ready = service.get("/v1/readiness").read(ReadinessAnswer)
    alarms = service.get("/v1/alarms", {"limit": 1}).read(AlarmsAnswer)
    frozen = service.get("/v1/freeze").read(FreezeAnswer)
    rounds = service.get("/v1/recommendations", {"limit": 1, "candidates": False}).read(RecommendationsAnswer)
    rollouts = newest(service, 1).read(RolloutsAnswer)
    lines = labelled_lines()
    state = Text("ready", "green") if ready.ready else Text("not ready", "yellow")
    parts = [Text(service.url, "bold"), state, alarms_text(alarms)]
    lines.add_row("ecntwin", Text(", ").join([*parts, freeze_text(frozen)] if frozen.frozen else parts))
    for one in rounds.recommendations:
        lines.add_row("newest round", Text.assemble((one.id, "bold"), " ", words_of(one.status)))
    for rollout in rollouts.rollouts:
        progress = Text.assemble(
            (rollout.id, "bold"), " ", words_of(rollout.phase), f": {progress_text(rollout)}"
        )
        lines.add_row("newest rollout", progress)
    return Group(Rule(style="dim"), lines)


class EventLines:
    """Turns events into lines: report counts are summed over 5 s, progress within a stage is left out."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._number: int | None = None
        self._accepted = self._rejected = 0
        self._counted_s: float | None = None
        self._step: Any = None

    def reconnected(self) -> None:
        """Event numbers may restart."""
        self._number = None

    def missed(self, event: ServiceEvent) -> int:
        """The number of events missing before this one."""
        before, self._number = self._number, event.id
        if before is None or event.id is None:
            return 0
        return max(event.id - before - 1, 0)

    def line(self, event: ServiceEvent) -> Text | None:
        """The line of an event; None where it needs none, or not yet."""
        line = _LINES.get(event.event)
        if line is not None:
            with suppress(msgspec.ValidationError):
                return line(self, event.data)
        return Text(msgspec.json.encode(event.data).decode())  # an event of a newer service

    def _reports(self, data: Mapping[str, Any]) -> Text | None:
        self._accepted += _whole(data.get("accepted"))
        self._rejected += _whole(data.get("rejected"))
        now_s = self._clock_s()
        if self._counted_s is not None and now_s - self._counted_s < REPORTS_EVERY_S:
            return None
        line = Text(f"{count_text(self._accepted, 'report')} accepted")
        if self._rejected:
            line.append(f", {self._rejected} rejected", "yellow")
        self._counted_s, self._accepted, self._rejected = now_s, 0, 0
        return line

    def _round(self, data: Mapping[str, Any]) -> Text | None:
        stage = data.get("stage")
        if stage == "finished":
            self._step = None
            detail = f": {data['detail']}" if data.get("detail") else ""
            style = "yellow" if data.get("outcome") == "failed" else ""
            return Text(f"finished, {_said(data.get('outcome'))}{detail}", style)
        if stage == self._step:
            return None
        self._step = stage
        return Text(_said(stage), "dim")

    def _recommendation(self, data: Mapping[str, Any]) -> Text:
        return Text.assemble(
            (_said(data.get("id")), "bold"),
            " ",
            words_of(str(data.get("status"))),
            f": {data.get('why') or ''}",
        )

    def _decision(self, data: Mapping[str, Any]) -> Text:
        status = words_of(str(data.get("status")))
        return Text.assemble((_said(data.get("id")), "bold"), " ", status, f" by {_said(data.get('by'))}")

    def _validity(self, data: Mapping[str, Any]) -> Text:
        line = Text.assemble((_said(data.get("id")), "bold"), " ", words_of(str(data.get("status"))))
        if data.get("expired"):
            return line.append(f": {data['expired']}")
        blocked = data.get("blocked") or []
        return line.append(f", blocked: {' '.join(map(str, blocked))}" if blocked else ", no longer blocked")

    def _rollout(self, data: Mapping[str, Any]) -> Text:
        what = event_words(str(data.get("what")))
        line = Text.assemble((_said(data.get("id")), "bold"), " ", words_of(str(data.get("phase"))))
        if data.get("switch"):
            line.append(f": {data['switch']} {what}")
        elif what != data.get("phase"):
            line.append(f": {what}")
        return line.append(f"; {data['why']}", "yellow") if data.get("why") else line

    def _whatif(self, data: Mapping[str, Any]) -> Text | None:
        done, total = data.get("done"), data.get("total")
        return Text(f"{total} predicted") if done == total else None

    def _switch(self, data: Mapping[str, Any]) -> Text:
        line = Text(f"{_said(data.get('switch'))} ", "bold")
        if not data.get("reachable"):
            return line.append("does not answer", "yellow")
        running = data.get("running")
        if running is None:
            return line.append("answers; queues differ")
        line.append(f"runs {watermark_text(msgspec.convert(running, MarkAnswer))}")
        return line.append(", which is not what was set here", "yellow") if data.get("drifted") else line

    def _alarm(self, data: Mapping[str, Any]) -> Text | None:
        what = data.get("what")
        if what == "silences" or data.get("silenced"):
            return None
        if what == "more":
            return Text(f"{data.get('count')} more changed: ecntwin alarms")
        if what == "cleared":
            return Text.assemble(("cleared", "green"), f": {data.get('kind')} of {data.get('subject')}")
        if what in ("acknowledged", "unacknowledged"):
            return Text(f"{what}: {data.get('kind')} of {data.get('subject')}")
        return Text.assemble(words_of(str(data.get("level"))), f" {data.get('kind')}: {data.get('sentence')}")


_LINES: Mapping[str, Callable[[EventLines, Mapping[str, Any]], Text | None]] = {
    "reports": EventLines._reports,
    "condition": lambda lines, data: None,  # it has changed: ecntwin status tells how
    "advice": lambda lines, data: Text(_said(data.get("why")), "dim"),
    "round": EventLines._round,
    "recommendation": EventLines._recommendation,
    "decision": EventLines._decision,
    "validity": EventLines._validity,
    "rollout": EventLines._rollout,
    "whatif": EventLines._whatif,
    "switch": EventLines._switch,
    "alarm": EventLines._alarm,
}


def _said(value: object) -> str:
    return "–" if value is None else str(value).replace("_", " ")


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
