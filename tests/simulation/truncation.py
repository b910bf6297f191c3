"""A topic that shrinks: when a run has come to rest, its broker loses the end of the log or of an inbound topic (P5a).

A third of the runs end so. Nobody may decide on what is left: every master has to end and name the loss, also one that is started after it
and knows of it only from what the others left behind. A loss of which nobody has told (P5a) is noticed by those who go on alone. Drawn from
random numbers of their own.
"""

from random import Random
from typing import Final

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import LeaderHeartbeat
from eventflink.events.topics import INBOUND, Topic
from eventflink.leadership.master_life import MAX_BACKOFF_MS, TRUNCATED_LOOKS
from eventflink.testing.simulation.scheduler import MILLISECOND
from eventflink.testing.simulation.violations import Invariant, ViolationFound
from tests.simulation.cluster import Cluster

_LEADERSHIP: Final = PayloadCodec("LeadershipEnvelope")
_SHARE: Final = 0.35
_LOG_SHARE: Final = 0.6
_MOST_LOST: Final = 12
_RESTART_MS: Final = 800
_NOTICED_WITHIN_MS: Final = (TRUNCATED_LOOKS + 1) * MAX_BACKOFF_MS
"""Each look may be behind the longest back-off: of a master that could not reach Kafka for long."""


def truncate(cluster: Cluster, lasting: str) -> None:
    """Lose records in some runs, and check that nobody goes on; `lasting` names a master whose connection is broken: it ends.

    Raises:
        ViolationFound: somebody decides on less than was known, or goes on waiting.

    """
    rng = Random(f"{cluster.settings.seed} truncation")
    if rng.random() >= _SHARE:
        return
    topic = Topic.LOG if rng.random() < _LOG_SHARE else rng.choice(INBOUND)
    partition, observer = cluster.broker.partition(topic), cluster.observer
    # A loss that takes the last grant along is known to those alone who have read it, or have a snapshot behind it.
    first_kept = observer.last_grant + 1 if topic is Topic.LOG else 0
    most = min(_MOST_LOST, partition.end_offset - max(first_kept, partition.low_offset + 1))
    if most < 1:
        return
    lost = 1 + int(rng.random() * most)
    end_offset = partition.end_offset - lost
    cluster.transcript.note("broker", f"loses the last {lost} records of {topic}, which ends at {end_offset} now")
    observer.has_lost = topic is Topic.LOG
    if topic is not Topic.LOG:  # What others write to it before anybody looks would hide the loss.
        _keep_away(cluster, topic)
    partition.truncate(end_offset)
    seats = [seat for seat in cluster.seats if seat.master_id != lasting]
    for broken in (seat.host for seat in cluster.seats if seat not in seats and seat.host is not None):
        broken.kill()
    # One that begins now knows what it was told. Without a secret, a bid behind the loss hides that (P5a).
    is_known = topic is not Topic.LOG or (bool(cluster.broker.seals.secrets) and _told(cluster) >= end_offset)
    if rng.random() < 0.5 and is_known:
        cluster.kill(rng.choice(seats), _RESTART_MS * rng.random())
    end_us = cluster.scheduler.now_us + _NOTICED_WITHIN_MS * MILLISECOND
    while not all(seat.host is not None and seat.host.has_refused for seat in seats) and cluster.scheduler.step(end_us):
        pass
    for seat in seats:
        if seat.host is None or not seat.host.has_refused:
            raise ViolationFound(Invariant.NOT_ON_LESS, f"{seat.master_id} has not ended, and {lost} records of {topic} are missing")


def _told(cluster: Cluster) -> int:
    """Return the last offset of the log that its leader has told the others: a process that begins now knows of no other."""
    acceptance = cluster.observer.fold.acceptance
    heartbeats = (_LEADERSHIP.decode(record.value or b"")[0] for record in cluster.broker.partition(Topic.LEADERSHIP).records)
    told = (each for each in heartbeats if isinstance(each, LeaderHeartbeat) and each.epoch == acceptance.epoch)
    return max((each.log_offset for each in told if each.leader_id == acceptance.leader_id), default=-1)


def _keep_away(cluster: Cluster, topic: Topic) -> None:
    """Let nobody write to a topic any more."""
    for link in [cluster.clients.link, *(seat.link for seat in cluster.seats), *(host.link for host in cluster.task_executors)]:
        link.cut((topic,), ())
