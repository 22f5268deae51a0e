"""The one interface every engine answers, and the registry of engines by name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol

from twin.errors import ParameterError
from twin.prediction import Prediction, Trajectory
from twin.scenario import Scenario
from twin.watermark import Watermark


class Engine(Protocol):
    """Predicts watermarks on a scenario; holds no state between calls.

    The same scenario, watermarks and seed give the same predictions in any process, and a watermark's
    prediction does not depend on the others in the call.
    """

    name: str

    def predict(self, scenario: Scenario, watermarks: Sequence[Watermark], *, seed: int) -> list[Prediction]:
        """One prediction per watermark, in their order; a run that fails is a status, never an exception."""
        ...

    def trajectory(
        self, scenario: Scenario, watermark: Watermark, *, seed: int, sample_s: float = 1e-5
    ) -> Trajectory:
        """Queue depths of the monitored ports every ``sample_s`` over the whole scenario."""
        ...


_ENGINES = {
    "fluid": "twin.fluid.model:FluidEngine",
    "replay": "twin.replay.model:ReplayEngine",
    "packet": "twin.packet.model:PacketEngine",
}
ENGINE_NAMES = tuple(_ENGINES)


def engine(name: str) -> Engine:
    """The engine of that name; kernels are imported (and compiled) only when asked for.

    Raises ``ParameterError`` naming the known engines.
    """
    try:
        module_name, class_name = _ENGINES[name].split(":")
    except KeyError:
        raise ParameterError(
            "engine", repr(name), f"known engines are {', '.join(ENGINE_NAMES)}", "name one of them"
        ) from None
    made: Engine = getattr(import_module(module_name), class_name)()
    return made
