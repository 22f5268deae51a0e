"""The twin's error tree.

TwinError
├── WatermarkError    a (Kmin, Kmax, Pmax) that no switch could run
├── ParameterError    a DCQCN or search parameter outside its meaning
├── ScenarioError     a scenario that is malformed or cannot be simulated
└── SearchError       a tuning round that could not finish (lost workers, nothing feasible)
"""

from __future__ import annotations

from telemetry.errors import ExplainedError


class TwinError(ExplainedError, ValueError):
    """A caller's mistake or a round that could not finish."""


class WatermarkError(TwinError):
    """A (Kmin, Kmax, Pmax) that no switch could run."""


class ParameterError(TwinError):
    """A DCQCN or search parameter outside its meaning."""


class ScenarioError(TwinError):
    """A scenario that is malformed or cannot be simulated."""


class SearchError(TwinError):
    """A tuning round that could not finish."""
