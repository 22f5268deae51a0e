"""``ecntwin status``, ``flows``, ``forecast``, and ``alarms`` with acknowledgements and silences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from math import inf
from typing import Any, TypeVar
from urllib.parse import quote

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cli.answers import (
    AdviserAnswer,
    AlarmAnswer,
    AlarmGroupAnswer,
    AlarmsAnswer,
    ConditionAnswer,
    FlowsAnswer,
    ForecastAnswer,
    FreezeAnswer,
    HealthAnswer,
    ReadinessAnswer,
    RecommendationAnswer,
    RolloutsAnswer,
    SilenceAnswer,
    SilencesAnswer,
    StateAnswer,
    SwitchAnswer,
)
from cli.client import Answer, ServiceClient
from cli.output import (
    NONE,
    clock_text,
    console,
    count_text,
    gbps_text,
    headed_table,
    labelled_lines,
    of_all_text,
    print_json,
    show,
    watermark_text,
    words_of,
)
from cli.prediction_tables import forecast_lines
from cli.rollouts import freeze_text, newest, progress_text
from service.documents.base import list_text
from settings.errors import InputError
from settings.history import DAY_S
from settings.validation import DURATION
from twin.units import bytes_text, duration_text, quantity

_INDENT = (0, 0, 0, 2)
SUBJECTS_SHOWN = 12
_LEVEL_STYLES = {"well": "green", "watch": "yellow", "bad": "bold red"}


def alarms(url: str, limit: int, *, ended: bool, as_json: bool) -> None:
    with ServiceClient.at(url) as service:
        answer = service.get("/v1/alarms", {"limit": limit, "all": ended, "subjects": SUBJECTS_SHOWN})
    show(answer, AlarmsAnswer, lambda found, wide: alarm_lines(found), as_json=as_json)


def alarm_lines(found: AlarmsAnswer) -> Iterator[RenderableType]:
    """The counts, then each alarm with its sentence, those that began at once together; advice once per
    kind.
    """
    yield alarms_text(found)
    explained: set[str] = set()
    groups = {group.id: group for group in found.groups}
    for one in found.alarms:
        group = groups.get(one.group or "")
        if group is None:
            yield from _alarm(one)
            alarms = [one]
        else:
            alarms = [other for other in found.alarms if other.group == group.id]
            if one is not alarms[0]:
                continue
            yield from _group(group, alarms)
        for kind, look in {each.kind: each.look for each in alarms}.items():
            if kind not in explained:
                explained.add(kind)
                yield Padding(Text(look, "dim"), _INDENT)
    hidden = found.critical + found.warning - len(found.alarms)
    if hidden > 0:
        yield Text(f"\n{hidden} more: --limit {found.critical + found.warning} shows all", "dim")
    for note in found.notes:
        yield Text(f"\n{note}", "yellow")
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
    line = Text(", ").join(Text(text, style) for text, style in levels)
    quiet = ((found.acknowledged, "acknowledged"), (found.silenced, "silenced"))
    if said := ", ".join(f"{number} {word}" for number, word in quiet if number):
        line.append(f" ({said})", "dim")
    if 0 < found.open_causes < found.open_critical + found.open_warning:
        line.append(f", {count_text(found.open_causes, 'cause')} to look for", "dim")
    if found.left_off:
        line.append(f", {found.left_off} more over a threshold that find no room", "yellow")
    return line


def _group(group: AlarmGroupAnswer, alarms: Sequence[AlarmAnswer]) -> Iterator[RenderableType]:
    """The sentence of an alarm, then a line for each of the ``alarms`` in it."""
    quiet = "" if group.open_count else "dim"
    switches = count_text(group.switch_count, "switch", "switches")
    yield Text()
    yield Text.assemble(
        words_of(group.level), "  ", (switches, "bold"), f"  {group.alarm_count} alarms", style=quiet
    )
    yield Padding(Text(group.sentence, quiet), _INDENT)
    kinds, names = (max(map(len, one)) for one in zip(*((a.kind, a.subject) for a in alarms), strict=True))
    for one in alarms:
        line = words_of(one.level)
        line.pad_right(len("critical") - len(line))
        line.append(f"  {one.kind:<{kinds}}  {one.subject:<{names}}")
        yield Padding(line.append(f"  since {clock_text(one.since)}").append(f"  {one.id}", "dim"), _INDENT)
        for said in _said_of(one):
            yield Padding(Text(said, "dim"), (0, 0, 0, 4))
    if (more := group.alarm_count - len(alarms)) > 0:
        yield Padding(Text(f"and {more} more", "dim"), _INDENT)


def _alarm(one: AlarmAnswer) -> Iterator[RenderableType]:
    ended = "" if one.ended is None else f" until {clock_text(one.ended)}"
    quiet = "dim" if one.acknowledged or one.silenced else ""
    yield Text()
    yield Text.assemble(
        words_of(one.level),
        f"  {one.kind}  ",
        (
            one.subject if one.subject_count == 1 else f"{one.subject} and {one.subject_count - 1} more",
            "bold",
        ),
        f"  since {clock_text(one.since)}{ended}",
        (f"  {one.id}", "dim"),
        style=quiet,
    )
    yield Padding(Text(one.sentence, quiet), _INDENT)
    if one.subject_count > 1:
        names = [each.subject for each in one.subjects[:SUBJECTS_SHOWN]]
        more = one.subject_count - len(names)
        listed = ", ".join(names) + (f" and {more} more" if more else "")
        yield Padding(Text(listed, "dim"), _INDENT)
    for line in _said_of(one):
        yield Padding(Text(line, "dim"), _INDENT)


def _said_of(one: AlarmAnswer) -> Iterator[str]:
    if one.carried:
        yield "From before the service started; not measured again yet"
    if one.acknowledged:
        note = f": {one.acknowledged.note}" if one.acknowledged.note else ""
        yield f"Acknowledged by {one.acknowledged.by} at {clock_text(one.acknowledged.at)}{note}"
    if one.silenced:
        yield f"Silenced {_until(one.silenced)}"
    if one.why:
        yield one.why


def _until(one: SilenceAnswer) -> str:
    note = f": {one.note}" if one.note else ""
    return f"until {clock_text(one.until)} by {one.by}{note}"


def acknowledge(url: str, alarm: str, note: str | None, *, withdraw: bool, as_json: bool) -> None:
    path = f"/v1/alarms/{quote(alarm, safe='')}/ack"
    with ServiceClient.at(url) as service:
        answer = (
            service.delete(path) if withdraw else service.post(path, None if note is None else {"note": note})
        )
    show(answer, AlarmAnswer, lambda found, wide: _alarm(found), as_json=as_json)


def silence(
    url: str, kind: str | None, switch: str | None, lasts: str, note: str | None, *, as_json: bool
) -> None:
    for_s = quantity("--for", lasts, DURATION)
    if not 0 < for_s < inf:
        raise InputError("--for", repr(lasts), "it is above 0 and ends", "give such as 4h")
    asked = {"kind": kind, "switch": switch, "for_s": for_s, "note": note}
    with ServiceClient.at(url) as service:
        answer = service.post(
            "/v1/alarms/silences", {name: value for name, value in asked.items() if value is not None}
        )
    show(answer, SilenceAnswer, lambda found, wide: [silence_text(found)], as_json=as_json)


def unsilence(url: str, silence_id: str, *, as_json: bool) -> None:
    with ServiceClient.at(url) as service:
        answer = service.delete(f"/v1/alarms/silences/{quote(silence_id, safe='')}")
    show(answer, SilenceAnswer, lambda found, wide: [Text(f"Silence {found.id} is over")], as_json=as_json)


def silences(url: str, *, as_json: bool) -> None:
    with ServiceClient.at(url) as service:
        answer = service.get("/v1/alarms/silences")
    show(
        answer,
        SilencesAnswer,
        lambda found, wide: [silence_text(one) for one in found.silences] or [Text("No silences")],
        as_json=as_json,
    )


def silence_text(one: SilenceAnswer) -> Text:
    what = " on ".join(part for part in (one.kind or "every kind", one.switch) if part)
    return Text.assemble((one.id, "bold"), f"  {what}, silenced {_until(one)}")


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Status:
    """The service's answers; None where it has nothing yet."""

    health: Answer
    readiness: Answer
    condition: Answer
    state: Answer | None
    switches: Answer
    recommendation: Answer | None
    advice: Answer | None
    rollouts: Answer
    alarms: Answer
    freeze: Answer


def status(url: str, *, as_json: bool) -> None:
    with ServiceClient.at(url) as service:
        found = ask_status(service, whole=as_json)
    if as_json:
        print_json(document(service.url, found))
        return
    screen = console(wide=True)
    screen.print(status_lines(service.url, found))


def ask_status(service: ServiceClient, *, whole: bool = True) -> Status:
    """``whole``: with every switch of the newest rollout."""
    state = service.get("/v1/state", {"queues": 1}, also=HTTPStatus.CONFLICT)
    recommendation = service.get(
        "/v1/recommendations/current", {"candidates": False}, also=HTTPStatus.NOT_FOUND
    )
    return Status(
        health=service.get("/healthz"),
        readiness=service.get("/v1/readiness"),
        condition=service.get("/v1/condition"),
        state=_unless_problem(state),
        switches=service.get("/v1/switches"),
        recommendation=_unless_problem(recommendation),
        advice=_unless_problem(service.get("/v1/advice", also=HTTPStatus.NOT_FOUND)),
        rollouts=newest(service, 1, whole=whole),
        alarms=service.get("/v1/alarms", {"limit": 1}),
        freeze=service.get("/v1/freeze"),
    )


def document(url: str, found: Status) -> dict[str, Any]:
    """The answers as one document; the recommendation without its candidates."""
    return {
        "url": url,
        **found.health.document(),
        **found.readiness.document(),
        "condition": found.condition.document(),
        "state": None if found.state is None else found.state.document(),
        "switches": found.switches.document(),
        "recommendation": None if found.recommendation is None else found.recommendation.document(),
        "advice": None if found.advice is None else found.advice.document(),
        "rollout": next(iter(found.rollouts.document()["rollouts"]), None),
        "alarms": found.alarms.document(),
        "freeze": found.freeze.document(),
    }


def status_lines(url: str, found: Status) -> Table:
    lines = labelled_lines()
    lines.add_row("service", _service(url, found))
    fabric = found.condition.read(ConditionAnswer)
    lines.add_row("fabric", Text(fabric.sentence, _LEVEL_STYLES.get(fabric.level, "dim")))
    lines.add_row("alarms", _alarms(found.alarms.read(AlarmsAnswer)))
    lines.add_row("telemetry", _telemetry(_read(found.state, StateAnswer)))
    lines.add_row("switches", switches_text(found.switches.read(list[SwitchAnswer])))
    lines.add_row("freeze", freeze_text(found.freeze.read(FreezeAnswer)))
    lines.add_row("recommended", _recommended(_read(found.recommendation, RecommendationAnswer)))
    if (advice := _read(found.advice, AdviserAnswer)) is not None:
        lines.add_row("advice", _advice(advice))
    lines.add_row("rollout", _rollout(found.rollouts.read(RolloutsAnswer)))
    return lines


def _unless_problem(answer: Answer) -> Answer | None:
    document = answer.document()
    return None if isinstance(document, dict) and "remedy" in document else answer


def _read(answer: Answer | None, kind: type[T]) -> T | None:
    return None if answer is None else answer.read(kind)


def _service(url: str, found: Status) -> Text:
    readiness = found.readiness.read(ReadinessAnswer)
    line = Text.assemble((url, "bold"), f", version {found.health.read(HealthAnswer).version}, ")
    if readiness.ready:
        return line.append("ready", "green")
    return line.append("not ready: ", "yellow").append(" ".join(readiness.reasons))


def _alarms(found: AlarmsAnswer) -> Text:
    line = alarms_text(found)
    if found.alarms:
        first = found.groups[0] if found.groups else found.alarms[0]
        line.append(f"; {first.sentence}")
    return line


def _telemetry(state: StateAnswer | None) -> Text:
    if state is None:
        line = Text("nothing to show yet", "yellow")
        return line.append(
            "; ecntwin demo --serve runs a service on a simulated fabric, to look at one", "dim"
        )
    classes = ", ".join(
        count_text(number, name.replace("_", " "), "mice" if name == "mouse" else None)
        for name, number in state.flows.items()
    )
    line = Text(
        f"{count_text(state.reports, 'report')} over {duration_text(state.duration_s)}: {classes}; "
        f"mostly {state.dominant_class.replace('_', ' ')} traffic"
    )
    if state.age_s is not None:
        line.append(f"; the newest came {duration_text(state.age_s)} ago", "yellow" if state.stale else "")
    for queue in state.queues:
        if queue.depth_mean_bytes is None:
            continue
        at = f"{queue.switch} {queue.port} · {queue.queue}"
        p99 = "" if queue.depth_p99_bytes is None else f", 99 % {bytes_text(queue.depth_p99_bytes)}"
        line.append(
            f"\ndeepest of {count_text(state.queue_count, 'queue')}: "
            f"{at} at {bytes_text(queue.depth_mean_bytes)} mean{p99}"
        )
    return line


def switches_text(found: Sequence[SwitchAnswer]) -> Text:
    if not found:
        return Text("none known yet", "yellow")
    line = Text(count_text(len(found), "switch", "switches"))
    writes = sum(one.writes for one in found)
    line.append(
        ", all written" if writes == len(found) else f", {writes} written" if writes else ", none written"
    )
    if unread := sum(one.assumed for one in found):
        line.append(", not read" if unread == len(found) else f", {unread} not read")
    for what, names in (
        ("out of reach", [one.name for one in found if not one.reachable]),
        ("drifted", [one.name for one in found if one.drifted]),
        ("in unknown units", [one.name for one in found if one.untuned]),
    ):
        if names:
            line.append(f"; {len(names)} {what} ({list_text(names, 3)})", "yellow")
    marks = Counter((one.running, one.assumed) for one in found if one.running is not None)
    for (mark, assumed), number in marks.most_common(2):
        whole = number == len(found)
        who = "\nall" if whole else f"\n{number} of them"
        line.append(f"{':' if whole else who} assumed to run" if assumed else f"{who} run")
        line.append(f" {watermark_text(mark)}")
    if len(marks) > 2:
        line.append(f"\nand {len(marks) - 2} other watermarks")
    return line


def _recommended(found: RecommendationAnswer | None) -> Text:
    if found is None:
        return Text("nothing yet: no round has run")
    line = Text.assemble(
        (found.id, "bold"), " ", words_of(found.status), f", found {clock_text(found.created)}"
    )
    if found.blocked:
        line.append(f"\nblocked: {' '.join(block.reason for block in found.blocked)}", "yellow")
    elif found.holds:
        line.append(f"\nheld back: {' '.join(found.holds)}", "yellow")
    if found.caution:
        line.append(f"\n{found.caution}", "yellow")
    return line.append(f"\n{found.why}")


def _advice(found: AdviserAnswer) -> Text:
    """That of the newest look, and how often the round after it said the same."""
    newest = found.newest
    if found.problem is not None or newest is None:
        return Text(found.problem or "nothing yet: between rounds, once reports fill the window", "dim")
    line = Text(newest.why, "" if newest.watermark else "dim")
    if found.version is not None:
        line.append(f"\nversion {found.version}", "dim")
    answered = found.confirmed + found.contradicted
    if answered:
        line.append(f"\n{count_text(answered, 'round')} after advice, {found.confirmed} confirmed it", "dim")
    return line


def _rollout(found: RolloutsAnswer) -> Text:
    if not found.rollouts:
        return Text("none yet")
    last = found.rollouts[0]
    line = Text.assemble((last.id, "bold"), " ", words_of(last.phase), f" since {clock_text(last.since)}")
    line.append(f": {progress_text(last)}", "yellow" if last.stalled else "")
    return line.append(f"\n{last.why}") if last.why else line


def flows(
    url: str, flow_class: str | None, switch: str | None, host: str | None, limit: int, *, as_json: bool
) -> None:
    asked = {"class": flow_class, "switch": switch, "host": host}
    query: dict[str, str | int] = {"limit": limit}
    query |= {name: given for name, given in asked.items() if given is not None}
    with ServiceClient.at(url) as service:
        answer = service.get("/v1/flows", query)
    show(
        answer, FlowsAnswer, lambda found, wide: [flows_table(found, flow_class, wide=wide)], as_json=as_json
    )


def flows_table(found: FlowsAnswer, flow_class: str | None = None, *, wide: bool) -> Table:
    """One row per flow; ``wide`` adds reports, ports and the path."""
    kind = "flow" if flow_class is None else flow_class.replace("_", " ")
    every = of_all_text(len(found.flows), found.total, kind, "mice" if kind == "mouse" else None)
    title = f"{every}, most bytes first"
    more = ("reports", "ports", "path") if wide else ()
    table = headed_table(title, "from", "to", "class", "bytes", "throughput", *more, left=3)
    for column in table.columns:
        column.no_wrap = column.header in ("class", "bytes", "throughput", "ports")
        column.overflow = "fold"
    if wide:
        table.columns[-1].justify = "left"
    for one in found.flows:
        rate = gbps_text(one.throughput_bytes_per_s * 8 / 1e9)
        path = " → ".join(one.path) or NONE
        table.add_row(
            Text(one.src_host),
            Text(one.dst_host),
            words_of(one.flow_class),
            bytes_text(one.window_bytes),
            rate,
            *((f"{one.reports}", f"{one.sport} → {one.dport}", Text(path)) if wide else ()),
        )
    return table


def forecast(
    url: str, switch: str | None, port: str | None, horizon: str, limit: int, *, as_json: bool
) -> None:
    horizon_s = quantity("--horizon", horizon, DURATION)
    if not 60 <= horizon_s <= DAY_S:
        raise InputError("--horizon", repr(horizon), "it is from 1m to 1d", "give such as 6h")
    query: dict[str, str | float] = {"horizon_s": horizon_s, "limit": limit}
    query |= {name: given for name, given in (("switch", switch), ("port", port)) if given is not None}
    with ServiceClient.at(url) as service:
        answer = service.get("/v1/history/forecast", query)
    show(answer, ForecastAnswer, lambda found, wide: forecast_lines(found, horizon), as_json=as_json)
