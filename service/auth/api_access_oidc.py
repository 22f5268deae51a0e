"""Bearer tokens that an issuer signed: verified by PyJWT with the issuer's keys, then mapped to scopes."""

from __future__ import annotations

from collections.abc import Callable

import jwt
from jwt import PyJWK

from service.auth.claims import caller_of
from service.auth.oidc import IssuerKeys
from settings.callers import Caller
from settings.errors import UnauthorizedError
from settings.security import OidcSettings

LONGEST_TOKEN = 16_384
WHERE = "Authorization header"


class SignedTokens:
    """Verifies the tokens of one issuer. ``clock_s`` is monotonic; a token's times are the wall clock's."""

    def __init__(self, settings: OidcSettings, *, clock_s: Callable[[], float]) -> None:
        self._settings = settings
        self._keys = IssuerKeys(settings, clock_s=clock_s)

    @staticmethod
    def looks_like_one(text: str) -> bool:
        """Whether it has the three parts of a signed token."""
        return text.count(".") == 2

    async def caller(self, text: str) -> Caller:
        """Who the token says calls. Raises ``UnauthorizedError`` for one that is no good, and
        ``UnavailableError`` where that cannot be told because its issuer is away.
        """
        try:
            if len(text) > LONGEST_TOKEN:
                raise jwt.DecodeError(f"more than {LONGEST_TOKEN} characters")
            header = jwt.get_unverified_header(text)
            if (algorithm := header.get("alg")) not in self._settings.algorithms:
                raise jwt.InvalidAlgorithmError("another algorithm than the settings allow")
            key = await self._keys.key(header.get("kid"), algorithm)
            if key is None:
                raise jwt.InvalidKeyError("no key of the issuer's has its id")
            return caller_of(self._verified(text, key), self._settings)
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise refused(error, self._settings) from error

    def _verified(self, text: str, key: PyJWK) -> dict[str, object]:
        claims: dict[str, object] = jwt.decode(
            text,
            key,
            algorithms=list(self._settings.algorithms),
            audience=self._settings.audience,
            issuer=self._settings.issuer,
            leeway=self._settings.leeway_s,
            options={"require": ["exp", "iss", "aud"]},
        )
        return claims


def refused(error: Exception, settings: OidcSettings) -> UnauthorizedError:
    """What is wrong with a token, without a word of it."""
    said = next((text for kind, text in _SAID if isinstance(error, kind)), "a token that cannot be verified")
    return UnauthorizedError(
        WHERE,
        said,
        f"a signed token is good now, for {settings.audience!r}, and signed by {settings.issuer}",
        "get a new token",
    )


# First match wins, so a class comes before its base.
_SAID: tuple[tuple[type[Exception], str], ...] = (
    (jwt.ExpiredSignatureError, "a token that has expired"),
    (jwt.ImmatureSignatureError, "a token that is not good yet"),
    (jwt.InvalidAudienceError, "a token for somebody else"),
    (jwt.InvalidIssuerError, "a token of another issuer"),
    (jwt.MissingRequiredClaimError, "a token that lacks a claim (exp, iss and aud are needed)"),
    (jwt.InvalidAlgorithmError, "a token signed by an algorithm that is not allowed"),
    (jwt.InvalidKeyError, "a token signed with a key that its issuer does not have"),
    (jwt.InvalidSignatureError, "a token that its issuer did not sign"),
)
