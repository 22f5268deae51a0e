"""The page of NICs says what the table of parameters says."""

from __future__ import annotations

from pathlib import Path

from nics.parameters import PARAMETERS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "nics" / "connectx.md"


def test_the_page_has_a_row_for_each_parameter_and_no_other() -> None:
    table = PAGE.read_text("utf-8").partition("\n## Parameters\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert rows == [
        [
            f"`{name}`",
            one.unit or "–",
            f"{one.least}–{'line rate' if one.most is None else one.most}",
            str(one.default),
            f"`{one.field}`" if one.field else "–",
        ]
        for name, one in PARAMETERS.items()
    ]
