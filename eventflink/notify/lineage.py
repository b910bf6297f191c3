"""The runs of jobs, and of their vertices, as run events of OpenLineage.

A run of a job begins with its submission and ends with its result; that of a vertex begins with its first deployment and is complete when
all its subtasks have finished. One whose output is lost and written again is complete again, under the same run. A job with streams says
from time to time how far these have read. The rule: the id of a run follows from the ids of cluster, job and vertex, and when something is
said from the times in the log, so the same log gives the same events.
"""

import importlib.metadata
import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from eventflink.audit.plain import plain
from eventflink.events import log_events as e
from eventflink.events.decision import Decision
from eventflink.events.wording import iso_time
from eventflink.leadership.fold import Fold
from eventflink.master.checkpoints import Checkpoint
from eventflink.master.execution_graph import ExecutionVertex
from eventflink.master.job_master import JobMaster
from eventflink.model.attempts import FailureCause, OutputLocation
from eventflink.model.job_graph import JobGraph, JobVertex
from eventflink.model.schedules import ScheduleTiming
from eventflink.model.secret_values import without_secrets
from eventflink.model.statuses import CheckpointStatus, ExecutionState, JobStatus, TaskType
from eventflink.notify.datasets import Dataset, DatasetNames, shown_place
from eventflink.notify.document import LineageSettings
from eventflink.notify.notification import Notification
from eventflink.views.job_document import shown
from eventflink.views.plain import sum_of_known

_SPECIFICATION: Final = "https://openlineage.io/spec"
_RUN_EVENT: Final = f"{_SPECIFICATION}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_PRODUCER: Final = f"urn:eventflink:{importlib.metadata.version('eventflink')}"
_VERSIONS: Final = {
    "DocumentationJobFacet": "1-1-0",
    "ErrorMessageRunFacet": "1-0-1",
    "JobTypeJobFacet": "2-0-4",
    "NominalTimeRunFacet": "1-0-1",
    "OutputStatisticsOutputDatasetFacet": "1-0-2",
    "OwnershipJobFacet": "1-0-1",
    "ParentRunFacet": "1-2-0",
    "SQLJobFacet": "1-1-0",
    "TagsJobFacet": "1-0-0",
}
"""Of the published facets that are sent; those whose names begin with `eventflink` are our own."""

_ENDS: Final = {JobStatus.FINISHED: "COMPLETE", JobStatus.FAILED: "FAIL", JobStatus.CANCELED: "ABORT"}
_MOST_PLACES: Final = 16
"""Directories of one output that an event names."""

Facets = dict[str, dict[str, Any]]


class Lineage:
    """Makes run events of decisions."""

    def __init__(self, settings: LineageSettings, cluster_id: str, bootstrap: str) -> None:
        self._settings = settings
        self._cluster_id = cluster_id
        self._namespace = settings.namespace or f"eventflink://{cluster_id}"
        self._names = DatasetNames(cluster_id, bootstrap)

    def run_id(self, job_id: str, vertex_id: str = "") -> str:
        """Return the id of the run of a job, or of one of its vertices."""
        parts = [self._cluster_id, job_id, *([vertex_id] if vertex_id else [])]
        return str(uuid.uuid5(uuid.NAMESPACE_URL, "eventflink:" + json.dumps(parts)))

    def follow(self, offset: int, decision: Decision, fold: Fold) -> list[Notification]:
        """Return the run events of an accepted decision, which `fold` has applied."""
        told = []
        for job_id, event, vertex_id in self._events(decision, fold):
            key = "/".join([self._cluster_id, str(offset), job_id, *([vertex_id] if vertex_id else []), event["eventType"]])
            event["run"]["facets"]["eventflinkRun"]["key"] = key
            event["run"]["facets"]["eventflinkRun"]["log_offset"] = offset
            text = f"{event['eventType']} {event['job']['name']} ({job_id})"
            told.append(Notification(key, offset, tuple(self._settings.receivers), job_id, text, event))
        return told

    def _events(self, decision: Decision, fold: Fold) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Yield events with their jobs and vertices (empty: of the job itself)."""
        at_ms, jobs = decision.decided_at_ms, fold.master.dispatcher.jobs
        for event in decision.events:
            if isinstance(event, e.JobSubmitted) and (job := jobs.get(event.job_id)) is not None:
                yield event.job_id, self._of_job(job, "START", at_ms, _timing_of(job, fold), _claimed(decision, event)), ""
        yield from self._of_vertices(decision, fold)
        for event in decision.events:
            if isinstance(event, e.CheckpointCompleted) and (job := jobs.get(event.job_id)) is not None:
                yield from self._running(job, at_ms, fold)
            if isinstance(event, e.JobResultStored) and (job := jobs.get(event.job_id)) is not None:
                if self._settings.vertices:
                    yield from self._ends_of_vertices(job, at_ms)
                yield event.job_id, self._of_job(job, _ENDS[event.status], at_ms, _timing_of(job, fold), cause=event.cause), ""

    def _of_vertices(self, decision: Decision, fold: Fold) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Yield events of the vertices that are complete with a decision, then of those that have begun."""
        for how, runs in (("COMPLETE", _finished(decision, fold)), ("START", _begun(decision, fold))):
            for job_id, vertex_id in runs if self._settings.vertices else ():
                yield job_id, self._of_vertex(fold.master.dispatcher.jobs[job_id], vertex_id, how, decision.decided_at_ms), vertex_id

    def _is_due(self, job: JobMaster) -> bool:
        """Tell whether the checkpoint that has just completed is the first of its job in a span of time; all jobs have the same spans."""
        checkpoints = job.checkpoints.history if job.checkpoints is not None else []
        ends_ms = [job.submitted_at_ms, *(_end_of(each) for each in checkpoints if each.status is CheckpointStatus.COMPLETED)]
        before, newest = (at_ms // self._settings.running_every for at_ms in ends_ms[-2:])
        return before < newest

    def _running(self, job: JobMaster, at_ms: int, fold: Fold) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Yield events of a job with streams, and of these, which say how far they have read; nothing as long as none is due."""
        if not self._is_due(job):
            return
        yield job.job_id, self._of_job(job, "RUNNING", at_ms, _timing_of(job, fold)), ""
        for vertex_id, vertex in job.execution_graph.vertices.items():
            if self._settings.vertices and vertex.vertex.stream is not None:
                yield job.job_id, self._of_vertex(job, vertex_id, "RUNNING", at_ms), vertex_id

    def _ends_of_vertices(self, job: JobMaster, at_ms: int) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Yield events of the vertices of a job that has ended which have begun, and are not complete."""
        for vertex_id, vertex in job.execution_graph.vertices.items():
            if vertex.unfinished_subtasks and _was_deployed(vertex):
                cause = _failure_of(vertex)
                how = "FAIL" if cause is not None and job.status is JobStatus.FAILED else "ABORT"
                yield job.job_id, self._of_vertex(job, vertex_id, how, at_ms, cause), vertex_id

    def _of_job(
        self,
        job: JobMaster,
        how: str,
        at_ms: int,
        timing: ScheduleTiming | None,
        claimed: Facets | None = None,
        cause: FailureCause | None = None,
    ) -> dict[str, Any]:
        graph = job.execution_graph.graph
        inputs: dict[Dataset, Facets] = {}
        outputs: dict[Dataset, Facets] = {}
        for vertex in graph.vertices:
            inputs |= self._read_by(job, vertex)
            outputs |= {dataset: {} for dataset in self._names.outer_outputs(graph, vertex)}
        if timing is not None and timing.records is not None:
            inputs[self._names.topic(timing.records.name)] = claimed or {}
        if timing is not None and timing.versions is not None:
            inputs[self._names.table(timing.versions)] = claimed or {}
        facets = {**_job_facets(job, graph), "jobType": _job_type("JOB", any(v.stream is not None for v in graph.vertices))}
        return self._event(how, at_ms, self.run_id(job.job_id), _run_facets(job, cause), graph.name, facets, inputs, outputs)

    def _of_vertex(self, job: JobMaster, vertex_id: str, how: str, at_ms: int, cause: FailureCause | None = None) -> dict[str, Any]:
        graph, execution_vertex = job.execution_graph.graph, job.execution_graph.vertices[vertex_id]
        vertex = execution_vertex.vertex
        facets = {"jobType": _job_type("TASK", vertex.stream is not None)}
        if vertex.task_type is TaskType.SQL:
            facets["sql"] = _facet("SQLJobFacet", query=shown(vertex.task, "sql"), dialect="spark")
        whose = {"run": {"runId": self.run_id(job.job_id)}, "job": {"namespace": self._namespace, "name": graph.name}}
        run_facets = {**_run_facets(job, cause), "parent": _facet("ParentRunFacet", **whose, root=whose)}
        inputs: dict[Dataset, Facets] = {dataset: {} for dataset in self._names.inputs(graph, vertex)} | self._read_by(job, vertex)
        outputs = self._written_by(graph, execution_vertex, is_complete=how == "COMPLETE")
        name, run_id = f"{graph.name}.{vertex_id}", self.run_id(job.job_id, vertex_id)
        return self._event(how, at_ms, run_id, run_facets, name, facets, inputs, outputs)

    def _read_by(self, job: JobMaster, vertex: JobVertex) -> dict[Dataset, Facets]:
        """Return what a vertex reads from outside, with what its tasks have said of that: offsets of topics, and snapshots of tables."""
        said: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
        words = job.checkpoints.last_words if job.checkpoints is not None else {}
        for (vertex_id, _), word in words.items():
            for source in word.progress.sources if vertex_id == vertex.vertex_id else ():
                for topic, partitions in _offsets(source.end_offset).items():
                    said[source.name][topic] = said[source.name].get(topic, {}) | partitions
        executions = [subtask.execution for subtask in job.execution_graph.vertices[vertex.vertex_id].subtasks]
        read = [each for execution in executions if execution is not None and execution.io is not None for each in execution.io.snapshots]
        snapshots: dict[Dataset, set[int]] = defaultdict(set)
        found: dict[Dataset, Facets] = {}
        for name, dataset in self._names.outer_inputs(job.execution_graph.graph, vertex):
            snapshots[dataset] |= {each.snapshot_id for each in read if each.source == name and each.snapshot_id >= 0}
            ends = [{"partition": int(p), "end_offset": offset} for p, offset in sorted(said[name].get(dataset.name, {}).items())]
            found[dataset] = {"eventflinkOffsets": _own("offsets", partitions=ends)} if ends else {}
            if ids := [str(each) for each in sorted(snapshots[dataset])]:
                found[dataset]["eventflinkSnapshots"] = _own("snapshots", ids=ids)
        return found

    def _written_by(self, graph: JobGraph, vertex: ExecutionVertex, *, is_complete: bool) -> dict[Dataset, Facets]:
        """Return what a vertex writes; of one that is complete also how much, and where."""
        published = self._names.outputs(graph, vertex.vertex)
        outside = self._names.outer_outputs(graph, vertex.vertex)
        found: dict[Dataset, Facets] = {dataset: {} for dataset in (*outside, *published.values())}
        if not is_complete:
            return found
        parts: dict[str, list[OutputLocation]] = defaultdict(list)
        for subtask in vertex.subtasks:
            for output in subtask.outputs:
                parts[output.output].append(output)
        for name, dataset in published.items():
            if name in parts:
                found[dataset] = _statistics(
                    rowCount=sum_of_known(part.rows for part in parts[name]),
                    fileCount=sum_of_known(part.files for part in parts[name]),
                    size=sum_of_known(part.size_bytes for part in parts[name]),
                )
                places = [shown_place(part.location) for part in parts[name][:_MOST_PLACES]]
                found[dataset]["eventflinkPlaces"] = _own("places", locations=places)
        if len(outside) == 1 and not published:  # Else the counts are of several data sets together.
            ios = [subtask.execution.io for subtask in vertex.subtasks if subtask.execution is not None]
            rows, size = (sum_of_known(getattr(io, n) if io is not None else -1 for io in ios) for n in ("write_records", "write_bytes"))
            found[outside[0]] = _statistics(rowCount=rows, size=size)
        return found

    def _event(
        self,
        how: str,
        at_ms: int,
        run_id: str,
        run_facets: Facets,
        job_name: str,
        job_facets: Facets,
        inputs: Mapping[Dataset, Facets],
        outputs: Mapping[Dataset, Facets],
    ) -> dict[str, Any]:
        return {
            "eventType": how,
            "eventTime": iso_time(at_ms),
            "producer": _PRODUCER,
            "schemaURL": _RUN_EVENT,
            "run": {"runId": run_id, "facets": run_facets},
            "job": {"namespace": self._namespace, "name": job_name, "facets": job_facets},
            "inputs": [{**dataset._asdict(), "inputFacets": facets} for dataset, facets in inputs.items()],
            "outputs": [{**dataset._asdict(), "outputFacets": facets} for dataset, facets in outputs.items()],
        }


def _end_of(checkpoint: Checkpoint) -> int:
    return checkpoint.triggered_at_ms + checkpoint.duration_ms


def _facet(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a published facet."""
    return {"_producer": _PRODUCER, "_schemaURL": f"{_SPECIFICATION}/facets/{_VERSIONS[kind]}/{kind}.json#/$defs/{kind}", **fields}


def _own(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a facet of our own."""
    return {"_producer": _PRODUCER, "_schemaURL": f"urn:eventflink:facet:{kind}:1", **fields}


def _job_type(kind: str, is_stream: bool) -> dict[str, Any]:  # noqa: FBT001 - it is the second half of the type
    return _facet("JobTypeJobFacet", processingType="STREAMING" if is_stream else "BATCH", integration="EVENTFLINK", jobType=kind)


def _statistics(**counts: int | None) -> Facets:
    known = {name: count for name, count in counts.items() if count is not None}
    return {"outputStatistics": _facet("OutputStatisticsOutputDatasetFacet", **known)} if known else {}


def _run_facets(job: JobMaster, cause: FailureCause | None) -> Facets:
    facets: Facets = {"eventflinkRun": _own("run", job_id=job.job_id, actor=job.actor)}
    if job.rerun_of:
        facets["eventflinkRun"]["rerun_of"] = job.rerun_of
    if job.scheduled is not None:
        facets["nominalTime"] = _facet("NominalTimeRunFacet", nominalStartTime=iso_time(job.scheduled.instant_ms))
        facets["eventflinkRun"]["after_job_id"] = job.scheduled.after_job_id
    if cause is not None:
        said = {"message": f"{cause.failure_type}: {cause.message}"} | ({"stackTrace": cause.stack_trace} if cause.stack_trace else {})
        shown_said = {name: without_secrets("", text) for name, text in said.items()}
        facets["errorMessage"] = _facet("ErrorMessageRunFacet", programmingLanguage="PYTHON", **shown_said)
    return facets


def _job_facets(job: JobMaster, graph: JobGraph) -> Facets:
    own: dict[str, Any] = {"graph_digest": job.graph_digest}
    if job.scheduled is not None:
        own |= {"schedule_id": job.scheduled.schedule_id, "schedule_version": job.scheduled.version}
    facets: Facets = {"eventflinkJob": _own("job", **own)}
    about = graph.about
    if about is not None and about.description:
        facets["documentation"] = _facet("DocumentationJobFacet", description=about.description, contentType="text/plain")
    if about is not None and about.owner:
        facets["ownership"] = _facet("OwnershipJobFacet", owners=[{"name": about.owner, "type": "OWNER"}])
    if about is not None and about.labels:
        labels = [{"key": label.name, "value": label.value, "source": "EVENTFLINK"} for label in about.labels]
        facets["tags"] = _facet("TagsJobFacet", tags=labels)
    return facets


def _offsets(text: str) -> dict[str, dict[str, int]]:
    """Return the offsets that Spark writes of a source of Kafka, by topic and partition; of other sources none."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {topic: places for topic, places in found.items() if isinstance(places, dict) and all(map(str.isdecimal, places))}


def _timing_of(job: JobMaster, fold: Fold) -> ScheduleTiming | None:
    """Return when the schedule of a job fires; None: it has none, or that is gone."""
    schedule = fold.master.schedules.schedules.get(job.scheduled.schedule_id) if job.scheduled is not None else None
    return schedule.definition.timing if schedule is not None else None


def _claimed(decision: Decision, submitted: e.JobSubmitted) -> Facets:
    """Return which records, or which versions of a table, the decision that starts a job takes for it."""
    of = submitted.scheduled
    for claim in decision.events:
        if isinstance(claim, e.RecordsClaimed | e.VersionsClaimed) and of is not None:
            if (claim.schedule_id, claim.instant_ms) != (of.schedule_id, of.instant_ms):
                continue
            if isinstance(claim, e.RecordsClaimed):
                return {"eventflinkOffsets": _own("offsets", partitions=plain(claim.ranges))}
            versions = _own("versions", after=plain(claim.versions.after), last=plain(claim.versions.last))
            return {"eventflinkVersions": versions}
    return {}


def _begun(decision: Decision, fold: Fold) -> Iterable[tuple[str, str]]:
    """Return the vertices of which no attempt was deployed before this decision."""
    deployed: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
    for event in decision.events:
        if isinstance(event, e.TaskDeployed):
            deployed[event.job_id, event.vertex_id].add((event.subtask_index, event.attempt))
    jobs = fold.master.dispatcher.jobs
    return [
        key for key, now in deployed.items() if key[0] in jobs and not _was_deployed(jobs[key[0]].execution_graph.vertices[key[1]], now)
    ]


def _finished(decision: Decision, fold: Fold) -> Iterable[tuple[str, str]]:
    """Return the vertices that this decision completes."""
    ended = dict.fromkeys((event.job_id, event.vertex_id) for event in decision.events if isinstance(event, e.TaskFinished))
    jobs = fold.master.dispatcher.jobs
    return [key for key in ended if key[0] in jobs and not jobs[key[0]].execution_graph.vertices[key[1]].unfinished_subtasks]


def _was_deployed(vertex: ExecutionVertex, but: Iterable[tuple[int, int]] = ()) -> bool:
    """Tell whether an attempt of a vertex was ever deployed for this job, but for those."""
    executions = ((s.subtask_index, execution) for s in vertex.subtasks for execution in s.executions)
    retired = ((index, execution) for index, gone in vertex.retired_executions.items() for execution in gone)
    return any(
        execution.deployed_at_ms and not execution.reused_from and (index, execution.attempt) not in but
        for index, execution in (*executions, *retired)
    )


def _failure_of(vertex: ExecutionVertex) -> FailureCause | None:
    """Return why a vertex failed; None: none of its subtasks did last."""
    return next((s.last_failure for s in vertex.subtasks if s.state is ExecutionState.FAILED and s.last_failure is not None), None)
