"""One measured figure and the goal it is held against."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured ``value`` in ``unit`` with, where there is one, the ``goal`` it should reach.

    ``better`` says which side of the goal is good. ``note`` is what a reader needs beside the number: the
    ratio to the thing compared with, the batch size, the number of repeats.
    """

    name: str
    value: float
    unit: str
    goal: float | None = None
    better: Literal["lower", "higher"] = "lower"
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None where there is none, False for a value that is no number."""
        if self.goal is None:
            return None
        if math.isnan(self.value):
            return False
        return self.value <= self.goal if self.better == "lower" else self.value >= self.goal


def write(name: str, document: Any) -> None:
    path = Path(__file__).resolve().parent / "out" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
