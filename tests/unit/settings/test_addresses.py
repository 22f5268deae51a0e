"""Where a server is found: what a client could not call is refused before it is called."""

from __future__ import annotations

import pytest

from settings.validation import database_url, server_url, without_password


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


@pytest.mark.parametrize("url", ["sqlite:///x.db", "sqlite://", "postgresql+psycopg://u:p@h:5432/db?ssl=1"])
def test_a_database_s_url_stays_as_it_is(url: str) -> None:
    assert database_url(url) == url


@pytest.mark.parametrize("text", ["", "x.db", "sqlite:x.db", "Sqlite:///x", "://x", "sqlite:///a b"])
def test_what_is_no_database_s_url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="URL of a database"):
        database_url(text)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///x.db", "sqlite:///x.db"),
        ("postgresql://h/db", "postgresql://h/db"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("postgresql://u:hunter2@h:5432/db", "postgresql://u:***@h:5432/db"),
        ("postgresql://u:hun:te@r2@h/db", "postgresql://u:***@h/db"),
        ("postgresql://:hunter2@h/db", "postgresql://:***@h/db"),
        ("postgresql://h/db?user=u&password=hunter2&x=1", "postgresql://h/db?user=u&password=***&x=1"),
        ("mysql://u:hunter2/@h/db", "mysql://u:***@h/db"),
    ],
)
def test_a_database_s_password_is_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown
