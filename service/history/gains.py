"""Records the gain predicted for each rollout, and the one measured after it."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from rollout.state import Phase, RolloutState
from service.history.measured import Measured, MeasuredGain, measured_gain
from service.ingest.window_owner import WindowOwner
from service.metrics import Metrics
from service.rollouts.watch import Mark, Watcher
from service.tuning.entry import Entry, PredictedGain
from store import gain_rows
from store.database import Recorder
from store.gain_rows import GainRow
from store.tables import takeable
from telemetry.network.assemble import Snapshot
from telemetry.network.figures import window_figures
from telemetry.settings import NS_PER_S
from telemetry.state import NetworkState
from twin.prediction import BLOCKS

WINDOWS = 4
"""Windows measured after a rollout, one after the other.

The first gives a figure soon; three more halve its own error. The error of the one window before the rollout
remains, and traffic drifts: more windows would gain little.
"""
LOOK_EVERY_S = 1.0

_log = logging.getLogger("ecntwin.history")


class GainHistory:
    """Follows one rollout at a time, the newest; for one event loop.

    A service that restarts measures anew where the rollout has not ended; else what was measured stays.
    """

    def __init__(
        self, recorder: Recorder, *, window: WindowOwner, watcher: Watcher, metrics: Metrics
    ) -> None:
        self._recorder = recorder
        self._window = window
        self._watcher = watcher
        self._metrics = metrics
        self._rollout: str | None = None
        self._task: asyncio.Task[None] | None = None

    async def of_window(
        self, snapshot: Snapshot, state: NetworkState, mark: Mark | None = None
    ) -> Measured | None:
        """The figures of this window that a gain compares, with counters since ``mark``, else of the last
        minute.

        None where that fails, which is logged: the round continues without.
        """
        try:
            found = await asyncio.to_thread(window_figures, snapshot, state.topology, n_blocks=BLOCKS)
            return Measured.of(found, await self._watcher.counted(state.topology.switches, mark))
        except Exception:
            _log.exception("the window of a gain could not be measured")
            return None

    def follow(self, rollout: RolloutState, entry: Entry | None) -> None:
        """Handles an event of a rollout; ``entry`` is its recommendation. Dry runs change nothing."""
        if not rollout.plan.written:
            return
        together = rollout.plan.nics or rollout.plan.by_role
        predicted = None if entry is None else entry.gain_together if together else entry.gain
        back = rollout.phase in (Phase.ROLLING_BACK, Phase.ROLLED_BACK)
        if rollout.phase is Phase.PROPOSED or (back and self._rollout == rollout.plan.id):
            self.stop()  # the running watermark changes
        if back:
            self._change(rollout.plan.recommendation, why=takeable(rollout.why or "rolled back"))
        elif entry is None or predicted is None:
            return
        elif rollout.phase is Phase.PROPOSED:
            self._recorder.put(partial(gain_rows.put, row=_row(rollout, entry.id, predicted)))
        elif _all_set(rollout) and self._rollout != rollout.plan.id and entry.before is not None:
            self.stop()
            self._rollout = rollout.plan.id
            self._task = asyncio.create_task(
                self._measure(entry.id, predicted, entry.before), name=f"gain-{entry.id}"
            )

    def stop(self) -> None:
        """Ends the measurement in progress; results so far stay."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _measure(self, recommendation: str, predicted: PredictedGain, before: Measured) -> None:
        try:
            _, state = await self._window_from(0)  # after a restart there is no window yet
            mark = await self._watcher.mark(state.topology.switches)
            after: list[Measured] = []
            from_ns = mark.reports_ns or 0
            while len(after) < WINDOWS:
                snapshot, state = await self._window_from(from_ns)
                found = await self.of_window(snapshot, state, mark)
                if found is None:
                    return
                after.append(found)
                gain = measured_gain(before, after, predicted.policy)
                if gain is not None:
                    self._found(recommendation, predicted, gain, len(after))
                from_ns = state.window_end_ns
        except Exception:
            _log.exception("the gain of recommendation %s could not be measured", recommendation)

    async def _window_from(self, from_ns: int) -> tuple[Snapshot, NetworkState]:
        """The first full window that begins at or after that time of the reports' clock."""
        while True:
            start_ns = self._window.start_ns
            if start_ns is not None and start_ns >= from_ns and self._window.warm:
                return await self._window.seen()
            await asyncio.sleep(LOOK_EVERY_S)

    def _found(
        self, recommendation: str, predicted: PredictedGain, gain: MeasuredGain, n_windows: int
    ) -> None:
        self._change(recommendation, measured=gain.value, measured_error=gain.error)
        if predicted.value is not None:
            self._metrics.saw_gain(predicted.value, gain.value)
        _log.info(
            "recommendation %s: gain predicted %s, measured %.3f ± %.3f over %d windows",
            recommendation,
            predicted.value,
            gain.value,
            gain.error,
            n_windows,
        )

    def _change(self, recommendation: str, **values: float | str) -> None:
        self._recorder.put(
            partial(gain_rows.change, recommendation=recommendation, values=values),
            key=("gain", recommendation, *values),
        )


def _row(rollout: RolloutState, recommendation: str, predicted: PredictedGain) -> GainRow:
    return GainRow(
        recommendation=recommendation,
        at_ns=round(rollout.proposed_s * NS_PER_S),
        policy=predicted.policy_name,
        predicted=predicted.value,
        predicted_error=predicted.error,
    )


def _all_set(rollout: RolloutState) -> bool:
    """Whether every switch in the plan runs the change."""
    last = rollout.stage == len(rollout.plan.stages) - 1
    return rollout.phase is Phase.DONE or (rollout.phase is Phase.SOAK and last)
