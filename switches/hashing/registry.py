"""Hash adapters by platform, and what to set by hand where there is none."""

from __future__ import annotations

from pkgutil import resolve_name

from switches.device import Device
from switches.hashing.base import HashAdapter

_BUILT_IN = {
    "lab": "switches.hashing.lab:LabHash",
    "sonic": "switches.hashing.sonic:SonicHash",
    "nvue": "switches.hashing.nvue:NvueHash",
}
_SONIC = (
    "config switch-hash global ecmp-hash-algorithm, to another of show switch-hash capabilities but RANDOM"
)
# What a person sets, as public documentation has it
_BY_HAND = {
    "lab": "PUT /switches/NAME/ecmp-seed of the lab",
    "sonic": _SONIC,
    "sonic-gnmi": _SONIC,
    "nvue": "nv set system forwarding hash-seed, from 0 to 4294967295, and nv config apply",
    # "Configuring Universal Id to Randomize Hash Functions for Load Balancing", Cisco Nexus 3000 and 9000
    # Series NX-API REST SDK User Guide, release 9.3(x)
    "nxos": "universal-id of ip load-sharing address",
}


def hash_adapter(device: Device) -> HashAdapter | None:
    """The adapter of a switch's hash, without asking it; None where its platform has none.

    Raises ``InventoryError``.
    """
    if device.platform not in _BUILT_IN:
        return None
    adapter: HashAdapter = resolve_name(_BUILT_IN[device.platform])(device)
    return adapter


def set_by_hand(platform: str) -> str | None:
    """What a person sets on that platform to hash flows anew; None where no documentation says."""
    return _BY_HAND.get(platform)
