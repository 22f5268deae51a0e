"""How long a service asks to be left alone, by its answer; must not know what was posted."""

from __future__ import annotations

import httpx

LONGEST_ASKED_S = 60.0


def retry_after_s(answer: httpx.Response) -> float:
    """Seconds that ``Retry-After`` asks for (at most a minute); 0 where it asks for none, or names a date."""
    told = answer.headers.get("retry-after", "").strip()
    return min(float(told), LONGEST_ASKED_S) if told.isdecimal() else 0.0
