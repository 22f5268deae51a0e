"""AI-ECN as it can be built from what is public: a model where it is confident, else a heuristic search.

[P: Huawei CE manual] a neural model for known scenes (mode ``NN``), heuristic search for unknown ones
(``BBR``); [A: US 11671368, US 2022/0294736] the model gives a confidence, a step is kept if the reward rose.
Features, network, steps and periods are in no source: all of them [O].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bench.rivals.tuner import FabricFacts, Floats, Looks, Seen, Settings, Tuner, by_rate
from bench.rivals.tuners.monitor import LADDER_BYTES, Monitor, rewards
from bench.rivals.tuners.networks import Adam, Mlp, Reals, log_softmax
from bench.rivals.tuners.policy import Policy
from bench.rivals.tuners.probing import bounded
from twin.watermark import Watermark

KIND = "ai-ecn"
FEATURES = ("used", "queue", "peak", "marked", "incast", "mice")
WINDOW = 10  # intervals between decisions
REWARD = (0.3, 0.7)
CONFIDENT = 0.7

# What the model chooses from, at 25 Gbit/s and in proportion to the rate: Kmin, then Kmax ÷ Kmin and Pmax.
SETTINGS = tuple(
    (kmin, min(kmin * ratio, 16_000_000), pmax)
    for kmin in (7_000, 18_000, 45_000, 110_000, 280_000, 700_000)
    for ratio, pmax in ((1.5, 1.0), (4.0, 0.2), (4.0, 0.02), (40.0, 0.01))
)
HIDDEN = (32, 32)
FIT_RATE, FIT_STEPS, FIT_ROWS = 1e-3, 4_000, 256

FIRST_STEPS = np.log([1.25, 0.8])  # of both thresholds, of Pmax
LEAST_STEP = np.log(1.05)
BETTER = 1.01
WOKEN_BY = 0.2
LEAST_MARKED = 0.01  # a share below it does not wake when it moves


def settings_at(rates_bytes_per_s: Floats, number: int) -> tuple[Watermark, ...]:
    """The setting of this number on ports of these rates, within the bounds of all candidates."""
    marks = by_rate(rates_bytes_per_s, *SETTINGS[number])
    return tuple(bounded(mark.kmin_bytes, mark.kmax_bytes, mark.pmax) for mark in marks)


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Several intervals of each queue: ``features`` [queue, feature], the others [queue]."""

    features: Floats
    reward: Floats
    used: Floats
    marked: Floats
    busy: NDArray[np.bool_]


class Windows:
    """Sums up intervals into windows."""

    def __init__(self, facts: FabricFacts, reward: tuple[float, float], *, flows: bool) -> None:
        self._facts, self._reward, self._flows = facts, reward, flows
        self._monitor = Monitor(facts, flows=flows)
        self._seen: list[Seen] = []
        self._of_flows: list[list[Floats]] = []

    def after(self, seen: Seen) -> Window | None:
        """The window that this interval completes; None where it completes none."""
        self._seen.append(seen)
        if self._flows:
            self._of_flows.append(self._monitor.flow_features(seen))
        if len(self._seen) < WINDOW:
            return None
        all_of, flows = self._seen, self._of_flows
        self.forget()
        facts = self._facts
        lasted_s = sum(one.lasted_s for one in all_of)
        sent = np.sum([one.sent_bytes for one in all_of], axis=0)
        used = sent / (facts.rate_bytes_per_s * lasted_s)
        marked = np.sum([one.marked_bytes for one in all_of], axis=0) / np.maximum(sent, 1.0)
        deep = [
            np.mean([one.depth_mean_bytes for one in all_of], axis=0),
            np.max([one.depth_peak_bytes for one in all_of], axis=0),
        ]
        unit = LADDER_BYTES[0]
        scale = np.log2(1 + facts.sizes.buffer_bytes / unit)
        features = [used, *(np.log2(1 + one / unit) / scale for one in deep), marked]
        if flows:
            features += list(np.mean(flows, axis=0))
        earned, busy = np.array([rewards(facts, one, self._reward) for one in all_of]).transpose(1, 0, 2)
        return Window(np.stack(features, axis=1), earned.mean(axis=0), used, marked, busy.any(axis=0))

    def forget(self) -> None:
        self._seen, self._of_flows = [], []


class Climb:
    """The heuristic of each queue: multiply, keep what paid, else take it back, reverse, take smaller steps.

    The two knobs take turns. Raising while things improve would drift upward for ever: hence the taking back.
    """

    def __init__(self, marks: tuple[Watermark, ...]) -> None:
        count = len(marks)
        # [queue, 3]: ln Kmin, ln Kmax, ln Pmax, of what stands and of what is tried.
        self._stands = np.array([np.log([one.kmin_bytes, one.kmax_bytes, one.pmax]) for one in marks])
        self._tries = self._stands.copy()
        self._steps = np.tile(FIRST_STEPS, (count, 1))
        self._knob = np.ones(count, dtype=np.int64)  # the last one tried; thresholds are first
        self.trying = np.zeros(count, dtype=np.bool_)
        self.resting = np.zeros(count, dtype=np.bool_)
        self._stood_for = np.zeros(count)
        self._at_rest = np.zeros((count, 2))

    def restart(self, queues: NDArray[np.bool_], marks: tuple[Watermark, ...]) -> None:
        """Starts these queues again, from ``marks``."""
        fresh = Climb(marks)
        for name, mine in vars(self).items():
            mine[queues] = vars(fresh)[name][queues]

    def after(self, window: Window, queues: NDArray[np.bool_]) -> None:
        """Keeps or takes back what these queues tried, and tries the next step."""
        tried = queues & self.trying
        better = tried & (window.reward > self._stood_for * BETTER)
        worse = np.flatnonzero(tried & ~better)
        self._stands[better] = self._tries[better]
        self._steps[worse, self._knob[worse]] *= -0.5  # the square root, reversed
        keeps = better | (queues & ~self.trying)
        self._stood_for[keeps] = window.reward[keeps]
        self._tries[queues] = self._stands[queues]
        self.trying[queues] = False

        now = np.stack([window.used, window.marked], axis=1)
        moved = np.abs(now - self._at_rest) > WOKEN_BY * np.maximum(self._at_rest, [0.0, LEAST_MARKED])
        woken = queues & self.resting & moved.any(axis=1)
        self._steps[woken] = FIRST_STEPS
        self.resting[woken] = False
        large = np.abs(self._steps) >= LEAST_STEP
        tires = queues & ~self.resting & ~large.any(axis=1)
        self.resting[tires] = True
        self._at_rest[tires] = now[tires]

        on = np.flatnonzero(queues & ~self.resting)
        other = 1 - self._knob[on]
        self._knob[on] = np.where(large[on, other] | woken[on], other, self._knob[on])
        step = self._steps[on, self._knob[on]]
        thresholds = self._knob[on] == 0
        self._tries[on, :2] += np.where(thresholds, step, 0.0)[:, None]
        self._tries[on, 2] += np.where(thresholds, 0.0, step)
        self.trying[on] = True

    def watermark(self, queue: int) -> Watermark:
        """What it asks for there."""
        return bounded(*np.exp(self._tries[queue]).tolist())


class AiEcn(Tuner):
    """Decides every ``WINDOW`` intervals, each queue by itself.

    ``confident`` is the least confidence of the model: above 1 it is never asked, at 0 the heuristic never
    is. Samples are not sent to an analyser that retrains the model.
    """

    def __init__(
        self, policy: Policy | None, *, confident: float = CONFIDENT, reward: tuple[float, float] = REWARD
    ) -> None:
        self._model = None if policy is None else Mlp.named(policy.arrays, "scene", "relu")
        self._confident, self._reward = confident, reward
        self.looks = Looks.COUNTERS if policy is None else Looks.FLOWS  # type: ignore[misc]

    def begin(self, facts: FabricFacts, seed: int) -> Settings:
        self.facts = facts
        self.exploring = False
        self._windows = Windows(facts, self._reward, flows=self._model is not None)
        self._late = round(facts.delay_s / facts.interval_s)
        self._wait = 0
        self._now = list(facts.incumbent)
        self._climb = Climb(facts.incumbent)
        self.by_model = np.zeros(len(facts.queues), dtype=np.bool_)
        return Settings(facts.incumbent)

    def act(self, seen: Seen) -> Settings:
        if self._wait:
            self._wait -= 1
        else:
            window = self._windows.after(seen)
            if window is not None:
                self._decide(window)
        return Settings(tuple(self._now))

    def _decide(self, window: Window) -> None:
        setting, sure = self._asked(window.features)
        before = list(self._now)
        falls_back = window.busy & self.by_model & ~sure
        if falls_back.any():
            self._climb.restart(falls_back, tuple(self._now))
        self.by_model = np.where(window.busy, sure, self.by_model)
        climbs = window.busy & ~self.by_model
        self._climb.after(window, climbs)
        for queue in np.flatnonzero(climbs).tolist():
            self._now[queue] = self._climb.watermark(queue)
        for queue in np.flatnonzero(window.busy & sure).tolist():
            rate = self.facts.rate_bytes_per_s[queue : queue + 1]
            [self._now[queue]] = settings_at(rate, int(setting[queue]))
        self.exploring = bool((climbs & self._climb.trying).any())
        if self._now != before:
            self._wait = self._late

    def _asked(self, features: Floats) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The setting of each queue by the model, and whether it is sure."""
        count = len(features)
        if self._model is None:
            return np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
        confidence = np.exp(log_softmax(self._model(features[None])[0]))
        return confidence.argmax(axis=1), confidence.max(axis=1) >= self._confident


class Recorder(Tuner):
    """Keeps one of ``SETTINGS`` and notes the windows of busy queues, to fit the model on."""

    looks: ClassVar[Looks] = Looks.FLOWS

    def __init__(self, number: int) -> None:
        self._number = number
        self.noted: list[Floats] = []

    def begin(self, facts: FabricFacts, seed: int) -> Settings:
        self._windows = Windows(facts, REWARD, flows=True)
        self._now = Settings(settings_at(facts.rate_bytes_per_s, self._number))
        return self._now

    def act(self, seen: Seen) -> Settings:
        window = self._windows.after(seen)
        if window is not None:
            self.noted.append(window.features[window.busy].astype(np.float32))
        return self._now

    @property
    def rows(self) -> Reals:
        """[row, feature]"""
        return np.concatenate([np.zeros((0, len(FEATURES)), dtype=np.float32), *self.noted])


def fit(scenes: list[tuple[Reals, int]], seed: int) -> Policy:
    """The model of these scenes, each its rows and its best setting; every scene counts alike."""
    draws = np.random.default_rng(seed)
    model = Mlp.drawn(draws, (len(FEATURES), *HIDDEN, len(SETTINGS)), "relu", last_gain=0.1)
    adam = Adam(model, FIT_RATE)
    for _ in range(FIT_STEPS):
        of = draws.integers(len(scenes), size=FIT_ROWS)
        at = draws.random(FIT_ROWS)
        rows = np.stack(
            [
                scenes[scene][0][int(share * len(scenes[scene][0]))]
                for scene, share in zip(of, at, strict=True)
            ]
        )
        layers = model.layers(rows[None])
        slope = np.exp(log_softmax(layers[-1]))
        slope[0, np.arange(FIT_ROWS), [scenes[scene][1] for scene in of]] -= 1.0
        adam.step(model.gradients(layers, slope / FIT_ROWS))
    return Policy(KIND, FEATURES, REWARD, model.arrays("scene"), {})


def agreement(policy: Policy, scenes: list[tuple[Reals, int]]) -> dict[str, Any]:
    """How often the model is sure on these rows, and how often it then names their best setting."""
    model = Mlp.named(policy.arrays, "scene", "relu")
    sure = right = total = 0
    for rows, best in scenes:
        confidence = np.exp(log_softmax(model(rows[None])[0]))
        sure_here = confidence.max(axis=1) >= CONFIDENT
        total += len(rows)
        sure += int(sure_here.sum())
        right += int((sure_here & (confidence.argmax(axis=1) == best)).sum())
    return {"rows": total, "sure_share": sure / max(total, 1), "right_of_sure": right / max(sure, 1)}
