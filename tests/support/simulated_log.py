"""The log of a simulated run: leaders that die and rivals that write late, as a seed has it."""

from functools import cache
from random import Random

from eventflink.audit.entries import Record
from eventflink.events.topics import Topic
from tests.simulation.cluster import Cluster
from tests.simulation.faults import Faults
from tests.simulation.run import _run, draw_settings
from tests.simulation.variations import Resources


@cache
def simulated_log(seed: int) -> tuple[Record, ...]:
    """Return the records of a run, always the same ones for a seed."""
    rng = Random(seed)
    settings = draw_settings(rng, seed)
    cluster = Cluster(settings, rng, Resources(seed, settings.task_executors))
    _run(cluster, Faults(cluster, rng))
    records = cluster.broker.partition(Topic.LOG).records
    return tuple((record.offset, record.timestamp_ms, record.value or b"") for record in records)
