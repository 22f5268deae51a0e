"""What a change is called on a device, as a session or a checkpoint; imports nothing of a platform."""

from __future__ import annotations

import hashlib
import re

PREFIX = "ecntwin-"
_LONGEST = 48


def name_of(change_id: str) -> str:
    """Letters, digits, dashes and underscores only, and the same for the same change in every process.

    Two changes have two names, also where their ids differ in other characters only.
    """
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", change_id)
    if plain != change_id or len(plain) > _LONGEST:
        digest = hashlib.sha256(change_id.encode()).hexdigest()[:8]
        plain = f"{plain[: _LONGEST - 9]}-{digest}"
    return PREFIX + plain
