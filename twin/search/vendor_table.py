"""Watermarks that vendors, papers and simulators ship, by link rate, each with its source."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry.topology import GBPS
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True)
class VendorWatermark:
    """One published setting and the link rates (Gbit/s, ends included) it was published for."""

    name: str
    watermark: Watermark
    source: str
    from_gbps: float = 0.0
    to_gbps: float = float("inf")


VENDOR_TABLE: tuple[VendorWatermark, ...] = (
    VendorWatermark(
        "DCQCN paper",
        Watermark(5_000, 200_000, 0.01),
        "Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015 (40 Gbit/s)",
    ),
    VendorWatermark(
        "NVIDIA Cumulus, Onyx",
        Watermark(150_000, 1_500_000, 1.0),
        "NVIDIA Cumulus Linux and Onyx RoCE defaults; Cisco's ToR guide for Azure Local gives the same",
    ),
    VendorWatermark(
        "Cisco Nexus AI blueprint",
        Watermark(150_000, 3_000_000, 0.07),
        "Cisco Nexus 9000 blueprint for AI/ML networking: WRED 150 KB, 3000 KB, 7 %",
    ),
    VendorWatermark(
        "SONiC",
        Watermark(1_048_576, 2_097_152, 0.05),
        "sonic-buildimage qos_config.j2, the default WRED profile AZURE_LOSSLESS",
        to_gbps=399.0,
    ),
    VendorWatermark(
        "SONiC, Tomahawk and Trident at 100G",
        Watermark(250_000, 2_097_152, 0.05),
        "sonic-buildimage device profiles of Tomahawk, 7060CX and 7050SX3",
        from_gbps=100.0,
        to_gbps=100.0,
    ),
    VendorWatermark(
        "SONiC, Tomahawk 5",
        Watermark(131_072, 262_144, 0.05),
        "sonic-buildimage device profile of Arista 7060X6",
        from_gbps=400.0,
    ),
    VendorWatermark(
        "Huawei, throughput-sensitive, 25G",
        Watermark(7_000, 200_000, 0.1),
        "Huawei CloudEngine guide for RoCEv2: 7 KB, 200 KB, 10 % at 25GE",
        to_gbps=25.0,
    ),
    VendorWatermark(
        "Huawei, throughput-sensitive, 100G",
        Watermark(7_000, 750_000, 0.1),
        "Huawei CloudEngine guide for RoCEv2: 7 KB, 750 KB, 10 % at 100GE",
        from_gbps=100.0,
        to_gbps=100.0,
    ),
    VendorWatermark(
        "Dell Enterprise SONiC, Z9664",
        Watermark(2_048_000, 12_480_000, 0.15),
        "Dell Z9664 Enterprise SONiC RoCE profile: 2048 KB, 12480 KB, 15 %",
        from_gbps=400.0,
    ),
)


def hpcc_watermark(rate_gbps: float) -> Watermark:
    """The setting of the HPCC simulation, stated per rate.

    Li et al., SIGCOMM 2019, its public ns-3 configuration of DCQCN: 100 KB, 400 KB, 20 % at 25 Gbit/s, and in
    proportion to the rate above and below.
    """
    kmin_bytes = max(1_000, round(4 * rate_gbps) * 1_000)
    return Watermark(kmin_bytes, 4 * kmin_bytes, 0.2)


DEFAULT_WATERMARK = hpcc_watermark(100.0)
"""What switches are taken to run where neither the settings nor a reading says: 400 KB, 1.6 MB, 20 %."""


def vendor_table(link_rate_bytes_per_s: float) -> tuple[VendorWatermark, ...]:
    """The rows published for links of this rate, and that of the HPCC simulation."""
    rate_gbps = link_rate_bytes_per_s / GBPS
    rows = tuple(row for row in VENDOR_TABLE if row.from_gbps <= rate_gbps <= row.to_gbps)
    hpcc = VendorWatermark(
        f"HPCC simulation at {rate_gbps:g} Gbit/s",
        hpcc_watermark(rate_gbps),
        "Li et al., HPCC, SIGCOMM 2019, public ns-3 configuration of DCQCN",
    )
    return (*rows, hpcc)
