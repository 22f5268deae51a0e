"""The watermarks that advice chooses among: a few that between them are near the best of any state."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from twin.watermark import Watermark, WatermarkBounds

_WIDEST = WatermarkBounds()


class Code(Struct, frozen=True, forbid_unknown_fields=True):
    """A watermark for any fabric: Kmin in products of bandwidth and delay (BDP), Kmax ÷ Kmin, and Pmax."""

    kmin_bdp: Annotated[float, Meta(gt=0)]
    kmax_ratio: Annotated[float, Meta(gt=1)]
    pmax: Annotated[float, Meta(gt=0, le=1)]

    def watermark(self, bdp_bytes: float) -> Watermark:
        """The watermark where the BDP is this, inside the widest bounds."""
        kmin = min(max(self.kmin_bdp * bdp_bytes, _WIDEST.kmin_low_bytes), _WIDEST.kmin_high_bytes)
        kmax = min(max(kmin * self.kmax_ratio, kmin + 1, _WIDEST.kmax_low_bytes), _WIDEST.kmax_high_bytes)
        return Watermark(round(kmin), round(kmax), self.pmax)
