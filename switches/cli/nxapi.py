"""Cisco's NX-API CLI: commands in, their outputs out, and checkpoints; must not know what is configured."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from switches.device import Device
from switches.errors import AccessError, RefusedError
from switches.transport.http import DeviceAuth, HttpSession, base_url_of

_DENIED = re.compile(r"permission denied|not authori[sz]ed|authori[sz]ation failed", re.IGNORECASE)


class NxapiSession:
    """Calls to one switch. NX-API's cookie is kept between them: each login is work for the switch."""

    def __init__(self, device: Device, *, transport: httpx.BaseTransport | None = None) -> None:
        self._device = device
        self._http = HttpSession(device, base_url_of(device), auth=DeviceAuth(device), transport=transport)

    def show(self, command: str) -> str:
        """What a command prints; also for those that only act, such as ``checkpoint``."""
        found = self._outputs("cli_show_ascii", command)[0].get("body")
        return found if isinstance(found, str) else ""

    def configure(self, commands: Sequence[str]) -> None:
        """Runs configuration commands in one call; the switch stops at the first it refuses.

        Raises ``RefusedError`` with its words, and what came before that command stays.
        """
        self._outputs("cli_conf", " ;".join(commands))

    def has_checkpoint(self, name: str) -> bool:
        """Whether a checkpoint of that name is there."""
        found = self.show("show checkpoint summary")
        return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", found) is not None

    def close(self) -> None:
        self._http.close()

    def _outputs(self, kind: str, commands: str) -> list[Mapping[str, Any]]:
        answer = self._http.call(
            "POST",
            "/ins",
            json={
                "ins_api": {
                    "version": "1.0",
                    "type": kind,
                    "chunk": "0",
                    "sid": "1",
                    "input": commands,
                    "output_format": "json",
                }
            },
        )
        try:
            found = answer.json()["ins_api"]["outputs"]["output"]
        except (ValueError, KeyError, TypeError) as error:
            raise RefusedError(
                self._device.where,
                f"an answer that cannot be read ({type(error).__name__})",
                "NX-API answers with the output of each command",
                "look whether something else listens there, and whether feature nxapi is on",
            ) from error
        outputs: list[Mapping[str, Any]] = [
            one for one in (found if isinstance(found, list) else [found]) if isinstance(one, Mapping)
        ]
        for one in outputs:
            if str(one.get("code")) != "200":
                raise self._refused(one)
        return outputs or [{}]

    def _refused(self, output: Mapping[str, Any]) -> AccessError | RefusedError:
        parts = (output.get("input"), output.get("msg"), output.get("clierror"), output.get("body"))
        said = self._http.shown(": ".join(part for part in parts if isinstance(part, str) and part))
        if _DENIED.search(said):
            return AccessError(
                self._device.where, said, "the account may configure", "correct the account's role"
            )
        return RefusedError(
            self._device.where, said, "the switch takes the commands", "look at the switch, and its version"
        )
