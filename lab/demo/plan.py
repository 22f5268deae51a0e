"""What the demo runs: fabric, changing traffic, the settings compared, and its service's configuration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lab.setup import LeafSpine
from twin.search.vendor_table import DEFAULT_WATERMARK, VENDOR_TABLE
from twin.watermark import Watermark

VENDOR_DEFAULT = DEFAULT_WATERMARK
PAPER = next(row.watermark for row in VENDOR_TABLE if row.name == "DCQCN paper")
PERIOD_S = 1e-3


@dataclass(frozen=True, slots=True)
class Phase:
    """Traffic from ``begin_s`` until the next phase, called ``name``; as ``--traffic`` takes it."""

    name: str
    begin_s: float
    traffic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """Times are simulated: a round every ``interval_s`` on the last ``window_s`` of reports."""

    name: str
    fabric: LeafSpine
    buffer_bytes: int
    phases: tuple[Phase, ...]
    duration_s: float
    interval_s: float
    window_s: float
    candidates: int
    narrowed: int
    second_opinion: bool
    too_short_to_judge: bool = False
    sampling_rate: float = 1 / 64

    @property
    def ends_s(self) -> tuple[float, ...]:
        count = round(self.duration_s / self.interval_s)
        return tuple(round((number + 1) * self.interval_s, 9) for number in range(count))

    @property
    def traffic(self) -> str:
        """All phases in the form that ``--traffic`` takes."""
        ends = [phase.begin_s for phase in self.phases[1:]] + [self.duration_s]
        return ",".join(
            f"{item}@{phase.begin_s:.9g}s..{end:.9g}s"
            for phase, end in zip(self.phases, ends, strict=True)
            for item in phase.traffic.split(",")
        )

    def phase_at(self, at_s: float) -> Phase:
        """The phase under way just after ``at_s``."""
        return [phase for phase in self.phases if phase.begin_s <= at_s + 1e-9][-1]

    def lab_arguments(self, seed: int, watermark: Watermark, *, port: int = 0) -> list[str]:
        """Options of ``ecntwin lab`` for this fabric and traffic, with the initial ``watermark``."""
        return [
            *("--leaves", str(self.fabric.leaves), "--spines", str(self.fabric.spines)),
            *("--hosts", str(self.fabric.hosts), "--rate-gbps", f"{self.fabric.rate_gbps:g}"),
            *("--uplink-gbps", f"{self.fabric.uplink_gbps or self.fabric.rate_gbps:g}"),
            *("--buffer", str(self.buffer_bytes), "--traffic", self.traffic, "--seed", str(seed)),
            *("--duration", f"{self.duration_s:.9g}s", "--listen", f"127.0.0.1:{port}", "--step"),
            *("--watermark", f"{watermark.kmin_bytes},{watermark.kmax_bytes},{watermark.pmax:g}"),
        ]

    def service_settings(self, *, seed: int, lab_url: str, workers: int) -> dict[str, Any]:
        """The settings of the demo's service.

        Rounds run on request. Simulated time is thousands of times slower than the wall clock, by which
        moments are kept, so a round judges its own window and wall-clock limits are off. The fabric stands
        still during a rollout, so soak times are off too: first the canary, then all other switches. The
        gates on predictions stay on.
        """
        return {
            "server": {"port": 0},
            "telemetry": {"period_s": PERIOD_S, "n_periods": round(self.window_s / PERIOD_S)},
            "fabric": {"mtu_payload_bytes": 1000, "buffer_bytes": self.buffer_bytes},
            "incumbent": {"default": asdict(VENDOR_DEFAULT)},
            "search": {
                "candidates": self.candidates,
                "narrowed": self.narrowed,
                "workers": workers,
                "niceness": 0,
                "seed": seed,
                "second_opinion": "packet" if self.second_opinion else "none",
            },
            "tuning": {
                "enabled": False,
                "cool_down_s": 0,
                "stale_after_s": 3600,
                "residual_limit": 2.5,
                "moments": 1,
            },
            "push": {"adapter": "lab", "lab_url": lab_url},
            "storage": {"url": "memory"},
            "rollout": {
                "soak_s": 0,
                "batch_soak_s": 0,
                "batch_size": self.fabric.leaves + self.fabric.spines,
            },
        }


def phases(each_s: float, *lines: tuple[str, str]) -> tuple[Phase, ...]:
    """Lines of traffic by name, one after the other, each for ``each_s``."""
    return tuple(Phase(name, round(number * each_s, 9), line) for number, (name, line) in enumerate(lines))


# What a cluster carries in turn, chosen because the best settings of these three lie far apart
# (bench/phases.py measures by how much) and before any closed loop ran on them.
_EXPERTS = ("all-to-all", "all-to-all:2MB:compute=300us:compute_jitter=0.3")
_ANALYTICS = ("Hadoop", "hadoop:0.5")
_STORAGE = ("Hadoop, incast", "hadoop:0.3,incast:15:each_bytes=128KB:period=2ms")

# At 25 Gbit/s senders that were slowed down recover within tens of milliseconds, a small part of a phase; at
# 100 that takes four times the packets.
FULL = DemoPlan(
    name="full",
    fabric=LeafSpine(leaves=4, spines=2, hosts=4, rate_gbps=25, uplink_gbps=50),
    buffer_bytes=8_000_000,
    phases=phases(0.320, _EXPERTS, _ANALYTICS, _STORAGE),
    duration_s=0.960,
    interval_s=0.040,
    window_s=0.040,
    candidates=64,
    narrowed=16,
    second_opinion=True,
)

QUICK = DemoPlan(
    name="quick",
    fabric=LeafSpine(leaves=2, spines=2, hosts=4, rate_gbps=100, uplink_gbps=200),
    buffer_bytes=4_000_000,
    phases=phases(
        0.018,
        ("web search", "websearch:0.5"),
        ("bulk transfers", "elephants-and-mice:0.2:elephants=6:per_receiver=3:elephant_bytes=3MB"),
    ),
    duration_s=0.036,
    interval_s=0.006,
    window_s=0.006,
    candidates=24,
    narrowed=8,
    second_opinion=False,
    too_short_to_judge=True,
)
