"""The page of what jobs read and write: each place with its writers and its readers, as of their newest runs.

Streams say in their graphs which topics and directories they read and write; of a batch job the results and the sinks are known, and
nothing of what its SQL names besides. Jobs of one name are runs of one job.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from eventflink.documents.catalogue import CataloguePage, CataloguePlace, UseOfPlace
from eventflink.leadership.fold import Fold
from eventflink.master.execution_graph import ExecutionVertex
from eventflink.master.job_master import JobMaster
from eventflink.model.job_graph import DEFAULT_OUTPUT, StreamSink, StreamSource
from eventflink.model.statuses import StreamConnector
from eventflink.views.checkpoints import output_view
from eventflink.views.plain import iso_time, sum_of_known

RESULT: Final = "RESULT"
"""What is written in place of a connector where a batch job keeps an output."""

MAX_USES: Final = 20
"""How many writers of a place, and how many readers, are shown."""

_NOT_A_PLACE: Final = (StreamConnector.RATE, StreamConnector.EDGE)
"""Rows that are made up, and those that stay within a job."""

Key = tuple[str, str, str]
"""Of a place: connector, location, and the address of the Kafka, where the graph names one."""

Use = tuple[str, str]
"""The name of a job, and a vertex of it."""

Written = tuple[int | None, str | None]
"""How many rows a use has written, and when the last of them came; None: it reads, or that is unknown."""


@dataclass(slots=True)
class _Uses:
    """Who writes a place, or reads it, the newest last."""

    newest: dict[Use, tuple[JobMaster, Written]] = field(default_factory=dict)
    runs: dict[Use, set[str]] = field(default_factory=dict)

    def add(self, job: JobMaster, vertex_id: str, written: Written) -> None:
        """Count a job; those that were submitted later come later."""
        use = job.execution_graph.graph.name, vertex_id
        self.runs.setdefault(use, set()).add(job.job_id)
        self.newest.pop(use, None)
        self.newest[use] = job, written

    def rows(self) -> list[UseOfPlace]:
        """Return the newest of them."""
        return [
            UseOfPlace(
                job_id=job.job_id, name=use[0], vertex_id=use[1], status=job.status, runs=len(self.runs[use]), rows_written=rows, at=at
            )
            for use, (job, (rows, at)) in islice(reversed(self.newest.items()), MAX_USES)
        ]

    def mention(self, text: str) -> bool:
        """Tell whether one of them has this in its name, its vertex or its id; `text` is in lower case."""
        return any(text in each.lower() for use, (job, _) in self.newest.items() for each in (*use, job.job_id))


def catalogue_page(fold: Fold, name: str, first: int, limit: int) -> CataloguePage:
    """Return the places from the `first`-th on, by connector and location, and how many there are.

    `name`: a part of the location, or of the name or the id of a job or of a vertex that uses it, in any case.
    """
    writers: dict[Key, _Uses] = {}
    readers: dict[Key, _Uses] = {}
    for job in fold.master.dispatcher.jobs.values():
        read = {(edge.source, edge.output) for edge in job.execution_graph.graph.edges}
        for vertex_id, vertex in job.execution_graph.vertices.items():
            for place, written in _reads(job, vertex):
                readers.setdefault(place, _Uses()).add(job, vertex_id, written)
            for place, written in _writes(job, vertex, read):
                writers.setdefault(place, _Uses()).add(job, vertex_id, written)
    wanted, nobody = name.lower(), _Uses()
    places = [
        (place, writers.get(place, nobody), readers.get(place, nobody))
        for place in sorted(writers.keys() | readers.keys())
        if wanted in place[1].lower() or writers.get(place, nobody).mention(wanted) or readers.get(place, nobody).mention(wanted)
    ]
    return CataloguePage(
        total=len(places),
        places=[
            CataloguePlace(
                connector=connector,
                location=location,
                bootstrap_servers=bootstrap or None,
                written_by=written_by.rows(),
                written_by_total=len(written_by.newest),
                read_by=read_by.rows(),
                read_by_total=len(read_by.newest),
            )
            for (connector, location, bootstrap), written_by, read_by in places[first : first + limit]
        ],
    )


def _place_of(job: JobMaster, end: StreamSource | StreamSink) -> Key:
    """Return the place; a function is one of the job's own code, whatever functions of other jobs are called."""
    location = f"{job.execution_graph.graph.name}/{end.location}" if end.connector is StreamConnector.PYTHON else end.location
    return end.connector, location, json.loads(end.options_json).get("bootstrap_servers", "")


def _reads(job: JobMaster, vertex: ExecutionVertex) -> Iterator[tuple[Key, Written]]:
    for source in vertex.vertex.stream.sources if vertex.vertex.stream is not None else vertex.vertex.sources:
        if source.connector not in _NOT_A_PLACE:
            yield _place_of(job, source), (None, None)


def _writes(job: JobMaster, vertex: ExecutionVertex, read: Collection[tuple[str, str]]) -> Iterator[tuple[Key, Written]]:
    """Yield the places that a vertex writes; `read` are the outputs that edges read, which are removed with their job."""
    stream, vertex_id = vertex.vertex.stream, vertex.vertex.vertex_id
    for sink in stream.sinks if stream is not None else ():
        if sink.connector not in _NOT_A_PLACE:
            yield _place_of(job, sink), _written_by_stream(job, vertex, sink.name)
    if vertex.vertex.sink is not None:
        yield _place_of(job, vertex.vertex.sink), _written_by_batch(vertex)
    outputs = dict.fromkeys(output.output for subtask in vertex.subtasks for output in subtask.outputs)
    for name in outputs:
        if (vertex_id, name) in read:
            continue
        location = f"{job.execution_graph.graph.name}/{vertex_id}" + (f".{name}" if name != DEFAULT_OUTPUT else "")
        rows = sum_of_known(output.rows for subtask in vertex.subtasks for output in subtask.outputs if output.output == name)
        yield (RESULT, location, ""), (rows, iso_time(job.ended_at_ms))


def _written_by_batch(vertex: ExecutionVertex) -> Written:
    """Return what the newest attempts have written to the sink, once all have ended: rows, where they left no outputs besides."""
    executions = [subtask.execution for subtask in vertex.subtasks if subtask.execution is not None and subtask.execution.io is not None]
    if len(executions) < vertex.parallelism:
        return None, None
    is_alone = not any(subtask.outputs for subtask in vertex.subtasks)
    rows = sum_of_known(each.io.write_records for each in executions if each.io is not None) if is_alone else None
    return rows, iso_time(max(each.ended_at_ms for each in executions))


def _written_by_stream(job: JobMaster, vertex: ExecutionVertex, name: str) -> Written:
    """Return what the newest attempts have written to an output, as of when they were asked last."""
    words = job.checkpoints.last_words if job.checkpoints is not None else {}
    answers = [words.get((vertex.vertex.vertex_id, index)) for index in range(vertex.parallelism)]
    outputs = [output_view(each) for answer in answers if answer is not None for each in answer.progress.outputs if each.name == name]
    known = len(outputs) == vertex.parallelism
    rows = sum_of_known(output.rows_written for output in outputs) if known else None
    return rows, max((output.written_at for output in outputs if output.written_at), default=None)
