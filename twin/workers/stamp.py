"""What decides the figures that a process predicts besides its input; must not import Dask."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_name

_TWIN = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Stamp:
    """Versions of a process. Two processes with equal stamps predict the same; other ones may not."""

    ecntwin: str
    code: str
    python: str
    numpy: str
    numba: str
    processor: str

    def __str__(self) -> str:
        return (
            f"ecntwin {self.ecntwin} (code {self.code}), Python {self.python}, NumPy {self.numpy}, "
            f"numba {self.numba} for {self.processor}"
        )


# Once a process: the code that it has loaded does not change.
@cache
def own_stamp() -> Stamp:
    """This process's."""
    return Stamp(
        ecntwin=_version(),
        code=code_digest(_TWIN),
        python=".".join(platform.python_version_tuple()[:2]),
        numpy=np.__version__,
        numba=numba.__version__,
        processor=_processor(),
    )


def code_digest(folder: Path) -> str:
    """A short digest of the Python files below ``folder``: their names and what is in them."""
    digest = blake2b(digest_size=6)
    for file in sorted(folder.rglob("*.py"), key=lambda file: file.relative_to(folder).as_posix()):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(folder).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _processor() -> str:
    """What kernels are compiled for, chosen as numba does."""
    told: str | None = numba.config.CPU_NAME  # type: ignore[attr-defined] # set while it is imported
    return told or str(get_host_cpu_name())


def _version() -> str:
    try:
        return version("ecntwin")
    except PackageNotFoundError:
        return "from its source tree"
