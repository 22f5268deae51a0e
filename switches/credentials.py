"""Secrets by the name of where they are: an environment variable or a mounted file; never their text.

The text is read when it is used, so that a rotated file is seen, and is never kept, shown or logged.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from switches.errors import CredentialsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """One secret: exactly one of ``env``, a variable's name, and ``file``, whose first line it is."""

    env: str | None = None
    file: Path | None = None

    def __str__(self) -> str:
        return f"${self.env}" if self.env is not None else f"file {self.file}"

    def reveal(self, where: str) -> str:
        """The text; raises ``CredentialsError`` where it is not there or empty."""
        text = os.environ.get(self.env, "") if self.env is not None else self._read(where)
        if not text:
            raise CredentialsError(where, f"nothing in {self}", "a secret that is named is there", "set it")
        return text

    def _read(self, where: str) -> str:
        if self.file is None:
            raise CredentialsError(where, "neither env nor file", "a secret names one of them", "give one")
        try:
            return self.file.read_text("utf-8").partition("\n")[0].strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CredentialsError(
                where,
                f"{self}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}",
                "a secret's file is readable",
                "mount it, or correct its path",
            ) from error
