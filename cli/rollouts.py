"""``ecntwin rollouts``, ``rollback``, ``hash``, ``freeze`` and ``thaw``; follows a rollout until it ends."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

import typer
from rich.console import Console, RenderableType
from rich.status import Status
from rich.table import Table
from rich.text import Text

from cli.answers import (
    LISTED_ROLLOUT,
    FreezeAnswer,
    HashAnswer,
    ListedRolloutAnswer,
    RolloutAnswer,
    RolloutEventAnswer,
    RolloutHostAnswer,
    RolloutsAnswer,
    RolloutSummaryAnswer,
    RolloutSwitchAnswer,
)
from cli.client import Answer, ServiceClient
from cli.output import (
    FAILED,
    NONE,
    WIDE,
    clock_text,
    confirm,
    console,
    count_text,
    headed_table,
    labelled_lines,
    of_all_text,
    print_json,
    require_terminal,
    say,
    screen_for_asking,
    show,
    watermark_cells,
    watermark_text,
    words_of,
)
from service.documents.base import list_text
from settings.errors import AwayError, RefusedError

NEWEST = "newest"
EVENTS_SHOWN = 30
HOSTS_SHOWN = 20
EVERY_S = 0.5
AWAY_S = 60.0


def several(url: str, limit: int, *, as_json: bool) -> None:
    with ServiceClient.at(url) as service:
        answer = newest(service, limit, whole=as_json)
    show(answer, RolloutsAnswer, lambda found, wide: [rollouts_table(found, wide=wide)], as_json=as_json)


def newest(service: ServiceClient, limit: int, *, whole: bool = False) -> Answer:
    """The newest rollouts; only ``whole`` ones have their switches, of which there may be hundreds."""
    query: dict[str, str | int] = {"limit": limit}
    return service.get("/v1/rollouts", query if whole else query | {"fields": LISTED_ROLLOUT})


def one(url: str, which: str, *, as_json: bool) -> None:
    with ServiceClient.at(url) as service:
        answer = service.get(_path(service, which))
    show(answer, RolloutAnswer, lambda found, wide: rollout_lines(found, wide=wide), as_json=as_json)


def _path(service: ServiceClient, which: str) -> str:
    """The rollout of that id, or the newest for ``newest``; raises ``RefusedError`` where there is none."""
    if which == NEWEST:
        found = newest(service, 1).read(RolloutsAnswer).rollouts
        if not found:
            raise RefusedError(
                f"rollout {NEWEST!r}", None, "no rollout has begun yet", "ecntwin approve begins one"
            )
        which = found[0].id
    return f"/v1/rollouts/{quote(which, safe='')}"


def rollouts_table(found: RolloutsAnswer, *, wide: bool) -> RenderableType:
    """One row per rollout; ``wide`` adds who approved it and why it ended."""
    if not found.rollouts:
        return "No rollout has begun yet."
    title = f"{of_all_text(len(found.rollouts), found.total, 'rollout')}, newest first"
    table = headed_table(title, "id", "begun", "phase", "set", *(("by", "why") if wide else ()), left=6)
    for column in table.columns[:4]:
        column.no_wrap = True
    for rollout in found.rollouts:
        table.add_row(
            Text(rollout.id, "" if rollout.ended else "bold"),
            clock_text(rollout.proposed_at),
            words_of(rollout.phase),
            _set_of(rollout.summary) if rollout.writes else "dry run",
            *((rollout.approved_by or NONE, _why(rollout)) if wide else ()),
        )
    return table


def _set_of(summary: RolloutSummaryAnswer) -> str:
    return f"{summary.done + summary.hosts_done} of {summary.counted + summary.hosts}"


def members_text(switches: int, hosts: int) -> str:
    """Such as ``3 switches and 100 hosts``, without those of which there is none."""
    said = [count_text(switches, "switch", "switches")] if switches or not hosts else []
    return " and ".join([*said, *([count_text(hosts, "host")] if hosts else [])])


def _why(rollout: ListedRolloutAnswer) -> Text:
    return Text(f"stands still: {rollout.stalled}", "yellow") if rollout.stalled else Text(rollout.why or "")


def rollout_lines(found: RolloutAnswer, *, wide: bool) -> Iterator[RenderableType]:
    """Phase, switches, hosts, notes and the newest events of a rollout."""
    lines = labelled_lines()
    lines.add_row("rollout", Text(found.id, "bold"))
    if found.recommendation:
        lines.add_row("recommendation", found.recommendation)
    lines.add_row("begun", f"{clock_text(found.proposed_at)} by {found.approved_by or 'nobody yet'}")
    lines.add_row(
        "phase",
        Text.assemble(words_of(found.phase), f" since {clock_text(found.since)}: {progress_text(found)}"),
    )
    if found.why:
        lines.add_row("why", found.why)
    yield lines
    if found.switches or not found.hashes:
        yield rollout_table(found, wide=wide)
        yield from _role_lines(found)
    for switch in found.switches:
        for note in [*switch.notes, *([switch.detail] if switch.detail else [])]:
            yield Text.assemble((f"{switch.switch}: ", "bold"), note)
    yield from _host_lines(found)
    for one in found.hashes:
        was, dry = one.before or "its own", "" if one.writes else ", dry run"
        said = f" hash {was} → {one.target} ({one.progress.replace('_', ' ')}{dry})"
        yield Text.assemble((one.switch, "bold"), said, f": {one.detail}" if one.detail else "")
    events = found.events or []
    earlier = len(events) - EVENTS_SHOWN
    if earlier > 0:
        yield Text(f"{earlier} earlier ones: --json shows all", "dim")
    for event in events[-EVENTS_SHOWN:]:
        yield event_text(event, found)


def rollout_table(found: RolloutAnswer, *, wide: bool) -> Table:
    """Stage, progress and watermark of each switch; ``wide`` adds the watermark before."""
    table = headed_table(None, "switch", "stage", "progress", "Kmin", "Kmax", "Pmax", left=3)
    for column in table.columns:
        column.no_wrap = column.header != "switch"
        column.overflow = "fold"
    for one in found.switches:
        table.add_row(
            Text(one.switch, "bold"),
            _stage_text(found, one.stage) + ("" if one.writes else ", dry run"),
            words_of(one.progress),
            *(_change(one) if wide else watermark_cells(one.after or one.target)),
        )
    return table


def _stage_text(found: RolloutAnswer, stage: int) -> str:
    if found.hosts:  # there is a canary of either kind
        return f"stage {stage + 1} of {len(found.stages)}"
    return "canary" if stage == 0 else f"batch {stage}"


def _role_lines(found: RolloutAnswer) -> Iterator[Text]:
    """Each role's watermark where ports are set by role, and on how many ports."""
    ports: Counter[str] = Counter()
    for one in (target for switch in found.switches for target in switch.by_role):
        ports[f"{one.role}: {watermark_text(one)}"] += len(one.ports)
    for said, count in sorted(ports.items()):
        yield Text(f"{said} on {count_text(count, 'port')}")


def _host_lines(found: RolloutAnswer) -> Iterator[RenderableType]:
    """What most hosts' NICs get, and how far each has come, those that need a look first."""
    if not found.hosts:
        return
    changes = {one.host: _nic_changes(one) for one in found.hosts}
    usual, _ = Counter(changes.values()).most_common(1)[0]
    yield Text(f"NICs: {usual}")
    table = headed_table(None, "host", "stage", "progress", "", left=4)
    order = sorted(found.hosts, key=lambda one: (not one.detail, one.progress in ("set", "restored")))
    for one in order[:HOSTS_SHOWN]:
        stage = _stage_text(found, one.stage) + ("" if one.writes else ", dry run")
        other = changes[one.host] if changes[one.host] != usual else ""
        table.add_row(Text(one.host, "bold"), stage, words_of(one.progress), Text(other))
    yield table
    if len(order) > HOSTS_SHOWN:
        yield Text(f"{len(order) - HOSTS_SHOWN} more hosts: --json shows all", "dim")
    for one in order[:HOSTS_SHOWN]:
        if one.detail:
            yield Text.assemble((f"{one.host}: ", "bold"), one.detail)


def _nic_changes(one: RolloutHostAnswer) -> str:
    """Each change once: most NICs of a host are alike."""
    lines = dict.fromkeys(line.partition(" ")[2].replace(":", "", 1) for line in one.diff.splitlines())
    wanted = [f"{name} {value}" for name, value in one.target.items()]
    return ", ".join(lines or wanted)


def _change(one: RolloutSwitchAnswer) -> Iterator[Text]:
    after = watermark_cells(one.after or one.target)
    for before, now in zip(watermark_cells(one.before), after, strict=True):
        yield Text(now, "dim") if before == now else Text.assemble((f"{before} → ", "dim"), now)


def rollback(url: str, which: str, *, yes: bool, wait: bool, as_json: bool) -> None:
    """Exits 0 once all switches are restored (without waiting: once it began), 1 if one was left alone or
    given up.

    Confirms at a terminal only: scripts may always undo.
    """
    with ServiceClient.at(url) as service:
        path = _path(service, which)
        before = service.get(path).read(RolloutAnswer)
        which = before.id
        if not yes and sys.stdin.isatty():
            screen = screen_for_asking()
            screen.print(rollout_table(before, wide=screen.width >= WIDE))
            confirm(f"Roll {which} back?")
        answer = service.post(f"{path}/rollback")
        lines = None if as_json else console(wide=True)
        if wait:
            answer = follow(service, which, lines=lines, shown=len(before.events or []))
    found = answer.read(RolloutAnswer)
    if lines is None:
        print_json(answer.document())
    elif wait:
        lines.print(Text.assemble(words_of(found.phase), f": {outcome_text(found)}."))
    else:
        lines.print(Text(f"Begun. ecntwin rollouts {found.id} shows its progress."))
    if found.summary.left_alone:
        left = list_text(found.summary.left_alone)
        screen_for_asking().print(
            Text(f"ecntwin: left alone, as somebody else has set them since: {left}"), soft_wrap=True
        )
    if found.summary.given_up:
        left = list_text(found.summary.given_up)
        screen_for_asking().print(
            Text(f"ecntwin: given up, and may still run the change: {left}"), soft_wrap=True
        )
    if found.summary.left_alone or found.summary.given_up:
        raise typer.Exit(FAILED)


def give_up(url: str, which: str, member: str, reason: str, *, yes: bool, as_json: bool) -> None:
    """Ends the undo of a member that kept failing, and shows what may be left on it."""
    if not yes:
        require_terminal("give-up")
    with ServiceClient.at(url) as service:
        path = _path(service, which)
        if not yes:
            confirm(f"Give up undoing {member}? It may still run the change, and no rollout will undo it.")
        answer = service.post(f"{path}/give-up", {"member": member, "reason": reason})
    show(answer, RolloutAnswer, lambda found, wide: rollout_lines(found, wide=wide), as_json=as_json)


def rehash(url: str, switch: str, value: str | None, *, yes: bool, wait: bool, as_json: bool) -> None:
    """Shows what a switch hashes by, or sets ``value``; exits 1 where that is rolled back or declined."""
    path = f"/v1/switches/{quote(switch, safe='')}/hash"
    if value is not None and not yes:
        require_terminal("hash")
    with ServiceClient.at(url) as service:
        now = service.get(path)
        found = now.read(HashAnswer)
        if value is None:
            show(now, HashAnswer, lambda found, wide: hash_lines(switch, found), as_json=as_json)
            return
        if not yes:
            brings = "; ".join(("it moves every flow with a choice of ports there", *found.notes))
            confirm(f"Set {found.setting} of {switch} from {found.value or 'its own'} to {value} ({brings})?")
        answer = service.post(path, {"value": value})
        rollout = answer.read(RolloutAnswer).id
        lines = None if as_json else console(wide=True)
        if lines is not None:
            lines.print(f"Rollout {rollout}.")
        if wait:
            answer = follow(service, rollout, lines=lines)
    ended = answer.read(RolloutAnswer)
    if lines is None:
        print_json(answer.document())
    elif wait:
        lines.print(Text.assemble(words_of(ended.phase), f": {outcome_text(ended)}."))
    if wait and ended.phase != "done":
        raise typer.Exit(FAILED)


def hash_lines(switch: str, found: HashAnswer) -> Iterator[RenderableType]:
    """What a switch hashes by, and what it may be set to."""
    lines = labelled_lines()
    lines.add_row("switch", Text(switch, "bold"))
    lines.add_row("setting", found.setting)
    lines.add_row("value", found.value or "chosen by the switch")
    lines.add_row("values", ", ".join(found.choices) or (NONE if found.fixed else "0 to 4294967295"))
    if found.fixed is not None:
        lines.add_row("cannot be set", found.fixed)
    if found.fields is not None:
        lines.add_row("fields", ", ".join(found.fields))
    for note in found.notes:
        lines.add_row("note", note)
    yield lines


def follow(
    service: ServiceClient,
    rollout_id: str,
    *,
    lines: Console | None,
    shown: int = 0,
    clock_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Answer:
    """Polls a rollout until it ends; returns its last state.

    Events after the first ``shown`` go to ``lines``, progress to standard error if that is a terminal.
    The service continues the rollout by itself, so it may be unreachable for up to ``AWAY_S``.
    """
    answered_s = clock_s()
    with _note_on_interrupt(rollout_id), _status_line() as show:
        while True:
            try:
                answer = service.get(f"/v1/rollouts/{quote(rollout_id, safe='')}")
            except AwayError as error:
                if clock_s() - answered_s > AWAY_S:
                    raise AwayError(
                        error.where,
                        error.received,
                        f"rollout {rollout_id} continues in the service",
                        f"run ecntwin rollouts {rollout_id} once the service answers",
                    ) from error
                show(f"rollout {rollout_id}: the service does not answer; asking again")
                sleep(EVERY_S)
                continue
            answered_s = clock_s()
            found = answer.read(RolloutAnswer)
            events = found.events or []
            if lines is not None:
                for event in events[shown:]:
                    lines.print(event_text(event, found))
            shown = max(shown, len(events))
            if found.ended:
                return answer
            show(f"rollout {found.id}: {progress_text(found)}")
            sleep(EVERY_S)


@contextmanager
def _note_on_interrupt(rollout_id: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say(f"the rollout goes on; ecntwin rollouts {rollout_id} shows its progress")
        raise


@contextmanager
def _status_line() -> Iterator[Callable[[str], None]]:
    """A status line on standard error; nothing where that is not a terminal."""
    screen = screen_for_asking()
    if not screen.is_terminal:
        yield lambda text: None
        return
    with Status("", console=screen) as status:
        yield lambda text: status.update(Text(text))


def event_text(event: RolloutEventAnswer, of: RolloutAnswer) -> Text:
    """``14:03:22  leaf1 applied``, or ``leaf1 applied (dry run)`` where nothing was written."""
    what = " ".join(part for part in (event.switch, event_words(event.what)) if part)
    dry = any(one.switch == event.switch and not one.writes for one in of.switches)
    dry = dry or any(one.switch == event.switch and not one.writes for one in of.hashes)
    if dry or any(one.host == event.switch and not one.writes for one in of.hosts):
        what += " (dry run)"
    style = "red" if event.what in ("Failed", "WentSilent", "LeftAlone", "GivenUp", "RollbackAsked") else ""
    line = Text.assemble((clock_text(event.at), "dim"), "  ", (what, style))
    return line.append(f": {event.detail}") if event.detail else line


def event_words(what: str) -> str:
    """``LeftAlone`` → ``left alone``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", what).lower()


def progress_text(found: ListedRolloutAnswer) -> str:
    """The progress of a rollout in a sentence."""
    if found.stalled:
        return f"it stands still: {found.stalled}"
    stage = found.stages[found.stage] if found.stage < len(found.stages) else []
    summary = found.summary
    done = f"{summary.done} of {count_text(summary.counted, 'switch', 'switches')} set"
    if summary.hosts:
        done = f"{summary.hosts_done} of {count_text(summary.hosts, 'host')}, {done}"
    match found.phase:
        case "proposed" | "approved":
            each = "switch and host" if summary.hosts else "switch"
            return f"working out the change of each {each}; none is touched yet"
        case "canary":
            return f"setting {list_text(stage)} first"
        case "soak":
            return f"{list_text(stage)} set and watched; {done}"
        case "fleet":
            return f"setting {list_text(stage)}; {done}"
        case "done":
            return outcome_text(found)
        case "rolling_back":
            return f"taking it back: {found.why or 'no reason given'}"
        case "rolled_back":
            return outcome_text(found)
    return found.phase.replace("_", " ")


def outcome_text(found: ListedRolloutAnswer) -> str:
    summary = found.summary
    dry = summary.switches - summary.written
    out = (
        f"; a dry run on {count_text(dry, 'switch', 'switches')}, which nothing was written to" if dry else ""
    )
    if found.phase == "done":
        if not found.writes:
            return f"a dry run: would have set {members_text(summary.switches, summary.hosts)}"
        if summary.left_out:
            out = f"; left out, as they did not answer: {list_text(summary.left_out)}{out}"
        return f"{members_text(summary.done, summary.hosts_done)} read back to run it{out}"
    if not found.writes:
        return "a dry run: nothing had been written, nothing to undo"
    switches = summary.written_progress.get("restored", 0)
    hosts = summary.hosts_progress.get("restored", 0)
    if not (switches + hosts or summary.left_alone or summary.given_up):
        return f"{'nothing' if summary.hosts else 'no switch'} had been touched{out}"
    sentence = f"{members_text(switches, hosts)} returned to what ran before"
    if summary.left_alone:
        left = list_text(summary.left_alone)
        sentence += f"; left alone, as somebody else has set them since: {left}"
    if summary.given_up:
        sentence += f"; given up, and may still run the change: {list_text(summary.given_up)}"
    return sentence + out


def put_freeze(url: str, *, frozen: bool, as_json: bool) -> None:
    with ServiceClient.at(url) as service:
        answer = service.put("/v1/freeze", {"frozen": frozen})
    no, yes = "No switch is set until ecntwin thaw.", "Switches may be set."
    show(
        answer,
        FreezeAnswer,
        lambda found, wide: [Text.assemble(freeze_text(found), f". {no if found.frozen else yes}")],
        as_json=as_json,
    )


def freeze_text(found: FreezeAnswer) -> Text:
    """``Frozen by alice since 14:03:11``, and whether a restart loses that; or why it is unknown."""
    if found.unknown is not None:
        return Text(f"Frozen or not is unknown: {found.unknown}", "bold yellow")
    if not found.frozen:
        return Text("Not frozen")
    since = "" if found.at is None else f" since {clock_text(found.at)}"
    unsaved = "" if found.saved else "; not saved yet, as the database cannot be written: a restart ends it"
    return Text(f"Frozen by {found.by or 'somebody'}{since}{unsaved}", "bold yellow")
