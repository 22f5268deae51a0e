"""The twin's error tree; every message says where, what was received, the rule and the remedy.

TwinError
├── WatermarkError    a (Kmin, Kmax, Pmax) that no switch could run
├── ParameterError    a DCQCN or search parameter outside its meaning
├── ScenarioError     a scenario that is malformed or cannot be simulated
└── SearchError       a tuning round that could not finish (lost workers, nothing feasible)
"""

from __future__ import annotations


class TwinError(ValueError):
    """A caller's mistake or a round that could not finish, in one sentence.

    The four parts stay apart so that the HTTP service can hand them out as fields of a problem document.
    """

    def __init__(self, where: str, received: str, rule: str, remedy: str) -> None:
        self.where = where
        self.received = received
        self.rule = rule
        self.remedy = remedy
        super().__init__(f"{where}: received {received}; {rule}; {remedy}")

    def __reduce__(self) -> tuple[type[TwinError], tuple[str, str, str, str]]:
        # Exceptions cross from worker processes; the default would replay the one joined message.
        return type(self), (self.where, self.received, self.rule, self.remedy)


class WatermarkError(TwinError):
    """A (Kmin, Kmax, Pmax) that no switch could run."""


class ParameterError(TwinError):
    """A DCQCN or search parameter outside its meaning."""


class ScenarioError(TwinError):
    """A scenario that is malformed or cannot be simulated."""


class SearchError(TwinError):
    """A tuning round that could not finish."""
