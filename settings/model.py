"""All settings of the service with their defaults, one class a section. Defaults of the domain are taken from
there.
"""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from rollout.plan import Limits
from settings.alarms import AlarmSettings, ConditionSettings
from settings.history import DAY_S, Steps
from settings.security import BrokenRuleError, SecuritySettings, TlsSettings
from settings.telemetry import (
    CounterPollSettings,
    IntSettings,
    LosslessSettings,
    NeighbourSettings,
    NicPollSettings,
    UdpSettings,
)
from settings.twin import (
    BoundsSettings,
    DcqcnSettings,
    FabricSettings,
    IncumbentSettings,
    SearchSection,
    TuningSettings,
)
from settings.validation import ENV_PREFIX, HiddenValueError, Section, database_url, server_url
from telemetry.settings import NS_PER_S, WindowSettings

ENV_DELIMITER = "__"
MEBIBYTE = 1 << 20
IN_MEMORY = "memory"

Length = Annotated[int, Field(ge=2, le=86_400)]
Days = Annotated[float, Field(gt=0, le=36_500)]

_WINDOW = WindowSettings()
_LIMITS = Limits()


class ServerSettings(TlsSettings):
    """Where the service listens and what it accepts. Without tokens only a loopback host is allowed.

    Bodies of together ``max_pending_bytes`` may wait for the window; a body beyond is answered 429, to be
    sent again. A client has ``client_timeout_s`` seconds to send the head of a request, between parts of a
    body (16 KiB a second or more on average), and to read an answer. A request line and header fields of more
    than ``max_head_bytes`` together, or more than ``max_header_fields`` fields, are answered 431.

    With ``tls_certificate`` and ``tls_key`` (PEM; a password of the key in ``tls_key_password_file``) it
    speaks TLS, and with ``tls_client_ca`` only to clients with a certificate of those authorities. ``hsts_s``
    is the max-age of Strict-Transport-Security in seconds (0: not sent). ``trusted_proxies`` are the
    addresses or networks whose X-Forwarded-For is believed.
    """

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65_535)
    max_body_bytes: int = Field(default=64 * MEBIBYTE, gt=0)
    max_decoded_bytes: int = Field(default=512 * MEBIBYTE, gt=0)
    max_pending_bytes: int = Field(default=256 * MEBIBYTE, gt=0)
    max_head_bytes: int = Field(default=65_536, ge=8_192)
    max_header_fields: int = Field(default=100, ge=1)
    max_errors_listed: int = Field(default=100, ge=0)
    client_timeout_s: float = Field(default=30.0, gt=0)
    access_log: bool = False
    shutdown_grace_s: int = Field(default=5, ge=0)
    trusted_proxies: tuple[str, ...] = ()

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for one in given:
            ip_network(one)  # its ValueError says what is wrong
        return given


class TelemetrySettings(Section):
    """The sliding window: its length and periods, what counts as an elephant, what memory holds."""

    period_s: float = Field(default=_WINDOW.period_ns / NS_PER_S, gt=0, le=86_400)
    n_periods: int = _WINDOW.n_periods
    elephant_bytes: float = _WINDOW.elephant_bytes
    max_reports: int = _WINDOW.max_reports
    max_flows: int = _WINDOW.max_flows
    max_paths: int = _WINDOW.max_paths
    max_queues: int = _WINDOW.max_queues
    idle_gap_s: float = Field(default=_WINDOW.idle_gap_ns / NS_PER_S, ge=0)
    default_rate_gbps: float = _WINDOW.default_rate_gbps
    default_delay_us: float = _WINDOW.default_delay_us
    counters: CounterPollSettings = CounterPollSettings()
    nics: NicPollSettings = NicPollSettings()
    neighbours: NeighbourSettings = NeighbourSettings()
    lossless: LosslessSettings = LosslessSettings()
    int_: IntSettings = Field(default=IntSettings(), alias="int")
    udp: UdpSettings = UdpSettings()

    @model_validator(mode="after")
    def _is_a_window(self) -> Self:
        self.window()
        return self

    def window(self) -> WindowSettings:
        apart = {"period_s", "idle_gap_s", "counters", "nics", "neighbours", "lossless", "int_", "udp"}
        values = self.model_dump(exclude=apart)
        return WindowSettings(
            period_ns=max(1, round(self.period_s * NS_PER_S)),
            idle_gap_ns=round(self.idle_gap_s * NS_PER_S),
            **values,
        )


class PushSettings(Section):
    """How an approved recommendation reaches the switches; ``dry-run`` only records.

    ``inventory`` is the file that describes the switches. They are read, and diffs for them shown, but
    nothing is written until ``enabled`` is true; a lab is always written. ``lab`` sets the switches of a
    running lab, whose control interface is at ``lab_url``. All switches are read every ``read_every_s``
    seconds, which shows changes made by others. With ``enabled`` and ``nics`` the NICs of its hosts are
    written too, where an approval asks for that.
    """

    adapter: str = "dry-run"
    lab_url: str | None = None
    inventory: Path | None = None
    enabled: bool = False
    nics: bool = False
    read_every_s: float = Field(default=10.0, gt=0)

    @field_validator("lab_url")
    @classmethod
    def _is_the_url_of_a_server(cls, text: str | None) -> str | None:
        return text if text is None else server_url(text)

    @model_validator(mode="after")
    def _the_lab_can_be_found(self) -> Self:
        if self.adapter == "lab" and self.lab_url is None:
            raise ValueError("the adapter lab needs lab_url, such as http://127.0.0.1:9000")
        return self


class RolloutSettings(Section):
    """How a watermark goes from one switch to all, and what stops it and takes it back.

    ``auto`` approves by itself what nothing holds back. The switches named in ``canary`` go first (none: the
    first leaf by name), then the others in batches of ``batch_size``, ``at_once`` of them at a time. The
    canary is watched for ``soak_s`` seconds and each batch for ``batch_soak_s``, measured every
    ``measure_every_s``. Where NICs are set too, ``nic_canary`` hosts of different classes go first, then the
    others in batches of ``nic_batch_size``, ``nic_at_once`` of them at a time; up to ``nic_missing_share`` of
    the hosts (0 to 1) are left out where they cannot be reached before anything is set.

    Taken back on: ports paused by PFC for a larger share of the time than before by more than
    ``pause_share_limit`` (0 to 1); half again as many PFC frames sent as before and ``pfc_frames_limit`` a
    second more, half again as many packets dropped and ``drops_limit`` a second more; a queue beyond
    ``queue_limit`` times the larger of what it was and what was predicted; throughput below
    ``throughput_limit`` (0 to 1) of what it was; no telemetry for ``silence_s`` seconds; a switch that does
    not answer for ``patience_s`` seconds.

    Once a rollout was taken back, ``auto`` approves nothing on its switches for ``auto_hold_s`` seconds,
    twice as long after a second in a row, and so on up to a day. A person may at any time.
    """

    auto: bool = False
    auto_hold_s: float = Field(default=1_800.0, ge=0)
    canary: tuple[str, ...] = ()
    batch_size: int = Field(default=8, ge=1)
    at_once: int = Field(default=16, ge=1, le=256)
    nic_canary: int = Field(default=2, ge=1)
    nic_batch_size: int = Field(default=100, ge=1)
    nic_at_once: int = Field(default=32, ge=1, le=256)
    nic_missing_share: float = Field(default=_LIMITS.missing_share, ge=0, le=1)
    soak_s: float = Field(default=_LIMITS.soak_s, ge=0)
    batch_soak_s: float = Field(default=_LIMITS.batch_soak_s, ge=0)
    measure_every_s: float = Field(default=5.0, gt=0)
    silence_s: float = Field(default=15.0, gt=0)
    patience_s: float = Field(default=_LIMITS.patience_s, ge=0)
    pause_share_limit: float = Field(default=_LIMITS.pause_share, ge=0, le=1)
    pfc_frames_limit: float = Field(default=_LIMITS.pfc_frames_per_s, ge=0)
    drops_limit: float = Field(default=_LIMITS.drops_per_s, ge=0)
    queue_limit: float = Field(default=_LIMITS.queue_factor, ge=1)
    throughput_limit: float = Field(default=_LIMITS.throughput_share, ge=0, le=1)


class StorageSettings(Section):
    """The database, as a URL: ``sqlite:///ecntwin.db`` is a file beside the settings file,
    ``postgresql://ecntwin@db.example/ecntwin`` a PostgreSQL. ``memory`` ends with the service. None:
    ``ecntwin.db`` in the user's state folder.

    ``keep_recommendations`` of those without a decision are kept, and those that were approved or rejected
    for ``keep_days``, as long as alarms and residuals; the audit log for ``keep_audit_days``.

    Every ``history_step_s`` seconds the figures of ports are written (none: never), and kept for
    ``history_keep_days``. Coarser steps are made of these: ``history_coarser`` says for each length in
    seconds, a multiple of the one before, for how many days it is kept.
    """

    history_step_s: int | None = Field(default=10, ge=1, le=3_600)
    history_keep_days: Days = 1.0
    history_coarser: dict[Length, Days] = Field(default={60: 14.0, 600: 400.0})
    url: str | None = None
    keep_recommendations: int = Field(default=5_000, ge=1)
    keep_days: Days = 400.0
    keep_audit_days: Days = 400.0

    @model_validator(mode="after")
    def _are_steps(self) -> Self:
        before_s, before_days = self.history_step_s, self.history_keep_days
        for step_s, days in sorted(self.history_coarser.items()) if before_s else ():
            if before_s and (step_s <= before_s or step_s % before_s):
                raise ValueError(
                    f"history_coarser {step_s} is not made of whole steps of {before_s} s; give multiples, "
                    "such as 10, 60 and 600"
                )
            if days < before_days:
                raise ValueError(
                    f"history_coarser keeps {step_s} s for {days:g} days and the finer {before_s} s for "
                    f"{before_days:g}; keep the coarser for as long at least"
                )
            before_s, before_days = step_s, days
        return self

    @field_validator("url")
    @classmethod
    def _is_the_url_of_a_database(cls, text: str | None) -> str | None:
        try:
            return text if text in (None, IN_MEMORY) else database_url(text)
        except ValueError as error:
            raise HiddenValueError(str(error)) from None  # the message may hold a password

    @property
    def database(self) -> str | None:
        """The URL; None for one in memory."""
        return None if self.url == IN_MEMORY else self.url

    def steps(self) -> Steps | None:
        """The step lengths of the queue history; None: none is written."""
        if self.history_step_s is None:
            return None
        given = {self.history_step_s: self.history_keep_days, **self.history_coarser}
        return Steps({step_s: given[step_s] * DAY_S for step_s in sorted(given)})


class LogSettings(Section):
    """How much is logged to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"


class Settings(BaseSettings):
    """All settings. Environment over file over defaults."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=ENV_DELIMITER,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
    )

    server: ServerSettings = ServerSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    fabric: FabricSettings = FabricSettings()
    dcqcn: DcqcnSettings = DcqcnSettings()
    incumbent: IncumbentSettings = IncumbentSettings()
    bounds: BoundsSettings = BoundsSettings()
    search: SearchSection = SearchSection()
    tuning: TuningSettings = TuningSettings()
    push: PushSettings = PushSettings()
    rollout: RolloutSettings = RolloutSettings()
    alarms: AlarmSettings = AlarmSettings()
    condition: ConditionSettings = ConditionSettings()
    storage: StorageSettings = StorageSettings()
    security: SecuritySettings = SecuritySettings()
    log: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _what_is_written_can_be_undone(self) -> Self:
        if self.push.enabled and self.storage.database is None:
            raise BrokenRuleError(
                "push.enabled",
                None,
                "push.enabled needs storage.url: a service that ends in the middle of a rollout finds in its "
                "journal which switches it has touched and what they ran",
                "name a database, such as sqlite:///ecntwin.db",
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment takes precedence; the file arrives as arguments."""
        return env_settings, init_settings
