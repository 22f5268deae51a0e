"""Where a server is found: what a client could not call is refused before it is called."""

from __future__ import annotations

import pytest

from api.addresses import server_url


@pytest.mark.parametrize("text", ["http://127.0.0.1:8080", "https://[::1]:8443/", "http://lab/prefix"])
def test_a_url_stays_as_it_is(text: str) -> None:
    assert server_url(text) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "http or https URL"),
        ("lab:9000", "http or https URL"),
        ("ftp://lab", "http or https URL"),
        ("http://", "http or https URL"),
        ("http://lab:99999", "http or https URL"),
        ("http://lab:port", "http or https URL"),
        ("http://[::1", "http or https URL"),
        ("http://a lab", "http or https URL"),
        ("http://lab\n", "http or https URL"),
        ("http://läb", "http or https URL"),
        ("http://lab/?x=1", r"without \? and #"),
        ("http://lab/#x", r"without \? and #"),
        ("http://me:secret@lab", "user name or password"),
    ],
)
def test_what_is_none_is_told_the_rule(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        server_url(text)
