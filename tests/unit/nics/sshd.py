"""OpenSSH's server on loopback, over a host's tree of files.

It runs as an account without rights: as root it would need an account ``sshd`` of the machine. Where the
tests are root, that account is ``nobody`` with a shell, as nss_wrapper says.
"""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import paramiko
import psutil
import pytest

_REPOSITORY = Path(__file__).resolve().parents[3]
_TOOLS = _REPOSITORY / ".tools" / "usr"
LOOPBACK = "127.0.0.1"
_NOBODY = 65_534


def find() -> Path:
    """Where sshd is, installed or unpacked by ``scripts/system-packages``. Skips the test without one, or
    without nss_wrapper where that is needed.
    """
    found = shutil.which("sshd", path=os.pathsep.join((str(_TOOLS / "sbin"), "/usr/sbin")))
    if found is None or (os.getuid() == 0 and _wrapper() is None):
        pytest.skip("sshd is missing: run scripts/system-packages sshd")
    return Path(found)


def _libraries() -> list[Path]:
    return [*(_TOOLS / "lib").glob("*-linux-gnu*"), *Path("/usr/lib").glob("*-linux-gnu*")]


def _wrapper() -> Path | None:
    places = (folder / "libnss_wrapper.so" for folder in _libraries())
    return next((place for place in places if place.is_file()), None)


class Sshd:
    """``folder`` is the host's, and open to the account; ``programs`` shadows programs of the machine.

    It is several hosts where it listens at several loopback ``addresses``.
    """

    def __init__(self, program: Path, addresses: Sequence[str] = (LOOPBACK,)) -> None:
        self.addresses = addresses
        self.folder = Path(tempfile.mkdtemp(prefix="ecntwin-host-"))
        self.folder.chmod(0o755)
        self.programs = self.folder / "bin"
        self.programs.mkdir()
        self._program = program
        self._user = "nobody" if os.getuid() == 0 else getpass.getuser()
        self._uid = _NOBODY if os.getuid() == 0 else os.getuid()
        self.key = paramiko.ECDSAKey.generate()
        self.host_key = paramiko.ECDSAKey.generate()
        self.host_key.write_private_key_file(str(self.folder / "host_key"))
        self.key_file = self.folder / "key"
        self.key.write_private_key_file(str(self.key_file))
        (self.folder / "authorized_keys").write_text(f"{self.key.get_name()} {self.key.get_base64()}\n")
        self.process: subprocess.Popen[bytes] | None = None
        with closing(socket.create_server((LOOPBACK, 0))) as free:
            self.port: int = free.getsockname()[1]
        self.known_hosts = self.folder / "known_hosts"
        self.known_hosts.write_text(self._known())
        self.start()

    @property
    def user(self) -> str:
        return self._user

    def start(self) -> None:
        """Starts it, also again at the same port. Raises ``RuntimeError`` with its words."""
        self.give_to_account(self.folder)
        (self.folder / "config").write_text(
            "\n".join(
                (
                    *(f"ListenAddress {address}:{self.port}" for address in self.addresses),
                    f"HostKey {self.folder / 'host_key'}",
                    f"AuthorizedKeysFile {self.folder / 'authorized_keys'}",
                    "PidFile none",
                    "UsePAM no",
                    "StrictModes no",
                    "PasswordAuthentication no",
                    "KbdInteractiveAuthentication no",
                    "MaxStartups 500",
                    f"SetEnv PATH={self.programs}:/usr/sbin:/usr/bin:/sbin:/bin",
                )
            )
        )
        log = self.folder / "log"
        with log.open("wb") as said:
            self.process = subprocess.Popen(
                [self._program, "-D", "-e", "-f", self.folder / "config"],
                env=self._environment(),
                stderr=said,
                user=self._uid if os.getuid() == 0 else None,
                group=self._uid if os.getuid() == 0 else None,
                extra_groups=[] if os.getuid() == 0 else None,
            )
        # It says so once it listens: reading its log to that line needs no pause between two looks.
        with subprocess.Popen(
            ["tail", f"--pid={self.process.pid}", "-s", "0.05", "-n", "+1", "-f", log], stdout=subprocess.PIPE
        ) as tail:
            assert tail.stdout is not None
            words = b""
            for line in tail.stdout:
                words += line
                if b"Server listening" in line:
                    tail.terminate()
                    return
        raise RuntimeError(f"sshd does not start: {words.decode('utf-8', 'replace')}")

    def give_to_account(self, folder: Path) -> None:
        """Makes the account the owner of all files there."""
        if os.getuid() == 0:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, self._uid, self._uid, follow_symlinks=False)

    def stop(self) -> None:
        """Ends the server and all that it runs."""
        if self.process is not None:
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def shadow(self, name: str, script: str) -> None:
        """A program of that name for the host's commands."""
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def _known(self) -> str:
        at = ",".join(f"[{address}]:{self.port}" for address in self.addresses)
        return f"{at} {self.host_key.get_name()} {self.host_key.get_base64()}\n"

    def _environment(self) -> dict[str, str]:
        environment = {
            "LD_LIBRARY_PATH": os.pathsep.join(map(str, _libraries()[:1])),
            "PATH": os.environ["PATH"],
        }
        wrapper = _wrapper()
        if os.getuid() == 0 and wrapper is not None:
            passwd, group = self.folder / "passwd", self.folder / "group"
            passwd.write_text(f"nobody:x:{_NOBODY}:{_NOBODY}::{self.folder}:/bin/sh\n")
            group.write_text(f"nogroup:x:{_NOBODY}:\n")
            for path in (passwd, group):
                path.chmod(0o644)
            environment |= {
                "LD_PRELOAD": str(wrapper),
                "NSS_WRAPPER_PASSWD": str(passwd),
                "NSS_WRAPPER_GROUP": str(group),
            }
        else:
            assert pwd.getpwuid(self._uid).pw_shell
        return environment
