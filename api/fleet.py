"""The switches the service may set: an adapter each, what they run, pushes; must not know how to search."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from api.schemas.base import timestamp
from api.schemas.predictions import WatermarkDocument
from api.schemas.switches import SwitchDocument, SwitchRecordDocument
from api.settings import IncumbentSettings
from switches.base import SwitchAdapter
from switches.dryrun import DryRunAdapter
from switches.errors import UnknownSwitchError
from switches.push import Pushed, push
from switches.registry import AdapterFactory
from twin.watermark import Watermark


class Fleet:
    """Adapters by switch name, made when a switch is first seen.

    Adapters block, so they run in threads, one at a time.
    """

    def __init__(
        self, incumbent: IncumbentSettings, factory: AdapterFactory, *, clock_ns: Callable[[], int]
    ) -> None:
        self._incumbent = incumbent
        self._factory = factory
        self._clock_ns = clock_ns
        self._adapters: dict[str, SwitchAdapter] = {}
        self._busy = asyncio.Lock()
        self.saw(incumbent.switches)

    @property
    def names(self) -> tuple[str, ...]:
        """Every known switch, sorted."""
        return tuple(sorted(self._adapters))

    def saw(self, switches: Iterable[str]) -> None:
        """Makes adapters for switches not seen before."""
        for name in switches:
            if name not in self._adapters:
                self._adapters[name] = self._factory(name, self.configured(name), clock_ns=self._clock_ns)

    def configured(self, switch: str) -> Watermark:
        """What the settings say that switch runs."""
        return self._incumbent.switches.get(switch, self._incumbent.default).watermark()

    def incumbent(self, switches: Iterable[str]) -> Watermark:
        """What most of these switches run (the default's, where two are as common): the one to beat."""
        default = self._incumbent.default.watermark()
        counted = Counter(self.configured(name) for name in switches)
        return max(counted, key=lambda mark: (counted[mark], mark == default), default=default)

    def running(self) -> Mapping[str, Watermark]:
        """What every known switch is configured to run, for metrics."""
        return {name: self.configured(name) for name in self.names}

    async def push(self, switches: Iterable[str], watermark: Watermark) -> tuple[Pushed, ...]:
        """Takes a watermark to these switches, or undoes it on all; raises ``SwitchError``."""
        adapters = [self._adapter(name) for name in sorted(switches)]
        async with self._busy:
            return await asyncio.to_thread(push, adapters, watermark)

    def writes(self, switches: Iterable[str]) -> bool:
        """Whether a push to these switches touches any device."""
        return any(self._adapter(name).capabilities().writes for name in switches)

    async def documents(self) -> list[SwitchDocument]:
        """Every switch."""
        return [await self.document(name) for name in self.names]

    async def document(self, name: str) -> SwitchDocument:
        """One switch, read now; raises ``UnknownSwitchError``."""
        adapter = self._adapter(name)
        async with self._busy:
            reading = await asyncio.to_thread(adapter.read)
        capabilities = adapter.capabilities()
        records = adapter.records if isinstance(adapter, DryRunAdapter) else ()
        return SwitchDocument(
            name=name,
            adapter=capabilities.kind,
            writes=capabilities.writes,
            running=_document(reading.watermark),
            read_at=timestamp(reading.read_ns),
            records=[
                SwitchRecordDocument(
                    action=record.action,
                    watermark=_document(record.watermark),
                    at=timestamp(record.recorded_ns),
                    diff=record.diff,
                )
                for record in reversed(records)
            ],
        )

    def _adapter(self, name: str) -> SwitchAdapter:
        try:
            return self._adapters[name]
        except KeyError:
            known = ", ".join(self.names[:8]) or "none yet"
            raise UnknownSwitchError(
                f"switch {name!r}", "its name", f"known switches are {known}", "declare it in the topology"
            ) from None


def _document(watermark: Watermark | None) -> WatermarkDocument | None:
    return None if watermark is None else WatermarkDocument.of(watermark)
