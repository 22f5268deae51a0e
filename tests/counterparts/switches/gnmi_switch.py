"""A gNMI server on a free port of loopback, in front of a switch that a test can disturb.

It speaks gRPC with the specification's own messages, checks credentials and does TLS; what a switch makes of
a request is its ``Personality``.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc
from pygnmi.spec.v080 import gnmi_pb2, gnmi_pb2_grpc

Steps = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
_PATIENCE_S = 120.0


@dataclass(frozen=True)
class Asked:
    """One SetRequest in plain values: paths as text, values as JSON."""

    delete: list[str] = field(default_factory=list)
    replace: dict[str, Any] = field(default_factory=dict)
    update: dict[str, Any] = field(default_factory=dict)


class RefusalError(Exception):
    """What the switch answers in place of doing it."""

    def __init__(self, code: grpc.StatusCode, said: str) -> None:
        super().__init__(said)
        self.code = code
        self.said = said


class Personality(Protocol):
    """What stands behind the server. ``Steps`` are path elements, each with its keys."""

    models: dict[str, str]

    def get(self, origin: str, path: Steps, kind: str) -> list[tuple[Steps, Any]]:
        """Values at and below a path; raises ``RefusalError``."""
        ...

    def set(
        self,
        origin: str,
        delete: list[Steps],
        replace: list[tuple[Steps, Any]],
        update: list[tuple[Steps, Any]],
    ) -> None:
        """One transaction; raises ``RefusalError`` and changes nothing."""
        ...


@dataclass(frozen=True)
class ServerTls:
    """The server's key and certificate, in PEM, and the authority of its callers where it asks for one."""

    key: bytes
    certificate: bytes
    client_authority: bytes | None = None


class GnmiSwitch(gnmi_pb2_grpc.gNMIServicer):  # type: ignore[misc]
    """The server; ``port`` is where it listens, ``asked`` every SetRequest it was sent.

    Subscriptions are STREAM and SAMPLE, of intervals no shorter than ``least_interval_s``; with ``streams``
    False it refuses any. ``subscribed`` counts them, and ``cut`` ends those that are open. ``now_ns`` is the
    switch's clock. Sets are done one after the other while it is ``working``, also those whose caller has
    left; ``taken`` counts them as they come.
    """

    def __init__(
        self,
        personality: Personality,
        *,
        credentials: tuple[str, str] | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        self.personality = personality
        self.asked: list[Asked] = []
        self._credentials = credentials
        self._lock = threading.Lock()
        self._setting = threading.Lock()
        self.taken = threading.Semaphore(0)
        self.working = threading.Event()
        self.working.set()
        self._answering = threading.Event()
        self._answering.set()
        self._losing = False
        self.streams = True
        self.least_interval_s = 0.0
        self.subscribed = 0
        self.now_ns: Callable[[], int] = time.time_ns
        self._cuts: set[threading.Event] = set()
        self._server = grpc.server(ThreadPoolExecutor(16, thread_name_prefix="gnmi"))
        gnmi_pb2_grpc.add_gNMIServicer_to_server(self, self._server)
        if tls is None:
            self.port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            self.port = self._server.add_secure_port(
                "127.0.0.1:0",
                grpc.ssl_server_credentials(
                    [(tls.key, tls.certificate)],
                    root_certificates=tls.client_authority,
                    require_client_auth=tls.client_authority is not None,
                ),
            )
        self._server.start()

    def close(self) -> None:
        self._answering.set()
        self.working.set()
        self.cut()
        self._server.stop(None).wait()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """While inside, calls are taken and not answered; what was asked then is never done."""
        self._answering.clear()
        try:
            yield
        finally:
            self._answering.set()

    @contextmanager
    def losing_replies(self) -> Iterator[None]:
        """While inside, a Set is done and its answer lost."""
        self._losing = True
        try:
            yield
        finally:
            self._losing = False

    def Capabilities(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self._admit(context)
        return gnmi_pb2.CapabilityResponse(
            supported_models=[
                gnmi_pb2.ModelData(name=name, version=version)
                for name, version in self.personality.models.items()
            ],
            supported_encodings=[gnmi_pb2.Encoding.Value("JSON_IETF")],
            gNMI_version="0.8.0",
        )

    def Get(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self._admit(context)
        kind = gnmi_pb2.GetRequest.DataType.Name(request.type)
        answer = gnmi_pb2.GetResponse()
        with self._lock, _refusing(context):
            for path in request.path:
                origin, steps = _steps(request.prefix, path)
                notification = answer.notification.add(timestamp=self.now_ns())
                for found, value in self.personality.get(origin, steps, kind):
                    update = notification.update.add()
                    update.path.CopyFrom(_path(found, origin))
                    _put(update.val, value)
        return answer

    def Set(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self._admit(context)
        self.taken.release()
        with self._setting, self._turn(), _refusing(context):
            deletes = [_steps(request.prefix, path) for path in request.delete]
            replaces = [(_steps(request.prefix, one.path), _json(one.val)) for one in request.replace]
            updates = [(_steps(request.prefix, one.path), _json(one.val)) for one in request.update]
            self.asked.append(
                Asked(
                    [_text(*where) for where in deletes],
                    {_text(*where): value for where, value in replaces},
                    {_text(*where): value for where, value in updates},
                )
            )
            origins = {where[0] for where in [*deletes, *(one for one, _ in [*replaces, *updates])]}
            if len(origins) > 1:
                raise RefusalError(grpc.StatusCode.UNIMPLEMENTED, "Origin conflict in path")
            self.personality.set(
                min(origins, default=""),
                [steps for _, steps in deletes],
                [(steps, value) for (_, steps), value in replaces],
                [(steps, value) for (_, steps), value in updates],
            )
        if self._losing:
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        return gnmi_pb2.SetResponse(timestamp=1)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        assert self.working.wait(_PATIENCE_S)
        with self._lock:
            yield

    def Subscribe(self, requests: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self._admit(context)
        asked = next(requests).subscribe
        if not self.streams:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Subscribe is not offered")
        if asked.mode != gnmi_pb2.SubscriptionList.Mode.Value("STREAM"):
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "only STREAM")
        for one in asked.subscription:
            if one.mode != gnmi_pb2.SubscriptionMode.Value("SAMPLE"):
                context.abort(grpc.StatusCode.UNIMPLEMENTED, "only SAMPLE")
            if one.sample_interval < self.least_interval_s * 1e9:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"invalid interval: {one.sample_interval}")
        self.subscribed += 1
        every_s = min(one.sample_interval for one in asked.subscription) / 1e9
        cut = threading.Event()  # of its own: one that ended late must not end the next
        self._cuts.add(cut)
        try:
            if not context.add_callback(cut.set):
                cut.set()
            synced = False
            while context.is_active():
                for one in asked.subscription:
                    yield from self._sampled(asked.prefix, one.path, context)
                if not synced:
                    yield gnmi_pb2.SubscribeResponse(sync_response=True)
                    synced = True
                if cut.wait(every_s):
                    context.abort(grpc.StatusCode.UNAVAILABLE, "the server is going down")
                self._answering.wait()
        finally:
            self._cuts.discard(cut)

    def cut(self) -> None:
        """Ends the subscriptions that are open."""
        for one in list(self._cuts):
            one.set()

    def _sampled(self, prefix: Any, path: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Each value in a notification of its own, as the switches send them; none where there is none."""
        origin, steps = _steps(prefix, path)
        with self._lock:
            try:
                found = self.personality.get(origin, steps, "ALL")
            except RefusalError as refusal:
                if refusal.code is not grpc.StatusCode.NOT_FOUND:
                    context.abort(refusal.code, refusal.said)
                return
        for where, value in found:
            answer = gnmi_pb2.SubscribeResponse()
            answer.update.timestamp = self.now_ns()
            update = answer.update.update.add()
            update.path.CopyFrom(_path(where, origin))
            _put(update.val, value)
            yield answer

    def _admit(self, context: grpc.ServicerContext) -> None:
        self._answering.wait()
        if not context.is_active():
            context.abort(grpc.StatusCode.CANCELLED, "the caller has gone")
        given = dict(context.invocation_metadata())
        if self._credentials is not None:
            user, password = given.get("username"), given.get("password")
            if user is None or password is None:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "no credentials")
            if (user, password) != self._credentials:
                context.abort(grpc.StatusCode.PERMISSION_DENIED, f"password {password!r} is not {user}'s")


@contextmanager
def _refusing(context: grpc.ServicerContext) -> Iterator[None]:
    try:
        yield
    except RefusalError as refusal:
        context.abort(refusal.code, refusal.said)


def _steps(prefix: Any, path: Any) -> tuple[str, Steps]:
    elems = [*prefix.elem, *path.elem]
    return path.origin or prefix.origin, tuple((elem.name, tuple(sorted(elem.key.items()))) for elem in elems)


def _path(steps: Steps, origin: str) -> Any:
    return gnmi_pb2.Path(
        origin=origin, elem=[gnmi_pb2.PathElem(name=name, key=dict(keys)) for name, keys in steps]
    )


def _text(origin: str, steps: Steps) -> str:
    return f"{origin}:" + "".join(
        f"/{name}" + "".join(f"[{key}={value}]" for key, value in keys) for name, keys in steps
    )


def _json(value: Any) -> Any:
    if value.WhichOneof("value") != "json_ietf_val":
        raise RefusalError(grpc.StatusCode.INVALID_ARGUMENT, "Value encoding is not IETF JSON")
    try:
        return json.loads(value.json_ietf_val)
    except ValueError:
        raise RefusalError(grpc.StatusCode.INVALID_ARGUMENT, "Value is not JSON") from None


def _put(typed: Any, value: Any) -> None:
    """A container or list as JSON; a leaf as the scalar that gNMI has for it."""
    if isinstance(value, dict | list):
        typed.json_ietf_val = json.dumps(value).encode()
    elif isinstance(value, bool):
        typed.bool_val = value
    elif isinstance(value, int):
        typed.uint_val = value
    else:
        typed.string_val = value
