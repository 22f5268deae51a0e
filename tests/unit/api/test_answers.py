"""Large answers are the same JSON, and made beside the event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import BaseModel

from api.deps import json_answer, written


class Item(BaseModel):
    text: str


class Listing(BaseModel):
    total: int
    items: list[Item]
    words: list[str] = []
    more: list[Item] = []


class Items(BaseModel):
    items: list[Item]


@pytest.mark.parametrize(
    "document",
    [
        Listing(total=2, items=[Item(text='"},{'), Item(text="")], words=["a"], more=[Item(text="x")]),
        Listing(total=0, items=[]),
        Items(items=[Item(text="é")]),
        Items(items=[]),
    ],
)
def test_item_by_item_it_is_the_same(document: BaseModel) -> None:
    assert json.loads(written(document)) == document.model_dump(mode="json")


def test_the_event_loop_goes_on_while_an_answer_is_made() -> None:
    async def main() -> bytes:
        thread, gone_on = ThreadPoolExecutor(1), threading.Event()

        def make() -> Items:
            assert gone_on.wait(120)
            return Items(items=[])

        try:
            asyncio.get_running_loop().call_soon(gone_on.set)
            return bytes((await json_answer(thread, make)).body)
        finally:
            thread.shutdown()

    assert asyncio.run(main()) == b'{"items":[]}'
