"""The Kmin floor of mixed fleets: found again by other draws, and by nothing but the fleet's own hosts."""

from __future__ import annotations

import pytest

from tests.unit.twin.packet.plans import star
from twin.errors import ParameterError, ScenarioError
from twin.packet.kmin_floor import dcqcn_share, kmin_floor, meeting, shaped
from twin.packet.plan import FabricPlan
from twin.senders.artefact import SWIFT, known_senders
from twin.senders.dcqcn import PAPER
from twin.senders.rtt import RttSender
from twin.watermark import Watermark

LIKE = Watermark(20_000, 80_000, 0.2)


def fleet(sender: RttSender, n_others: int, n_dcqcn: int) -> FabricPlan:
    others = {f"h{number}": sender for number in range(n_others)}
    return star(n_others + n_dcqcn + 1, rate_gbps=10.0, delay_us=2.0, dcqcn=PAPER, senders=others)


@pytest.mark.parametrize("name", ["rl-cc-trees", "swift"])
@pytest.mark.parametrize("n_others", [1, 3])
def test_below_the_floor_dcqcn_loses_and_above_it_holds_its_share(name: str, n_others: int) -> None:
    plan = fleet(known_senders()[name], n_others, 1)
    senders = meeting(plan, plan.hosts[-1], n_others + 1)
    floor = kmin_floor(plan, plan.hosts[-1], senders, LIKE, seed=1)
    assert floor.watermark is not None
    assert (floor.n_flows, floor.n_dcqcn) == (n_others + 1, 1)
    for other_start, factor, holds in ((3, 0.8, False), (4, 1.2, True)):
        mark = shaped(factor * floor.watermark.kmin_bytes, LIKE)
        assert (dcqcn_share(plan, plan.hosts[-1], senders, mark, seed=other_start) >= 1.0) == holds, mark
    again = kmin_floor(plan, plan.hosts[-1], senders, LIKE, seed=1)
    assert again == floor


def test_no_kmin_up_to_the_buffer_may_do() -> None:
    plan = star(
        3, rate_gbps=10.0, delay_us=2.0, dcqcn=PAPER, senders={"h0": SWIFT}, buffer_bytes=3_000, pfc=False
    )
    floor = kmin_floor(plan, "h2", ["h0", "h1"], Watermark(1_200, 4_800, 0.2), seed=1)
    assert floor.watermark is None
    assert max(floor.shares) <= 3_000


def test_a_watermark_without_a_kmin_has_no_shape() -> None:
    with pytest.raises(ParameterError, match=r"received Kmin 0 B, .*Kmax ÷ Kmin is kept"):
        kmin_floor(fleet(SWIFT, 1, 1), "h2", ["h0", "h1"], Watermark(0, 400_000, 0.2), seed=1)


def test_hosts_meet_in_the_fleets_proportion() -> None:
    plan = fleet(SWIFT, 2, 6)
    for n_flows, expected in ((2, 1), (4, 3), (8, 6)):
        senders = meeting(plan, "h8", n_flows)
        assert len(set(senders)) == n_flows
        assert sum(host not in plan.senders for host in senders) == expected
    assert len(meeting(plan, "h0", 7)) == 7
    with pytest.raises(ScenarioError, match="received 9; from 2 to 8 hosts can send to 'h8'"):
        meeting(plan, "h8", 9)
    with pytest.raises(ScenarioError, match="received 0 by DCQCN and 2 by others that send to 'h2'"):
        meeting(fleet(SWIFT, 2, 0), "h2", 2)
