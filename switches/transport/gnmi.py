"""gNMI calls to one switch: Get, Set and Capabilities with deadlines, and Subscribe as a stream.

The messages are the gNMI specification's (``gnmi.proto``, as pygnmi ships them).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import grpc
import grpc.aio
import msgspec
from pygnmi.spec.v080 import gnmi_pb2, gnmi_pb2_grpc

from switches.device import Device
from switches.errors import (
    InventoryError,
    RefusedError,
    SwitchError,
    UnreachableError,
    late,
    no_access,
    unreadable,
)
from switches.transport.gnmi_messages import (
    GnmiPath,
    PathValue,
    listed,
    to_update,
    to_wire,
    values_as_they_are,
    values_in,
)
from switches.transport.quoted import header_text, quoted

_NS_PER_S = 1_000_000_000
_LARGEST_ANSWER_BYTES = 64 * 2**20  # the counters of a chassis' queues exceed gRPC's 4 MiB
_AWAY = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
_NO_ACCESS = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})
_CHANNEL = (
    ("grpc.enable_http_proxy", 0),  # a management network is reached directly
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel would wait out the back-off of the one before
    ("grpc.max_receive_message_length", _LARGEST_ANSWER_BYTES),
)


class GnmiOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of every gNMI platform.

    ``set_timeout_s``: the timeout of a Set, which a switch may validate and commit at length. ``cert_file``
    and ``key_file``: the client certificate in PEM, where the switch asks for one.
    """

    set_timeout_s: float = 30.0
    cert_file: str | None = None
    key_file: str | None = None


class GnmiDial:
    """Address, credentials and errors of one switch's channel. Raises ``InventoryError``."""

    def __init__(self, device: Device, options: GnmiOptions, *, default_port: int) -> None:
        host = device.address
        if not host or "://" in host or "/" in host:
            rule = "gNMI is found by a host name or an address, and the port beside it"
            remedy = "give address: leaf1.example, and port where it is not the usual one"
            raise InventoryError(device.where, f"address {host!r}", rule, remedy)
        if not device.tls.verify and device.tls.enabled is not False:
            rule = "gRPC checks every certificate"
            remedy = "name the switch's own certificate as tls.ca_file, and the name in it as tls.server_name"
            raise InventoryError(f"{device.where} tls.verify", "false", rule, remedy)
        if (options.cert_file is None) != (options.key_file is None):
            raise InventoryError(
                f"{device.where} options",
                "cert_file without key_file" if options.key_file is None else "key_file without cert_file",
                "a certificate goes with its key",
                "give both, or neither",
            )
        self._device = device
        self.target = f"{f'[{host}]' if ':' in host else host}:{device.port or default_port}"
        self._cert_file = None if options.cert_file is None else Path(options.cert_file)
        self._key_file = None if options.key_file is None else Path(options.key_file)

    def channel(self, library: Any = grpc) -> Any:
        """A new channel of ``grpc`` or ``grpc.aio``. Raises ``InventoryError`` for unreadable files."""
        tls = self._device.tls
        if tls.enabled is False:
            return library.insecure_channel(self.target, options=_CHANNEL)
        credentials = grpc.ssl_channel_credentials(
            root_certificates=self._pem("tls.ca_file", tls.ca_file),
            private_key=self._pem("key_file", self._key_file),
            certificate_chain=self._pem("cert_file", self._cert_file),
        )
        name = tls.server_name
        named = () if name is None else (("grpc.ssl_target_name_override", name),)
        return library.secure_channel(self.target, credentials, options=(*_CHANNEL, *named))

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The current credentials, sent with every call. Raises ``CredentialsError``."""
        found = []
        for name in ("username", "password"):
            text = self._device.credential(name)
            if text is not None:
                found.append((name, header_text(f"{self._device.where} {name}", text)))
        return tuple(found)

    def failure(self, code: grpc.StatusCode, details: str | None, said: str, timeout_s: float) -> SwitchError:
        """A failed call as a ``SwitchError``. Raise it from None: gRPC's error holds the switch's words."""
        where = self._device.where
        detail = quoted(self._device, details or "")
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return late(where, said, timeout_s)
        if code in _AWAY:
            return UnreachableError(
                where,
                f"no connection for {said} ({detail or code.name})",
                "a switch takes gRPC connections at the address of the inventory",
                "check that it is up and speaks gNMI there, and whether its certificate is the inventory's",
            )
        if code in _NO_ACCESS:
            return no_access(where, f"{code.name} to {said}: {detail or 'nothing more'}")
        received = f"{code.name} to {said}: {detail or 'nothing more'}"
        return RefusedError(where, received, "the switch takes the call", "check the switch and its version")

    def _pem(self, name: str, path: Path | None) -> bytes | None:
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except OSError as error:
            where = f"{self._device.where} {name}"
            rule = "the file is readable"
            raise InventoryError(where, f"{path}: {error.strerror}", rule, "correct its path") from error
        if b"-----BEGIN " not in content:
            remedy = "convert it, or correct its path"
            raise InventoryError(f"{self._device.where} {name}", str(path), "it is in PEM", remedy)
        return content


DataType = Literal["ALL", "CONFIG", "STATE"]


class GnmiSession:
    """One channel to a switch, opened by the first call and again after a failure.

    A Get has the device's ``timeout_s``, a Set ``set_timeout_s`` where that is longer. Raises
    ``InventoryError``.
    """

    def __init__(self, device: Device, options: GnmiOptions, *, default_port: int) -> None:
        self._device = device
        self._dial = GnmiDial(device, options, default_port=default_port)
        self._set_timeout_s = max(device.timeout_s, options.set_timeout_s)
        self._channel: grpc.Channel | None = None

    def get(self, paths: Sequence[GnmiPath], *, data: DataType = "ALL") -> list[PathValue]:
        """The values at and below these paths; none where the switch has no such path.

        Raises ``UnreachableError``, ``AccessError``, or ``RefusedError`` (with the switch's words).
        """
        request = gnmi_pb2.GetRequest(
            path=[to_wire(path) for path in paths],
            type=gnmi_pb2.GetRequest.DataType.Value(data),
            encoding=gnmi_pb2.Encoding.Value("JSON_IETF"),
        )
        answer = self._call("Get", request, f"Get {listed(paths)}", self._device.timeout_s)
        if answer is None:
            return []
        try:
            return [one for notification in answer.notification for one in values_in(notification)]
        except (ValueError, RecursionError) as error:  # msgspec's own are ValueErrors
            raise unreadable(
                self._device.where,
                error,
                "values come as JSON or as scalars",
                what=f"an answer to Get {listed(paths)}",
            ) from error

    def set(
        self,
        *,
        delete: Iterable[GnmiPath] = (),
        replace: Iterable[tuple[GnmiPath, Any]] = (),
        update: Iterable[tuple[GnmiPath, Any]] = (),
    ) -> None:
        """One SetRequest: all or nothing (gNMI specification 0.10, section 3.4.3).

        Values are JSON values, sent as JSON_IETF: a string stays a string. Raises as ``get``; after
        ``UnreachableError`` its outcome is unknown.
        """
        request = gnmi_pb2.SetRequest(
            delete=[to_wire(path) for path in delete],
            replace=[to_update(path, value) for path, value in replace],
            update=[to_update(path, value) for path, value in update],
        )
        self._call("Set", request, "Set", self._set_timeout_s)

    def models(self) -> dict[str, str]:
        """The versions of the switch's models by name. Raises as ``get``."""
        answer = self._call(
            "Capabilities", gnmi_pb2.CapabilityRequest(), "Capabilities", self._device.timeout_s
        )
        return {model.name: model.version for model in answer.supported_models}

    def close(self) -> None:
        """Closes the channel; the next call opens a new one."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _call(self, method: str, request: Any, said: str, timeout_s: float) -> Any:
        metadata = self._dial.metadata()
        if self._channel is None:
            self._channel = self._dial.channel()
        call: Callable[..., Any] = getattr(gnmi_pb2_grpc.gNMIStub(self._channel), method)
        try:
            return call(request, timeout=timeout_s, metadata=metadata)
        except grpc.RpcError as error:
            if method == "Get" and error.code() is grpc.StatusCode.NOT_FOUND:
                return None  # gNMI specification, section 3.3.4: there is nothing at the path
            self.close()  # the next call begins anew, and does not wait out this channel's back-off
            raise self._dial.failure(error.code(), error.details(), said, timeout_s) from None


class GnmiStream:
    """One SAMPLE subscription (gNMI specification 0.10, section 3.5.1.5.2), on an event loop:
    hundreds of streams need no thread each.
    """

    def __init__(self, device: Device, dial: GnmiDial) -> None:
        self._device = device
        self._dial = dial
        self._channel: Any = None
        self._call: Any = None
        self._said = ""
        self._reading: asyncio.Task[Any] | None = None

    @property
    def is_open(self) -> bool:
        return self._call is not None

    async def open(self, paths: Sequence[GnmiPath], every_s: float) -> None:
        """Subscribes to these paths, every ``every_s`` seconds.

        Raises ``SwitchError``; a refusal shows in the first ``next``.
        """
        await self.close()
        request = gnmi_pb2.SubscribeRequest(
            subscribe=gnmi_pb2.SubscriptionList(
                mode=gnmi_pb2.SubscriptionList.Mode.Value("STREAM"),
                encoding=gnmi_pb2.Encoding.Value("JSON_IETF"),
                subscription=[
                    gnmi_pb2.Subscription(
                        path=to_wire(path),
                        mode=gnmi_pb2.SubscriptionMode.Value("SAMPLE"),
                        sample_interval=round(every_s * _NS_PER_S),
                    )
                    for path in paths
                ],
            )
        )
        metadata = self._dial.metadata()
        self._channel = self._dial.channel(grpc.aio)
        self._said = f"Subscribe {listed(paths)}"
        self._call = gnmi_pb2_grpc.gNMIStub(self._channel).Subscribe(metadata=metadata)
        self._reading = asyncio.create_task(self._begin(self._call, request))

    async def next(self, patience_s: float) -> list[PathValue] | None:
        """The next values (maybe none); None after ``patience_s`` without any, and the stream stays open.

        Raises ``UnreachableError``, ``AccessError`` and ``RefusedError``, and then is closed.
        """
        if self._call is None:
            raise RuntimeError("open the stream first")
        if self._reading is None:
            self._reading = asyncio.create_task(self._call.read())
        # Not wait_for: a read that is cancelled ends the call.
        if not (await asyncio.wait({self._reading}, timeout=patience_s))[0]:
            return None
        reading, self._reading = self._reading, None
        try:
            answer = reading.result()
        except grpc.aio.AioRpcError as error:
            failure = self._dial.failure(error.code(), error.details(), self._said, patience_s)
            await self.close()
            raise failure from None  # gRPC's exception holds the switch's words as they arrived
        except asyncio.CancelledError:
            failure = self._ended("the call ended")
            await self.close()
            raise failure from None
        if answer is grpc.aio.EOF:
            failure = await self._at_end()
            await self.close()
            raise failure
        return list(values_as_they_are(answer.update)) if answer.HasField("update") else []

    def silent(self, patience_s: float) -> UnreachableError:
        """The error for a stream that sent nothing for ``patience_s``."""
        received = f"nothing for {patience_s:g} s after {self._said}"
        rule = "a switch sends what is subscribed to when it is due"
        remedy = "check that it is up, and its management network"
        return UnreachableError(self._device.where, received, rule, remedy)

    async def close(self) -> None:
        reading, call, channel = self._reading, self._call, self._channel
        self._reading = self._call = self._channel = None
        if call is not None:
            call.cancel()
        if reading is not None:
            reading.cancel()
            with suppress(asyncio.CancelledError, grpc.RpcError):
                await reading
        if channel is not None:
            await channel.close()

    async def _begin(self, call: Any, request: Any) -> Any:
        with suppress(asyncio.InvalidStateError):  # the call has ended already: reading gives the reason
            await call.write(request)
        return await call.read()

    async def _at_end(self) -> SwitchError:
        code, details = await self._call.code(), await self._call.details()
        if code is grpc.StatusCode.OK:
            return self._ended("the stream ended")
        return self._dial.failure(code, details, self._said, self._device.timeout_s)

    def _ended(self, received: str) -> UnreachableError:
        rule = "the caller ends a stream"
        remedy = "check the switch's log"
        return UnreachableError(self._device.where, f"{received} ({self._said})", rule, remedy)
