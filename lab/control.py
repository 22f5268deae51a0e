"""HTTP control interface of the lab: its switches, links and time; errors are problem documents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import Depends, FastAPI, Request

from api import problems
from api.answers import RequestIds
from api.bodies import BodyLimit
from api.origins import refuse_cross_site, refuse_foreign_names
from lab.documents import (
    AdvanceInput,
    CountersDocument,
    DatagramsDocument,
    DcqcnDocument,
    DcqcnInput,
    EcmpSeedInput,
    FiguresDocument,
    LabDocument,
    LabHostDocument,
    LabHostsDocument,
    LabPortDocument,
    LabPortsDocument,
    LabSwitchDocument,
    LabSwitchesDocument,
    LabWatermarkInput,
    LinkDocument,
    LinkInput,
    ReportsDocument,
)
from lab.p4_reports import IntSender
from lab.reports import DATA_QUEUE, Posted, Poster
from lab.runner import Runner
from service.documents.base import list_text
from service.documents.predictions import WatermarkDocument
from service.documents.switches import QueueWatermarkDocument
from settings.errors import NotFoundError
from settings.version import ecntwin_version
from twin.packet.plan import FabricPlan

MOST_BODY_BYTES = 1 << 20

_DESCRIPTION = "A packet-level fabric under traffic. Errors are RFC 9457 problem documents."


@dataclass(frozen=True, slots=True)
class Lab:
    """The plan and runner of a fabric, and how its reports leave: by HTTP, by UDP or not at all."""

    plan: FabricPlan
    runner: Runner
    poster: Poster | None
    seed: int
    sender: IntSender | None = None

    def start(self) -> None:
        for outlet in self._outlets:
            outlet.on_room(self.runner.woken)
            outlet.start()
        self.runner.start()

    def stop(self) -> None:
        self.runner.stop()
        for outlet in self._outlets:
            outlet.stop()

    @property
    def _outlets(self) -> list[Poster | IntSender]:
        return [outlet for outlet in (self.poster, self.sender) if outlet is not None]

    def ports_of(self, switch: str) -> list[int]:
        """The numbers of a switch's egress ports; raises ``NotFoundError``."""
        found = [index for index in self.plan.switch_ports if self.plan.ports[index].node == switch]
        if not found:
            raise _not_found(f"switch {switch!r}", "switches of this lab", self.plan.switches)
        return found

    def port_of(self, switch: str, port: str) -> int:
        """One egress port; raises ``NotFoundError``."""
        ports = {str(self.plan.ports[index].port): index for index in self.ports_of(switch)}
        if port not in ports:
            raise _not_found(f"port {port!r} of {switch!r}", "its ports", ports)
        return ports[port]

    def host_of(self, name: str) -> int:
        """A host's number; raises ``NotFoundError``."""
        try:
            return self.plan.hosts.index(name)
        except ValueError:
            raise _not_found(f"host {name!r}", "hosts of this lab", self.plan.hosts) from None

    def document(self) -> LabDocument:
        view = self.runner.view
        counts = self.poster.counts if self.poster is not None else Posted()
        sent = self.sender.counts if self.sender is not None else None
        down = [self.plan.ports[index] for index in sorted(view.links_down)]
        return LabDocument(
            now_s=view.now_s,
            duration_s=self.runner.duration_s,
            ended=view.ended,
            stepwise=self.runner.stepwise,
            flows_offered=view.flows_offered,
            flows_completed=view.flows_completed,
            reports=ReportsDocument(
                made=view.reports_made,
                posted=counts.posted if sent is None else sent.reports,
                accepted=counts.accepted,
                rejected=counts.rejected,
                retries=counts.retries,
                waits_for=counts.waits_for or (None if sent is None else sent.waits_for),
                datagrams=None if sent is None else DatagramsDocument(sent=sent.datagrams, lost=sent.lost),
            ),
            counters=CountersDocument(accepted=counts.samples_accepted, rejected=counts.samples_rejected),
            lately=view.lately,
            links_down=[f"{port.node}/{port.port}" for port in down if port.port is not None],
            seed=self.seed,
            version=ecntwin_version(),
        )

    def switch(self, name: str) -> LabSwitchDocument:
        ports = self.ports_of(name)
        marks = [self.runner.view.watermarks[port] for port in ports]
        return LabSwitchDocument(
            name=name,
            ecmp_seed=self.runner.view.ecmp_seeds[name],
            watermark=WatermarkDocument.of(marks[0]) if len(set(marks)) == 1 else None,
            queues=[
                QueueWatermarkDocument(
                    port=str(self.plan.ports[port].port),
                    queue=DATA_QUEUE,
                    **WatermarkDocument.of(mark).model_dump(),
                )
                for port, mark in zip(ports, marks, strict=True)
            ],
        )

    async def set_watermark(self, name: str, asked: LabWatermarkInput) -> LabSwitchDocument:
        """Sets a switch, or some of its ports; returns once they run it."""
        ports = (
            self.ports_of(name) if asked.ports is None else [self.port_of(name, port) for port in asked.ports]
        )
        await asyncio.wrap_future(self.runner.set_watermark(ports, asked.watermark()))
        return self.switch(name)

    async def set_ecmp_seed(self, name: str, seed: int | None) -> LabSwitchDocument:
        self.ports_of(name)
        await asyncio.wrap_future(self.runner.set_ecmp_seed(name, seed))
        return self.switch(name)

    def host(self, name: str) -> LabHostDocument:
        return LabHostDocument(name=name, dcqcn=DcqcnDocument.of(self.runner.view.dcqcn[self.host_of(name)]))

    async def set_dcqcn(self, name: str, asked: DcqcnInput) -> LabHostDocument:
        """Sets what a host's flows run; returns once they do."""
        await asyncio.wrap_future(self.runner.set_dcqcn(self.host_of(name), asked.over))
        return self.host(name)

    async def read(self, name: str) -> LabPortsDocument:
        """Totals, depths and peaks of a switch's egress ports; the peaks begin anew."""
        ports = self.ports_of(name)
        read = await asyncio.wrap_future(self.runner.read_ports(ports))
        return LabPortsDocument(
            now_s=read.now_s,
            ports=[
                LabPortDocument(
                    port=str(self.plan.ports[port].port),
                    **{
                        column: float(getattr(read, column)[row])
                        for column in LabPortDocument.model_fields
                        if column != "port"
                    },
                )
                for row, port in enumerate(ports)
            ],
        )

    async def cut_or_mend(self, asked: LinkInput, *, up: bool) -> LinkDocument:
        port = self.port_of(asked.switch, asked.port)
        act = self.runner.restore_link if up else self.runner.fail_link
        await asyncio.wrap_future(act(port, self.plan.reverse[port]))
        return LinkDocument(switch=asked.switch, port=asked.port, peer=self.plan.ports[port].peer, up=up)

    async def advance(self, asked: AdvanceInput) -> FiguresDocument:
        return await asyncio.wrap_future(self.runner.advance(asked.until_s))


def control_app(lab: Lab, *, loopback: bool = True) -> FastAPI:
    """The application; starts and stops the lab.

    ``loopback``: it listens on loopback only, so other Host names are refused (DNS rebinding).
    """

    async def admitted(request: Request) -> None:
        refuse_cross_site(request)
        if loopback:
            refuse_foreign_names(request, remedy="call it as 127.0.0.1 or localhost")

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        lab.start()
        try:
            yield
        finally:
            await asyncio.to_thread(lab.stop)

    app = FastAPI(
        title="ecntwin lab",
        description=_DESCRIPTION,
        version=ecntwin_version(),
        lifespan=lifespan,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(admitted)],
    )
    problems.install(app)
    app.add_middleware(BodyLimit, limit_bytes=MOST_BODY_BYTES)
    app.add_middleware(RequestIds)

    @app.get("/status")
    async def get_status() -> LabDocument:
        """Simulated time, flows, reports, and what the queues did lately."""
        return lab.document()

    @app.get("/figures")
    async def get_figures() -> FiguresDocument:
        """The whole run until now; flows that are still under way count at their age."""
        return await asyncio.wrap_future(lab.runner.figures())

    @app.get("/switches")
    async def get_switches() -> LabSwitchesDocument:
        """Every switch with the watermark of each egress queue."""
        return LabSwitchesDocument(switches=[lab.switch(name) for name in lab.plan.switches])

    @app.put("/switches/{name:path}/watermark")
    async def put_watermark(name: str, asked: LabWatermarkInput) -> LabSwitchDocument:
        """Sets a switch, or only its ``ports``, between two slices of simulated time."""
        return await lab.set_watermark(name, asked)

    @app.put("/switches/{name:path}/ecmp-seed")
    async def put_ecmp_seed(name: str, asked: EcmpSeedInput) -> LabSwitchDocument:
        """Sets the seed by which a switch chooses among equal paths; flows that have begun keep theirs."""
        return await lab.set_ecmp_seed(name, asked.seed)

    @app.post("/switches/{name:path}/read")
    async def post_read(name: str) -> LabPortsDocument:
        """What the switch's egress ports sent, marked, dropped and held; their peaks begin anew."""
        return await lab.read(name)

    @app.get("/switches/{name:path}")
    async def get_switch(name: str) -> LabSwitchDocument:
        """One switch."""
        return lab.switch(name)

    @app.get("/hosts")
    async def get_hosts() -> LabHostsDocument:
        """Every host with the DCQCN parameters that the flows it sends run."""
        return LabHostsDocument(hosts=[lab.host(name) for name in lab.plan.hosts])

    @app.put("/hosts/{name:path}/dcqcn")
    async def put_dcqcn(name: str, asked: DcqcnInput) -> LabHostDocument:
        """Sets parameters of a host's flows, those under way too, between two slices of simulated time."""
        return await lab.set_dcqcn(name, asked)

    @app.get("/hosts/{name:path}")
    async def get_host(name: str) -> LabHostDocument:
        """One host."""
        return lab.host(name)

    @app.post("/mark")
    async def post_mark() -> FiguresDocument:
        """The figures since the last mark; sets a mark."""
        return await asyncio.wrap_future(lab.runner.mark())

    @app.post("/advance")
    async def post_advance(asked: AdvanceInput) -> FiguresDocument:
        """With ``--step``: runs until then, and answers when its reports have been posted."""
        return await lab.advance(asked)

    @app.post("/links/fail")
    async def post_fail(asked: LinkInput) -> LinkDocument:
        """Cuts a cable; flows on it take another path if there is one."""
        return await lab.cut_or_mend(asked, up=False)

    @app.post("/links/restore")
    async def post_restore(asked: LinkInput) -> LinkDocument:
        """Mends a cable."""
        return await lab.cut_or_mend(asked, up=True)

    return app


def _not_found(what: str, those: str, names: Iterable[str]) -> NotFoundError:
    return NotFoundError(what, None, f"not found; {those} are {list_text(names, 8)}", "name one of them")
