"""Changes through a NETCONF candidate and a confirmed commit.

A commit is one transaction: a switch runs all of a change or none of it. No session outlives its call, except
where the switch binds a confirmed commit to the session that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from switches.adapter import (
    ConfigAdapter,
    Waiting,
    check_apply_allowed,
    check_undo_allowed,
    name_of,
    recorded,
    set_by_others,
    staged,
)
from switches.base import Capabilities, QueueWatermark, Reading, StagedChange, Wanted
from switches.device import Device
from switches.errors import CapabilityError
from switches.transport.netconf import NetconfSession
from switches.units import Rounded, to_device
from twin.watermark import Watermark

ConfigT = TypeVar("ConfigT")
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Found(Generic[ConfigT]):
    """The configuration of a switch, and what its queues run."""

    config: ConfigT
    queues: tuple[QueueWatermark, ...]


class Model(Protocol[ConfigT]):
    """How a platform writes a watermark. A record, as JSON, holds what a change does and the state before."""

    @property
    def record_kind(self) -> type[Any]:
        """The msgspec type of a record."""

    @property
    def lags(self) -> bool:
        """Whether hardware is read, which may not show a watermark yet that is configured."""

    def look(self, session: NetconfSession) -> ConfigT:
        """Reads the switch."""

    def running(self, config: ConfigT, wanted: Wanted | None = None) -> tuple[QueueWatermark, ...]:
        """What the ``wanted`` queues run; by default those of the inventory. Raises ``CapabilityError`` for
        values that are no watermark, ``InventoryError`` where there are no such queues.
        """

    def unsettled(self, config: ConfigT) -> str | None:
        """A queue that does not run its configuration, as a text; None if all do, or hardware is not seen."""

    def plan(self, now: Found[ConfigT], rounded: Rounded) -> Record:
        """The record of the change from ``now``."""

    def left(self, record: Record, config: ConfigT, wanted: Wanted) -> Record:
        """What of it is left to take back: not what is gone from the switch, nor what others have set where
        none of the ``wanted`` queues runs it. Empty where none of these is there.
        """

    def made(self, record: Record, config: ConfigT) -> bool:
        """Whether the switch is configured as planned."""

    def undone(self, record: Record, config: ConfigT) -> bool:
        """Whether the switch is configured as before the change."""

    def foreign_change(self, record: Record, config: ConfigT) -> str | None:
        """A sentence on configuration that is neither as planned nor as before; None if there is none."""

    def foreign_since(self, record: Record, config: ConfigT, wanted: Wanted) -> str | None:
        """The same for an undo: on that of the ``wanted`` queues alone."""

    def forward(self, record: Record, config: ConfigT) -> str:
        """The edit that makes the change, as XML."""

    def backward(self, record: Record, config: ConfigT) -> str:
        """The edit that restores the state before, as XML."""


class Commits(Protocol):
    """How a platform commits a change that it takes back unless it is confirmed."""

    def check(self, session: NetconfSession, change_id: str) -> None:
        """Raises ``SwitchError`` where the switch cannot, or another confirmed commit waits."""

    def commit(self, session: NetconfSession, change_id: str) -> bool:
        """Commits, to be confirmed; True where the session must stay open until then."""

    def confirm(self, session: NetconfSession, change_id: str) -> None:
        """Does nothing where the change does not wait."""

    def cancel(self, session: NetconfSession, change_id: str) -> None:
        """Takes back a change that waits, where the platform has a call for it."""

    def keep(self, session: NetconfSession, change_id: str) -> None:
        """Commits the state before the change, for good."""


class CandidateAdapter(ConfigAdapter, Generic[ConfigT]):
    def __init__(
        self,
        device: Device,
        model: Model[ConfigT],
        commits: Commits,
        new_session: Callable[[], NetconfSession],
        *,
        capabilities: Capabilities,
        clock_ns: Callable[[], int],
        waiting: Waiting | None = None,
    ) -> None:
        super().__init__(device, clock_ns, waiting)
        self._model = model
        self._commits = commits
        self._new_session = new_session
        self._capabilities = capabilities
        self._held: NetconfSession | None = None
        new_session()  # checks the inventory's description, connects to nothing

    def capabilities(self) -> Capabilities:
        return self._capabilities

    def read(self) -> Reading:
        with self._new_session() as session:
            return self._reading(self._look(session).queues)

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        rounded = to_device(watermark, self._capabilities.units)
        with self._new_session() as session:
            self._commits.check(session, change_id)
            now = self._settled(lambda: self._look(session), lambda now: self._model.unsettled(now.config))
        changes = any(queue.watermark != rounded.watermark for queue in now.queues)
        undo = self._model.plan(now, rounded) if changes else {}
        return staged(change_id, self._reading(now.queues), watermark, rounded, undo)

    def apply(self, change: StagedChange) -> None:
        self._check_record(change)
        session = self._new_session()
        stays = False
        try:
            session.open()
            if self._is_made(change, self._look(session)):
                return
            self._commits.check(session, change.id)
            with session.locked():
                now = self._look(session)
                check_apply_allowed(change, self._reading(now.queues), self._device.where)
                self._check_configured(self._model.foreign_change(change.undo, now.config), "queues")
                session.edit(self._model.forward(change.undo, now.config))
                stays = self._commits.commit(session, change.id)
        finally:
            if stays:
                self._let_go()
                self._held = session
            else:
                session.close()

    def confirm(self, change: StagedChange) -> None:
        if self._held is not None and self._held.alive:
            self._commits.confirm(self._held, change.id)
            self._let_go()
            return
        with self._new_session() as session:
            self._commits.confirm(session, change.id)

    def rollback(self, change: StagedChange) -> None:
        self._check_record(change)
        self._let_go()
        with self._new_session() as session:
            if change.undo:
                self._commits.cancel(session, change.id)
            if self._is_undone(change, self._model.look(session)):
                return
            self._commits.check(session, change.id)
            with session.locked():
                config = self._model.look(session)
                if self._is_undone(change, config):
                    return
                session.edit(self._model.backward(self._left(change, config), config))
                self._commits.keep(session, change.id)
        self._check_undone(change, self._seen)

    def close(self) -> None:
        self._let_go()

    def _is_made(self, change: StagedChange, now: Found[ConfigT]) -> bool:
        """Whether nothing is left to do: the change runs, or is committed and hardware will follow."""
        runs = change.made_in(self._reading(now.queues))
        return runs or (bool(change.undo) and self._model.made(change.undo, now.config))

    def _is_undone(self, change: StagedChange, config: ConfigT) -> bool:
        """Raises ``ConcurrentEditError`` where somebody else has set the queues since.

        A change that is configured as planned may be taken back, whatever hardware shows.
        """
        left = self._left(change, config)
        configured = not left or self._model.undone(left, config)
        if configured and change.undone_in(self._running(change, config)):
            return True
        # First what is configured, which tells of others also where a queue runs no watermark.
        if left:
            foreign = self._model.foreign_since(left, config, change.its_queues())
            self._check_configured(foreign, "queues")
        if not (left and self._model.made(left, config)):
            check_undo_allowed(change, self._running(change, config), self._device.where)
        return False

    def _left(self, change: StagedChange, config: ConfigT) -> Record:
        return self._model.left(change.undo, config, change.its_queues()) if change.undo else {}

    def _running(self, change: StagedChange, config: ConfigT) -> Reading:
        # Hardware may not show yet what a change has configured: only without one is it others' doing.
        with nullcontext() if change.undo and self._model.lags else set_by_others():
            return self._reading(self._model.running(config, change.its_queues()))

    def _seen(self, change: StagedChange) -> Reading:
        with self._new_session() as session:
            return self._reading(self._model.running(self._model.look(session), change.its_queues()))

    def _look(self, session: NetconfSession) -> Found[ConfigT]:
        config = self._model.look(session)
        return Found(config, self._model.running(config))

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def _check_record(self, change: StagedChange) -> None:
        if change.undo:
            recorded(change, self._model.record_kind, self._device.where)


class PersistentCommits:
    """Confirmed commits of RFC 6241: with a persist-id where the switch can, else bound to their session."""

    def __init__(self, device: Device, confirm_timeout_s: int) -> None:
        self._device = device
        self._confirm_timeout_s = confirm_timeout_s

    def check(self, session: NetconfSession, change_id: str) -> None:
        for capability in ("candidate:1.0", "confirmed-commit:1.0"):
            if not (session.offers(capability) or session.offers(capability.replace("1.0", "1.1"))):
                received = f"no :{capability} among what it offers"
                rule = "a change is made in a candidate and taken back by the switch unless it is confirmed"
                remedy = "enable it on the switch, or use another of its interfaces"
                raise CapabilityError(self._device.where, received, rule, remedy)

    def commit(self, session: NetconfSession, change_id: str) -> bool:
        persists = self._persists(session)
        persist = name_of(change_id) if persists else None
        session.commit(confirm_within_s=self._confirm_timeout_s, persist=persist)
        return not persists

    def confirm(self, session: NetconfSession, change_id: str) -> None:
        if self._persists(session):
            session.confirm(name_of(change_id))
        else:
            # From the session that made the change, this confirms it. From another session it is refused
            # while the change waits, and has no effect where nothing waits.
            with session.locked():
                session.commit()

    def cancel(self, session: NetconfSession, change_id: str) -> None:
        if self._persists(session):
            session.cancel(name_of(change_id))

    def keep(self, session: NetconfSession, change_id: str) -> None:
        session.commit()

    def _persists(self, session: NetconfSession) -> bool:
        return session.offers("confirmed-commit:1.1")
