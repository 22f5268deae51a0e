"""Configurations that a switch comes with, as OpenConfig's JSON."""

from __future__ import annotations

from typing import Any

from twin.watermark import Watermark

PORTS = ("Ethernet1/1", "Ethernet1/2", "Ethernet2/1")


def leaves_of(watermark: Watermark) -> dict[str, Any]:
    """The marking leaves of a profile, thresholds in bytes."""
    return {
        "min-threshold": str(watermark.kmin_bytes),
        "max-threshold": str(watermark.kmax_bytes),
        "max-drop-probability-percent": round(watermark.pmax * 100),
        "enable-ecn": True,
    }


def factory(first: Watermark, **leaves: Any) -> dict[str, Any]:
    """Three ports whose queue 3 runs ``first`` by profile ROCE, which their queue 4 shares.

    ``leaves`` change those of ROCE (None: taken away). Queue 0 is bound to nothing, and a management port's
    queue 3 runs ROCE too.
    """
    marking = leaves_of(first) | {"weight": 0, "drop": False} | leaves
    return {
        "qos": {
            "buffer-allocation-profiles": {
                "buffer-allocation-profile": [{"name": "LOSSLESS", "config": {"name": "LOSSLESS"}}]
            },
            "queue-management-profiles": {
                "queue-management-profile": [
                    profile_document(
                        "ROCE", {name: value for name, value in marking.items() if value is not None}
                    ),
                    profile_document(
                        "STORAGE",
                        {
                            "min-threshold": "80000",
                            "max-threshold": str(2**64 - 1),
                            "max-drop-probability-percent": 1,
                            "enable-ecn": True,
                        },
                    ),
                ]
            },
            "interfaces": {"interface": [_interface(port) for port in (*PORTS, "Management0")]},
        }
    }


def profile_document(name: str, leaves: dict[str, Any]) -> dict[str, Any]:
    """One profile."""
    return {"name": name, "config": {"name": name}, "wred": {"uniform": {"config": leaves}}}


def _interface(port: str) -> dict[str, Any]:
    bound = {"0": None, "3": "ROCE", "4": "ROCE", "5": "STORAGE"}
    return {
        "interface-id": port,
        "config": {"interface-id": port},
        "input": {"queues": {"queue": [_queue("3", None)]}},
        "output": {
            "config": {"buffer-allocation-profile": "LOSSLESS"},
            "queues": {"queue": [_queue(name, profile) for name, profile in bound.items()]},
        },
    }


def _queue(name: str, profile: str | None) -> dict[str, Any]:
    config = {"name": name} | ({} if profile is None else {"queue-management-profile": profile})
    return {"name": name, "config": config}
