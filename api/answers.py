"""Large answers, made and written in a thread of their own: the event loop serves others meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fastapi import Response
from pydantic import BaseModel

T = TypeVar("T")


class Answers:
    """One at a time, in the order they were asked for: together they would only take turns."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ecntwin-answers")

    async def json(self, make: Callable[[], BaseModel]) -> Response:
        """The document that ``make`` gives, which is called in the thread."""
        return Response(await self.run(lambda: written(make())), media_type="application/json")

    async def run(self, make: Callable[[], T]) -> T:
        """What ``make`` gives."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, make)

    def close(self) -> None:
        """Ends the thread once what it has begun is done; blocking."""
        self._thread.shutdown(wait=True, cancel_futures=True)


def written(document: BaseModel) -> bytes:
    """A document as JSON, its lists of documents item by item and last: what is written in one go lets no
    other thread run.
    """
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
