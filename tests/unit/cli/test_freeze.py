"""How commands say whether switches are frozen."""

from __future__ import annotations

import pytest

from cli.answers import FreezeAnswer
from cli.rollouts import freeze_text


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (FreezeAnswer(frozen=False, by=None, at=None), "Not frozen"),
        (FreezeAnswer(frozen=True, by="ada", at=None), "Frozen by ada"),
        (
            FreezeAnswer(frozen=True, by="ada", at=None, saved=False),
            "Frozen by ada; not saved yet, as the database cannot be written: a restart ends it",
        ),
        (
            FreezeAnswer(frozen=True, by=None, at=None, unknown="the journal could not be read"),
            "Frozen or not is unknown: the journal could not be read",
        ),
    ],
)
def test_a_freeze_is_said_in_words(found: FreezeAnswer, said: str) -> None:
    assert str(freeze_text(found)) == said
