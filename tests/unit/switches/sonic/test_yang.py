"""The rows that are written fit SONiC's YANG models: before, while and after a change."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("oopt_gnpy_libyang")

from switches.sonic.wred_profile import UNITS, own_name, own_prefix, with_watermark
from switches.units import DeviceWatermark, to_device
from tests.counterparts.switches.sonic_switch import qos_config, wred_row
from tests.counterparts.switches.sonic_yang import SonicModels
from twin.watermark import Watermark

PORTS = ("Ethernet0", "Ethernet4")
CHANGES = [Watermark(50_000, 200_000, 0.05), Watermark(0, 1, 0.01)]


@pytest.fixture(scope="module")
def models() -> SonicModels:
    return SonicModels()


def rebound(base: dict[str, str], device: DeviceWatermark) -> dict[str, dict[str, str]]:
    """A usual switch whose queues 3 are bound to a profile made from ``base``."""
    rows = qos_config(PORTS)
    made = with_watermark(base, device)
    name = own_name(own_prefix((3,), PORTS), made)
    rows[f"WRED_PROFILE|{name}"] = made
    for port in PORTS:
        rows[f"QUEUE|{port}|3"]["wred_profile"] = name
    return rows


@pytest.mark.parametrize(
    "base",
    [
        wred_row(Watermark(1, 2, 0.5)),
        {},
        {"ecn": "ecn_none", "wred_green_enable": "false"},
        wred_row(Watermark(1, 2, 0.5), ecn="ecn_yellow_red"),
        wred_row(Watermark(9, 99, 0.5), ecn_green_min_threshold="1", ecn_green_max_threshold="2"),
    ],
    ids=["all", "none", "off", "others", "marks-apart"],
)
def test_what_is_written_fits_the_models(models: SonicModels, base: dict[str, str]) -> None:
    if models.violations(qos_config(PORTS) | {"WRED_PROFILE|AZURE_LOSSLESS": base}):
        pytest.skip("these models have no thresholds of marking apart from dropping")
    for change in CHANGES:
        assert models.violations(rebound(base, to_device(change, UNITS).device)) == []
    highest = to_device(Watermark(2**31 - 2, 2**31 - 1, 1.0), UNITS).device
    assert models.violations(rebound(base, highest)) == []


@pytest.mark.parametrize(
    ("key", "fields"),
    [
        ("WRED_PROFILE|AZURE_LOSSLESS", {"green_min_threshold": "9999999"}),
        ("WRED_PROFILE|AZURE_LOSSLESS", {"green_drop_probability": "101"}),
        ("WRED_PROFILE|AZURE_LOSSLESS", {"owner": "ecntwin"}),
        ("WRED_PROFILE|AZURE_LOSSLESS", {"ecn": "ecn_blue"}),
        ("WRED_PROFILE|ecntwin.q3", wred_row(Watermark(1, 2, 0.5))),
        (f"WRED_PROFILE|{'E' * 33}", wred_row(Watermark(1, 2, 0.5))),
        ("QUEUE|Ethernet0|3", {"wred_profile": "NOBODYS"}),
        ("WRED_PROFILE|AZURE_LOSSLESS", {"ecn": "ecn_yellow", "ecn_green_min_threshold": "1"}),
    ],
)
def test_the_models_refuse_what_is_wrong(models: SonicModels, key: str, fields: dict[str, str]) -> None:
    rows = qos_config(PORTS)
    assert models.violations(rows) == []
    rows[key] = rows.get(key, {}) | fields
    assert models.violations(rows)


@pytest.mark.parametrize("queues", [(3,), (3, 4), tuple(range(8)), (10, 11, 12, 13)])
def test_a_name_is_one_that_the_model_takes(queues: tuple[int, ...]) -> None:
    name = own_name(own_prefix(queues, PORTS), wred_row(CHANGES[0]))
    assert re.fullmatch(r"[a-zA-Z0-9]{1}([-a-zA-Z0-9_]{0,31})", name)
    assert name.startswith("ECNTWIN_Q")
