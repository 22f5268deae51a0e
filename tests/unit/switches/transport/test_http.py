"""Calls to a switch: bounded in time and size, over checked TLS, and no secret in what is said."""

from __future__ import annotations

import ssl
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from switches.device import Device, Secret, Tls
from switches.errors import (
    AccessError,
    CredentialsError,
    InventoryError,
    RefusedError,
    SwitchError,
    UnreachableError,
)
from switches.transport.http import DeviceAuth, HttpSession, NotFoundError, base_url_of, needs_password
from tests.counterparts.certificates import Authority
from tests.counterparts.dripping import dripping
from tests.counterparts.switches.http_switch import Asked, HttpSwitch, Reply

URL = "http://127.0.0.1:9"


def device(**changes: object) -> Device:
    return Device(name="leaf1", platform="any", **{"address": URL, "timeout_s": 60.0, **changes})  # type: ignore[arg-type]


def answered(answer: httpx.Response, **changes: object) -> HttpSession:
    return HttpSession(device(**changes), URL, transport=httpx.MockTransport(lambda _: answer))


class Echo(HttpSwitch):
    def answer(self, asked: Asked) -> Reply:
        return Reply(body={"path": asked.path})


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (301, RefusedError),
        (400, RefusedError),
        (401, AccessError),
        (403, AccessError),
        (404, NotFoundError),
        (500, RefusedError),
        (502, UnreachableError),
        (503, UnreachableError),
        (504, UnreachableError),
    ],
)
def test_each_error_answer_has_its_kind(status: int, error: type[SwitchError]) -> None:
    with pytest.raises(error, match=f"{status} to GET /x: no room") as caught:
        answered(httpx.Response(status, json={"detail": "no\nroom"})).call("GET", "/x")
    assert type(caught.value) is error


def test_a_platform_names_its_own_remedy_for_403() -> None:
    network = httpx.MockTransport(lambda _: httpx.Response(403))
    session = HttpSession(device(), URL, forbidden="change the default password", transport=network)
    with pytest.raises(AccessError) as caught:
        session.call("GET", "/x")
    assert caught.value.remedy == "change the default password"


def test_no_secret_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_TOKEN", "s3cret-token")
    session = answered(
        httpx.Response(400, json={"detail": "Bearer s3cret-token is stale"}), token=Secret(env="THE_TOKEN")
    )
    with pytest.raises(RefusedError, match=r"Bearer \*\*\* is stale"):
        session.call("GET", "/x")


def test_a_long_answer_is_shortened_where_it_is_repeated() -> None:
    with pytest.raises(RefusedError) as caught:
        answered(httpx.Response(400, json={"detail": "x" * 10_000})).call("GET", "/x")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_peer_that_sends_a_byte_now_and_then_holds_no_call(beginning: bytes) -> None:
    with (
        dripping(beginning, every_s=0.02) as port,
        pytest.raises(UnreachableError, match=r"no answer to GET /x within 0\.3 s"),
    ):
        HttpSession(device(timeout_s=0.3), f"http://127.0.0.1:{port}").call("GET", "/x")


def test_an_answer_too_large_is_refused() -> None:
    with pytest.raises(RefusedError, match="more than 16777216 bytes"):
        answered(httpx.Response(200, content=bytes(17 * 2**20))).call("GET", "/x")


def test_credentials_are_read_for_each_call_and_a_missing_one_is_named(
    credentials: dict[str, Secret], monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = Echo()
    here = device(address=switch.url, **credentials)
    session = HttpSession(here, switch.url, auth=DeviceAuth(here))
    try:
        assert session.call("GET", "/x").json() == {"path": "/x"}
        monkeypatch.setenv("ECNTWIN_TEST_PASSWORD", "rotated")
        with pytest.raises(AccessError) as refused:
            session.call("GET", "/x")
        assert "rotated" not in str(refused.value)
        monkeypatch.delenv("ECNTWIN_TEST_PASSWORD")
        with pytest.raises(CredentialsError, match=r"nothing in \$ECNTWIN_TEST_PASSWORD"):
            session.call("GET", "/x")
    finally:
        session.close()
        switch.close()


def test_a_device_without_credentials_is_called_without() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200)

    here = device()
    HttpSession(here, URL, auth=DeviceAuth(here), transport=httpx.MockTransport(handler)).call("GET", "/x")
    assert "authorization" not in seen[0].headers


@pytest.mark.parametrize("named", ["127.0.0.1", "leaf1.example"])
def test_a_certificate_is_checked_against_the_named_authority(
    named: str, tmp_path: Path, credentials: dict[str, Secret]
) -> None:
    signer = Authority("this network's")
    authority, chain = tmp_path / "authority.pem", tmp_path / "server.pem"
    authority.write_bytes(signer.certificate)
    signed = signer.signed(named)
    chain.write_bytes(signed.key + signed.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    switch = Echo(tls=context)
    server_name = None if named == "127.0.0.1" else named
    ways: dict[str, tuple[Tls, bool]] = {
        "trusted": (Tls(ca_file=authority, server_name=server_name), True),
        "unknown authority": (Tls(server_name=server_name), False),
        "not checked": (Tls(verify=False), True),
        "another name": (Tls(ca_file=authority, server_name="spine9.example"), False),
    }
    try:
        for tls, works in ways.values():
            here = device(address=switch.url, tls=tls, **credentials)
            session = HttpSession(here, switch.url, auth=DeviceAuth(here))
            if works:
                assert session.call("GET", "/x").json() == {"path": "/x"}
            else:
                with pytest.raises(AccessError, match="certificate that is not trusted"):
                    session.call("GET", "/x")
            session.close()
        assert len(switch.asked) == sum(works for _, works in ways.values())
    finally:
        switch.close()


def test_a_file_of_authorities_that_is_none_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.pem", Path(__file__)):
        session = HttpSession(device(tls=Tls(ca_file=path)), "https://127.0.0.1:9")
        with pytest.raises(InventoryError, match=r"tls\.ca_file"):
            session.call("GET", "/x")


@pytest.mark.parametrize(
    ("changes", "url"),
    [
        ({"address": "leaf1"}, "https://leaf1:8765/api"),
        ({"address": "leaf1", "port": 9}, "https://leaf1:9/api"),
        ({"address": "fd00::1"}, "https://[fd00::1]:8765/api"),
        ({"address": "leaf1", "tls": Tls(enabled=False)}, "http://leaf1:8765/api"),
        ({"address": "http://leaf1:80/"}, "http://leaf1:80/api"),
    ],
)
def test_an_address_is_a_host_or_a_url(changes: dict[str, object], url: str) -> None:
    assert base_url_of(device(**changes), port=8765, path="/api") == url


def test_an_address_carries_no_password() -> None:
    with pytest.raises(InventoryError) as caught:
        base_url_of(device(address="https://admin:hunter2@leaf1"))
    assert "hunter2" not in str(caught.value)


def test_an_address_is_needed_and_so_are_user_and_password(credentials: dict[str, Secret]) -> None:
    with pytest.raises(InventoryError, match="no address"):
        base_url_of(device(address=""))
    needs_password(device(**credentials))
    for missing in credentials:
        with pytest.raises(InventoryError, match=f"{missing}: this platform takes a user's name"):
            needs_password(device(**{**credentials, missing: None}))


@pytest.mark.parametrize("address", ["http://[::1", "http://127.0.0.1:port"])
def test_an_address_that_is_no_url_is_the_inventorys_fault(address: str) -> None:
    with pytest.raises(InventoryError, match="no URL"):
        HttpSession(device(address=address), address).call("GET", "/x")


@pytest.mark.parametrize("token", ["s3cret-token\n", " s3cret-token", "s3cret-tok\u00e9n"])
def test_a_token_that_no_header_carries_is_said_so_and_not_repeated(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_TOKEN", token)
    with closing(Echo()) as switch:
        here = device(address=switch.url, token=Secret(env="THE_TOKEN"))
        with pytest.raises(CredentialsError, match="token: received a line's end") as refused:
            HttpSession(here, switch.url, auth=DeviceAuth(here)).call("GET", "/x")
    error: BaseException | None = refused.value
    while error is not None:
        assert "s3cret" not in str(error)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("host", ["leaf..1", "x" * 64])
def test_a_host_that_no_name_server_could_know_is_the_inventorys(host: str) -> None:
    with pytest.raises(InventoryError, match="no URL"):
        HttpSession(device(), f"http://{host}").call("GET", "/x")


def test_the_port_beside_a_url_is_its_own_and_two_are_one_too_many() -> None:
    assert base_url_of(device(address="https://leaf1.example/a", port=8443)) == "https://leaf1.example:8443/a"
    assert (
        base_url_of(device(address="https://leaf1.example:8443", port=8443)) == "https://leaf1.example:8443"
    )
    with pytest.raises(InventoryError, match="port: received 8443; it is the port in the address"):
        base_url_of(device(address="https://leaf1.example:444", port=8443))
    with pytest.raises(InventoryError, match="no URL"):
        base_url_of(device(address="https://[::1", port=8443))
