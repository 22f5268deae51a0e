"""What routes ask for: the service, and a caller holding a scope; must not hold state of its own."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from api.access.callers import Caller
from api.security import requires
from api.service import Service


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceDep = Annotated[Service, Depends(_service)]
PostsTelemetry = Annotated[Caller, Depends(requires("telemetry"))]
Reads = Annotated[Caller, Depends(requires("read"))]
Operates = Annotated[Caller, Depends(requires("operate"))]
Administers = Annotated[Caller, Depends(requires("admin"))]
