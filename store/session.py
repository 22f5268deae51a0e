"""One connection that is made anew when it was lost; must not be used from two threads at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError, SQLAlchemyError

from store.connection import ONLY_READS, GoneError, Lock, NoLock, Place

T = TypeVar("T")


class Session:
    """Runs transactions on ``place``, holding ``lock`` for as long as it stands; one that only ``reads``
    waits for nobody who writes.
    """

    def __init__(self, place: Place, lock: Lock | None = None, *, reads: bool = False) -> None:
        self._place = place
        self._engine = place.engine.execution_options(**{ONLY_READS: reads})
        self._lock = lock or NoLock()
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None

    def run(self, transaction: Callable[[Connection], T]) -> T:
        """What ``transaction`` returns, once it is committed.

        Raises SQLAlchemy's errors, ``TakenError`` and ``GoneError``; nothing of it is written then.
        """
        connection = self._connected()
        try:
            with connection.begin():
                return transaction(connection)
        except (OperationalError, InterfaceError, InternalError):
            if self._place.is_server:
                self._drop()  # a server's connection tells no more than that something is wrong with it
            raise

    def close(self) -> None:
        """Ends the connection, and lets the lock go."""
        self._drop()
        self._lock.release()

    def _connected(self) -> Connection:
        self._is_where_it_was()
        self._answers()
        if self._connection is None:
            connection = self._engine.connect()
            try:
                self._lock.hold(connection)
                connection.rollback()
            except BaseException:
                connection.close()
                raise
            self._connection = connection
            if self._place.path is not None:
                at = self._place.path.stat()
                self._file = (at.st_dev, at.st_ino)
        return self._connection

    def _answers(self) -> None:
        """Lets a connection go that its server has ended, whenever that was."""
        if self._connection is None or not self._place.is_server:
            return
        try:
            self._connection.execute(text("SELECT 1"))
            self._connection.rollback()
        except DBAPIError:
            self._drop()

    def _is_where_it_was(self) -> None:
        """SQLite goes on writing to a file that was removed: nobody would ever read that."""
        if self._file is None or self._place.path is None:
            return
        try:
            at = self._place.path.stat()
        except OSError as error:
            raise GoneError(f"the file {self._place.path.name} is gone ({error.strerror})") from error
        if (at.st_dev, at.st_ino) != self._file:
            raise GoneError(
                f"another file is in the place of {self._place.path.name}: start the service anew to use it"
            )

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(SQLAlchemyError):
                self._connection.close()
        self._connection = None
