"""A small real NETCONF server on loopback: candidate, locks, validate, confirmed commit (RFC 6241, 6242).

Time does not pass by itself: a pending confirmed commit ends when a test says ``expire``.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from xml.etree import ElementTree

import paramiko

from tests.counterparts.switches.ssh_server import Account, SshServer

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
BASE_1_1 = "urn:ietf:params:netconf:base:1.1"
_CAPABILITY = "urn:ietf:params:netconf:capability:"
_END = b"]]>]]>"

Element = ElementTree.Element
Keys = Mapping[str, tuple[str, ...]]


class RpcError(Exception):
    """What becomes an ``rpc-error``."""

    def __init__(self, tag: str, message: str, info: str = "") -> None:
        super().__init__(message)
        self.tag, self.message, self.info = tag, message, info


@dataclass
class Pending:
    """A confirmed commit that waits: what ran before it, its name, and the session that made it."""

    before: Element
    persist: str | None
    session: int


@dataclass
class Faults:
    """``losing``: commits are made, and the connection ends before the reply. ``ignoring``: hardware keeps
    what it had. ``refusing``: errors by operation, which is refused with them.
    """

    losing: bool = False
    ignoring: bool = False
    refusing: dict[str, RpcError] = field(default_factory=dict)


class Datastore:
    """Running and candidate configuration, their lock, a confirmed commit, and what hardware runs.

    ``keys`` names the key leaves of each list, by the list's local name; ``check`` raises ``RpcError`` for a
    configuration that is not valid; ``leaf_lists`` are the leaves that repeat.
    """

    def __init__(
        self,
        running: Element,
        keys: Keys,
        check: Callable[[Element], None],
        *,
        leaf_lists: Iterable[str] = (),
    ) -> None:
        self.keys = keys
        self.check = check
        self.leaf_lists = frozenset(leaf_lists)
        self.faults = Faults()
        self.listeners: list[Callable[[Element], None]] = []
        self.reset(running)

    def reset(self, running: Element) -> None:
        self.running = deepcopy(running)
        self.candidate = deepcopy(running)
        self.hardware = deepcopy(running)
        self.dirty = False
        self.holder: int | None = None
        self.pending: Pending | None = None

    def set_running(self, running: Element) -> None:
        self.running = deepcopy(running)
        self.candidate = deepcopy(running)
        self.dirty = False
        if not self.faults.ignoring:
            self.hardware = deepcopy(running)
            for listener in self.listeners:
                listener(self.hardware)

    def edit(self, target: Element, source: Element) -> None:
        """Merges ``source`` into ``target`` with the operations it names (RFC 6241 7.2)."""
        for child in source:
            operation = child.get(f"{{{BASE}}}operation") or child.get("operation") or "merge"
            there = self._same(target, child)
            if operation in ("delete", "remove"):
                if there is not None:
                    target.remove(there)
                elif operation == "delete":
                    raise RpcError("data-missing", f"{_local(child)} is not there to delete")
            elif there is None or operation == "replace":
                if there is not None:
                    target.remove(there)
                target.append(_plain(child))
            elif len(child):
                self.edit(there, child)
            else:
                there.text = child.text

    def _same(self, target: Element, wanted: Element) -> Element | None:
        keys = self.keys.get(_local(wanted), ())
        for child in target:
            if child.tag != wanted.tag:
                continue
            if _local(wanted) in self.leaf_lists:
                if child.text == wanted.text:
                    return child
            elif all(_key(child, key) == _key(wanted, key) for key in keys):
                return child
        return None


class NetconfServer:
    """Serves one datastore. ``capabilities`` are the ends of URNs such as ``confirmed-commit:1.1``.

    ``state`` adds to a ``get`` what runs beside what is configured.
    """

    base_1_1 = True

    def __init__(
        self,
        store: Datastore,
        account: Account,
        *,
        capabilities: Iterable[str] = ("candidate:1.0", "validate:1.1", "confirmed-commit:1.1"),
        state: Callable[[Element, Element], Element] = lambda running, hardware: running,
    ) -> None:
        self.store = store
        self.capabilities = tuple(capabilities)
        self.asked: list[str] = []
        self._state = state
        self._sessions = 0
        self._open = 0
        self._lock = threading.Condition(threading.RLock())
        self.ssh = SshServer(account, self._serve)

    def close(self) -> None:
        self.ssh.close()

    def await_sessions(self, count: int) -> None:
        """Returns when so many sessions are left."""
        with self._lock:
            assert self._lock.wait_for(lambda: self._open <= count, timeout=60.0)

    def expire(self) -> None:
        """The time of a pending confirmed commit is over."""
        with self._lock:
            self._revert()

    def answer(self, session: int, operation: Element) -> Element | None:
        """What follows ``ok``: None for a plain ``ok``. Raises ``RpcError``."""
        name = _local(operation)
        if name in self.store.faults.refusing:
            raise self.store.faults.refusing[name]
        handler = getattr(self, "_on_" + name.replace("-", "_"), None)
        if handler is None:
            raise RpcError("operation-not-supported", f"{name} is not known")
        result: Element | None = handler(session, operation)
        return result

    def _on_get(self, session: int, operation: Element) -> Element:
        return self._data(operation, self._state(self.store.running, self.store.hardware))

    def _on_get_config(self, session: int, operation: Element) -> Element:
        source = operation.find(f"{{{BASE}}}source/*")
        running = source is not None and _local(source) == "running"
        return self._data(operation, self.store.running if running else self.store.candidate)

    def _on_lock(self, session: int, operation: Element) -> None:
        store = self.store
        if store.holder is not None:
            raise RpcError(
                "lock-denied", "lock denied", f'<session-id xmlns="{BASE}">{store.holder}</session-id>'
            )
        if store.dirty:
            raise RpcError("resource-denied", "the candidate has changes that are not committed")
        if self._waits_for_others(session):
            raise RpcError("in-use", "a confirmed commit is pending")
        store.holder = session

    def _on_unlock(self, session: int, operation: Element) -> None:
        if self.store.holder != session:
            raise RpcError("operation-failed", "not locked by this session")
        self.store.holder = None

    def _on_discard_changes(self, session: int, operation: Element) -> None:
        self._mine(session)
        self.store.candidate = deepcopy(self.store.running)
        self.store.dirty = False

    def _on_edit_config(self, session: int, operation: Element) -> None:
        self._mine(session)
        config = operation.find(f"{{{BASE}}}config")
        if config is None:
            raise RpcError("missing-element", "no config")
        changed = deepcopy(self.store.candidate)
        self.store.edit(changed, self.received(config))
        self.store.candidate, self.store.dirty = changed, True

    def _on_validate(self, session: int, operation: Element) -> None:
        self.store.check(self.store.candidate)

    def _on_commit(self, session: int, operation: Element) -> None:
        self._mine(session)
        self.store.check(self.store.candidate)
        pending, persist_id = self.store.pending, operation.findtext(f"{{{BASE}}}persist-id")
        if persist_id is not None and (pending is None or pending.persist != persist_id):
            raise RpcError("invalid-value", "no confirmed commit of that name is pending")
        if persist_id is None and self._waits_for_others(session):
            raise RpcError("in-use", "a confirmed commit is pending")
        if operation.find(f"{{{BASE}}}confirmed") is None:
            self.store.pending = None
        else:
            before = pending.before if pending is not None else self.store.running
            self.store.pending = Pending(before, operation.findtext(f"{{{BASE}}}persist"), session)
        self.store.set_running(self.store.candidate)

    def _on_cancel_commit(self, session: int, operation: Element) -> None:
        pending = self.store.pending
        if pending is None:
            raise RpcError("operation-failed", "no confirmed commit is pending")
        if pending.persist != operation.findtext(f"{{{BASE}}}persist-id"):
            raise RpcError("invalid-value", "no confirmed commit of that name is pending")
        self._revert()

    def _on_close_session(self, session: int, operation: Element) -> None:
        """The reply is all of it."""

    def received(self, config: Element) -> Element:
        """A configuration as the datastore keeps it."""
        return config

    def sent(self, config: Element) -> Element:
        """A configuration as it is sent."""
        return config

    def ended(self, session: int) -> None:
        """A session that ends leaves nothing: no lock, no edits, no confirmed commit of its own."""
        store = self.store
        if store.holder == session:
            store.holder = None
            store.candidate, store.dirty = deepcopy(store.running), False
        if store.pending is not None and store.pending.persist is None and store.pending.session == session:
            self._revert()

    def _revert(self) -> None:
        if self.store.pending is not None:
            before, self.store.pending = self.store.pending.before, None
            self.store.set_running(before)

    def _waits_for_others(self, session: int) -> bool:
        pending = self.store.pending
        return pending is not None and (pending.persist is not None or pending.session != session)

    def _mine(self, session: int) -> None:
        if self.store.holder not in (None, session):
            raise RpcError("in-use", "the configuration is locked by another session")

    def _data(self, operation: Element, config: Element) -> Element:
        data = Element(f"{{{BASE}}}data")
        wanted = operation.find(f"{{{BASE}}}filter")
        found = self.sent(config)
        data.extend(found if wanted is None else selected(found, wanted))
        return data

    def _serve(self, channel: paramiko.Channel) -> None:
        with self._lock:
            self._sessions += 1
            self._open += 1
            session = self._sessions
        names = [
            BASE,
            *([BASE_1_1] if self.base_1_1 else []),
            *(_CAPABILITY + name for name in self.capabilities),
        ]
        listed = "".join(f"<capability>{name}</capability>" for name in names)
        try:
            channel.sendall(
                f'<hello xmlns="{BASE}"><capabilities>{listed}</capabilities>'
                f"<session-id>{session}</session-id></hello>".encode()
                + _END
            )
            self._converse(session, _Framing(channel))
        except (OSError, EOFError, paramiko.SSHException):
            pass
        finally:
            with self._lock:
                self.ended(session)
                self._open -= 1
                self._lock.notify_all()
            transport = channel.get_transport()
            if transport is not None:
                transport.close()

    def _converse(self, session: int, framing: _Framing) -> None:
        framing.chunked = BASE_1_1 in framing.receive() and self.base_1_1
        while True:
            text = framing.receive()
            self.asked.append(text)
            rpc = ElementTree.fromstring(text)
            reply = Element(f"{{{BASE}}}rpc-reply", rpc.attrib)
            operation = rpc[0]
            name = _local(operation)
            try:
                with self._lock:
                    result = self.answer(session, operation)
                reply.append(Element(f"{{{BASE}}}ok") if result is None else result)
            except RpcError as error:
                reply.append(_error(error))
            else:
                if self.store.faults.losing and "commit" in name and name != "get-commit-information":
                    return
            framing.send(ElementTree.tostring(reply))
            if name == "close-session":
                return


class _Framing:
    """Messages of RFC 6242: ended by ``]]>]]>`` until both ends have said 1.1, in chunks from then on."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self.chunked = False
        self._channel = channel
        self._buffer = b""

    def receive(self) -> str:
        message = self._chunks() if self.chunked else self._until(_END)
        return message.decode()

    def send(self, message: bytes) -> None:
        framed = b"\n#%d\n%s\n##\n" % (len(message), message) if self.chunked else message + _END
        self._channel.sendall(framed)

    def _chunks(self) -> bytes:
        message = b""
        while True:
            self._until(b"\n#")
            header = self._until(b"\n")
            if header == b"#":
                return message
            message += self._exactly(int(header))

    def _until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            self._more()
        found, _, self._buffer = self._buffer.partition(end)
        return found

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._more()
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found

    def _more(self) -> None:
        received = self._channel.recv(65536)
        if not received:
            raise EOFError
        self._buffer += received


def _error(error: RpcError) -> Element:
    info = f"<error-info>{error.info}</error-info>" if error.info else ""
    return ElementTree.fromstring(
        f'<rpc-error xmlns="{BASE}"><error-type>protocol</error-type><error-tag>{error.tag}</error-tag>'
        f"<error-severity>error</error-severity><error-message>{error.message}</error-message>{info}</rpc-error>"
    )


def selected(config: Element, wanted: Element) -> list[Element]:
    """Subtree filtering (RFC 6241 6): what ``wanted`` names, whole where it names nothing inside."""
    found = []
    for child in config:
        for selector in wanted:
            if selector.tag != child.tag:
                continue
            if not len(selector):
                found.append(child)
                continue
            inside = selected(child, selector)
            if inside:
                part = Element(child.tag, child.attrib)
                part.extend(inside)
                found.append(part)
    return found


def _plain(element: Element) -> Element:
    """A copy without operations, and without what it asks to be deleted."""
    copy = Element(element.tag)
    copy.text = element.text
    for child in element:
        if (child.get(f"{{{BASE}}}operation") or child.get("operation")) not in ("delete", "remove"):
            copy.append(_plain(child))
    return copy


def _key(element: Element, key: str) -> str | None:
    return next((child.text for child in element if _local(child) == key), None)


def _local(element: Element) -> str:
    return re.sub(r"^\{.*\}", "", element.tag)
