"""The pages of NICs say what the tables of parameters say."""

from __future__ import annotations

from pathlib import Path

from nics.broadcom import SAME_COUNTERS, SAME_VALUES
from nics.parameters import PARAMETERS

DOCS = Path(__file__).resolve().parents[3] / "docs" / "nics"


def test_the_page_has_a_row_for_each_parameter_and_no_other() -> None:
    table = (DOCS / "connectx.md").read_text("utf-8").partition("\n## Parameters\n")[2].partition("\n## ")[0]
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


def test_the_page_of_broadcom_has_a_row_for_each_name_that_is_another_here() -> None:
    table = (DOCS / "broadcom.md").read_text("utf-8").partition("| the driver's name | here |\n")[2]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert rows == [[f"`{name}`", f"`{here}`"] for name, here in (SAME_VALUES | SAME_COUNTERS).items()]
