"""A server of the webhook contract, as docs/switches/webhook.md has it, and what it may do wrong."""

from __future__ import annotations

from typing import Any

from tests.counterparts.switches.http_switch import Asked, HttpSwitch, Reply
from twin.watermark import Watermark

NAME = "rack 1/leaf1"
TOKEN = "the-hook's-own"
PORTS = ("eth0", "eth1", "eth2")
OUTSIDE = (("eth0", 5), ("mgmt0", 3))  # queues that nobody asked for


class WebhookSwitch(HttpSwitch):
    """Queue 3 of three ports, and two queues beside them that are never to be set."""

    def __init__(self, first: Watermark) -> None:
        super().__init__()
        self.reset(first)

    def reset(self, first: Watermark) -> None:
        self.queues: dict[tuple[str, int], Watermark | None] = {(port, 3): first for port in PORTS}
        self.queues |= {key: Watermark(1_000, 2_000, 0.01) for key in OUTSIDE}
        self.history: list[tuple[int, int]] = []
        self.change_ids: list[str] = []
        self.ignoring = False
        self.halving = False
        self.waiting: list[dict[tuple[str, int], Watermark | None]] | None = None  # set later, in turn
        self.asked.clear()
        self.unexpected.clear()

    @property
    def set_queues(self) -> dict[tuple[str, int], Watermark | None]:
        return {key: mark for key, mark in self.queues.items() if key not in OUTSIDE}

    def allowed(self, asked: Asked) -> bool:
        return asked.headers.get("authorization") == f"Bearer {TOKEN}"

    def answer(self, asked: Asked) -> Reply:
        if asked.query or asked.names[:2] != ["switches", NAME]:
            return self.surprised(asked, "no such switch", 404)
        match asked.method, asked.names[2:]:
            case "GET", []:
                return Reply(body={"queues": [_shown(*key, mark) for key, mark in self.queues.items()]})
            case "PUT", ["watermark"]:
                return self._set(asked)
        return self.surprised(asked, "no such call", 405)

    def _set(self, asked: Asked) -> Reply:
        body = asked.body
        if not isinstance(body, dict) or set(body) != {"change_id", "queues"} or not body["queues"]:
            return self.surprised(asked, "not the body of the contract")
        wanted: dict[tuple[str, int], Watermark | None] = {}
        for one in body["queues"]:
            key = (one.get("port"), one.get("queue"))
            off = {"port": key[0], "queue": key[1], "ecn": False}
            if key not in self.set_queues:
                return self.surprised(asked, f"{key} is not to be set")
            if one == off:
                wanted[key] = None
            elif set(one) == {*off, "kmin_bytes", "kmax_bytes", "pmax"} and one["ecn"] is True:
                wanted[key] = Watermark(one["kmin_bytes"], one["kmax_bytes"], one["pmax"])
            else:
                return self.surprised(asked, "not a queue of the contract")
        self.change_ids.append(body["change_id"])
        if self.waiting is not None:
            self.waiting.append(wanted)
        else:
            self._take(wanted)
        return Reply(changes=True)

    def catch_up(self) -> None:
        """Sets what waited."""
        waiting, self.waiting = self.waiting or [], None
        for wanted in waiting:
            self._take(wanted)

    def _take(self, wanted: dict[tuple[str, int], Watermark | None]) -> None:
        for place, (key, mark) in enumerate(wanted.items()):
            if self.ignoring or (self.halving and place):
                break
            self.queues[key] = mark
            if mark is not None:
                self.history.append((mark.kmin_bytes, mark.kmax_bytes))


def _shown(port: str, queue: int, mark: Watermark | None) -> dict[str, Any]:
    if mark is None:
        return {"port": port, "queue": queue, "ecn": False}
    values = {"kmin_bytes": mark.kmin_bytes, "kmax_bytes": mark.kmax_bytes, "pmax": mark.pmax}
    return {"port": port, "queue": queue, "ecn": True, **values}
