"""Broadcom NetXtreme-E and Thor (driver bnxt_re) through the kernel's files, over SSH: read, and never set.

Parameters are files of debugfs, ``bnxt_re/PCI/cc_config`` of the upstream driver (``bnxt_re/debugfs.c``,
Linux 6.15) and ``bnxt_re/DEVICE/cc_config`` of Broadcom's own; each read asks the firmware. No public text
says what most of them mean or in which units (docs/nics/broadcom.md): they are shown and compared, and the
twin's DCQCN is not derived from them.
"""

from __future__ import annotations

from collections.abc import Mapping

from nics.base import NicReading, Reading, StagedChange
from nics.commands import COUNTERS, FoundNic, numbers
from nics.files import FilesAdapter
from nics.parameters import Values
from switches.errors import CapabilityError

DRIVER = "bnxt_en"
"""The driver of its PCI device; bnxt_re sits on it."""

SAME_VALUES = {
    "alt_vlan_dscp": "cnp_dscp",
    "alt_vlan_pcp": "cnp_802p_prio",
    "min_time_bet_cnp_store": "min_time_between_cnps",
}
"""Files that mean what a ConnectX has under another name, in the same unit: configfs of Broadcom's driver
shows the first two as ``cnp_dscp`` and ``cnp_prio``, the third in microseconds (``bnxt_re/configfs.c``).
"""
SAME_COUNTERS = {
    "tx_cnp_pkts": "np_cnp_sent",
    "rx_cnp_pkts": "rp_cnp_handled",
    "rx_ecn_marked_pkts": "np_ecn_marked_roce_packets",
    "oos_drop_count": "out_of_sequence",
    "seq_err_naks_rcvd": "packet_seq_err",
}
"""Names of the upstream driver, and what Broadcom's own calls them (``bnxt_re/hw_counters.c`` of both)."""
_NOT_MODELLED = (
    "Broadcom's congestion control is not DCQCN with the twin's parameters; the twin takes it to run what "
    "other NICs or the settings say."
)


class BroadcomAdapter(FilesAdapter):
    """As ``FilesAdapter``; it refuses to set anything."""

    writes = False

    def stage(self, values: Values, change_id: str) -> StagedChange:
        raise self._only_read()

    def apply(self, change: StagedChange) -> None:
        raise self._only_read()

    def verify(self, change: StagedChange) -> Reading:
        raise self._only_read()

    def rollback(self, change: StagedChange) -> None:
        raise self._only_read()

    def _only_read(self) -> CapabilityError:
        rule = "NICs of platform broadcom are read, and not set"
        return CapabilityError(self._host.where, "a change", rule, "set them with the vendor's tools")

    def _nic(self, nic: FoundNic) -> NicReading:
        if nic.driver != DRIVER:
            problem = (
                f"{self._host.where} NIC {nic.name}: its driver is {nic.driver}, and bnxt_re is read alone"
            )
            return NicReading(nic=nic.name, rdma=nic.rdma, driver=nic.driver, problem=problem)
        counters = _named(numbers(nic.files, f"../infiniband/{nic.rdma}/ports/1/hw_counters"), SAME_COUNTERS)
        values: Values = {}
        for device in (nic.pci, nic.rdma):
            values = values or numbers(nic.files, f"../../kernel/debug/bnxt_re/{device}/cc_config")
        hidden = (
            f"{self._host.where} NIC {nic.name}: debugfs shows no bnxt_re/{nic.pci}/cc_config; log in as "
            "root or give sudo: true, and use Linux 6.15 or later, or a driver of Broadcom's that has it"
        )
        return NicReading(
            nic=nic.name,
            rdma=nic.rdma,
            driver=nic.driver,
            values=_named(values, SAME_VALUES),
            counters={name: counters[name] for name in COUNTERS if name in counters},
            reacts=() if values.get("enable_cc") == 0 else None,
            line_rate_mbit=numbers(nic.files, nic.name).get("speed") or None,
            problem=None if values else hidden,
            note=_NOT_MODELLED if values else None,
        )


def _named(found: Mapping[str, int], same: Mapping[str, str]) -> dict[str, int]:
    return {same.get(name, name): value for name, value in found.items()}
