"""EtherTypes: of IP, and of the VLAN tags that switches put before it."""

from __future__ import annotations

IPV4, IPV6 = 0x0800, 0x86DD
VLAN_TAGS = frozenset({0x8100, 0x88A8, 0x9100, 0x9200})
"""802.1Q, 802.1ad, and the two that were usual for outer tags before it and that switches still offer."""
