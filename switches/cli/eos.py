"""The adapter to Arista EOS, over eAPI.

A change is one configuration session, committed under a timer: the switch takes it back unless it is
confirmed. docs/switches/eos.md says which forms are verified, and against what.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import httpx
import msgspec

from switches.adapter import name_of, policies_of
from switches.base import Capabilities, StagedChange
from switches.cli.eos_lossless import COMMANDS, eos_ports
from switches.cli.policies import Line, Policies, Section
from switches.cli.wred_line import Bytes, Found, Grammar, Spot, WredLineAdapter, below, sections
from switches.device import Device, options_of
from switches.errors import AccessError, BusyError, CapabilityError, InventoryError, RefusedError, unreadable
from switches.lossless import LosslessReading
from switches.transport.http import DeviceAuth, HttpSession, base_url_of

_DENIED = re.compile(r"not authori[sz]ed|authori[sz]ation denied|permission denied|privilege", re.IGNORECASE)
_TIMER = "pendingCommitTimer"


@dataclass(frozen=True, slots=True)
class Sessions:
    """Configuration sessions by name, and the one whose commit waits for confirmation."""

    states: Mapping[str, str]
    waiting: str | None


class EapiSession:
    """eAPI calls to one switch; a list of commands stops at the first one refused."""

    def __init__(self, device: Device, *, transport: httpx.BaseTransport | None = None) -> None:
        self._device = device
        self._http = HttpSession(device, base_url_of(device), auth=DeviceAuth(device), transport=transport)

    def run(self, commands: Sequence[str], form: Literal["json", "text"] = "json") -> list[dict[str, Any]]:
        """Each command's output. Raises ``RefusedError`` with the switch's words, ``AccessError``."""
        answer = self._http.call(
            "POST",
            "/command-api",
            json={
                "jsonrpc": "2.0",
                "method": "runCmds",
                "params": {"version": 1, "cmds": ["enable", *commands], "format": form},
                "id": "ecntwin",
            },
        )
        try:
            document = answer.json()
        except ValueError as error:
            raise self._unreadable(str(error)) from error
        if isinstance(document, dict) and isinstance(document.get("error"), dict):
            raise self._refused(document["error"])
        found = document.get("result") if isinstance(document, dict) else None
        if not isinstance(found, list) or len(found) != len(commands) + 1:
            raise self._unreadable("not a result for each command")
        return [one if isinstance(one, dict) else {} for one in found[1:]]

    def text(self, commands: Sequence[str]) -> str:
        """The outputs as text, one after the other."""
        return "\n".join(str(one.get("output", "")) for one in self.run(commands, "text"))

    def sessions(self) -> Sessions:
        """Pending sessions.

        Up to EOS 4.31 a waiting commit is its session's state; from 4.32 on the session counts as committed,
        and a key of its own names it.
        """
        found = self.run(["show configuration sessions detail"])[0]
        rows = found.get("sessions")
        if not isinstance(rows, dict):
            raise self._unreadable("no configuration sessions")
        states = {name: str(row.get("state")) for name, row in rows.items() if isinstance(row, dict)}
        waiting = found.get("commitTimerSessionName") or next(
            (name for name, state in states.items() if state == _TIMER), None
        )
        return Sessions(states, str(waiting) if waiting else None)

    def close(self) -> None:
        self._http.close()

    def _refused(self, error: Mapping[str, Any]) -> AccessError | RefusedError:
        data = error.get("data")
        found = (
            [one.get("errors") for one in data if isinstance(one, Mapping)] if isinstance(data, list) else []
        )
        reasons = [str(reason) for one in found if isinstance(one, list) for reason in one]
        said = self._http.shown("; ".join([str(error.get("message")), *reasons]))
        if _DENIED.search(said):
            rule = "the account may configure, without an enable password"
            return AccessError(self._device.where, said, rule, "correct its privilege or role")
        rule = "the switch takes the commands"
        return RefusedError(self._device.where, said, rule, "check the switch and its version")

    def _unreadable(self, said: str) -> RefusedError:
        return unreadable(self._device.where, said, "eAPI answers with the output of each command")


_SHOWN = ("show running-config section qos profile", "show running-config section interface")
_UNIT = r"(segments|bytes|kbytes|mbytes|milliseconds)"
_BARE = re.compile(r"(?:uc-|mc-)?tx-queue \d+")  # the section of a queue, of which nothing is set
_GRAMMAR = Grammar(
    starts="random-detect ecn minimum-threshold ",
    line=re.compile(
        rf"random-detect ecn minimum-threshold (?P<kmin>\d+) (?P<kmin_unit>{_UNIT})"
        rf" maximum-threshold (?P<kmax>\d+) (?P<kmax_unit>{_UNIT})"
        r" max-mark-probability (?P<pmax>\d+)(?: weight (?P<weight>\d+))?"
    ),
    template="random-detect ecn minimum-threshold {kmin} {unit} maximum-threshold {kmax} {unit}"
    " max-mark-probability {pmax} weight {weight}",
    units=("bytes", "kbytes", "mbytes", "segments"),
    highest=256_000_000,
)


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``profile``: the QoS profile, where the ports do not name it. ``commit_timer_s``: an unconfirmed change
    is taken back after this. ``save``: confirming also writes the startup configuration. ``kilo_bytes``: the
    size of the platform's kbytes.
    """

    profile: str | None = None
    commit_timer_s: int = 300
    save: bool = False
    kilo_bytes: Bytes = 1000


class EosAdapter(WredLineAdapter):
    def __init__(
        self, device: Device, *, clock_ns: Callable[[], int], transport: httpx.BaseTransport | None = None
    ) -> None:
        options = options_of(device, _Options)
        if not 10 <= options.commit_timer_s < 86_400:
            where = f"{device.where} options.commit_timer_s"
            rule = "a commit waits 10 s to a day for its confirmation"
            raise InventoryError(where, str(options.commit_timer_s), rule, "choose between them, such as 300")
        super().__init__(device, _GRAMMAR, kilo_bytes=options.kilo_bytes, clock_ns=clock_ns)
        self._options = options
        self._session = EapiSession(device, transport=transport)

    def capabilities(self) -> Capabilities:
        return Capabilities(
            kind="eos",
            writes=True,
            per="profile",
            units=self._units,
            dead_man=True,
            undo="the commit is aborted, or the old lines are written in a new session",
            read_back="the running configuration",
            one_for_all="",
        )

    def read_lossless(self) -> LosslessReading:
        running = sections(self._session.text(COMMANDS))
        ports = eos_ports(running, partial(self._spot, ()), self._device.wants)
        return LosslessReading(self.switch, self._clock_ns(), ports)

    def _make(self, change: StagedChange, found: Found) -> None:
        if self._discard(change):
            found = self._found()
        self._commit(change, self._lines_of(change, found), self._timer())

    def confirm(self, change: StagedChange) -> None:
        waiting = self._ours(change, self._session.sessions()).waiting
        if waiting is not None:
            self._session.run([f"configure session {waiting} commit"])
        if self._options.save:
            self._session.run(["copy running-config startup-config"])

    def rollback(self, change: StagedChange) -> None:
        sessions = self._ours(change, self._session.sessions())
        if sessions.waiting is not None and not self._explained(change):
            # Aborting the session, like its timer, would restore the whole configuration over what others
            # have set.
            self._session.run([f"configure session {sessions.waiting} commit"])
        else:
            self._discard(change)
        lines = self._undoing(change)
        if lines:
            self._commit(change, lines, "commit")
            self._check_undone(change, self._seen)
        if self._options.save:
            self._session.run(["copy running-config startup-config"])

    def close(self) -> None:
        self._session.close()

    def _explained(self, change: StagedChange) -> bool:
        """Whether the queues of the change run values of it and of before it alone."""
        try:
            return change.explains(self._seen(change))
        except CapabilityError:
            return False

    def _configured(self) -> tuple[Section, Policies]:
        running = sections(self._session.text(_SHOWN))
        profiles = dict(below(running, "qos profile "))
        bound = {
            port: name
            for port, inner in below(running, "interface ")
            for name, _ in below(inner, "service-profile ")
            if name in profiles
        }
        return running, Policies(
            heading="qos profile ", binding="service-profile ", named=profiles, bound=bound
        )

    def _by_port(
        self, running: Section, policies: Policies, ports: Iterable[str], queues: Collection[int]
    ) -> list[Spot]:
        """Queues with a line on their interface are set there; those of other ports in their profiles."""
        ports = list(ports)
        spots = super()._by_port(running, policies, ports, queues)
        on_port = {(one.place, one.queue): one for one in self._on_interfaces(running, ports, queues)}
        both = [one for one in spots if one.line is not None and (one.place, one.queue) in on_port]
        if both:
            where = f"{self._device.where} {both[0].place} queue {both[0].queue}"
            received = f"a line on the interface and one in qos profile {both[0].policy}"
            remedy = "take one of them out by hand once"
            raise CapabilityError(where, received, "a port of a role has its watermark in one place", remedy)
        return [on_port.get((one.place, one.queue), one) for one in spots]

    def _on_interfaces(
        self, running: Section, ports: Iterable[str], queues: Collection[int]
    ) -> Iterator[Spot]:
        """The queues that have a line on their interface."""
        for port in ports:
            heading = f"interface {port}"
            yield from (
                one
                for one in self._queues(heading, port, running.get(heading, {}), queues)
                if one.line is not None
            )

    def _shared(self, running: Section, policies: Policies) -> list[Spot]:
        queues, wants = self._device.queues, self._device.wants
        own: list[Spot] = []
        if self._options.profile is None:
            ports = [port for port, _ in below(running, "interface ") if wants(port)]
            own = list(self._on_interfaces(running, ports, queues))
        if own and not any(map(wants, policies.bound)):
            return own
        named = policies_of(self._device, policies.bound.items(), self._options.profile, "qos profile")
        shared = self._in_policies(policies, named)
        if not shared and not own:
            raise CapabilityError(
                f"{self._device.where} qos profile {', '.join(named)}",
                f"no uc-tx-queue {', '.join(map(str, queues))}",
                "the queue is in the profile before its watermark is set",
                "set it up by hand once, or correct queues or options.profile of the inventory",
            )
        return [*shared, *own]

    def _queues(self, heading: str, place: str, section: Section, queues: Collection[int]) -> Iterable[Spot]:
        for queue in queues:
            for word in ("uc-tx-queue", "tx-queue"):
                path = (heading, f"{word} {queue}")
                if path[1] in section:
                    yield self._spot(path, place, queue, section[path[1]])

    def _timer(self) -> str:
        minutes, seconds = divmod(self._options.commit_timer_s, 60)
        hours, minutes = divmod(minutes, 60)
        return f"commit timer {hours:02}:{minutes:02}:{seconds:02}"

    def _commit(self, change: StagedChange, lines: Sequence[Line], commit: str) -> None:
        """Writes the lines in a new session: an existing one would restore its copy of the configuration."""
        sessions = self._session.sessions()
        if sessions.waiting is not None:
            received = f"configuration session {sessions.waiting} waits for its confirmation"
            rule = "one commit at a time is under a timer"
            remedy = "confirm or abort it, or wait for its timer"
            raise BusyError(self._device.where, received, rule, remedy)
        name = self._free(change, sessions)
        commands = [f"configure session {name}"]
        for path, line in lines:
            if _BARE.fullmatch(line) is None:
                commands += [*path, line, *("exit" for _ in path)]
        try:
            self._session.run([*commands, commit])
        except RefusedError:
            self._discard(change)
            raise

    def _discard(self, change: StagedChange) -> bool:
        """Aborts every open session of this change, also one whose commit waits; returns whether there was
        any.
        """
        sessions = self._ours(change, self._session.sessions())
        open_ones = [name for name, state in sessions.states.items() if state == "pending"]
        found = {*open_ones, sessions.waiting} - {None}
        for name in found:
            self._session.run([f"configure session {name} abort"])
        return bool(found)

    def _ours(self, change: StagedChange, sessions: Sessions) -> Sessions:
        """Sessions of this change: those of its name, and of its name with a number after a retry."""
        mine = re.compile(rf"{re.escape(name_of(change.id))}(\.\d+)?")
        states = {name: state for name, state in sessions.states.items() if mine.fullmatch(name)}
        waiting = sessions.waiting
        return Sessions(states, waiting if waiting and mine.fullmatch(waiting) else None)

    def _free(self, change: StagedChange, sessions: Sessions) -> str:
        """A new name: a session that has ended cannot be entered again."""
        first = name_of(change.id)
        taken = len(self._ours(change, sessions).states)
        names = [first, *(f"{first}.{number}" for number in range(2, taken + 2))]
        return next(name for name in names if name not in sessions.states)
