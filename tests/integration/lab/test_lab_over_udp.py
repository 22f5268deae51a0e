"""The real lab under the real service, with JSON reports and with binary ones by UDP: the same loop."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.p4_reports import SILENT_FOR_S, inventory
from lab.reports import Body, ReportWriter
from rollout.state import Phase
from telemetry.state import NetworkState, QueueRef
from tests.integration.lab.labs import PATIENCE_S, URL, Bridge, Later, RunningLab, adapters_over, running_lab
from tests.integration.service import SMALL, Running, Wanted, manual, running
from tests.unit.lab.labs import RATE, parts_of
from twin.packet.results import Samples
from twin.workers.pool import InProcessWorkers

pytestmark = pytest.mark.anyio

ENDS_S = (0.004, 0.008)  # before and after a push
LOSSY = 7
FABRIC: dict[str, Any] = {"buffer_bytes": 16_000_000.0}  # of which 24 bits tell every byte
SETTINGS: dict[str, Any] = {
    "push": {"adapter": "lab", "lab_url": URL, "read_every_s": 3_600.0},
    "tuning": {"enabled": False, "margin": 0.0, "cool_down_s": 0.0, "residual_limit": 1e9},
    "rollout": {"soak_s": 0.0, "batch_soak_s": 0.0, "patience_s": 0.0},
}
WINDOW: dict[str, Any] = {"period_s": 0.001, "n_periods": 4}


@dataclass
class Loop:
    lab: RunningLab
    service: Running

    async def state(self) -> NetworkState:
        return await self.service.service.window.state()

    async def tuned(self) -> dict[str, Any]:
        return await self.service.post("/v1/tune")

    async def approved(self, found: Mapping[str, Any]) -> None:
        answer = await self.service.post(f"/v1/recommendations/{found['id']}/approve")
        rollouts = self.service.service.rollouts
        rollout = rollouts.get(answer["rollout"])
        await rollouts.ended(rollout, within_s=PATIENCE_S)
        assert rollout.state.phase is Phase.DONE

    async def reports(self) -> dict[str, Any]:
        document: dict[str, Any] = (await self.lab.client.get("/status")).json()["reports"]
        return document


class AsBinaryOnes(ReportWriter):
    """JSON reports that say no more than binary ones: dated when the packet left the last switch, no packet
    shorter than the headers that those show of it, and of marks only whether it was when it left there.
    """

    def bodies(self, samples: Samples) -> Iterator[Body]:
        n_hops = np.diff(samples.hop_offset)
        shown = np.where(n_hops > 1, 44 + 28 * (n_hops - 1), 28)
        left_s = samples.egress_s[samples.hop_offset[1:] - 1]
        long = np.maximum(samples.wire_bytes, shown)
        for body in super().bodies(replace(samples, delivered_s=left_s, wire_bytes=long)):
            reports = [json.loads(line) for line in body.content.splitlines()]
            for report in reports:
                for hop in report["hops"][:-1]:
                    del hop["ecn_marked"]
            yield replace(body, content=b"\n".join(json.dumps(report).encode() for report in reports))


@asynccontextmanager
async def looped(
    folder: Path | None, *, engine: str = SMALL.engine, writer: type[ReportWriter] = ReportWriter
) -> AsyncIterator[Loop]:
    """A lab and its service; with a ``folder`` for the inventory the reports are binary, by UDP."""
    telemetry, push = dict(WINDOW), dict(SETTINGS["push"])
    if folder is not None:
        push["inventory"] = folder / "inventory.yaml"
        push["inventory"].write_text(inventory(parts_of(**FABRIC).plan, address=URL, sampling_rate=RATE))
        telemetry |= {"udp": {"ports": 0}, "int": {"device_time": True}}
    settings = manual(**(SETTINGS | {"push": push, "telemetry": telemetry}))
    async with AsyncExitStack() as stack:
        to_lab = Later()
        wanted = Wanted(
            settings=settings,
            search=replace(SMALL, margin=0.0, engine=engine),
            adapters=adapters_over(to_lab),
            workers=InProcessWorkers(),
        )
        service = await stack.enter_async_context(running(wanted))
        bridge = Bridge(service.client._transport.app)  # type: ignore[attr-defined]
        int_udp = None
        if folder is not None:
            assert service.service.pipeline.udp is not None
            host, _, port = service.service.pipeline.udp.addresses[0].rpartition(":")
            int_udp = (host, int(port))
        lab = await stack.enter_async_context(
            running_lab(service=bridge, int_udp=int_udp, writer=writer, **FABRIC)
        )
        to_lab.inner = lab.bridge
        yield Loop(lab, service)


def to_hosts(state: NetworkState) -> set[QueueRef]:
    """The last queue of each path."""
    return {path[-1] for path in state.paths}


def check_same(told: NetworkState, binary: NetworkState) -> None:
    """Equal where the format carries all.

    A binary report is dated when its packet left the last switch, a JSON one when it was delivered, so that
    a few packets (a cable's delay of them) are in another period or outside the window. Depths come in cells
    of two bytes. Of the marks only those at the last hop are known.
    """
    assert binary.window_end_ns == pytest.approx(told.window_end_ns, abs=2_000)
    assert binary.n_reports == pytest.approx(told.n_reports, rel=0.01)
    assert set(binary.topology.switches) == set(told.topology.switches)
    assert binary.dominant_class == told.dominant_class
    assert {(port.node, port.port) for port in binary.topology.ports} == {
        (port.node, port.port) for port in told.topology.ports
    }
    found, wanted = ({queue.ref: queue for queue in state.queues} for state in (binary, told))
    assert found.keys() == wanted.keys()
    for ref, queue in wanted.items():
        assert found[ref].depth_mean_bytes == pytest.approx(queue.depth_mean_bytes, rel=0.02, abs=100)
        assert found[ref].depth_max_bytes == pytest.approx(queue.depth_max_bytes, rel=0.02, abs=100)
        assert found[ref].throughput_bytes_per_s == pytest.approx(queue.throughput_bytes_per_s, rel=0.01)
        if ref in to_hosts(told):
            assert found[ref].marked_ratio == pytest.approx(queue.marked_ratio, abs=0.01)
    rows = [
        dict(zip(state.flows.keys, state.flows.window_bytes.tolist(), strict=True))
        for state in (told, binary)
    ]
    assert len(rows[0].keys() ^ rows[1].keys()) <= 0.02 * len(rows[0])
    same = [key for key in rows[0] if rows[0][key] == rows[1].get(key)]
    assert len(same) >= 0.8 * len(rows[0])
    assert sum(rows[1].values()) == pytest.approx(sum(rows[0].values()), rel=0.01)
    assert len(binary.arrivals) == pytest.approx(len(told.arrivals), rel=0.02)
    starts = [np.sort(state.arrivals.start_s) for state in (told, binary)]
    assert np.mean(starts[1]) == pytest.approx(np.mean(starts[0]), abs=20e-6)


@pytest.mark.parametrize(
    ("writer", "engine"),
    [
        pytest.param(ReportWriter, SMALL.engine, id="within what the dates differ"),
        # A replay is as sensitive as a fabric to a microsecond: here nothing differs.
        pytest.param(AsBinaryOnes, "replay", id="to the watermark, by the replay"),
    ],
)
async def test_the_loop_is_the_same_over_udp_as_over_json(
    writer: type[ReportWriter], engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.p4_reports.SILENT_FOR_S", PATIENCE_S)  # nothing is lost, only late
    async with looped(None, engine=engine, writer=writer) as told, looped(tmp_path, engine=engine) as binary:
        pushed = 0
        for end_s in ENDS_S:
            figures = await asyncio.gather(told.lab.advance(end_s), binary.lab.advance(end_s))
            assert figures[0] == figures[1]  # the fabrics ran the same watermarks until now
            check_same(await told.state(), await binary.state())
            wanted, found = await asyncio.gather(told.tuned(), binary.tuned())
            for same in ("staged", "changes", "dominant_class"):
                assert found[same] == wanted[same], same
            for same in ("kmin_bytes", "kmax_bytes", "pmax"):
                assert found["incumbent"][same] == wanted["incumbent"][same], same
            assert found["improvement"]["best"] == wanted["improvement"]["best"]
            gain = wanted["improvement"]["score_gain"]
            assert found["improvement"]["score_gain"] == pytest.approx(gain, abs=0.02)
            if wanted["changes"]:
                pushed += 1
                await asyncio.gather(told.approved(wanted), binary.approved(found))
        assert pushed > 0
        reports = await binary.reports()
        assert reports["made"] == reports["posted"] == (await told.reports())["made"]
        assert reports["datagrams"]["lost"] == 0
        assert binary.service.metric("ecntwin_reports_accepted_total") == reports["made"]
        assert binary.service.metric("ecntwin_int_datagrams_lost", switch="leaf1") == 0
        assert (await binary.lab.client.get("/status")).json()["counters"]["accepted"] > 0


async def test_a_step_ends_when_datagrams_are_lost_and_both_ends_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with looped(tmp_path) as binary:
        sender = binary.lab.lab.sender
        assert sender is not None
        assert sender._taker is not None
        whole, sent = sender._socket, []
        ask, came, now_s = sender._taker.ask, 0, 0.0

        def asked() -> Any:
            nonlocal came
            answer = ask()
            came = answer.came
            return answer

        def clock_s() -> float:
            """Stands still until the service has said that all came that will."""
            nonlocal now_s
            if came == len(sent) - len(sent) // LOSSY:
                now_s += SILENT_FOR_S
            return now_s

        monkeypatch.setattr(sender._taker, "ask", asked)
        monkeypatch.setattr(sender, "_clock_s", clock_s)

        class Lossy:
            def send(self, datagram: bytes) -> int:
                sent.append(datagram)
                return len(datagram) if len(sent) % LOSSY == 0 else whole.send(datagram)

            def close(self) -> None:
                whole.close()

        sender._socket = Lossy()  # type: ignore[assignment]
        await binary.lab.advance(0.004)
        reports = await binary.reports()
        assert reports["datagrams"] == {"sent": len(sent), "lost": len(sent) // LOSSY}
        assert reports["datagrams"]["lost"] > 0
        udp = (await binary.service.client.get("/v1/telemetry/udp")).json()
        assert udp["taken"] == udp["received"] == len(sent) - len(sent) // LOSSY
        gaps = sum(
            binary.service.metric("ecntwin_int_datagrams_lost", switch=f"leaf{n}") or 0 for n in (1, 2)
        )
        assert 0 < gaps <= reports["datagrams"]["lost"]  # nobody knows of one after which none came


async def test_a_lab_that_sends_where_nobody_takes_datagrams_is_told(tmp_path: Path) -> None:
    async with looped(None) as told:
        bridge = Bridge(told.service.client._transport.app)  # type: ignore[attr-defined]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
            nobody.bind(("127.0.0.1", 0))
            async with running_lab(service=bridge, int_udp=nobody.getsockname()) as lab:
                answer = await lab.client.post("/advance", json={"until_s": 0.002})
                assert answer.status_code == 503
                assert "telemetry.udp.ports" in str(lab.lab.runner.failure)
