"""The settings of alarms make a rule a kind, and refuse thresholds that contradict each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from settings.sections import KINDS, AlarmSettings

ROOT = Path(__file__).resolve().parents[3]


def test_each_kind_has_a_rule_with_its_thresholds() -> None:
    rules = AlarmSettings(pfc_storm_warning=0.1, hold_s=7.0, clear_s=8.0, clear_ratio=0.25).rules()
    assert set(rules) == set(KINDS)
    storm = rules["pfc_storm"]
    assert (storm.warning, storm.critical, storm.hold_s, storm.clear_s) == (0.1, 0.25, 7.0, 8.0)
    assert storm.clear_ratio == 0.25
    assert rules["telemetry_silent"].hold_s == 0.0
    assert rules["counter_source"].hold_s == 7.0
    assert rules["drifted"].hold_s == rules["drifted"].clear_s == 0.0


def test_a_level_can_be_switched_off() -> None:
    rule = AlarmSettings(pfc_storm_warning=None).rules()["pfc_storm"]
    assert (rule.warning, rule.critical) == (None, 0.25)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"pfc_storm_warning": 0.5}, "above pfc_storm_critical 0.25"),
        ({"pfc_storm_warning": 0}, "greater than 0"),
        ({"clear_ratio": 1.5}, "less than or equal to 1"),
        ({"every_s": 0}, "greater than 0"),
        ({"lossless_queues": [-1]}, "greater than or equal to 0"),
        ({"pfc_strom_warning": 0.5}, "Extra inputs"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        AlarmSettings.model_validate(wrong)


def test_the_runbook_has_a_row_for_each_kind_with_the_thresholds_of_the_settings() -> None:
    page = (ROOT / "docs/operate/alarms.md").read_text("utf-8")
    rows = re.findall(r"^\| \[`(\w+)`\]\(#[\w-]+\) \| [^|]+ \| ([^|]+), ([^|]+) \|", page, re.MULTILINE)
    found = {kind: (warning, critical) for kind, warning, critical in rows}
    rules = AlarmSettings().rules()
    assert set(found) == set(KINDS)
    for kind, (warning, critical) in found.items():
        for text, threshold in ((warning, rules[kind].warning), (critical, rules[kind].critical)):
            if text in ("none", "–"):
                assert threshold is None, kind
            else:
                assert float(text.replace(" ", "")) == threshold, kind
