"""The rollout machine under any order of events, any failure, any crash: it ends, and forgets no member."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nics.base import NicValues
from nics.base import StagedChange as NicsChange
from rollout.machine import (
    advance,
    begin,
    next_due_s,
    replay,
    wanted,
)
from rollout.plan import Figures, Limits, RolloutPlan, stages_of
from rollout.state import (
    Action,
    Applied,
    Apply,
    Applying,
    Approved,
    Change,
    Check,
    Checked,
    Confirm,
    Confirmed,
    Event,
    Failed,
    Frozen,
    GivenUp,
    LeftAlone,
    Measured,
    Phase,
    Progress,
    Proposed,
    Resumed,
    RollbackAsked,
    RolloutState,
    Stage,
    Staged,
    StagedNics,
    Step,
    Thawed,
    Undo,
    Undone,
    Verified,
    Verify,
    Watch,
    WentSilent,
    decode,
    encode,
    member_of,
)
from switches.base import QueueWatermark, StagedChange
from twin.watermark import Watermark

OLD, NEW, FOREIGN = (
    Watermark(400_000, 1_600_000, 0.2),
    Watermark(50_000, 200_000, 0.05),
    Watermark(7_000, 8_000, 0.5),
)
NAMES = ("a", "b", "c", "d", "e")
HOSTS = ("h1", "h2", "h3")
MEMBERS = (*NAMES, *HOSTS)
GOOD = Figures(queue_mean_bytes=1_000.0, throughput_bytes_per_s=1e9, pause_share=0.0, drops_per_s=0.0)
BAD = Figures(queue_mean_bytes=1_000.0, pause_share=0.5)


def change(name: str) -> Change:
    if name in HOSTS:
        was = NicValues("ens1", {"rpg_ai_rate": 5})
        return NicsChange(id="r", host=name, after={"rpg_ai_rate": 50}, before=(was,), diff="5 → 50")
    before = (QueueWatermark("Ethernet0", 3, OLD),)
    return StagedChange(id=f"r-{name}", switch=name, asked=NEW, after=NEW, before=before, diff="-old\n+new")


def staged(name: str, at_s: float) -> Staged | StagedNics:
    made = change(name)
    if isinstance(made, NicsChange):
        return StagedNics(at_s=at_s, switch=name, change=made)
    return Staged(at_s=at_s, switch=name, change=made)


def plan(
    *,
    batch_size: int = 2,
    soak_s: float = 10.0,
    batch_soak_s: float = 0.0,
    hosts_first: bool | None = None,
    missing_share: float = 0.0,
) -> RolloutPlan:
    """``hosts_first`` None: switches alone."""
    switches, hosts = stages_of(NAMES, batch_size=batch_size), (HOSTS[:1], HOSTS[1:])
    return RolloutPlan(
        id="r",
        recommendation="x",
        targets=dict.fromkeys(NAMES, NEW),
        nics={} if hosts_first is None else {name: {"rpg_ai_rate": 50} for name in HOSTS},
        stages=switches
        if hosts_first is None
        else (*hosts, *switches)
        if hosts_first
        else (*switches, *hosts),
        limits=Limits(soak_s=soak_s, batch_soak_s=batch_soak_s, patience_s=30.0, missing_share=missing_share),
        before=(GOOD,),
        written=NAMES if hosts_first is None else MEMBERS,
    )


@dataclass
class World:
    """Members that misbehave as drawn, a journal, and a shell that may die between any two of its acts."""

    draw: Any
    runs: dict[str, Watermark] = field(default_factory=lambda: dict.fromkeys(MEMBERS, OLD))
    touched: set[str] = field(default_factory=set)
    journal: list[bytes] = field(default_factory=list)
    now_s: float = 1_000.0
    mischief: int = 12  # how often something may still go wrong: after that the world is kind
    state: RolloutState | None = None

    def mean(self, *choices: str) -> str:
        """What befalls an act: mostly nothing."""
        if self.mischief == 0:
            return "ok"
        drawn: str = self.draw(st.sampled_from(("ok", "ok", "ok", *choices)))
        self.mischief -= drawn != "ok"
        return drawn

    def tell(self, event: Event) -> None:
        self.journal.append(encode(event))
        self.state = begin(event) if isinstance(event, Proposed) else advance(self.running, event)

    @property
    def running(self) -> RolloutState:
        assert self.state is not None
        return self.state

    def crash(self) -> None:
        """All that is left is the journal."""
        again = replay(decode(line) for line in self.journal)
        assert again == self.running
        self.tell(Resumed(at_s=self.now_s, checks=True))

    def fail(self, name: str, step: Step, kind: str) -> None:
        self.tell(
            Failed(
                at_s=self.now_s,
                switch=name,
                step=step,
                reason=kind,
                sentence=f"{name}: {kind}",
                passing=kind in ("away", "lost"),
            )
        )

    def act(self, action: Action) -> None:
        self.now_s += 0.1
        match action:
            case Stage(switch=name):
                match self.mean("away", "refused", "crash"):
                    case "ok":
                        self.tell(staged(name, self.now_s))
                    case "crash":
                        self.crash()
                    case other:
                        self.fail(name, "stage", other)
            case Apply(switch=name):
                self.tell(Applying(at_s=self.now_s, switch=name))
                self.apply(name)
            case Verify(switch=name):
                match self.mean("away", "mismatch", "crash", "foreign"):
                    case "foreign":
                        self.runs[name] = FOREIGN
                        self.fail(name, "verify", "mismatch")
                    case "ok" if self.runs[name] == NEW:
                        self.tell(Verified(at_s=self.now_s, switch=name, runs=NEW))
                    case "crash":
                        self.crash()
                    case "away":
                        self.fail(name, "verify", "away")
                    case _:
                        self.fail(name, "verify", "mismatch")
            case Confirm(switch=name):
                match self.mean("away", "crash", "expired"):
                    case "ok":
                        self.tell(Confirmed(at_s=self.now_s, switch=name))
                    case "crash":
                        self.crash()
                    case "expired":
                        self.runs[name] = OLD
                        self.fail(name, "confirm", "expired")
                    case other:
                        self.fail(name, "confirm", other)
            case Check(changes=changes):
                self.check([member_of(one) for one in changes])
            case Undo(switch=name):
                self.undo(name)
            case Watch():
                self.now_s += 5.0
                match self.mean("silent", "breach", "crash", "asked", "frozen"):
                    case "silent":
                        self.tell(WentSilent(at_s=self.now_s, sentence="no report for 15 s"))
                    case "crash":
                        self.crash()
                    case "asked":
                        self.tell(RollbackAsked(at_s=self.now_s, by="op"))
                    case "frozen":
                        self.tell(Frozen(at_s=self.now_s, by="op"))
                    case told:
                        self.tell(Measured(at_s=self.now_s, figures=BAD if told == "breach" else GOOD))

    def apply(self, name: str) -> None:
        fate = self.mean("away", "lost", "refused", "crash", "crash after", "foreign")
        if fate == "foreign":
            self.runs[name] = FOREIGN
        if self.runs[name] == FOREIGN:
            self.fail(name, "apply", "concurrent_edit")
            return
        if fate in ("ok", "lost", "crash after"):
            self.runs[name] = NEW
            self.touched.add(name)
        if fate == "ok":
            self.tell(Applied(at_s=self.now_s, switch=name))
        elif fate.startswith("crash"):
            self.crash()
        else:
            self.fail(name, "apply", fate)

    def check(self, names: list[str]) -> None:
        fate, one = self.mean("away", "crash", "foreign", "rebooted"), self.draw(st.sampled_from(names))
        if fate in ("foreign", "rebooted"):
            self.runs[one] = FOREIGN if fate == "foreign" else OLD
        if fate == "crash":
            self.crash()
            return
        differing = [name for name in names if self.runs[name] != NEW]
        if differing or fate == "away":
            self.fail(differing[0] if differing else one, "check", "mismatch" if differing else "away")
        else:
            self.tell(Checked(at_s=self.now_s, switches=tuple(names)))

    def somebody_else(self) -> None:
        """Sets a switch, or starts it anew, while nothing is done to it."""
        drawn = self.mean("foreign", "rebooted", "noticed")
        settled = [name for name, one in self.running.members.items() if one.progress is Progress.SET]
        if drawn == "ok" or not settled or not self.running.phase.forward:
            return
        name = self.draw(st.sampled_from(settled))
        self.runs[name] = FOREIGN if drawn == "foreign" else OLD
        if drawn == "noticed":  # by whoever reads it for another reason
            self.fail(name, "check", "mismatch")

    def undo(self, name: str) -> None:
        fate = self.mean("away", "lost", "mismatch", "crash", "crash after", "foreign")
        if fate == "foreign":
            self.runs[name] = FOREIGN
        if self.runs[name] == FOREIGN:
            self.tell(LeftAlone(at_s=self.now_s, switch=name, sentence="somebody else set it"))
            return
        if fate in ("ok", "lost", "crash after"):
            self.runs[name] = OLD
        if fate == "ok":
            self.tell(Undone(at_s=self.now_s, switch=name))
        elif fate.startswith("crash"):
            self.crash()
        else:
            self.fail(name, "undo", fate)

    def run(self) -> None:
        for _ in range(400):
            if self.running.phase.ended:
                return
            self.somebody_else()
            actions = wanted(self.running, self.now_s)
            if actions:
                self.act(self.draw(st.sampled_from(actions)))
            elif self.running.frozen:
                self.tell(Thawed(at_s=self.now_s, by="op", anew=True))
            else:
                due_s = next_due_s(self.running, self.now_s)
                assert due_s is not None, "nothing to do, and nothing to wait for"
                self.now_s = max(due_s, self.now_s)
        raise AssertionError(f"it does not end: {self.running.phase}")


@given(
    st.data(),
    st.integers(1, 4),
    st.sampled_from([0.0, 10.0]),
    st.sampled_from([0.0, 5.0]),
    st.sampled_from([None, False, True]),
    st.sampled_from([0.0, 0.34, 1.0]),
)
def test_it_ends_with_every_member_new_or_every_touched_one_old(
    data: st.DataObject,
    batch_size: int,
    soak_s: float,
    batch_soak_s: float,
    hosts_first: bool | None,
    missing_share: float,
) -> None:
    world = World(data.draw)
    proposed = plan(
        batch_size=batch_size,
        soak_s=soak_s,
        batch_soak_s=batch_soak_s,
        hosts_first=hosts_first,
        missing_share=missing_share,
    )
    world.tell(Proposed(at_s=world.now_s, plan=proposed))
    world.tell(Approved(at_s=world.now_s, by="op", checks=True))
    world.run()
    end = world.running
    if end.phase is Phase.DONE:
        # Even where somebody has set a switch, or started it anew, after it was confirmed.
        out = {name for name, one in end.members.items() if one.progress is Progress.LEFT_OUT}
        assert len(out) <= missing_share * len(HOSTS)
        assert out <= set(HOSTS[1:])  # the canary was set
        assert all(one.progress is Progress.SET for name, one in end.members.items() if name not in out)
        assert {world.runs[name] for name in proposed.members if name not in out} <= {NEW}
        assert not out & world.touched
    else:
        assert end.why
        assert set(world.runs.values()) <= {OLD, FOREIGN}
        alone = {name for name, one in end.members.items() if one.progress is Progress.LEFT_ALONE}
        assert all(world.runs[name] == FOREIGN for name in alone)
    if end.phase is Phase.DONE and data.draw(st.booleans()):
        world.tell(RollbackAsked(at_s=world.now_s, by="op"))
        world.run()
        assert world.running.phase is Phase.ROLLED_BACK
        assert set(world.runs.values()) <= {OLD, FOREIGN}


def any_event() -> st.SearchStrategy[Event]:
    at_s, name = st.floats(0, 1e4), st.sampled_from((*MEMBERS, "stranger"))
    steps = st.sampled_from(["stage", "apply", "verify", "confirm", "check", "undo"])
    words = st.just("because")
    figures = st.sampled_from([GOOD, BAD, Figures()])
    return st.one_of(
        st.builds(Approved, at_s=at_s, by=words, checks=st.booleans()),
        st.builds(staged, name, at_s),
        st.builds(Checked, at_s=at_s, switches=st.sets(name).map(tuple)),
        *(st.builds(kind, at_s=at_s, switch=name) for kind in (Applying, Applied, Confirmed, Undone)),
        st.builds(Verified, at_s=at_s, switch=name, runs=st.sampled_from([NEW, None])),
        st.builds(
            Failed, at_s=at_s, switch=name, step=steps, reason=words, sentence=words, passing=st.booleans()
        ),
        st.builds(LeftAlone, at_s=at_s, switch=name, sentence=words),
        st.builds(GivenUp, at_s=at_s, switch=name, by=words, sentence=words),
        st.builds(Measured, at_s=at_s, figures=figures),
        st.builds(WentSilent, at_s=at_s, sentence=words),
        *(st.builds(kind, at_s=at_s, by=words) for kind in (RollbackAsked, Frozen, Thawed)),
        st.builds(Resumed, at_s=at_s, checks=st.booleans()),
    )


SHAPES = st.sampled_from([None, False, True])


@given(st.lists(any_event(), max_size=60), SHAPES, st.sampled_from([0.0, 0.5]))
def test_no_order_of_events_loses_a_member_that_was_touched(
    events: list[Event], hosts_first: bool | None, missing_share: float
) -> None:
    state = begin(Proposed(at_s=0.0, plan=plan(hosts_first=hosts_first, missing_share=missing_share)))
    may_be_set: set[str] = set()
    for event in events:
        before = state
        state = advance(state, event)
        match event:
            case Applying(switch=name) if name in state.touched and name not in before.touched:
                may_be_set.add(name)
            case Undone(switch=name) | LeftAlone(switch=name) | GivenUp(switch=name) if (
                before.phase is Phase.ROLLING_BACK
            ):
                may_be_set.discard(name)
            case Applying(switch=name) | Applied(switch=name) if state.members.get(name) != (
                before.members.get(name)
            ):
                may_be_set.add(name)
        if state.phase is Phase.DONE:
            assert all(one.progress in (Progress.SET, Progress.LEFT_OUT) for one in state.members.values())
        if state.phase is Phase.ROLLED_BACK:
            assert not may_be_set
        undoing = {action.switch for action in wanted(state, 1e9) if isinstance(action, Undo)}
        if state.phase is Phase.ROLLING_BACK:
            assert undoing == may_be_set


@given(st.lists(any_event(), max_size=30), SHAPES)
def test_the_journal_tells_the_state_again(events: list[Event], hosts_first: bool | None) -> None:
    first = Proposed(at_s=0.0, plan=plan(hosts_first=hosts_first, missing_share=0.5))
    state = begin(first)
    for event in events:
        state = advance(state, event)
    assert replay(decode(encode(event)) for event in (first, *events)) == state
