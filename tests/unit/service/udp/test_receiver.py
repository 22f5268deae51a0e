"""The thread that reads datagrams outlives what goes wrong in one read."""

from __future__ import annotations

import socket
import threading

import numpy as np
import pytest

from service.udp.listener import DatagramQueue, Receiver
from service.udp.sockets import Chunk, ReadResult


class FailsOnce:
    def __init__(self) -> None:
        self.failed = False

    def read(self, made: socket.socket, room: int) -> ReadResult:
        if not self.failed:
            self.failed = True
            raise MemoryError
        try:
            payload = made.recv(100)
        except BlockingIOError:
            return ReadResult()
        return ReadResult(read=1, chunk=Chunk([payload], np.zeros(1, np.int64), ["127.0.0.1"]))


def test_a_read_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    made.setblocking(False)
    queue, told = DatagramQueue(10), threading.Event()
    receiver = Receiver([made], queue, FailsOnce(), told.set)
    receiver.start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", made.getsockname())
    assert told.wait(60)
    receiver.close()
    assert queue.depth == 1
    assert "retrying" in caplog.text
