"""Follows a rollout until it ends, telling each thing that happens; must not decide anything about it.

What happens in a service, as lines for people; must not ask the service for anything.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote

import msgspec
from rich.console import Console
from rich.status import Status
from rich.text import Text

from cli.answers import MarkAnswer, RolloutAnswer, RolloutEventAnswer
from cli.client import Answer, ServiceClient, ServiceEvent
from cli.output import clock_text, count_text, list_text, watermark_text, words_of
from settings.errors import AwayError

EVERY_S = 0.5
AWAY_S = 60.0


def follow(
    service: ServiceClient,
    rollout_id: str,
    *,
    lines: Console | None,
    told: int = 0,
    clock_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Answer:
    """The rollout as it ended. What happens goes to ``lines``; the first ``told`` of it were told before.

    Where it stands goes to standard error, if that is a terminal.

    A service that is away meanwhile is asked again for ``AWAY_S``: it goes on with the rollout by itself.
    """
    heard_s = clock_s()
    with _goes_on(rollout_id), _standing() as stands:
        while True:
            try:
                answer = service.get(f"/v1/rollouts/{quote(rollout_id, safe='')}")
            except AwayError as error:
                if clock_s() - heard_s > AWAY_S:
                    raise AwayError(
                        error.where,
                        error.received,
                        f"rollout {rollout_id} goes on without whoever watches",
                        f"ecntwin rollouts {rollout_id} tells, once the service answers",
                    ) from error
                stands(f"rollout {rollout_id}: the service does not answer; asking again")
                sleep(EVERY_S)
                continue
            heard_s = clock_s()
            found = answer.read(RolloutAnswer)
            events = found.events or []
            if lines is not None:
                for event in events[told:]:
                    lines.print(event_text(event))
            told = max(told, len(events))
            if found.ended:
                return answer
            stands(f"rollout {found.id}: {said(found)}")
            sleep(EVERY_S)


@contextmanager
def _goes_on(rollout_id: str) -> Iterator[None]:
    """Says so to whoever stops watching."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(f"ecntwin: the rollout goes on; ecntwin rollouts {rollout_id} tells how far it is\n")
        raise


@contextmanager
def _standing() -> Iterator[Callable[[str], None]]:
    """A line on standard error that is replaced by the next; nothing where that is no terminal."""
    screen = Console(stderr=True, highlight=False)
    if not screen.is_terminal:
        yield lambda text: None
        return
    with Status("", console=screen) as status:
        yield lambda text: status.update(Text(text))


def event_text(event: RolloutEventAnswer) -> Text:
    """``14:03:22  leaf1 applied``."""
    what = " ".join(part for part in (event.switch, event_words(event.what)) if part)
    style = "red" if event.what in ("Failed", "WentSilent", "LeftAlone", "RollbackAsked") else ""
    told = Text.assemble((clock_text(event.at), "dim"), "  ", (what, style))
    return told.append(f": {event.detail}") if event.detail else told


def event_words(what: str) -> str:
    """``LeftAlone`` is left alone."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", what).lower()


def said(found: RolloutAnswer) -> str:
    """Where it stands, in a sentence."""
    if found.stalled:
        return f"it stands still: {found.stalled}"
    stage = found.stages[found.stage] if found.stage < len(found.stages) else []
    total = count_text(len(found.switches), "switch", "switches")
    done = f"{len(found.done)} of {total} set"
    match found.phase:
        case "proposed" | "approved":
            return "working out the change of each switch; none is touched yet"
        case "canary":
            return f"setting {list_text(stage)} first"
        case "soak":
            return f"{list_text(stage)} set and watched; {done}"
        case "fleet":
            return f"setting {list_text(stage)}; {done}"
        case "done":
            return outcome(found)
        case "rolling_back":
            return f"taking it back: {found.why or 'no reason given'}"
        case "rolled_back":
            return outcome(found)
    return found.phase.replace("_", " ")


def outcome(found: RolloutAnswer) -> str:
    """How one that ended did."""
    if found.phase == "done":
        if not any(one.writes for one in found.switches):
            return f"a dry run: would have set {count_text(len(found.switches), 'switch', 'switches')}"
        return f"{count_text(len(found.done), 'switch', 'switches')} read back to run it"
    restored = sum(one.progress == "restored" for one in found.switches)
    told = f"{count_text(restored, 'switch', 'switches')} returned to what ran before"
    if found.left_alone:
        left = list_text(one.switch for one in found.left_alone)
        told += f"; left alone, as somebody else has set them since: {left}"
    return told if restored or found.left_alone else "no switch had been touched"


REPORTS_EVERY_S = 5.0


class EventLines:
    """One line for each event worth one: counts of reports are gathered, progress within a step left out."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._number: int | None = None
        self._accepted = self._rejected = 0
        self._counted_s: float | None = None
        self._step: Any = None

    def reconnected(self) -> None:
        """Numbers may begin anew."""
        self._number = None

    def missed(self, event: ServiceEvent) -> int:
        """How many events were lost before this one."""
        before, self._number = self._number, event.id
        if before is None or event.id is None:
            return 0
        return max(event.id - before - 1, 0)

    def line(self, event: ServiceEvent) -> Text | None:
        """What it says; None where that is not worth a line, or not yet."""
        told = _LINES.get(event.event)
        if told is not None:
            with suppress(msgspec.ValidationError):
                return told(self, event.data)
        return Text(msgspec.json.encode(event.data).decode())  # of a newer service

    def _reports(self, data: Mapping[str, Any]) -> Text | None:
        self._accepted += _whole(data.get("accepted"))
        self._rejected += _whole(data.get("rejected"))
        now_s = self._clock_s()
        if self._counted_s is not None and now_s - self._counted_s < REPORTS_EVERY_S:
            return None
        told = Text(f"{count_text(self._accepted, 'report')} accepted")
        if self._rejected:
            told.append(f", {self._rejected} rejected", "yellow")
        self._counted_s, self._accepted, self._rejected = now_s, 0, 0
        return told

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

    def _rollout(self, data: Mapping[str, Any]) -> Text:
        what = event_words(str(data.get("what")))
        told = Text.assemble((_said(data.get("id")), "bold"), " ", words_of(str(data.get("phase"))))
        if data.get("switch"):
            told.append(f": {data['switch']} {what}")
        elif what != data.get("phase"):
            told.append(f": {what}")
        return told.append(f"; {data['why']}", "yellow") if data.get("why") else told

    def _whatif(self, data: Mapping[str, Any]) -> Text | None:
        done, total = data.get("done"), data.get("total")
        return Text(f"{total} predicted") if done == total else None

    def _switch(self, data: Mapping[str, Any]) -> Text:
        told = Text(f"{_said(data.get('switch'))} ", "bold")
        if not data.get("reachable"):
            return told.append("does not answer", "yellow")
        running = data.get("running")
        if running is None:
            return told.append("answers; queues differ")
        told.append(f"runs {watermark_text(msgspec.convert(running, MarkAnswer))}")
        return told.append(", which is not what was set here", "yellow") if data.get("drifted") else told

    def _alarm(self, data: Mapping[str, Any]) -> Text:
        what = data.get("what")
        if what == "more":
            return Text(f"{data.get('count')} more changed: ecntwin alarms")
        if what == "cleared":
            return Text.assemble(("cleared", "green"), f": {data.get('kind')} of {data.get('subject')}")
        return Text.assemble(words_of(str(data.get("level"))), f" {data.get('kind')}: {data.get('sentence')}")


_LINES: Mapping[str, Callable[[EventLines, Mapping[str, Any]], Text | None]] = {
    "reports": EventLines._reports,
    "round": EventLines._round,
    "recommendation": EventLines._recommendation,
    "decision": EventLines._decision,
    "rollout": EventLines._rollout,
    "whatif": EventLines._whatif,
    "switch": EventLines._switch,
    "alarm": EventLines._alarm,
}


def _said(value: object) -> str:
    return "–" if value is None else str(value).replace("_", " ")


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
