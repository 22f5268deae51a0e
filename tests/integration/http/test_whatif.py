"""``/v1/whatif``: watermarks the caller names, on the state now or on a scenario given inline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.service import Running, traffic

pytestmark = pytest.mark.anyio

MARKS = [
    {"kmin_bytes": 5_000, "kmax_bytes": 50_000, "pmax": 0.1},
    {"kmin_bytes": 500_000, "kmax_bytes": 2_000_000, "pmax": 0.1, "comment": "ignored"},
]
FLOWS = [
    {"src": "h0", "dst": "h2", "bytes": None, "start_s": 0.0},
    {"src": "h1", "dst": "h2", "bytes": 50_000, "start_s": 1e-5},
]


@pytest.fixture
def scenario(example: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((example / "scenario.json").read_text("utf-8"))
    del document["flows_csv"]
    return document | {"flows": FLOWS, "duration_s": 5e-4, "window_s": [0, 5e-4]}


async def test_watermarks_are_predicted_on_the_state_now(here: Running) -> None:
    await here.post_reports(traffic())
    found = await here.post("/v1/whatif", {"watermarks": MARKS, "seed": 3})
    assert (found["engine"], found["seed"]) == ("replay", 3)
    assert [one["kmin_bytes"] for one in found["results"]] == [5_000, 500_000]
    assert all(one["status"] == "ok" and one["queue_mean_bytes"] >= 0 for one in found["results"])


@pytest.mark.parametrize(
    ("content", "header", "status", "says"),
    [
        (b"", "application/json", 422, "body: this call needs a JSON document"),
        (b"{}", "text/plain", 422, "received 2 bytes that are not said to be JSON; "),
        (b"[]", "application/json", 422, "received an array of 0; input should be an object"),
        (b"[" * 40_000, "application/json", 400, "received what cannot be parsed; it is one JSON document"),
    ],
)
async def test_what_is_no_json_document_is_told_so(
    here: Running, content: bytes, header: str, status: int, says: str
) -> None:
    detail = (
        await here.post("/v1/whatif", status=status, content=content, headers={"Content-Type": header})
    )["detail"]
    assert detail.startswith("body: ")
    assert says in detail
    assert header == "application/json" or detail.endswith("; send Content-Type: application/json")


async def test_watermarks_are_predicted_on_a_scenario_given_inline(
    here: Running, scenario: dict[str, Any]
) -> None:
    answer = await here.post("/v1/whatif", {"watermarks": MARKS, "scenario": scenario, "engine": "fluid"})
    low, high = answer["results"]
    assert answer["scenario"] == scenario["name"]
    assert low["queue_mean_bytes"] < high["queue_mean_bytes"]


async def test_packets_answer_too_and_tell_how_far_they_are(here: Running, scenario: dict[str, Any]) -> None:
    with here.service.events.listen() as queue:
        answer = await here.post(
            "/v1/whatif", {"watermarks": MARKS, "scenario": scenario, "engine": "packet"}
        )
        heard = [queue.get_nowait() for _ in range(queue.qsize())]
    low, high = answer["results"]
    assert answer["engine"] == "packet"
    assert low["status"] == high["status"] == "ok"
    assert low["queue_mean_bytes"] < high["queue_mean_bytes"]
    told = [event.data for event in heard if event is not None and event.kind == "whatif"]
    assert told == [{"done": done, "total": 2} for done in range(3)]


async def test_more_packets_than_a_request_may_hold_are_refused(
    here: Running, scenario: dict[str, Any]
) -> None:
    endless = scenario | {"duration_s": 60.0, "window_s": [0, 60.0]}
    answer = await here.post(
        "/v1/whatif", {"watermarks": MARKS, "scenario": endless, "engine": "packet"}, status=422
    )
    assert "packet-hops" in answer["received"]


async def test_what_runs_is_predicted_beside_them_with_curves_if_asked(here: Running) -> None:
    await here.post_reports([one | {"sampling_rate": 1 / 128} for one in traffic()])  # they fill the port
    asked = {"watermarks": MARKS[:1], "trajectories": True}
    found = await here.post("/v1/whatif", asked)
    assert {key: found["incumbent"][key] for key in ("kmin_bytes", "kmax_bytes", "pmax")} == {
        "kmin_bytes": 400_000,
        "kmax_bytes": 1_600_000,
        "pmax": 0.2,
    }
    assert found["incumbent"]["status"] == "ok"
    assert found["window_s"] > 0
    assert found["age_s"] >= 0
    curves = found["trajectories"]
    assert curves["depth_is"] == "mean of each step"
    assert curves["queues"][0]["switch"] == "leaf1"
    for queue in curves["queues"]:
        assert len(queue["results_bytes"]) == 1
        assert len(queue["results_bytes"][0]) == len(queue["incumbent_bytes"]) > 1
    plain = (await here.client.post("/v1/whatif", json={"watermarks": MARKS[:1]})).json()
    assert plain["trajectories"] is None
    assert plain["results"] == found["results"]


async def test_a_scenario_has_an_incumbent_only_if_the_request_says_which(
    here: Running, scenario: dict[str, Any]
) -> None:
    asked = {"watermarks": MARKS, "scenario": scenario, "window_s": 2e-4}
    alone = (await here.client.post("/v1/whatif", json=asked)).json()
    assert (alone["incumbent"], alone["age_s"], alone["window_s"]) == (None, None, 2e-4)
    beside = (await here.client.post("/v1/whatif", json=asked | {"incumbent": MARKS[1]})).json()
    assert beside["incumbent"] == beside["results"][1]


async def test_nobody_is_worked_for_who_has_gone(here: Running) -> None:
    await here.post_reports(traffic())
    body = json.dumps({"watermarks": MARKS}).encode()
    messages = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/whatif",
        "raw_path": b"/v1/whatif",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-type", b"application/json"), (b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    with here.service.events.listen() as heard:
        await here.client._transport.app(scope, receive, send)  # type: ignore[attr-defined]
        told = [heard.get_nowait() for _ in range(heard.qsize())]
    assert sent[0]["status"] == 499
    assert not [event for event in told if event is not None and event.kind == "whatif"]


async def test_an_empty_window_is_a_409(here: Running) -> None:
    answer = await here.client.post("/v1/whatif", json={"watermarks": MARKS})
    assert answer.status_code == 409


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"watermarks": []}, 422, "watermarks"),
        ({}, 422, "watermarks"),
        ({"watermarks": [{"kmin_bytes": 5, "kmax_bytes": 5, "pmax": 0.1}]}, 422, "Kmin must be below Kmax"),
        ({"watermarks": [{"kmin_bytes": 5, "kmax_bytes": 9, "pmax": 0}]}, 422, "(0, 1]"),
        ({"watermarks": [{"kmin_bytes": -5, "kmax_bytes": 9, "pmax": 0.1}]}, 422, "negative"),
        (
            {"watermarks": [{"kmin_bytes": "5", "kmax_bytes": 9, "pmax": 0.1}]},
            422,
            "watermarks[0].kmin_bytes",
        ),
        ({"watermarks": [{"kmin_bytes": 5, "kmax_bytes": 9}]}, 422, "watermarks[0].pmax"),
        ({"watermarks": MARKS, "engine": "magic"}, 422, "'magic'"),
        ({"watermarks": MARKS, "seed": -1}, 422, "seed"),
        ({"watermarks": MARKS, "seed": 1 << 63}, 422, "seed"),
        ({"watermarks": MARKS, "colour": 1}, 422, "colour"),
        ({"watermarks": MARKS * 600}, 422, "1000"),
        ({"watermarks": MARKS * 5, "trajectories": True}, 422, "at most 8 watermarks"),
        ({"watermarks": MARKS, "window_s": 0}, 422, "window_s"),
        ({"watermarks": MARKS, "max_age_s": -1}, 422, "max_age_s"),
        ({"watermarks": MARKS, "incumbent": {"kmin_bytes": 5}}, 422, "incumbent.kmax_bytes"),
    ],
)
async def test_a_request_that_means_nothing_says_where(
    here: Running, scenario: dict[str, Any], body: dict[str, Any], status: int, says: str
) -> None:
    answer = await here.client.post("/v1/whatif", json={"scenario": scenario} | body)
    assert answer.status_code == status, answer.text
    assert says in answer.text


@pytest.mark.parametrize("text", ["{", '{"watermarks": [{"kmin_bytes": NaN, "kmax_bytes": 9, "pmax": 0.1}]}'])
async def test_broken_json_and_nan_are_refused(here: Running, text: str) -> None:
    answer = await here.client.post("/v1/whatif", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


async def test_no_file_of_the_server_is_read(here: Running, scenario: dict[str, Any]) -> None:
    sneaky = scenario | {"flows_csv": "/etc/passwd"}
    answer = await here.post("/v1/whatif", {"watermarks": MARKS, "scenario": sneaky}, status=422)
    assert "no file of the server" in answer["rule"]
    del sneaky["flows_csv"], sneaky["flows"]
    answer = await here.post("/v1/whatif", {"watermarks": MARKS, "scenario": sneaky}, status=422)
    assert "flows" in answer["where"]
