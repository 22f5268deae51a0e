"""Builds and serialises large answers in a thread, so that the event loop stays free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from fastapi import Response
from pydantic import BaseModel

T = TypeVar("T")


async def json_answer(thread: Executor, make: Callable[[], BaseModel]) -> Response:
    return Response(await made_in(thread, lambda: written(make())), media_type="application/json")


async def made_in(thread: Executor, make: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, make)


def written(document: BaseModel) -> bytes:
    """A document as JSON; its lists of documents come last, item by item, since pydantic holds the GIL."""
    lists = {
        name: value
        for name, value in document
        if isinstance(value, list) and value and isinstance(value[0], BaseModel)
    }
    parts = [document.model_dump_json(by_alias=True, exclude=set(lists)).removesuffix("}")]
    for name, value in lists.items():
        comma = "" if parts == ["{"] else ","
        items = ",".join(one.model_dump_json(by_alias=True) for one in value)
        parts.append(f'{comma}"{name}":[{items}]')
    return "".join([*parts, "}"]).encode()
