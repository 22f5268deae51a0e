"""What happens in a service, as lines for people; must not ask the service for anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from rich.text import Text

from cli.answers import MarkAnswer
from cli.client import ServiceEvent
from cli.follow import event_words
from cli.output import count_text, watermark_text, words_of

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
