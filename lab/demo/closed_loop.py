"""The demo's labs and its service as it speaks to them: over HTTP, as anybody would."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from lab.demo.processes import Child
from lab.documents import FiguresDocument

CALL_S = 300.0
ROLLOUT_S = 300.0
_LOOK_EVERY_S = 0.05


class Lab(Protocol):
    """A lab that is advanced step by step."""

    def advance(self, until_s: float) -> FiguresDocument:
        """Runs until then; the figures of that stretch."""
        ...

    def figures(self) -> FiguresDocument:
        """The figures of the whole run, flows still under way at their age."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service answered: ``document`` of a success, else ``detail`` of the problem."""

    document: dict[str, Any] | None
    detail: str = ""


class Service(Protocol):
    """A service that tunes and pushes."""

    def tune(self) -> Answer:
        """Runs a round."""
        ...

    def approve(self, recommendation: str) -> Answer:
        """Sets what it recommends, and answers once every switch runs it, or none does any more."""
        ...


class _Caller:
    def __init__(self, child: Child, url: str) -> None:
        self._child = child
        self._client = httpx.Client(base_url=url, timeout=CALL_S, trust_env=False)

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        try:
            return self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise self._child.failure(f"no answer to {method} {path}") from error

    def close(self) -> None:
        """Lets go of its connections."""
        self._client.close()


class LabAt(_Caller):
    """A lab in a child process."""

    def advance(self, until_s: float) -> FiguresDocument:
        return self._figures(self._call("POST", "/advance", {"until_s": until_s}))

    def figures(self) -> FiguresDocument:
        return self._figures(self._call("GET", "/figures"))

    def _figures(self, answer: httpx.Response) -> FiguresDocument:
        if not answer.is_success:
            raise self._child.failure(_detail(answer))
        return FiguresDocument.model_validate_json(answer.content)


class ServiceAt(_Caller):
    """A service in a child process. A rollout that has not ended within ``rollout_s`` is a failure."""

    def __init__(
        self,
        child: Child,
        url: str,
        *,
        rollout_s: float = ROLLOUT_S,
        clock_s: Callable[[], float] = time.monotonic,
        sleep_s: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(child, url)
        self._rollout_s = rollout_s
        self._clock_s = clock_s
        self._sleep_s = sleep_s

    def tune(self) -> Answer:
        return self._answer("POST", "/v1/tune")

    def approve(self, recommendation: str) -> Answer:
        approved = self._answer("POST", f"/v1/recommendations/{recommendation}/approve")
        if approved.document is None:
            return approved
        rollout_id = approved.document["rollout"]
        deadline_s = self._clock_s() + self._rollout_s
        while True:
            answer = self._answer("GET", f"/v1/rollouts/{rollout_id}")
            rollout = answer.document
            if rollout is None:
                return answer
            if rollout["ended"]:
                return approved if rollout["phase"] == "done" else Answer(None, str(rollout["why"]))
            if self._clock_s() >= deadline_s:
                phase = rollout["stalled"] or rollout["phase"]
                return Answer(None, f"the rollout has not ended within {self._rollout_s:g} s ({phase})")
            self._sleep_s(_LOOK_EVERY_S)

    def _answer(self, method: str, path: str) -> Answer:
        answer = self._call(method, path)
        return Answer(answer.json()) if answer.is_success else Answer(None, _detail(answer))


def _detail(answer: httpx.Response) -> str:
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"status {answer.status_code}"
    return detail
