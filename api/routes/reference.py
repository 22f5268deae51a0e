"""``/docs``: the reference, drawn by the browser from ``/openapi.json``; must not load what is elsewhere.

The viewer is Swagger UI as its makers published it (``api/reference/VERSION`` says which).
"""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)


def reference() -> Path:
    """The folder with the viewer; distributions are installed unpacked, so it is a real one."""
    with as_file(files("api") / "reference") as folder:
        return folder


def assets() -> StaticFiles:
    """The viewer's own files, at ``/docs/assets``."""
    return StaticFiles(directory=reference())


@router.get("/docs")
@router.get("/docs/")
async def docs() -> FileResponse:
    """The reference."""
    return FileResponse(reference() / "index.html")
