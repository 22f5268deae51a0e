"""Whose word is taken for where a call came from, and that a server listens as its settings say."""

from __future__ import annotations

import asyncio

import httpx
import pytest
import uvicorn
from pydantic import ValidationError
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from api.server import options
from settings.model import ServerSettings

FORWARDED = {"X-Forwarded-For": "198.51.100.9", "X-Forwarded-Proto": "https"}


async def told(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with where a call seems to come from, and how."""
    await PlainTextResponse(f"{scope['client'][0]} {scope['scheme']}")(scope, receive, send)


def seen(server: ServerSettings, client: str) -> str:
    async def ask() -> str:
        config = uvicorn.Config(told, **options(server, None))
        config.load()
        transport = httpx.ASGITransport(config.loaded_app, client=(client, 4_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as asking:
            return (await asking.get("/", headers=FORWARDED)).text

    return asyncio.run(ask())


@pytest.mark.parametrize("client", ["127.0.0.1", "192.0.2.1"])
def test_nobodys_word_is_taken_unless_the_settings_say_so(client: str) -> None:
    assert seen(ServerSettings(), client) == f"{client} http"


def test_the_word_of_a_proxy_is_taken_and_that_of_nobody_else() -> None:
    behind = ServerSettings(trusted_proxies=("192.0.2.0/24",))
    assert seen(behind, "192.0.2.1") == "198.51.100.9 https"
    assert seen(behind, "203.0.113.1") == "203.0.113.1 http"


def test_a_proxy_is_an_address_or_a_network() -> None:
    for given in ("proxy.example", "*", "192.0.2.1/8"):
        with pytest.raises(ValidationError, match="trusted_proxies"):
            ServerSettings(trusted_proxies=(given,))


def test_no_plain_server_asks_for_certificates() -> None:
    assert "ssl_context_factory" not in options(ServerSettings(), None)


def test_an_idle_connection_outlasts_the_clients_own_patience() -> None:
    config = uvicorn.Config(told, **options(ServerSettings(), None))
    patience_s = httpx.Limits().keepalive_expiry
    assert patience_s is not None
    assert config.timeout_keep_alive > 2 * patience_s
