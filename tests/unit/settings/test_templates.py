"""Templates of the inventory: who has which, and mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossless.fabric import Template
from settings.errors import SettingsError
from settings.inventory import Inventory
from twin.watermark import Watermark

WHOLE = """
defaults: {platform: sonic, template: leaf}
profiles:
  spine: {template: spine}
switches:
  leaf1: {address: 10.0.0.1}
  spine1: {address: 10.0.0.2, profile: spine}
  other: {address: 10.0.0.3, template: null}
classes:
  h100: {platform: connectx, template: nic}
hosts:
  gpu1: {class: h100, address: 10.1.0.1}
  gpu2: {platform: connectx, address: 10.1.0.2}
templates:
  leaf:
    pfc: [3]
    watermark: {kmin_bytes: 150KB, kmax_bytes: 1.5MB, pmax: 10%}
    watermarks: {leaf-up-400G: {kmin_bytes: 300KB, kmax_bytes: 3MB, pmax: 0.2}}
    alpha: 0.125
    headroom_bytes: 60KB
  spine: {pfc: [3, 4], xoff_bytes: 1MB}
  nic: {dcqcn: {rpg_ai_rate: 5, cnp_dscp: 48}}
"""


def inventory(tmp_path: Path, text: str) -> Inventory:
    path = tmp_path / "inventory.yaml"
    path.write_text(text, "utf-8")
    return Inventory.read(path)


def test_a_template_comes_with_profile_class_or_default(tmp_path: Path) -> None:
    found = inventory(tmp_path, WHOLE)
    assert found.templates == {
        "leaf1": Template(
            name="leaf",
            pfc=frozenset({3}),
            watermark=Watermark(150_000, 1_500_000, 0.1),
            by_role={"leaf-up-400G": Watermark(300_000, 3_000_000, 0.2)},
            alpha=0.125,
            headroom_bytes=60_000,
        ),
        "spine1": Template(name="spine", pfc=frozenset({3, 4}), xoff_bytes=1_000_000),
    }
    assert found.host_templates == {"gpu1": Template(name="nic", dcqcn={"rpg_ai_rate": 5, "cnp_dscp": 48})}


def template(says: str, of: str = "switches: {leaf1: {platform: sonic, template: t}}") -> str:
    return f"{of}\ntemplates: {{t: {says}}}\n"


HOST = "switches: {a: {platform: sonic}}\nhosts: {gpu1: {platform: connectx, template: t}}"
MARK = "{kmin_bytes: 1000, kmax_bytes: 2000, pmax: 0.1}"


@pytest.mark.parametrize(
    ("text", "where", "rule"),
    [
        (
            template(f"{{watermark: {MARK}}}"),
            "templates.t",
            "are of the priorities in pfc, and it names none",
        ),
        (
            template("{pfc: [], headroom_bytes: 1}"),
            "templates.t",
            "of the priorities in pfc, and it names none",
        ),
        (
            template("{pfc: [3], xoff_bytes: 1, alpha: 1}"),
            "templates.t",
            "fixed (xoff_bytes) or dynamic (alpha)",
        ),
        (
            template(f"{{pfc: [3], watermark: {MARK}, xoff_bytes: 2000}}"),
            "templates.t",
            "Kmax 2000 must be below xoff_bytes 2000",
        ),
        (
            template(f"{{pfc: [3], watermarks: {{leaf-up-1G: {MARK}}}, xoff_bytes: 2000}}"),
            "templates.t",
            "Kmax 2000 must be below xoff_bytes 2000",
        ),
        (
            template("{pfc: [3], watermark: {kmin_bytes: 2, kmax_bytes: 1, pmax: 0.1}}"),
            "watermark",
            "Kmin must be",
        ),
        (template("{pfc: [8]}"), "templates.t.pfc", "less than or equal to 7"),
        (template("{pfc: [3], xon: 3}"), "templates.t.xon", "known keys here are alpha"),
        (template("{dcqcn: {rpg_ai_rate: 0}}", HOST), "templates.t", "dcqcn rpg_ai_rate: a NIC takes 1 to"),
        (template("{dcqcn: {ai_rate: 5}}", HOST), "templates.t", "dcqcn: parameters of a NIC are"),
        (template("{pfc: [3]}", HOST), "hosts.gpu1.template", "a host's template has dcqcn"),
        (template("{dcqcn: {rpg_ai_rate: 5}}"), "switches.leaf1.template", "a switch's template has pfc"),
        ("switches: {leaf1: {platform: sonic, template: t}}", "leaf1.template", "known templates are none"),
    ],
)
def test_a_contradiction_or_mistake_is_named(tmp_path: Path, text: str, where: str, rule: str) -> None:
    with pytest.raises(SettingsError) as raised:
        inventory(tmp_path, text)
    assert where in str(raised.value)
    assert rule in str(raised.value)
