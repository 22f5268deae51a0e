"""The adapter to Cisco NX-OS, over NX-API.

A queue's line is one command: its three values change at one moment, several queues one after the other.
docs/switches/nxos.md says which forms are verified, and against what.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import httpx
import msgspec

from switches.adapter import name_of, policies_of
from switches.base import Capabilities, StagedChange
from switches.cli.policies import Line, Policies, Section
from switches.cli.wred_line import Bytes, Found, Grammar, Spot, WredLineAdapter, below, sections
from switches.device import Device, options_of
from switches.errors import AccessError, CapabilityError, ConcurrentEditError, RefusedError, unreadable
from switches.transport.http import DeviceAuth, HttpSession, base_url_of

_DENIED = re.compile(r"permission denied|not authori[sz]ed|authori[sz]ation failed", re.IGNORECASE)


class NxapiSession:
    """NX-API calls to one switch. The cookie is kept between calls: each login costs the switch time."""

    def __init__(self, device: Device, *, transport: httpx.BaseTransport | None = None) -> None:
        self._device = device
        self._http = HttpSession(device, base_url_of(device), auth=DeviceAuth(device), transport=transport)

    def show(self, command: str) -> str:
        """The output of an exec command, such as ``show`` or ``checkpoint``."""
        found = self._outputs("cli_show_ascii", command)[0].get("body")
        return found if isinstance(found, str) else ""

    def document(self, command: str) -> Any:
        """The output of a ``show`` command as JSON; a text, mostly empty, where it shows nothing."""
        return self._outputs("cli_show", command)[0].get("body")

    def configure(self, commands: Sequence[str]) -> None:
        """Runs configuration commands in one call; the switch stops at the first it refuses.

        Raises ``RefusedError`` with its words; the commands before stay in force.
        """
        self._outputs("cli_conf", " ;".join(commands))

    def has_checkpoint(self, name: str) -> bool:
        found = self.show("show checkpoint summary")
        return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", found) is not None

    def has_interface(self, name: str) -> bool:
        try:
            return f"interface {name}" in sections(self.show(f"show running-config interface {name}"))
        except RefusedError:
            return False

    def close(self) -> None:
        self._http.close()

    def _outputs(self, kind: str, commands: str) -> list[Mapping[str, Any]]:
        answer = self._http.call(
            "POST",
            "/ins",
            json={
                "ins_api": {
                    "version": "1.0",
                    "type": kind,
                    "chunk": "0",
                    "sid": "1",
                    "input": commands,
                    "output_format": "json",
                }
            },
        )
        try:
            found = answer.json()["ins_api"]["outputs"]["output"]
        except (ValueError, KeyError, TypeError) as error:
            rule = "NX-API answers with the output of each command, where feature nxapi is on"
            raise unreadable(self._device.where, type(error).__name__, rule) from error
        outputs: list[Mapping[str, Any]] = [
            one for one in (found if isinstance(found, list) else [found]) if isinstance(one, Mapping)
        ]
        for one in outputs:
            if str(one.get("code")) != "200":
                raise self._refused(one)
        return outputs or [{}]

    def _refused(self, output: Mapping[str, Any]) -> AccessError | RefusedError:
        parts = (output.get("input"), output.get("msg"), output.get("clierror"), output.get("body"))
        said = self._http.shown(": ".join(part for part in parts if isinstance(part, str) and part))
        if _DENIED.search(said):
            rule = "the account may configure"
            return AccessError(self._device.where, said, rule, "correct the account's role")
        rule = "the switch takes the commands"
        return RefusedError(self._device.where, said, rule, "check the switch and its version")


_EVERY_PORT = "system qos"
_HEADING = "policy-map type queuing "
_PORT = re.compile(r"Ethernet\d+(/\d+)+|port-channel\d+")
_BINDING = "service-policy type queuing output "
_UNIT = r"(packets|bytes|kbytes|mbytes|ms|us)"
_GRAMMAR = Grammar(
    starts="random-detect ",
    line=re.compile(
        rf"random-detect minimum-threshold (?P<kmin>\d+) (?P<kmin_unit>{_UNIT})"
        rf" maximum-threshold (?P<kmax>\d+) (?P<kmax_unit>{_UNIT})"
        r" drop-probability (?P<pmax>\d+)(?: weight (?P<weight>\d+))?(?P<ecn> ecn)?"
    ),
    template="random-detect minimum-threshold {kmin} {unit} maximum-threshold {kmax} {unit}"
    " drop-probability {pmax} weight {weight} ecn",
    units=("bytes", "kbytes", "mbytes"),
    highest=2**31 - 1,
)
_SYSTEM_CLASS = re.compile(r"c-out-(?:8q-)?q(?P<queue>\d|-default)")


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``policy``: the queuing policy, where the ports do not name it. ``classes``: the queue of each queuing
    class, beside the system's own. ``checkpoint``: one is kept from apply to confirm. ``save``: confirming
    also writes the startup configuration. ``kilo_bytes``: the size of kbytes.
    """

    policy: str | None = None
    classes: Mapping[str, int] = {}
    checkpoint: bool = True
    save: bool = False
    kilo_bytes: Bytes = 1000


class NxosAdapter(WredLineAdapter):
    later = True

    def __init__(
        self, device: Device, *, clock_ns: Callable[[], int], transport: httpx.BaseTransport | None = None
    ) -> None:
        self._options = options_of(device, _Options)
        super().__init__(device, _GRAMMAR, kilo_bytes=self._options.kilo_bytes, clock_ns=clock_ns)
        self._session = NxapiSession(device, transport=transport)

    def capabilities(self) -> Capabilities:
        return Capabilities(
            kind="nxos",
            writes=True,
            per="profile",
            units=self._units,
            atomic=False,
            undo="the old lines are written again; until it is confirmed, a checkpoint is there for a person",
            read_back="the running configuration",
            one_for_all="",
        )

    def _make(self, change: StagedChange, found: Found) -> None:
        name = name_of(change.id)
        if self._options.checkpoint and not self._session.has_checkpoint(name):
            self._session.show(f"checkpoint {name}")
        self._write(self._lines_of(change, found))

    def confirm(self, change: StagedChange) -> None:
        self._end(change)

    def rollback(self, change: StagedChange) -> None:
        try:
            lines = self._undoing(change)
        except ConcurrentEditError:
            self._remove_checkpoint(change)
            raise
        if lines:
            # The checkpoint is not used: it would also revert what others have configured since.
            self._write(lines)
            self._check_undone(change, self._seen)
        self._end(change)

    def close(self) -> None:
        self._session.close()

    def _write(self, lines: Iterable[Line]) -> None:
        self._session.configure([command for path, line in lines for command in (*path, line)])

    def _end(self, change: StagedChange) -> None:
        """Removes the checkpoint of the change, and saves the configuration if that is wanted."""
        self._remove_checkpoint(change)
        if self._options.save:
            self._session.show("copy running-config startup-config")

    def _remove_checkpoint(self, change: StagedChange) -> None:
        name = name_of(change.id)
        if self._options.checkpoint and self._session.has_checkpoint(name):
            self._session.show(f"no checkpoint {name}")

    def _found(self) -> Found:
        for port in self._role_ports:
            if _PORT.fullmatch(port) is None:  # the system's policy is that of any name
                rule = "a port of a role is an interface, such as Ethernet1/1 or port-channel7"
                raise CapabilityError(self._device.where, repr(port), rule, "name it so in the topology")
        return super()._found()

    def _is_there(self, port: str, named: str | None, policies: Policies) -> bool:
        """One that names no policy may be one of ours, whose policy is taken off on the way to another; but
        not in an answer without any.
        """
        if not policies.named:
            return False
        # One that is gone the switch may refuse, where it would be given its old policy.
        return named is None or self._session.has_interface(port)

    def _configured(self) -> tuple[Section, Policies]:
        running = sections(self._session.show("show running-config ipqos"))
        bound = dict(_applied(running))
        return running, Policies(
            heading=_HEADING,
            binding=_BINDING,
            named=dict(below(running, _HEADING)),
            usual=bound.pop(_EVERY_PORT, self._options.policy),
            bound=bound,
            detached=True,  # an interface has one queuing policy
        )

    def _shared(self, running: Section, policies: Policies) -> list[Spot]:
        names = policies_of(self._device, _applied(running), self._options.policy, "queuing policy")
        found = self._in_policies(policies, names)
        if not found:
            raise CapabilityError(
                f"{self._device.where} queuing policy {', '.join(names)}",
                f"no class of queue {', '.join(map(str, self._device.queues))}",
                "the queue's class is in the policy before its watermark is set",
                "add it by hand once, or correct queues, options.policy or options.classes of the inventory",
            )
        return found

    def _queues(self, heading: str, place: str, section: Section, queues: Collection[int]) -> Iterable[Spot]:
        for label, lines in below(section, "class type queuing "):
            queue = self._queue(label)
            if queue is not None and queue in queues:
                yield self._spot((heading, f"class type queuing {label}"), place, queue, lines)

    def _queue(self, label: str) -> int | None:
        """The queue of a class, from the inventory, else from the system's own names."""
        if label in self._options.classes:
            return self._options.classes[label]
        match = _SYSTEM_CLASS.fullmatch(label)
        return None if match is None else int(match["queue"].replace("-default", "0"))


def _applied(running: Section) -> Iterator[tuple[str, str]]:
    """The policy of the system, and those that interfaces name themselves."""
    places = [(_EVERY_PORT, inner) for _, inner in below(running, _EVERY_PORT)]
    for port, section in [*places, *below(running, "interface ")]:
        for name, _ in below(section, _BINDING):
            yield port, name.split()[0]
