"""How a test's cluster is: how many processes, with which configuration. Nothing is started here, and nothing of Kafka is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PATIENCE: Final = {"heartbeat.missed-beats": "120", "taskmanager.self-fence-timeout": "100000"}
"""A TaskExecutor that dies is told by its guardian at once; one that is only slow, on a machine full of tests, is left alone."""


@dataclass(frozen=True)
class MiniClusterSettings:
    """What the fixture `eventflink_settings` returns."""

    masters: int = 1
    """One leads, the others stand by; without a standby a crashed leader is started again and replays the log."""
    task_executors: int = 1
    slots: int = 4
    """Of each TaskExecutor."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Any key of docs/generated/configuration.md, such as `restart-strategy.type`."""

    def __post_init__(self) -> None:
        for name, least in (("masters", 1), ("task_executors", 0), ("slots", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}, and at least {least} is needed")

    def overrides(self, bootstrap: str, cluster_id: str, data_directory: str) -> dict[str, str]:
        """Return the configuration of every process of such a cluster."""
        return {
            **PATIENCE,
            "taskmanager.numberOfTaskSlots": str(self.slots),
            **self.configuration,
            "bootstrap.servers": bootstrap,
            "cluster.id": cluster_id,
            "data.directory": data_directory,
        }
