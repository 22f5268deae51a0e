"""How long the policy leaves switches alone on which a rollout was taken back; must not approve anything."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from switches.rollout.state import Phase, RolloutState

LONGEST_HOLD_S = 86_400.0


def hold_left_s(
    newest_first: Iterable[RolloutState], switches: Collection[str], *, now_s: float, hold_s: float
) -> float:
    """Seconds until the policy may approve a change of these switches; 0 or less: it may now.

    ``hold_s`` after a rollout about any of them was taken back, by whomever, twice that after a second in a
    row, and so on up to a day: the twin would recommend the same again, and the switches go back and forth.
    """
    taken_back: list[float] = []
    for state in newest_first:
        if not set(switches).intersection(state.plan.switches):
            continue
        if state.phase is Phase.DONE:
            break
        taken_back += [at_s for at_s, phase in state.phases if phase is Phase.ROLLING_BACK][-1:]
    if not taken_back:
        return 0.0
    hold_s = min(hold_s * 2.0 ** min(len(taken_back) - 1, 30), LONGEST_HOLD_S)
    return min(taken_back[0] + hold_s - now_s, hold_s)  # a clock that was set back holds no longer
