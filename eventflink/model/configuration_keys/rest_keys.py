"""Keys of the REST process."""

from pydantic import Field, field_validator

from eventflink.model.configuration_keys.keys import Keys
from eventflink.model.metric_settings import read_ports

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class RestKeys(Keys):
    """Keys of the REST process."""

    rest_bind_address: str = Field(
        "127.0.0.1",
        alias="rest.bind-address",
        description="The interface where `rest` listens: of this machine alone, one of its loopback.",
    )
    rest_ports: str = Field(
        "8081-8099",
        alias="rest.bind-port",
        description="Where it listens: a port, a range of which it takes the first free one, or 0 for any.",
    )

    @field_validator("rest_bind_address")
    @classmethod
    def _check_rest_address(cls, value: str) -> str:
        if value not in LOOPBACK:
            raise ValueError(f"only {', '.join(sorted(LOOPBACK))}: whoever reaches it commands the cluster, and it knows no passwords yet")
        return value

    @field_validator("rest_ports", mode="before")
    @classmethod
    def _read_rest_ports(cls, value: object) -> object:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value  # YAML reads a single port as a number.

    @field_validator("rest_ports")
    @classmethod
    def _check_rest_ports(cls, value: str) -> str:
        if not read_ports(value):
            raise ValueError("it names no port; 0 means any free one")
        return value
