"""What INT does not report of a fabric, and the files that say it, for the service, commands and the lab."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from settings.errors import InputError
from settings.load import read_bytes
from settings.validation import mistake
from telemetry.topology import Topology, topology_from_json
from twin.scenario import FabricSizes, Scenario
from twin.scenario_file import (
    check_keys,
    classes_from_json,
    dcqcn_from_json,
    monitored_ports,
    senders_from_json,
)
from twin.senders.classes import nic_classes
from twin.senders.dcqcn import PRESETS, DcqcnParams, preset
from twin.senders.rtt import RttSender


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """What INT does not report; ``mtu_payload_bytes`` None: from the largest packets seen; ``monitored``
    indexes the topology's ports whose queues are pooled, None: the bottlenecks seen. ``senders``: hosts, of
    any fabric, that do not run ``dcqcn``. Hosts of a ``nic_class`` run what ``dcqcn_by_class`` says of it.
    """

    dcqcn: DcqcnParams
    mtu_payload_bytes: Annotated[int, Field(gt=0, strict=True)] | None = None
    wire_overhead_bytes: Annotated[int, Field(ge=0, strict=True)] = FabricSizes.wire_overhead_bytes
    ack_wire_bytes: Annotated[int, Field(ge=0, strict=True)] = FabricSizes.ack_wire_bytes
    buffer_bytes: Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)] = FabricSizes.buffer_bytes
    pfc: Annotated[bool, Field(strict=True)] = FabricSizes.pfc
    monitored: tuple[int, ...] | None = None
    senders: Mapping[str, RttSender] = field(default_factory=dict)
    nic_class: Mapping[str, str] = field(default_factory=dict)
    dcqcn_by_class: Mapping[str, DcqcnParams] = field(default_factory=dict)

    def senders_of(self, topology: Topology) -> Mapping[str, RttSender]:
        return {host.name: self.senders[host.name] for host in topology.hosts if host.name in self.senders}

    def sending(self, scenario: Scenario, topology: Topology) -> Scenario:
        """The scenario with these senders, and their acknowledgements."""
        names = {host.name for host in topology.hosts}
        classes = {host: name for host, name in self.nic_class.items() if host in names}
        known = set(classes.values())
        found: dict[str, Any] = {
            "dcqcn": self.dcqcn,
            "ack_wire_bytes": self.ack_wire_bytes,
            "senders": self.senders_of(topology),
            "nic_class": classes,
            "dcqcn_by_class": {name: one for name, one in self.dcqcn_by_class.items() if name in known},
        }
        same = all(getattr(scenario, name) == value for name, value in found.items())
        return scenario if same else replace(scenario, **found)


_FABRIC = TypeAdapter(Fabric)  # ignores the other keys of a scenario file


def read_json(path: Path, what: str) -> Any:
    """Raises ``InputError``."""
    try:
        return json.loads(read_bytes(path, what))
    except ValueError as error:
        raise InputError(f"{what} {path.name}", str(error), "the file must be JSON", "correct it") from error


def read_fabric(path: Path, dcqcn: DcqcnParams | None) -> tuple[Topology, Fabric]:
    """The fabric of a topology or scenario file; ``dcqcn`` overrides the scenario's.

    If a scenario names its ``monitored_ports``, queue figures are of those ports.
    """
    document = read_json(path, "topology")
    if not isinstance(document, dict) or "topology" not in document:
        topology = topology_from_json(document, where=path.name)
        return topology, Fabric(dcqcn=dcqcn or preset("paper"), nic_class=nic_classes({}, topology))
    check_keys(document, where=path.name)
    topology = topology_from_json(document["topology"], where=f"{path.name} topology")
    params = dcqcn or dcqcn_from_json(document.get("dcqcn"), where=f"{path.name} dcqcn")
    named = "monitored_ports" in document
    monitored = monitored_ports(document, topology, path.name) if named else None
    senders = senders_from_json(document.get("senders"), topology.hosts, where=f"{path.name} senders")
    classes, by_class = classes_from_json(
        document.get("nic_classes"), topology.hosts, params, where=f"{path.name} nic_classes"
    )
    said = {
        **document,
        "dcqcn": params,
        "monitored": monitored,
        "senders": senders,
        "nic_class": nic_classes(classes, topology) or classes,
        "dcqcn_by_class": by_class,
    }
    try:
        return topology, _FABRIC.validate_python(said)
    except ValidationError as error:
        raise InputError(*mistake(error.errors(include_url=False)[0], prefix=path.name)) from error


def read_dcqcn(given: str) -> DcqcnParams:
    """A preset's name, or a JSON file with the keys of a scenario's ``dcqcn`` object (or a scenario)."""
    if given in PRESETS:
        return PRESETS[given]
    path = Path(given)
    if not path.exists():
        known = ", ".join(sorted(PRESETS))
        raise InputError(
            "--dcqcn", repr(given), f"it is a preset ({known}) or a JSON file", "name one of them"
        )
    document = read_json(path, "dcqcn")
    if isinstance(document, dict) and "dcqcn" in document:
        document = document["dcqcn"]
    return dcqcn_from_json(document, where=f"dcqcn {path.name}")
