"""The interface of NIC adapters, and its values.

A change goes stage → apply → verify, and back by rollback. Staging computes and checks, and sets nothing. The
``StagedChange`` holds all that a later step needs: that step may run in another process after a crash, and a
second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from nics.parameters import PARAMETERS, Values, params_of, unmodelled, value_text
from switches.errors import CapabilityError
from twin.errors import TwinError
from twin.senders.dcqcn import DcqcnParams


@dataclass(frozen=True, slots=True, kw_only=True)
class NicReading:
    """One port: ``nic`` is its network name (without one its RDMA name), ``values`` all that its files hold.

    ``reacts`` and ``notifies`` are the priorities on which it slows down for CNPs, and sends them; None: the
    driver does not tell. ``line_rate_mbit`` is None while the link is down. ``problem`` is a sentence on why
    it is not known what it runs. Where that is known and not DCQCN of the twin's parameters, ``params`` is
    None and ``note`` says so.
    """

    nic: str
    rdma: str
    driver: str
    values: Values = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    reacts: tuple[int, ...] | None = None
    notifies: tuple[int, ...] | None = None
    line_rate_mbit: int | None = None
    params: DcqcnParams | None = None
    problem: str | None = None
    note: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the twin leaves out of this NIC, in sentences."""
        if self.note is not None:
            return (self.note,)
        return unmodelled(self.values) if self.params is not None else ()


def understood(host: str, values: Values) -> tuple[DcqcnParams | None, str | None]:
    """What a NIC runs, or a sentence on why that is not known."""
    try:
        return params_of(values, host), None
    except (CapabilityError, TwinError) as error:
        return None, str(error)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the NICs of a host run. ``read_ns`` is wall-clock nanoseconds since 1970."""

    host: str
    read_ns: int
    nics: tuple[NicReading, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(nic.problem for nic in self.nics if nic.problem is not None)

    def nic(self, name: str) -> NicReading | None:
        return next((one for one in self.nics if one.nic == name), None)


def usual(readings: Iterable[Reading]) -> tuple[DcqcnParams | None, int]:
    """What most NICs run (the first of equally common ones), and of how many that is known."""
    counted = Counter(nic.params for one in readings for nic in one.nics if nic.params is not None)
    if not counted:
        return None, 0
    return counted.most_common(1)[0][0], counted.total()


@dataclass(frozen=True, slots=True)
class NicValues:
    """Values of some of a NIC's parameters."""

    nic: str
    values: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedChange:
    """A checked change not yet made: each NIC of ``before`` gets the values ``after``.

    ``id`` is the caller's name for it. ``before`` has the values of these parameters as they were, ``diff``
    shows the change to a person, and ``undo`` is the platform's record, as JSON values without secrets:
    another process can roll back with it. Raises ``CapabilityError`` for a change of no NIC.
    """

    id: str
    host: str
    after: Values
    before: tuple[NicValues, ...]
    diff: str
    undo: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.before:
            rule = "a change is about at least one NIC"
            raise CapabilityError(f"host {self.host!r}", None, rule, "correct nics of the inventory")

    def made_in(self, reading: Reading) -> bool:
        """Whether each of its NICs runs ``after``."""
        found = [reading.nic(one.nic) for one in self.before]
        return all(nic is not None and self.after.items() <= nic.values.items() for nic in found)

    def difference(self, reading: Reading) -> str:
        """The first value that is not of ``after``."""
        for one in self.before:
            nic = reading.nic(one.nic)
            for name, wanted in self.after.items():
                now = None if nic is None else nic.values.get(name)
                if now != wanted:
                    return f"{one.nic} {name} {'missing' if now is None else value_text(name, now)}"
        return "other values"


def values_diff(host: str, before: Iterable[NicValues], after: Values) -> str:
    """A line for each value that changes, such as ``gpu1/ens1np0 rpg_ai_rate: 5 → 50 Mbit/s``."""
    lines = []
    for one in before:
        for name, was in one.values.items():
            if was != after[name]:
                lines.append(f"{host}/{one.nic} {name}: {was} → {PARAMETERS[name].text(after[name])}")
    return "\n".join(lines)


class NicAdapter(Protocol):
    """The NICs of one host; ``writes`` False: it only reads. Methods block (they run in threads, one at a
    time for a host) and raise ``SwitchError`` only: ``UnreachableError`` where a retry may help, within the
    host's ``timeout_s``.
    """

    host: str
    writes: bool

    def read(self) -> Reading:
        """What the NICs run now. A NIC that cannot be read is one with a ``problem``."""

    def stage(self, values: Values, change_id: str) -> StagedChange:
        """Checks the values against what each NIC takes and has, and writes the diff."""

    def apply(self, change: StagedChange) -> None:
        """Makes a staged change on every NIC of the host, or on none.

        Does nothing if it is made already. Raises ``ConcurrentEditError``, and sets nothing, where a NIC runs
        values that are neither from this change nor from before it; ``BusyError`` where somebody else is
        setting them; ``ReadBackError`` where a NIC does not take a value: what was set of the change is then
        undone.
        """

    def verify(self, change: StagedChange) -> Reading:
        """Reads back what was applied; raises ``ReadBackError`` where it is not ``change.after``."""

    def rollback(self, change: StagedChange) -> None:
        """Restores each NIC to what it ran before the change, and reads that back.

        Passes over a NIC that the host no longer has; does nothing where the old values run already. Raises
        ``ConcurrentEditError``, and sets nothing, where somebody else has set these parameters since,
        ``BusyError`` where somebody is setting them, ``ReadBackError`` where the old values do not take, and
        ``GoneError`` where no NIC is left.
        """

    def close(self) -> None:
        """Closes the connection; the next call opens it anew."""
