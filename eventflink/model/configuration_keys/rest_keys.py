"""Keys of the REST process, of who may ask it, and of its TLS."""

from pathlib import Path
from typing import Final, Self

from pydantic import Field, field_validator, model_validator

from eventflink.model.configuration_keys.keys import FACTORY_PATTERN, Keys
from eventflink.model.loopback import LOOPBACK
from eventflink.model.metric_settings import read_ports

_WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - refused unless it is protected
_USUAL_PORTS: Final = "8081-8099"


class RestKeys(Keys):
    """Keys of the REST process, of who may ask it, and of its TLS."""

    rest_address: str = Field(
        "",
        alias="rest.address",
        description="Under which names, besides this machine's loopback, `rest` is asked: several with commas; its URL has the first.",
    )
    rest_port: int = Field(
        0,
        alias="rest.port",
        ge=0,
        le=65_535,
        description="Where commands ask `rest`, at the first name of rest.address; 0: they ask the one that runs on this machine, if any. "
        "It listens there as well, unless rest.bind-port is set.",
    )
    rest_bind_address: str = Field(
        "127.0.0.1",
        alias="rest.bind-address",
        description="The interface where `rest` listens; others than the loopback only with security.ssl.rest.enabled and with tokens.",
    )
    rest_ports: str = Field(
        "",
        alias="rest.bind-port",
        description="Where it listens: a port, a range of which it takes the first free one, or 0 for any. "
        f"Default: rest.port, or {_USUAL_PORTS} where that is 0.",
    )
    rest_tokens_file: Path | None = Field(
        None,
        alias="rest.tokens-file",
        description="Who may ask: a line each with name, role and SHA-256 of the token, as `eventflink rest-token` writes it. "
        "Default: anybody on this machine.",
    )
    rest_token_provider: str = Field(
        "", alias="rest.token-provider", description="What tells whose a token is, in the place of a file: module:Provider."
    )
    rest_requests_per_second: int = Field(
        100,
        alias="rest.requests-per-second",
        ge=1,
        le=100_000,
        description="How many requests a second one identity may send on average, and twice as many at once; only where there are tokens.",
    )
    rest_max_upload_bytes: int = Field(
        100 * 1024 * 1024,
        alias="rest.server.max-content-length",
        ge=1024 * 1024,
        le=1024 * 1024 * 1024,
        description="The longest body of a request that uploads files, in bytes; every other one has at most 1 MiB.",
    )
    web_submit_enabled: bool = Field(
        True,  # noqa: FBT003 - a default, not an argument
        alias="web.submit.enable",
        description="Whether `rest` takes job bundles at /jars and runs them, and Flink's dashboard offers that.",
    )
    web_upload_directory: Path | None = Field(
        None,
        alias="web.upload.dir",
        description="Where `rest` keeps them, below a folder named by cluster.id; several processes may share it. "
        "Default: a temporary directory that ends with the process.",
    )
    rest_tls_enabled: bool = Field(
        False,  # noqa: FBT003 - a default, not an argument
        alias="security.ssl.rest.enabled",
        description="Whether `rest` speaks TLS.",
    )
    rest_tls_certificate: Path | None = Field(
        None, alias="security.ssl.rest.certificate", description="A PEM file with the certificate of `rest` and what leads to its CA."
    )
    rest_tls_key: Path | None = Field(None, alias="security.ssl.rest.key", description="A PEM file with its private key; no password.")
    rest_tls_ca: Path | None = Field(
        None, alias="security.ssl.rest.ca", description="A PEM file with the CAs to trust. Default: the system's."
    )
    rest_tls_authentication: bool = Field(
        False,  # noqa: FBT003 - a default, not an argument
        alias="security.ssl.rest.authentication-enabled",
        description="Whether `rest` demands a certificate of each client, signed by one of security.ssl.rest.ca, besides its token.",
    )

    @property
    def rest_names(self) -> tuple[str, ...]:
        """The names in `rest.address`, the first one first."""
        return tuple(name.strip() for name in self.rest_address.split(",") if name.strip())

    @property
    def rest_listen_ports(self) -> str:
        """Where `rest` listens: as in Flink, where commands ask it, unless another port is named."""
        return self.rest_ports or str(self.rest_port or _USUAL_PORTS)

    @property
    def rest_needs_tokens(self) -> bool:
        """Whether tokens are configured."""
        return self.rest_tokens_file is not None or bool(self.rest_token_provider)

    @field_validator("rest_ports", mode="before")
    @classmethod
    def _read_rest_ports(cls, value: object) -> object:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value  # YAML reads a single port as a number.

    @field_validator("rest_ports")
    @classmethod
    def _check_rest_ports(cls, value: str) -> str:
        if value and not read_ports(value):
            raise ValueError("it has no port: give a port or a range; 0 means any free port")
        return value

    @field_validator("rest_token_provider")
    @classmethod
    def _check_token_provider(cls, value: str) -> str:
        if value and not FACTORY_PATTERN.fullmatch(value):
            raise ValueError(f"invalid provider: '{value}'; give package.module:Provider")
        return value

    @model_validator(mode="after")
    def _check_rest_access(self) -> Self:
        """Nobody else's machine reaches a process that asks nobody who they are, or that is overheard."""
        if self.rest_tokens_file is not None and self.rest_token_provider:
            raise ValueError("rest.tokens-file and rest.token-provider exclude each other: set one of them")
        if (self.rest_tls_certificate is None) != (self.rest_tls_key is None):
            raise ValueError("security.ssl.rest.certificate and security.ssl.rest.key belong together: one of them is missing")
        if self.rest_tls_authentication and self.rest_tls_ca is None:
            raise ValueError(
                "security.ssl.rest.authentication-enabled needs security.ssl.rest.ca, the authority whose certificates it takes"
            )
        self.check_reach("rest.bind-address", self.rest_bind_address, "commands the cluster")
        return self

    def check_reach(self, key: str, address: str, right: str) -> None:
        """Check that an address off this machine's loopback is protected; `right` is what whoever reaches it does.

        Raises:
            ValueError: it is not, or it does not say under which name it is asked.

        """
        if address in LOOPBACK:
            return
        if not self.rest_tls_enabled or not self.rest_needs_tokens:
            raise ValueError(
                f"{key}: whoever reaches {address} {right}, so it needs security.ssl.rest.enabled, "
                f"and rest.tokens-file or rest.token-provider; without them only {', '.join(sorted(LOOPBACK))}"
            )
        if address in _WILDCARDS and not self.rest_names:
            raise ValueError(f"{key}: {address} is not a host name: set rest.address to the names that clients use")
