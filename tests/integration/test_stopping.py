"""A service that stops: what fails to end keeps nothing else from ending."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.integration.service import running, traffic

pytestmark = pytest.mark.anyio


def own_threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name.startswith("ecntwin-")}


def names(threads: set[threading.Thread]) -> set[str]:
    return {one.name for one in threads}


@pytest.mark.parametrize("part", ["events.close", "tuning.stop", "rollouts.stop", "fleet.close"])
async def test_what_fails_to_end_keeps_nothing_else_from_it(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = own_threads()
    async with running() as here:
        await here.post_reports(traffic(10))
        assert "ecntwin-window_0" in names(own_threads() - before)
        owner_name, _, name = part.partition(".")
        owner = getattr(here.service, owner_name)

        def fails(*given: Any) -> Any:
            raise OSError("it would not")

        with monkeypatch.context() as patched:
            patched.setattr(owner, name, fails)
            with pytest.raises(OSError, match="it would not"):
                await here.service.stop()
        # What failed is ended by the application, which stops the service as well.
        assert "ecntwin-window_0" not in names(own_threads() - before)
        assert part == "events.close" or here.service.events.full
    assert own_threads() <= before
