"""The settings of alarms make a rule a kind, and refuse thresholds that contradict each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from settings.alarms import KINDS, AlarmSettings
from settings.errors import SettingsError
from settings.load import load_settings, settings_error

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


BUSY = {"name": "uplinks busy", "figure": "utilisation", "over": "80%"}


def test_a_condition_on_links_is_a_kind_with_a_rule_of_its_own() -> None:
    deep = {"name": "shallow", "figure": "depth_p99_bytes", "under": "4KB", "level": "critical", "for_s": 5}
    alarms = AlarmSettings.model_validate({"links": [BUSY | {"remedy": "Call Ada."}, deep], "clear_s": 9})
    rules = alarms.rules()
    assert set(rules) == set(KINDS) | {"link:uplinks busy", "link:shallow"}
    busy, shallow = rules["link:uplinks busy"], rules["link:shallow"]
    assert (busy.warning, busy.critical, busy.hold_s, busy.clear_s, busy.below) == (0.8, None, 60, 9, False)
    assert (shallow.warning, shallow.critical, shallow.hold_s, shallow.below) == (None, 4_000, 5, True)
    kinds = alarms.kinds()
    assert (kinds["link:uplinks busy"].unit, kinds["link:uplinks busy"].look) == ("share", "Call Ada.")
    assert "'shallow' of alarms.links" in kinds["link:shallow"].look


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"figure": "utilization"}, "'utilisation', 'forecast_utilisation'"),
        ({"over": 80}, "is a share from 0 to 1; write 0.8 or 80%"),
        ({"over": 0}, "a bound is above 0, and finite"),
        ({"over": "inf"}, "a bound is above 0, and finite"),
        ({"over": "4KB"}, "which may end in %"),
        ({"over": None}, "neither; a condition has one bound"),
        ({"under": 0.1}, "both; a condition has one bound"),
        ({"ahead_s": 60}, "only forecast_utilisation looks ahead"),
        ({"figure": "forecast_utilisation", "queues": [3]}, "forecast_utilisation is of a whole port"),
        ({"ports": ["leaf*"]}, "no pattern of switch:port"),
        ({"name": "a/b"}, "a name has letters"),
        ({"name": "n" * 33}, "at most 32"),
        ({"for_s": -1}, "greater than or equal to 0"),
        ({"clear_ratio": 0}, "greater than 0"),
    ],
)
def test_a_condition_that_could_never_work_is_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError) as refused:
        AlarmSettings.model_validate({"links": [BUSY | wrong]})
    assert says in str(settings_error(refused.value, "settings"))


def test_two_conditions_have_two_names() -> None:
    with pytest.raises(ValidationError, match="two conditions are called 'uplinks busy'"):
        AlarmSettings.model_validate({"links": [BUSY, BUSY | {"over": 0.9}]})


def test_a_misspelt_key_of_a_condition_is_told_with_the_one_meant(tmp_path: Path) -> None:
    path = tmp_path / "ecntwin.yaml"
    path.write_text("alarms: {links: [{name: busy, figure: pause_share, over: 0.5, for_secs: 3}]}", "utf-8")
    with pytest.raises(SettingsError, match=r"alarms\.links\[0\]\.for_secs.*did you mean for_s\?"):
        load_settings(path)


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
