"""Keys of the history server."""

from typing import Self

from pydantic import Field, field_validator, model_validator

from eventflink.model.configuration_keys.rest_keys import RestKeys
from eventflink.model.metric_settings import read_ports


class HistoryKeys(RestKeys):
    """Keys of the history server; who may ask it, and its TLS, say those of the REST process."""

    history_archive_directories: str = Field(
        "",
        alias="historyserver.archive.fs.dir",
        description="Where `history-server` looks for archives: the jobmanager.archive.fs.dir of one or more clusters, comma-separated. "
        "Default: that of this configuration.",
    )
    history_refresh_interval_ms: int = Field(
        10_000, alias="historyserver.archive.fs.refresh-interval", ge=100, description="How often it looks for archives that are new."
    )
    history_retained_jobs: int = Field(
        10_000,
        alias="historyserver.archive.retained-jobs",
        ge=1,
        le=100_000,
        description="How many jobs of each directory it shows, the newest archives. It removes none, where Flink does.",
    )
    history_bind_address: str = Field(
        "127.0.0.1",
        alias="historyserver.web.address",
        description="The interface where it listens; others than the loopback only with security.ssl.rest.enabled and with tokens.",
    )
    history_ports: str = Field(
        "8082-8099",
        alias="historyserver.web.port",
        description="Where it listens: a port, a range of which it takes the first free one, or 0 for any.",
    )
    history_web_refresh_interval_ms: int = Field(
        10_000, alias="historyserver.web.refresh-interval", ge=100, description="How often a dashboard is told to ask it."
    )

    @field_validator("history_ports", mode="before")
    @classmethod
    def _read_history_ports(cls, value: object) -> object:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value  # YAML reads a single port as a number.

    @field_validator("history_ports")
    @classmethod
    def _check_history_ports(cls, value: str) -> str:
        if not read_ports(value):
            raise ValueError("it is empty: give a port or a range; 0 means any free port")
        return value

    @model_validator(mode="after")
    def _check_history_access(self) -> Self:
        self.check_reach("historyserver.web.address", self.history_bind_address, "reads every archive")
        return self
