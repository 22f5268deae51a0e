"""The interface of an engine, and the registry of engines by name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from twin.errors import check_known

if TYPE_CHECKING:
    from twin.prediction import Prediction, Trajectory
    from twin.scenario import Scenario
    from twin.watermark import Setting

# NAME is ``twin.NAME.model.NameEngine``.
EngineName = Literal["replay", "fluid", "packet"]
SecondEngineName = Literal["packet"]  # engines faithful enough to review the first one's pick
ENGINE_NAMES: tuple[EngineName, ...] = get_args(EngineName)
DEFAULT_ENGINE: EngineName = "replay"
DEFAULT_SECOND_ENGINE: SecondEngineName = "packet"
ONE_BY_ONE: frozenset[EngineName] = frozenset({"packet"})  # engines whose every run is long


class Engine(Protocol):
    """Predicts watermarks on a scenario; holds no state between calls.

    The same scenario, watermarks and seed give the same predictions in any process, and a watermark's
    prediction does not depend on the others in the call.
    """

    name: str

    def predict(self, scenario: Scenario, watermarks: Sequence[Setting], *, seed: int) -> list[Prediction]:
        """One prediction per watermark, in their order; a run that fails is a status, never an exception."""
        ...

    def trajectory(
        self, scenario: Scenario, watermark: Setting, *, seed: int, sample_s: float = 1e-5
    ) -> Trajectory:
        """Queue depths of the monitored ports every ``sample_s`` over the whole scenario."""
        ...


def check_engine(name: str) -> None:
    """Raises ``ParameterError`` for an unknown name."""
    check_known("engine", name, ENGINE_NAMES, "engines")


def engine(name: str) -> Engine:
    """The engine of that name, imported (and its kernels compiled) on first use; see ``check_engine``."""
    check_engine(name)
    made: Engine = getattr(import_module(f"twin.{name}.model"), f"{name.title()}Engine")()
    return made
