"""What can be set, as one frozen value. `meterline.runtime.settings.reading` reads it.

A setting exists because somebody changes it in production; each description says when. Everything
else is a constant in `meterline.limits`. Bounds keep a typing error from becoming an outage.
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
from meterline.runtime.settings import connection_fields as connection
from meterline.runtime.settings import delivery_fields as fields
from meterline.runtime.settings import log_fields as log
from meterline.runtime.settings import memory_fields as memory
from meterline.runtime.settings import retention_fields as retention
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
    checked_log_url,
    checked_secret,
    checked_usage_url,
    default_networks,
    default_open_slices,
    default_partitions,
    default_seen_dir,
    is_loopback,
)
from meterline.runtime.settings.operating_fields import (
    DrainS,
    LogLevel,
    MetersMax,
    MetricsPort,
    TracesRatio,
    TracesUrl,
    Workers,
)
from meterline.runtime.settings.text import decoded

ENV_PREFIX: Final = "METERLINE_"
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
        description="Folder of the embedded stores and of the key file. Set it when you install.",
        examples=["meterline-data"],
    )
    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address to listen on. Set it to 0.0.0.0 in a container.",
        examples=["127.0.0.1"],
    )
    port: int = Field(
        default=8888,
        ge=0,
        le=65_535,
        description="Port to listen on; 0 picks a free one. Set it when you install.",
        examples=[8888],
    )
    metrics_port: MetricsPort = None
    traces_url: TracesUrl = None
    traces_ratio: TracesRatio = 0.01
    drain_s: DrainS = 0
    log_url: Annotated[str, AfterValidator(checked_log_url)] = Field(
        default=LOG_EMBEDDED,
        description="The log: sqlite, or the Kafka servers. Set it when you move from one machine "
        "to many.",
        examples=["sqlite", "kafka://kafka-1:9092,kafka-2:9092"],
    )
    usage_url: Annotated[str, AfterValidator(checked_usage_url)] = Field(
        default=USAGE_EMBEDDED,
        description="The usage store: chdb, or ClickHouse's HTTP address. Set it together with "
        "log_url.",
        examples=["chdb", "http://clickhouse:8123"],
    )
    control_url: Annotated[str, AfterValidator(checked_control_url)] = Field(
        default=CONTROL_EMBEDDED,
        description="The control store: sqlite, or PostgreSQL's address. Set it together with "
        "log_url.",
        examples=["sqlite", "postgresql://meterline@postgres:5432/meterline"],
    )
    workers: Workers = 1

    # --- how servers are reached (each is described in connection_fields) ---
    log_tls: connection.LogTls = False
    log_ca_file: connection.LogCa = None
    log_cert_file: connection.LogCert = None
    log_key_file: connection.LogKey = None
    log_sasl: connection.LogSasl = None
    log_user: connection.LogUser = None
    log_password_file: connection.LogPassword = None
    log_token_file: connection.LogToken = None
    log_timeout_s: connection.LogTimeout = limits.LOG_TIMEOUT_S
    usage_shards: connection.UsageShards = Field(default_factory=list)
    usage_cluster: connection.UsageCluster = None
    usage_replicas: connection.UsageReplicas = Field(default_factory=list)
    usage_ca_file: connection.UsageCa = None
    usage_cert_file: connection.UsageCert = None
    usage_key_file: connection.UsageKey = None
    usage_password_file: connection.UsagePassword = None
    usage_timeout_s: connection.UsageTimeout = limits.USAGE_STORE_TIMEOUT_S
    control_tls: connection.ControlTls = False
    control_ca_file: connection.ControlCa = None
    control_cert_file: connection.ControlCert = None
    control_key_file: connection.ControlKey = None
    control_password_file: connection.ControlPassword = None
    control_timeout_s: connection.ControlTimeout = limits.CONTROL_STORE_TIMEOUT_S
    connect_timeout_s: connection.ConnectTimeout = limits.CONNECT_TIMEOUT_S

    # --- who may ask, and how much (contract sections 5 and 8) ---
    public_without_keys: bool = Field(
        default=False,
        description="Allow access without API keys although `host` is not loopback. Set it only "
        "if a proxy in front authenticates requests, or if you trust the whole network.",
        examples=[True],
    )
    access_mode: Literal["none", "keys"] = Field(
        default="none",
        validate_default=True,  # it depends on two others
        description="`keys`: every request needs an API key. `none`: no key is needed. Set it to "
        "`keys` before you expose the API; create keys with `meterline keys create`.",
        examples=["keys"],
    )
    allowed_hosts: AllowedHosts = ()
    plans: Annotated[dict[PlanName, PlanSetting], NoDecode, BeforeValidator(decoded)] = Field(
        default_factory=dict,
        description="Rate limits by name, each with requests and events per window. `default` is "
        "for keys without a plan. Set it to sell plans or to limit floods.",
        examples=[{"default": {"requests": {"quota": 600, "window_s": 60}}}],
    )
    limit_shares: int = Field(
        default=1,
        ge=1,
        le=1_000,
        description="Number of processes that share each rate limit; each grants its part. Change "
        "it when several gateways run behind one address.",
        examples=[2],
    )

    # --- the log ---
    log_topic: log.Topic = "meterline-events"
    log_accepted: log.Accepted = None
    usage_lost: log.UsageLost = None
    losses_accepted: log.LossesAccepted = Field(default_factory=dict)
    inbox_topics: log.InboxTopics = Field(default_factory=dict)
    consumer_group: log.ConsumerGroup = "meterline-aggregator"
    instance_id: log.InstanceId = ""
    partitions: int = Field(
        default_factory=default_partitions,
        ge=1,
        le=limits.PARTITIONS_MAX,
        description="Partitions of a new log. The default is 4 embedded, 8 on Kafka. Change it "
        "for over 100,000 events per second. `meterline migrate --partitions` adds some later.",
        examples=[16],
    )
    seen_dir: Path = Field(
        default_factory=default_seen_dir,
        description="Folder of the stores that detect duplicates; by default in data_dir. Set it "
        "to give aggregators a fast volume.",
        examples=["meterline-data/seen"],
    )
    produce_deadline_ms: int = Field(
        default=limits.PRODUCE_DEADLINE_MS,
        ge=100,
        le=600_000,
        description="An event that is not durable in the log within this time is answered 503. "
        "Change it for a Kafka cluster over long distances, and raise grace_ms with it.",
        examples=[10_000],
    )
    clock_skew_ms: int = Field(
        default=limits.CLOCK_SKEW_MS,
        ge=0,
        le=600_000,
        description="How far the clocks of two machines may differ. Change it if machines have no "
        "good time source.",
        examples=[1_000],
    )
    log_retention_days: retention.LogRetentionDays = limits.LOG_RETENTION_DAYS

    # --- what is let in ---
    body_bytes_max: int = Field(
        default=limits.BODY_BYTES_MAX,
        ge=1_024,
        le=1_024 * 1_024 * 1_024,
        description="Largest request body, before and after gzip. Change it to fit your senders.",
        examples=[10_485_760],
    )
    event_bytes_max: int = Field(
        default=limits.EVENT_BYTES_MAX,
        ge=1_024,
        le=limits.PACK_BYTES_MAX // 3,
        description="Largest event. Change it to fit your senders.",
        examples=[262_144],
    )
    batch_events_max: int = Field(
        default=limits.BATCH_EVENTS_MAX,
        ge=1,
        le=1_000_000,
        description="Most events per request. Change it to fit your senders.",
        examples=[10_000],
    )
    event_past_ms_max: int | None = Field(
        default=None,
        ge=0,
        description="Refuse events whose time is further in the past; off if absent. Set it if "
        "you close your books after some days.",
        examples=[30 * DAY_MS],
    )
    event_future_ms_max: int | None = Field(
        default=None,
        ge=0,
        description="Refuse events whose time is further in the future; off if absent. Set it to "
        "protect against wrong clocks.",
        examples=[60_000],
    )

    # --- counting ---
    horizon_days: int = Field(
        default=limits.HORIZON_DAYS,
        ge=1,
        le=retention.DAYS_MAX,
        description="How long a repeated event is detected as a duplicate. Change it if senders "
        "retry for longer than a month.",
        examples=[35],
    )
    keep_events_days: retention.KeepEventsDays = None
    keep_refusals_days: retention.KeepRefusalsDays = None
    keep_superseded_days: retention.KeepSupersededDays = None
    keep_minutes_days: retention.KeepMinutesDays = None
    grace_ms: Annotated[int, AfterValidator(checked_grace)] = Field(
        default=limits.GRACE_MS,
        validate_default=True,  # it depends on two others
        ge=0,
        le=DAY_MS,
        description="How long a run waits for late events after its window, unless its report "
        "says otherwise; at least produce_deadline_ms + clock_skew_ms. Change it if senders "
        "buffer events.",
        examples=[60_000],
    )
    start_spread_ms: int = Field(
        default=limits.START_SPREAD_MS,
        ge=0,
        le=600_000,
        description="Runs that are due together start spread over this time, and over at most a "
        "twentieth of their window. 0 starts them together. Change it if many reports use one "
        "receiver.",
        examples=[5_000],
    )
    revision_pause_s: int = Field(
        default=limits.REVISION_PAUSE_S,
        ge=1,
        le=DAY_MS // 1_000,
        description="Least time between two revisions of one run for late usage. Change it to "
        "send corrections sooner or less often.",
        examples=[3_600],
    )
    flush_interval_ms: int = Field(
        default=limits.FLUSH_INTERVAL_MS,
        ge=10,
        le=60_000,
        description="How often counts are written, in milliseconds. It is 2.25 times as long while "
        "more than 20,000 events come in meanwhile, or counting is far behind the log. Change it "
        "to trade freshness for fewer inserts.",
        examples=[1_000],
    )
    flush_events: memory.FlushEvents = limits.FLUSH_EVENTS
    flush_bytes: memory.FlushBytes = limits.FLUSH_BYTES

    open_slices_bytes: memory.OpenSlicesBytes = Field(default_factory=default_open_slices)
    seen_cache_bytes: memory.SeenCacheBytes = limits.SEEN_CACHE_BYTES

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
    delivery_bytes_days: retention.RevisedDays = Field(
        default=limits.REVISED_DAYS,
        ge=1,
        le=retention.DAYS_MAX,
        description="How long bodies of deliveries are kept to be shown and replayed, and how "
        "long their windows are revised. Digests are kept for ever. Change it to save disk in the "
        "control store.",
        examples=[90],
    )
    secret_key: Annotated[SecretStr, AfterValidator(checked_secret)] | None = Field(
        default=None,
        description="Key that encrypts signing secrets; without it a key file in data_dir is "
        "created. Set it to the same value in all processes if you run more than one.",
        examples=["an-example-of-random-text-that-is-long-enough"],
    )
    secret_key_file: fields.SecretKeyFile = None
    secret_key_lost: bool = Field(
        default=False,
        description="Start although no stored signing secret can be decrypted with the current "
        "key. Set it only if the old key is lost, until each report has a new secret.",
        examples=[True],
    )

    # --- the rest ---
    start_timeout_s: StartTimeout = limits.START_TIMEOUT_S
    log_level: LogLevel = "info"
    meters_max: MetersMax = limits.METERS_MAX
    meters: Annotated[list[dict[str, object]], NoDecode, BeforeValidator(decoded)] = Field(
        default_factory=list,
        description="Meters that are created at start, each with key, name, aggregation, "
        "event_type, value_property, dimensions, description. Set it to keep meters in version "
        "control.",
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
                f"everybody who can reach {host} could read and change everything. Set it to keys "
                "(create one with `meterline keys create`), or set host to 127.0.0.1. If a proxy "
                "in front authenticates requests, set public_without_keys to true"
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
