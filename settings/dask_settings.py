"""Where rounds run: in processes here, or on a Dask cluster; must not import Dask."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from settings.settings_section import Section

_SCHEDULER = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")


class BackendSettings(Section):
    """Keys of the section ``search``."""

    backend: Literal["processes", "dask"] = "processes"
    dask_scheduler: str | None = None
    dask_ca: Path | None = None
    dask_certificate: Path | None = None
    dask_key: Path | None = None
    dask_timeout_s: float = Field(default=10.0, gt=0)
    dask_silence_s: float = Field(default=300.0, gt=0)

    @field_validator("dask_scheduler")
    @classmethod
    def _is_the_address_of_a_scheduler(cls, text: str | None) -> str | None:
        found = None if text is None else _SCHEDULER.fullmatch(text)
        if text is not None and (found is None or not 0 < int(found[3]) <= 65_535):
            raise ValueError("it is tcp://host:port, or tls://host:port")
        return text

    @model_validator(mode="after")
    def _the_cluster_can_be_found(self) -> Self:
        if self.backend == "dask" and self.dask_scheduler is None:
            raise ValueError("backend dask needs dask_scheduler, such as tcp://127.0.0.1:8786")
        files = (self.dask_ca, self.dask_certificate, self.dask_key)
        tls = self.dask_scheduler is not None and self.dask_scheduler.startswith("tls:")
        if tls and None in files:
            raise ValueError("a scheduler at tls:// needs dask_ca, dask_certificate and dask_key")
        if not tls and any(files):
            raise ValueError("dask_ca, dask_certificate and dask_key go with a scheduler at tls://")
        return self
