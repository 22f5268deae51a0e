"""Callers and their scopes; settings of TLS, tokens, OIDC and rate limits."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from settings.errors import SettingsError
from settings.validation import HiddenValueError, Section, is_loopback, server_url

Scope = Literal["telemetry", "read", "operate", "admin"]

LOCAL_NAME = "local"
FROM_SETTINGS = "settings"  # whose revisions tell a start whether the file has changed since the last one
RESERVED = (LOCAL_NAME, "policy", FROM_SETTINGS)
SCOPES: tuple[Scope, ...] = ("telemetry", "read", "operate", "admin")


@dataclass(frozen=True, slots=True)
class Caller:
    """``name`` is the token's, ``oidc:`` and a claim, or ``local`` without tokens; ``address`` is the
    client's.
    """

    name: str
    scopes: frozenset[Scope]
    kind: Literal["token", "oidc", "local"] = "token"
    address: str = ""

    def calling_from(self, address: str) -> Self:
        return replace(self, address=address)

    @property
    def label(self) -> str:
        """Its name in metrics: a configured one, never a person's."""
        return self.name if self.kind == "token" else self.kind


LOCAL = Caller(LOCAL_NAME, frozenset(SCOPES), "local")


def scopes_of(text: str) -> frozenset[Scope]:
    """The known scopes among the words of ``text``; a later version may have written others."""
    words = text.split()
    return frozenset(scope for scope in SCOPES if scope in words)


# None with a shared secret, nor "none": a key that everybody may know must never sign.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class BrokenRuleError(SettingsError, ValueError):
    """Settings that contradict each other; a ValueError, so that pydantic reports it like its own."""


class TlsSettings(Section):
    """TLS files of a server in PEM, read at the start and whenever they change."""

    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_key_password_file: Path | None = None
    tls_client_ca: Path | None = None
    hsts_s: int = Field(default=31_536_000, ge=0)

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        for needs, needed in (
            ("tls_certificate", "tls_key"),
            ("tls_key", "tls_certificate"),
            ("tls_key_password_file", "tls_key"),
            ("tls_client_ca", "tls_certificate"),
        ):
            if getattr(self, needs) is not None and getattr(self, needed) is None:
                raise BrokenRuleError(needs, None, f"{needs} needs {needed}", f"give {needed} too")
        return self


class RateSettings(Section):
    """Limits of each token: ``requests_per_s`` on average and ``burst`` at once, bodies of together
    ``bytes_per_s`` (none: any), each of ``max_body_bytes`` and at most ``server.max_body_bytes``.

    Without tokens there are no limits.
    """

    requests_per_s: float = Field(default=1_000.0, gt=0)
    burst: int = Field(default=5_000, ge=1)
    bytes_per_s: float | None = Field(default=None, gt=0)
    max_body_bytes: int | None = Field(default=None, gt=0)


class OidcSettings(Section):
    """Bearer tokens signed by an OpenID Connect issuer (JWT), beside those configured here.

    ``audience`` must be among the token's. Keys are fetched from ``jwks_url``, or from the URL in the
    issuer's discovery document; ``ca`` is a file (PEM) with its certificate authorities, the system's
    otherwise. ``scopes`` maps values of the claim ``scope_claim`` (a text of words or a list; dots lead into
    objects) to scopes of this service. ``name_claim`` is the name in the audit log.
    """

    issuer: str
    audience: str = Field(min_length=1)
    jwks_url: str | None = None
    ca: Path | None = None
    algorithms: tuple[Algorithm, ...] = Field(default=("RS256", "ES256"), min_length=1)
    scope_claim: str = Field(default="scope", min_length=1)
    scopes: dict[str, frozenset[Scope]] = Field(min_length=1)
    name_claim: str = Field(default="sub", min_length=1)
    leeway_s: float = Field(default=30.0, ge=0, le=600)

    @field_validator("issuer", "jwks_url")
    @classmethod
    def _cannot_be_listened_to(cls, text: str | None) -> str | None:
        return text if text is None else private_url(text)


class TokenSettings(Section):
    """One bearer token by the SHA-256 of its text (hex); the text itself is never stored."""

    name: str = Field(min_length=1, max_length=100)
    sha256: str
    scopes: frozenset[Scope] = Field(min_length=1)

    @field_validator("name")
    @classmethod
    def _is_nobody_elses(cls, name: str) -> str:
        if name in RESERVED or name.startswith(("oidc:", "command:", "policy ")):
            raise ValueError(f"{name!r} is what the audit log or a revision calls a caller without a token")
        return name

    @field_validator("sha256")
    @classmethod
    def _is_a_digest(cls, text: str) -> str:
        if not re.fullmatch("[0-9a-fA-F]{64}", text):  # it may be the token itself, which is not shown
            raise HiddenValueError("it is the token's SHA-256, 64 hex digits", "give what sha256sum prints")
        return text.lower()


class SecuritySettings(Section):
    """Who may call ([access](../operate/access.md)). Without a token, here or by ``ecntwin token``, only
    loopback may.

    ``limits`` hold for every token, and ``limits_of`` overrides them by name. An address that sends more than
    ``failures_per_min`` wrong tokens a minute is answered 429.
    """

    tokens: tuple[TokenSettings, ...] = ()
    oidc: OidcSettings | None = None
    limits: RateSettings = RateSettings()
    limits_of: dict[str, RateSettings] = Field(default_factory=dict)
    failures_per_min: int = Field(default=30, ge=1)

    @model_validator(mode="after")
    def _tokens_differ(self) -> Self:
        names: dict[str, str] = {}
        for token in self.tokens:
            if token.name in names.values():
                raise ValueError(f"token name {token.name!r} is used twice; names are unique")
            if (other := names.setdefault(token.sha256, token.name)) != token.name:
                raise ValueError(
                    f"tokens {other!r} and {token.name!r} have the same sha256; a token has one name"
                )
        return self

    def limits_for(self, name: str) -> RateSettings:
        if (own := self.limits_of.get(name)) is None:
            return self.limits
        return self.limits.model_copy(update=own.model_dump(exclude_unset=True))


def private_url(text: str) -> str:
    """``text``, if it is an https URL or of this machine; raises ``ValueError``: keys fetched in the clear
    could be forged.
    """
    url = server_url(text)
    if not url.startswith("https:") and not is_loopback(urlsplit(url).hostname or ""):
        raise ValueError("it is an https URL; http only on loopback")
    return url
