"""Follows a page as its reader does: block after block in one folder, with a service beside it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.counterparts.captures import pcap, udp
from tests.counterparts.ports import free_port
from tests.e2e.blocks import ROOT, Block
from tests.e2e.process import LISTENS, PATIENCE_S, Served, serving

EXAMPLE = ROOT / "examples/websearch-16"

# To be quick, and to leave nothing to luck: few candidates, any gain recommended, none held back.
QUICK = {
    "ECNTWIN_SEARCH__CANDIDATES": "24",
    "ECNTWIN_SEARCH__NARROWED": "8",
    "ECNTWIN_SEARCH__SECOND_OPINION": "false",
    "ECNTWIN_SEARCH__NICENESS": "0",
    "ECNTWIN_TUNING__MARGIN": "0",
    "ECNTWIN_TUNING__RESIDUAL_LIMIT": "1e9",
    "ECNTWIN_TUNING__COOL_DOWN_S": "0",
    "ECNTWIN_TUNING__STALE_AFTER_S": "86400",
    "ECNTWIN_TUNING__PERIOD_S": "86400",  # a round of its own may be under way when a page asks for one
    "ECNTWIN_ROLLOUT__SILENCE_S": "86400",
}
# What readers of these pages have of their own, from their switches or for them.
_REPORT = bytes.fromhex("214003ec0a000001100301001000000000000000ffffffff")
_THEIRS = {
    "payload.bin": _REPORT,
    "capture.pcap": pcap([udp(_REPORT)]),
    "reports.pcap": pcap([udp(_REPORT)]),
    "inventory.yaml": b"switches: {leaf1: {platform: dry-run, int: {node_id: 0x0a000001}}}\n",
    "ecntwin.yaml": b"storage: {url: sqlite:///ecntwin.db}\ntuning: {enabled: false}\n",
}
DEMO_HAS_FOUND = "Recommendation "
BLOCK_S = 1_200.0  # on a clone that has no compiled kernels yet
COPIED = ("examples", "deploy")
PAGE_PORT, LAB_PORT, INGEST_PORT, UDP_PORT = "8080", "9000", "8081", "32766"
_WRAPPERS = {
    "ecntwin": """if [ "$1" = lab ]; then
    shift
    case " $* " in *" --listen "*) ;; *) set -- --listen "127.0.0.1:$PAGE_LAB_PORT" "$@" ;; esac
    set -- lab "$@"
elif [ "$1 $2" = "demo --serve" ]; then
    set -- "$@" --no-browser --port "$PAGE_PORT" --lab-port "$PAGE_LAB_PORT"
elif [ "$1" = tune ]; then
    shift
    case " $* " in *" --candidates "*) ;; *) set -- --candidates "$ECNTWIN_SEARCH__CANDIDATES" "$@" ;; esac
    set -- tune "$@"
fi
exec "$PAGE_PYTHON" -m cli "$@"
""",
    # Quiet, and failing where the service refuses: a reader sees the sentence, a script its exit code.
    "curl": """case " $* " in *" --fail "* | *" -f"* | *" -sf"*) exec "$PAGE_CURL" "$@" ;; esac
exec "$PAGE_CURL" --silent --show-error --fail-with-body "$@"
""",
    "python": 'exec "$PAGE_PYTHON" "$@"\n',
    "python3": 'exec "$PAGE_PYTHON" "$@"\n',
}


class PageError(AssertionError):
    """A block does not do what its page says."""


@contextmanager
def fed_service() -> Iterator[Served]:
    """A service that has been told the example's fabric and reports, and runs rounds when asked."""
    with serving(**QUICK, ECNTWIN_TUNING__ENABLED="false") as served:
        with httpx.Client(base_url=served.url, timeout=PATIENCE_S) as client:
            feed(client)
        yield served


def feed(client: httpx.Client) -> None:
    """Tells a service the example's fabric and reports."""
    client.put(
        "/v1/topology", json=json.loads((EXAMPLE / "topology.json").read_text("utf-8"))
    ).raise_for_status()
    client.post(
        "/v1/telemetry/int",
        content=(EXAMPLE / "reports.ndjson.gz").read_bytes(),
        headers={"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"},
    ).raise_for_status()


def make_ready(served: Served) -> None:
    """A rollout is done, a recommendation waits, nothing is frozen, whatever the page before has done."""
    with httpx.Client(base_url=served.url, timeout=PATIENCE_S) as client:
        client.put("/v1/freeze", json={"frozen": False}).raise_for_status()
        found = client.post("/v1/tune").raise_for_status().json()
        approved = client.post(f"/v1/recommendations/{found['id']}/approve").raise_for_status().json()
        deadline_s = time.monotonic() + PATIENCE_S
        while not client.get(f"/v1/rollouts/{approved['rollout']}").raise_for_status().json()["ended"]:
            assert time.monotonic() < deadline_s, approved
            time.sleep(0.05)
        client.post("/v1/tune").raise_for_status()


@dataclass
class PageSession:
    """One reader: a folder, variables that outlast a block, and what runs in the background."""

    folder: Path
    page: Path
    service_url: str | None = None
    _ports: dict[str, int] = field(default_factory=dict)
    _background: list[subprocess.Popen[str]] = field(default_factory=list)
    _readers: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        work, tools = self.folder / "clone", self.folder / "bin"
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, work / name, ignore=shutil.ignore_patterns("secrets"))
            else:
                shutil.copy(source, work / name)
        for name, content in _THEIRS.items():
            (work / name).write_bytes(content)
        for place in (tools, work / ".venv/bin"):
            place.mkdir(parents=True)
            for name, text in _WRAPPERS.items():
                (place / name).write_text(f"#!/bin/sh\n{text}", "utf-8")
                (place / name).chmod(0o755)
        (self.folder / "variables").write_text("", "utf-8")
        beside = self.page.parent if self.page.is_relative_to(ROOT / "examples") else ROOT
        (self.folder / "where").write_text(str(work / beside.relative_to(ROOT)), "utf-8")
        self._ports = {port: free_port() for port in (PAGE_PORT, LAB_PORT, INGEST_PORT, UDP_PORT)}
        if self.service_url is not None:
            self._ports[PAGE_PORT] = httpx.URL(self.service_url).port or 80

    def follow(self, block: Block) -> None:
        """Runs one block. Raises ``PageError``."""
        if "background" in block.words:
            self._start(block)
        elif block.language == "console":
            for command, expected in transcript(block.text):
                said = self._run(block, command)
                if expected and not alike(expected, said):
                    raise PageError(f"{block.where}: {command}\nshown:\n{expected}\nsaid:\n{said}")
        elif block.language == "python":
            script = self.folder / f"line-{block.line}.py"
            script.write_text(self._on_free_ports(block.text), "utf-8")
            self._run(block, f'"$PAGE_PYTHON" {script}')
        else:
            self._run(block, block.text)

    def end(self) -> None:
        """Ends what it left in the background, and tells how each ended otherwise than well."""
        failed = []
        for process in reversed(self._background):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            else:
                failed.append(process.args)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for reader in self._readers:
            reader.join(30)
        assert not failed, f"ended by itself: {failed}"

    def _on_free_ports(self, text: str) -> str:
        """The page's ports are this test's."""
        for port, free in self._ports.items():
            names = r"127\.0\.0\.1|PORTS" + ("" if port == UDP_PORT else "|localhost|--port")
            text = re.sub(rf"({names})([:= ]){port}\b", rf"\g<1>\g<2>{free}", text)
        return text

    def _environment(self) -> Mapping[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ECNTWIN_")}
        return kept | {
            **QUICK,
            "PATH": f"{self.folder / 'bin'}:{kept['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PAGE_PYTHON": sys.executable,
            "PAGE_CURL": shutil.which("curl") or "curl",
            "PAGE_PORT": str(self._ports[PAGE_PORT]),
            "PAGE_LAB_PORT": str(self._ports[LAB_PORT]),
            "ECNTWIN_SERVER__PORT": str(self._ports[PAGE_PORT]),
            "ECNTWIN_URL": f"http://127.0.0.1:{self._ports[PAGE_PORT]}",
            "XDG_STATE_HOME": str(self.folder / "state"),
            "COLUMNS": "100",
            "TERM": "dumb",
        }

    def _script(self, text: str, *, remember: bool) -> list[str]:
        """The text as bash runs it, after what the blocks before it set."""
        begin = f'. {self.folder}/variables; cd "$(cat {self.folder}/where)"; set -eo pipefail\n'
        keep = f"\nset +e; export -p >{self.folder}/variables; pwd >{self.folder}/where\n"
        return ["bash", "-c", begin + self._on_free_ports(text) + (keep if remember else "")]

    def _run(self, block: Block, text: str) -> str:
        done = subprocess.run(
            self._script(text, remember=True),
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BLOCK_S,
            check=False,
        )
        if done.returncode != block.exit_code:
            raise PageError(f"{block.where}: exits with {done.returncode}:\n{text}\n{done.stdout}")
        return done.stdout

    def _start(self, block: Block) -> None:
        process = subprocess.Popen(
            self._script(block.text, remember=False),
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._background.append(process)
        log: list[str] = []
        listens = threading.Event()

        def read() -> None:
            assert process.stdout is not None
            with process.stdout:
                for line in process.stdout:
                    log.append(line)
                    if LISTENS.search(line) or line.startswith(DEMO_HAS_FOUND):
                        listens.set()
            listens.set()

        self._readers.append(threading.Thread(target=read, daemon=True))
        self._readers[-1].start()
        if not listens.wait(BLOCK_S) or process.poll() is not None:
            raise PageError(f"{block.where}: does not come up:\n{''.join(log)}")


def transcript(text: str) -> list[tuple[str, str]]:
    """Each command of a console block, with the output that is shown after it."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", "")
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
    return found


_NUMBER = r"[-−+]?\d[\d.,:]*(?: \d{3})*"


def _pattern(part: str) -> str:
    if part == "…":
        return ".*"
    if re.fullmatch(_NUMBER, part):
        return _NUMBER
    return re.sub(r"s\b", "s?", re.escape(part))  # another number, and many things are one


def alike(shown: str, said: str) -> bool:
    """Whether every line shown is said, in that order, where numbers may be others, one of a thing may be
    many, and ``…`` is anything.

    White space counts as one blank: tables are as wide as what they hold.
    """
    lines = [" ".join(line.split()) for line in said.splitlines()]
    at = 0
    for line in (" ".join(line.split()) for line in shown.splitlines()):
        if not line or line == "…" or not re.sub(r"[─ ]", "", line):
            continue
        wanted = re.compile("".join(map(_pattern, re.split(rf"({_NUMBER}|…)", line))))
        while at < len(lines) and not wanted.fullmatch(lines[at]):
            at += 1
        if at == len(lines):
            return False
        at += 1
    return True
