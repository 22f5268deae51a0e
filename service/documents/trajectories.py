"""Queue depths over time, as a recommendation and a what-if tell them."""

from __future__ import annotations

from typing import Literal, Self

from service.documents.base import Document
from twin.trajectories import Trajectories

STEP_MEAN: Literal["mean of each step"] = "mean of each step"  # what a depth is


class QueueTrajectoryDocument(Document):
    """Predicted depths of one egress queue under the incumbent and under the watermark recommended."""

    switch: str
    port: str
    incumbent_bytes: list[int]
    recommended_bytes: list[int]


class TrajectoriesDocument(Document):
    """Depths of the few deepest queues, the deepest first.

    Entry k of a list is the mean depth from k × ``step_s`` on for one step, or to ``window_s`` where that
    ends it. By the round's engine and seed alone, where the figures beside it are means over several seeds.
    """

    window_s: float
    step_s: float
    depth_is: Literal["mean of each step"]
    queues: list[QueueTrajectoryDocument]

    @classmethod
    def of(cls, found: Trajectories) -> Self:
        """The document of a round's trajectories: the incumbent's, then the recommended watermark's."""
        incumbent, recommended = found.depth_bytes
        return cls(
            window_s=found.window_s,
            step_s=found.step_s,
            depth_is=STEP_MEAN,
            queues=[
                QueueTrajectoryDocument(
                    switch=switch, port=port, incumbent_bytes=list(old), recommended_bytes=list(new)
                )
                for (switch, port), old, new in zip(found.queues, incumbent, recommended, strict=True)
            ],
        )


class AskedQueueDocument(Document):
    """Predicted depths of one egress queue under the incumbent, if there is one, and each watermark asked."""

    switch: str
    port: str
    incumbent_bytes: list[int] | None
    results_bytes: list[list[int]]


class AskedTrajectoriesDocument(Document):
    """Depths as in a ``TrajectoriesDocument``; ``results_bytes`` has a list a result, in their order."""

    window_s: float
    step_s: float
    depth_is: Literal["mean of each step"]
    queues: list[AskedQueueDocument]

    @classmethod
    def of(cls, found: Trajectories, *, incumbent: bool) -> Self:
        """The document of trajectories of which the first may be the incumbent's."""
        runs = [[list(queue) for queue in run] for run in found.depth_bytes]
        asked = runs[1:] if incumbent else runs
        return cls(
            window_s=found.window_s,
            step_s=found.step_s,
            depth_is=STEP_MEAN,
            queues=[
                AskedQueueDocument(
                    switch=switch,
                    port=port,
                    incumbent_bytes=runs[0][row] if incumbent else None,
                    results_bytes=[run[row] for run in asked],
                )
                for row, (switch, port) in enumerate(found.queues)
            ],
        )
