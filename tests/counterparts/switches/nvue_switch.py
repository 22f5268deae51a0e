"""A Cumulus switch's NVUE REST API: revisions over one configuration tree, and the hardware below.

Forms of requests and answers are those of Cumulus Linux 5.9's "NVUE API" page; only the calls that the
adapter needs are here, and every other is unexpected.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tests.counterparts.switches.http_switch import Asked, HttpSwitch, Reply
from twin.watermark import Watermark

PROFILE = "default-global"
QUEUES = (3, 4)
_TABLE = ("qos", "congestion-control", PROFILE, "traffic-class")
_LEAVES = {"min-threshold", "max-threshold", "probability", "ecn"}
_QUIET = {"issue": {}, "progress": ""}


class NvueSwitch(HttpSwitch):
    """Traffic classes 3 and 4 of the default profile, class 0 and a buffer configuration beside them."""

    def __init__(self, first: Watermark, **server: Any) -> None:
        super().__init__(**server)
        self.reset(first)

    def reset(self, first: Watermark) -> None:
        classes = {str(queue): _leaves(first) | {"red": "disable"} for queue in QUEUES}
        classes["0"] = {
            "ecn": "enable",
            "min-threshold": 150000,
            "max-threshold": 1500000,
            "probability": 100,
        }
        self.applied: dict[str, Any] = {
            "qos": {
                "congestion-control": {PROFILE: {"traffic-class": classes}},
                "buffer": {"default-global": {"ingress-pool": {"0": {"memory-percent": 100}}}},
            },
            "interface": {"swp1": {"type": "swp"}},
            "system": {
                "hostname": "leaf1",
                "forwarding": {"ecmp-hash": {"source-ip": "on", "source-port": "on", "gtp-teid": "off"}},
            },
        }
        self.hardware: dict[str, dict[str, Any]] = deepcopy(classes)
        self.revisions: dict[str, dict[str, Any]] = {}
        self.candidates: dict[str, dict[str, Any]] = {}
        self.seeds: dict[str, int | None] = {}  # by revision
        self.history: list[tuple[int, int]] = []
        self.saved = 0
        self.ignoring = False
        self.operational = True
        self.cell_bytes = 1  # hardware holds thresholds of whole cells
        self.wrapped = False
        self.slow = 1  # questions after a revision before it is applied
        self.fails: dict[str, Any] | None = None  # what becomes of the next revision instead
        self.asked.clear()
        self.unexpected.clear()

    @property
    def table(self) -> dict[str, dict[str, Any]]:
        table: dict[str, dict[str, Any]] = self.applied["qos"]["congestion-control"][PROFILE]["traffic-class"]
        return table

    def set_by_hand(self, queue: int, values: dict[str, Any] | None) -> None:
        """Somebody else sets a class, or unsets it."""
        for table in (self.table, self.hardware):
            if values is None:
                table.pop(str(queue), None)
            else:
                table.setdefault(str(queue), {}).update(values)

    def answer(self, asked: Asked) -> Reply:
        if asked.names[0] != "nvue_v1":
            return self.surprised(asked, "not the API", 404)
        names = asked.names[1:]
        if names[:1] == ["revision"]:
            return self._revision(asked, names[1:])
        if asked.method == "GET" and tuple(names[:2]) == _TABLE[:2]:
            return self._show(asked, names)
        if asked.method == "GET" and names in (["system"], ["system", "forwarding"]):
            shown = self.applied["system"]
            return Reply(body=shown if names == ["system"] else shown["forwarding"])
        if asked.method == "PATCH" and tuple(names) == _TABLE:
            return self._patch(asked)
        if asked.method == "PATCH" and names == ["system", "forwarding"]:
            return self._patch_forwarding(asked)
        return self.surprised(asked, "no such call", 404)

    def _show(self, asked: Asked, names: list[str]) -> Reply:
        revision, filled = asked.query.get("rev"), asked.query.get("filled")
        if (revision, filled) not in {("operational", None), ("applied", None), ("applied", "false")}:
            return self.surprised(asked, "not a revision to show")
        if tuple(names) != _TABLE or (revision == "operational" and not self.operational):
            return Reply(404, {"title": "Not Found", "detail": "The requested item does not exist."})
        return Reply(body=self.hardware if revision == "operational" else self.table)

    def _revision(self, asked: Asked, names: list[str]) -> Reply:
        match asked.method, names:
            case "POST", []:
                name = f"changeset/cumulus/{len(self.revisions) + 1}"
                self.revisions[name] = {"state": "pending", "transition": deepcopy(_QUIET)}
                self.candidates[name] = {}
                return Reply(body={name: self.revisions[name]}, changes=True)
            case "GET", []:
                self._advance()
                return Reply(body=self.revisions)
            case "GET", [name] if name in self.revisions:
                self._advance()
                shown = self.revisions[name]
                return Reply(body={name: shown} if self.wrapped else shown)
            case "PATCH", ["applied"] if asked.body == {"state": "save", "auto-prompt": {"ays": "ays_yes"}}:
                self.saved += 1
                return Reply(body={"state": "save", "transition": _QUIET}, changes=True)
            case "PATCH", [name] if self.revisions.get(name, {}).get("state") == "pending":
                if asked.body != {"state": "apply", "auto-prompt": {"ays": "ays_yes"}}:
                    return self.surprised(asked, "not an apply")
                self.revisions[name]["state"] = "apply"
                self._left = self.slow
                return Reply(body=self.revisions[name], changes=True)
        return self.surprised(asked, "no such revision, or not in that state")

    def _patch(self, asked: Asked) -> Reply:
        name = asked.query.get("rev", "")
        if set(asked.query) != {"rev"} or self.revisions.get(name, {}).get("state") != "pending":
            return self.surprised(asked, "not a pending revision")
        if asked.headers.get("content-type") != "application/json" or not isinstance(asked.body, dict):
            return self.surprised(asked, "not JSON")
        for queue, values in asked.body.items():
            if queue not in {str(queue) for queue in QUEUES}:
                return self.surprised(asked, f"class {queue} is not to be set")
            if values is not None and not _valid(values):
                return self.surprised(asked, "not the leaves of a watermark")
        self.candidates[name].update(deepcopy(asked.body))
        return Reply(body=asked.body, changes=True)

    def _patch_forwarding(self, asked: Asked) -> Reply:
        name, body = asked.query.get("rev", ""), asked.body
        if self.revisions.get(name, {}).get("state") != "pending" or not isinstance(body, dict):
            return self.surprised(asked, "not a pending revision, or not JSON")
        seed = body.get("hash-seed", "")
        if set(body) != {"hash-seed"} or not (seed is None or (type(seed) is int and 0 <= seed < 2**32)):
            return self.surprised(asked, "not a hash seed")
        self.seeds[name] = seed
        return Reply(body=body, changes=True)

    def _advance(self) -> None:
        """Time passes with every question; an apply is over after ``slow`` of them."""
        for name, shown in self.revisions.items():
            if shown["state"] != "apply":
                continue
            self._left -= 1
            if self._left > 0:
                continue
            if self.fails is not None:
                self.revisions[name], self.fails = self.fails, None
                return
            shown["state"] = "applied"
            self._run(self.candidates[name])
            if name in self.seeds and not self.ignoring:
                self.applied["system"]["forwarding"]["hash-seed"] = self.seeds[name]
                if self.seeds[name] is None:
                    del self.applied["system"]["forwarding"]["hash-seed"]

    def _run(self, candidate: dict[str, dict[str, Any] | None]) -> None:
        tables = [self.table] if self.ignoring else [self.table, self.hardware]
        for table in tables:
            for queue, values in candidate.items():
                if values is None:
                    table.pop(queue, None)
                    continue
                row = table.setdefault(queue, {})
                row.update(values)
                for leaf in [leaf for leaf, value in row.items() if value is None]:
                    del row[leaf]
                if table is self.hardware and {"min-threshold", "max-threshold"} <= set(row):
                    for leaf in ("min-threshold", "max-threshold"):
                        row[leaf] -= row[leaf] % self.cell_bytes
                    self.history.append((row["min-threshold"], row["max-threshold"]))


def _leaves(mark: Watermark) -> dict[str, Any]:
    return {
        "ecn": "enable",
        "min-threshold": mark.kmin_bytes,
        "max-threshold": mark.kmax_bytes,
        "probability": round(mark.pmax * 100),
    }


def _valid(values: dict[str, Any]) -> bool:
    numbers = [values.get("min-threshold"), values.get("max-threshold"), values.get("probability")]
    return set(values) == _LEAVES and all(number is None or type(number) is int for number in numbers)
