"""gNMI to one switch: Get, Set and Capabilities, each with its deadline, every failure a ``SwitchError``.

The messages are the gNMI specification's (``gnmi.proto``, as pygnmi ships them); must not know any platform.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import grpc
from pygnmi.spec.v080 import gnmi_pb2, gnmi_pb2_grpc

from switches.device import Device
from switches.errors import RefusedError
from switches.transport.gnmi import GnmiDial, GnmiOptions
from switches.transport.gnmi_messages import PathValue, to_update, to_wire, values_in
from switches.transport.gnmi_path import GnmiPath, listed

DataType = Literal["ALL", "CONFIG", "STATE"]


@dataclass(frozen=True, slots=True)
class GnmiCapabilities:
    """What a switch says of itself: gNMI version, and models by name with their versions."""

    gnmi_version: str
    models: dict[str, str]


class GnmiSession:
    """One channel to a switch, opened by the first call and again after a failure.

    A Get answers within the device's ``timeout_s``, a Set within ``set_timeout_s`` where that is longer.
    Raises ``InventoryError`` for what no channel can be made of.
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
            raise RefusedError(
                self._device.where,
                f"an answer to Get {listed(paths)} that cannot be read ({error})",
                "values come as JSON or as scalars",
                "look at the switch, and its version",
            ) from error

    def set(
        self,
        *,
        delete: Iterable[GnmiPath] = (),
        replace: Iterable[tuple[GnmiPath, Any]] = (),
        update: Iterable[tuple[GnmiPath, Any]] = (),
    ) -> None:
        """One SetRequest: all of it is made, or nothing (gNMI specification 0.10, section 3.4.3).

        Values are JSON values, sent as JSON_IETF: a string stays a string. Raises as ``get`` does; after
        ``UnreachableError`` nobody knows whether it was made.
        """
        request = gnmi_pb2.SetRequest(
            delete=[to_wire(path) for path in delete],
            replace=[to_update(path, value) for path, value in replace],
            update=[to_update(path, value) for path, value in update],
        )
        self._call("Set", request, "Set", self._set_timeout_s)

    def capabilities(self) -> GnmiCapabilities:
        """What the switch says of itself; raises as ``get`` does."""
        answer = self._call(
            "Capabilities", gnmi_pb2.CapabilityRequest(), "Capabilities", self._device.timeout_s
        )
        return GnmiCapabilities(
            answer.gNMI_version, {model.name: model.version for model in answer.supported_models}
        )

    def close(self) -> None:
        """Ends the channel; the next call opens one."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _call(self, method: str, request: Any, said: str, timeout_s: float) -> Any:
        metadata = self._dial.metadata()
        if self._channel is None:
            self._channel = self._open()
        call: Callable[..., Any] = getattr(gnmi_pb2_grpc.gNMIStub(self._channel), method)
        try:
            return call(request, timeout=timeout_s, metadata=metadata)
        except grpc.RpcError as error:
            if method == "Get" and error.code() is grpc.StatusCode.NOT_FOUND:
                return None  # gNMI specification, section 3.3.4: there is nothing at the path
            self.close()  # the next call begins anew, and does not wait out this channel's back-off
            raise self._dial.failure(error, said, timeout_s) from None

    def _open(self) -> grpc.Channel:
        credentials, arguments = self._dial.credentials(), self._dial.arguments
        if credentials is None:
            return grpc.insecure_channel(self._dial.target, options=arguments)
        return grpc.secure_channel(self._dial.target, credentials, options=arguments)
