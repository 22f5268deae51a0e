"""What a process logs at any level: nothing of an HTTP library, whose lines hold headers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from cli.output import DEBUG_VARIABLE, configure_logging, run_to_exit_code


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Every level and handler as it was, afterwards."""
    loggers = [logging.getLogger(name) for name in (None, "httpx", "httpcore", "alembic")]
    before = [(logger, logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


def a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from cli.main import app

    monkeypatch.setenv(DEBUG_VARIABLE, "debug")
    run_to_exit_code(app, ["--help"])


def a_service(_: pytest.MonkeyPatch) -> None:
    configure_logging("debug")


@pytest.mark.parametrize("begins", [a_command, a_service])
def test_headers_with_a_cookie_are_not_logged_at_any_level(
    begins: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    begins(monkeypatch)
    assert not logging.getLogger("httpcore.http11").isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("httpx").isEnabledFor(logging.INFO)
