"""Many commands to a switch's redis in one exchange, over a connection that stays open; must not know what a
row means, and sets nothing: commands are the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import redis

from switches.device import Device
from switches.sonic.redis import arguments, telling

Command = tuple[str | int, ...]


class RedisExchange:
    """One connection, opened by the first call and again after a failure; use it from one thread at a time.

    Commands are packed once: asking the same again and again, as who polls does, costs little but the answer.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._client: redis.Redis | None = None
        self._connection: Any = None
        self._commands: Sequence[Command] = ()
        self._packed: Any = None
        self._aborted = False

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """The answers in order: texts, numbers, lists, None; an ``redis.ResponseError`` where redis refused
        that one command for what its key holds.

        Raises as ``databases.connected`` does. One that fails ends the connection: answers never come to
        stand for another command's. Commands only read, so they are sent again where the connection was an
        old one, which the switch may have ended since.
        """
        self._aborted = False
        with telling(self._device):
            if self._connection is not None:
                try:
                    return self._asked(commands)
                except (redis.ConnectionError, OSError) as error:
                    if self._aborted or isinstance(error, redis.AuthenticationError | TimeoutError):
                        raise
            return self._asked(commands)

    def abort(self) -> None:
        """Ends the connection from another thread: a call under way fails as one that took too long."""
        self._aborted = True
        client = self._client
        if client is not None:
            with suppress(redis.RedisError, OSError):
                client.connection_pool.disconnect(inuse_connections=True)

    def close(self) -> None:
        """Ends the connection; the next call opens one."""
        client, self._client, self._connection = self._client, None, None
        if client is not None:
            with suppress(redis.RedisError, OSError):
                client.connection_pool.disconnect(inuse_connections=True)

    def _asked(self, commands: Sequence[Command]) -> list[Any]:
        try:
            connection = self._connected()
            if commands is not self._commands:
                self._packed, self._commands = connection.pack_commands(commands), commands
            connection.send_packed_command(self._packed)
            return [_answer(connection) for _ in commands]
        except BaseException as error:
            self.close()
            if self._aborted:  # whatever a client says whose connection is taken from under it
                raise redis.TimeoutError from error
            raise

    def _connected(self) -> Any:
        if self._connection is None:
            self._client = redis.Redis(**arguments(self._device))
            self._connection = self._client.connection_pool.get_connection()
        return self._connection


def _answer(connection: Any) -> Any:
    try:
        return connection.read_response()
    except (redis.AuthenticationError, redis.exceptions.NoPermissionError):
        raise
    except redis.ResponseError as error:
        if str(error).startswith("WRONGTYPE"):
            return error
        raise
