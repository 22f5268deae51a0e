"""A server's certificate: what does not go together, when it ends, and the next one while it listens."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from pathlib import Path

import pytest
from cryptography import x509

from api.certificates import ServerTls
from settings.errors import SettingsError
from settings.security import TlsSettings
from settings.tls import trusting
from tests.counterparts.certificates import Authority

DAY_S = 86_400.0


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
    assert ServerTls(settings).context.minimum_version is ssl.TLSVersion.TLSv1_2
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


def test_a_new_certificate_is_taken_up_while_it_listens(tmp_path: Path, authority: Authority) -> None:
    settings = written(tmp_path, authority)
    tls = ServerTls(settings)
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.certificate)

    async def serial() -> int:
        """Of what a client is shown that connects now."""
        _, writer = await asyncio.open_connection(*address, ssl=trusting(ca, "--ca"))
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return x509.load_der_x509_certificate(shown).serial_number

    def replace(certificate: bytes, key: bytes, at_s: float) -> None:
        assert settings.tls_certificate is not None
        assert settings.tls_key is not None
        for path, content in ((settings.tls_certificate, certificate), (settings.tls_key, key)):
            path.write_bytes(content)
            os.utime(path, (at_s, at_s))

    async def watch() -> None:
        first = await serial()
        assert not tls.renew()
        new, other = authority.signed("127.0.0.1"), authority.signed("127.0.0.1")
        replace(new.certificate, other.key, 1_000.0)
        assert not tls.renew(), "certificate and key do not belong together"
        assert await serial() == first
        replace(new.certificate, new.key, 2_000.0)
        assert tls.renew()
        assert await serial() != first
        assert not tls.renew()

    async def talk() -> None:
        nonlocal address
        server = await asyncio.start_server(
            lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=tls.context
        )
        async with server:
            address = server.sockets[0].getsockname()[:2]
            await watch()

    address: tuple[str, int] = ("", 0)
    asyncio.run(talk())
