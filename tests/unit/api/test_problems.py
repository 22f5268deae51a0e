"""Domain errors become problem documents with their own status and their four parts."""

from __future__ import annotations

import pytest

from api.problems import problem, status_of
from settings.errors import ConflictError, NotFoundError, TooLargeError, UnsupportedMediaError
from switches.errors import ReadBackError, UnknownSwitchError
from telemetry.errors import DecodeError, OversizeError, ReportError, TopologyError, WindowError
from twin.errors import ParameterError, ScenarioError, SearchError, WatermarkError

PARTS = ("leaf1 queue 3", "17", "it is below 16", "lower it")


@pytest.mark.parametrize(
    ("kind", "status", "slug"),
    [
        (DecodeError, 400, "decode"),
        (OversizeError, 413, "oversize"),
        (ReportError, 422, "report"),
        (TopologyError, 422, "topology"),
        (WindowError, 409, "window"),
        (WatermarkError, 422, "watermark"),
        (ParameterError, 422, "parameter"),
        (ScenarioError, 422, "scenario"),
        (SearchError, 503, "search"),
        (UnknownSwitchError, 404, "unknown-switch"),
        (ReadBackError, 502, "read-back"),
        (NotFoundError, 404, "not-found"),
        (ConflictError, 409, "conflict"),
        (TooLargeError, 413, "too-large"),
        (UnsupportedMediaError, 415, "unsupported-media"),
    ],
)
def test_each_error_has_its_status_and_its_parts(kind: type[Exception], status: int, slug: str) -> None:
    error = kind(*PARTS)
    document = problem(error)
    assert document["status"] == status_of(error) == status
    assert document["type"] == f"urn:ecntwin:problem:{slug}"
    assert tuple(document[part] for part in ("where", "received", "rule", "remedy")) == PARTS
    assert document["detail"] == str(error)
    assert document["title"]


def test_what_is_no_domain_error_is_a_500() -> None:
    assert status_of(RuntimeError("x")) == 500
