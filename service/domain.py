"""Settings converted to the parameters of telemetry and twin."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from service.tuning.fabric import Fabric
from service.tuning.moments import Moments
from service.tuning.round import Ask
from settings.errors import SettingsError
from settings.inventory import Inventory
from settings.model import Settings
from settings.version import ecntwin_version
from telemetry.decode.p4.devices import Devices
from telemetry.errors import TopologyError
from telemetry.topology import Topology, topology_from_json
from twin.search.problem import SearchSettings
from twin.search.push_gate import GateSettings
from twin.search.score import weights_for


def inventory_of(settings: Settings) -> Inventory | None:
    """The inventory that the settings name; raises ``SettingsError``."""
    return None if settings.push.inventory is None else Inventory.read(settings.push.inventory)


def reporting_of(settings: Settings, inventory: Inventory | None) -> Devices:
    """The devices that report INT under these settings; raises ``SettingsError``."""
    default = settings.telemetry.int_.default_units.profile()
    return Devices(default=default) if inventory is None else inventory.reporting(default)


def gate_of(settings: Settings) -> GateSettings:
    tuning = settings.tuning
    return GateSettings(
        bounds=settings.bounds.bounds(),
        max_step=tuning.max_step or math.inf,
        cool_down_s=tuning.cool_down_s,
        fresh_for_s=tuning.stale_after_s,
        residual_limit=tuning.residual_limit,
        disagreement_limit=tuning.disagreement_limit or math.inf,
    )


def moments_of(settings: Settings) -> Moments:
    tuning = settings.tuning
    return Moments(
        tuning.moments, moment_s=tuning.moment_s, long_s=tuning.long_moment_s, over_s=tuning.moments_over_s
    )


def ask_of(settings: Settings) -> Ask:
    fabric, search = settings.fabric, settings.search
    return Ask(
        fabric=Fabric(
            dcqcn=settings.dcqcn.params(),
            mtu_payload_bytes=fabric.mtu_payload_bytes,
            wire_overhead_bytes=fabric.wire_overhead_bytes,
            buffer_bytes=fabric.buffer_bytes,
            pfc=fabric.pfc,
        ),
        search=SearchSettings(
            candidates=search.candidates,
            narrowed=search.narrowed,
            margin=settings.tuning.margin,
            score=search.score,
            policy=search.policy(),
            weights=weights_for(search.weights, search.policy()),
            bounds=settings.bounds.bounds(),
            second_engine=search.second_opinion,
            second_candidates=search.second_opinion_candidates,
            second_seeds=search.second_opinion_seeds,
            second_packet_hops=search.second_opinion_packet_hops,
            second_margin=search.second_opinion_margin,
            budget_s=settings.tuning.budget_s,
            what=settings.tuning.what,
            sender_bounds=settings.tuning.sender_bounds(),
            collision_ratio=settings.tuning.collision_ratio,
        ),
        base=None if search.base is None else search.base.watermark(),
        seed=search.seed,
        version=ecntwin_version(),
        residual_limit=settings.tuning.residual_limit,
    )


def load_topology(path: Path | None) -> Topology | None:
    """The declared topology in a file, checked; raises ``SettingsError``."""
    if path is None:
        return None
    try:
        document: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise SettingsError(
            "settings fabric.topology",
            str(path),
            error.strerror or "the file must be readable",
            "correct the path",
        ) from error
    except ValueError as error:
        raise SettingsError(
            "settings fabric.topology", f"{path.name}: {error}", "the file must be JSON", "correct it"
        ) from error
    try:
        return topology_from_json(document, where=path.name)
    except TopologyError as error:
        raise SettingsError(error.where, error.received, error.rule, error.remedy) from error
