"""Tokens that an issuer signs, with a real one on loopback: good, forged, and where it is away."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from service.auth.oidc import AGAIN_S, FRESH_S, KEPT_S
from tests.counterparts.certificates import Authority
from tests.counterparts.oidc_issuer import Issuer, issuing
from tests.integration.service import Running, Wanted, manual, running

pytestmark = pytest.mark.anyio

SCOPES = {"net.read": ["read"], "net.act": ["read", "operate"]}
OWN = {"name": "own", "sha256": sha256(b"own").hexdigest(), "scopes": ["read"]}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An issuer that is there is waited for; the one that is away says so at once."""
    monkeypatch.setattr("service.auth.oidc.PATIENCE_S", 60.0)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as served:
        yield served


@dataclass
class Guarded:
    """A service that trusts an issuer."""

    here: Running
    issuer: Issuer

    async def __call__(self, token: str, method: str = "GET", path: str = "/v1/topology") -> httpx.Response:
        return await self.here.client.request(method, path, headers={"Authorization": f"Bearer {token}"})

    async def status(self, token: str) -> int:
        return (await self(token)).status_code


def wanted(issuer: Issuer, **oidc: Any) -> Wanted:
    told = {"issuer": issuer.url, "audience": "ecntwin", "scopes": SCOPES} | oidc
    return Wanted(settings=manual(security={"tokens": [OWN], "oidc": told}))


@pytest.fixture
async def guarded(issuer: Issuer) -> AsyncIterator[Guarded]:
    async with running(wanted(issuer, leeway_s=5)) as here:
        yield Guarded(here, issuer)


async def test_a_good_token_does_what_its_claims_are_mapped_to(guarded: Guarded) -> None:
    reading = guarded.issuer.token()
    assert await guarded.status(reading) == 200
    refused = await guarded(reading, "POST", "/v1/tune")
    assert refused.status_code == 403
    assert "token 'oidc:42' with scopes read" in refused.json()["received"]
    assert (await guarded(guarded.issuer.token(scope="net.act"), "POST", "/v1/tune")).status_code == 409
    assert (await guarded(guarded.issuer.token(scope="other"))).status_code == 403
    assert guarded.issuer.asked == ["/.well-known/openid-configuration", "/keys"], "once, and kept"


async def test_calls_that_come_while_the_keys_are_fetched_wait_for_them(guarded: Guarded) -> None:
    token = guarded.issuer.token()
    assert await asyncio.gather(*(guarded.status(token) for _ in range(5))) == [200] * 5
    guarded.issuer.add_rsa("two")
    guarded.here.hand.now_s += AGAIN_S
    new = guarded.issuer.token("two")
    assert await asyncio.gather(*(guarded.status(new) for _ in range(5))) == [200] * 5
    assert guarded.issuer.asked == ["/.well-known/openid-configuration", "/keys"] * 2, "once each time"


async def test_elliptic_keys_and_keys_without_a_word_of_their_algorithm(issuer: Issuer) -> None:
    issuer.add_ec("curve")
    pss = jwt.encode(issuer.claims(), issuer.keys["one"], "PS256", headers={"kid": "one"})
    async with running(wanted(issuer, algorithms=["RS256", "ES256", "PS256"])) as here:
        ask = Guarded(here, issuer)
        assert await ask.status(issuer.token("curve")) == 200
        assert await ask.status(issuer.token()) == 200
        assert await ask.status(pss) == 200
    async with running(wanted(issuer)) as here:
        assert await Guarded(here, issuer).status(pss) == 401, "not among the algorithms"


async def test_a_token_that_names_no_key_is_of_the_only_one(issuer: Issuer) -> None:
    issuer.names_keys = False
    async with running(wanted(issuer)) as here:
        assert await Guarded(here, issuer).status(issuer.token()) == 200
    issuer.add_rsa("two")
    async with running(wanted(issuer)) as here:
        ask = Guarded(here, issuer)
        assert [await ask.status(issuer.token(name)) for name in ("one", "two")] == [401, 401]


def changed(**claims: Any) -> Any:
    return lambda issuer: issuer.token(**claims)


def shifted(claim: str, by_s: int) -> Any:
    """From the moment at which it is made: minutes pass between a test's collection and its run."""
    return lambda issuer: issuer.token(**{claim: int(time.time()) + by_s})


@pytest.mark.parametrize(
    ("make", "received"),
    [
        (shifted("exp", -60), "has expired"),
        (shifted("nbf", 600), "not valid yet"),
        (changed(aud="another"), "for another audience"),
        (changed(iss="https://another.example"), "of another issuer"),
        (changed(exp=None), "lacks a claim"),
        (changed(aud=None), "lacks a claim"),
    ],
    ids=["expired", "early", "audience", "issuer", "no exp", "no aud"],
)
async def test_a_token_that_is_no_good_is_refused_by_what_is_wrong(
    guarded: Guarded, make: Any, received: str
) -> None:
    token = make(guarded.issuer)
    answer = await guarded(token)
    assert answer.status_code == 401
    assert received in answer.json()["received"]
    assert answer.headers["www-authenticate"] == "Bearer"
    assert token.split(".")[1] not in answer.text


async def test_a_little_late_is_in_time(issuer: Issuer) -> None:
    async with running(wanted(issuer, leeway_s=600)) as here:
        late = issuer.token(exp=int(time.time()) - 60)  # as it is refused above
        assert await Guarded(here, issuer).status(late) == 200


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def signed_by_hand(header: dict[str, str], claims: dict[str, Any], secret: bytes | None) -> str:
    text = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}"
    signature = b"" if secret is None else hmac.new(secret, text.encode(), sha256).digest()
    return f"{text}.{encoded(signature)}"


async def test_forgeries_are_refused(guarded: Guarded) -> None:
    issuer = guarded.issuer
    assert await guarded.status(issuer.token()) == 200
    good = issuer.token().split(".")
    stranger = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    more = encoded(json.dumps(issuer.claims(scope="net.act")).encode())
    forged = {
        "unsigned": signed_by_hand({"alg": "none", "kid": "one"}, issuer.claims(), None),
        "unsigned, shouted": signed_by_hand({"alg": "NONE", "kid": "one"}, issuer.claims(), None),
        "the public key as a secret": signed_by_hand(
            {"alg": "HS256", "kid": "one"}, issuer.claims(), issuer.public_pem("one")
        ),
        "a secret of nothing": signed_by_hand({"alg": "HS256", "kid": "one"}, issuer.claims(), b""),
        "another's key under this id": issuer.token(key=stranger),
        "another kind of key under this id": issuer.token(key=ec.generate_private_key(ec.SECP256R1())),
        "other claims": ".".join((good[0], more, good[2])),
        "no signature": ".".join((*good[:2], "")),
        "its own key": jwt.encode(
            issuer.claims(), stranger, "RS256", headers={"jku": f"{issuer.url}/mine", "kid": "mine"}
        ),
    }
    answers = {what: await guarded(token) for what, token in forged.items()}
    assert {what: answer.status_code for what, answer in answers.items()} == dict.fromkeys(forged, 401)
    assert "/mine" not in issuer.asked


@pytest.mark.parametrize("text", ["..", "a.b.c", "....", "e30.e30.e30", "." * 20_000, "é.é.é"])
async def test_what_is_no_token_at_all_is_refused(guarded: Guarded, text: str) -> None:
    header = b"Bearer " + text.encode("latin-1")
    answer = await guarded.here.client.get("/v1/topology", headers={b"Authorization": header})
    assert answer.status_code == 401


async def test_a_key_that_is_new_is_fetched_and_one_that_is_gone_is_forgotten(guarded: Guarded) -> None:
    issuer, clock = guarded.issuer, guarded.here.hand
    old = issuer.token()
    assert await guarded.status(old) == 200
    issuer.add_rsa("two")
    new = issuer.token("two")
    before = len(issuer.asked)
    assert [await guarded.status(new) for _ in range(5)] == [401] * 5, "asked a moment ago"
    assert len(issuer.asked) == before
    clock.now_s += AGAIN_S
    assert await guarded.status(new) == 200
    del issuer.keys["one"]
    assert await guarded.status(old) == 200
    clock.now_s += FRESH_S
    assert await guarded.status(old) == 401
    assert await guarded.status(new) == 200


async def test_where_the_issuer_is_away_only_its_tokens_wait(guarded: Guarded) -> None:
    issuer, clock = guarded.issuer, guarded.here.hand
    issuer.away = True
    token = issuer.token()
    answer = await guarded(token)
    assert answer.status_code == 503
    assert issuer.url in answer.json()["where"]
    assert await guarded.status("own") == 200
    asked = len(issuer.asked)
    assert [await guarded.status(token) for _ in range(5)] == [503] * 5
    assert len(issuer.asked) == asked, "not asked again at once"
    issuer.away = False
    clock.now_s += AGAIN_S
    assert await guarded.status(token) == 200


async def test_keys_that_are_known_outlast_an_issuer_for_a_day(guarded: Guarded) -> None:
    issuer, clock = guarded.issuer, guarded.here.hand
    token = issuer.token()
    assert await guarded.status(token) == 200
    issuer.away = True
    clock.now_s += KEPT_S - 60
    assert await guarded.status(token) == 200
    clock.now_s += 120
    assert await guarded.status(token) == 503


async def test_another_issuers_discovery_is_not_believed(issuer: Issuer) -> None:
    issuer.says_it_is = "https://another.example"
    async with running(wanted(issuer)) as here:
        answer = await Guarded(here, issuer)(issuer.token())
        assert answer.status_code == 503
        assert "another issuer's" in answer.json()["received"]
    async with running(wanted(issuer, jwks_url=f"{issuer.url}/keys")) as here:
        assert await Guarded(here, issuer).status(issuer.token()) == 200


async def test_claims_inside_objects_lists_and_names(issuer: Issuer) -> None:
    told = {"scope_claim": "realm.roles", "name_claim": "preferred_username"}
    async with running(wanted(issuer, **told)) as here:
        ask = Guarded(here, issuer)
        answer = await ask(issuer.token(realm={"roles": ["net.read", 7, "x"]}), "POST", "/v1/tune")
        assert "token 'oidc:ada' with scopes read" in answer.json()["received"]
        odd = issuer.token(realm={"roles": ["net.read"]}, preferred_username="a\nb" + "c" * 200)
        assert "'oidc:a?b" in (await ask(odd, "POST", "/v1/tune")).json()["received"]
        assert (await ask(issuer.token(realm="net.read"))).status_code == 403


async def test_an_issuer_behind_tls_that_an_authority_of_its_own_signed(tmp_path: Path) -> None:
    authority = Authority("the issuer's authority")
    signed = authority.signed("127.0.0.1")
    both, ca = tmp_path / "issuer.pem", tmp_path / "ca.pem"
    both.write_bytes(signed.certificate + signed.key)
    ca.write_bytes(authority.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    with issuing(context) as issuer:
        async with running(wanted(issuer, ca=ca)) as here:
            assert await Guarded(here, issuer).status(issuer.token()) == 200
        async with running(wanted(issuer)) as here:
            answer = await Guarded(here, issuer)(issuer.token())
            assert answer.status_code == 503
            assert "certificate" in answer.json()["received"].lower()


@pytest.mark.parametrize(
    "oidc",
    [
        {"issuer": "http://login.example"},
        {"jwks_url": "http://login.example/keys"},
        {"algorithms": ["HS256"]},
        {"algorithms": ["none"]},
        {"algorithms": []},
        {"scopes": {}},
        {"scopes": {"x": ["root"]}},
    ],
)
def test_settings_that_would_trust_anybody_are_refused(oidc: dict[str, Any]) -> None:
    told = {"issuer": "https://login.example", "audience": "ecntwin", "scopes": SCOPES} | oidc
    with pytest.raises(ValueError, match="oidc"):
        manual(security={"oidc": told})
