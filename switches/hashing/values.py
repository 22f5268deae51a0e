"""What a switch hashes by, and a change of it, as values."""

from __future__ import annotations

from dataclasses import dataclass

SEEDS = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class HashReading:
    """What a switch hashes by.

    ``setting`` is the platform's name of what hashes flows anew, ``value`` what runs (None: the switch
    chooses one itself), ``choices`` the values there are; none where it is a whole number below ``SEEDS``.
    ``fields``: the header fields that are hashed, by the platform's names; None where it does not tell.
    ``fixed`` is a sentence on why it cannot be set now; None where it can. ``notes``: what setting it brings.
    """

    setting: str
    value: str | None
    choices: tuple[str, ...] = ()
    fields: tuple[str, ...] | None = None
    fixed: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedHash:
    """A checked change not yet made; ``before`` is what an undo restores."""

    id: str
    switch: str
    setting: str
    before: str | None
    after: str
    notes: tuple[str, ...] = ()

    @property
    def diff(self) -> str:
        """For a person; empty where nothing changes."""
        if self.before == self.after:
            return ""
        was = "chosen by the switch" if self.before is None else self.before
        lines = (f"-{self.setting}: {was}", f"+{self.setting}: {self.after}")
        return "\n".join([*lines, *(f"# {note}" for note in self.notes)])
