"""Where binary reports are taken by UDP, and whose; must not open a socket."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from settings.addresses import is_loopback
from settings.settings_section import Section

UdpPort = Annotated[int, Field(ge=0, le=65_535)]


class UdpSettings(Section):
    """Binary telemetry reports by UDP, at each of ``ports`` (one number or a list; none: not listened) of
    ``host``.

    Datagrams are not authenticated: ``allow`` lists the networks that may send, such as ``192.0.2.0/24``;
    those of others are counted and dropped. On a loopback host it is this machine unless said, on any other
    it must be said. Each port has ``sockets`` sockets, for each of which the kernel is asked for
    ``receive_buffer_bytes``; up to ``queue_datagrams`` wait to be decoded, the next are counted and dropped.
    """

    ports: tuple[UdpPort, ...] = ()
    host: str = "127.0.0.1"
    allow: tuple[str, ...] = ()
    sockets: int = Field(default=2, ge=1, le=64)
    queue_datagrams: int = Field(default=262_144, ge=1)
    receive_buffer_bytes: int = Field(default=16 << 20, ge=4_096, lt=1 << 30)

    @field_validator("ports", mode="before")
    @classmethod
    def _one_or_several(cls, given: object) -> object:
        return (given,) if isinstance(given, int | str) else given

    @field_validator("allow")
    @classmethod
    def _are_networks(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for text in given:
            try:
                ip_network(text)
            except ValueError:
                raise ValueError(f"{text!r} is no network, such as 192.0.2.0/24 or 2001:db8::/32") from None
        return given

    @model_validator(mode="after")
    def _whoever_may_send_is_named(self) -> Self:
        if self.ports and not self.allow and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host} needs allow, the networks whose datagrams are taken: "
                "UDP knows no tokens; list those of the switches, such as 192.0.2.0/24"
            )
        return self

    @property
    def allowed(self) -> tuple[str, ...]:
        """The networks that may send."""
        return self.allow or ("127.0.0.0/8", "::1/128")
