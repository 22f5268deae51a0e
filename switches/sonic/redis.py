"""Connections to a switch's redis, and pipelined reads over one that stays open."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Annotated, Any

import msgspec
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from switches.device import Device
from switches.errors import (
    BusyError,
    InventoryError,
    RefusedError,
    UnreachableError,
    late,
    no_access,
    unreadable,
)
from switches.transport.deadline import Deadline
from switches.transport.quoted import quoted

PORT = 6379
_UNIX = "unix:"
_SCAN = 1000

Number = Annotated[int, msgspec.Meta(ge=0)]


class SonicOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``own_profile`` False: the profile of the queues is edited in place. ``asic_rounding_bytes``: the
    largest difference of a threshold in hardware from the configured one. The rest are database numbers, as
    in the switch's database_config.json.
    """

    own_profile: bool = True
    asic_rounding_bytes: Number = 256
    config_db: Number = 4
    asic_db: Number = 1
    counters_db: Number = 2
    state_db: Number = 6
    appl_db: Number = 0


class Databases:
    def __init__(self, open_db: Callable[[int], Any], options: SonicOptions) -> None:
        self.config = open_db(options.config_db)
        self.asic = open_db(options.asic_db)
        self.counters = open_db(options.counters_db)
        self.application = open_db(options.appl_db)
        self.state = open_db(options.state_db)

    def close(self) -> None:
        for client in (self.config, self.asic, self.counters, self.application, self.state):
            client.close()


def keys_of(client: Any, pattern: str) -> list[str]:
    """The matching keys, sorted, by SCAN: it does not block the switch."""
    return sorted(set(client.scan_iter(match=pattern, count=_SCAN)))


def rows_of(client: Any, keys: Sequence[str]) -> dict[str, dict[str, str]]:
    """The hashes of these keys, in one exchange, without missing keys."""
    if not keys:
        return {}
    asked = client.pipeline(transaction=False)
    for key in keys:
        asked.hgetall(key)
    return {key: row for key, row in zip(keys, asked.execute(), strict=True) if row}


def tables_of(client: Any, prefixes: Sequence[str]) -> dict[str, dict[str, dict[str, str]]]:
    """The rows whose keys begin so: by prefix without its separator, and the rest of the key with ``|``."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    # One look at all keys: SCAN goes through all of them for each pattern.
    keys = [key for key in keys_of(client, "*") if key.startswith(tuple(prefixes))]
    for key, row in rows_of(client, keys).items():
        prefix = next(one for one in prefixes if key.startswith(one))
        found.setdefault(prefix[:-1].removesuffix("_TABLE"), {})[
            key.removeprefix(prefix).replace(":", "|")
        ] = row
    return found


def fields_of(client: Any, keys: Iterable[str], field: str) -> list[str | None]:
    """One field of each of these hashes, in one exchange."""
    asked = client.pipeline(transaction=False)
    for key in keys:
        asked.hget(key, field)
    found: list[str | None] = asked.execute()
    return found


@contextmanager
def connected(device: Device, options: SonicOptions) -> Iterator[Databases]:
    """The switch's databases, connected until the block ends.

    Raises ``UnreachableError``, ``AccessError``, ``RefusedError``, and ``BusyError`` where a watched
    row changed before a transaction.
    """
    common = arguments(device)
    with (
        closing(Databases(lambda number: client_of(common, number), options)) as databases,
        switch_errors(device),
    ):
        yield databases


def client_of(common: Mapping[str, Any], database: int) -> redis.Redis:
    """A client with ``arguments`` of the device, whose answers end in time."""
    client = redis.Redis(db=database, **common)
    pool = client.connection_pool
    usual: Any = pool.connection_class

    class InTime(usual):  # type: ignore[misc] # over TCP, TLS or a socket of the machine's
        def _connect(self) -> _InTime:
            return _InTime(super()._connect(), self.socket_timeout)

    pool.connection_class = InTime
    return client


class _InTime:
    """A socket whose answer ends ``within_s`` after what was asked: redis-py's own timeout begins anew with
    each part of an answer.
    """

    def __init__(self, connected: Any, within_s: float) -> None:
        self._socket = connected
        self._within_s = within_s
        self._timeout_s: float | None = within_s
        self._deadline = Deadline()
        self._deadline.within(within_s)

    def sendall(self, data: bytes) -> None:
        self._socket.settimeout(self._timeout_s)
        self._deadline.within(self._within_s)
        self._socket.sendall(data)

    def recv(self, size: int) -> bytes:
        self._check()
        received: bytes = self._socket.recv(size)
        return received

    def recv_into(self, buffer: Any) -> int:
        self._check()
        size: int = self._socket.recv_into(buffer)
        return size

    def settimeout(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self._socket.settimeout(timeout_s)

    def _check(self) -> None:
        if self._timeout_s:  # else it does not wait
            self._socket.settimeout(self._deadline.left_s(self._timeout_s, TimeoutError))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


@contextmanager
def switch_errors(device: Device) -> Iterator[None]:
    """Turns redis errors into ``SwitchError``, as ``connected``."""
    try:
        yield
    except redis.WatchError as error:
        lost = error.__context__  # redis-py also raises WatchError when the connection ends early
        if isinstance(lost, redis.ConnectionError | redis.TimeoutError):
            received = f"no answer to a transaction ({_said(device, lost)})"
            remedy = "ask what it runs: the change may have been made"
            raise UnreachableError(device.where, received, "a switch answers in time", remedy) from error
        rule = "a row changed while it was being set"
        raise BusyError(device.where, None, rule, "try again, or find out who set it") from error
    except (redis.AuthenticationError, redis.exceptions.NoPermissionError) as error:
        raise no_access(
            device.where, _said(device, error)
        ) from None  # the client's error holds the switch's words as they arrived, as does the one before
    except redis.TimeoutError as error:
        raise late(device.where, "the commands", device.timeout_s) from error
    except UnicodeError as error:  # tested before ValueError, its base class
        rule = "it is a host or a socket"
        remedy = "correct the address"
        raise InventoryError(f"{device.where} address", f"no host's name ({error})", rule, remedy) from error
    except (ValueError, RecursionError) as error:
        raise unreadable(device.where, _said(device, error), "redis answers in its own protocol") from None
    except (redis.ConnectionError, OSError) as error:
        received = f"no connection to redis ({_said(device, error)})"
        rule = "a switch takes connections at the address of the inventory"
        remedy = "check that it is up, or correct the address"
        raise UnreachableError(device.where, received, rule, remedy) from error
    except redis.RedisError as error:
        rule = "redis takes the commands"
        raise RefusedError(device.where, _said(device, error), rule, "check database numbers") from None


def check_address(device: Device) -> None:
    """Raises ``InventoryError``, without asking the switch."""
    if not device.address or "://" in device.address or device.address == _UNIX:
        received = repr(device.address) if device.address else "none"
        rule = "SONiC's redis is at a host and port, or at a socket"
        remedy = "give a host (and port), or unix:/var/run/redis/redis.sock"
        raise InventoryError(f"{device.where} address", received, rule, remedy)


def arguments(device: Device) -> Mapping[str, Any]:
    """Arguments of a redis client. Raises ``InventoryError`` and ``CredentialsError``."""
    where: dict[str, Any]
    if device.address.startswith(_UNIX):
        where = {"unix_socket_path": device.address.removeprefix(_UNIX)}
    else:
        where = {"host": device.address, "port": device.port or PORT}
        if device.tls.enabled:
            device.tls_context()  # checks that file, which redis would read later
            where |= {
                "ssl": True,
                "ssl_cert_reqs": ssl.CERT_REQUIRED if device.tls.verify else ssl.CERT_NONE,
                "ssl_check_hostname": device.tls.verify,
                "ssl_ca_certs": None if device.tls.ca_file is None else str(device.tls.ca_file),
            }
    return where | {
        "username": device.credential("username"),
        "password": device.credential("password"),
        "socket_timeout": device.timeout_s,
        "socket_connect_timeout": device.timeout_s,
        "retry": Retry(NoBackoff(), 0),  # after a lost reply the state is read again, not set twice
        "single_connection_client": False,
        "max_connections": 2,  # one connection watches rows while the other reads them
        "decode_responses": True,
        "encoding_errors": "replace",
        "protocol": 2,  # protocol 2, as some switches run redis 5
        "driver_info": None,
    }


def _said(device: Device, error: Exception) -> str:
    return quoted(device, str(error)) or type(error).__name__


Command = tuple[str | int, ...]


class RedisExchange:
    """One connection, opened by the first call and again after a failure; for one thread at a time.

    Commands are packed once: polling with the same ones costs little but the answers.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._client: redis.Redis | None = None
        self._connection: Any = None
        self._commands: Sequence[Command] = ()
        self._packed: Any = None
        self._aborted = False

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """The answers in order: texts, numbers, lists, None; a ``redis.ResponseError`` where redis refused
        that one command for the type of its key.

        Raises as ``connected``. A failure ends the connection, so answers cannot get out of step. Commands
        only read, so they are sent again where an idle connection was closed by the switch.
        """
        self._aborted = False
        with switch_errors(self._device):
            if self._connection is not None:
                try:
                    return self._asked(commands)
                except (redis.ConnectionError, OSError) as error:
                    if self._aborted or isinstance(error, redis.AuthenticationError | TimeoutError):
                        raise
            return self._asked(commands)

    def abort(self) -> None:
        """Ends the connection from another thread: a call under way fails as a timeout."""
        self._aborted = True
        client = self._client
        if client is not None:
            with suppress(redis.RedisError, OSError):
                client.connection_pool.disconnect(inuse_connections=True)

    def close(self) -> None:
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
            if self._aborted:  # whatever the client raises when its connection is closed by another thread
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
