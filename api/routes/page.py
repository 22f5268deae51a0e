"""``/``: the page and its assets, served by us; must not load anything from elsewhere."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

# Every answer gets its security headers in ``api.admission``: scripts and styles only from here.
router = APIRouter(include_in_schema=False)


def dashboard() -> Path:
    """The folder with the page; distributions are installed unpacked, so it is a real one."""
    with as_file(files("api") / "dashboard") as folder:
        return folder


def assets() -> StaticFiles:
    """The page's own files, at ``/assets``."""
    return StaticFiles(directory=dashboard())


@router.get("/")
async def page() -> FileResponse:
    """The page."""
    return FileResponse(dashboard() / "index.html")
