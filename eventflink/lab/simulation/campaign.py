"""Many runs: seeds shared out among worker processes, results in the order of the seeds."""

import gc
import logging
import multiprocessing
from collections.abc import Iterable, Iterator
from typing import Final

from eventflink.lab.simulation.run import RunResult, simulate

_SEEDS_AT_A_TIME: Final = 8
_GC_THRESHOLD: Final = 100_000
"""A run makes garbage cycles when its cluster is dropped, and few before: to look for them often is a waste."""


def simulate_many(seeds: Iterable[int], workers: int) -> Iterator[RunResult]:
    """Yield the result of each seed, in order; `workers` processes share the work, and one works without any."""
    if workers <= 1:
        _prepare()
        yield from map(simulate, seeds)
        return
    # Spawned, not forked: a worker has nothing of its parent but the seeds.
    with multiprocessing.get_context("spawn").Pool(workers, _prepare) as pool:
        yield from pool.imap(simulate, seeds, chunksize=_SEEDS_AT_A_TIME)


def _prepare() -> None:
    """Keep what the real code logs out of the way: a run has a transcript."""
    logging.disable(logging.CRITICAL)
    gc.set_threshold(_GC_THRESHOLD)
