"""Keys of masters: election, queries, bounds of what they remember, snapshots."""

from typing import Self

from pydantic import Field, field_validator, model_validator

from eventflink.model.configuration_keys.keys import FACTORY_PATTERN, Keys


class MasterKeys(Keys):
    """Keys of masters: election, queries, bounds of what they remember, snapshots."""

    master_id: str = Field("", alias="jobmanager.id", description="Names this master over restarts. Default: the host's name.")
    rpc_address: str = Field("localhost", alias="jobmanager.rpc.address", description="The host name under which others reach this master.")
    high_availability: str = Field(
        "kafka",
        alias="high-availability.type",
        description="Who elects: kafka (the log), none (there is one master), zookeeper, or module:Factory.",
    )
    zookeeper_quorum: str = Field("", alias="high-availability.zookeeper.quorum", description="host:port,… of the ZooKeeper that elects.")
    zookeeper_root: str = Field("/eventflink", alias="high-availability.zookeeper.path.root", description="The node below which it elects.")
    zookeeper_session_timeout_ms: int = Field(
        10_000,
        alias="high-availability.zookeeper.session-timeout",
        ge=1000,
        description="After this long without contact ZooKeeper gives the leadership to another master.",
    )
    query_port: int = Field(
        0, alias="jobmanager.query.port", ge=0, le=65535, description="Where this master says how far it has come; 0: any free port."
    )
    query_bind_host: str = Field("127.0.0.1", alias="jobmanager.query.bind-host", description="The interface on which it says so.")
    abort_transactions_after_ms: int = Field(
        10_000,
        alias="transactions.abort-after",
        ge=0,
        description="For so long a client's open transaction may hold an inbound topic up, before the leader aborts it; 0: it never does.",
    )
    lease_timeout_ms: int = Field(
        1000,
        alias="high-availability.lease-timeout",
        ge=100,
        le=900_000,  # What a client of Kafka allows for a request.
        description="No decision may stay unconfirmed for longer.",
    )
    leader_heartbeat_interval_ms: int = Field(
        100, alias="high-availability.heartbeat-interval", ge=10, description="How often the leader says on `leadership` that it lives."
    )
    window_size: int = Field(
        1024, alias="high-availability.window-size", ge=1, le=65536, description="How many decisions may be unconfirmed at once."
    )
    inbox_size: int = Field(
        4096, alias="master.inbox-size", ge=64, le=1_000_000, description="Inputs held per partition before its reading pauses."
    )
    redeploy_interval_ms: int = Field(
        10_000,
        alias="master.resend-interval",
        ge=100,
        description="After this long an unacknowledged deployment or cancellation is sent again.",
    )
    feature_level_wait_ms: int = Field(
        600_000,
        alias="master.feature-level-wait",
        ge=-1,
        description="For so long all masters that were heard of must have read more before the log says more; -1: it never does.",
    )
    request_horizon: int = Field(
        1_000_000, alias="requests.horizon-entries", ge=1000, description="How many answers and job ids are remembered."
    )
    request_horizon_ms: int = Field(
        604_800_000,
        alias="requests.horizon-time",
        ge=60_000,
        description="For how long they are remembered; for longer while a request waits that was there before.",
    )
    snapshot_interval_records: int = Field(
        50_000,
        alias="snapshots.interval-records",
        ge=0,
        description="After this many records of the log a master takes a snapshot of the state; 0: never.",
    )
    snapshots_retained: int = Field(
        2, alias="snapshots.retained", ge=1, le=16, description="How many snapshots are kept, besides the newest confirmed one."
    )
    snapshot_trim_log: bool = Field(
        False,  # noqa: FBT003 - a default, not an argument
        alias="snapshots.trim-log",
        description="Whether the records of the log before a snapshot that another master confirmed are deleted, for ever.",
    )
    snapshot_trim_keep_records: int = Field(
        100_000, alias="snapshots.trim-keep-records", ge=0, description="How many of the newest records of the log trimming leaves."
    )

    @field_validator("high_availability")
    @classmethod
    def _check_high_availability(cls, value: str) -> str:
        if value not in ("kafka", "none", "zookeeper") and not FACTORY_PATTERN.fullmatch(value):
            raise ValueError(f"unknown election: '{value}'; known: kafka, none, zookeeper, or package.module:Factory")
        return value

    @model_validator(mode="after")
    def _check_quorum(self) -> Self:
        if self.high_availability == "zookeeper" and not self.zookeeper_quorum:
            raise ValueError("high-availability.type is zookeeper, so high-availability.zookeeper.quorum must name its servers")
        return self
