"""The templates of an inventory: what switches and NICs are meant to run, to compare with what they do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from lossless.fabric import Template
from nics.parameters import check_values
from settings.errors import SettingsError
from settings.inventory_keys import Part, layer_named
from settings.twin import WatermarkSettings
from switches.errors import CapabilityError

Bytes = Annotated[int, Field(ge=1)]
Priority = Annotated[int, Field(strict=True, ge=0, le=7)]


class TemplateKeys(Part):
    """``pfc`` are the priorities on which PFC is on, and all else is of each of these: the ``watermark`` of
    its queue (``watermarks``: of ports of these roles), XOFF as a fixed ``xoff_bytes`` or the ``alpha`` of a
    dynamic one, ``headroom_bytes``. ``dcqcn`` is of NICs, under the driver's names.
    """

    pfc: tuple[Priority, ...] | None = None
    watermark: WatermarkSettings | None = None
    watermarks: dict[str, WatermarkSettings] | None = None
    xoff_bytes: Bytes | None = None
    alpha: float | None = Field(default=None, gt=0)
    headroom_bytes: Bytes | None = None
    dcqcn: dict[str, int] | None = None

    @model_validator(mode="after")
    def _does_not_contradict_itself(self) -> Self:
        said = (self.watermark, self.watermarks, self.xoff_bytes, self.alpha, self.headroom_bytes)
        if not self.pfc and any(one is not None for one in said):
            raise ValueError("watermarks, XOFF and headroom are of the priorities in pfc, and it names none")
        if self.xoff_bytes is not None and self.alpha is not None:
            raise ValueError("XOFF is fixed (xoff_bytes) or dynamic (alpha), not both")
        for mark in filter(None, (self.watermark, *(self.watermarks or {}).values())):
            if self.xoff_bytes is not None and mark.kmax_bytes >= self.xoff_bytes:
                raise ValueError(
                    f"ECN acts before PFC: Kmax {mark.kmax_bytes} must be below xoff_bytes {self.xoff_bytes}"
                )
        if self.dcqcn is not None:
            try:
                check_values(self.dcqcn, "dcqcn")
            except CapabilityError as error:
                raise ValueError(f"{error.where}: {error.rule}") from None
        return self

    def template(self, name: str) -> Template:
        return Template(
            name=name,
            pfc=None if self.pfc is None else frozenset(self.pfc),
            watermark=None if self.watermark is None else self.watermark.watermark(),
            by_role={role: mark.watermark() for role, mark in (self.watermarks or {}).items()},
            xoff_bytes=self.xoff_bytes,
            alpha=self.alpha,
            headroom_bytes=self.headroom_bytes,
            dcqcn=self.dcqcn or {},
        )


def templates_of(
    document: Mapping[str, Any], entries: Iterable[tuple[str, str, str | None]], *, of_hosts: bool = False
) -> Mapping[str, Template]:
    """By switch or host, of a valid document; entries are names, places in errors, and templates' names.

    Raises ``SettingsError`` for a template that is not there, or says nothing of switches, or of NICs.
    """
    known, found = document.get("templates") or {}, {}
    for name, where, named in entries:
        if named is None:
            continue
        said = layer_named(named, known, where, "template", "templates")
        keys = TemplateKeys.model_validate(said)
        if (keys.dcqcn is None) if of_hosts else (keys.pfc is None):
            rule = "a host's template has dcqcn" if of_hosts else "a switch's template has pfc"
            raise SettingsError(f"{where}.template", repr(named), rule, "add it, or name another")
        found[name] = keys.template(named)
    return found
