"""How finding a cluster fails: by what was said, by this machine, or since no Kafka is there.

The command line gives each kind an exit code (`cli/exit_codes.py`), a client raises `ClusterNotNamed`.
"""


class SessionError(Exception):
    """The cluster that is meant cannot be worked with; the message says why and what to do."""


class SessionInvalid(SessionError):
    """A context, a file or a secret that was named is missing or wrong; nothing was asked of the cluster."""


class SecretNotWritten(SessionError):
    """The disk does not take the file of the cluster secret."""


class KafkaNotFound(SessionError):
    """Nothing says where Kafka is, or it takes no connection with the configured settings."""
