"""A watermark change as a unified diff, the same for every adapter; imports nothing but the watermark."""

from __future__ import annotations

from difflib import unified_diff

from twin.watermark import Watermark


def watermark_diff(switch: str, before: Watermark | None, after: Watermark) -> str:
    """A unified diff of the three values of ``switch``; empty where nothing changes."""
    lines = unified_diff(
        _lines(before), _lines(after), fromfile=f"{switch}/running", tofile=f"{switch}/staged", lineterm=""
    )
    return "\n".join(lines)


def _lines(watermark: Watermark | None) -> list[str]:
    if watermark is None:
        return []
    return [
        f"kmin_bytes: {watermark.kmin_bytes}",
        f"kmax_bytes: {watermark.kmax_bytes}",
        f"pmax: {watermark.pmax:g}",
    ]
