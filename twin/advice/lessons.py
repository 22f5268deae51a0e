"""What a tuning round teaches: the features of its traffic, and what each watermark that it tried gains."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Self

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from twin.advice.features import FEATURES
from twin.search.recommendation import ScoredCandidate


class Lesson(Struct, frozen=True):
    """``features`` by name, so that another version knows whether it has the same; ``bdp_bytes``: what their
    bytes are in; ``tried``: Kmin and Kmax in bytes, Pmax, and the gain over the incumbent by the policy of
    the features (None: its run failed).
    """

    features: dict[str, float]
    bdp_bytes: float
    tried: list[tuple[int, int, float, float | None]]

    @classmethod
    def of(cls, row: NDArray[np.float64], bdp_bytes: float, candidates: Sequence[ScoredCandidate]) -> Self:
        marks = ((one.watermark, one.score) for one in candidates)
        return cls(
            dict(zip(FEATURES, row.tolist(), strict=True)),
            bdp_bytes,
            [(mark.kmin_bytes, mark.kmax_bytes, mark.pmax, gain) for mark, gain in marks],
        )

    def packed(self) -> bytes:
        """JSON, compressed: about 3 KB of 64 candidates."""
        return zlib.compress(msgspec.json.encode(self))

    @classmethod
    def unpacked(cls, document: bytes) -> Self | None:
        """None where the row is damaged, or of a version with other features."""
        try:
            found = msgspec.json.decode(zlib.decompress(document), type=cls)
        except (zlib.error, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return found if tuple(found.features) == FEATURES else None
