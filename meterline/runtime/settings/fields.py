"""What can be set, as one frozen value. `meterline.runtime.settings.reading` reads it.

A setting exists because somebody changes it in production; each description says who. Everything
else is a constant in `meterline.limits`. Bounds keep a slip of the pen from becoming an outage.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from meterline import limits
from meterline.runtime.settings import delivery_fields as fields
from meterline.runtime.settings.checks import (
    CONTROL_EMBEDDED,
    LOG_EMBEDDED,
    USAGE_EMBEDDED,
    AllowedHosts,
    PlanName,
    PlanSetting,
    StartTimeout,
    checked_control_url,
    checked_grace,
    checked_inboxes,
    checked_log_url,
    checked_secret,
    checked_usage_url,
    default_networks,
    default_partitions,
    default_seen_dir,
    is_loopback,
)
from meterline.runtime.settings.text import decoded

ENV_PREFIX: Final = "METERLINE_"
DAYS_MAX: Final = 3_660  # ten years: beyond it a number was meant as something else
DAY_MS: Final = 86_400_000


class Settings(BaseSettings):
    """Every setting, valid and complete; use `load_settings` to read them.

    As constructed directly it reads neither file nor environment: what is not given is a default.
    """

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix=ENV_PREFIX, hide_input_in_errors=True
    )

    # --- where ---
    data_dir: Path = Field(
        default=Path("meterline-data"),
        description="Folder of all embedded stores and of the key file. Whoever installs sets it.",
        examples=["meterline-data"],
    )
    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address to listen on. Whoever installs: 0.0.0.0 in a container.",
        examples=["127.0.0.1"],
    )
    port: int = Field(
        default=8888,
        ge=0,
        le=65_535,
        description="Port to listen on, 0 for any free one. Whoever installs sets it.",
        examples=[8888],
    )
    log_url: Annotated[str, AfterValidator(checked_log_url)] = Field(
        default=LOG_EMBEDDED,
        description="The log: sqlite, or Kafka's servers. Whoever goes from one machine to many.",
        examples=["sqlite", "kafka://kafka-1:9092,kafka-2:9092"],
    )
    usage_url: Annotated[str, AfterValidator(checked_usage_url)] = Field(
        default=USAGE_EMBEDDED,
        description="The usage store: chdb, or ClickHouse's HTTP address. As log_url.",
        examples=["chdb", "http://clickhouse:8123"],
    )
    control_url: Annotated[str, AfterValidator(checked_control_url)] = Field(
        default=CONTROL_EMBEDDED,
        description="The control store: sqlite, or PostgreSQL's address. As log_url.",
        examples=["sqlite", "postgresql://meterline@postgres:5432/meterline"],
    )

    # --- who may ask, and how much (contract sections 5 and 8) ---
    public_without_keys: bool = Field(
        default=False,
        description="Let everybody in although `host` is not loopback. Whoever has a proxy in "
        "front that checks who asks, or only friends on the network.",
        examples=[True],
    )
    access_mode: Literal["none", "keys"] = Field(
        default="none",
        validate_default=True,  # it depends on two others
        description="`keys`: every request needs an API key. `none`: nobody is asked. Whoever "
        "lets others in; keys are made by `meterline keys`.",
        examples=["keys"],
    )
    allowed_hosts: AllowedHosts = ()
    plans: Annotated[dict[PlanName, PlanSetting], NoDecode, BeforeValidator(decoded)] = Field(
        default_factory=dict,
        description="Sets of limits by name, each with requests and events in a window; a key "
        "names one, and `default` is for all that name none. Whoever sells plans or fears floods.",
        examples=[{"default": {"requests": {"quota": 600, "window_s": 60}}}],
    )
    limit_shares: int = Field(
        default=1,
        ge=1,
        le=1_000,
        description="Processes that share each limit: every one grants its part. Whoever runs "
        "several gateways behind one address.",
        examples=[2],
    )

    # --- the log ---
    log_topic: str = Field(
        default="meterline-events",
        pattern=r"^[A-Za-z0-9._-]{1,249}$",
        description="Kafka topic of the log. Whoever shares a Kafka cluster with others.",
        examples=["meterline-events"],
    )
    log_accepted: str | None = Field(
        default=None,
        description="Id of a log to go on with although another one was counted before. Whoever "
        "has lost the old log for good; the error that names the id says what it costs.",
        examples=["01M7ZMF4YA7D2SQ292V0W9JPT8"],
    )
    usage_lost: str | None = Field(
        default=None,
        description="Id of a usage store that is lost for good: what the log still holds is "
        "counted again into the one that is found. Whoever has no backup of it; the error that "
        "names the id says so.",
        examples=["01M7ZMF4YA7D2SQ292V0W9JPT8"],
    )
    losses_accepted: Annotated[dict[int, int], NoDecode, BeforeValidator(decoded)] = Field(
        default_factory=dict,
        description="By partition, the offset at which to go on although records before it expired "
        "uncounted. Whoever has lost them for good; the error that names the offset says so.",
        examples=[{"3": 1_200}],
    )
    inbox_topics: Annotated[
        dict[str, str], NoDecode, BeforeValidator(decoded), AfterValidator(checked_inboxes)
    ] = Field(
        default_factory=dict,
        description="Kafka topics to read events from, each with the namespace it belongs to. "
        "Whoever connects a producer that does not speak HTTP.",
        examples=[{"orders": "default"}],
    )
    consumer_group: str = Field(
        default="meterline-aggregator",
        pattern=r"^[A-Za-z0-9._-]{1,249}$",
        description="Kafka consumer group of the aggregators. As log_topic.",
        examples=["meterline-aggregator"],
    )
    instance_id: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9._-]{0,249}$",
        description="Name of this aggregator among those of its group, no other one's and ever the "
        "same: back within 30 seconds it goes on at once with its partitions. Whoever runs "
        "aggregators on Kafka, each with a seen_dir that stays.",
        examples=["aggregate-1"],
    )
    partitions: int = Field(
        default_factory=default_partitions,
        ge=1,
        le=limits.PARTITIONS_MAX,
        description="Partitions of a log that is made; fixed from then on. By default 4 embedded, "
        "16 on Kafka. Whoever expects over 100,000 events a second.",
        examples=[16],
    )
    seen_dir: Path = Field(
        default_factory=default_seen_dir,
        description="Folder of the stores that find duplicates; by default in data_dir. Whoever "
        "gives aggregators a fast volume of their own.",
        examples=["meterline-data/seen"],
    )
    produce_deadline_ms: int = Field(
        default=limits.PRODUCE_DEADLINE_MS,
        ge=100,
        le=600_000,
        description="An event not durable in the log within this is answered 503. Whoever runs a "
        "Kafka cluster over long distances. Raise grace_ms with it.",
        examples=[10_000],
    )
    clock_skew_ms: int = Field(
        default=limits.CLOCK_SKEW_MS,
        ge=0,
        le=600_000,
        description="How far the clocks of two machines may differ. Whoever runs machines without "
        "a good time source.",
        examples=[1_000],
    )
    log_retention_days: int = Field(
        default=limits.LOG_RETENTION_DAYS,
        ge=1,
        le=DAYS_MAX,
        description="How long the log keeps what is counted already. Whoever pays for its disks.",
        examples=[7],
    )

    # --- what is let in ---
    body_bytes_max: int = Field(
        default=limits.BODY_BYTES_MAX,
        ge=1_024,
        le=1_024 * 1_024 * 1_024,
        description="Largest request body, before and after gzip. Whoever sets the plan's limits.",
        examples=[10_485_760],
    )
    event_bytes_max: int = Field(
        default=limits.EVENT_BYTES_MAX,
        ge=1_024,
        le=limits.PACK_BYTES_MAX // 3,
        description="Largest event. Whoever sets the plan's limits.",
        examples=[262_144],
    )
    batch_events_max: int = Field(
        default=limits.BATCH_EVENTS_MAX,
        ge=1,
        le=1_000_000,
        description="Most events of one request. Whoever sets the plan's limits.",
        examples=[10_000],
    )
    event_past_ms_max: int | None = Field(
        default=None,
        ge=0,
        description="Refuse an event whose time lies further back; off when absent. Whoever closes "
        "its books after some days.",
        examples=[30 * DAY_MS],
    )
    event_future_ms_max: int | None = Field(
        default=None,
        ge=0,
        description="Refuse an event whose time lies further ahead; off when absent. As "
        "event_past_ms_max, and against wrong clocks.",
        examples=[60_000],
    )

    # --- counting ---
    horizon_days: int = Field(
        default=limits.HORIZON_DAYS,
        ge=1,
        le=DAYS_MAX,
        description="How long a repeated event is known as a duplicate. Whoever has senders that "
        "retry for longer than a month.",
        examples=[35],
    )
    grace_ms: Annotated[int, AfterValidator(checked_grace)] = Field(
        default=limits.GRACE_MS,
        validate_default=True,  # it depends on two others
        ge=0,
        le=DAY_MS,
        description="How long a run waits after its window for late events, if its report says "
        "nothing; at least produce_deadline_ms + clock_skew_ms. Whoever has senders that buffer.",
        examples=[60_000],
    )
    start_spread_ms: int = Field(
        default=limits.START_SPREAD_MS,
        ge=0,
        le=600_000,
        description="Runs that are due at once start within this, and within a twentieth of their "
        "windows, each report at its own place; 0 starts them together. Whoever has many reports "
        "to one receiver.",
        examples=[5_000],
    )
    revision_pause_s: int = Field(
        default=limits.REVISION_PAUSE_S,
        ge=1,
        le=DAY_MS // 1_000,
        description="How long at least between two revisions of one run for late usage. Whoever "
        "has receivers that want corrections sooner, or fewer of them.",
        examples=[3_600],
    )
    flush_interval_ms: int = Field(
        default=limits.FLUSH_INTERVAL_MS,
        ge=10,
        le=60_000,
        description="How often counts are written. Whoever trades freshness for fewer inserts.",
        examples=[1_000],
    )
    flush_events: int = Field(
        default=limits.FLUSH_EVENTS,
        ge=1,
        le=limits.SLICE_EVENTS_MAX,
        description="Events after which counts are written earlier. Whoever is short of memory.",
        examples=[20_000],
    )

    # --- delivering (each is described in delivery_fields) ---
    webhook_networks_allowed: fields.Networks = Field(default_factory=default_networks)
    webhook_ca_file: fields.CaFile = None
    webhook_proxy: fields.Proxy = None
    retry_delays_s: fields.RetryDelays = limits.RETRY_DELAYS_S
    retry_every_s: fields.RetryEvery = limits.RETRY_EVERY_S
    retry_patience_s: fields.RetryPatience = limits.RETRY_PATIENCE_S
    probe_pause_s: fields.ProbePause = limits.PROBE_PAUSE_S
    endpoint_per_second: fields.EndpointPerSecond = None
    delivery_timeout_s: fields.DeliveryTimeout = limits.DELIVERY_TIMEOUT_S
    delivery_bytes_days: int = Field(
        default=limits.REVISED_DAYS,
        ge=1,
        le=DAYS_MAX,
        description="How long the bytes of deliveries are kept to be shown and sent again, and "
        "their windows are revised; digests are kept for ever. Whoever pays for the control store.",
        examples=[90],
    )
    secret_key: Annotated[SecretStr, AfterValidator(checked_secret)] | None = Field(
        default=None,
        description="Key under which signing secrets are stored; without it a key file in data_dir "
        "is made. Whoever runs more than one process: the same for all of them.",
        examples=["an-example-of-random-text-that-is-long-enough"],
    )
    secret_key_lost: bool = Field(
        default=False,
        description="Start although no stored signing secret opens with the key that is found. "
        "Whoever has lost the old key for good, until each report has a new secret.",
        examples=[True],
    )

    # --- the rest ---
    start_timeout_s: StartTimeout = limits.START_TIMEOUT_S
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="What is told on stderr. Whoever looks for a fault.",
        examples=["info"],
    )
    meters: Annotated[list[dict[str, object]], NoDecode, BeforeValidator(decoded)] = Field(
        default_factory=list,
        description="Meters that are made at start, each with key, name, aggregation, event_type, "
        "value_property, dimensions, description. Whoever keeps meters in version control.",
        examples=[[{"key": "calls", "aggregation": "count", "event_type": "call"}]],
    )

    @property
    def embedded(self) -> bool:
        """Is the whole product one process and one folder?"""
        return (self.log_url, self.usage_url, self.control_url) == (
            LOG_EMBEDDED,
            USAGE_EMBEDDED,
            CONTROL_EMBEDDED,
        )

    @property
    def control_database_url(self) -> str:
        """The control store as its engine takes it; when embedded, a file in data_dir."""
        embedded = self.control_url == CONTROL_EMBEDDED
        return f"sqlite:///{self.data_dir}/control.db" if embedded else self.control_url

    @property
    def kafka_servers(self) -> str:
        """Kafka's servers as its clients want them, `host:port,...`; empty when embedded."""
        return "" if self.log_url == LOG_EMBEDDED else self.log_url.removeprefix("kafka://")

    @field_validator("access_mode")
    @classmethod
    def _others_show_a_key(cls, mode: str, info: ValidationInfo) -> str:
        """An address that others reach is not open to all by mistake."""
        host = info.data.get("host", "localhost")
        public = mode == "none" and not is_loopback(host)
        if public and not info.data.get("public_without_keys", True):
            raise ValueError(
                f"others may reach {host} and then read and change everything; ask for keys (make "
                "one with `meterline keys create`), listen on 127.0.0.1, or set "
                "public_without_keys to true where something in front decides who is let in"
            )
        return mode

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values from the constructor only: `load_settings` knows where each came from."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)
