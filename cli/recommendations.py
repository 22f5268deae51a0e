"""``ecntwin recommendations``, ``ecntwin approve`` and ``ecntwin reject``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from cli.answers import (
    CoTuningAnswer,
    MarkAnswer,
    PredictionAnswer,
    RecommendationAnswer,
    RecommendationsAnswer,
    RolloutAnswer,
    SupportAnswer,
    SwitchAnswer,
)
from cli.client import Answer, ServiceClient
from cli.output import (
    FAILED,
    NONE,
    clock_text,
    confirm,
    console,
    count_text,
    headed_table,
    labelled_lines,
    of_all_text,
    print_json,
    require_terminal,
    screen_for_asking,
    show,
    watermark_cells,
    watermark_text,
    words_of,
)
from cli.prediction_tables import (
    candidates_table,
    class_sentences,
    co_tuning_tables,
    comparison_table,
    path_sentences,
    path_tables,
)
from cli.rollouts import follow, outcome_text
from nics.parameters import values_text
from service.documents.base import list_text
from settings.errors import RefusedError
from twin.units import change_text, duration_text, gain_text

CANDIDATES_SHOWN = 5


def several(url: str, limit: int, *, as_json: bool) -> None:
    with ServiceClient.at(url) as service:
        answer = service.get("/v1/recommendations", {"limit": limit, "candidates": False})
    show(
        answer,
        RecommendationsAnswer,
        lambda found, wide: [recommendations_table(found, wide=wide)],
        as_json=as_json,
    )


def one(url: str, which: str, *, as_json: bool) -> None:
    with ServiceClient.at(url) as service:
        answer = recommendation(service, which)
        switches = [] if as_json else service.get("/v1/switches").read(list[SwitchAnswer])
    show(
        answer,
        RecommendationAnswer,
        lambda found, wide: recommendation_lines(found, switches, wide=wide),
        as_json=as_json,
    )


def recommendation(service: ServiceClient, which: str) -> Answer:
    """``which``: an id, or ``current``."""
    return service.get(f"/v1/recommendations/{quote(which, safe='')}")


def recommendations_table(found: RecommendationsAnswer, *, wide: bool) -> RenderableType:
    """One row per recommendation; ``wide`` adds when and why."""
    if not found.recommendations:
        return "No round has run yet."
    title = f"{of_all_text(len(found.recommendations), found.total, 'round')}, newest first"
    columns = ("id", "status", "Kmin", "Kmax", "Pmax", "queue", *(("found", "why") if wide else ()))
    table = headed_table(title, *columns, left=2)
    for column in table.columns[:-1] if wide else table.columns:
        column.no_wrap = True
    if wide:
        table.columns[-1].justify = "left"
    for one in found.recommendations:
        queue = one.improvement.relative.get("queue_mean") if one.changes else None
        status = words_of(one.status)
        if one.status == "pending" and (one.blocked or one.holds):
            status.append(", blocked" if one.blocked else ", held", "yellow")
        table.add_row(
            Text(one.id, "bold" if one.status == "pending" else ""),
            status,
            *(watermark_cells(one.recommendation) if one.changes else ("as is", NONE, NONE)),
            NONE if queue is None else change_text(queue),
            *((clock_text(one.created), Text(one.why)) if wide else ()),
        )
    return table


def support_text(found: SupportAnswer) -> str:
    """Such as ``7 rounds, the last over 8 moments of traffic (80 ms); 7 of 7 in the last hour``."""
    rounds = count_text(found.rounds, "round")
    moments = count_text(found.moments, "moment")
    last = f"{rounds}, the last over {moments} of traffic ({duration_text(found.traffic_s)})"
    hour = f"{found.hour_agreeing} of {found.hour_rounds} in the last hour"
    return f"{last}; {hour}" + (f"; traffic changed: {found.changed}" if found.changed else "")


def recommendation_lines(
    found: RecommendationAnswer, switches: Sequence[SwitchAnswer] = (), *, wide: bool
) -> Iterator[RenderableType]:
    """Status, reasons, the change it would make to ``switches``, predictions and the best candidates."""
    dry = {one.name for one in switches if not one.writes}
    done = found.rollout is not None and not dry.issuperset(found.switches)
    was = "before" if done else "now"
    lines = labelled_lines()
    lines.add_row("recommendation", Text(found.id, "bold"))
    lines.add_row("found", f"{clock_text(found.created)}, in {found.wall_s:.1f} s")
    lines.add_row("status", _decision(found))
    lines.add_row("why", found.why)
    if found.support is not None:
        lines.add_row("stands on", support_text(found.support))
    blocked = [block.reason for block in found.blocked]
    for label, sentences in (
        ("expired", [found.expired.reason] if found.expired else []),
        ("blocked", blocked),
        ("held back", [hold for hold in found.holds if hold not in blocked]),
        ("caution", [found.caution] if found.caution else []),
        ("second opinion", [found.second_opinion.sentence] if found.second_opinion else []),
        ("together", [found.co_tuning.sentence] if found.co_tuning else []),
        ("NICs stay", [found.nics_refused] if found.nics_refused else []),
        ("roles stay", [found.roles_refused] if found.roles_refused else []),
        ("paths", path_sentences(found.paths) if found.paths else []),
        ("remark", found.remarks),
        ("note", found.notes),
    ):
        for sentence in sentences:
            style = "yellow" if label in ("expired", "blocked", "held back", "caution") else ""
            lines.add_row(label, Text(sentence, style))
    if beside := [words for part, words in _BESIDE.items() if part in found.sets]:
        lines.add_row("sets", ", and ".join([watermark_text(found.wanted), *beside]))
    elif found.changes:
        mark = found.recommendation
        whole = found.staged in (None, MarkAnswer(mark.kmin_bytes, mark.kmax_bytes, mark.pmax))
        step = "" if whole else " (a step towards it)"
        lines.add_row("set" if done else "would set", f"{watermark_text(found.wanted)}{step}")
        lines.add_row("on", list_text(found.switches, 12) or NONE)
        if found.status == "pending" and (left := _left_alone(found, switches)) is not None:
            lines.add_row("leaves", left)
    if found.rollout is not None:
        lines.add_row("rollout", found.rollout)
    yield lines
    yield comparison_table(found.incumbent, found.recommendation, was)
    if found.candidates:
        yield candidates_table(
            found.candidates, CANDIDATES_SHOWN, score_is=found.score_is, origins=wide, was=was
        )
    if found.co_tuning is not None:
        yield from co_tuning_tables(found.co_tuning, found.incumbent)
    if found.paths is not None:
        yield from path_tables(found.paths)
    if found.status == "pending" and not found.blocked:
        if found.changes:
            yield Text(f"ecntwin approve {found.id} shows it switch by switch, and asks.", "dim")
        if found.settable is not None:
            flags = " ".join(_FLAGS[part] for part in found.settable.beside)
            sets = " and ".join(_BESIDE[part] for part in found.settable.beside)
            yield Text(f"ecntwin approve {found.id} {flags} sets {sets} with the watermark.", "dim")


def _left_alone(found: RecommendationAnswer, switches: Sequence[SwitchAnswer]) -> str | None:
    """The switches that stay as they are, and why; a note tells of those whose queues are not known."""
    told = {*found.switches, *found.left_out}
    names = [one.name for one in switches if one.name not in told]
    return f"{list_text(names, 12)} as they are: none of their queues is a bottleneck" if names else None


def _decision(found: RecommendationAnswer) -> Text:
    line = words_of(found.status)
    if found.expired is not None:
        line.append(f" since {clock_text(found.expired.at)}")
    if found.decided_by is not None:
        line.append(f" by {found.decided_by}")
    if found.decided_at is not None:
        line.append(f" at {clock_text(found.decided_at)}")
    return line


_FLAGS = {"nic": "--with-nics", "roles": "--with-roles"}
_BESIDE = {"nic": "NICs", "roles": "ports by role"}


def approve(url: str, which: str, *, nics: bool, roles: bool, yes: bool, wait: bool, as_json: bool) -> None:
    """Exits 0 once it is rolled out (without waiting: once it began), 1 if rolled back or declined.

    The service is told which incumbent and which values were shown, and refuses if these are others by then.
    """
    if not yes:
        require_terminal("approve")
    with ServiceClient.at(url) as service:
        found = recommendation(service, which).read(RecommendationAnswer)
        beside = [part for part, asked in (("nic", nics), ("roles", roles)) if asked]
        joint = _checked(found, beside)
        if not (yes and as_json):
            switches = service.get("/v1/switches").read(list[SwitchAnswer])
            _show_change(found, switches, joint, screen_for_asking() if as_json else console(wide=True))
        if not yes:
            confirm(f"Approve {found.id}?")
        shown: dict[str, Any] = {"incumbent": _mark(found.incumbent)}
        if joint is not None:
            shown["parts"] = ["watermark", *beside]
            shown["together"] = {
                "watermark": _mark(joint.watermark),
                "connectx": joint.connectx,
                "connectx_by_class": joint.connectx_by_class,
                "by_role": {one.role: _mark(one) for one in joint.by_role},
            }
        decided = service.post(f"/v1/recommendations/{quote(found.id, safe='')}/approve", shown)
        begun = decided.read(RecommendationAnswer).rollout
        lines = None if as_json else console(wide=True)
        if lines is not None:
            lines.print(f"Approved. Rollout {begun}.")
        ended = follow(service, begun, lines=lines) if wait and begun else None
        if ended is not None:  # its status says whether the rollout was rolled back
            decided = recommendation(service, found.id)
    document: dict[str, Any] = {
        "recommendation": decided.document(),
        "rollout": None if ended is None else ended.document(),
    }
    if as_json:
        print_json(document)
    if ended is not None:
        _end(ended.read(RolloutAnswer), lines)
    elif lines is not None:
        lines.print(Text(f"ecntwin rollouts {begun} shows its progress.", "dim"))


def _mark(of: MarkAnswer | PredictionAnswer) -> dict[str, float]:
    return {name: getattr(of, name) for name in MarkAnswer.__struct_fields__}


def reject(url: str, which: str, *, as_json: bool) -> None:
    with ServiceClient.at(url) as service:
        if which == "current":
            which = recommendation(service, which).read(RecommendationAnswer).id
        answer = service.post(f"/v1/recommendations/{quote(which, safe='')}/reject")
    show(
        answer,
        RecommendationAnswer,
        lambda found, wide: [Text(f"{found.id} rejected; nothing is set.")],
        as_json=as_json,
    )


def change_table(
    found: RecommendationAnswer, switches: list[SwitchAnswer], mark: MarkAnswer | None = None
) -> Table:
    """The change that an approval makes on each switch, to ``mark`` where that is not the recommended one."""
    mark = mark or found.wanted
    wanted = watermark_cells(mark)
    by_name = {one.name: one for one in switches}
    concerned = [by_name[name] for name in found.switches if name in by_name]
    title = f"{found.id}: {watermark_text(mark)}"
    table = headed_table(title, "switch", "Kmin", "Kmax", "Pmax", "note")
    table.columns[-1].justify = "left"
    for column in table.columns[:-1]:
        column.no_wrap = True
    for one in concerned:
        now = watermark_cells(one.running)
        cells = [
            Text(after, "dim") if before == after else Text.assemble((f"{before} → ", "dim"), (after, "bold"))
            for before, after in zip(now, wanted, strict=True)
        ]
        table.add_row(Text(one.name, "bold"), *cells, _note(one, mark))
    return table


def _note(one: SwitchAnswer, wanted: MarkAnswer) -> Text:
    notes = [
        text
        for text, holds in (
            ("does not answer", not one.reachable),
            ("drifted: adopt or set it back first", one.drifted and one.writes),
            ("its queues differ", one.running is None and bool(one.queues)),
            ("not known", one.running is None and not one.queues),
            ("no change", one.running == wanted),
        )
        if holds
    ]
    line = Text("; ".join(notes), "yellow" if notes and notes != ["no change"] else "dim")
    if not one.writes:
        line = Text("dry run", "dim").append("; " if notes else "").append(line)
    return line


def _show_change(
    found: RecommendationAnswer, switches: list[SwitchAnswer], joint: CoTuningAnswer | None, screen: Console
) -> None:
    table = change_table(found, switches, None if joint is None else joint.watermark)
    screen.print(table)
    if (left := _left_alone(found, switches)) is not None:
        screen.print(Text(f"It leaves {left}."))
    if joint is None:
        screen.print(Text(found.why))
        screen.print(Text(worth_text(found)))
    else:
        if joint.connectx:
            hosts = "all other hosts" if joint.connectx_by_class else "every host"
            screen.print(Text(f"On the NICs of {hosts}: {values_text(joint.connectx)}.", "bold"))
        for sentence in class_sentences(joint.connectx_by_class):
            screen.print(Text(sentence, "bold"))
        for one in joint.by_role:
            screen.print(Text(f"On ports of role {one.role}: {watermark_text(one)}.", "bold"))
        screen.print(Text(joint.sentence))
    for sentence in [*found.holds, *([found.caution] if found.caution else []), *found.notes]:
        screen.print(Text(f"Note: {sentence}", "yellow"))
    writes = sum(one.writes for one in switches if one.name in found.switches)
    if not writes:
        screen.print("A dry run: no device is written.")
    elif writes < table.row_count:
        screen.print(f"{count_text(writes, 'switch', 'switches')} of {table.row_count} are written.")


def worth_text(found: RecommendationAnswer) -> str:
    """What it is predicted to gain, and how old it is by this machine's clock."""
    improvement = found.improvement
    predicted = ""
    if found.score_is == "gain" and improvement.score_gain is not None:
        predicted = f"Predicted gain {gain_text(improvement.score_gain, improvement.score_error)}; "
    made = f"made at {clock_text(found.created)}, {_ago(found.created)}"
    if found.support is not None and (again := found.support.rounds - 1) > 0:
        made += f", renewed by {count_text(again, 'round')}, the newest {_ago(found.support.last)}"
    return f"{predicted}{made}."


def _ago(at: str) -> str:
    age = datetime.now(UTC) - datetime.fromisoformat(at)
    return f"{max(age.total_seconds(), 0):.0f} s ago"


def _checked(found: RecommendationAnswer, beside: list[str]) -> CoTuningAnswer | None:
    """What is set beside one watermark for all ports. Refuses early what the service would refuse too, which
    spares the operator a pointless question.
    """
    remedy = "ecntwin recommendations lists them"
    if found.status == "pending" and not found.blocked:
        joint = found.settable
        if not beside and found.changes:
            return None
        if beside and joint is not None and joint.beside == beside:
            return joint
        if not beside:
            rule = "it leaves the watermark as it is, unless more is set with it: --with-nics, --with-roles"
        elif joint is not None:
            flags = " ".join(_FLAGS[part] for part in joint.beside)
            rule = f"its joint change is predicted, and set, as one: {flags}"
        elif "nic" in beside:
            rule = f"its NIC values cannot be set: {found.nics_refused or 'no change of NICs is recommended'}"
        else:
            why = found.roles_refused or "no thresholds by port role are recommended"
            rule = f"ports cannot be set by role: {why}"
    elif found.blocked:
        rule = "it is blocked: " + " ".join(block.reason for block in found.blocked).removesuffix(".")
        remedy = found.blocked[0].remedy or remedy
    elif found.expired is not None:
        rule = f"it is expired: {found.expired.reason.removesuffix('.')}"
        remedy = "wait for the next round, or start one by POST /v1/tune, once reports come"
    else:
        rule = f"it is {found.status.replace('_', ' ')}; only a pending recommendation can be approved"
    raise RefusedError(f"recommendation {found.id!r}", None, rule, remedy)


def _end(rollout: RolloutAnswer, lines: Console | None) -> None:
    """Prints how the rollout ended; exits 1 if it was rolled back."""
    if lines is not None:
        lines.print(Text.assemble(words_of(rollout.phase), f": {outcome_text(rollout)}."))
    if rollout.phase != "done":
        why = f": {rollout.why}" if rollout.why else ""
        screen_for_asking().print(Text(f"ecntwin: rollout {rollout.id} was taken back{why}"), soft_wrap=True)
        raise typer.Exit(FAILED)
