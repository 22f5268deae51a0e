"""A NETCONF session's door and its failures: keys, hosts, time limits, locks, no secret in a sentence."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import paramiko
import pytest

from switches.device import Device, Secret, Tls
from switches.errors import (
    AccessError,
    ConcurrentEditError,
    InventoryError,
    RefusedError,
    SwitchError,
    UnreachableError,
)
from switches.transport.netconf import NetconfOptions, NetconfSession
from tests.counterparts.switches.netconf_server import RpcError
from tests.counterparts.switches.openconfig_documents import factory
from tests.counterparts.switches.openconfig_netconf import OpenConfigNetconf
from tests.counterparts.switches.ssh_server import LOOPBACK, Account, SshServer
from twin.watermark import Watermark

PASSWORD = "right-password"
EVERYTHING = '<qos xmlns="http://openconfig.net/yang/qos"/>'


@pytest.fixture(scope="module")
def account() -> Account:
    return Account("ecn", PASSWORD)


@pytest.fixture(scope="module")
def server(account: Account) -> Iterator[OpenConfigNetconf]:
    with closing(OpenConfigNetconf(factory(Watermark(400_000, 1_600_000, 0.2)), account)) as switch:
        yield switch


@pytest.fixture
def known_hosts(server: OpenConfigNetconf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NETCONF_USER", "ecn")
    monkeypatch.setenv("NETCONF_PASSWORD", PASSWORD)
    path = tmp_path / "known_hosts"
    path.write_text(server.ssh.known_hosts(), "utf-8")
    return str(path)


def session(port: int, options: NetconfOptions, **device: Any) -> NetconfSession:
    given: dict[str, Any] = {
        "name": "leaf1",
        "platform": "netconf",
        "address": LOOPBACK,
        "port": port,
        "username": Secret(env="NETCONF_USER"),
        "password": Secret(env="NETCONF_PASSWORD"),
        "timeout_s": 60.0,
    }
    return NetconfSession(Device(**given | device), options)


def test_a_host_whose_key_is_known_is_spoken_with(
    server: OpenConfigNetconf, known_hosts: str, at_once: Callable[[], bool]
) -> None:
    with session(server.ssh.port, NetconfOptions(known_hosts=known_hosts)) as opened:
        assert at_once()
        assert opened.alive
        assert opened.offers("confirmed-commit:1.1")
        assert not opened.offers("confirmed-commit:1.0")
        assert len(opened.get_config(EVERYTHING)) == 1
    assert not opened.alive


@pytest.mark.parametrize("known", ["", "somebody else's"])
def test_a_host_key_that_is_not_known_is_refused(
    server: OpenConfigNetconf, known_hosts: str, tmp_path: Path, known: str
) -> None:
    other = tmp_path / "other"
    key = paramiko.ECDSAKey.generate()
    line = f"[{LOOPBACK}]:{server.ssh.port} {key.get_name()} {key.get_base64()}\n" if known else ""
    other.write_text(line, "utf-8")
    asking = session(server.ssh.port, NetconfOptions(known_hosts=str(other)))
    with pytest.raises(AccessError, match="host key that is not known") as refused:
        asking.open()
    assert "tls.verify: false" in refused.value.remedy


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"ssh-ed25519 AAAAC3Nz somebody@somewhere\n", "the line 'ssh-ed25519 AAAAC3Nz somebody@"),
        (b"\xff\xfe", "can't decode byte"),
    ],
)
def test_a_file_that_is_none_of_host_keys_is_told(
    server: OpenConfigNetconf, known_hosts: str, tmp_path: Path, content: bytes, says: str
) -> None:
    other = tmp_path / "other"
    other.write_bytes(content)
    with pytest.raises(
        InventoryError, match=r"known_hosts: .*other: .*; it is a file of host keys"
    ) as refused:
        session(server.ssh.port, NetconfOptions(known_hosts=str(other))).open()
    assert says in str(refused.value)


def test_a_host_key_goes_unchecked_where_the_inventory_says_so(
    server: OpenConfigNetconf, known_hosts: str
) -> None:
    with session(server.ssh.port, NetconfOptions(), tls=Tls(verify=False)) as opened:
        assert opened.alive


def test_a_key_file_opens_the_door(
    server: OpenConfigNetconf, account: Account, known_hosts: str, tmp_path: Path
) -> None:
    key = paramiko.ECDSAKey.generate()
    key.write_private_key_file(str(tmp_path / "key"))
    options = NetconfOptions(known_hosts=known_hosts, key_file=str(tmp_path / "key"))
    with pytest.raises(AccessError, match="refusal to log in"):
        session(server.ssh.port, options, password=None).open()
    account.keys.append(key)
    with session(server.ssh.port, options, password=None) as opened:
        assert opened.alive


def test_a_wrong_password_is_refused_and_not_repeated(
    server: OpenConfigNetconf, known_hosts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETCONF_PASSWORD", "wrong-password")
    with pytest.raises(AccessError) as refused:
        session(server.ssh.port, NetconfOptions(known_hosts=known_hosts)).open()
    assert "wrong-password" not in str(refused.value)


def test_a_port_that_nobody_listens_on_is_unreachable(known_hosts: str) -> None:
    with socket.create_server((LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(UnreachableError, match="no session"):
        session(port, NetconfOptions(known_hosts=known_hosts)).open()


def test_a_host_that_says_nothing_is_given_up_in_time(known_hosts: str) -> None:
    with (
        socket.create_server((LOOPBACK, 0)) as mute,
        pytest.raises(UnreachableError, match="no session"),  # by this limit or by the SSH library's
    ):
        session(mute.getsockname()[1], NetconfOptions(known_hosts=known_hosts), timeout_s=0.2).open()


def test_a_host_without_netconf_is_unreachable(account: Account, known_hosts: str) -> None:
    with (
        closing(SshServer(account, lambda channel: None, subsystem="sftp")) as plain,
        pytest.raises(UnreachableError, match="speaks NETCONF over SSH"),
    ):
        session(plain.port, NetconfOptions(), tls=Tls(verify=False)).open()


def test_what_listens_there_may_be_no_ssh(known_hosts: str) -> None:
    with socket.create_server((LOOPBACK, 0)) as web:
        web.listen()
        asking = session(web.getsockname()[1], NetconfOptions(), tls=Tls(verify=False), timeout_s=2.0)

        def answer() -> None:
            connection, _ = web.accept()
            with connection:
                connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(UnreachableError, match="no session"):
            asking.open()
        answering.join()


def test_a_lock_is_let_go_and_what_was_not_committed_is_discarded(
    server: OpenConfigNetconf, known_hosts: str
) -> None:
    options = NetconfOptions(known_hosts=known_hosts)
    with session(server.ssh.port, options) as one, session(server.ssh.port, options) as other:
        with (
            one.locked(),
            pytest.raises(ConcurrentEditError, match=r"lock denied \(session \d+\)"),
            other.locked(),
        ):
            pass
        with suppress(LookupError), one.locked():
            one.edit(EVERYTHING.replace("/>", "><queue-management-profiles/></qos>"))
            assert server.store.dirty
            raise LookupError
        with other.locked():
            assert not server.store.dirty


@pytest.mark.parametrize(
    ("tag", "kind"),
    [
        ("access-denied", AccessError),
        ("in-use", ConcurrentEditError),
        ("resource-denied", ConcurrentEditError),
        ("operation-failed", RefusedError),
    ],
)
def test_a_refusal_says_what_the_switch_said_without_secrets(
    server: OpenConfigNetconf, known_hosts: str, tag: str, kind: type[SwitchError]
) -> None:
    server.store.faults.refusing["get-config"] = RpcError(tag, f"not for {PASSWORD}, never")
    try:
        with (
            session(server.ssh.port, NetconfOptions(known_hosts=known_hosts)) as opened,
            pytest.raises(kind, match=r"not for \*\*\*, never") as refused,
        ):
            opened.get_config(EVERYTHING)
    finally:
        server.store.faults.refusing.clear()
    assert PASSWORD not in str(refused.value)


def test_a_commit_of_another_name_does_not_wait(server: OpenConfigNetconf, known_hosts: str) -> None:
    with session(server.ssh.port, NetconfOptions(known_hosts=known_hosts)) as opened:
        opened.confirm("ecntwin-r1")
        opened.cancel("ecntwin-r1")
        with opened.locked():
            opened.commit(confirm_within_s=60, persist="ecntwin-r1")
        opened.confirm("ecntwin-r2")
        opened.cancel("ecntwin-r2")
        assert server.store.pending is not None
        opened.cancel("ecntwin-r1")
        assert server.store.pending is None
        server.store.faults.refusing["cancel-commit"] = RpcError("access-denied", "no")
        try:
            with pytest.raises(AccessError):
                opened.cancel("ecntwin-r1")
        finally:
            server.store.faults.refusing.clear()


def test_a_session_that_the_switch_ends_leaves_what_others_edit_then(
    server: OpenConfigNetconf, known_hosts: str
) -> None:
    """One opened in its place would have neither its lock nor its edits, and commit or discard theirs."""
    options = NetconfOptions(known_hosts=known_hosts)
    with session(server.ssh.port, options) as one, session(server.ssh.port, options) as other:
        with suppress(LookupError), one.locked():
            server.store.faults.losing = True
            try:
                with pytest.raises(UnreachableError, match="ended during commit"):
                    one.commit()
            finally:
                server.store.faults.losing = False
            other.edit(EVERYTHING.replace("/>", "><queue-management-profiles/></qos>"))
            raise LookupError
        with pytest.raises(UnreachableError, match="that has ended"):
            one.commit()
        assert server.store.dirty
        other.discard()
        one.open()
        assert len(one.get_config(EVERYTHING)) == 1
