"""``ecntwin watch``: events as they happen, and a header of how things stand; ends on Ctrl-C, not where the
service goes away for a while.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from cli.answers import AlarmsAnswer, FreezeAnswer, ReadinessAnswer, RecommendationsAnswer, RolloutsAnswer
from cli.client import ServiceClient, ServiceEvent
from cli.follow import EventLines, said
from cli.output import console, labelled_lines, words_of
from cli.status import alarms_text
from cli.tables import freeze_text
from settings.errors import AwayError

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
LOOK_EVERY_S = 1.0
LOOK_ANYWAY_S = 15.0

_KIND_WIDTH = 14
_QUIET = frozenset({"reports", "whatif", "round"})  # nothing that the header tells changes by them


@dataclass(frozen=True, slots=True)
class _Ended:
    """The service refuses, or never answered."""

    error: Exception


_Heard = ServiceEvent | _Ended | None


def watch(url: str, *, as_json: bool) -> None:
    """Runs until Ctrl-C (exit 0), or until the service refuses; it must answer at first."""
    with ServiceClient.at(url) as service:
        try:
            if as_json:
                for event in stream(service, _complain, time.sleep):
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
    """Events, None at signs of life, and True each time a connection stands.

    A connection that is lost is made again, with growing pauses; one that never stood raises, and so does a
    service that refuses.
    """
    stood, pause_s = False, FIRST_PAUSE_S
    while True:
        try:
            standing = False
            for event in service.events():
                if not standing:
                    standing = stood = True
                    pause_s = FIRST_PAUSE_S
                    yield True
                yield event
            reason = "the service ended it"
        except AwayError as error:
            if not stood:
                raise
            reason = error.received or error.rule
        lost(f"connection lost ({reason}); trying again")
        sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class Watched:
    """Lines of events, and on a terminal a header below them that is kept up to date."""

    def __init__(
        self,
        service: ServiceClient,
        screen: Console,
        *,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._service = service
        self._screen = screen
        self._clock_s = clock_s
        self._sleep = sleep
        self._lines = EventLines(clock_s)
        self._heard: queue.SimpleQueue[_Heard | bool | str] = queue.SimpleQueue()
        self._looked_s = clock_s()
        self._stale = False

    def run(self) -> None:
        """Until it is interrupted; raises what ends it otherwise."""
        header = look(self._service)  # what cannot be asked is not watched either
        self._looked_s = self._clock_s()
        listener = threading.Thread(target=self._listen, name="ecntwin-watch", daemon=True)
        listener.start()
        with self._standing(header) as stands:
            while True:
                try:
                    heard = self._heard.get(timeout=LOOK_EVERY_S)
                except queue.Empty:
                    heard = None
                if isinstance(heard, _Ended):
                    raise heard.error
                self._tell(heard)
                self._look(stands)

    def _listen(self) -> None:
        try:
            for event in stream(self._service, self._heard.put, self._sleep):
                self._heard.put(event)
        except Exception as error:
            self._heard.put(_Ended(error))

    def _tell(self, heard: ServiceEvent | bool | str | None) -> None:
        if isinstance(heard, str):
            self._print("watch", Text(heard, "yellow"))
        elif heard is True:
            self._lines.reconnected()
            self._stale = True  # much may have happened meanwhile
            self._print("watch", Text(f"listening to {self._service.url}", "dim"))
        elif isinstance(heard, ServiceEvent):
            missed = self._lines.missed(heard)
            if missed:
                self._print("watch", Text(f"{missed} events were lost on the way", "yellow"))
            line = self._lines.line(heard)
            if line is not None:
                self._print(heard.event, line)
            self._stale |= heard.event not in _QUIET

    def _look(self, stands: Callable[[Group], None]) -> None:
        since_s = self._clock_s() - self._looked_s
        if since_s < (LOOK_EVERY_S if self._stale else LOOK_ANYWAY_S) or not self._screen.is_terminal:
            return
        self._looked_s, self._stale = self._clock_s(), False
        try:
            stands(look(self._service))
        except AwayError:
            self._stale = True  # the lines tell that it is away

    def _print(self, kind: str, line: Text) -> None:
        clock = datetime.now().astimezone().strftime("%H:%M:%S")
        row = Text.assemble((clock, "dim"), "  ", (f"{kind:<{_KIND_WIDTH}}  ", "cyan"), line)
        if not self._screen.is_terminal:
            self._screen.print(row, soft_wrap=True)
            self._screen.file.flush()
            return
        folded = Table.grid(padding=(0, 2), pad_edge=False)
        for width in (len(clock), _KIND_WIDTH, None):
            folded.add_column(width=width, overflow="fold")
        folded.add_row(Text(clock, "dim"), Text(kind, "cyan"), line)
        self._screen.print(folded)

    @contextmanager
    def _standing(self, header: Group) -> Iterator[Callable[[Group], None]]:
        """The header's place: below the lines of a terminal, else once before them."""
        if not self._screen.is_terminal:
            self._screen.print(header)
            yield lambda shown: None
            return
        with Live(header, console=self._screen, auto_refresh=False, transient=True) as live:
            yield lambda shown: live.update(shown, refresh=True)


def look(service: ServiceClient) -> Group:
    """The header: what stands now; raises ``RefusedError`` and ``AwayError``."""
    ready = service.get("/readyz", also=HTTPStatus.SERVICE_UNAVAILABLE).read(ReadinessAnswer)
    alarms = service.get("/v1/alarms", {"limit": 1}).read(AlarmsAnswer)
    frozen = service.get("/v1/freeze").read(FreezeAnswer)
    rounds = service.get("/v1/recommendations", {"limit": 1, "candidates": False}).read(RecommendationsAnswer)
    rollouts = service.get("/v1/rollouts", {"limit": 1}).read(RolloutsAnswer)
    lines = labelled_lines()
    state = Text("ready", "green") if ready.ready else Text("not ready", "yellow")
    parts = [Text(service.url, "bold"), state, alarms_text(alarms)]
    lines.add_row("ecntwin", Text(", ").join([*parts, freeze_text(frozen)] if frozen.frozen else parts))
    for one in rounds.recommendations:
        lines.add_row("newest round", Text.assemble((one.id, "bold"), " ", words_of(one.status)))
    for rollout in rollouts.rollouts:
        told = Text.assemble((rollout.id, "bold"), " ", words_of(rollout.phase), f": {said(rollout)}")
        lines.add_row("newest rollout", told)
    return Group(Rule(style="dim"), lines)


def _complain(text: str) -> None:
    sys.stderr.write(f"ecntwin: {text}\n")
