"""Keys of the blob server, its storage and its TLS."""

from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from eventflink.model.configuration_keys.keys import Keys
from eventflink.model.port_range import parse_ports


class BlobKeys(Keys):
    """Keys of the blob server, its storage and its TLS."""

    blob_directory: str = Field(
        "",
        alias="blob.storage.directory",
        description="Where blobs are kept, below a folder named by cluster.id: a directory, or an fsspec URL that all masters reach "
        "(s3://bucket/blobs). Default: below data.directory.",
    )
    blob_bind_host: str = Field("127.0.0.1", alias="blob.server.bind-host", description="The interface of the blob server.")
    blob_port: str = Field(
        "0",
        alias="blob.server.port",
        description="Its port; 0: any free one. Or ports, of which the first free one is taken: 50100-50200, or 50100,50200-50300.",
    )
    blob_max_bytes: int = Field(512 * 1024 * 1024, alias="blob.max-size", ge=1024, description="The largest blob that is taken, in bytes.")
    blob_max_total_bytes: int = Field(
        16 * 1024 * 1024 * 1024,
        alias="blob.storage.max-size",
        ge=1024,
        description="How much all blobs of the cluster may take, in bytes; one more is refused.",
    )
    blob_max_bytes_per_job: int = Field(
        4 * 1024 * 1024 * 1024,
        alias="blob.job.max-size",
        ge=1024,
        description="How much the blobs of one job may take, in bytes, and those that name no job together; one more is refused.",
    )
    blob_max_transfers: int = Field(
        50, alias="blob.fetch.num-concurrent", ge=1, le=1000, description="How many blobs a master receives and sends at once."
    )
    blob_backlog: int = Field(
        1000,
        alias="blob.fetch.backlog",
        ge=1,
        le=100_000,
        description="How many requests for blobs, and how many connections, wait for their turn; one more is refused (503).",
    )
    blob_cleanup_interval_ms: int = Field(
        3_600_000,
        alias="blob.service.cleanup.interval",
        ge=1000,
        description="How often the leader removes unneeded blobs, how long a transient blob (an uploaded log) lives, and how long "
        "a TaskExecutor keeps code that no task uses. Milliseconds, where Flink counts seconds.",
    )
    blob_grace_period_ms: int = Field(
        3_600_000,
        alias="blob.service.cleanup.grace-period",
        ge=1000,
        description="A permanent blob to which no job refers stays for this long after its last upload: until its job is submitted.",
    )
    blob_rerun_period_ms: int = Field(
        86_400_000,
        alias="blob.service.cleanup.rerun-period",
        ge=0,
        description="For how long the code of a job that has ended, and is in memory, stays, so that the job can be run again.",
    )
    tls_enabled: bool = Field(
        False,  # noqa: FBT003 - a default, not an argument
        alias="security.ssl.internal.enabled",
        description="Whether blob servers and their clients speak TLS.",
    )
    tls_certificate: Path | None = Field(
        None,
        alias="security.ssl.internal.certificate",
        description="A PEM file with this process's certificate and what leads to its CA; a master needs one.",
    )
    tls_key: Path | None = Field(None, alias="security.ssl.internal.key", description="A PEM file with its private key; no password.")
    tls_ca: Path | None = Field(
        None,
        alias="security.ssl.internal.ca",
        description="A PEM file with the CAs to trust. Default: the system's. A master with one demands a certificate of each client.",
    )

    @field_validator("blob_port", mode="before")
    @classmethod
    def _check_blob_port(cls, value: object) -> object:
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if isinstance(text, str):
            parse_ports(text)
        return text

    @field_validator("blob_directory", mode="before")
    @classmethod
    def _read_blob_directory(cls, value: object) -> object:
        return str(value) if isinstance(value, Path) else value

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("security.ssl.internal.certificate and security.ssl.internal.key belong together: one of them is missing")
        return self
