"""Folders that only their owner may read."""

from __future__ import annotations

from pathlib import Path

OWNER_ONLY = 0o700


def make_private_folder(folder: Path) -> None:
    """Creates ``folder`` and missing parents with mode 0700, whatever the umask.

    A folder that exists keeps its mode. Raises ``OSError``.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(OWNER_ONLY, exist_ok=True)
    folder.mkdir(exist_ok=True)  # an error where a file is in its place
