"""What the audit log says of an approval: what its switches ran, and what they shall run."""

from __future__ import annotations

from typing import Any

from service.documents.predictions import WatermarkDocument
from service.documents.recommendation import RecommendationDocument


def before_and_after(document: RecommendationDocument) -> tuple[dict[str, Any], dict[str, Any]]:
    """The incumbent before, and what was staged on which switches by which rollout."""
    staged = None if document.staged is None else _watermark(document.staged)
    after = {
        "status": document.status,
        "rollout": document.rollout,
        "watermark": staged,
        "switches": list(document.switches),
    }
    return {"watermark": _watermark(document.incumbent)}, after


def _watermark(document: WatermarkDocument) -> dict[str, Any]:
    """Without what was predicted of it."""
    return document.model_dump(include=set(WatermarkDocument.model_fields))
