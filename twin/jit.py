"""Compiles kernels with numba, into a disk cache that never serves a stale kernel.

numba keys a cached kernel by its own source file, so it misses a change in a helper that it inlines. The
cache therefore lives in a folder named by a digest of every kernel source. ``NUMBA_CACHE_DIR`` moves it (a
container image sets it at build, to start warm); the default is the user's cache folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numba

from twin.workers.private_folder import make_private_folder

_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel_digest() -> str:
    """A short digest of numba's version and of all kernel sources: ``_*.py``, ``layout.py``, this file, and
    ``rtt.py``, whose inputs a kernel counts.
    """
    package = Path(__file__).parent
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for pattern in ("jit.py", "*/_*.py", "*/layout.py", "senders/rtt.py"):
        for source in sorted(package.glob(pattern)):
            digest.update(source.read_bytes())
    return digest.hexdigest()


def _cache_folder() -> Path:
    named = os.environ.get("NUMBA_CACHE_DIR")
    cache = os.environ.get("XDG_CACHE_HOME")
    base = Path(named) if named else (Path(cache) if cache else Path.home() / ".cache") / "ecntwin"
    folder = base / f"kernels-{kernel_digest()}"
    try:
        make_private_folder(folder)
        trusted = not folder.stat().st_mode & stat.S_IWOTH  # else another user may have left code in it
        if trusted and os.access(folder, os.W_OK):
            return folder
    except OSError:
        trusted = False
    copy = _own_temporary_folder() / folder.name
    if trusted:  # a warm cache on a read-only disk
        with suppress(OSError):  # what cannot be read is compiled again
            shutil.copytree(folder, copy, dirs_exist_ok=True)
    return copy


def _own_temporary_folder() -> Path:
    """A folder only this user can write to (code is loaded from it), the same one every time if possible."""
    shared = Path(tempfile.gettempdir()) / f"ecntwin-{os.getuid()}"
    shared.mkdir(mode=0o700, exist_ok=True)
    found = shared.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
        return shared
    return Path(tempfile.mkdtemp(prefix="ecntwin-"))


numba.config.CACHE_DIR = str(_cache_folder())  # type: ignore[attr-defined] # set when numba is imported


# Division by 0 gives inf as in NumPy: a branch that raises would keep LLVM from vectorising.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


def compiler(**options: Any) -> Callable[[_Function], _Function]:
    """A decorator: nopython mode, without the GIL, cached on disk; ``options`` are ``njit``'s."""

    def compiled(function: _Function) -> _Function:
        dispatcher: _Function = numba.njit(**_OPTIONS, **options)(function)
        return dispatcher

    return compiled


# Without numba's runtime (NRT) kernels cannot allocate, and save an atomic reference count for every array
# passed on: half the time of a replay step.
kernel = compiler(_nrt=False)  # called from Python
inlined = compiler(_nrt=False, forceinline=True)  # always inlined into the kernel that calls it
