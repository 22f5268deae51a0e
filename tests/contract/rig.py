"""What the contract suite asks of a counterpart: a switch of one platform on loopback, and ways to disturb
it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from switches.base import SwitchAdapter
from twin.watermark import Watermark

Hardware = dict[tuple[str, int], Watermark | None]

OTHER = Watermark(700_000, 900_000, 0.9)
"""What somebody else sets."""

UNREADABLE, NEW_PORT = "another queue runs what is no watermark", "another port is set up"
SHARED, REMOVED = "another port is given what the change edits", "a port goes, and its queues"
ELSEWHERE = (UNREADABLE, NEW_PORT, SHARED, REMOVED)
Elsewhere = dict[str, Callable[[], set[str] | None]]
"""Each of ``ELSEWHERE`` that can be, and how it happens; it returns the ports that are gone, if any."""

PATIENT = {"timeout_s": 60.0, "settle_s": 60.0}
"""What a device is given unless a test says otherwise: only a test that waits for the end of it says so."""


@contextmanager
def fault(counterpart: object, name: str) -> Iterator[None]:
    """The counterpart has the fault of that name until the block ends."""
    setattr(counterpart, name, True)
    try:
        yield
    finally:
        setattr(counterpart, name, False)


class Rig(ABC):
    """One switch, at least two egress queues of which are set, running ``first`` after ``reset``.

    Credentials, where the platform has any, are read from the environment of the test.
    """

    kind: ClassVar[str]
    narrow: ClassVar[dict[str, Any]] = {}
    """What an adapter is given so that the switch has ports outside the inventory."""
    first: ClassVar[Watermark] = Watermark(400_000, 1_600_000, 0.2)

    @abstractmethod
    def __init__(self, folder: Path) -> None:
        """Starts the counterpart; ``folder`` is its own. Calls ``pytest.skip`` where it is not installed."""

    @abstractmethod
    def close(self) -> None:
        """Ends it."""

    @abstractmethod
    def reset(self) -> None:
        """Every queue runs ``first``, nothing is pending, no fault is on, and the history is empty."""

    @abstractmethod
    def adapter(self, **device: Any) -> SwitchAdapter:
        """A new, ``PATIENT`` adapter, as another process would make it; ``device`` changes fields of its
        ``Device``.
        """

    @abstractmethod
    def hardware(self) -> Hardware:
        """What each queue of the change runs, asked of the counterpart and not of the adapter."""

    @abstractmethod
    def history(self) -> list[tuple[int, int]]:
        """Every (Kmin, Kmax) that hardware has run since ``reset``, in its own unit, moment by moment."""

    @abstractmethod
    def bystanders(self) -> object:
        """All that is not WRED/ECN of the queues asked for: it never changes. Comparable."""

    @abstractmethod
    def somebody_sets(self, watermark: Watermark, *, only_first: bool = False) -> None:
        """Somebody else sets every queue, or only the first of them."""

    @abstractmethod
    def silent(self) -> AbstractContextManager[None]:
        """While inside, it answers nothing (or takes no connection)."""

    @abstractmethod
    def losing_replies(self) -> AbstractContextManager[None]:
        """While inside, it makes the changes asked for and ends the connection before saying so."""

    @abstractmethod
    def ignoring(self) -> AbstractContextManager[None]:
        """While inside, it accepts changes, and hardware keeps what it had."""

    def elsewhere(self) -> Elsewhere:
        """What somebody else may do, by what it is, to queues that an undo has nothing to do with."""
        return {}

    def starting(self) -> AbstractContextManager[None] | None:
        """While inside, it answers and shows none of the queues of a change, as before it has configured
        itself; None where it always shows them.
        """
        return None

    def somebody_sets_no_watermark(self) -> bool:
        """Somebody else sets the first queue to values that are no watermark; False where none can be."""
        return False

    def applying_half(self) -> AbstractContextManager[None] | None:
        """While inside, a change is made in part only; None where it is made whole or not at all."""
        return None

    def refused(self) -> SwitchAdapter | None:
        """An adapter with credentials that are not the switch's; None where there are none to refuse."""
        return None

    def expire(self) -> None:
        """Lets the time of a pending dead-man pass. Only where the adapter says it has one."""
        raise NotImplementedError
