"""What an operator wrote down of switches and NICs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nics.parameters import Values
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What is None or missing is not said.

    ``pfc`` are all priorities on which PFC is on, and the rest is of each of these: the ``watermark`` of its
    queue, of ports of some roles that ``by_role``; the fixed threshold ``xoff_bytes`` or the ``alpha`` of a
    dynamic one; ``headroom_bytes``. ``dcqcn`` are parameters of a NIC under the driver's names.
    """

    name: str
    pfc: frozenset[int] | None = None
    watermark: Watermark | None = None
    by_role: Mapping[str, Watermark] = field(default_factory=dict)
    xoff_bytes: int | None = None
    alpha: float | None = None
    headroom_bytes: int | None = None
    dcqcn: Values = field(default_factory=dict)
