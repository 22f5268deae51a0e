"""Ends worker processes whose parent was killed and could not tell them; must not know what they do."""

from __future__ import annotations

import os
import threading
import time
from functools import lru_cache

LOOK_EVERY_S = 2.0


# Once a process.
@lru_cache(maxsize=1)
def end_with(parent: int) -> None:
    """Has this process end soon after ``parent``, its parent process, has."""
    threading.Thread(target=_watch, args=(parent,), name="ecntwin-orphan", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY_S)
    os._exit(1)
