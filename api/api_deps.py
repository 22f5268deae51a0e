"""What routes ask for: the service, and a caller holding a scope; must not hold state of its own."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from api.deps import Requires
from service.service import Service
from settings.callers import Caller


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceDep = Annotated[Service, Depends(_service)]
PostsTelemetry = Annotated[Caller, Depends(Requires("telemetry"))]
Reads = Annotated[Caller, Depends(Requires("read"))]
Operates = Annotated[Caller, Depends(Requires("operate"))]
Administers = Annotated[Caller, Depends(Requires("admin"))]
