"""The Kmin floor of a fleet where senders that act on round-trip times meet DCQCN, found packet by packet.

Those senders let the queue swing about a depth of their own, whatever is marked. Where its peaks reach Kmin,
DCQCN flows are marked in each swing and lose their share. Where they do not, DCQCN grows, the others slow
down, and the swings shrink. So the share changes within a few percent of Kmin, and the mean depth does not
tell where.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twin.errors import ParameterError, ScenarioError
from twin.packet.fabric import Fabric
from twin.packet.plan import FabricPlan
from twin.traffic.base import Traffic
from twin.watermark import Watermark

STARTS_S = 2e-4
HELD_S, RAISED_S, TRIED_S = 0.025, 0.075, 0.15
RAISES = 15  # to twice Kmin: 5 % each
PRECISION = 1.05  # of the Kmin under which DCQCN flows get their share, over one under which they do not


@dataclass(frozen=True, slots=True)
class KminFloor:
    """Of ``n_flows`` to one receiver, ``n_dcqcn`` by DCQCN.

    ``watermark`` has the least Kmin under which these get their fair share; None where they do not under any
    up to the buffer. ``shares``: what they got, by Kmin in bytes; 1 is their fair share.
    """

    n_flows: int
    n_dcqcn: int
    watermark: Watermark | None
    shares: dict[int, float]


def meeting(plan: FabricPlan, receiver: str, n_flows: int) -> list[str]:
    """So many hosts that send to ``receiver``, of both kinds in the fleet's proportion, one of each at least.

    Raises ``ScenarioError`` where there are too few.
    """
    if receiver not in plan.hosts:
        raise ScenarioError("kmin floor receiver", repr(receiver), "it is a host of the fabric", "name one")
    others = [host for host in plan.hosts if host != receiver]
    kinds = [[host for host in others if (host in plan.senders) == acts] for acts in (False, True)]
    if not all(kinds):
        received = f"{len(kinds[0])} by DCQCN and {len(kinds[1])} by others that send to {receiver!r}"
        rule = "a fleet has a Kmin floor where both kinds meet"
        raise ScenarioError("kmin floor hosts", received, rule, "say in senders which hosts run what")
    if not 2 <= n_flows <= len(others):
        rule = f"from 2 to {len(others)} hosts can send to {receiver!r}"
        raise ScenarioError("kmin floor flows", str(n_flows), rule, "give such a number")
    n_dcqcn = round(n_flows * len(kinds[0]) / len(others))
    n_dcqcn = min(max(n_dcqcn, 1, n_flows - len(kinds[1])), n_flows - 1, len(kinds[0]))
    return [*kinds[0][:n_dcqcn], *kinds[1][: n_flows - n_dcqcn]]


def shaped(kmin_bytes: float, like: Watermark) -> Watermark:
    """With that Kmin, and the Pmax and Kmax ÷ Kmin of ``like``."""
    low = round(kmin_bytes)
    ratio = like.kmax_bytes / like.kmin_bytes
    return Watermark(low, max(round(low * ratio), low + 1), like.pmax)


def kmin_floor(
    plan: FabricPlan, receiver: str, senders: Sequence[str], like: Watermark, *, seed: int
) -> KminFloor:
    """The floor for flows that never end, one of each of ``senders``, by watermarks ``shaped`` as ``like``.

    To about 5 %, by bisection from the Kmin of ``like`` on. Raises ``ParameterError`` where that is 0.
    """
    if like.kmin_bytes == 0:
        rule = "Kmax ÷ Kmin is kept, so that Kmin is above 0"
        raise ParameterError("kmin floor watermark", str(like), rule, "give such as 100KB,400KB,20%")
    least, most = plan.packet_wire_bytes, plan.buffer_bytes
    shares: dict[int, float] = {}

    def holds(kmin_bytes: float) -> bool:
        mark = shaped(kmin_bytes, like)
        if mark.kmin_bytes not in shares:
            shares[mark.kmin_bytes] = dcqcn_share(plan, receiver, senders, mark, seed=seed)
        return shares[mark.kmin_bytes] >= 1.0

    high = float(max(like.kmin_bytes, least))
    while not holds(high) and 2.0 * high <= most:
        high *= 2.0
    low = high / 2.0
    while low >= least and holds(low):
        low, high = low / 2.0, low
    while least <= low and holds(high) and high > PRECISION * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return KminFloor(
        n_flows=len(senders),
        n_dcqcn=sum(host not in plan.senders for host in senders),
        watermark=shaped(high, like) if holds(high) else None,
        shares=dict(sorted(shares.items())),
    )


def endless(plan: FabricPlan, receiver: str, senders: Sequence[str], *, seed: int) -> Traffic:
    """A flow without end from each of ``senders``, which start within ``STARTS_S``."""
    number = {name: index for index, name in enumerate(plan.hosts)}
    starts_s = np.sort(np.random.default_rng(seed).uniform(0.0, STARTS_S, len(senders)))
    src = [number[name] for name in senders]
    return Traffic.independent(src, [number[receiver]] * len(src), np.inf, starts_s)


def dcqcn_share(
    plan: FabricPlan, receiver: str, senders: Sequence[str], mark: Watermark, *, seed: int
) -> float:
    """What the DCQCN flows among those of ``senders`` get to ``receiver``, 1 being their fair share.

    They are held down first, under half of that Kmin, which then rises in small steps: in some range of it,
    who has the link keeps it, and one large step would hand it over.
    """
    fabric = Fabric(plan, watermark=shaped(mark.kmin_bytes / 2.0, mark), seed=seed)
    fabric.offer(endless(plan, receiver, senders, seed=seed))
    for step in range(RAISES):
        fabric.advance(HELD_S + RAISED_S * step / RAISES)
        rising = shaped(mark.kmin_bytes * 2.0 ** ((step + 1) / RAISES - 1.0), mark)
        fabric.set_watermark(plan.switch_ports, rising)
    fabric.advance(HELD_S + RAISED_S + TRIED_S / 2.0)
    before = fabric.acknowledged_bytes()
    fabric.advance(HELD_S + RAISED_S + TRIED_S)
    got = fabric.acknowledged_bytes() - before
    by_dcqcn = np.array([name not in plan.senders for name in senders])
    return float(got[by_dcqcn].sum() / got.sum() / by_dcqcn.mean())
