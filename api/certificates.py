"""The server's certificate and key: loading, expiry, renewal while it runs."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.x509.oid import NameOID

from settings.errors import SettingsError
from settings.security import TlsSettings
from settings.tls import read_file, ssl_said, trust

# For TLS 1.2; every suite of TLS 1.3 is acceptable.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
SOON_S = 14 * 86_400.0

_log = logging.getLogger("ecntwin.tls")


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    subject: str
    names: tuple[str, ...]
    not_before: datetime
    not_after: datetime

    @classmethod
    def of(cls, certificate: x509.Certificate) -> Self:
        try:
            found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            names = tuple(str(one.value) for one in found)
        except x509.ExtensionNotFound:
            names = ()
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return cls(
            str(common[0].value) if common else certificate.subject.rfc4514_string(),
            names,
            certificate.not_valid_before_utc,
            certificate.not_valid_after_utc,
        )

    def left_s(self, now_s: float) -> float:
        """Seconds until it expires; negative afterwards."""
        return self.not_after.timestamp() - now_s

    def sentence(self, now_s: float) -> str:
        days = self.left_s(now_s) / 86_400
        ends = f"{self.not_after:%Y-%m-%d %H:%M} UTC"
        said = f"ended {-days:.0f} days ago, on {ends}" if days < 0 else f"ends in {days:.0f} days, on {ends}"
        return f"certificate of {', '.join(self.names) or self.subject} {said}"

    def document(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "names": list(self.names),
            "not_before": self.not_before.astimezone(UTC).isoformat(),
            "not_after": self.not_after.astimezone(UTC).isoformat(),
        }


class _Replaceable(ssl.SSLContext):
    """Gives each connection the context ``newest``.

    A context that is in use cannot forget an authority, nor the sessions that it has admitted by one.
    """

    newest: ssl.SSLContext

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """What event loops call for each connection that they accept."""
        return self.newest.wrap_bio(incoming, outgoing, server_side, server_hostname, session)


class ServerTls:
    """The server's TLS context; ``renew`` loads replaced files."""

    def __init__(self, settings: TlsSettings) -> None:
        assert settings.tls_certificate is not None
        assert settings.tls_key is not None
        self._settings = settings
        self._certificate, self._key = settings.tls_certificate, settings.tls_key
        self._seen = self._stamps()
        self._quiet_until_s = 0.0
        self.facts = _facts(self._certificate)
        self.context = _Replaceable(ssl.PROTOCOL_TLS_SERVER)
        self.context.newest = self._loaded()

    @classmethod
    def of(cls, settings: TlsSettings) -> Self | None:
        """None without TLS in the settings; raises ``SettingsError`` for unusable files."""
        return None if settings.tls_certificate is None else cls(settings)

    def check_now(self, now_s: float) -> None:
        """Raises ``SettingsError`` unless the certificate is valid at ``now_s`` (seconds since 1970)."""
        begun = self.facts.not_before.timestamp() <= now_s
        if not begun or self.facts.left_s(now_s) < 0:
            raise SettingsError(
                "settings server.tls_certificate",
                self.facts.sentence(now_s)
                if begun
                else f"one that begins on {self.facts.not_before:%Y-%m-%d}",
                "a certificate must be valid now",
                "have a new one signed",
            )

    def warn(self, now_s: float) -> None:
        """Logs at most once a day that the certificate expires soon or has expired."""
        if self.facts.left_s(now_s) < SOON_S and now_s >= self._quiet_until_s:
            self._quiet_until_s = now_s + 86_400.0
            _log.warning("the %s; callers refuse one that has ended", self.facts.sentence(now_s))

    def renew(self) -> bool:
        """Loads replaced files for new connections; returns whether it did. Unusable ones are logged."""
        stamps = self._stamps()
        if stamps == self._seen or None in stamps:
            return False
        self._seen = stamps
        try:
            self.facts, self.context.newest = _facts(self._certificate), self._loaded()
        except SettingsError as error:
            _log.error("keeping the previous TLS files: %s", error)
            return False
        _log.info("loaded new TLS files: the %s", self.facts.sentence(datetime.now(UTC).timestamp()))
        return True

    def _stamps(self) -> tuple[tuple[int, int] | None, ...]:
        also = (self._settings.tls_key_password_file, self._settings.tls_client_ca)
        return tuple(_stamp(path) for path in (self._certificate, self._key, *also) if path is not None)

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(_CIPHERS)
        self._load_chain(context)
        if (authority := self._settings.tls_client_ca) is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            trust(context, authority, "settings server.tls_client_ca")
        return context

    def _load_chain(self, context: ssl.SSLContext) -> None:
        password = _password(self._settings.tls_key_password_file)
        read_file(self._key, "settings server.tls_key")
        try:
            # Without a password callback OpenSSL would prompt at the terminal and block the service.
            context.load_cert_chain(self._certificate, self._key, password or _no_password)
        except (ssl.SSLError, ValueError, _PasswordNeededError) as error:
            raise _pair_error(error, self._key, with_password=password is not None) from error


class _PasswordNeededError(Exception):
    """The error for an encrypted key without a password file."""


def _no_password() -> str:
    raise _PasswordNeededError


def _pair_error(error: Exception, key: Path, *, with_password: bool) -> SettingsError:
    said = ssl_said(error)
    if isinstance(error, _PasswordNeededError):
        return SettingsError(
            "settings server.tls_key",
            f"{key}, which is encrypted",
            "the password of a key is in a file",
            "name it as tls_key_password_file",
        )
    if "mismatch" in said:
        return SettingsError(
            "settings server.tls_key",
            f"{key}, which is another certificate's",
            "certificate and key belong together",
            "correct either path",
        )
    also = ", under the password of tls_key_password_file" if with_password else ""
    return SettingsError(
        "settings server.tls_key", f"{key} ({said})", f"it holds one key in PEM{also}", "correct the file"
    )


def _facts(path: Path) -> CertificateFacts:
    where = "settings server.tls_certificate"
    try:
        return CertificateFacts.of(x509.load_pem_x509_certificates(read_file(path, where))[0])
    except ValueError as error:
        raise SettingsError(
            where,
            f"{path}, in which there is none",
            "it holds certificates in PEM, the server's first",
            "correct the path",
        ) from error


def _password(path: Path | None) -> str | None:
    if path is None:
        return None
    where = "settings server.tls_key_password_file"
    try:
        return read_file(path, where).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise SettingsError(
            where, f"{path}: bytes", "it holds one line of UTF-8 text", "save it so"
        ) from None


def _stamp(path: Path) -> tuple[int, int] | None:
    """When it was last written, and when its rights or its owner, which may be corrected after that."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns
