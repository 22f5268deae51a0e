"""What the tree advises for one state, and every reason for which it says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from twin.advice.artefact import Learnt
from twin.advice.features import Scales
from twin.search.explain import watermark_text
from twin.search.push_gate import GateSettings, next_step
from twin.units import percent_text
from twin.watermark import Watermark

Abstained = Literal["range", "regret", "senders", "held", "unknown"]
ABSTAINED: tuple[Abstained, ...] = ("range", "regret", "senders", "held", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to set instead of ``incumbent``; ``watermark`` None: nothing, for the reason ``abstained``.

    ``watermark`` is the incumbent where it is to stay, else the first step towards ``target``. ``gain`` is
    the mean gain of the target, ``regret`` what the best watermark gains beyond it, at most, in nine of ten
    such states. ``why`` is a sentence.
    """

    incumbent: Watermark | None
    watermark: Watermark | None = None
    target: Watermark | None = None
    gain: float | None = None
    regret: float | None = None
    abstained: Abstained | None = None
    why: str

    @classmethod
    def none(cls, incumbent: Watermark | None, abstained: Abstained, why: str) -> Advice:
        return cls(incumbent=incumbent, abstained=abstained, why=f"No advice: {why}")


def advise(
    learnt: Learnt,
    row: NDArray[np.float64],
    scales: Scales,
    incumbent: Watermark,
    gate: GateSettings,
    *,
    margin: float,
    other_senders: Sequence[str] = (),
    held: Sequence[str] = (),
) -> Advice:
    """The advice for a row of ``FEATURES``, inside the bounds and steps of the push gate; what gains no more
    than ``margin`` is not advised.

    ``other_senders`` names senders that do not run DCQCN alone; ``held`` are the gate's sentences.
    """
    if other_senders:
        names = ", ".join(other_senders[:3])
        why = f"it is learnt from senders of DCQCN, and {names} run others."
        return Advice.none(incumbent, "senders", why)
    if held:
        return Advice.none(incumbent, "held", " ".join(one.removeprefix("Held: ") for one in held))
    leaf = learnt.leaf(row)
    if leaf < 0:
        one, value = learnt.features[-1 - leaf], float(row[-1 - leaf])
        why = f"{one.name} is {value:.3g}, and it is learnt from {one.low:.3g} to {one.high:.3g}."
        return Advice.none(incumbent, "range", why)
    behind, regret = learnt.leaves[leaf].behind, learnt.leaves[leaf].regret
    if regret > learnt.regret_limit:
        why = (
            f"in one of ten such states another watermark gains over {percent_text(regret)} more than what "
            f"it would say, and {percent_text(learnt.regret_limit)} is the limit."
        )
        return Advice.none(incumbent, "regret", why)
    marks = [code.watermark(scales.bdp_bytes) for code in learnt.codes]
    best = min(range(len(marks)), key=behind.__getitem__)
    # What runs is judged as the code that is nearest to it.
    near = min(range(len(marks)), key=lambda one: marks[one].distance_to(incumbent))
    gain, target = round(behind[near] - behind[best], 4), marks[best]
    step = None if gain <= margin else next_step(gate, incumbent, target)
    if step is None:
        step, target, gain, regret = incumbent, incumbent, 0.0, round(regret + gain, 4)
        why = f"Keep {watermark_text(incumbent)}"
    else:
        on_the_way = "" if step == target else f", a step towards {watermark_text(target)},"
        why = f"{watermark_text(step)}{on_the_way} would gain about {percent_text(gain)}"
    why += f"; in nine of ten such states the best gains at most {percent_text(regret)} more."
    return Advice(incumbent=incumbent, watermark=step, target=target, gain=gain, regret=regret, why=why)
