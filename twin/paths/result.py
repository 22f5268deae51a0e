"""What a round says of elephants that collide, and the sentences that tell it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from telemetry.network.collisions import Collision, Collisions, PortLoad
from telemetry.state import FlowKey
from telemetry.topology import GBPS

_MOST_NAMED = 4  # ports; the rest is counted


@dataclass(frozen=True, slots=True)
class PathMove:
    """One elephant from its port to an equal-cost one of the same switch."""

    flow: FlowKey
    src_host: str
    dst_host: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Goodput:
    """Goodput of the group's elephants, of one while it sends: all their payload ÷ all the time that it took.

    In bytes per second, by one engine over ``window_s``.
    """

    engine: str
    before_bytes_per_s: float
    after_bytes_per_s: float
    window_s: float


@dataclass(frozen=True, slots=True)
class Moved:
    """What the moves do: ``times`` the elephants' goodput, joined over the engines that ran, and the gain.

    The gain is the round's, of all traffic over what runs now. ``advised``: the elephants surely get more, by
    more than the round's margin, no engine contradicts, and the gain is no sure loss.
    """

    moves: tuple[PathMove, ...]
    times: float
    times_error: float
    first: Goodput
    second: Goodput | None
    gain: float
    gain_error: float
    second_gain: float | None
    advised: bool


@dataclass(frozen=True, slots=True)
class Hashed:
    """What another hash seed of the switch does to the same figures: mean and spread over ``n_seeds``."""

    n_seeds: int
    times: float
    times_spread: float
    gain: float
    gain_spread: float


@dataclass(frozen=True, slots=True)
class PathFix:
    """One collision and what would help; None where nothing was predicted, or no move helps.

    ``hash_setting``: what hashes the flows of its switch anew, in the words of its platform; None: not known.
    """

    collision: Collision
    moved: Moved | None
    hashed: Hashed | None
    sentence: str
    hash_setting: str | None = None

    def with_setting(self, setting: str | None) -> PathFix:
        """With the platform's setting, also in the sentence where another hash was predicted."""
        told = setting is not None and self.hashed is not None
        sentence = f"{self.sentence} Its hash is changed by: {setting}." if told else self.sentence
        return replace(self, hash_setting=setting, sentence=sentence)


@dataclass(frozen=True, slots=True)
class PathAdvice:
    """The collisions of a window, the worst first, and what would help. Nothing sets it."""

    fixes: tuple[PathFix, ...]
    sentence: str
    notes: tuple[str, ...]
    n_runs: int
    traffic_s: float


def fix_sentence(collision: Collision, moved: Moved | None, hashed: Hashed | None, failure: str) -> str:
    """Such as ``leaf1: 6 elephants share Ethernet8 (92 Gbit/s of 100) while …: moving 3 of them would …``.

    ``failure`` says why nothing was predicted, "" where it was.
    """
    found = collision_text(collision)
    if failure:
        return f"{found}; {failure}."
    if moved is None:
        told = "no move to an equal-cost port would give elephants more"
    else:
        count = len(moved.moves)
        elephants = sum(len(one.elephants) for one in _sides(collision)[0])
        which = f"{count} of them" if count < elephants else "all of them"
        told = (
            f"moving {which} would give elephants {times_text(moved.times, moved.times_error)} times their "
            f"goodput{'' if moved.advised else ', not sure enough to advise'}"
        )
    if hashed is not None:
        told += f"; another hash seed {times_text(hashed.times, hashed.times_spread)}"
    return f"{found}: {told}."


def collision_text(collision: Collision) -> str:
    """Which elephants share which ports while which others have room."""
    full, others = _sides(collision)
    count = sum(len(one.elephants) for one in full)
    load = sum(min(one.load_bytes_per_s, one.rate_bytes_per_s) for one in full) / GBPS
    rate = sum(one.rate_bytes_per_s for one in full) / GBPS
    left = sum(one.load_bytes_per_s for one in others) / GBPS
    verb, together = ("carries", "") if len(others) == 1 else ("carry", " together")
    rest = f"{left:.0f}{together}" if left >= 0.5 else "nothing"
    return (
        f"{collision.switch}: {count} elephants share {_names(full)} ({load:.0f} Gbit/s of {rate:g}) while "
        f"{_names(others)} {verb} {rest}"
    )


def summary(found: Collisions, ratio: float) -> str:
    """What the window shows of collisions, in a sentence."""
    if found.n_elephants == 0:
        return "The window has no elephants, so none collide."
    if found.n_unknown == found.n_elephants:
        return (
            f"The paths of all {found.n_elephants} elephants are unknown or not of the topology, so that "
            "collisions cannot be seen."
        )
    if found.n_groups == 0:
        return "No elephant crosses a port that has an equal-cost one."
    if not found.found:
        return (
            f"No elephants collide: no port that they share carries {ratio:g} times the mean of its "
            "equal-cost ports while one of these has room."
        )
    where = "one place" if len(found.found) == 1 else f"{len(found.found)} places"
    return f"Elephants collide in {where} while equal-cost ports have room."


def times_text(times: float, error: float) -> str:
    """Such as ``1.9 ± 0.2``; two decimals where one would hide the error."""
    digits = 1 if error >= 0.05 else 2
    return f"{times:.{digits}f} ± {error:.{digits}f}"


def _sides(collision: Collision) -> tuple[list[PortLoad], list[PortLoad]]:
    """The ports above the mean that elephants share, and the others."""
    mean = sum(one.load_bytes_per_s for one in collision.ports) / len(collision.ports)
    full = [one for one in collision.ports if one.load_bytes_per_s > mean and len(one.elephants) > 1]
    return full, [one for one in collision.ports if one not in full]


def _names(ports: Sequence[PortLoad]) -> str:
    """``Ethernet8``, ``Ethernet8 and Ethernet9``, ``Ethernet9 to Ethernet11``, or the first few of them."""
    names = sorted((one.name for one in ports), key=_parts)
    parts = [_parts(name) for name in names]
    one_by_one = all(a[0] == b[0] and a[1] + 1 == b[1] for a, b in pairwise(parts))
    if len(names) > 2 and one_by_one:
        return f"{names[0]} to {names[-1]}"
    if len(names) > _MOST_NAMED:
        return f"{', '.join(names[: _MOST_NAMED - 1])} and {len(names) - _MOST_NAMED + 1} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _parts(name: str) -> tuple[str, int]:
    """A name and the number that it ends with; −1 for none."""
    found = re.fullmatch(r"(.*?)(\d+)", name)
    return (found[1], int(found[2])) if found else (name, -1)
