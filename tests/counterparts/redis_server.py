"""A real redis-server on loopback that keeps nothing; skips the test where none is installed."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
import redis

from tests.counterparts.certificates import Signed
from tests.counterparts.ports import free_port

_UNPACKED = Path(__file__).resolve().parents[2] / ".tools" / "usr" / "bin" / "redis-server"
_PATIENCE_S = 60.0


def redis_server() -> Path:
    """The program; skips the test where there is none."""
    found = shutil.which("redis-server") or (str(_UNPACKED) if _UNPACKED.exists() else None)
    if found is None:
        pytest.skip("redis-server is not installed: scripts/system-packages redis-server gets it")
    return Path(found)


class RedisServer:
    """One process, at ``port`` of 127.0.0.1 and at ``socket``, a path; it tells of changed keys.

    ``signed``: that port speaks TLS. ``port`` may be given, to come back where one was.
    """

    def __init__(
        self,
        folder: Path,
        *,
        password: str | None = None,
        databases: int = 16,
        signed: Signed | None = None,
        port: int | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        program = redis_server()
        self.password = password
        self.socket = folder / "redis.sock"
        self._log = folder / "redis.log"
        for _ in range(5):  # another process may take a port between asking for it and using it
            self.port = port or free_port()
            self._command = [
                *(str(program), "--bind", "127.0.0.1", *_listening(folder, self.port, signed)),
                *("--unixsocket", str(self.socket), "--dir", str(folder)),
                *("--save", "", "--appendonly", "no", "--notify-keyspace-events", "KEA"),
                *("--databases", str(databases), "--logfile", str(self._log)),
                *(("--requirepass", password) if password else ()),
            ]
            if self._begun():
                return
            self.close()
        raise RuntimeError(f"redis-server does not start: {self._log.read_text()[-500:]}")

    def restart(self) -> None:
        """Kills the process and starts it again at the same port, with nothing in it."""
        self._process.kill()
        self._process.wait()
        if not self._begun():
            raise RuntimeError(f"redis-server does not start again: {self._log.read_text()[-500:]}")

    def client(self, database: int) -> redis.Redis:
        """A connection to one of its databases, for the test's own use."""
        return redis.Redis(
            unix_socket_path=str(self.socket),
            db=database,
            password=self.password,
            decode_responses=True,
            protocol=2,
        )

    def close(self) -> None:
        """Ends the process."""
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _begun(self) -> bool:
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + _PATIENCE_S
        with self.client(0) as client:
            while self._process.poll() is None and time.monotonic() < deadline:
                try:
                    return bool(client.ping())
                except redis.ConnectionError:
                    time.sleep(0.01)
        return False


def _listening(folder: Path, port: int, signed: Signed | None) -> list[str]:
    if signed is None:
        return ["--port", str(port)]
    certificate, key = folder / "redis.pem", folder / "redis.key"
    certificate.write_bytes(signed.certificate)
    key.write_bytes(signed.key)
    files = ["--tls-cert-file", str(certificate), "--tls-key-file", str(key)]
    return ["--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no", *files]
