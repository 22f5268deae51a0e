"""The hash of SONiC through its redis: ``ecmp_hash_algorithm`` of ``SWITCH_HASH|GLOBAL`` in CONFIG_DB.

SONiC's CONFIG_DB has no seed: another hash function is what hashes flows anew. What a switch can is in
``SWITCH_CAPABILITY|switch`` of STATE_DB ("SONiC Generic Hash", SONiC/doc/hash/hash-design.md, sections 2.4.1
and 2.4.2), what runs in ASIC_DB. orchagent refuses to remove the field (sonic-swss orchagent/switchorch.cpp,
``SwitchOrch::setSwitchHash``, e6b0c5b), so that it is changed only where it is set already.
"""

from __future__ import annotations

from dataclasses import replace

from switches.adapter import Waiting
from switches.device import Device, options_of
from switches.errors import CapabilityError
from switches.hashing.base import HashAdapter
from switches.hashing.values import HashReading, StagedHash
from switches.sonic.redis import SonicOptions, check_address, connected, fields_of, keys_of

_ROW = "SWITCH_HASH|GLOBAL"
_FIELD = "ecmp_hash_algorithm"
_CAPABILITY = "SWITCH_CAPABILITY|switch"
_SWITCH = "ASIC_STATE:SAI_OBJECT_TYPE_SWITCH:*"
_RUNS = "SAI_SWITCH_ATTR_ECMP_DEFAULT_HASH_ALGORITHM"
_SAI = "SAI_HASH_ALGORITHM_"
_REORDERS = "RANDOM"  # draws a port for each packet, and RoCE senders go back where packets overtake others


class SonicHash(HashAdapter):
    setting = _FIELD

    def __init__(self, device: Device, *, waiting: Waiting | None = None) -> None:
        check_address(device)
        self._options = options_of(device, SonicOptions)
        super().__init__(device, waiting=waiting)

    def read(self) -> HashReading:
        reading, configured = self._read()
        refusal = self._refusal(reading, configured)
        return reading if refusal is None else replace(reading, fixed=f"{refusal.rule}; {refusal.remedy}")

    def stage(self, value: str, change_id: str) -> StagedHash:
        if (refusal := self._refusal(*self._read())) is not None:
            raise refusal
        return super().stage(value, change_id)

    def _refusal(self, reading: HashReading, configured: str | None) -> CapabilityError | None:
        where = f"{self._device.where} {_ROW}"
        if not reading.choices:
            rule = f"{_CAPABILITY} of STATE_DB lists hash functions of a switch that can choose one"
            return CapabilityError(where, None, rule, "use an image and a platform that can, or other paths")
        if configured is None or configured != reading.value:
            received = f"{configured or f'no {_FIELD}'}, and {reading.value or 'nothing'} in ASIC_DB"
            rule = "it is set before it is changed, as SONiC cannot remove it again"
            remedy = "run config switch-hash global ecmp-hash-algorithm with the one that runs, once"
            return CapabilityError(where, received, rule, remedy)
        return None

    def close(self) -> None:
        """Nothing to do: no connection stays open between calls."""

    def _configured(self) -> str | None:
        return self._read()[1]

    def _set(self, value: str | None, instead_of: str | None) -> None:
        assert value is not None  # staged only where it was set
        with (
            connected(self._device, self._options) as databases,
            databases.config.pipeline(transaction=True) as transaction,
        ):
            transaction.watch(_ROW)
            now = transaction.hget(_ROW, _FIELD)
            if now not in (value, instead_of):
                raise self._foreign(now, instead_of)
            transaction.multi()
            transaction.hset(_ROW, _FIELD, value)
            transaction.execute()

    def _read(self) -> tuple[HashReading, str | None]:
        """What runs, and what is configured."""
        with connected(self._device, self._options) as databases:
            row = databases.config.hgetall(_ROW)
            can = databases.state.hgetall(_CAPABILITY)
            running = fields_of(databases.asic, keys_of(databases.asic, _SWITCH), _RUNS)
        configured = row.get(_FIELD)
        runs = next((value.removeprefix(_SAI) for value in running if value), configured)
        capable = can.get("ECMP_HASH_ALGORITHM_CAPABLE") == "true"
        choices = can.get("ECMP_HASH_ALGORITHM", "").split(",") if capable else []
        fields = row.get("ecmp_hash@")  # a list, as CONFIG_DB writes those
        reading = HashReading(
            setting=_FIELD,
            value=runs,
            choices=tuple(one for one in choices if one and one not in (_REORDERS, "N/A")),
            fields=None if fields is None else tuple(fields.split(",")),
        )
        return reading, configured
