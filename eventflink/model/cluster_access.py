"""How this process reaches a cluster: its Kafka, its id, and the secret by which masters and TaskExecutors know each other's records (P3a).

It is made of the configuration (`session/cluster_session.py:ClusterSession.access`) and handed down from there, into child processes as
well. The rule: whoever connects is told how; nobody looks it up. It holds references in place of secrets, so it may be shown and passed on.
"""

import json
from dataclasses import asdict, dataclass, replace

from eventflink.model.kafka_settings import KafkaAccess, KafkaRole


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """What a client of one cluster is made of."""

    kafka: KafkaAccess
    cluster_id: str
    secret_reference: str = ""
    """To the file or variable with the cluster secret; empty: nothing is sealed, and everything is believed."""
    sealed_from_offset: int = 0
    """From which record on the log is sealed: before it, the cluster had no secret."""

    @property
    def bootstrap(self) -> str:
        """The Kafka cluster, as host:port."""
        return self.kafka.bootstrap

    def of_copy(self, cluster_id: str) -> "ClusterAccess":
        """Return how a copy of the cluster's log is reached, under an id of its own: it was sealed by the same secret."""
        return replace(self, cluster_id=cluster_id)

    def as_text(self) -> str:
        """Return it as an argument for a process that this one starts."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def of_text(cls, text: str) -> "ClusterAccess":
        """Return what another process was told by `as_text`."""
        told = json.loads(text)
        kafka = told.pop("kafka")
        return cls(KafkaAccess(kafka["bootstrap"], kafka["settings"], KafkaRole(kafka["role"])), **told)


def access_to(cluster: ClusterAccess | str, cluster_id: str = "") -> ClusterAccess:
    """Return how a cluster is reached: as is told, or the cluster of this id at these bootstrap servers, without settings or a secret.

    Raises:
        ValueError: no id was given.

    """
    if isinstance(cluster, ClusterAccess):
        return cluster
    if not cluster_id:
        raise ValueError(f"invalid cluster id: ''; the Kafka at {cluster} may have several clusters: say which one is meant")
    return ClusterAccess(KafkaAccess(cluster), cluster_id)
