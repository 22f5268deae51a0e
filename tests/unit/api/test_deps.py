"""Without any token, loopback only, the gate itself being tested where it is (``access``); fields by name."""

from __future__ import annotations

from hashlib import sha256

import pytest

from api.deps import check_host, fields_of
from service.documents.recommendation import RecommendationDocument
from service.documents.rollouts import RolloutDocument
from settings.errors import SettingsError, UnprocessableError
from settings.security import OidcSettings, SecuritySettings, TokenSettings
from settings.validation import is_loopback

OPEN = SecuritySettings()
CLOSED = SecuritySettings(
    tokens=(TokenSettings(name="eyes", sha256=sha256(b"other").hexdigest(), scopes=frozenset({"read"})),)
)
SIGNED = SecuritySettings(
    oidc=OidcSettings(
        issuer="https://issuer.example", audience="ecntwin", scopes={"net": frozenset({"read"})}
    )
)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]"])
def test_loopback_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    check_host(host, OPEN)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "fabric.example", ""])
def test_any_other_host_needs_one(host: str) -> None:
    with pytest.raises(SettingsError, match="loopback only"):
        check_host(host, OPEN)
    check_host(host, CLOSED)
    check_host(host, SIGNED)
    check_host(host, OPEN, stored=True)


def test_fields_are_of_the_document_or_of_those_within() -> None:
    assert fields_of(RolloutDocument, None) is None
    assert fields_of(
        RolloutDocument, "id,switches.progress,switches.switch,summary.switches,seen.drops_per_s"
    ) == {
        "id": True,
        "switches": {"__all__": {"progress": True, "switch": True}},
        "summary": {"switches": True},
        "seen": {"drops_per_s": True},
    }
    assert fields_of(RecommendationDocument, "lambda") == {"lambda_": True}


@pytest.mark.parametrize("names", ["events,events.what", "events.what,events"])
def test_all_of_a_field_is_more_than_a_part_of_it(names: str) -> None:
    assert fields_of(RolloutDocument, names) == {"events": True}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("switches.progres", r"'switches\.progres'.*did you mean switches\.progress\?"),
        ("switches.", r"'switches\.'.*did you mean switches\?"),
        ("id.id", "'id.id'.*leave it out"),
        ("nothing.at", "'nothing.at'.*fields of this document are id, recommendation"),
    ],
)
def test_a_field_that_is_not_there_is_told_by_its_whole_name(names: str, said: str) -> None:
    with pytest.raises(UnprocessableError, match=said):
        fields_of(RolloutDocument, names)
