"""Every command that the pages say to type does what they say, on loopback, in a folder of its own."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.blocks import PAGES, ROOT, Block, blocks_of
from tests.e2e.page_session import PageSession, fed_service, make_ready
from tests.e2e.process import Served

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

RUN = {page: [block for block in blocks_of(page) if block.is_run] for page in PAGES}
FOLLOWED = [page for page, blocks in RUN.items() if blocks]


@pytest.fixture(scope="module")
def fed() -> Iterator[Served]:
    with fed_service() as served:
        yield served


def needed(blocks: list[Block]) -> list[str]:
    """Programs that the page asks for and this machine lacks."""
    text = "\n".join(block.text for block in blocks)
    return [
        name
        for name in ("curl", "jq", "sqlite3")
        if re.search(rf"\b{name}\b", text) and not shutil.which(name)
    ]


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_can_be_followed(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    blocks = RUN[page]
    if lacking := needed(blocks):
        pytest.skip(f"not on this machine: {', '.join(lacking)}")
    url = None
    if any("service" in block.words for block in blocks):
        served: Served = request.getfixturevalue("fed")
        make_ready(served)
        url = served.url
    session = PageSession(tmp_path, page, url)
    try:
        for block in blocks:
            session.follow(block)
    finally:
        session.end()
