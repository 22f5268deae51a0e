"""gNMI Subscribe to one switch, on an event loop: hundreds of streams need no thread each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import grpc.aio
from pygnmi.spec.v080 import gnmi_pb2, gnmi_pb2_grpc

from switches.device import Device
from switches.errors import SwitchError, UnreachableError
from switches.transport.gnmi import GnmiDial
from switches.transport.gnmi_messages import GnmiPath, PathValue, listed, to_wire, values_as_they_are

_NS_PER_S = 1_000_000_000


class GnmiStream:
    """One SAMPLE subscription (gNMI specification 0.10, section 3.5.1.5.2), on one event loop."""

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
        credentials, metadata = self._dial.credentials(), self._dial.metadata()
        target, arguments = self._dial.target, self._dial.arguments
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(target, options=arguments)
        else:
            self._channel = grpc.aio.secure_channel(target, credentials, options=arguments)
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
        except grpc.RpcError as error:
            failure = self._dial.failure(error, self._said, patience_s)
            await self.close()
            raise failure from None  # what gRPC raised holds the switch's words as they came
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
        """The error for a stream that sent nothing for so long."""
        return UnreachableError(
            self._device.where,
            f"nothing for {patience_s:g} s after {self._said}",
            "a switch sends what is subscribed to when it is due",
            "check that it is up, and its management network",
        )

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
        with suppress(asyncio.InvalidStateError):  # the call has ended already: reading says why
            await call.write(request)
        return await call.read()

    async def _at_end(self) -> SwitchError:
        code, details = await self._call.code(), await self._call.details()
        if code is grpc.StatusCode.OK:
            return self._ended("the stream ended")
        return self._dial.failure(_Ended(code, details), self._said, self._device.timeout_s)

    def _ended(self, received: str) -> UnreachableError:
        return UnreachableError(
            self._device.where,
            f"{received} ({self._said})",
            "the caller ends a stream",
            "check the switch's log",
        )


class _Ended(grpc.RpcError):
    """The status of an ended call, as a stub would raise it."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__()
        self._code = code
        self._details = details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details
