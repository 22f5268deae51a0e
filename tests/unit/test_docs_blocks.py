"""Every block of a page says whether it is run; settings and inventories shown would be taken."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from settings.inventory import load_inventory
from settings.model import Settings
from tests.e2e.blocks import PAGES, ROOT, Block, BlockError, blocks_of, commands_outside_of_fences, parsed
from tests.e2e.page_session import alike, transcript

BLOCKS = [block for page in PAGES for block in blocks_of(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_command_stands_outside_of_a_fence(page: Path) -> None:
    assert commands_outside_of_fences(page.read_text("utf-8")) == []


def test_a_command_outside_of_a_fence_is_found() -> None:
    page = "Do:\n\n    curl http://127.0.0.1:8080/readyz\n\n```text\n    curl it\n```\n\n    a table\n"
    assert commands_outside_of_fences(page) == ["curl http://127.0.0.1:8080/readyz"]


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("```\nls\n```\n", "name a language"),
        ("```bash run\nls\n```\n", "name a language"),
        ("```sh\nls\n```\n", "say run"),
        ("```sh no-run\nls\n```\n", "why not"),
        ("```sh no-run:\nls\n```\n", "why not"),
        ("```sh run somehow\nls\n```\n", "behind run"),
        ("```sh run\nls\n", "never closed"),
    ],
)
def test_a_fence_that_says_too_little_is_refused(page: str, says: str) -> None:
    with pytest.raises(BlockError, match=says):
        list(parsed("x.md", page))


def test_a_block_of_a_list_is_read_without_its_indent() -> None:
    page = "1. Do\n\n   ```sh run service exit=2\n   a \\\n     b\n   ```\n"
    (block,) = parsed("x.md", page)
    assert (block.line, block.text, block.exit_code, block.is_run) == (3, "a \\\n  b\n", 2, True)


def test_output_is_compared_in_shape() -> None:
    text = "$ ecntwin status\nqueue   12.5 KB\n…\nready\n$ ls\n"
    assert transcript(text) == [("ecntwin status", "queue   12.5 KB\n…\nready\n"), ("ls", "")]
    assert alike("queue   12.5 KB\n…\nready\n", "x\nqueue 3 KB  \nother\nready\n")
    assert not alike("queue   12.5 KB\nready\n", "ready\nqueue 3 KB\n")
    assert not alike("queue 12.5 KB\n", "depth 12.5 KB\n")
    assert alike("rollout … is done\n", "rollout 20260101T1-1 is done\n")
    assert alike("100 mice, 0 elephants; mostly\n", "58 mice, 1 elephant; mostly\n")
    assert not alike("100 mice, 0 elephants; mostly\n", "58 mice; mostly\n")


def of(language: str, kind: str | None = None) -> list[Block]:
    return [
        block
        for block in BLOCKS
        if block.language == language and not block.is_run and (kind is None or kind in block.words)
    ]


@pytest.mark.parametrize("block", of("yaml", "settings"), ids=lambda block: block.where)
def test_settings_that_a_page_shows_are_taken(block: Block) -> None:
    Settings(**yaml.safe_load(block.text))


@pytest.mark.parametrize("block", of("yaml", "inventory"), ids=lambda block: block.where)
def test_an_inventory_that_a_page_shows_is_taken(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text(block.text, "utf-8")
    assert load_inventory(path)


@pytest.mark.parametrize("block", of("yaml"), ids=lambda block: block.where)
def test_yaml_says_what_it_is(block: Block) -> None:
    assert set(block.words) <= {"settings", "inventory", "traffic"}
    assert len(block.words) == 1
    yaml.safe_load(block.text)


@pytest.mark.parametrize("block", of("json"), ids=lambda block: block.where)
def test_json_that_a_page_shows_is_json(block: Block) -> None:
    # NDJSON too: one document a line.
    whole = re.sub(r"\n(?=\{)", "\n,", block.text)
    json.loads(f"[{whole}]")
