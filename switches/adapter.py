"""What adapters of devices share: their base classes, which read changes back until they show; a change's
name on the device, diff, record, and checks for edits by others. ``switches.base.SwitchAdapter`` is their
interface.
"""

from __future__ import annotations

import hashlib
import re
import time
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from itertools import count
from typing import Any, ClassVar, TypeVar

import msgspec

from switches.base import QueueWatermark, Reading, StagedChange, Wanted
from switches.device import Device
from switches.errors import CapabilityError, ConcurrentEditError, GoneError, InventoryError, ReadBackError
from switches.units import Rounded
from twin.watermark import Watermark

PREFIX = "ecntwin-"
_LONGEST = 48


def name_of(change_id: str) -> str:
    """The name of a session or checkpoint: letters, digits, dashes and underscores, the same in every
    process.

    Distinct ids have distinct names, also where they differ in other characters only.
    """
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", change_id)
    if plain != change_id or len(plain) > _LONGEST:
        digest = hashlib.sha256(change_id.encode()).hexdigest()[:8]
        plain = f"{plain[: _LONGEST - 9]}-{digest}"
    return PREFIX + plain


_MOST_PORTS = 3


def watermark_diff(
    switch: str, before: Sequence[QueueWatermark], after: Watermark, notes: Sequence[str] = ()
) -> str:
    """A unified diff from what the queues run to ``after``; empty where nothing changes.

    Queues that run the same are a group, named where there are several. Notes follow as comments.
    """
    groups: defaultdict[Watermark | None, list[QueueWatermark]] = defaultdict(list)
    for queue in before:
        groups[queue.watermark].append(queue)
    labels = [""] if len(groups) < 2 else [f"{_label(queues)} " for queues in groups.values()]
    running = [label + line for label, mark in zip(labels, groups, strict=False) for line in _lines(mark)]
    staged = [label + line for label in labels for line in _lines(after)]
    diff = list(
        unified_diff(
            running, staged, fromfile=f"{switch}/running", tofile=f"{switch}/staged", lineterm="", n=9
        )
    )
    return "\n".join([*diff, *(f"# {note}" for note in notes)] if diff else [])


def _label(queues: Sequence[QueueWatermark]) -> str:
    return shortened([f"{queue.port}/{queue.queue}" for queue in queues])


def shortened(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    more = len(names) - _MOST_PORTS
    return ", ".join(names[:_MOST_PORTS]) + (f" and {more} more" if more > 0 else "")


def _lines(watermark: Watermark | None) -> list[str]:
    if watermark is None:
        return ["ecn: off"]
    return [
        "ecn: on",
        f"kmin_bytes: {watermark.kmin_bytes}",
        f"kmax_bytes: {watermark.kmax_bytes}",
        f"pmax: {watermark.pmax:g}",
    ]


def check_apply_allowed(change: StagedChange, now: Reading, where: str) -> None:
    """Before setting: raises ``ConcurrentEditError`` where ``now`` shows values set by somebody else."""
    if not change.explains(now):
        rule = f"since it was staged, only this change may set it (it ran {change.ran or 'several'})"
        remedy = "find out who set it; what runs now is the start of the next recommendation"
        raise ConcurrentEditError(where, _shown(now), rule, remedy)


def check_undo_allowed(change: StagedChange, now: Reading, where: str) -> None:
    """Before undoing: raises ``ConcurrentEditError`` where that would overwrite somebody else's values, and
    ``GoneError`` where no queue of the change is there to be put back.
    """
    if not change.explains_left(now):
        rule = f"an undo takes back {change.after} only, and leaves what others have set"
        remedy = f"set {change.ran or 'what it ran'} by hand, if that is wanted"
        raise ConcurrentEditError(where, _shown(now), rule, remedy)
    if not change.left_in(now):
        rule = "an undo finds at least one of the queues that were set"
        raise GoneError(where, "none of them", rule, "check the switch; the undo is tried again")


def _shown(now: Reading) -> str:
    return str(now.watermark) if now.watermark is not None else "queues that differ"


@contextmanager
def set_by_others() -> Iterator[None]:
    """For an undo's look at its own queues: values that are no watermark were set by somebody else. Raises
    ``ConcurrentEditError`` for a ``CapabilityError``.
    """
    try:
        yield
    except CapabilityError as error:
        raise left_to_others(error.where, error.received) from error


def left_to_others(where: str, received: str | None) -> ConcurrentEditError:
    """The error that ends an undo, where others have set its queues since; ``received`` is what they set."""
    rule = "an undo takes back its own change only, and leaves what others have set"
    remedy = "set the old values by hand, if that is wanted"
    return ConcurrentEditError(where, received, rule, remedy)


def policies_of(
    device: Device, applied: Iterable[tuple[str, str]], named: str | None, kind: str
) -> tuple[str, ...]:
    """The policies to change: the one that the inventory names, else those applied to its ports, sorted.

    ``applied`` are pairs of a port and its policy; ``kind`` is the platform's word for a policy. Raises
    ``CapabilityError`` where there is none, or where one is applied to other ports too.
    """
    if named is not None:
        return (named,)
    ports: defaultdict[str, list[str]] = defaultdict(list)
    for port, policy in applied:
        ports[policy].append(port)
    wanted = {policy: found for policy, found in ports.items() if any(map(device.wants, found))}
    if not wanted:
        rule = f"the watermark of a port is in the {kind} applied to it"
        remedy = "apply one, name it in the options of the inventory, or correct its ports"
        raise CapabilityError(device.where, f"no {kind} on the ports asked for", rule, remedy)
    for policy, found in sorted(wanted.items()):
        others = sorted(port for port in found if not device.wants(port))
        if others:
            rule = f"it is applied to {', '.join(others[:3])} too, and a change sets only the ports asked for"
            remedy = f"ask for these ports too, or give the others a {kind} of their own"
            raise CapabilityError(f"{device.where} {kind} {policy}", None, rule, remedy)
    return tuple(sorted(wanted))


def own_prefix(role: str) -> str:
    """How the names begin of what ports of a role have of their own."""
    return f"{PREFIX}{re.sub('[^A-Za-z0-9_-]', '-', role)}-"


def own_name(role: str, copied: str, free: Callable[[str], bool]) -> str:
    """The first free name for the role's copy of something: of 40 characters at most, and the same in every
    process.
    """
    digests = (hashlib.sha256(f"{copied} {number}".encode()).hexdigest()[:4] for number in count())
    return next(name for name in (own_prefix(role) + digest for digest in digests) if free(name))


RecordT = TypeVar("RecordT")


def staged(
    change_id: str,
    running: Reading,
    asked: Watermark,
    rounded: Rounded | None = None,
    undo: Mapping[str, Any] | None = None,
) -> StagedChange:
    """The change, not yet made. ``rounded`` None: the switch takes any watermark."""
    after, notes = (asked, ()) if rounded is None else (rounded.watermark, rounded.notes)
    return StagedChange(
        id=change_id,
        switch=running.switch,
        asked=asked,
        after=after,
        before=running.queues,
        diff=watermark_diff(running.switch, running.queues, after, notes),
        notes=notes,
        undo=undo or {},
    )


def recorded(change: StagedChange, kind: type[RecordT], where: str) -> RecordT:
    """A change's ``undo`` as its platform's record; raises ``InventoryError`` for another's."""
    try:
        return msgspec.convert(change.undo, kind)
    except msgspec.ValidationError as error:
        rule = "a switch keeps its platform while a change is under way"
        remedy = "put the inventory back as it was, or put the switch back by hand"
        raise InventoryError(where, f"a change staged in another way ({error})", rule, remedy) from error


_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """The clock and sleep of polling; tests replace them."""

    monotonic_s: Callable[[], float] = time.monotonic
    sleep_s: Callable[[float], None] = time.sleep

    def until(self, within_s: float) -> Iterator[None]:
        """Yields at least once, then after growing pauses, until ``within_s`` is over."""
        end_s = self.monotonic_s() + within_s
        pause_s = _FIRST_PAUSE_S
        while True:
            yield
            left_s = end_s - self.monotonic_s()
            if left_s <= 0:
                return
            self.sleep_s(min(pause_s, left_s))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


FoundT = TypeVar("FoundT")


class DeviceAdapter:
    """One device at its ``address``; ``clock_ns`` gives wall-clock nanoseconds since 1970.

    With ``waiting``, a change is read back until it shows or the device's ``settle_s`` is over.
    """

    def __init__(self, device: Device, clock_ns: Callable[[], int], waiting: Waiting | None = None) -> None:
        self.switch = device.name
        self._device = device
        self._clock_ns = clock_ns
        self._waiting = waiting or Waiting()
        self._settle_s = 0.0 if waiting is None else device.settle_s

    @abstractmethod
    def read(self) -> Reading: ...

    def verify(self, change: StagedChange) -> Reading:
        return self._read_back(
            self.read,
            change.made_in,
            f"after applying, every queue must run {change.after}",
            "check for others who set this switch, and its own log",
        )

    def confirm(self, change: StagedChange) -> None:
        """Nothing to do: no timer runs."""

    def _check_undone(self, change: StagedChange, seen: Callable[[StagedChange], Reading]) -> None:
        """Raises ``ReadBackError`` where a queue does not run its old watermark again after ``settle_s``.

        ``seen`` reads the queues of the change, and no other.
        """
        self._read_back(
            lambda: seen(change),
            change.undone_in,
            "after rolling back, every queue must run what it did before",
            "check the switch's own log, and set the old values by hand",
        )

    def _read_back(
        self, look: Callable[[], Reading], shows: Callable[[Reading], bool], rule: str, remedy: str
    ) -> Reading:
        for _ in self._waiting.until(self._settle_s):
            found = self._while_it_settles(look)
            if shows(found):
                return found
        received = str(found.watermark) if found.watermark else "queues that differ, or do not mark"
        raise ReadBackError(self._device.where, received, rule, remedy)

    def _while_it_settles(self, look: Callable[[], Reading]) -> Reading:
        return look()

    def _settled(self, look: Callable[[], FoundT], unsettled: Callable[[FoundT], str | None]) -> FoundT:
        """Polls ``look`` until hardware runs the configuration; raises ``ReadBackError`` after ``timeout_s``.

        A change that starts from any other state could not be undone to it. ``unsettled`` names what does not
        run yet, None for nothing.
        """
        for _ in self._waiting.until(self._device.timeout_s):
            now = look()
            lagging = unsettled(now)
            if lagging is None:
                return now
        rule = "hardware runs what is configured before that is changed"
        remedy = "check the switch's own log, or give units.cell_bytes where hardware rounds thresholds"
        raise ReadBackError(self._device.where, lagging, rule, remedy)

    def _reading(self, queues: Iterable[QueueWatermark]) -> Reading:
        return Reading.of(self.switch, queues, self._clock_ns())


class ConfigAdapter(DeviceAdapter):
    """A device whose configuration takes effect with a delay: a change is configured, then waited for."""

    def __init__(self, device: Device, clock_ns: Callable[[], int], waiting: Waiting | None) -> None:
        super().__init__(device, clock_ns, waiting or Waiting())

    def _while_it_settles(self, look: Callable[[], Reading]) -> Reading:
        """A reading, with no queues while the switch shows an incomplete watermark."""
        try:
            return look()
        except CapabilityError:
            return self._reading(())

    def _check_configured(self, foreign_change: str | None, what: str) -> None:
        """Raises ``ConcurrentEditError`` if others have changed ``what``."""
        if foreign_change is not None:
            rule = f"since it was staged, only this change may configure these {what}"
            remedy = "find out who did; what runs now is the start of the next recommendation"
            raise ConcurrentEditError(self._device.where, foreign_change, rule, remedy)


class QueueAdapter(DeviceAdapter):
    """A device whose queues are set one by one, in one call. ``later``: a call may take effect after it."""

    later: ClassVar[bool] = False

    @abstractmethod
    def _set(self, change_id: str, queues: Iterable[QueueWatermark]) -> None: ...

    @abstractmethod
    def _look(self, wanted: Wanted) -> Reading:
        """What these queues run."""

    def _seen(self, change: StagedChange) -> Reading:
        return self._look(change.its_queues())

    def apply(self, change: StagedChange) -> None:
        now = self.read()
        if change.made_in(now):
            return
        check_apply_allowed(change, now, self._device.where)
        self._set(change.id, [QueueWatermark(one.port, one.queue, change.after) for one in change.before])

    def rollback(self, change: StagedChange) -> None:
        with set_by_others():
            now = self._seen(change)
        if change.undone_in(now) and not (self.later and change.changes):
            return  # else the change may still be on its way: the old values go after it
        check_undo_allowed(change, now, self._device.where)
        self._set(f"{change.id}/undo", change.left_in(now))
        self._check_undone(change, self._seen)
