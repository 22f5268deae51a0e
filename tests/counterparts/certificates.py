"""Certificates that a test makes for itself: an authority, and what it signs for a server or a caller."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Signed:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates that are good for a day around now."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        built = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.certificate = built.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def signed(self, host: str, *, password: bytes | None = None, days: float = 1.0) -> Signed:
        """For a host of that name or address, good for ``days`` (below 0: it ended), its key encrypted where
        there is a password.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        built = self._builder(subject, key, days=days).add_extension(
            x509.SubjectAlternativeName([_general(host)]), critical=False
        )
        protection = NoEncryption() if password is None else BestAvailableEncryption(password)
        return Signed(
            built.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM),
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection),
        )

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: float = 1.0
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=max(1.0, 1.0 - days)))
            .not_valid_after(now + datetime.timedelta(days=days))
        )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
