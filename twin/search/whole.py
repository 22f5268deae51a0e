"""Leaders' runs on more than all candidates were compared on; they decide.

That is the whole of a fabric that was searched in slices, or long moments that were searched at their start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from twin.prediction import Prediction, over_moments, stretched
from twin.scenario import Scenario
from twin.search.disagreement import moved_with
from twin.search.gain import Gain, gain_over, joined_over_moments, persistent_bytes_share
from twin.search.problem import SearchSettings
from twin.watermark import Watermark
from twin.workers.pool import Task


class WholeRuns:
    """Predictions of the newest whole ``moments``, which ``files`` hold, by candidate number.

    ``incumbent`` are the incumbent's, candidate 0, where it has run. Without moments nothing runs and nothing
    changes. ``stage`` names these runs.
    """

    def __init__(
        self,
        stage: str,
        moments: Sequence[Scenario],
        files: Sequence[Path],
        settings: SearchSettings,
        seed: int,
        incumbent: Sequence[Prediction] = (),
    ) -> None:
        self._stage = stage
        self._moments = moments
        self._files = files
        self._settings = settings
        self._seed = seed
        self._runs: dict[int, Sequence[Prediction]] = {0: incumbent} if incumbent else {}

    def __bool__(self) -> bool:
        return bool(self._moments)

    def run(
        self,
        candidates: Collection[int],
        watermarks: Sequence[Watermark],
        n_workers: int,
        predict: Callable[[str, Sequence[Task]], list[list[Prediction]]],
    ) -> None:
        """Runs those that have not run, and the incumbent, spread over the workers."""
        fresh = [number for number in dict.fromkeys((0, *candidates)) if number not in self._runs]
        if not self or not fresh:
            return
        size = math.ceil(len(fresh) * len(self._moments) / max(n_workers, 1))
        chunks = [fresh[first : first + size] for first in range(0, len(fresh), size)]
        tasks = [
            Task(
                file,
                self._settings.engine,
                moment.duration_s,
                tuple(watermarks[number] for number in chunk),
                self._seed,
            )
            for moment, file in zip(self._moments, self._files, strict=False)
            for chunk in chunks
        ]
        found = predict(self._stage, tasks)
        for place, chunk in enumerate(chunks):
            by_moment = found[place :: len(chunks)]
            self._runs.update(zip(chunk, zip(*by_moment, strict=True), strict=True))

    def estimate(self, on_slices: Callable[[int], Prediction]) -> Callable[[int], Prediction]:
        """Every candidate's prediction of the whole, of those that have not run there by their slices'."""
        whole = {number: over_moments(runs) for number, runs in self._runs.items()}
        stretch = stretched([on_slices(number) for number in whole], list(whole.values()))
        return lambda number: whole[number] if number in whole else stretch(on_slices(number))

    def decide(self, gains: list[Gain], watermarks: Sequence[Watermark], n_looks: int) -> list[Gain]:
        """Gains on the whole of those that ran there; the others' are moved as these near them were."""
        if not self._runs:
            return gains
        weights = [run.goodput_bytes_per_s * moment.duration_s for run, moment in self._incumbent]
        whole: Mapping[int, Gain] = {
            number: joined_over_moments(
                [
                    gain_over(
                        now,
                        new,
                        self._settings.policy,
                        persistent_bytes_share(moment, now.goodput_bytes_per_s),
                    ).repeated(moment.repeated)
                    for (now, moment), new in zip(self._incumbent, runs, strict=True)
                ],
                weights,
                n_looks,
            )
            for number, runs in self._runs.items()
        }
        return moved_with(gains, whole, watermarks)

    @property
    def _incumbent(self) -> list[tuple[Prediction, Scenario]]:
        return list(zip(self._runs[0], self._moments, strict=True))
