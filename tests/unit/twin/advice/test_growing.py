"""The tree on made-up states: which code it names, and how far behind it says that may be."""

from __future__ import annotations

import numpy as np
import pytest

from twin.advice.codebook import Code
from twin.advice.features import FEATURES
from twin.advice.growing import FAILED, OWN, REGRET_LIMIT, Rows, drawn_to_calibrate, made

N_STATES, COPIES = 400, 3
CODES = [Code(0.1, 2.0, 0.1), Code(1.0, 4.0, 0.1), Code(4.0, 4.0, 0.01)]
LOW, HIGH = 0.2, 0.8  # of the first feature, that tells which code is best


def rows(seed: int, *, family: str = "drawn", n_states: int = N_STATES, extra: float = 0.0) -> Rows:
    """States in which code 0 is best where the first feature is low, else code 1, each by 0.4; where the
    second is high chance decides: as often as not code 2 is 1.0 better than that, else as much worse.

    ``extra``: how far behind every code is.
    """
    rng = np.random.default_rng(seed)
    state = np.repeat(np.arange(n_states), COPIES)
    x = rng.random((n_states, len(FEATURES)))[state]
    behind = np.full((n_states, len(CODES)), 0.4)[state]
    behind[np.arange(len(x)), (x[:, 0] >= 0.5).astype(int)] = 0.0
    chance = x[:, 1] > 0.5
    luck = (rng.random(n_states) < 0.5)[state] & chance
    behind[luck] += 1.0
    behind[chance, 2] = np.where(luck, 0.0, 1.0)[chance]
    behind += extra
    return Rows(
        x=x,
        behind=behind,
        kept=np.full(len(x), 0.4),
        state=state,
        family=np.full(len(x), family),
        drawn=np.arange(len(x)) % COPIES == 0,
        later=behind,
        full=np.zeros(len(x)),
    )


def at(first: float, second: float) -> np.ndarray:
    row = np.full(len(FEATURES), 0.5)
    row[:2] = first, second
    return row


@pytest.fixture(scope="module")
def drawn() -> Rows:
    return rows(1)


def test_it_names_the_best_code_and_is_surer_where_nothing_is_left_to_chance(drawn: Rows) -> None:
    learnt = made(drawn, drawn_to_calibrate(drawn)).learnt(CODES, {})
    for first, best in ((LOW, 0), (HIGH, 1)):
        leaf = learnt.leaves[learnt.leaf(at(first, LOW))]
        assert int(np.argmin(leaf.behind)) == best
        assert leaf.behind[1 - best] == pytest.approx(0.4, abs=0.1)
        by_chance = learnt.leaves[learnt.leaf(at(first, HIGH))]
        assert by_chance.regret > max(REGRET_LIMIT, 2 * leaf.regret)


def test_nine_of_ten_new_states_are_within_its_bound(drawn: Rows) -> None:
    found, new = made(drawn, drawn_to_calibrate(drawn)), rows(2)
    leaves = [found.leaves[leaf] for leaf in found.leaf_of(new.x)]
    regret = [behind[int(np.argmin(leaf.behind))] for leaf, behind in zip(leaves, new.behind, strict=True)]
    within = np.array(regret) <= [leaf.regret for leaf in leaves]
    assert np.mean(within) > 0.85


def test_the_same_rows_make_the_same_tree(drawn: Rows) -> None:
    one, two = (made(drawn, drawn_to_calibrate(drawn)) for _ in range(2))
    assert (one.tree, one.leaves, one.ranges) == (two.tree, two.leaves, two.ranges)


def test_where_own_rounds_come_they_alone_bound(drawn: Rows) -> None:
    own = rows(3, family=OWN, n_states=40, extra=0.25)
    own = Rows(**{name: getattr(own, name) for name in own.__slots__} | {"state": own.state + N_STATES})
    both = Rows.joined([drawn, own])
    newest = both.state >= N_STATES + 20
    found = made(both, newest | np.concatenate([drawn_to_calibrate(drawn), np.zeros(len(own.x), np.bool_)]))
    visited = set(found.leaf_of(own.x[own.state >= N_STATES + 20]).tolist())
    assert min(found.leaves[leaf].regret for leaf in visited) >= 0.25
    assert any(found.leaves[leaf].regret < 0.25 for leaf in set(range(len(found.leaves))) - visited)


def test_too_few_to_bound_it_leave_no_advice() -> None:
    few = rows(4, n_states=20)
    found = made(few, few.state < 3)
    assert {leaf.regret for leaf in found.leaves} == {FAILED}
