"""What archives alone tell of runs: each job that has one is a run of its name, as it ended.

Pages are made of that as a REST process makes them of its state (`rest/own/runs.py`). The rule: no archive is read for a page, since what
is shown of a run stands in memory (`reader/archives/index.py`).
"""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import Request

from eventflink.documents.runs import RunOfJob
from eventflink.reader.archives.index import Known
from eventflink.rest.archived.reads import ArchiveReader
from eventflink.rest.errors import RestError
from eventflink.rest.own.moments import Moment
from eventflink.views.runs import KnownRuns

NO_OFFSET: Final = -1
"""Of no log."""


class RunsOfArchives:
    """The runs that archives tell of, for one request: of all clusters, or of one."""

    def __init__(self, reader: ArchiveReader, cluster: str | None, at: str | None) -> None:
        """Take of which cluster a request is about; raises `RestError` 400 where it asks for a moment, which is one of a job's life."""
        if at is not None:
            raise RestError(HTTPStatus.BAD_REQUEST, f"invalid at: '{at}': archives show runs as they ended, and one job at a moment")
        self._reader = reader
        self._cluster_id = cluster

    async def told(self, name: str | None, _first: int = 0, _limit: int = 0) -> tuple[Moment[KnownRuns], Sequence[RunOfJob]]:
        """Return the runs of a name (None: of all) as if they were in memory, and none beside them."""
        body = await asyncio.to_thread(_known_runs, self._reader.index.known, name, self._cluster_id)
        return Moment(offset=NO_OFFSET, decided_at=None, epoch=0, leader_id="", master_id="", live=True, body=body), ()


def archived_runs(request: Request, _response: Any, _min_offset: int, at: str | None, _if_none_match: str) -> RunsOfArchives:
    """Return what a request may be told of runs."""
    return RunsOfArchives(request.app.state.reader, request.query_params.get("cluster"), at)


def _known_runs(known: Known, name: str | None, cluster_id: str | None) -> KnownRuns:
    jobs = [job for job in known.answered_for(cluster_id) if (job.run.name == name if name is not None else job.run.name)]
    return KnownRuns(
        runs=tuple(sorted(job.known for job in jobs)),  # By when they were submitted, and by their ids, which are all different.
        rows={job.job_id: job.run for job in jobs},
        left=(),
        left_total=sum(cluster_id is None or archive.startswith(f"{cluster_id}/") for _, archive in known.skipped),
    )
