"""A server's certificate: what does not go together, when it ends, and the next one while it listens."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import uvloop
from cryptography import x509

from api.certificates import ServerTls
from settings.errors import SettingsError
from settings.security import TlsSettings
from settings.tls import trusting
from tests.counterparts.certificates import Authority

DAY_S = 86_400.0

Loop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("a test's authority")


def written(
    folder: Path, authority: Authority, *, password: bytes | None = None, days: float = 30.0
) -> TlsSettings:
    """Files of a certificate for this machine, and the settings that name them."""
    signed = authority.signed("127.0.0.1", password=password, days=days)
    certificate, key = folder / "server.pem", folder / "server.key"
    certificate.write_bytes(signed.certificate)
    key.write_bytes(signed.key)
    return TlsSettings(tls_certificate=certificate, tls_key=key)


@pytest.mark.parametrize(
    ("given", "needs"),
    [
        ({"tls_certificate": "c.pem"}, "tls_certificate needs tls_key"),
        ({"tls_key": "k.pem"}, "tls_key needs tls_certificate"),
        ({"tls_key_password_file": "p"}, "tls_key_password_file needs tls_key"),
        ({"tls_client_ca": "ca.pem"}, "tls_client_ca needs tls_certificate"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, str], needs: str) -> None:
    with pytest.raises(ValueError, match=needs):
        TlsSettings.model_validate(given)


def test_no_certificate_is_no_tls() -> None:
    assert ServerTls.of(TlsSettings()) is None


def test_when_it_ends_is_told(tmp_path: Path, authority: Authority) -> None:
    tls = ServerTls(written(tmp_path, authority))
    now_s = time.time()
    assert tls.facts.names == ("127.0.0.1",)
    assert "certificate of 127.0.0.1 ends in 30 days" in tls.facts.sentence(now_s)
    assert "ended 5 days ago" in tls.facts.sentence(now_s + 35 * DAY_S)
    tls.check_now(now_s)
    with pytest.raises(SettingsError, match="ended 5 days ago"):
        tls.check_now(now_s + 35 * DAY_S)
    with pytest.raises(SettingsError, match="one that begins on"):
        tls.check_now(now_s - 35 * DAY_S)


def test_one_that_ends_soon_is_warned_of_once_a_day(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    tls = ServerTls(written(tmp_path, authority, days=20))
    now_s = time.time()
    tls.warn(now_s)
    assert not caplog.records
    for hours in (24 * 10, 24 * 10 + 1, 24 * 10 + 23, 24 * 11 + 1):
        tls.warn(now_s + hours * 3_600)
    assert len(caplog.records) == 2


def test_a_key_under_a_password(tmp_path: Path, authority: Authority) -> None:
    bare = written(tmp_path, authority, password=b"open, please")
    with pytest.raises(SettingsError, match=r"which is encrypted.*tls_key_password_file"):
        ServerTls(bare)
    told = tmp_path / "password"
    told.write_text("open, please\n", "utf-8")
    settings = bare.model_copy(update={"tls_key_password_file": told})
    assert ServerTls(settings).context.newest.minimum_version is ssl.TLSVersion.TLSv1_2
    told.write_text("another", "utf-8")
    with pytest.raises(SettingsError) as caught:
        ServerTls(settings)
    assert "another" not in str(caught.value)


def test_files_that_are_no_good_are_named(tmp_path: Path, authority: Authority) -> None:
    good = written(tmp_path, authority)
    assert good.tls_certificate is not None
    assert good.tls_key is not None
    with pytest.raises(SettingsError, match=r"server\.tls_certificate.*no such file"):
        ServerTls(good.model_copy(update={"tls_certificate": tmp_path / "nowhere"}))
    with pytest.raises(SettingsError, match=r"server\.tls_client_ca.*no such file"):
        ServerTls(good.model_copy(update={"tls_client_ca": tmp_path / "nowhere"}))
    with pytest.raises(SettingsError, match="in which there is none"):
        ServerTls(good.model_copy(update={"tls_certificate": good.tls_key}))
    (tmp_path / "other").mkdir()
    other = written(tmp_path / "other", authority)
    with pytest.raises(SettingsError, match="which is another certificate's"):
        ServerTls(good.model_copy(update={"tls_key": other.tls_key}))
    good.tls_key.write_text("no key", "utf-8")
    with pytest.raises(SettingsError, match="one key in PEM"):
        ServerTls(good)


LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
Address = tuple[str, int]


def listening(tls: ServerTls, loop: Loop, client: Callable[[Address], None]) -> None:
    """Runs a client, which blocks, beside a server that answers each connection with ``ok``."""

    def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"ok")
        writer.close()

    async def talk() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls.context)
        async with server:
            await asyncio.to_thread(client, server.sockets[0].getsockname()[:2])

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(talk())


def replace(at_s: float, files: Mapping[Path | None, bytes]) -> None:
    for path, content in files.items():
        assert path is not None
        path.write_bytes(content)
        os.utime(path, (at_s, at_s))


@LOOPS
def test_a_new_certificate_is_taken_up_while_it_listens(
    tmp_path: Path, authority: Authority, loop: Loop
) -> None:
    settings = written(tmp_path, authority, password=b"the first")
    password, ca = tmp_path / "password", tmp_path / "ca.pem"
    password.write_bytes(b"the first")
    ca.write_bytes(authority.certificate)
    settings = settings.model_copy(update={"tls_key_password_file": password})
    tls = ServerTls(settings)
    certificate, key = settings.tls_certificate, settings.tls_key

    def client(address: Address) -> None:
        def serial() -> int:
            """Of what a client is shown that connects now."""
            with (
                socket.create_connection(address) as plain,
                trusting(ca, "--ca").wrap_socket(plain, server_hostname=address[0]) as secured,
            ):
                shown = secured.getpeercert(binary_form=True)
            assert shown is not None
            return x509.load_der_x509_certificate(shown).serial_number

        first = serial()
        assert not tls.renew()
        new = authority.signed("127.0.0.1", password=b"the second")
        other = authority.signed("127.0.0.1", password=b"the first")
        replace(1_000.0, {certificate: new.certificate, key: other.key})
        assert not tls.renew(), "certificate and key do not belong together"
        assert serial() == first
        replace(2_000.0, {key: new.key})
        assert not tls.renew(), "the password is the first one's"
        assert serial() == first
        replace(3_000.0, {password: b"the second"})
        assert tls.renew()
        assert serial() != first
        assert not tls.renew()

    listening(tls, loop, client)


def test_a_key_is_taken_up_once_it_can_be_read(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = written(tmp_path, authority)
    tls, new, key = ServerTls(settings), authority.signed("127.0.0.1"), settings.tls_key
    assert key is not None
    replace(1_000.0, {settings.tls_certificate: new.certificate, key: new.key})
    with monkeypatch.context() as patched:

        def denied(path: Path, where: str) -> bytes:
            if path == key:
                raise SettingsError(where, "permission denied", "the file can be read", "correct its rights")
            return path.read_bytes()

        patched.setattr("api.certificates.read_file", denied)  # whoever runs this may read everything
        assert not tls.renew()
    assert not tls.renew()
    changed_ns = key.stat().st_ctime_ns
    while key.stat().st_ctime_ns == changed_ns:  # a clock of some milliseconds
        key.chmod(0o640)
    assert tls.renew()


@LOOPS
def test_another_authority_of_callers_is_taken_up_while_it_listens(
    tmp_path: Path, authority: Authority, loop: Loop
) -> None:
    settings = written(tmp_path, authority)
    ca, callers = tmp_path / "ca.pem", tmp_path / "callers.pem"
    ca.write_bytes(authority.certificate)
    before, after = Authority("callers"), Authority("callers")
    callers.write_bytes(before.certificate)
    tls = ServerTls(settings.model_copy(update={"tls_client_ca": callers}))

    def presenting(caller: Authority) -> ssl.SSLContext:
        signed = caller.signed("a caller")
        shown = tmp_path / "caller.pem"
        shown.write_bytes(signed.certificate + signed.key)
        context = trusting(ca, "--ca")
        context.load_cert_chain(shown)
        return context

    def client(address: Address) -> None:
        def admitted(context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLSession | None:
            """The session, with which a caller need not show its certificate again; None where refused."""
            with (
                socket.create_connection(address) as plain,
                context.wrap_socket(plain, server_hostname=address[0], session=session) as secured,
            ):
                try:
                    return secured.session if secured.recv(2) == b"ok" else None
                except (ssl.SSLError, ConnectionError):
                    return None

        old, new = presenting(before), presenting(after)
        session = admitted(old)
        assert session is not None
        assert admitted(old, session) is not None
        assert admitted(new) is None
        replace(1_000.0, {callers: b"no certificate"})
        assert not tls.renew()
        assert admitted(old) is not None
        replace(2_000.0, {callers: after.certificate})
        assert tls.renew()
        assert admitted(new) is not None
        assert admitted(old) is None
        assert admitted(old, session) is None

    listening(tls, loop, client)
