"""The pages of NICs say what the tables of parameters say."""

from __future__ import annotations

import re
from pathlib import Path

from nics.broadcom import SAME_COUNTERS, SAME_VALUES
from nics.parameters import PARAMETERS, value_text

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs" / "nics"


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


def test_the_dashboard_shows_what_a_round_may_set_in_these_units() -> None:
    source = (ROOT / "web" / "src" / "recommendation" / "nic-values.ts").read_text("utf-8")
    units = dict(re.findall(r'(\w+): "([^"]+)"', source.partition("UNITS")[2].partition("};")[0]))
    tuned = [name for name, one in PARAMETERS.items() if one.field] + ["min_time_between_cnps"]
    for name in tuned:
        assert f"{7}{units.pop(name, '')}" == value_text(name, 7)
    assert not units
