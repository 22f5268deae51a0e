"""Follows a rollout until it ends, telling each thing that happens; must not decide anything about it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

from rich.console import Console
from rich.status import Status
from rich.text import Text

from cli.answers import RolloutAnswer, RolloutEventAnswer
from cli.client import Answer, ServiceClient
from cli.output import clock_text, count_text, list_text
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
