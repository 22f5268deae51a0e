"""Hosts with what their NICs run, as documents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from pydantic import Field

from nics.base import NicReading, Reading
from nics.host import Host
from service.documents.base import Document, Time, timestamp
from service.nics.polling import NicPolling
from service.nics.senders import Senders
from switches.errors import SwitchError
from twin.scenario_file import dcqcn_to_json


class NicDocument(Document):
    """One port of a NIC as last read."""

    name: str
    """Its network name; without one, its RDMA name."""
    rdma: str
    """Its RDMA name, such as `mlx5_0`."""
    driver: str
    """Its driver, such as `mlx5_core`."""
    line_rate_mbit: int | None
    """Its line rate in Mbit/s; null while its link is down."""
    values: dict[str, int]
    """What its files hold, by the kernel's names and in the NIC's units."""
    dcqcn: dict[str, Any] | None
    """The same by the keys of a scenario's `dcqcn`; null where `problem` says why it is not known."""
    reacts: list[int] | None
    """Priorities on which it slows down for CNPs; null where its driver does not tell."""
    notifies: list[int] | None
    """Priorities on which it sends CNPs; null where its driver does not tell."""
    counters: dict[str, int]
    """Its counters, by the kernel's names."""
    problem: str | None
    """Why it is not known what it runs; null where it is."""
    notes: list[str]
    """What the twin leaves out of what it runs."""

    @classmethod
    def of(cls, nic: NicReading) -> Self:
        return cls.from_attributes(
            nic,
            name=nic.nic,
            values=dict(nic.values),
            dcqcn=None if nic.params is None else dcqcn_to_json(nic.params),
            reacts=None if nic.reacts is None else list(nic.reacts),
            notifies=None if nic.notifies is None else list(nic.notifies),
            counters=dict(nic.counters),
            notes=list(nic.notes),
        )


class HostDocument(Document):
    """One host of the inventory and its NICs."""

    name: str
    """Name in the inventory."""
    nic_class: str
    """Its class in the inventory; empty where it has none."""
    dcqcn_class: str = ""
    """The class whose DCQCN values may be its own: of the inventory, or else its NIC's rate, such as `25G`;
    empty where all hosts are of one.
    """
    platform: str
    """The platform of its NICs."""
    address: str
    """Where it is asked."""
    reachable: bool
    """False: the last try to read it failed, and the last reading is shown."""
    detail: str | None
    """Why it could not be read; null where it could."""
    read_at: Time | None
    """When it was last read; null before the first time."""
    nics: list[NicDocument]
    """Its NICs, as last read."""

    @classmethod
    def of(
        cls, host: Host, reading: Reading | None, failure: SwitchError | None, dcqcn_class: str = ""
    ) -> Self:
        return cls(
            name=host.name,
            nic_class=host.nic_class,
            dcqcn_class=dcqcn_class,
            platform=host.platform,
            address=host.address,
            reachable=failure is None,
            detail=None if failure is None else str(failure),
            read_at=None if reading is None else timestamp(reading.read_ns),
            nics=[NicDocument.of(nic) for nic in (() if reading is None else reading.nics)],
        )


class SendersDocument(Document):
    """What the twin takes the senders of the fabric to run."""

    source: str
    """Where that comes from: `nics`, or `settings` where too few NICs were read."""
    dcqcn: dict[str, Any]
    """The parameters, by the keys of a scenario's `dcqcn`."""
    by_class: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """The same of classes of hosts that run something else."""
    differing: int
    """How many NICs run something else than most of their class."""
    differ: str | None
    """How NICs differ from each other; null where they do not."""
    contradict: str | None
    """How they differ from the settings; null where they do not, or the settings say nothing of senders."""
    notes: list[str]
    """What recommendations say of it."""

    @classmethod
    def of(cls, senders: Senders) -> Self:
        return cls.from_attributes(
            senders,
            dcqcn=dcqcn_to_json(senders.params),
            by_class={name: dcqcn_to_json(params) for name, params in senders.by_class.items()},
            notes=list(senders.notes),
        )


class NicsDocument(Document):
    """Hosts of the inventory with their NICs."""

    senders: SendersDocument
    """What the twin takes all hosts to run, listed or not."""
    hosts: list[HostDocument]
    """In the inventory's order."""

    @classmethod
    def of(cls, nics: NicPolling, names: Iterable[str]) -> Self:
        classes = nics.classes
        known = ((nics.hosts[name], nics.known(name)) for name in names)
        return cls(
            senders=SendersDocument.of(nics.senders),
            hosts=[
                HostDocument.of(host, one.reading, one.failure, classes.get(host.name, ""))
                for host, one in known
            ],
        )


class HostsReadDocument(Document):
    """Every host of an inventory, read by a command."""

    path: str
    """The file."""
    answered: int
    """How many hosts were read."""
    hosts: list[HostDocument]
    """In the inventory's order."""
