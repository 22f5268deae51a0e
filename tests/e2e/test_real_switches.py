"""``ecntwin serve`` over SONiC switches with a real redis each: set, killed, resumed, undone, drifted."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.counterparts.switches.sonic_fabric import SonicFabric
from tests.counterparts.switches.sonic_switch import SonicSwitch, wred_row
from tests.e2e.process import PATIENCE_S, Served, serving
from twin.watermark import Watermark

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

OLD, THEIRS = Watermark(400_000, 1_600_000, 0.2), Watermark(700_000, 900_000, 0.9)
LEAVES = 3
HOSTS = 3
REPORTS, EVERY_NS = 70, 50_000_000


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SonicFabric]:
    with closing(SonicFabric(tmp_path_factory.mktemp("fabric"), LEAVES, watermark=OLD, lag_s=0.02)) as made:
        yield made


@pytest.fixture
def config(fabric: SonicFabric, tmp_path: Path) -> Path:
    fabric.reset()
    topology = {
        "hosts": [{"name": _host(leaf, n), "ip": _ip(leaf, n)} for leaf in _leaves() for n in range(HOSTS)],
        "switches": [{"name": f"leaf{leaf}"} for leaf in _leaves()],
        "links": [
            {
                "a": _host(leaf, n),
                "b": f"leaf{leaf}",
                "b_port": f"Ethernet{4 * n}",
                "rate_gbps": 10,
                "delay_us": 1,
            }
            for leaf in _leaves()
            for n in range(HOSTS)
        ],
    }
    inventory = {
        "defaults": {"platform": "sonic", "timeout_s": PATIENCE_S},
        "switches": {
            name: {"address": "127.0.0.1", "port": switch.port} for name, switch in fabric.switches.items()
        },
    }
    settings = {
        "push": {"inventory": "switches.yaml", "enabled": True, "read_every_s": 0.5},
        "storage": {"url": "sqlite:///journal.db"},
        "fabric": {"topology": "topology.json"},
        "telemetry": {"period_s": 0.1, "n_periods": 5},
        "search": {"candidates": 12, "narrowed": 0, "second_opinion": False, "weights": "latency"},
        "tuning": {"enabled": False, "margin": 0.0, "residual_limit": 1e9, "cool_down_s": 0.0},
        "rollout": {
            "canary": ["leaf2"],
            "batch_size": 1,
            "soak_s": 1.0,
            "batch_soak_s": 0.0,
            "measure_every_s": 0.1,
            "queue_limit": 1e6,
            "throughput_limit": 0.0,
            "silence_s": PATIENCE_S,
            "patience_s": PATIENCE_S,
        },
    }
    (tmp_path / "topology.json").write_text(json.dumps(topology))
    (tmp_path / "switches.yaml").write_text(yaml.safe_dump(inventory))
    (tmp_path / "ecntwin.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path / "ecntwin.yaml"


class Operator:
    """Calls a service."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=PATIENCE_S)

    def close(self) -> None:
        """Ends its connections."""
        self._client.close()

    def get(self, path: str) -> Any:
        answer = self._client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, status: int = 200) -> Any:
        answer = self._client.post(path)
        assert answer.status_code == status, answer.text
        return answer.json()

    def recommendation(self) -> dict[str, Any]:
        """One that recommends a change."""

        def tuned() -> dict[str, Any] | None:
            found = self._client.post("/v1/tune")
            document: dict[str, Any] = found.json()
            return document if found.status_code == 200 and document["changes"] else None

        return until(tuned)

    def ended(self, rollout_id: str) -> dict[str, Any]:
        """The rollout, once nothing more happens to it."""

        def over() -> dict[str, Any] | None:
            found: dict[str, Any] = self.get(f"/v1/rollouts/{rollout_id}")
            return found if found["ended"] else None

        return until(over)


def until(found: Callable[[], dict[str, Any] | None]) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        document = found()
        if document is not None:
            return document
        time.sleep(0.1)
    raise AssertionError("it does not happen")


@contextmanager
def reporting(served: Served) -> Iterator[Operator]:
    """Reports of a little traffic on every leaf, until the block ends or the service does."""
    ending = threading.Event()

    def report() -> None:
        with httpx.Client(base_url=served.url, timeout=5.0) as client:
            while not ending.is_set():
                with suppress(httpx.HTTPError):  # it may have been killed
                    client.post("/v1/telemetry/int", content=json.dumps(_reports(time.time_ns())))
                ending.wait(EVERY_NS / 1e9)

    thread = threading.Thread(target=report)
    thread.start()
    operator = Operator(served.url)
    try:
        yield operator
    finally:
        ending.set()
        thread.join()
        operator.close()


def test_a_recommendation_is_set_soaked_read_back_and_undone(fabric: SonicFabric, config: Path) -> None:
    with serving("--config", str(config)) as served, reporting(served) as operator:
        found = operator.recommendation()
        approved = operator.post(f"/v1/recommendations/{found['id']}/approve")
        ended = operator.ended(approved["rollout"])
        assert ended["phase"] == "done", ended["why"]
        assert [phase["phase"] for phase in ended["phases"]] == [
            "proposed",
            "approved",
            "canary",
            "soak",
            "fleet",
            "fleet",
            "done",
        ]
        assert ended["stages"][0] == ["leaf2"]
        new = _mark(ended["switches"][0]["after"])
        assert runs(fabric, new)
        for switch in operator.get("/v1/switches"):
            assert (_mark(switch["running"]), switch["adapter"], switch["drifted"]) == (new, "sonic", False)
        metrics = httpx.get(f"{served.url}/metrics", timeout=PATIENCE_S).text
        assert 'ecntwin_switch_step_duration_seconds_count{adapter="sonic",step="verify"} 3.0' in metrics
        operator.post(f"/v1/rollouts/{ended['id']}/rollback", 202)
        assert operator.ended(ended["id"])["phase"] == "rolled_back"
        assert runs(fabric, OLD)


@pytest.mark.parametrize("after_s", [0.0, 1.2])
def test_a_killed_service_ends_its_rollout_when_it_is_started_again(
    fabric: SonicFabric, config: Path, after_s: float
) -> None:
    with serving("--config", str(config)) as served, reporting(served) as operator:
        found = operator.recommendation()
        approving = threading.Thread(target=_carelessly, args=(served.url, found["id"]))
        approving.start()
        until(lambda: {"begun": True} if operator.get("/v1/rollouts")["total"] else None)
        time.sleep(after_s)  # any instant will do
        served.kill()
        approving.join()
    for running in fabric.hardware().values():
        assert len(running) == 1
    with serving("--config", str(config)) as served, reporting(served) as operator:
        (begun,) = operator.get("/v1/rollouts")["rollouts"]
        ended = operator.ended(begun["id"])
        assert ended["phase"] in ("done", "rolled_back")
        wanted = OLD if ended["phase"] == "rolled_back" else _mark(ended["switches"][0]["after"])
        assert runs(fabric, wanted)


def test_a_service_killed_in_a_soak_waits_for_its_first_report_and_goes_on(
    fabric: SonicFabric, config: Path
) -> None:
    with serving("--config", str(config)) as served, reporting(served) as operator:
        found = operator.recommendation()
        approved = operator.post(f"/v1/recommendations/{found['id']}/approve")
        at = f"/v1/rollouts/{approved['rollout']}"
        until(lambda: rollout if (rollout := operator.get(at))["phase"] == "soak" else None)
        served.kill()
    with serving("--config", str(config)) as served:
        silent = Operator(served.url)
        # A look at nothing: no report has come since it began.
        first = until(lambda: rollout if (rollout := silent.get(at))["seen"] or rollout["why"] else None)
        assert (first["phase"], first["why"]) == ("soak", None)
        silent.close()
        with reporting(served) as operator:
            ended = operator.ended(first["id"])
        assert (ended["phase"], ended["why"]) == ("done", None)
        assert runs(fabric, _mark(ended["switches"][0]["after"]))


def edited(switch: SonicSwitch, theirs: Watermark) -> None:
    """By somebody, in the row that its queues are bound to."""
    bound = switch.config_db()["QUEUE|Ethernet0|3"]["wred_profile"]
    switch.set_config({f"WRED_PROFILE|{bound}": wred_row(theirs)})
    switch.settle()


@pytest.mark.parametrize("noticed", ["at the end of the soak", "at once"])
@pytest.mark.parametrize("how", ["edited", "rebooted"])
def test_a_canary_that_lost_its_change_while_it_soaked_takes_the_rollout_back(
    fabric: SonicFabric, config: Path, how: str, noticed: str
) -> None:
    settings = yaml.safe_load(config.read_text())
    settings["push"]["read_every_s"] = 3_600
    if noticed == "at once":
        settings["push"]["read_every_s"], settings["rollout"]["soak_s"] = 0.2, 3_600
    config.write_text(yaml.safe_dump(settings))
    with serving("--config", str(config)) as served:
        with reporting(served) as operator:
            found = operator.recommendation()
        # Without reports the soak does not end, however long it takes until somebody has edited.
        silent = Operator(served.url)
        approved = silent.post(f"/v1/recommendations/{found['id']}/approve")
        at = f"/v1/rollouts/{approved['rollout']}"
        until(lambda: rollout if (rollout := silent.get(at))["phase"] == "soak" else None)
        silent.close()
        canary = fabric.switches["leaf2"]
        if how == "edited":
            edited(canary, THEIRS)
        else:
            canary.reboot()
        with reporting(served) as operator:
            ended = operator.ended(approved["rollout"])
        assert (ended["phase"], ended["why"].split(":")[0]) == ("rolled_back", "check failed")
        assert {one["switch"]: one["progress"] for one in ended["switches"]} == {
            "leaf1": "staged",
            "leaf2": "left_alone" if how == "edited" else "restored",
            "leaf3": "staged",
        }
        assert "Applying" not in [one["what"] for one in ended["events"] if one["switch"] != "leaf2"]
        runs_now = fabric.hardware()
        assert runs_now == {name: {OLD} for name in runs_now} | {
            "leaf2": {THEIRS if how == "edited" else OLD}
        }


def test_what_somebody_else_has_set_is_shown_and_not_overwritten(fabric: SonicFabric, config: Path) -> None:
    with serving("--config", str(config)) as served, reporting(served) as operator:
        first = operator.recommendation()
        done = operator.ended(operator.post(f"/v1/recommendations/{first['id']}/approve")["rollout"])
        assert done["phase"] == "done", done["why"]
        operator.post(f"/v1/rollouts/{done['id']}/rollback", 202)
        operator.ended(done["id"])
        found = operator.recommendation()
        edited(fabric.switches["leaf3"], THEIRS)
        refused = operator.post(f"/v1/recommendations/{found['id']}/approve", 409)
        assert "leaf3" in refused["rule"]
        shown = operator.get("/v1/switches/leaf3")
        assert shown["drifted"]
        assert _mark(shown["running"]) == THEIRS
        assert fabric.hardware()["leaf3"] == {THEIRS}
        assert not operator.post("/v1/switches/leaf3/adopt")["drifted"]
        # That advice was for what leaf3 ran before; the next is for what it runs.
        assert operator.get(f"/v1/recommendations/{found['id']}")["status"] == "expired"
        again = operator.recommendation()
        ended = operator.ended(operator.post(f"/v1/recommendations/{again['id']}/approve")["rollout"])
        assert ended["phase"] == "done", ended["why"]
        leaf3 = next(switch for switch in ended["switches"] if switch["switch"] == "leaf3")
        assert _mark(leaf3["before"]) == THEIRS


def runs(fabric: SonicFabric, watermark: Watermark) -> bool:
    """Whether every queue of every switch does."""
    return all(running == {watermark} for running in fabric.hardware().values())


def _carelessly(url: str, recommendation_id: str) -> None:
    with suppress(httpx.HTTPError):  # the service is killed meanwhile
        httpx.post(f"{url}/v1/recommendations/{recommendation_id}/approve", timeout=PATIENCE_S)


def _leaves() -> range:
    return range(1, LEAVES + 1)


def _host(leaf: int, number: int) -> str:
    return f"h{leaf}-{number}"


def _ip(leaf: int, number: int) -> str:
    return f"10.0.{leaf}.{number + 1}"


def _mark(document: dict[str, Any]) -> Watermark:
    return Watermark(document["kmin_bytes"], document["kmax_bytes"], document["pmax"])


def _reports(now_ns: int) -> list[dict[str, Any]]:
    """The last 50 ms on each leaf: two hosts send to the third more than its port can carry."""
    reports = []
    for leaf in _leaves():
        for number in range(REPORTS):
            ts_ns = now_ns - EVERY_NS * (REPORTS - number) // REPORTS
            sender = 1 + number % 2
            reports.append(
                {
                    "ts_ns": ts_ns,
                    "flow": {
                        "src": _ip(leaf, sender),
                        "dst": _ip(leaf, 0),
                        "sport": 10_000 + sender,
                        "dport": 4791,
                        "protocol": 17,
                    },
                    "packet_bytes": 1_048,
                    "sampling_rate": 1 / 1_024,
                    "hops": [
                        {
                            "switch": f"leaf{leaf}",
                            "ingress_port": f"Ethernet{4 * sender}",
                            "egress_port": "Ethernet0",
                            "queue": 3,
                            "queue_bytes": 300_000 + 1_000 * number,
                            "ingress_ts_ns": ts_ns - 2_000,
                            "egress_ts_ns": ts_ns,
                            "ecn_marked": False,
                        }
                    ],
                }
            )
    return reports
