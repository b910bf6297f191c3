"""Removing the intermediate data of ended jobs, in a thread, its outcome handed back as an input.

Only what lies below the job's own folder in the cluster's is touched, and of that everything but the results; and the topics of the job's
pipelined edges. Links are not followed (`processes/beneath.py`). Doing it twice is harmless.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from eventflink.jobs.published import place_at
from eventflink.jobs.stored_files import StoreFailed, remove_folder
from eventflink.log.admin_connection import AdministrationError
from eventflink.master.effects import CleanUp
from eventflink.master.inputs import CleanupFailed, CleanupsCompleted, MasterInput
from eventflink.model.job_graph_document import is_valid_job_id
from eventflink.model.places import Place
from eventflink.model.rehearsal import CLEAN_UP_NOTED

_logger = logging.getLogger(__name__)

BATCH: Final = 256

GATHERING_S: Final = 0.5
"""For so long what an ended job leaves to be done waits for that of others: each outcome is a decision, and nobody waits for it."""


def remove_intermediate_data(working_place: Place, job_id: str, kept: Iterable[str]) -> None:
    """Remove all of a job's folder but the directories in `kept`; what tasks have put there leads nowhere else (L5).

    Raises:
        OSError: something could not be removed.
        StoreFailed: the store refused, or did not answer.
        ValueError: the job id is not one, and would lead out of the working directory.

    """
    if not is_valid_job_id(job_id):
        raise ValueError(f"'{job_id}' is not a job id")
    remove_folder(working_place, job_id, [place_at(location) for location in kept])


class Cleaner:
    """Does the clean-ups of a term, one batch after the other."""

    def __init__(
        self, working_place: Place, on_outcome: Callable[[MasterInput], None], remove_edges: Callable[[str, tuple[str, ...]], None]
    ) -> None:
        """Hand outcomes to `on_outcome`, in the event loop's thread; `remove_edges` takes a job and its edges, in another one."""
        self._working_place = working_place
        self._remove_edges = remove_edges
        self._on_outcome = on_outcome
        self._waiting: dict[str, CleanUp] = {}
        self._under_way: set[str] = set()
        self._wake = asyncio.Event()

    def submit(self, clean_up: CleanUp) -> None:
        """Queue a clean-up that is not under way; the queue holds each dirty job once, so the state bounds it."""
        if clean_up.job_id in self._under_way:
            return  # It was sent again because its outcome is not known yet.
        self._waiting[clean_up.job_id] = clean_up
        self._wake.set()

    async def run(self) -> None:
        """Clean up until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(GATHERING_S)
            self._wake.clear()
            while self._waiting:
                batch = [self._waiting.pop(job_id) for job_id in list(self._waiting)[:BATCH]]
                self._under_way = {clean_up.job_id for clean_up in batch}
                done, failed = await asyncio.to_thread(self._clean, batch)
                self._under_way = set()
                if done:
                    self._on_outcome(CleanupsCompleted(tuple(done)))
                for failure in failed:
                    _logger.warning("CleanupFailed job=%s error=%s", failure.job_id, failure.message)
                    self._on_outcome(failure)

    def _clean(self, batch: list[CleanUp]) -> tuple[list[str], list[CleanupFailed]]:
        done, failed = [], []
        for clean_up in batch:
            try:
                remove_intermediate_data(self._working_place, clean_up.job_id, clean_up.kept)
                if clean_up.edges:
                    self._remove_edges(clean_up.job_id, clean_up.edges)
                done.append(clean_up.job_id)
            except (OSError, ValueError, StoreFailed, AdministrationError) as error:
                failed.append(CleanupFailed(clean_up.job_id, str(error)[:1024]))
        return done, failed


class NotingCleaner(Cleaner):
    """Only notes what it would clean up, and says that it is done: of a master that rehearses on a copy of another cluster's log."""

    def _clean(self, batch: list[CleanUp]) -> tuple[list[str], list[CleanupFailed]]:
        for clean_up in batch:
            _logger.info("%s job=%s kept=%d", CLEAN_UP_NOTED, clean_up.job_id, len(clean_up.kept))
        return [clean_up.job_id for clean_up in batch], []
