"""The topology as a document, in the format it is declared in."""

from __future__ import annotations

from typing import Any, Self

from service.documents.base import Document
from telemetry.topology import Topology


class TopologyDocument(Document):
    """What was declared, and what the hops of reports show."""

    declared: dict[str, Any] | None
    discovered: dict[str, Any] | None

    @classmethod
    def of(cls, declared: Topology | None, discovered: Topology | None) -> Self:
        """The document of the two."""
        return cls(
            declared=declared.to_json() if declared else None,
            discovered=discovered.to_json() if discovered else None,
        )
