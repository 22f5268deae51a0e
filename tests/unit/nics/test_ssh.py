"""Logging in to a host, and every way in which that fails."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from nics.connectx import ConnectXAdapter
from nics.ssh import SshSession
from switches.device import Secret
from switches.errors import AccessError, CredentialsError, InventoryError, RefusedError, UnreachableError
from tests.unit.nics.conftest import Rig
from tests.unit.nics.sshd import LOOPBACK, Sshd

Make = Callable[..., ConnectXAdapter]


@pytest.fixture
def other_key(sshd: Sshd) -> Iterator[Path]:
    path = sshd.folder / "other_key"
    paramiko.ECDSAKey.generate().write_private_key_file(str(path))
    yield path
    path.unlink()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"address": ""}, "a host is found by its address"),
        ({"username": None}, "username: SSH asks for a user"),
        ({"key_file": None}, "SSH asks for a password or a key"),
        ({"key_file": Path("/nowhere/key")}, "key_file: received /nowhere/key; it is a file"),
        ({"known_hosts": Path("/nowhere/hosts")}, "known_hosts: received /nowhere/hosts; it is a file"),
    ],
)
def test_a_host_that_cannot_be_logged_in_to_is_refused(changed: Make, more: object, says: str) -> None:
    with pytest.raises(InventoryError, match=says):
        changed(**more)  # type: ignore[arg-type]  # a mapping


def test_a_missing_secret_is_named(changed: Make) -> None:
    adapter = changed(username=Secret(env="ECNTWIN_TEST_NOBODY"))
    with pytest.raises(CredentialsError, match=r"nothing in \$ECNTWIN_TEST_NOBODY"):
        adapter.read()


def test_what_is_asked_is_sent_at_once(changed: Make, at_once: Callable[[], bool]) -> None:
    assert changed().read().nics
    assert at_once()


def test_a_key_that_the_host_does_not_know(changed: Make, other_key: Path) -> None:
    with pytest.raises(AccessError, match="a refusal to log in; the credentials are the host's"):
        changed(key_file=other_key).read()


def test_a_password_where_the_host_takes_keys(changed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECNTWIN_TEST_PASSWORD", "s3cret!")
    adapter = changed(key_file=None, password=Secret(env="ECNTWIN_TEST_PASSWORD"))
    with pytest.raises(AccessError) as caught:
        adapter.read()
    assert "s3cret!" not in str(caught.value)


def test_a_file_that_is_no_key(changed: Make, sshd: Sshd) -> None:
    with pytest.raises(InventoryError, match=r"key_file: .* it is a private key"):
        changed(key_file=sshd.known_hosts).read()


def test_a_key_with_a_passphrase(changed: Make, sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sshd.folder / "locked_key"
    sshd.key.write_private_key_file(str(path), password="open sesame")
    with pytest.raises(InventoryError, match="its passphrase is the secret password"):
        changed(key_file=path).read()
    monkeypatch.setenv("ECNTWIN_TEST_PASSWORD", "open sesame")
    assert changed(key_file=path, password=Secret(env="ECNTWIN_TEST_PASSWORD")).read().nics


def test_a_host_key_that_is_not_known(changed: Make, tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text("")
    with pytest.raises(AccessError, match="a host key that is not known"):
        changed(known_hosts=path).read()


def test_a_file_that_is_none_of_host_keys(changed: Make, sshd: Sshd, tmp_path: Path) -> None:
    public = tmp_path / "id.pub"
    public.write_text(f"{sshd.key.get_name()} {sshd.key.get_base64()} somebody@somewhere\n")
    with pytest.raises(
        InventoryError, match=r"id\.pub: the line '.*; it is a file of host keys, as ssh-keyscan"
    ):
        changed(known_hosts=public).read()
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(InventoryError, match="it is a file of host keys, as ssh-keyscan prints them"):
        changed(known_hosts=binary).read()


def test_a_host_key_that_is_another(changed: Make, sshd: Sshd, tmp_path: Path) -> None:
    path, key = tmp_path / "known_hosts", paramiko.ECDSAKey.generate()
    path.write_text(f"[{LOOPBACK}]:{sshd.port} {key.get_name()} {key.get_base64()}\n")
    with pytest.raises(AccessError, match="another host key than known_hosts has"):
        changed(known_hosts=path).read()


def test_a_port_where_nobody_listens(changed: Make) -> None:
    with closing(socket.create_server((LOOPBACK, 0))) as free:
        port = free.getsockname()[1]
    with pytest.raises(UnreachableError, match="Connection refused"):
        changed(port=port).read()


def test_a_host_that_says_nothing(changed: Make) -> None:
    with closing(socket.create_server((LOOPBACK, 0))) as silent:
        adapter = changed(port=silent.getsockname()[1], timeout_s=0.2)
        with pytest.raises(UnreachableError, match=r"no answer to a connection within 0\.2 s"):
            adapter.read()


def test_a_command_that_does_not_end(changed: Make, sshd: Sshd) -> None:
    assert sshd.process is not None
    adapter = changed(timeout_s=1.0)
    sshd.shadow("readlink", f"exec tail --pid={sshd.process.pid} -f /dev/null")  # ends with the server
    with pytest.raises(UnreachableError, match=r"no answer to a (command|connection) within 1 s"):
        adapter.read()


def test_a_connection_that_the_host_has_ended_is_made_anew(changed: Make, sshd: Sshd) -> None:
    adapter = changed()
    adapter.read()
    sshd.stop()
    with pytest.raises(UnreachableError):
        adapter.read()
    sshd.start()
    assert adapter.read().nics


def test_sudo_that_asks_for_a_password(changed: Make, sshd: Sshd) -> None:
    sshd.shadow("sudo", "echo 'sudo: a password is required' >&2; exit 1")
    with pytest.raises(AccessError, match="sudo: a password is required; with sudo: true"):
        changed(sudo=True).read()


def test_a_command_that_ends_before_it_has_read_the_script(rig: Rig, sshd: Sshd) -> None:
    sshd.shadow("sudo", "echo 'sudo: a password is required' >&2; exit 1")
    more_than_fits_on_the_way = "#" * (1 << 24)
    with (
        closing(SshSession(replace(rig.host, sudo=True))) as session,
        pytest.raises(AccessError, match="a password is required"),
    ):
        session.run(more_than_fits_on_the_way)


def test_sudo_runs_the_shell(changed: Make, sshd: Sshd) -> None:
    sshd.shadow("sudo", '[ "$1" = -n ] && shift && exec "$@"')
    assert changed(sudo=True).read().nics


def test_an_account_without_a_shell(changed: Make, sshd: Sshd) -> None:
    sshd.shadow("sh", r"cat >/dev/null; printf 'This account is \033[31mnot available\n'; exit 1")
    with pytest.raises(RefusedError, match=r"exit status 1 \(This account is \[31mnot available\)"):
        changed().read()
