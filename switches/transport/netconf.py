"""NETCONF over SSH to one switch; every failure is a ``SwitchError``.

Sources: RFC 6241 (operations, candidate, confirmed commit 1.1), RFC 6242 (SSH), ncclient.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from selectors import BaseSelector, SelectorKey
from threading import Timer
from typing import Any
from xml.etree import ElementTree

import msgspec
from ncclient import NCClientError
from ncclient.manager import make_device_handler
from ncclient.operations import RPC, RPCError, TimeoutExpiredError
from ncclient.transport import AuthenticationError, SSHSession
from ncclient.transport.errors import SSHUnknownHostError
from ncclient.xml_ import to_ele
from paramiko.hostkeys import InvalidHostKey

from switches.device import Device
from switches.errors import (
    AccessError,
    BusyError,
    InventoryError,
    RefusedError,
    SwitchError,
    UnreachableError,
    late,
    no_host_keys,
    unreadable,
)
from switches.transport.quoted import quoted

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
_SSH_PORT = 830  # RFC 6242
_SOMEBODY_ELSE = frozenset({"lock-denied", "in-use", "resource-denied"})
_FAILED = "operation-failed"
_NOT_PENDING = frozenset({"invalid-value", _FAILED})


class NetconfOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of every NETCONF platform.

    ``known_hosts`` is a file of host keys (none: ``~/.ssh/known_hosts``), ``key_file`` a private key, whose
    passphrase is then the device's password. The switch takes a change back that is not confirmed within
    ``confirm_timeout_s``.
    """

    known_hosts: str | None = None
    key_file: str | None = None
    confirm_timeout_s: int = 600


class NetconfSession:
    """A session with ``device``; ``dialect`` is ncclient's name of the platform.

    The constructor checks the inventory's entry; ``with`` connects. Raises ``InventoryError``.
    """

    def __init__(self, device: Device, options: NetconfOptions, *, dialect: str = "default") -> None:
        if not device.address:
            rule = "no address given; a switch is found by its host"
            raise InventoryError(device.where, None, rule, "give address")
        if device.username is None:
            rule = "no username given; NETCONF needs an account"
            raise InventoryError(device.where, None, rule, "name its secret")
        if device.password is None and options.key_file is None:
            rule = "SSH asks for a password or key_file"
            raise InventoryError(device.where, None, rule, "name the secret, or give options.key_file")
        for name, path in (("known_hosts", options.known_hosts), ("key_file", options.key_file)):
            if path is not None and not Path(path).is_file():
                remedy = "correct the path"
                raise InventoryError(f"{device.where} options.{name}", path, "it is a file", remedy)
        if options.confirm_timeout_s < 1:
            where = f"{device.where} options.confirm_timeout_s"
            rule = "a switch waits for a second at least"
            raise InventoryError(where, str(options.confirm_timeout_s), rule, "give seconds, such as 600")
        self._device = device
        self._options = options
        self._dialect = dialect
        self._session: _Session | None = None

    def __enter__(self) -> NetconfSession:
        self.open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        return self._session is not None and bool(self._session.connected)

    def open(self) -> None:
        """Connects if not connected. Raises ``UnreachableError``, ``AccessError`` (the credentials, or an
        unknown host key).
        """
        if self.alive:
            return
        self._drop()
        device = self._device
        username, password = device.credential("username"), device.credential("password")
        session = _Session(make_device_handler({"name": self._dialect}), self._options.known_hosts)
        connection: list[socket.socket] = []
        late = Timer(device.timeout_s, _hang_up, args=(connection,))
        late.daemon = True
        late.start()
        try:
            port = device.port if device.port is not None else _SSH_PORT
            connection.append(socket.create_connection((device.address, port), device.timeout_s))
            connection[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small packets, each awaited
            session.connect(
                host=device.address,
                port=port,
                sock=connection[0],
                timeout=device.timeout_s,
                username=username,
                password=password,
                key_filename=self._options.key_file,
                hostkey_verify=device.tls.verify,
                allow_agent=False,
                look_for_keys=False,
            )
        except Exception as error:  # ncclient and paramiko raise many unrelated exceptions while connecting
            session.end()
            for one in connection:
                one.close()
            raise self._not_connected(error, expired=late.finished.is_set()) from error
        finally:
            late.cancel()
        self._session = session

    def close(self) -> None:
        if self.alive:
            with suppress(SwitchError):  # closing may fail: the session is over either way
                self.call(f'<close-session xmlns="{BASE}"/>')
        self._drop()

    def offers(self, capability: str) -> bool:
        """Whether the switch announced the capability, such as ``candidate:1.0``."""
        announced = self._opened().server_capabilities or ()
        return any(str(one).partition("?")[0].endswith(f":capability:{capability}") for one in announced)

    def get(self, subtree: str) -> ElementTree.Element:
        """Configuration and state, as the reply's ``data``; ``subtree`` is the filter's XML."""
        return _data(self.call(f'<get xmlns="{BASE}">{_filter(subtree)}</get>'))

    def get_config(self, subtree: str) -> ElementTree.Element:
        """The running configuration, as the reply's ``data``."""
        source = "<source><running/></source>"
        return _data(self.call(f'<get-config xmlns="{BASE}">{source}{_filter(subtree)}</get-config>'))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the candidate, which equals the running configuration; uncommitted edits are discarded after.

        Raises ``BusyError`` naming the holder: another session, uncommitted edits, or a waiting
        confirmed commit.
        """
        self.call(f'<lock xmlns="{BASE}"><target><candidate/></target></lock>')
        try:
            yield
        except BaseException:
            with suppress(SwitchError):  # the error already raised is the one to report
                self.discard()
            raise
        finally:
            with suppress(SwitchError):  # closing the session releases its locks
                self.call(f'<unlock xmlns="{BASE}"><target><candidate/></target></unlock>')

    def discard(self) -> None:
        self.call(f'<discard-changes xmlns="{BASE}"/>')

    def edit(self, config: str) -> None:
        """Merges ``config`` into the candidate.

        The commit validates all of it. No separate validation: netconfd leaves an edit that it was asked to
        validate out of the next commit.
        """
        self.call(
            f'<edit-config xmlns="{BASE}"><target><candidate/></target>'
            f"<default-operation>merge</default-operation><config>{config}</config></edit-config>"
        )

    def commit(self, *, confirm_within_s: int | None = None, persist: str | None = None) -> None:
        """Commits; with ``confirm_within_s`` the switch takes it back unless it is confirmed in that time.

        With ``persist``, any session that knows it may confirm or cancel; without, this one only, and its end
        takes the change back.
        """
        inside = ""
        if confirm_within_s is not None:
            inside = f"<confirmed/><confirm-timeout>{confirm_within_s}</confirm-timeout>"
            inside += f"<persist>{persist}</persist>" if persist is not None else ""
        self.call(f'<commit xmlns="{BASE}">{inside}</commit>')

    def confirm(self, persist_id: str) -> None:
        """Confirms a commit of any session; does nothing where none of that name waits.

        Raises ``BusyError`` where it failed and one may wait: netconfd calls either ``operation-failed``.
        """
        operation = f'<commit xmlns="{BASE}"><persist-id>{persist_id}</persist-id></commit>'
        errors = self._unless_none_waits(operation)
        if _FAILED in _tags(errors):
            try:
                with self.locked():  # denied while a commit waits, or edits that it could not take are left
                    pass
            except BusyError as error:
                said = f"{self._said('; '.join(map(_message, errors)))} to commit"
                rule = "a commit that waits is confirmed from a configuration without uncommitted edits"
                remedy = "let others end, or discard what they left on the switch"
                raise BusyError(self._device.where, said, rule, remedy) from error

    def cancel(self, persist_id: str) -> None:
        """Cancels a confirmed commit of any session; does nothing where none of that name waits."""
        self._unless_none_waits(
            f'<cancel-commit xmlns="{BASE}"><persist-id>{persist_id}</persist-id></cancel-commit>'
        )

    def call(self, operation: str) -> ElementTree.Element:
        """The reply to one operation, given as XML. Raises ``SwitchError``."""
        reply, errors = self._asked(operation)
        if errors:
            raise self._refused(_name(operation), errors)
        return reply

    def _unless_none_waits(self, operation: str) -> list[RPCError]:
        """The errors of an operation on a waiting commit, which may say that none waits; raises others."""
        _, errors = self._asked(operation)
        if errors and not _tags(errors) <= _NOT_PENDING:
            raise self._refused(_name(operation), errors)
        return errors

    def _asked(self, operation: str) -> tuple[ElementTree.Element, list[RPCError]]:
        """The reply, and its errors without warnings."""
        device, what = self._device, _name(operation)
        session = self._opened()
        asking = _Asking(session, session.handler, timeout=device.timeout_s)
        try:
            asking.request(to_ele(operation))
            errors = [one for one in asking.reply.errors if one.severity != "warning"]
            return ElementTree.fromstring(asking.reply.xml), errors
        except TimeoutExpiredError as error:
            self._drop()
            raise late(device.where, what, device.timeout_s) from error
        except (NCClientError, OSError, EOFError) as error:
            self._drop()
            raise self._over(f"a session that ended during {what}") from error
        except (SyntaxError, ValueError) as error:  # both XML libraries derive parse errors from SyntaxError
            raise unreadable(
                device.where,
                self._said(str(error)),
                "a NETCONF server answers in XML",
                what=f"an answer to {what}",
            ) from error

    def _refused(self, what: str, errors: Sequence[RPCError]) -> SwitchError:
        tags, said = _tags(errors), self._said("; ".join(map(_message, errors)))
        where = self._device.where
        if "access-denied" in tags:
            rule = "the account may read and set QoS"
            return AccessError(where, f"{said} to {what}", rule, "correct its rights")
        if tags & _SOMEBODY_ELSE or what == "lock":  # some switches say so only in the error's text
            about = " ".join(str(one.info or "") for one in errors)
            holder = re.search(r"<(?:\w+:)?session-id[^>]*>\s*(\d+)\s*<", about)
            by = f" (session {holder[1]})" if holder and holder[1] != "0" else ""
            rule = "one change is made at a time, from a configuration without uncommitted edits"
            remedy = "let the other one end, or discard what it left on the switch"
            return BusyError(where, f"{said}{by} to {what}", rule, remedy)
        rule = "the switch takes the change"
        return RefusedError(where, f"{said} to {what}", rule, "check the switch and its version")

    def _not_connected(self, error: Exception, *, expired: bool) -> SwitchError:
        device, text = self._device, str(error)
        if expired or isinstance(error, TimeoutError) or "timed out" in text:
            rule = "a switch answers in time"
            remedy = "check that it is up, and its management network"
            return UnreachableError(device.where, f"no session within {device.timeout_s:g} s", rule, remedy)
        if isinstance(error, InvalidHostKey | UnicodeDecodeError):
            path = self._options.known_hosts or "~/.ssh/known_hosts"
            return no_host_keys(f"{device.where} options.known_hosts", path, error)
        if isinstance(error, SSHUnknownHostError):
            received = f"a host key that is not known ({error.fingerprint})"
            rule = "a switch shows the key that known_hosts has for it"
            remedy = "add its key once you have checked it, or say tls.verify: false for a network you trust"
            return AccessError(device.where, received, rule, remedy)
        if isinstance(error, AuthenticationError) and "transport shut down" not in text:
            rule = "the switch must accept the credentials"
            return AccessError(device.where, "a refusal to log in", rule, "correct them")
        received = f"no session ({self._said(text) or type(error).__name__})"
        rule = "a switch speaks NETCONF over SSH at the address of the inventory"
        remedy = "check that it is up and NETCONF is enabled, or correct address and port"
        return UnreachableError(device.where, received, rule, remedy)

    def _said(self, text: str) -> str:
        return quoted(self._device, text)

    def _drop(self) -> None:
        if self._session is not None:
            self._session.end()
            self._session = None

    def _opened(self) -> _Session:
        """Raises ``UnreachableError`` where it has ended: a new one would have neither its lock nor its edits
        and commit or discard those of others.
        """
        if self._session is None or not self._session.connected:
            raise self._over("a session that has ended")
        return self._session

    def _over(self, received: str) -> UnreachableError:
        rule = "a session lasts as long as its change"
        remedy = "check the switch, and the network between"
        return UnreachableError(self._device.where, received, rule, remedy)


class _Session(SSHSession):  # type: ignore[misc]  # ncclient is untyped
    """ncclient's session with a host key file, a reliable end, and without its polling for something to send
    ten times a second.
    """

    def __init__(self, handler: Any, known_hosts: str | None) -> None:
        super().__init__(handler)
        # What it would log, stack traces among it, is raised here as one sentence.
        logging.getLogger("ncclient.transport.ssh").setLevel(logging.CRITICAL)
        self.handler = handler
        self._known_hosts = known_hosts
        self._woken, self._waker = socket.socketpair()

    def load_known_hosts(self, filename: str | None = None) -> None:
        super().load_known_hosts(filename or self._known_hosts)

    def send(self, message: str) -> None:
        super().send(message)
        with suppress(OSError):  # the next operation will find that it is closed
            self._waker.send(b"!")

    def end(self) -> None:
        if self._transport is not None:
            self.close()
        self._woken.close()
        self._waker.close()

    def _transport_register(self, selector: BaseSelector, event: int) -> None:
        super()._transport_register(selector, event)
        selector.register(self._woken, event)
        select = selector.select

        def of_the_switch(timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
            ready = select(timeout)
            if any(key.fileobj is self._woken for key, _ in ready):
                self._woken.recv(4096)
            return [(key, mask) for key, mask in ready if key.fileobj is not self._woken]

        selector.select = of_the_switch  # type: ignore[method-assign]


class _Asking(RPC):  # type: ignore[misc]  # ncclient is untyped
    """One operation; the caller handles errors in its reply."""

    def request(self, operation: Any) -> Any:
        return self._request(operation)


def _hang_up(connections: list[socket.socket]) -> None:
    for connection in connections:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def _filter(subtree: str) -> str:
    return f'<filter type="subtree">{subtree}</filter>'


def _data(reply: ElementTree.Element) -> ElementTree.Element:
    found = reply.find("{*}data")
    return found if found is not None else ElementTree.Element("data")


def _name(operation: str) -> str:
    found = re.match(r"<([\w-]+)", operation)
    return found[1] if found else "a call"


def _tags(errors: Sequence[RPCError]) -> set[str]:
    return {(one.tag or "").strip() for one in errors}


def _message(error: RPCError) -> str:
    return (error.message or "").strip() or (error.tag or "").strip() or "an error without a reason"
