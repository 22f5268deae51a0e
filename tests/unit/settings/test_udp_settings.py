from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from settings.model import Settings
from settings.telemetry import UdpSettings


def test_nothing_is_listened_to_unless_said() -> None:
    assert UdpSettings().ports == ()


@pytest.mark.parametrize("given", [32766, [32766], "32766"])
def test_one_port_needs_no_list(given: Any) -> None:
    assert UdpSettings(ports=given).ports == (32766,)


def test_the_environment_may_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECNTWIN_TELEMETRY__UDP__PORTS", "32766")
    monkeypatch.setenv("ECNTWIN_TELEMETRY__UDP__ALLOW", '["192.0.2.0/24"]')
    udp = Settings().telemetry.udp
    assert (udp.ports, udp.allowed) == ((32766,), ("192.0.2.0/24",))


def test_this_machine_may_send_unless_others_are_said() -> None:
    assert UdpSettings(ports=1).allowed == ("127.0.0.0/8", "::1/128")
    assert UdpSettings(ports=1, allow=["10.0.0.0/8"]).allowed == ("10.0.0.0/8",)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ports": 1, "host": "0.0.0.0"}, "UDP knows no tokens"),
        ({"ports": 1, "host": "leaf1"}, "needs allow"),
        ({"allow": ["10.0.0.1/8"]}, "'10.0.0.1/8' is no network"),
        ({"allow": ["switches"]}, "is no network"),
        ({"ports": 65_536}, "less than or equal to 65535"),
        ({"port": 1}, "port"),
    ],
)
def test_what_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        UdpSettings(**given)


def test_other_hosts_are_taken_where_senders_are_named() -> None:
    assert UdpSettings(ports=1, host="0.0.0.0", allow=["192.0.2.0/24"]).host == "0.0.0.0"
