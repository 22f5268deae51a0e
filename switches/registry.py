"""Adapter kinds by name: the built-in ones, and entry points ``ecntwin.switches`` of installed packages."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Protocol

from switches.base import SwitchAdapter
from switches.dryrun import DryRunAdapter
from switches.errors import UnknownAdapterError
from switches.lab import LabFabric
from twin.watermark import Watermark

ENTRY_POINT_GROUP = "ecntwin.switches"
LAB = "lab"


class AdapterFactory(Protocol):
    """Makes the adapter of one switch; ``running`` is what the operator says it runs."""

    def __call__(
        self, switch: str, running: Watermark | None, *, clock_ns: Callable[[], int]
    ) -> SwitchAdapter: ...


class AdapterRegistry:
    """Factories by kind. Each instance has its own table, so one registry never changes another.

    ``lab_url`` is where the adapters of kind ``lab`` find theirs; without it that kind cannot be made.
    """

    def __init__(self, *, lab_url: str | None = None) -> None:
        self._factories: dict[str, AdapterFactory] = {"dry-run": DryRunAdapter}
        if lab_url is not None:
            self._factories[LAB] = LabFabric(lab_url)

    @classmethod
    def with_installed(cls, *, lab_url: str | None = None) -> AdapterRegistry:
        """The built-in kinds and those of installed packages."""
        registry = cls(lab_url=lab_url)
        for entry in entry_points(group=ENTRY_POINT_GROUP):
            registry.register(entry.name, entry.load())
        return registry

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every known kind, sorted."""
        return tuple(sorted({*self._factories, LAB}))

    def register(self, kind: str, factory: AdapterFactory) -> None:
        """Adds or replaces a kind."""
        self._factories[kind] = factory

    def factory(self, kind: str) -> AdapterFactory:
        """The factory of that kind; raises ``UnknownAdapterError`` naming the known ones."""
        if kind == LAB and kind not in self._factories:
            raise UnknownAdapterError(
                "switch adapter", "'lab' without a URL", "a lab is found by its URL", "give push.lab_url"
            )
        try:
            return self._factories[kind]
        except KeyError:
            raise UnknownAdapterError(
                "switch adapter", repr(kind), f"known kinds are {', '.join(self.kinds)}", "name one of them"
            ) from None
