"""What commands show, drawn at fixed widths: all of it there, and no line beyond the edge."""

from __future__ import annotations

import io
import json
import re
from datetime import datetime
from time import time_ns
from typing import Any, TypeVar
from unittest.mock import Mock

import httpx
import msgspec
import pytest
from rich.cells import cell_len
from rich.console import RenderableType

from cli.answers import (
    AlarmsAnswer,
    FlowsAnswer,
    ForecastAnswer,
    HashAnswer,
    PredictionAnswer,
    RecommendationAnswer,
    RecommendationsAnswer,
    RolloutAnswer,
    RolloutsAnswer,
    SilenceAnswer,
    SwitchAnswer,
)
from cli.client import ServiceClient
from cli.output import WIDE, clock_text, console, count_text, of_all_text
from cli.prediction_tables import comparison_table, forecast_lines
from cli.recommendations import (
    approve,
    change_table,
    recommendation_lines,
    recommendations_table,
    worth_text,
)
from cli.rollouts import hash_lines, rollout_lines, rollouts_table
from cli.status import alarm_lines, alarms_text, flows_table, forecast, silence_text, switches_text
from cli.tune import queues_table
from service.documents.base import list_text
from settings.errors import InputError, RefusedError
from switches.device import Device
from switches.dryrun import DryRunAdapter
from telemetry.state import NetworkState, QueueRef, QueueState
from twin.watermark import Watermark

AT = "2026-01-01T00:00:00.000Z"
NOW = {"kmin_bytes": 400_000, "kmax_bytes": 1_600_000, "pmax": 0.2}
BEST = {"kmin_bytes": 7_000, "kmax_bytes": 750_000, "pmax": 0.1}
SWITCHES = [f"pod-{number:02}-leaf-a" for number in range(8)]
WHY = "Kmin 7 KB, Kmax 750 KB, Pmax 10 %: mean queue falls from 305 KB to 155 KB, elephants 37 % slower."

T = TypeVar("T")


def answer(kind: type[T], document: Any) -> T:
    """What a command reads of it."""
    return msgspec.json.decode(json.dumps(document).encode(), type=kind)


def drawn(width: int, *shown: RenderableType) -> str:
    screen = console()
    screen.file, screen.width = io.StringIO(), width
    for one in shown:
        screen.print(one)
    assert isinstance(screen.file, io.StringIO)
    text = screen.file.getvalue()
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    return text


def words(text: str) -> str:
    return " ".join(text.split())


def prediction(mark: dict[str, Any], **more: Any) -> dict[str, Any]:
    figures = {
        "queue_mean_bytes": 305_300.1,
        "queue_p99_bytes": 3_454_498.1,
        "goodput_gbps": 351.896,
        "marked_fraction": 0.08,
        "loss_bytes": 0.0,
        "pfc_pause_s": None,
        "slowdown": {name: {"mean": 4.0, "p99": None} for name in ("mice", "elephant")},
        "score": -0.067,
    }
    return mark | figures | more


def recommendation(**more: Any) -> dict[str, Any]:
    return {
        "id": "20261121T140819-1",
        "created": AT,
        "status": "pending",
        "recommendation": prediction(BEST),
        "incumbent": prediction(NOW),
        "changes": True,
        "why": WHY,
        "remarks": ["A remark."],
        "notes": ["A note."],
        "left_out": [],
        "improvement": {"score_gain": 0.07, "relative": {"queue_mean": -0.49, "pause": None}},
        "candidates": [prediction(BEST, origin="vendor", source="Huawei, throughput-sensitive, 100G")] * 9
        + [prediction(NOW, origin="incumbent", source="")],
        "second_opinion": {"sentence": "Packets agree."},
        "engine": "replay",
        "wall_s": 4.3,
        "decided_by": None,
        "decided_at": None,
        "staged": NOW | {"pmax": 0.15},
        "switches": SWITCHES,
        "holds": ["The telemetry is 40 s old."],
        "caution": "A storm is under way.",
        "rollout": None,
    } | more


@pytest.mark.parametrize("width", [80, 200])
def test_recommendations_fit(width: int) -> None:
    kept = recommendation(id="20261121T140919-2", status="kept", changes=False, staged=None, holds=[])
    found = answer(
        RecommendationsAnswer, {"total": 7, "recommendations": [recommendation(), kept, recommendation()]}
    )
    text = drawn(width, recommendations_table(found, wide=width >= WIDE))
    assert "3 of 7 rounds, newest first" in text
    assert "pending, held" in text
    (line,) = [line for line in text.splitlines() if kept["id"] in line]
    assert "as is" in line
    assert "−49 %" not in line
    assert ("elephants 37 % slower" in words(text)) == (width >= WIDE)


@pytest.mark.parametrize("width", [80, 200])
def test_a_recommendation_tells_all_that_speaks_for_and_against_it(width: int) -> None:
    found = answer(RecommendationAnswer, recommendation())
    text = drawn(width, *recommendation_lines(found, wide=width >= WIDE))
    for said in (WHY, "A remark.", "A note.", "The telemetry is 40 s old.", "A storm is under way."):
        assert said in words(text)
    assert "Packets agree." in text
    assert "Kmin 400 KB, Kmax 1.6 MB, Pmax 15 % (a step towards it)" in text
    assert SWITCHES[0] in text
    assert "Best of 10 candidates" in text
    assert ("Huawei" in text) == (width >= WIDE)
    assert "ecntwin approve 20261121T140819-1" in text


@pytest.mark.parametrize("width", [80, 200])
def test_paths_of_a_recommendation_are_shown_as_advice(width: int) -> None:
    goodput = {"engine": "replay", "before_gbps": 23.7, "after_gbps": 46.2}
    move = {"src": "10.0.0.1", "dst": "10.0.0.9", "sport": 1024, "dport": 4791}
    move |= {"src_host": "h0", "dst_host": "h8", "before": "Ethernet8", "after": "Ethernet10"}
    fix = {
        "switch": "leaf1",
        "sentence": "leaf1: 8 elephants share Ethernet8.",
        "ports": [{"port": "Ethernet8", "rate_gbps": 100.0, "load_gbps": 97.5, "elephants": 8}],
        "moved": {"advised": False, "moves": [move], "first": goodput, "second": None},
    }
    paths: dict[str, Any] = {
        "sentence": "Elephants collide.",
        "notes": ["One is unknown."],
        "collisions": [fix],
    }
    found = answer(RecommendationAnswer, recommendation(paths=paths))
    text = words(drawn(width, *recommendation_lines(found, wide=width >= WIDE)))
    for said in (
        "leaf1: 8 elephants share Ethernet8.",
        "One is unknown.",
        "Moves, not advised",
        "97.5 Gbit/s",
    ):
        assert said in text
    assert "h0 → h8, UDP 1024 → 4791" in text
    assert "ecntwin sets no paths" in text
    none = answer(RecommendationAnswer, recommendation(paths=paths | {"collisions": []}))
    text = words(drawn(width, *recommendation_lines(none, wide=width >= WIDE)))
    assert "Elephants collide." in text
    assert "ecntwin sets no paths" not in text


def test_a_recommendation_that_is_not_valid_says_why() -> None:
    reason = "Switches are frozen by ada."
    blocked = recommendation(holds=[reason], blocked=[{"reason": reason, "until": None}])
    text = words(drawn(80, *recommendation_lines(answer(RecommendationAnswer, blocked), wide=False)))
    assert (text.count(reason), f"blocked {reason}" in text, "ecntwin approve" in text) == (1, True, False)
    expired = recommendation(status="expired", expired={"at": AT, "reason": "leaf1 runs another."})
    text = words(drawn(80, *recommendation_lines(answer(RecommendationAnswer, expired), wide=False)))
    assert f"status expired since {clock_text(AT)}" in text
    assert "expired leaf1 runs another." in text


@pytest.mark.parametrize(
    ("more", "remedy"),
    [
        (
            {
                "blocked": [
                    {"reason": "Switches are frozen by ada.", "remedy": "thaw them first", "until": None}
                ]
            },
            "it is blocked: Switches are frozen by ada; thaw them first",
        ),
        (
            {"blocked": [{"reason": "Held.", "until": None}]},
            "it is blocked: Held; ecntwin recommendations lists them",
        ),
        (
            {"status": "expired", "expired": {"at": AT, "reason": "leaf1 runs another."}},
            "wait for the next round, or start one by POST /v1/tune, once reports come",
        ),
    ],
    ids=["frozen", "held", "expired"],
)
def test_a_refused_approval_says_what_helps(
    more: dict[str, Any], remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = httpx.MockTransport(lambda request: httpx.Response(200, json=recommendation(**more)))
    service = ServiceClient("http://x", transport=asked)
    monkeypatch.setattr(ServiceClient, "at", lambda url: service)
    with pytest.raises(RefusedError, match=re.escape(remedy)):
        approve("http://x", "current", nics=False, roles=False, yes=True, wait=False, as_json=False)


def test_a_recommendation_says_which_switches_it_leaves_alone_and_why() -> None:
    told = recommendation(left_out=["spine3"])
    fleet = [switch(name) for name in (*SWITCHES, "spine1", "spine2", "spine3")]
    found, switches = answer(RecommendationAnswer, told), answer(list[SwitchAnswer], fleet)
    left = "spine1, spine2 as they are: none of their queues is a bottleneck"
    assert f"leaves {left}" in words(drawn(200, *recommendation_lines(found, switches, wide=True)))
    assert "leaves" not in words(drawn(200, *recommendation_lines(found, switches[:-3], wide=True)))


@pytest.mark.parametrize("horizon", ["30", "2d", "inf"])
def test_a_horizon_out_of_reach_is_named_by_its_option(horizon: str) -> None:
    with pytest.raises(InputError, match=f"--horizon: received '{horizon}'; it is from 1m to 1d"):
        forecast("http://x", None, None, horizon, 20, as_json=True)


def test_what_a_change_is_worth_tells_of_the_rounds_since() -> None:
    support = {"rounds": 6, "last": AT, "moments": 8, "traffic_s": 0.08}
    support |= {"hour_rounds": 6, "hour_agreeing": 6, "changed": None}
    once, again = (recommendation(support=support | {"rounds": rounds}) for rounds in (1, 6))
    assert "renewed" not in worth_text(answer(RecommendationAnswer, once))
    told = worth_text(answer(RecommendationAnswer, again))
    assert re.search(r"made at .*, \d+ s ago, renewed by 5 rounds, the newest \d+ s ago\.$", told)


def test_a_recommendation_that_was_decided_says_by_whom() -> None:
    document = recommendation(status="rolled_back", decided_by="bob", decided_at=AT, rollout="r-2")
    text = words(drawn(100, *recommendation_lines(answer(RecommendationAnswer, document), wide=False)))
    assert f"status rolled back by bob at {clock_text(AT)}" in text
    assert "rollout r-2" in text
    assert "ecntwin approve" not in text


def test_what_a_rollout_set_is_told_as_done() -> None:
    found = answer(RecommendationAnswer, recommendation(status="approved", rollout="r-2"))
    text = words(drawn(100, *recommendation_lines(found, wide=False)))
    assert "set Kmin 400 KB, Kmax 1.6 MB, Pmax 15 % (a step towards it) on pod-00" in text
    assert "would set" not in text
    assert "before recommended change" in text
    assert re.search(r"before +400 KB", text)
    dry = answer(list[SwitchAnswer], [switch(name, writes=False) for name in SWITCHES])
    text = words(drawn(100, *recommendation_lines(found, dry, wide=False)))
    assert "would set Kmin 400 KB" in text
    assert "now recommended change" in text


def test_what_is_kept_is_no_candidate_of_its_own() -> None:
    candidates = recommendation()["candidates"]
    kept = recommendation(status="kept", changes=False, candidates=[candidates[-1], *candidates[:-1]])
    text = drawn(80, *recommendation_lines(answer(RecommendationAnswer, kept), wide=False))
    table = text[text.index("10 candidates; the first is kept") :]
    places = re.findall(r"^ (\w+) +\d[\d.]* KB", table, re.MULTILINE)
    assert places == ["now", "1", "2", "3", "4"]


def switch(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "writes": True,
        "reachable": True,
        "running": NOW,
        "queues": [],
        "drifted": False,
        "untuned": False,
    } | more


def test_what_was_not_read_is_told_as_assumed() -> None:
    device = Device(name="s1", address="s1", platform="dry-run", running=Watermark(400_000, 1_600_000, 0.2))
    reads = DryRunAdapter(device, clock_ns=time_ns).capabilities().reads
    fleet = [switch("s1", writes=False, capabilities={"reads": reads})]
    told = switches_text(answer(list[SwitchAnswer], fleet)).plain
    assert told == "1 switch, none written, not read: assumed to run Kmin 400 KB, Kmax 1.6 MB, Pmax 20 %"
    fleet += [switch("s2", capabilities={"reads": True}), switch("s3")]
    told = switches_text(answer(list[SwitchAnswer], fleet)).plain
    assert told.startswith("3 switches, 2 written, 1 not read\n2 of them run Kmin 400 KB")
    assert "\n1 of them assumed to run Kmin 400 KB" in told
    told = switches_text(answer(list[SwitchAnswer], fleet[1:])).plain
    assert told.startswith("2 switches, all written\nall run ")


@pytest.mark.parametrize("width", [80, 200])
def test_a_change_is_shown_switch_by_switch(width: int) -> None:
    switches = [
        switch(SWITCHES[0]),
        switch(SWITCHES[1], running=NOW | {"pmax": 0.15}),
        switch(SWITCHES[2], running=None, queues=[1]),
        switch(SWITCHES[3], running=None, reachable=False),
        switch(SWITCHES[4], drifted=True),
        switch(SWITCHES[5], writes=False),
        switch("another"),
    ]
    found = answer(RecommendationAnswer, recommendation(staged=NOW | {"pmax": 0.15}))
    text = drawn(width, change_table(found, answer(list[SwitchAnswer], switches)))
    assert "20 % → 15 %" in text
    assert "another" not in text
    for said in (
        "no change",
        "its queues differ",
        "does not answer",
        "adopt or set it back first",
        "dry run",
    ):
        assert said in words(text)
    (line,) = [line for line in text.splitlines() if SWITCHES[1] in line]
    assert "→" not in line


@pytest.mark.parametrize("name", ["[red]leaf", "[/x]", "leaf[a]", "leaf:warning:", "if[id=Ethernet0]/out"])
def test_names_are_shown_whole(name: str) -> None:
    paths = {
        "sentence": "Elephants collide.",
        "notes": [],
        "collisions": [
            {
                "switch": name,
                "sentence": f"{name} has a collision.",
                "ports": [{"port": name, "rate_gbps": 100.0, "load_gbps": 97.5, "elephants": 8}],
                "moved": None,
            }
        ],
    }
    found = answer(
        RecommendationAnswer, recommendation(switches=[name], why=f"Because of {name}.", paths=paths)
    )
    text = drawn(120, *recommendation_lines(found, wide=False))
    for said in (f"why             Because of {name}.", f"on              {name}", f"ports of {name}"):
        assert said in text
    assert [name, "97.5"] in [line.split()[:2] for line in text.splitlines()]
    assert name in drawn(80, change_table(found, answer(list[SwitchAnswer], [switch(name)])))
    queue = QueueState(QueueRef(name, name, 3), 10, 1e3, 2e3, 3e3, None, 1e9, None)
    state = Mock(NetworkState, queues=(queue,))
    assert f"{name} {name} · 3" in drawn(80, queues_table(state, 1))


def rollout(**more: Any) -> dict[str, Any]:
    return {
        "id": "20261121T140819-1",
        "recommendation": "20261121T140819-1",
        "phase": "rolled_back",
        "ended": True,
        "why": "the mean queue of the switches set so far exceeds what was allowed, 4.2 times of before",
        "approved_by": "policy (rollout.auto)",
        "stalled": None,
        "proposed_at": AT,
        "since": AT,
        "stage": 1,
        "stages": [SWITCHES[:1], SWITCHES[1:]],
        "summary": {
            "switches": 4,
            "written": 3,
            "progress": {"restored": 3, "left_alone": 1},
            "written_progress": {"restored": 2, "left_alone": 1},
            "left_alone": [SWITCHES[1]],
        },
        "switches": [
            {
                "switch": name,
                "stage": min(number, 1),
                "writes": number != 2,
                "progress": "left_alone" if number == 1 else "restored",
                "target": BEST,
                "before": None if number == 3 else NOW,
                "after": BEST | {"kmin_bytes": 6_912},
                "read_back": None,
                "notes": ["Kmin rounded to 27 cells of 256 B"],
                "detail": "somebody else set it" if number == 1 else "",
            }
            for number, name in enumerate(SWITCHES[:4])
        ],
        "events": [
            {"at": AT, "what": "LeftAlone", "switch": SWITCHES[1], "detail": f"number {number}"}
            for number in range(40)
        ],
    } | more


@pytest.mark.parametrize("width", [80, 200])
def test_rollouts_fit(width: int) -> None:
    found = answer(RolloutsAnswer, {"total": 2, "rollouts": [rollout(), rollout(why=None, stalled="full")]})
    text = drawn(width, rollouts_table(found, wide=width >= WIDE))
    assert "2 rollouts, newest first" in text
    assert "0 of 3" in text  # of those that are written
    assert ("policy (rollout.auto)" in text) == ("stands still: full" in text) == (width >= WIDE)
    one = drawn(width, *rollout_lines(answer(RolloutAnswer, rollout()), wide=width >= WIDE))
    for said in ("left alone", "batch 1, dry run", "6.91 KB", "somebody else set it"):
        assert said in one
    assert ("400 KB → 6.91 KB" in one) == ("– → 6.91 KB" in one) == (width >= WIDE)
    assert "10 earlier ones: --json shows all" in one
    assert "number 9\n" not in one
    assert "number 39" in one


def test_a_dry_run_is_called_one_everywhere() -> None:
    written = rollout()
    dry = written | {
        "phase": "done",
        "switches": [one | {"writes": False} for one in written["switches"]],
        "summary": written["summary"] | {"written": 0},
    }
    rows = drawn(80, rollouts_table(answer(RolloutsAnswer, {"total": 1, "rollouts": [dry]}), wide=False))
    assert "dry run" in rows
    assert "0 of 4" not in rows
    event = {"at": AT, "what": "Applied", "switch": dry["switches"][0]["switch"], "detail": ""}
    lines = rollout_lines(answer(RolloutAnswer, dry | {"events": [event]}), wide=False)
    assert "applied (dry run)" in drawn(80, *lines)


@pytest.mark.parametrize("width", [80, 200])
def test_flows_fit(width: int) -> None:
    flow = {
        "sport": 1_151,
        "dport": 4_791,
        "src_host": "gpu-node-0042",
        "dst_host": "gpu-node-0107",
        "flow_class": "potential_elephant",
        "window_bytes": 1.147e7,
        "throughput_bytes_per_s": 2.8678e9,
        "reports": 171,
        "path": ["leaf-12/Ethernet4/3", "spine-3/Ethernet0/3", "leaf-7/Ethernet1/3"],
    }
    found = answer(FlowsAnswer, {"total": 1_200, "flows": [flow, flow | {"path": []}]})
    text = drawn(width, flows_table(found, "potential_elephant", wide=width >= WIDE))
    assert "2 of 1 200 potential elephants, most bytes first" in text
    assert "22.94 Gbit/s" in text
    assert ("1151 → 4791" in text) == (width >= WIDE)
    assert "gpu-node-0042" in text
    assert ("leaf-12/Ethernet4/3 → spine-3/Ethernet0/3" in text) == (width >= WIDE)


@pytest.mark.parametrize("width", [80, 200])
def test_alarms_fit(width: int) -> None:
    def alarm(kind: str, **more: Any) -> dict[str, Any]:
        return {
            "kind": kind,
            "subject": "leaf1 Ethernet0",
            "level": "critical",
            "since": AT,
            "sentence": f"{kind} is a storm of pauses on a port that should send all the time without any.",
            "look": f"Look behind {kind}.",
            "ended": None,
            "why": None,
        } | more

    silence = {"id": "0a1b", "kind": None, "switch": "leaf1", "until": AT, "by": "ann", "note": "rack"}
    many = {
        "id": "5b0c1f6a9d21",
        "subjects": [{"subject": f"leaf1 Ethernet{number}"} for number in range(12)],
        "subject_count": 17,
        "carried": True,
        "acknowledged": {"by": "bob", "at": AT, "note": None},
        "silenced": silence,
    }
    document = {
        "warning": 2,
        "critical": 1,
        "left_off": 4,
        "alarms": [alarm("one", **many), alarm("one", level="warning")],
        "acknowledged": 1,
        "silenced": 1,
        "ended": [alarm("two", ended=AT, why="its counters stopped")],
    }
    text = drawn(width, *alarm_lines(answer(AlarmsAnswer, document)))
    assert "1 critical, 2 warnings (1 acknowledged, 1 silenced), 4 more over a threshold" in words(text)
    assert "leaf1 Ethernet0 and 16 more" in words(text)
    assert "leaf1 Ethernet11 and 5 more" in words(text)
    assert "Acknowledged by bob at 2026-01-01" in words(text)
    assert "by ann: rack" in words(text)
    assert "not measured again yet" in words(text)
    said = silence_text(answer(SilenceAnswer, silence)).plain
    assert said.startswith("0a1b  every kind on leaf1, silenced until 2026-01-01")
    assert text.count("Look behind one.") == 1
    assert "1 more: --limit 3 shows all" in text
    assert "its counters stopped" in text
    none = {"warning": 0, "critical": 0, "left_off": 0, "alarms": [], "ended": None}
    assert alarms_text(answer(AlarmsAnswer, none)).plain == "No alarms"
    noted = none | {"notes": ["'busy' watches nothing so far"]}
    assert "No alarms 'busy' watches nothing so far" in words(
        drawn(width, *alarm_lines(answer(AlarmsAnswer, noted)))
    )


@pytest.mark.parametrize("width", [80, 200])
def test_alarms_that_began_at_once_are_told_together(width: int) -> None:
    def alarm(number: int, kind: str, group: str | None = "a1") -> dict[str, Any]:
        return {
            "id": f"a{number}", "kind": kind, "subject": f"leaf{number}", "level": "warning", "since": AT,
            "sentence": f"leaf{number} is away.", "look": f"Look behind {kind}.", "ended": None, "why": None,
            "group": group, "acknowledged": {"by": "bob", "at": AT, "note": None} if number == 2 else None,
        }  # fmt: skip

    document = {
        "warning": 6, "critical": 0, "left_off": 0, "ended": None, "acknowledged": 1,
        "open_warning": 5, "open_critical": 0, "open_causes": 2,
        "groups": [
            {
                "id": "a1", "kinds": ["unreachable", "switch_silent"], "level": "warning",
                "switches": ["leaf1", "leaf2"], "switch_count": 2, "alarm_count": 5, "open_count": 4,
                "sentence": "leaf1 and leaf2, at once: unreachable, switch silent",
            }
        ],
        "alarms": [
            alarm(1, "unreachable"), alarm(9, "storage", None), alarm(2, "unreachable"),
            alarm(1, "switch_silent"), alarm(2, "switch_silent"),
        ],
    }  # fmt: skip
    found = answer(AlarmsAnswer, document)
    text = words(drawn(width, *alarm_lines(found)))
    assert "6 warnings (1 acknowledged), 2 causes to look for" in text
    assert "warning 2 switches 5 alarms leaf1 and leaf2, at once: unreachable, switch silent" in text
    assert text.index("Acknowledged by bob") < text.index("and 1 more") < text.index("leaf9 is away")
    assert "leaf1 is away" not in text, "a line each is enough"
    assert text.count("Look behind unreachable.") == text.count("Look behind switch_silent.") == 1


def test_words_for_numbers_and_times() -> None:
    assert count_text(1, "switch", "switches") == "1 switch"
    assert count_text(12_345, "report") == "12 345 reports"
    assert of_all_text(3, 3, "round") == "3 rounds"
    assert of_all_text(2, 3, "round") == "2 of 3 rounds"
    assert list_text("abcdefg", 5) == "a, b, c, d, e and 2 more"
    now, said = datetime.now().astimezone(), ""
    while not said or now.date() != datetime.now().astimezone().date():  # once more at midnight
        now = datetime.now().astimezone()
        said = clock_text(now.isoformat())
    assert said == now.strftime("%H:%M:%S")
    assert len(clock_text(AT)) == len("2026-01-01 00:00")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [(0.1, 0.29, "+190 %"), (0.001, 0.0031, "3.1 times"), (0.001, 0.142, "142 times"), (0.2, 0.1, "−50 %")],
)
def test_what_grows_many_times_is_not_told_in_percent(before: float, after: float, told: str) -> None:
    now, best = (
        answer(PredictionAnswer, prediction(mark, marked_fraction=share))
        for mark, share in ((NOW, before), (BEST, after))
    )
    (row,) = (one for one in drawn(80, comparison_table(now, best)).splitlines() if "packets marked" in one)
    assert row.strip().endswith(told)


FORECAST: dict[str, Any] = {
    "switch": "leaf1", "port": "Ethernet0", "why": None, "method": "a day before",
    "now_bytes_per_s": 1e9, "then_bytes_per_s": 5e9, "then_at": AT, "error_bytes_per_s": 2.5e8,
    "low_bytes_per_s": 0.0, "high_bytes_per_s": 6e9, "utilisation": 0.4, "path": None,
}  # fmt: skip


@pytest.mark.parametrize("width", [80, 200])
def test_forecasts_fit(width: int) -> None:
    unknown = dict.fromkeys(FORECAST) | {"switch": "leaf1", "port": "Ethernet1", "why": "It is not known."}
    found = {"horizon_s": 3_600.0, "why": None, "ports": [FORECAST, unknown], "total": 7}
    text = words(drawn(width, *forecast_lines(answer(ForecastAnswer, found), "1h")))
    assert "1 of 7 ports, the fullest within 1h first; Gbit/s" in text
    assert "leaf1 Ethernet1: It is not known." in text
    wide = words(drawn(200, *forecast_lines(answer(ForecastAnswer, found), "1h")))
    assert "leaf1 Ethernet0 8 40 2026-01-01 00:00 2 0 to 48 40 % a day before" in wide
    fast = FORECAST | {"now_bytes_per_s": 2e11, "then_bytes_per_s": 1.2495e11}
    text = words(drawn(200, *forecast_lines(answer(ForecastAnswer, found | {"ports": [fast]}), "1h")))
    assert "leaf1 Ethernet0 1600 999.6 2026" in text
    path = {"at": [AT], "throughput_bytes_per_s": [5e9], "low_bytes_per_s": [0.0], "high_bytes_per_s": [6e9]}
    one = FORECAST | {"path": path | {"error_bytes_per_s": [2.5e8]}}
    text = words(drawn(width, *forecast_lines(answer(ForecastAnswer, found | {"ports": [one]}), "1h")))
    assert "leaf1 Ethernet0 by a day before, now 8; Gbit/s" in text
    assert "2026-01-01 00:00 40 2 0 to 48" in text
    why = found | {"why": "The history is too short.", "ports": []}
    assert (
        words(drawn(width, *forecast_lines(answer(ForecastAnswer, why), "1h"))) == "The history is too short."
    )


@pytest.mark.parametrize("width", [80, 200])
def test_a_rollout_of_a_hash_shows_it_in_place_of_watermarks(width: int) -> None:
    one = {
        "switch": "leaf1",
        "stage": 0,
        "writes": False,
        "progress": "set",
        "target": "51",
        "before": None,
        "detail": "",
    }
    found = answer(RolloutAnswer, rollout(switches=[], hashes=[one], recommendation=""))
    shown = words(drawn(width, *rollout_lines(found, wide=width >= WIDE)))
    assert "leaf1 hash its own → 51 (set, dry run)" in shown
    assert "Kmin" not in shown
    assert "recommendation" not in shown


def test_what_a_switch_hashes_by_is_shown() -> None:
    hashed = {
        "setting": "ecmp_hash_algorithm",
        "value": "CRC",
        "choices": ["CRC", "XOR"],
        "fields": ["SRC_IP"],
    }
    shown = words(drawn(80, *hash_lines("leaf1", answer(HashAnswer, hashed))))
    assert "setting ecmp_hash_algorithm value CRC values CRC, XOR fields SRC_IP" in shown
    seed = {"setting": "hash-seed", "value": None, "choices": [], "fields": None}
    shown = words(drawn(80, *hash_lines("leaf1", answer(HashAnswer, seed))))
    assert "value chosen by the switch values 0 to 4294967295" in shown
    noted = seed | {"notes": ["traffic may stop for a moment"]}
    shown = words(drawn(80, *hash_lines("leaf1", answer(HashAnswer, noted))))
    assert "note traffic may stop for a moment" in shown
    fixed = seed | {"fixed": "the switch cannot choose one"}
    shown = words(drawn(80, *hash_lines("leaf1", answer(HashAnswer, fixed))))
    assert "values – cannot be set the switch cannot choose one" in shown
    assert "4294967295" not in shown
