"""Switches as documents."""

from __future__ import annotations

from api.schemas.base import Document
from api.schemas.predictions import WatermarkDocument


class SwitchRecordDocument(Document):
    """One change that was made, or that a dry run would have made."""

    action: str
    watermark: WatermarkDocument | None
    at: str
    diff: str


class SwitchDocument(Document):
    """One switch: its adapter, what it runs, and the newest changes first."""

    name: str
    adapter: str
    writes: bool
    running: WatermarkDocument | None
    read_at: str
    records: list[SwitchRecordDocument]
