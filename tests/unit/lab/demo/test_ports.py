"""The demo's processes get ports of their own, or a sentence says which of them is taken."""

from __future__ import annotations

import socket

import pytest

from lab.demo.processes import free_ports
from lab.demo.served import served
from settings.errors import InputError
from tests.counterparts.ports import free_port


def test_a_port_for_both_is_refused() -> None:
    port = free_port()
    with pytest.raises(InputError, match=rf"^--lab-port: .* port {port} "), served(port, port, seed=1):
        pass


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"^--port: .* port {port} "):
            free_ports({"--port": port, "--lab-port": 0})


def test_any_ports_differ() -> None:
    assert len(set(free_ports({str(number): 0 for number in range(20)}))) == 20
