"""Commands on a host over SSH: a script in, what it says out; the connection is kept."""

from __future__ import annotations

import logging
import socket
import time
from contextlib import suppress
from pathlib import Path
from threading import Timer

import paramiko
from paramiko.hostkeys import InvalidHostKey

from nics.host import Host
from switches.errors import (
    AccessError,
    InventoryError,
    RefusedError,
    SwitchError,
    UnreachableError,
    no_host_keys,
    one_line,
)

_LOG = "ecntwin.nics.paramiko"
logging.getLogger(_LOG).setLevel(logging.CRITICAL)

_KEEPALIVE_S = 30
_SIGNALLED = 128  # a shell's exit status for a child that signal n ended is 128 + n
_MOST_BYTES = 1 << 22
_LONGEST_QUOTE = 300


class SshSession:
    """A shell on ``host``. The constructor checks the inventory and connects to nothing.

    Raises ``InventoryError`` for a host that cannot be logged in to.
    """

    def __init__(self, host: Host) -> None:
        if not host.address:
            raise InventoryError(host.where, None, "a host is found by its address", "give address")
        if host.username is None:
            rule = "SSH asks for a user"
            raise InventoryError(f"{host.where} username", None, rule, "name its secret")
        if host.password is None and host.key_file is None:
            rule = "SSH asks for a password or a key"
            raise InventoryError(host.where, None, rule, "give key_file, or name the secret password")
        for name, path in (("known_hosts", host.known_hosts), ("key_file", host.key_file)):
            if path is not None and not path.is_file():
                raise InventoryError(f"{host.where} {name}", str(path), "it is a file", "correct the path")
        self._host = host
        self._client: paramiko.SSHClient | None = None

    def run(self, script: str, *arguments: str) -> str:
        """What the POSIX shell says, on both of its outputs, to ``script`` with ``arguments``.

        The script is sent as input, so that the account's own shell does not read it. Raises
        ``UnreachableError`` where that takes over ``timeout_s``, ``AccessError``, and ``RefusedError`` where
        the host runs no commands.
        """
        end_s = time.monotonic() + self._host.timeout_s
        channel = self._channel(end_s)
        late = Timer(max(end_s - time.monotonic(), 0.0), _close, args=(channel,))
        late.daemon = True
        late.start()
        try:
            channel.set_combine_stderr(True)
            channel.exec_command(f"{'sudo -n ' if self._host.sudo else ''}sh -s {' '.join(arguments)}")
            with suppress(OSError):  # a command that ends before it reads all: what it says tells why
                channel.sendall(script.encode())
                channel.shutdown_write()
            said = b""
            while part := channel.recv(65_536):
                said += part
                if len(said) > _MOST_BYTES:
                    rule = "a host answers with the values of its NICs' files"
                    remedy = "check what its shell says when one logs in"
                    raise RefusedError(self._host.where, f"over {_MOST_BYTES} bytes", rule, remedy)
            status = channel.recv_exit_status()
        except (paramiko.SSHException, OSError, EOFError) as error:
            self.close()
            raise self._broken(error, expired=time.monotonic() >= end_s) from error
        finally:
            late.cancel()
            _close(channel)
        text = said.decode("utf-8", "replace")
        if status == -1:  # none came
            self.close()
            raise self._broken(EOFError("without an exit status"), expired=time.monotonic() >= end_s)
        if status > _SIGNALLED:
            rule = "a host's shell runs a command to its end"
            received = f"a command that was ended by signal {status - _SIGNALLED}"
            raise UnreachableError(self._host.where, received, rule, "check the host's log, and try again")
        if status != 0:
            raise self._refused(status, text)
        return text

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _channel(self, end_s: float) -> paramiko.Channel:
        """A channel of the connection; of a new one where the old has ended meanwhile."""
        for client in (self._client, None):
            try:
                transport = (client or self._connected(end_s)).get_transport()
                if transport is not None and transport.is_active():
                    return transport.open_session(timeout=max(end_s - time.monotonic(), 0.1))
            except (paramiko.SSHException, OSError, EOFError) as error:
                if client is None:
                    self.close()
                    raise self._broken(error, expired=time.monotonic() >= end_s) from error
            self.close()
        raise self._broken(EOFError("the connection ended at once"), expired=False)

    def _connected(self, end_s: float) -> paramiko.SSHClient:
        host = self._host
        username, password = host.credential("username"), host.credential("password")
        key = self._key(password)
        client = paramiko.SSHClient()
        client.set_log_channel(_LOG)  # what it would log, stack traces among it, is raised here
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        self._load_known_hosts(client)
        connection: list[socket.socket] = []
        late = Timer(max(end_s - time.monotonic(), 0.0), _hang_up, args=(connection,))
        late.daemon = True
        late.start()
        try:
            connection.append(socket.create_connection((host.address, host.port), host.timeout_s))
            connection[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small packets, each awaited
            client.connect(
                host.address,
                port=host.port,
                username=username,
                password=None if key is not None else password,
                pkey=key,
                sock=connection[0],
                timeout=host.timeout_s,
                banner_timeout=host.timeout_s,
                auth_timeout=host.timeout_s,
                allow_agent=False,
                look_for_keys=False,
            )
        except Exception as error:  # what paramiko raises while connecting is not one family
            client.close()
            for one in connection:
                one.close()
            raise self._not_connected(error, expired=time.monotonic() >= end_s) from error
        finally:
            late.cancel()
        transport = client.get_transport()
        if transport is not None:
            transport.set_keepalive(_KEEPALIVE_S)
        self._client = client
        return client

    def _key(self, passphrase: str | None) -> paramiko.PKey | None:
        """The key of ``key_file``; raises ``InventoryError`` where it cannot be used."""
        path = self._host.key_file
        if path is None:
            return None
        where = f"{self._host.where} key_file"
        try:
            for secret in (None, passphrase):  # a key without a passphrase takes none
                try:
                    return paramiko.PKey.from_path(path, secret and secret.encode())
                except (paramiko.PasswordRequiredException, TypeError):
                    if passphrase is None:
                        break
            rule = "its passphrase is the secret password"
            raise InventoryError(where, "a key with a passphrase", rule, "name that secret")
        except (OSError, ValueError, paramiko.SSHException, paramiko.UnknownKeyType) as error:
            said = self._said(getattr(error, "strerror", None) or "no key, or another passphrase")
            rule = "it is a private key in OpenSSH's format or PEM, and password its passphrase"
            raise InventoryError(where, f"{path}: {said}", rule, "correct it") from error

    def _load_known_hosts(self, client: paramiko.SSHClient) -> None:
        given = self._host.known_hosts
        path = given or Path.home() / ".ssh" / "known_hosts"
        try:
            if given is not None or path.is_file():
                client.load_host_keys(str(path))
        except (OSError, ValueError, paramiko.SSHException, InvalidHostKey) as error:
            raise no_host_keys(f"{self._host.where} known_hosts", path, error) from error

    def _not_connected(self, error: Exception, *, expired: bool) -> SwitchError:
        host = self._host
        if isinstance(error, paramiko.BadHostKeyException):
            received = "another host key than known_hosts has"
            rule = "a host shows the key that known_hosts has for it"
            remedy = "find out why it changed, and correct known_hosts once you have checked the new one"
            return AccessError(host.where, received, rule, remedy)
        if isinstance(error, paramiko.AuthenticationException):
            rule = "the credentials are the host's"
            return AccessError(host.where, "a refusal to log in", rule, "correct user, key or password")
        if isinstance(error, paramiko.SSHException) and "not found in known_hosts" in str(error):
            received = "a host key that is not known"
            rule = "a host shows the key that known_hosts has for it"
            return AccessError(host.where, received, rule, "add its key once you have checked it")
        if expired or isinstance(error, TimeoutError):
            return self._late("a connection")
        received = f"no connection ({self._said(str(error)) or type(error).__name__})"
        rule = "a host speaks SSH at the address of the inventory"
        return UnreachableError(
            host.where, received, rule, "check that it is up, or correct address and port"
        )

    def _broken(self, error: Exception, *, expired: bool) -> SwitchError:
        if expired or isinstance(error, TimeoutError):
            return self._late("a command")
        received = f"a connection that ended ({self._said(str(error)) or type(error).__name__})"
        rule = "a connection lasts as long as its command"
        remedy = "check the host, and the network between; what it runs is read again before it is set"
        return UnreachableError(self._host.where, received, rule, remedy)

    def _late(self, what: str) -> UnreachableError:
        received = f"no answer to {what} within {self._host.timeout_s:g} s"
        remedy = "check that it is up, and its management network"
        return UnreachableError(self._host.where, received, "a host answers in time", remedy)

    def _refused(self, status: int, text: str) -> SwitchError:
        if self._host.sudo and "sudo" in text:
            rule = "with sudo: true the account may run sh as root without a password"
            remedy = "allow it in sudoers, log in as root, or drop sudo where reading is enough"
            return AccessError(self._host.where, self._said(text), rule, remedy)
        rule = "the account may run sh"
        received = f"exit status {status} ({self._said(text) or 'nothing said'})"
        return RefusedError(self._host.where, received, rule, "check its shell and its rights on the host")

    def _said(self, text: str) -> str:
        for secret in self._host.secrets():
            text = text.replace(secret, "***")
        text = one_line(text)
        return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"


def _close(channel: paramiko.Channel) -> None:
    with suppress(paramiko.SSHException, OSError, EOFError):  # its connection may have ended meanwhile
        channel.close()


def _hang_up(connections: list[socket.socket]) -> None:
    for connection in connections:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
