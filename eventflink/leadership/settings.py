"""What a master's leadership takes from the configuration."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantSettings:
    """Who the master is, and its times and bounds; durations in milliseconds."""

    master_id: str
    incarnation: str
    blob_address: str
    query_address: str = ""
    lease_timeout_ms: int = 1000
    leader_heartbeat_interval_ms: int = 100
    window_size: int = 1024
    resend_interval_ms: int = 10_000
    heartbeat_interval_ms: int = 1000
    loss_timeout_ms: int = 5000
