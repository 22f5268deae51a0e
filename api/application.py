"""A FastAPI application as every server of this package is one: problems, callers and headers; no routes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import Depends, FastAPI
from starlette.types import ASGIApp

from api import openapi, problems
from api.admission import Admission
from api.deps import refuse_uninvited
from api.headers import SecurityHeaders
from api.operations import refuse_unknown_parameters
from settings.model import Settings
from settings.version import ecntwin_version


class Application(FastAPI):
    """Whoever starts it sets ``state.access``. Every answer has the security headers."""

    def __init__(
        self,
        settings: Settings,
        *,
        title: str,
        description: str = "",
        lifespan: Callable[[Any], AbstractAsyncContextManager[None]],
    ) -> None:
        super().__init__(
            title=title,
            description=description,
            version=ecntwin_version(),
            lifespan=lifespan,
            openapi_url=None,  # ``openapi.install`` has one
            docs_url=None,  # FastAPI's own loads its viewer from elsewhere
            redoc_url=None,
            redirect_slashes=False,  # its redirects lead to whatever host a client names
            dependencies=[Depends(refuse_uninvited), Depends(refuse_unknown_parameters)],
        )
        self._hsts_s = settings.server.hsts_s
        self.state.settings = settings
        problems.install(self)
        openapi.install(self)
        self.add_middleware(Admission, allowed=refuse_uninvited, stalled_s=settings.server.client_timeout_s)

    def build_middleware_stack(self) -> ASGIApp:
        """Around all of it: what answers where all else failed is in there too."""
        return SecurityHeaders(super().build_middleware_stack(), hsts_s=self._hsts_s)
