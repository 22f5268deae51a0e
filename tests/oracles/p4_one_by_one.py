"""Decodes telemetry reports payload by payload, where ``P4Decoder`` reads those of one layout at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from telemetry.decode.p4.assemble import P4Reports, assembled, most_places
from telemetry.decode.p4.decoder import Found
from telemetry.decode.p4.devices import Devices
from telemetry.decode.p4.names import Names
from telemetry.decode.p4.packet import IntMarks
from telemetry.decode.p4.reports import plan_of


def decode_one_by_one(
    payloads: Sequence[bytes],
    received_ns: int,
    devices: Devices | None = None,
    marks: IntMarks | None = None,
    *,
    device_time: bool = False,
) -> P4Reports:
    found = Found(room=0)
    for position, payload in enumerate(payloads):
        found.take_one(plan_of(payload, marks or IntMarks()), payload, position)
    return assembled(
        found.all_parts(),
        found.senders(),
        sorted(found.problems),
        received_ns=np.full(len(payloads), received_ns, np.int64),
        names=Names(devices or Devices()),
        device_time=device_time,
        most_places=most_places(sum(map(len, payloads))),
    )
