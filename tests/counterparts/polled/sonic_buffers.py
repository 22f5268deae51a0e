"""Buffers and cables of a SONiC switch, as rows of its redis.

Tables, names and fields are those that buffermgrd writes (sonic-swss e6b0c5b, ``cfgmgr/buffermgr.cpp``):
profile and priority groups in CONFIG_DB, and their copy in APPL_DB. The sizes are round numbers of no device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.counterparts.switches.sonic_switch import AZURE, qos_config
from twin.watermark import Watermark

Rows = dict[str, dict[str, str]]

PROFILE = "pg_lossless_100000_5m_profile"
POOL_BYTES = 20_000_000
HEADROOM_BYTES = 50_000


def sound_config(ports: Sequence[str], watermark: Watermark = AZURE) -> Rows:
    """CONFIG_DB of a switch whose lossless configuration breaks no rule: priority 3 is lossless, queue 6
    strict, and PFC begins at 10 MB at most.
    """
    rows: Rows = qos_config(ports, watermark) | {
        "BUFFER_POOL|ingress_lossless_pool": {"type": "ingress", "mode": "dynamic", "size": str(POOL_BYTES)},
        f"BUFFER_PROFILE|{PROFILE}": {
            "pool": "ingress_lossless_pool",
            "xon": "20000",
            "xoff": str(HEADROOM_BYTES),
            "size": str(20_000 + HEADROOM_BYTES),
            "dynamic_th": "0",
        },
        "CABLE_LENGTH|AZURE": dict.fromkeys(ports, "5m"),
        "SCHEDULER|scheduler.2": {"type": "STRICT"},
        "MAP_PFC_PRIORITY_TO_QUEUE|AZURE": {str(one): str(one) for one in range(8)},
    }
    for port in ports:
        rows[f"PORT|{port}"] |= {"mtu": "9100"}
        rows[f"PORT_QOS_MAP|{port}"] |= {"pfc_enable": "3", "pfc_to_queue_map": "AZURE"}
        rows[f"BUFFER_PG|{port}|3-4"] = {"profile": PROFILE}
        rows[f"QUEUE|{port}|6"] = {"scheduler": "scheduler.2"}
    return rows


def in_appl_db(rows: Mapping[str, Mapping[str, str]]) -> Rows:
    """The buffers among these rows, as buffermgrd copies them to APPL_DB."""
    copied: Rows = {}
    for key, row in rows.items():
        table, _, rest = key.partition("|")
        if table in ("BUFFER_PG", "BUFFER_PROFILE", "BUFFER_POOL"):
            copied[f"{table}_TABLE:{rest.replace('|', ':')}"] = dict(row)
    return copied
