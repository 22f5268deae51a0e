"""An SSH server on loopback that hands each ``netconf`` channel to a function; paramiko's server side."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import paramiko

LOOPBACK = "127.0.0.1"
_PATIENCE_S = 60.0

Serve = Callable[[paramiko.Channel], None]


@dataclass
class Account:
    """Who may log in: by password, or with one of the public keys."""

    username: str
    password: str
    keys: list[paramiko.PKey] = field(default_factory=list)


class SshServer:
    """Listens on a free port until ``close``; ``serve`` runs in a thread of its own for each channel.

    ``silent`` True: connections are taken, and nothing is ever said on them.
    """

    def __init__(self, account: Account, serve: Serve, *, subsystem: str = "netconf") -> None:
        logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # clients that hang up are no news here
        self.account = account
        self.subsystem = subsystem
        self.silent = False
        self.host_key = paramiko.ECDSAKey.generate()
        self._serve = serve
        self._transports: list[paramiko.Transport] = []
        self._waiting: list[socket.socket] = []
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def known_hosts(self) -> str:
        """Its line in a ``known_hosts`` file."""
        return f"[{LOOPBACK}]:{self.port} {self.host_key.get_name()} {self.host_key.get_base64()}\n"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for transport in self._transports:
            transport.close()
            transport.join(_PATIENCE_S)
        self._hang_up()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if self.silent:
                self._waiting.append(connection)
                continue
            self._hang_up()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _hang_up(self) -> None:
        while self._waiting:
            self._waiting.pop().close()

    def _answer(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as sshd: no small packet waits
        transport = paramiko.Transport(connection)
        transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = _PATIENCE_S
        transport.add_server_key(self.host_key)
        self._transports.append(transport)
        with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
            transport.start_server(server=_Door(self.account, self.subsystem, self._serve))


class _Door(paramiko.ServerInterface):
    def __init__(self, account: Account, subsystem: str, serve: Serve) -> None:
        self._account = account
        self._subsystem = subsystem
        self._serve = serve

    def get_allowed_auths(self, username: str) -> str:
        return "password,publickey"

    def check_auth_password(self, username: str, password: str) -> int:
        return self._verdict((username, password) == (self._account.username, self._account.password))

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return self._verdict(username == self._account.username and key in self._account.keys)

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED if kind == "session" else paramiko.OPEN_FAILED_UNKNOWN_CHANNEL_TYPE

    def check_channel_subsystem_request(self, channel: paramiko.Channel, name: str) -> bool:
        if name != self._subsystem:
            return False
        threading.Thread(target=self._serve, args=(channel,), daemon=True).start()
        return True

    @staticmethod
    def _verdict(right: bool) -> int:
        return paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED
