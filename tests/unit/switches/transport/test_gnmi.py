"""gNMI over a real channel: deadlines, TLS, credentials, and every failure in the switches' own errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from pygnmi.spec.v080 import gnmi_pb2, gnmi_pb2_grpc

from switches.device import Device, Secret, Tls
from switches.errors import (
    AccessError,
    CredentialsError,
    InventoryError,
    RefusedError,
    UnreachableError,
)
from switches.transport.gnmi import GnmiOptions, GnmiSession
from switches.transport.gnmi_messages import Elem, GnmiPath, PathValue, listed
from tests.counterparts.certificates import Authority
from tests.counterparts.switches.gnmi_switch import GnmiSwitch, RefusalError, ServerTls, Steps

PATH = GnmiPath.of("table", ("entry", {"name": "a/b"}), origin="sonic-db")


class Echo:
    """Answers a Get with what it is told to, and remembers a Set."""

    models: dict[str, str]

    def __init__(self) -> None:
        self.models = {"openconfig-qos": "2.2.0"}
        self.values: list[tuple[Steps, Any]] = []
        self.fails: RefusalError | None = None
        self.kinds: list[str] = []

    def get(self, origin: str, path: Steps, kind: str) -> list[tuple[Steps, Any]]:
        self.kinds.append(kind)
        if self.fails is not None:
            raise self.fails
        return self.values

    def set(self, origin: str, delete: Any, replace: Any, update: Any) -> None:
        if self.fails is not None:
            raise self.fails


@pytest.fixture
def echo() -> Echo:
    return Echo()


@contextmanager
def served(echo: Echo, **server: Any) -> Iterator[GnmiSwitch]:
    with closing(GnmiSwitch(echo, **server)) as switch:
        yield switch


@contextmanager
def session(port: int, options: GnmiOptions | None = None, **device: Any) -> Iterator[GnmiSession]:
    described: dict[str, Any] = {
        "address": "127.0.0.1",
        "port": port,
        "tls": Tls(enabled=False),
        "timeout_s": 60.0,
    } | device
    with closing(
        GnmiSession(
            Device(name="leaf1", platform="openconfig", **described), options or GnmiOptions(), default_port=1
        )
    ) as opened:
        yield opened


def test_a_get_names_its_paths_and_gives_their_values(echo: Echo) -> None:
    echo.values = [((("table", ()), ("entry", (("name", "a/b"),))), {"field": "1"}), ((("table", ()),), 3)]
    with served(echo) as switch, session(switch.port) as gnmi:
        found = gnmi.get([PATH], data="STATE")
    assert found == [
        PathValue(PATH, {"field": "1"}),
        PathValue(GnmiPath.of("table", origin="sonic-db"), 3),
    ]
    assert echo.kinds == ["STATE"]


def test_a_set_is_one_request_whose_texts_stay_texts(echo: Echo) -> None:
    with served(echo) as switch, session(switch.port) as gnmi:
        gnmi.set(
            delete=[GnmiPath.of("old", origin="sonic-db")],
            replace=[(PATH, {"min-threshold": "500000"})],
            update=[
                (GnmiPath.of("field", origin="sonic-db"), "500000"),
                (GnmiPath.of("flag", origin="sonic-db"), True),
            ],
        )
        (asked,) = switch.asked
    assert asked.delete == ["sonic-db:/old"]
    assert asked.replace == {"sonic-db:/table/entry[name=a/b]": {"min-threshold": "500000"}}
    assert asked.update == {"sonic-db:/field": "500000", "sonic-db:/flag": True}


def test_what_a_switch_says_of_itself(echo: Echo) -> None:
    with served(echo) as switch, session(switch.port) as gnmi:
        models = gnmi.models()
    assert models == {"openconfig-qos": "2.2.0"}


def test_nothing_at_a_path_is_no_failure_of_a_get_and_one_of_a_set(echo: Echo) -> None:
    echo.fails = RefusalError(grpc.StatusCode.NOT_FOUND, "no such table")
    with served(echo) as switch, session(switch.port) as gnmi:
        assert gnmi.get([PATH]) == []
        with pytest.raises(RefusedError, match="NOT_FOUND to Set: no such table"):
            gnmi.set(delete=[PATH])


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, AccessError),
        (grpc.StatusCode.PERMISSION_DENIED, AccessError),
        (grpc.StatusCode.UNAVAILABLE, UnreachableError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, UnreachableError),
        (grpc.StatusCode.INVALID_ARGUMENT, RefusedError),
        (grpc.StatusCode.UNKNOWN, RefusedError),
        (grpc.StatusCode.UNIMPLEMENTED, RefusedError),
        (grpc.StatusCode.ABORTED, RefusedError),
    ],
)
def test_every_failure_is_one_of_ours(
    echo: Echo, code: grpc.StatusCode, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNMI_PASSWORD", "s3cret-word")
    echo.fails = RefusalError(code, "no:\n s3cret-word is " + 500 * "x")
    with (
        served(echo) as switch,
        session(switch.port, password=Secret(env="GNMI_PASSWORD")) as gnmi,
        pytest.raises(error) as caught,
    ):
        gnmi.set(delete=[PATH])
    assert type(caught.value) is error
    assert "s3cret-word" not in str(caught.value)
    assert len(str(caught.value)) < 700
    assert "leaf1" in str(caught.value)


def test_what_the_switch_says_are_kept(echo: Echo) -> None:
    echo.fails = RefusalError(grpc.StatusCode.INVALID_ARGUMENT, "max_threshold must be\n>= min_threshold")
    with (
        served(echo) as switch,
        session(switch.port) as gnmi,
        pytest.raises(RefusedError, match="INVALID_ARGUMENT to Set: max_threshold must be >= min_threshold"),
    ):
        gnmi.set(delete=[PATH])


def test_credentials_go_with_every_call(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNMI_USER", "admin")
    monkeypatch.setenv("GNMI_PASSWORD", "right")
    with (
        served(echo, credentials=("admin", "right")) as switch,
        session(switch.port, username=Secret(env="GNMI_USER"), password=Secret(env="GNMI_PASSWORD")) as gnmi,
    ):
        assert gnmi.get([PATH]) == []
        gnmi.set()
        gnmi.models()
        monkeypatch.setenv("GNMI_PASSWORD", "changed")  # read again for each call: a rotated one is seen
        with pytest.raises(AccessError, match=r"PERMISSION_DENIED to Get sonic-db:/table.*'\*\*\*' is not"):
            gnmi.get([PATH])


def test_no_credentials_are_refused_where_they_are_asked_for(echo: Echo) -> None:
    with (
        served(echo, credentials=("admin", "right")) as switch,
        session(switch.port) as gnmi,
        pytest.raises(AccessError, match="UNAUTHENTICATED"),
    ):
        gnmi.get([PATH])


def test_a_password_that_no_header_carries_is_found_before_it_is_sent(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNMI_PASSWORD", "pässword")
    with (
        session(1, password=Secret(env="GNMI_PASSWORD")) as gnmi,
        pytest.raises(CredentialsError, match="printable ASCII") as caught,
    ):
        gnmi.get([PATH])
    assert "pässword" not in str(caught.value)


def test_a_silent_switch_is_unreachable_within_its_time_and_comes_back(echo: Echo) -> None:
    with served(echo) as switch, session(switch.port, timeout_s=0.2) as gnmi:
        with switch.silent(), pytest.raises(UnreachableError, match=r"no answer to Get .* within 0\.2 s"):
            gnmi.get([PATH])
        deadline = time.monotonic() + 60.0
        while True:
            try:
                assert gnmi.get([PATH]) == []
            except UnreachableError:  # a slow machine needs longer than that switch has
                assert time.monotonic() < deadline
            else:
                break


def test_a_set_has_a_time_of_its_own(echo: Echo) -> None:
    options = GnmiOptions(set_timeout_s=0.3)
    with (
        served(echo) as switch,
        session(switch.port, options, timeout_s=0.1) as gnmi,
        switch.silent(),
        pytest.raises(UnreachableError, match=r"no answer to Set within 0\.3 s"),
    ):
        gnmi.set(delete=[PATH])


def test_a_switch_that_starts_later_is_reached_at_once(echo: Echo) -> None:
    with served(echo) as switch:
        port = switch.port
    with session(port) as gnmi:
        for _ in range(3):
            with pytest.raises(UnreachableError, match="no connection"):
                gnmi.get([PATH])
    with served(echo) as switch, session(switch.port) as gnmi:
        assert gnmi.get([PATH]) == []


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("the fabric's own")


@pytest.fixture
def ca_file(authority: Authority, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    path.write_bytes(authority.certificate)
    return path


@pytest.fixture
def server_tls(authority: Authority) -> ServerTls:
    signed = authority.signed("leaf1.example")
    return ServerTls(signed.key, signed.certificate)


def test_a_certificate_is_checked_by_the_authority_and_the_name(
    echo: Echo, server_tls: ServerTls, ca_file: Path
) -> None:
    named = Tls(ca_file=ca_file, server_name="leaf1.example")
    with served(echo, tls=server_tls) as switch, session(switch.port, tls=named) as gnmi:
        assert gnmi.get([PATH]) == []


def test_another_name_or_authority_is_not_talked_to(
    echo: Echo, server_tls: ServerTls, ca_file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(Authority("somebody else's").certificate)
    refused = [
        Tls(ca_file=ca_file),  # the address is not in the certificate
        Tls(ca_file=ca_file, server_name="leaf2.example"),
        Tls(ca_file=other, server_name="leaf1.example"),
        Tls(server_name="leaf1.example"),
        Tls(enabled=False),
    ]
    with served(echo, tls=server_tls) as switch:
        for tls in refused:
            with session(switch.port, tls=tls) as gnmi, pytest.raises(UnreachableError, match="certificate"):
                gnmi.get([PATH])
    assert echo.kinds == []


def test_a_caller_shows_its_own_certificate_where_it_is_asked_for(
    echo: Echo, authority: Authority, server_tls: ServerTls, ca_file: Path, tmp_path: Path
) -> None:
    mine = authority.signed("ecntwin")
    (tmp_path / "mine.pem").write_bytes(mine.certificate)
    (tmp_path / "mine.key").write_bytes(mine.key)
    shown = GnmiOptions(cert_file=str(tmp_path / "mine.pem"), key_file=str(tmp_path / "mine.key"))
    asking = ServerTls(server_tls.key, server_tls.certificate, client_authority=authority.certificate)
    tls = Tls(ca_file=ca_file, server_name="leaf1.example")
    with served(echo, tls=asking) as switch:
        with session(switch.port, shown, tls=tls) as gnmi:
            assert gnmi.get([PATH]) == []
        with session(switch.port, tls=tls) as gnmi, pytest.raises(UnreachableError):
            gnmi.get([PATH])


@pytest.mark.parametrize(
    ("device", "options", "says"),
    [
        ({"address": ""}, {}, "give address"),
        ({"address": "https://leaf1"}, {}, "give address"),
        ({"address": "leaf1/gnmi"}, {}, "give address"),
        ({"tls": Tls(verify=False)}, {}, "gRPC checks every certificate"),
        ({}, {"cert_file": "a.pem"}, "cert_file without key_file"),
        ({}, {"key_file": "a.key"}, "key_file without cert_file"),
    ],
)
def test_what_no_channel_can_be_made_of_is_said_at_once(
    device: dict[str, Any], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InventoryError, match=says), session(1, GnmiOptions(**options), **device):
        pass


@pytest.mark.parametrize(("content", "says"), [(None, "No such file"), (b"\x30\x82", "it is in PEM")])
def test_a_certificate_file_that_is_none_is_named(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with session(1, tls=Tls(ca_file=path)) as gnmi, pytest.raises(InventoryError, match=says) as caught:
        gnmi.get([PATH])
    assert str(path) in str(caught.value)


class Raw(gnmi_pb2_grpc.gNMIServicer):  # type: ignore[misc]
    """Answers every Get with one message, whatever is asked."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def Get(self, request: Any, context: Any) -> Any:  # noqa: N802
        return self._answer


@contextmanager
def answering(answer: Any) -> Iterator[int]:
    server = grpc.server(ThreadPoolExecutor(2))
    gnmi_pb2_grpc.add_gNMIServicer_to_server(Raw(answer), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def one_value(**value: Any) -> Any:
    path = gnmi_pb2.Path(elem=[gnmi_pb2.PathElem(name="state")])
    prefix = gnmi_pb2.Path(origin="openconfig", elem=[gnmi_pb2.PathElem(name="qos", key={"k": "v"})])
    update = gnmi_pb2.Update(path=path, val=gnmi_pb2.TypedValue(**value))
    return gnmi_pb2.GetResponse(notification=[gnmi_pb2.Notification(prefix=prefix, update=[update])])


@pytest.mark.parametrize(
    ("value", "means"),
    [
        ({"json_ietf_val": b'{"a": ["1"]}'}, {"a": ["1"]}),
        ({"json_val": b"7"}, 7),
        ({"string_val": "text"}, "text"),
        ({"ascii_val": "text"}, "text"),
        ({"uint_val": 2**64 - 1}, 2**64 - 1),
        ({"int_val": -1}, -1),
        ({"bool_val": True}, True),
        ({"double_val": 0.5}, 0.5),
        (
            {"leaflist_val": gnmi_pb2.ScalarArray(element=[gnmi_pb2.TypedValue(uint_val=1)])},
            [1],
        ),
    ],
)
def test_values_come_in_any_of_gnmis_kinds_below_their_prefix(value: dict[str, Any], means: Any) -> None:
    with answering(one_value(**value)) as port, session(port) as gnmi:
        (found,) = gnmi.get([PATH])
    assert found.path == GnmiPath((Elem("qos", {"k": "v"}), Elem("state")), "openconfig")
    assert found.value == means


@pytest.mark.parametrize("value", [{"json_ietf_val": b"{"}, {"proto_bytes": b"\x01"}, {}])
def test_a_value_that_cannot_be_read_is_a_refusal(value: dict[str, Any]) -> None:
    with (
        answering(one_value(**value)) as port,
        session(port) as gnmi,
        pytest.raises(RefusedError, match="cannot be read"),
    ):
        gnmi.get([PATH])


def test_one_session_serves_many_threads(echo: Echo) -> None:
    found: list[Any] = []
    with served(echo) as switch, session(switch.port) as gnmi:
        threads = [threading.Thread(target=lambda: found.append(gnmi.get([PATH]))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [[]] * 4


def test_paths_in_a_sentence_are_few() -> None:
    paths = [GnmiPath.of(name) for name in "abcde"]
    assert listed(paths) == "/a, /b, /c and 2 more"
    assert listed(paths[:2]) == "/a, /b"
