"""``ecntwin alarms``: what is wrong now, and where to look first.

``ecntwin status``: one look at the service, the fabric, and what is being done about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cli.answers import (
    AlarmAnswer,
    AlarmsAnswer,
    FreezeAnswer,
    HealthAnswer,
    ReadinessAnswer,
    RecommendationAnswer,
    RolloutsAnswer,
    StateAnswer,
    SwitchAnswer,
)
from cli.client import Answer, ServiceClient
from cli.follow import said
from cli.output import (
    clock_text,
    console,
    count_text,
    labelled_lines,
    list_text,
    print_json,
    watermark_text,
    words_of,
)
from cli.tables import freeze_text
from twin.units import bytes_text, duration_text

_INDENT = (0, 0, 0, 2)


def alarms(url: str, limit: int, *, ended: bool, as_json: bool) -> None:
    """Prints them, the worst first."""
    with ServiceClient.at(url) as service:
        answer = service.get("/v1/alarms", {"limit": limit, "all": ended})
    if as_json:
        print_json(answer.document())
        return
    screen = console(wide=True)
    for part in alarm_lines(answer.read(AlarmsAnswer)):
        screen.print(part)


def alarm_lines(found: AlarmsAnswer) -> Iterator[RenderableType]:
    """How many there are, then each with its sentence."""
    yield alarms_text(found)
    told: set[str] = set()
    for one in found.alarms:
        yield from _alarm(one)
        if one.kind not in told:  # many are of one kind
            told.add(one.kind)
            yield Padding(Text(one.look, "dim"), _INDENT)
    hidden = found.critical + found.warning - len(found.alarms)
    if hidden > 0:
        yield Text(f"\n{hidden} more: --limit {found.critical + found.warning} shows all", "dim")
    if found.ended:
        yield Text("\nEnded", "bold")
        for one in found.ended:
            yield from _alarm(one)


def alarms_text(found: AlarmsAnswer) -> Text:
    """``1 critical, 2 warnings``."""
    if not found.critical and not found.warning:
        return Text("No alarms", "green")
    levels = []
    if found.critical:
        levels.append((f"{found.critical} critical", "bold red"))
    if found.warning:
        levels.append((count_text(found.warning, "warning"), "yellow"))
    told = Text(", ").join(Text(text, style) for text, style in levels)
    if found.left_off:
        told.append(f", {found.left_off} more over a threshold that find no room", "yellow")
    return told


def _alarm(one: AlarmAnswer) -> Iterator[RenderableType]:
    ended = "" if one.ended is None else f" until {clock_text(one.ended)}"
    yield Text()
    yield Text.assemble(
        words_of(one.level),
        f"  {one.kind}  ",
        (one.subject, "bold"),
        f"  since {clock_text(one.since)}{ended}",
    )
    yield Padding(Text(one.sentence), _INDENT)
    if one.why:
        yield Padding(Text(one.why, "dim"), _INDENT)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Status:
    """The answers that a status is made of; None where there is nothing yet."""

    health: Answer
    readiness: Answer
    state: Answer | None
    switches: Answer
    recommendation: Answer | None
    rollouts: Answer
    alarms: Answer
    freeze: Answer


def status(url: str, *, as_json: bool) -> None:
    """Prints it; a service that is not ready is an answer like any."""
    with ServiceClient.at(url) as service:
        found = look(service)
    if as_json:
        print_json(document(service.url, found))
        return
    screen = console(wide=True)
    screen.print(status_lines(service.url, found))


def look(service: ServiceClient) -> Status:
    """Asks for all of it."""
    state = service.get("/v1/state", {"queues": 1}, also=HTTPStatus.CONFLICT)
    recommendation = service.get("/v1/recommendations/current", also=HTTPStatus.NOT_FOUND)
    return Status(
        health=service.get("/healthz"),
        readiness=service.get("/readyz", also=HTTPStatus.SERVICE_UNAVAILABLE),
        state=_unless_problem(state),
        switches=service.get("/v1/switches"),
        recommendation=_unless_problem(recommendation),
        rollouts=service.get("/v1/rollouts", {"limit": 1}),
        alarms=service.get("/v1/alarms", {"limit": 1}),
        freeze=service.get("/v1/freeze"),
    )


def document(url: str, found: Status) -> dict[str, Any]:
    """The service's documents in one; the recommendation without what else was tried."""
    recommendation = None if found.recommendation is None else found.recommendation.document()
    if recommendation is not None:
        recommendation["candidates"] = []
    return {
        "url": url,
        **found.health.document(),
        **found.readiness.document(),
        "state": None if found.state is None else found.state.document(),
        "switches": found.switches.document(),
        "recommendation": recommendation,
        "rollout": next(iter(found.rollouts.document()["rollouts"]), None),
        "alarms": found.alarms.document(),
        "freeze": found.freeze.document(),
    }


def status_lines(url: str, found: Status) -> Table:
    """A line for each of it."""
    lines = labelled_lines()
    lines.add_row("service", _service(url, found))
    lines.add_row("alarms", _alarms(found.alarms.read(AlarmsAnswer)))
    lines.add_row("telemetry", _telemetry(_read(found.state, StateAnswer)))
    lines.add_row("switches", _switches(found.switches.read(list[SwitchAnswer])))
    lines.add_row("freeze", freeze_text(found.freeze.read(FreezeAnswer)))
    lines.add_row("recommended", _recommended(_read(found.recommendation, RecommendationAnswer)))
    lines.add_row("rollout", _rollout(found.rollouts.read(RolloutsAnswer)))
    return lines


def _unless_problem(answer: Answer) -> Answer | None:
    document = answer.document()
    return None if isinstance(document, dict) and "remedy" in document else answer


def _read(answer: Answer | None, kind: type[T]) -> T | None:
    return None if answer is None else answer.read(kind)


def _service(url: str, found: Status) -> Text:
    readiness = found.readiness.read(ReadinessAnswer)
    told = Text.assemble((url, "bold"), f", version {found.health.read(HealthAnswer).version}, ")
    if readiness.ready:
        return told.append("ready", "green")
    return told.append("not ready: ", "yellow").append(" ".join(readiness.reasons))


def _alarms(found: AlarmsAnswer) -> Text:
    told = alarms_text(found)
    if found.alarms:
        told.append(f"; {found.alarms[0].sentence}")
    return told


def _telemetry(state: StateAnswer | None) -> Text:
    if state is None:
        return Text("no INT reports yet", "yellow")
    classes = ", ".join(
        count_text(number, name.replace("_", " "), "mice" if name == "mouse" else None)
        for name, number in state.flows.items()
    )
    told = Text(
        f"{count_text(state.reports, 'report')} over {duration_text(state.duration_s)}: {classes}; "
        f"mostly {state.dominant_class.replace('_', ' ')} traffic"
    )
    if state.age_s is not None:
        told.append(f"; the newest came {duration_text(state.age_s)} ago", "yellow" if state.stale else "")
    for queue in state.queues:
        if queue.depth_mean_bytes is None:
            continue
        at = f"{queue.switch} {queue.port} · {queue.queue}"
        p99 = "" if queue.depth_p99_bytes is None else f", 99 % {bytes_text(queue.depth_p99_bytes)}"
        told.append(
            f"\ndeepest of {count_text(state.queue_count, 'queue')}: "
            f"{at} at {bytes_text(queue.depth_mean_bytes)} mean{p99}"
        )
    return told


def _switches(found: Sequence[SwitchAnswer]) -> Text:
    if not found:
        return Text("none known yet", "yellow")
    told = Text(count_text(len(found), "switch", "switches"))
    writes = sum(one.writes for one in found)
    told.append(
        ", all written" if writes == len(found) else f", {writes} written" if writes else ", none written"
    )
    for what, names in (
        ("out of reach", [one.name for one in found if not one.reachable]),
        ("drifted", [one.name for one in found if one.drifted]),
        ("in unknown units", [one.name for one in found if one.untuned]),
    ):
        if names:
            told.append(f"; {len(names)} {what} ({list_text(names, 3)})", "yellow")
    marks = Counter(one.running for one in found if one.running is not None)
    for mark, number in marks.most_common(2):
        who = "all" if number == len(found) else f"{number} of them"
        told.append(f"\n{who} run {watermark_text(mark)}")
    if len(marks) > 2:
        told.append(f"\nand {len(marks) - 2} other watermarks")
    return told


def _recommended(found: RecommendationAnswer | None) -> Text:
    if found is None:
        return Text("nothing yet: no round has run")
    told = Text.assemble(
        (found.id, "bold"), " ", words_of(found.status), f", found {clock_text(found.created)}"
    )
    if found.holds:
        told.append(f"\nheld back: {' '.join(found.holds)}", "yellow")
    if found.caution:
        told.append(f"\n{found.caution}", "yellow")
    return told.append(f"\n{found.why}")


def _rollout(found: RolloutsAnswer) -> Text:
    if not found.rollouts:
        return Text("none yet")
    newest = found.rollouts[0]
    told = Text.assemble(
        (newest.id, "bold"), " ", words_of(newest.phase), f" since {clock_text(newest.since)}"
    )
    told.append(f": {said(newest)}", "yellow" if newest.stalled else "")
    return told.append(f"\n{newest.why}") if newest.why else told
