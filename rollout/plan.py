"""The plan of a rollout: members in stages, what each is set to, the limits of its guards, and the guards.

A plan is the first entry of its journal, as msgspec encodes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

import msgspec

from nics.parameters import Values
from switches.errors import SwitchError
from twin.watermark import Watermark

QUEUE_SLACK_BYTES = 10_000.0  # about ten packets: below that depth a ratio is noise
COUNTED_FACTOR = 1.5  # counts over a short window scatter
_COUNTED = {
    "pfc_frames_per_s": "PFC frames a second are sent",
    "drops_per_s": "packets a second are dropped",
}

Target = Watermark | Values | str
"""What a member is set to: a switch a watermark, or what it hashes by; the NICs of a host values by name."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Telemetry of a rollout's switches over a time; None: not reported, never 0.

    ``queue_mean_bytes`` is the mean of the egress queues, ``throughput_bytes_per_s`` their total;
    ``pause_share`` the share of port time paused by a peer's PFC; the last two, PFC frames sent and packets
    dropped, are a second, over all ports.
    """

    queue_mean_bytes: float | None = None
    throughput_bytes_per_s: float | None = None
    pause_share: float | None = None
    pfc_frames_per_s: float | None = None
    drops_per_s: float | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """When a rollout waits, continues, and turns back. Times in seconds.

    ``soak_s`` watches the canary, ``batch_soak_s`` every later stage; 0: not at all. An unreachable member is
    retried for ``patience_s``; a soak that lacks figures reported before is given up ``unseen_s`` after its
    end. ``max_step`` is the largest factor by which any value of a queue may move; None is any. Up to
    ``missing_share`` of the hosts (0 to 1) are left out where they cannot be reached before any member is
    set.

    Guards are breached where ports are paused for a larger share of their time, by more than ``pause_share``;
    where more than half again as many PFC frames are sent, and ``pfc_frames_per_s`` more; where more than
    half again as many packets are dropped, and ``drops_per_s`` more; where the queue exceeds ``queue_factor``
    times the larger of before and predicted; and where throughput is below ``throughput_share`` of before.
    ``from_empty``: also where the queue was empty under traffic. Older journals lack it, and what they ended
    stays so. ``needs_queue``: a soak ends only where the mean queue is reported, even if it was not before.
    """

    soak_s: float = 60.0
    batch_soak_s: float = 15.0
    patience_s: float = 60.0
    unseen_s: float = 75.0
    max_step: float | None = None
    missing_share: float = 0.0
    pause_share: float = 0.01
    pfc_frames_per_s: float = 100.0
    drops_per_s: float = 0.0
    queue_factor: float = 2.0
    throughput_share: float = 0.5
    from_empty: bool = False
    needs_queue: bool = True


class RoleTarget(msgspec.Struct, frozen=True):
    """The ports of one role on a switch, and the watermark they are set to."""

    ports: tuple[str, ...]
    watermark: Watermark


class RolloutPlan(msgspec.Struct, frozen=True, kw_only=True):
    """``stages`` are names of members, the canary first. ``targets`` are the watermarks of switches, ``nics``
    the values of hosts' NICs, ``hashes`` what switches hash by: a member is of the kind that names it, and no
    name is of two. ``by_role`` are switches whose ports are set by role: the targets of each role, by the
    switch's name.

    ``before`` is telemetry of the switches watched after each stage before any member was set, ``predicted``
    the twin's prediction for them (empty: unknown). ``written`` are the members that are devices: without any
    it is a dry run, whose stages are not watched.
    """

    id: str
    recommendation: str
    targets: Mapping[str, Watermark]
    stages: tuple[tuple[str, ...], ...]
    limits: Limits
    before: tuple[Figures, ...] = ()
    predicted: tuple[Figures, ...] = ()
    written: tuple[str, ...] = ()
    nics: Mapping[str, Values] = {}
    by_role: Mapping[str, Mapping[str, RoleTarget]] = {}
    hashes: Mapping[str, str] = {}

    @property
    def members(self) -> tuple[str, ...]:
        """Its switches and hosts, in the order of setting."""
        return tuple(name for stage in self.stages for name in stage)

    @property
    def switches(self) -> tuple[str, ...]:
        return tuple(name for name in self.members if name not in self.nics)

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(name for name in self.members if name in self.nics)

    def target(self, member: str) -> Target:
        if member in self.hashes:
            return self.hashes[member]
        return self.nics[member] if member in self.nics else self.targets[member]

    def up_to(self, stage: int) -> tuple[str, ...]:
        """The members of the stages up to that one."""
        return tuple(name for names in self.stages[: stage + 1] for name in names)

    def watched(self, stage: int) -> tuple[str, ...]:
        """The switches whose telemetry shows what the stages up to that one have set: NICs show in all."""
        so_far = self.up_to(stage)
        return self.switches if any(name in self.nics for name in so_far) else so_far

    def is_canary(self, stage: int) -> bool:
        """Whether it is the first stage of its kind of member."""
        return not any((name in self.nics) == self._of_hosts(stage) for name in self.up_to(stage - 1))

    def _of_hosts(self, stage: int) -> bool:
        return any(name in self.nics for name in self.stages[stage])

    def known(self, figures: tuple[Figures, ...], stage: int) -> Figures:
        """The entry of ``figures``, that is ``before`` or ``predicted``, for that stage."""
        return figures[stage] if stage < len(figures) else Figures()

    def soak_s(self, stage: int) -> float:
        if not self.written:
            return 0.0
        return self.limits.soak_s if self.is_canary(stage) else self.limits.batch_soak_s


def stages_of(
    switches: Iterable[str], *, canary: Sequence[str] = (), leaves: Sequence[str] = (), batch_size: int
) -> tuple[tuple[str, ...], ...]:
    """The canary, then the others by name in batches.

    The canary are the switches of that setting; without any of them among ``switches``, the first of
    ``leaves`` that is, else the first switch. Raises ``SwitchError`` for no switch at all.
    """
    others = sorted(set(switches))
    if not others:
        raise SwitchError("rollout", None, "a rollout sets at least one switch", "declare the topology")
    first = [name for name in canary if name in others] or [name for name in leaves if name in others][:1]
    first = first or others[:1]
    rest = [name for name in others if name not in first]
    batches = [tuple(rest[start : start + batch_size]) for start in range(0, len(rest), batch_size)]
    return (tuple(dict.fromkeys(first)), *batches)


def host_stages_of(
    classes: Mapping[str, str], *, unsure: Collection[str] = (), canary: int, batch_size: int
) -> tuple[tuple[str, ...], ...]:
    """A canary of so many hosts, then the others by name in batches; ``classes`` has the class of each.

    The canary takes a host of each class in turn, those ``unsure`` to answer last.
    """
    by_class: dict[str, list[str]] = {}
    for name in sorted(classes, key=lambda name: (name in unsure, name)):
        by_class.setdefault(classes[name], []).append(name)
    turns = zip_longest(*(by_class[name] for name in sorted(by_class)))
    first = [name for turn in turns for name in turn if name is not None][:canary]
    rest = sorted(classes.keys() - set(first))
    batches = [tuple(rest[start : start + batch_size]) for start in range(0, len(rest), batch_size)]
    return (tuple(first), *batches)


def breaches(now: Figures, before: Figures, predicted: Figures, limits: Limits) -> Iterator[str]:
    """A sentence for each guard that ``now`` breaches; a figure that is not reported breaches none."""
    if now.pause_share is not None:
        was = before.pause_share or 0.0
        if now.pause_share > was + limits.pause_share:
            yield (
                f"ports spend {now.pause_share:.2%} of their time paused by PFC, {was:.2%} before; "
                f"it may grow by {limits.pause_share:.2%}"
            )
    for name, what in _COUNTED.items():
        is_now, was = getattr(now, name), getattr(before, name) or 0.0
        allowed = COUNTED_FACTOR * was + getattr(limits, name)
        if is_now is not None and is_now > allowed:
            yield f"{is_now:.4g} {what}, {was:.4g} before; {allowed:.4g} are allowed"
    if now.queue_mean_bytes is not None:
        expected = max(before.queue_mean_bytes or 0.0, predicted.queue_mean_bytes or 0.0)
        # Without traffic an empty queue tells nothing of what was to be expected with it.
        empty = limits.from_empty and before.queue_mean_bytes == 0.0 and before.throughput_bytes_per_s
        allowed = limits.queue_factor * expected + QUEUE_SLACK_BYTES
        if (expected > 0 or empty) and now.queue_mean_bytes > allowed:
            yield (
                f"the mean queue is {now.queue_mean_bytes:,.0f} B, above {limits.queue_factor:g} times "
                f"the larger of before ({before.queue_mean_bytes or 0:,.0f} B) "
                f"and predicted ({predicted.queue_mean_bytes or 0:,.0f} B)"
            )
    if now.throughput_bytes_per_s is not None and before.throughput_bytes_per_s:
        share = now.throughput_bytes_per_s / before.throughput_bytes_per_s
        if share < limits.throughput_share:
            yield f"throughput is {share:.0%} of before; at least {limits.throughput_share:.0%} is wanted"
