"""Debian's netconfd (yuma123), on a socket of its own behind an SSH server on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

import paramiko

from tests.counterparts.switches.ssh_server import LOOPBACK, Account, SshServer

_REPOSITORY = Path(__file__).resolve().parents[3]
_MODELS = _REPOSITORY / "tests" / "data" / "yang"
_PLACES = (_REPOSITORY / ".tools" / "usr" / "sbin", Path("/usr/sbin"))
_READY = "Running netconfd server"
_HELLO_ENDS = b"]]>]]>"
_STARTS_WITHIN_S = 60.0
_APART_S = 0.1


def find() -> Path | None:
    """Where netconfd is: installed, or unpacked by ``scripts/system-packages``."""
    found = shutil.which("netconfd", path=os.pathsep.join(map(str, _PLACES)))
    return None if found is None else Path(found)


class Netconfd:
    """netconfd with OpenConfig's QoS model, its candidate as target; the account may do everything.

    Raises ``RuntimeError`` with what it said where it does not start.
    """

    def __init__(self, program: Path, account: Account) -> None:
        self._program = program
        self._account = account
        self._children: list[subprocess.Popen[bytes]] = []
        self._folder = Path(tempfile.mkdtemp(prefix="netconfd-"))  # a socket's path is 107 characters at most
        self._socket = self._folder / "ncx.sock"
        self.ssh = SshServer(account, self._serve)
        usr = program.parents[1]
        libraries = os.pathsep.join(str(path) for path in (usr / "lib").glob("*-linux-gnu*"))
        self._environment = {**os.environ, "LC_ALL": "C", "LD_LIBRARY_PATH": libraries}
        self._server = subprocess.Popen(
            [
                program,
                "--no-startup",
                f"--modpath={_MODELS}:{usr / 'share/yuma/modules'}",
                "--module=openconfig-qos",
                f"--superuser={account.username}",
                f"--port={self.ssh.port}",
                "--target=candidate",
                f"--ncxserver-sockname={self._socket}",
                f"--home={self._folder}",
                "--log-level=info",
            ],
            env=self._environment,
            cwd=self._folder,  # a confirmed commit leaves a backup there
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._await_ready()

    def close(self) -> None:
        self.ssh.close()
        for child in self._children:
            child.terminate()
            child.wait()
        self._server.terminate()
        self._server.wait()
        self._reader.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _await_ready(self) -> None:
        ready = threading.Event()
        said: list[str] = []

        def read() -> None:
            assert self._server.stdout is not None
            with self._server.stdout as lines:
                for line in lines:
                    text = line.decode("utf-8", "replace")
                    if not ready.is_set():
                        said.append(text)
                        if _READY in text:
                            ready.set()
            ready.set()

        self._reader = threading.Thread(target=read, daemon=True)
        self._reader.start()
        if not ready.wait(_STARTS_WITHIN_S) or self._server.poll() is not None:
            self.close()
            raise RuntimeError("netconfd does not start: " + "".join(said[-5:]))

    def _serve(self, channel: paramiko.Channel) -> None:
        """One session: netconfd's own subsystem program, between the SSH channel and its socket."""
        program = subprocess.Popen(
            [
                self._program.with_name("netconf-subsystem"),
                f"--ncxserver-sockname={self.ssh.port}@{self._socket}",
            ],
            env={
                **self._environment,
                "SSH_CONNECTION": f"{LOOPBACK} 1024 {LOOPBACK} {self.ssh.port}",
                "USER": self._account.username,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert program.stdin is not None
        assert program.stdout is not None
        self._children.append(program)
        asking = threading.Thread(target=self._forward, args=(channel, program.stdin), daemon=True)
        asking.start()
        with contextlib.suppress(OSError), program.stdout:
            while answered := program.stdout.read(65536):
                channel.sendall(answered)
        with contextlib.suppress(EOFError, OSError):  # the other end may be gone already
            channel.close()
        asking.join()
        program.wait()

    def _forward(self, channel: paramiko.Channel, into: IO[bytes]) -> None:
        """What is asked. netconfd loses what it reads together with the hello, unseen: it goes ahead."""
        with contextlib.suppress(OSError), into:
            hello = b""
            while _HELLO_ENDS not in hello and (asked := channel.recv(65536)):
                hello += asked
            hello, end, early = hello.partition(_HELLO_ENDS)
            into.write(hello + end)
            time.sleep(_APART_S)
            into.write(early)
            while asked := channel.recv(65536):
                into.write(asked)
