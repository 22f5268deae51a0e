"""``/`` and ``/docs``: the page and the API reference, without anything from other hosts.

The reference is Swagger UI as published (``api/reference/VERSION``), which reads ``/openapi.json``.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse

# ``api.answers`` adds the content security policy: scripts and styles from here only.
router = APIRouter(include_in_schema=False)


def _folder(name: str) -> Path:
    with as_file(files("api") / name) as folder:  # distributions are installed unpacked: a real folder
        return folder


def dashboard() -> Path:
    return _folder("dashboard")


def reference() -> Path:
    return _folder("reference")


@router.get("/")
async def page() -> FileResponse:
    return FileResponse(dashboard() / "index.html")


@router.get("/docs")
@router.get("/docs/")
async def docs() -> FileResponse:
    return FileResponse(reference() / "index.html")
