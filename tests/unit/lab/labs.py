"""Small labs: a real fabric of eight hosts, its runner, and what it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lab.reports import Body, Poster, ReportWriter
from lab.runner import Runner
from lab.setup import LabOptions, LabParts, LeafSpine, lab_parts
from twin.packet.fabric import Fabric
from twin.packet.results import Samples
from twin.watermark import Watermark

OLD = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(5_000, 20_000, 1.0)
RATE = 1 / 16
SMALL = LeafSpine(leaves=2, spines=2, hosts=4)


def parts_of(**options: Any) -> LabParts:
    usual: dict[str, Any] = {"leaf_spine": SMALL, "traffic": "websearch:0.6", "duration_s": 0.02}
    return lab_parts(LabOptions(**(usual | options)))


def fabric_of(parts: LabParts, *, watermark: Watermark = OLD) -> Fabric:
    return Fabric(parts.plan, watermark=watermark, seed=1, sampling_rate=RATE)


class Kept(ReportWriter):
    """Keeps what it wrote."""

    def __init__(self, parts: LabParts) -> None:
        super().__init__(parts.plan, parts.addresses, sampling_rate=RATE)
        self.text = b""

    def bodies(self, samples: Samples) -> Iterator[Body]:
        for body in super().bodies(samples):
            self.text += body.content
            yield body


@contextmanager
def running(
    parts: LabParts | None = None, *, poster: Poster | None = None, stepwise: bool = True, **options: Any
) -> Iterator[tuple[Runner, Kept]]:
    """A lab's runner, started, and its writer; stopped in the end."""
    parts = parts or parts_of()
    writer = Kept(parts)
    runner = Runner(
        fabric_of(parts),
        parts.plan.switch_ports,
        parts.feed,
        writer=writer,
        poster=poster,
        duration_s=parts.duration_s,
        stepwise=stepwise,
        **options,
    )
    if poster is not None:
        poster.on_room(runner.woken)
        poster.start()
    runner.start()
    try:
        yield runner, writer
    finally:
        runner.stop()
        if poster is not None:
            poster.stop()
