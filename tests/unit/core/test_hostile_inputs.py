"""Input that is wrong is answered by that name and changes nothing else; the next good one works, and a replay agrees.

First a table of what each input of the topics can get wrong, then graphs at and beyond the bounds, then whole lives of clusters to which
everybody lies (`tests/support/liars.py`).
"""

import json
import typing
from collections.abc import Callable
from typing import Any

import pytest

from eventflink.events import inputs as c
from eventflink.events import log_events as e
from eventflink.events.topics import MAX_DECISION_BYTES, MAX_INBOUND_BYTES, Topic
from eventflink.master.canonical import digest_of
from eventflink.master.inputs import CleanupsCompleted
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import AttemptStatus
from eventflink.model.document_fields import MAX_NAME_LENGTH
from eventflink.model.job_graph import JobEdge, JobGraph, JobVertex, ParameterValue, RestartStrategy
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.job_parameters import MAX_VALUE_LENGTH
from eventflink.model.resources import ExtendedResource, Hardware, ResourceProfile
from eventflink.model.schedules import FollowedJob, ScheduleDefinition, ScheduleTiming
from eventflink.model.statuses import (
    ApplicationStatus,
    DrillStepType,
    ExecutionState,
    FailoverStrategy,
    JobStatus,
    RestartStrategyType,
    ShipStrategy,
    TaskFile,
    TaskManagerFile,
    TaskType,
)
from eventflink.model.stream_progress import StreamProgress
from tests.support.cluster import REPORTS, ScriptedCluster, deployments, fixed_delay, graph, reports_of, vertex
from tests.support.liars import ODD_TEXTS, Liar

INT_MAX, INT_MIN, LONG_MAX, LONG_MIN = 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)
FINISHED, RUNNING = ExecutionState.FINISHED, ExecutionState.RUNNING


def populated() -> ScriptedCluster:
    """Return a cluster with a job that runs on tm1, one that waits for slots, one that finished, and an instance that is gone."""
    cluster = ScriptedCluster(MasterSettings(job_store_capacity=1))
    cluster.register("gone")
    cluster.say(c.TaskManagerDeath("gone", "gone-1", "exit code 137"))
    cluster.register("tm1", slots=2)
    for job_id in ("evicted", "done"):
        document = graph(vertex("a"), parameters={"run": {"type": "boolean", "value": True}})
        cluster.run(cluster.submit(document, job_id=job_id))
        cluster.timer(CleanupsCompleted((job_id,)))
    cluster.pass_time(1)
    first, second = deployments(cluster.submit(graph(vertex("a", 2), restart_strategy=fixed_delay(3)), job_id="running"))
    cluster.report(first, RUNNING)
    cluster.say(*reports_of(second, ExecutionState.INITIALIZING))
    cluster.submit(graph(vertex("a", 2)), job_id="waiting")
    cluster.register("tm2", slots=1, profile=ResourceProfile(1))
    assert cluster.job("running").status is JobStatus.RUNNING
    assert set(cluster.master.dispatcher.forgotten) == {"evicted"}
    return cluster


@pytest.fixture(scope="module")
def shared() -> ScriptedCluster:
    """The populated cluster: what is refused leaves it as it was, so that all rows can share it."""
    return populated()


def digest_but_for_answers(cluster: ScriptedCluster) -> str:
    """Return a digest of everything but what is remembered of requests."""
    master = cluster.master
    return digest_of({name: part for name, part in master.components().items() if name != "requests"})


def allocation_of(cluster: ScriptedCluster, index: int) -> str:
    return cluster.job("running").execution_graph.vertices["a"].subtasks[index].allocation_id


def state_report(attempt: tuple[str, str, int, int], state: ExecutionState, instance: str = "tm1-1") -> c.TaskStateReport:
    return c.TaskStateReport(instance.rpartition("-")[0], instance, *attempt, execution_state=state)


OF_SCHEDULES = (c.DeleteSchedule, c.PauseSchedule, c.ResumeSchedule, c.CancelBackfill)


def put_schedule(schedule_id: str = "nightly", **timing: Any) -> c.PutSchedule:
    job = parse_job_graph(graph(vertex("a")), "test")
    return c.PutSchedule(schedule_id=schedule_id, definition=ScheduleDefinition(timing=ScheduleTiming(**timing), job_graph=job))


def own_file(task_manager_id: str = "tm1", file: TaskManagerFile = TaskManagerFile.LOG, **more: Any) -> c.RequestTaskManagerFileUpload:
    return c.RequestTaskManagerFileUpload(task_manager_id=task_manager_id, file=file, **more)


def rescale(job_id: str = "running", vertex_id: str = "a", parallelism: int = 3, **tokens: Any) -> c.RescaleJob:
    """Return a command for another parallelism."""
    return c.RescaleJob(job_id=job_id, vertex_id=vertex_id, parallelism=parallelism, **tokens)


def upload(job_id: str = "running", vertex_id: str = "a", subtask_index: int = 0, attempt: int = 1, **more: Any) -> c.RequestFileUpload:
    return c.RequestFileUpload(job_id=job_id, vertex_id=vertex_id, subtask_index=subtask_index, attempt=attempt, file=TaskFile.LOG, **more)


def snapshot(log_offset: int = 3, chunk_count: int = 1, byte_count: int = 1, digest: str = "d") -> c.ReportSnapshot:
    return c.ReportSnapshot(
        snapshot_id="s", log_offset=log_offset, digest=digest, chunk_count=chunk_count, byte_count=byte_count, taken_by="m1"
    )


def confirm(snapshot_id: str = "none", log_offset: int = 3) -> c.ConfirmSnapshot:
    return c.ConfirmSnapshot(snapshot_id=snapshot_id, log_offset=log_offset, digest="d", confirmed_by="m2")


def submission(job_id: str = "new", **changes: Any) -> c.JobSubmission:
    """Return a submission whose only vertex, or whose graph, is changed: Avro holds what no document would."""
    made: dict[str, Any] = {"vertex_id": "a", "task_type": TaskType.SQL, "task": "SELECT 1", "parallelism": 1, "max_parallelism": 1}
    fields: dict[str, Any] = {"name": "g", "edges": (), "restart_strategy": RestartStrategy(RestartStrategyType.NONE), "code_archives": ()}
    of_graph = {k: v for k, v in changes.items() if k in fields or k == "vertices"}
    of_vertex = {"parameters_json": "{}"} | made | {k: v for k, v in changes.items() if k not in of_graph}
    return c.JobSubmission(job_id=job_id, job_graph=JobGraph(**{"vertices": (JobVertex(**of_vertex),)} | fields | of_graph))


def edges(*pairs: tuple[str, str]) -> tuple[JobEdge, ...]:
    return tuple(
        JobEdge(source=x, target=y, output="default", input_name=f"in{n}", ship=ShipStrategy.REBALANCE) for n, (x, y) in enumerate(pairs)
    )


def strategy(kind: RestartStrategyType, **fields: Any) -> RestartStrategy:
    return RestartStrategy(kind, **fields)


DELAY, RATE, DOUBLE = RestartStrategyType.FIXED_DELAY, RestartStrategyType.FAILURE_RATE, RestartStrategyType.EXPONENTIAL_DELAY
NAN, INFINITY = float("nan"), float("inf")
DOUBLED: dict[str, Any] = {"delay_ms": 1, "max_delay_ms": 5, "reset_threshold_ms": 9}
ENDED = ApplicationStatus.SUCCEEDED
INVALID, FENCED = "InvalidRequest", "FencingTokenMismatch"
NO_JOB = "may hold only letters, digits"

REFUSED: list[tuple[Callable[[ScriptedCluster], c.Request], str, str]] = [
    (lambda _: submission("running"), "DuplicateJobSubmission", "with another graph; it is RUNNING"),
    (lambda _: submission("done"), "DuplicateJobSubmission", "it is FINISHED"),
    (lambda _: submission("evicted"), "DuplicateJobSubmission", "it ended long ago"),
    (lambda _: submission(parallelism=0), INVALID, "vertices[0].parallelism: must be at least 1"),
    (lambda _: submission(parallelism=-1), INVALID, "vertices[0].parallelism"),
    (lambda _: submission(parallelism=10**6), INVALID, "vertices[0].parallelism: must be at most 4096"),
    (lambda _: submission(parallelism=INT_MIN, max_parallelism=INT_MAX), INVALID, "vertices[0].parallelism"),
    (lambda _: submission(max_parallelism=0), INVALID, "vertices[0].max_parallelism"),
    (lambda _: submission(max_parallelism=INT_MAX), INVALID, "vertices[0].max_parallelism"),
    (lambda _: submission(task=""), INVALID, "sql: the query is empty"),
    (lambda _: submission(task="no callable", task_type=TaskType.PYTHON), INVALID, "is not of the form module:function"),
    (lambda _: submission(task="../../etc/passwd:f", task_type=TaskType.PYTHON), INVALID, "is not of the form module:function"),
    (lambda _: submission(parameters_json="["), INVALID, "parameters"),
    (lambda _: submission(parameters_json="[" * 50_000), INVALID, "parameters"),
    (lambda _: submission(parameters_json='{"a": NaN}'), INVALID, "parameters"),
    (lambda _: submission(parameters_json='"text"'), INVALID, "parameters"),
    (lambda _: submission(resources=ResourceProfile(-1)), INVALID, "cpu"),
    (lambda _: submission(resources=ResourceProfile(LONG_MAX)), INVALID, "cpu"),
    (lambda _: submission(resources=ResourceProfile(0, LONG_MIN)), INVALID, "memory"),
    (lambda _: submission(resources=ResourceProfile(1, extended_resources=(ExtendedResource("../gpu", -1),))), INVALID, "resource"),
    (lambda _: submission(name=""), INVALID, "name: must have at least 1 character"),
    (lambda _: submission(vertices=()), INVALID, "vertices: must have at least 1 item"),
    (lambda _: submission(code_archives=("../../etc/passwd",)), INVALID, "code_archives[0]: must match"),
    (lambda _: submission(code_archives=("0" * 64,) * 65), INVALID, "code_archives"),
    (lambda _: submission(edges=edges(("a", "a"))), INVALID, "the graph has a cycle: a -> a"),
    (lambda _: submission(edges=edges(("a", "none"))), INVALID, "vertex not found: 'none'"),
    (lambda _: submission(restart_strategy=strategy(DELAY, attempts=-1)), INVALID, "restart_strategy.attempts"),
    (lambda _: submission(restart_strategy=strategy(DELAY, delay_ms=LONG_MAX)), INVALID, "restart_strategy.delay_ms"),
    (lambda _: submission(restart_strategy=strategy(DOUBLE, **DOUBLED, multiplier=NAN)), INVALID, "restart_strategy.multiplier"),
    (
        lambda _: submission(restart_strategy=strategy(DOUBLE, **DOUBLED, jitter_factor=INFINITY)),
        INVALID,
        "restart_strategy.jitter_factor",
    ),
    (lambda _: submission(restart_strategy=strategy(RATE, interval_ms=0)), INVALID, "restart_strategy.interval_ms"),
    (lambda _: c.CancelJob(job_id="none"), "UnknownJob", "job not found: 'none'"),
    (lambda _: c.CancelJob(job_id="evicted"), "JobTerminated", "job 'evicted' is FINISHED already"),
    (lambda _: c.CancelJob(job_id="done"), "JobTerminated", "job 'done' is FINISHED already"),
    (lambda _: c.CancelJob(job_id="running", leader_id="leader-0"), FENCED, "the request is for the leader 'leader-0'"),
    (lambda _: c.CancelJob(job_id="running", leader_id="\0" * 10_000), FENCED, "'leader-1' leads now"),
    (lambda _: c.CancelJob(job_id="running", job_master_id="waiting-1"), FENCED, "for the JobMaster 'waiting-1'"),
    (lambda _: c.TriggerCheckpoint(job_id="none"), "UnknownJob", "job not found: 'none'"),
    (lambda _: c.TriggerCheckpoint(job_id="running"), "NoStream", "job 'running' has no stream"),
    (lambda _: c.TriggerCheckpoint(job_id="running", job_master_id="waiting-1"), FENCED, "for the JobMaster 'waiting-1'"),
    (lambda _: c.TriggerSavepoint(job_id="none"), "UnknownJob", "job not found: 'none'"),
    (lambda _: c.TriggerSavepoint(job_id="running", target_directory="/" * 3_000), INVALID, "target_directory"),
    (lambda _: c.TriggerSavepoint(job_id="running", target_directory="/s"), "NoStream", "job 'running' has no stream"),
    *((lambda _, t=t: c.TriggerCheckpoint(job_id=t), INVALID, NO_JOB) for t in ODD_TEXTS if t not in ("x" * 128, "null")),
    *((lambda _, k=k: k(job_id="none"), "UnknownJob", "job not found: 'none'") for k in (c.SuspendJob, c.ResumeJob)),
    *((lambda _, k=k: k(job_id="evicted"), "UnknownJob", "was evicted from memory") for k in (c.SuspendJob, c.ResumeJob)),
    *((lambda _, k=k: k(job_id="done"), "JobTerminated", "job 'done' is FINISHED already") for k in (c.SuspendJob, c.ResumeJob)),
    *((lambda _, k=k: k(job_id="running", leader_id="x"), FENCED, "is for the leader 'x'") for k in (c.SuspendJob, c.ResumeJob)),
    *((lambda _, t=t: c.SuspendJob(job_id=t), INVALID, NO_JOB) for t in ODD_TEXTS if t not in ("x" * 128, "null")),
    *((lambda _, t=t: c.ResumeJob(job_id=t), INVALID, NO_JOB) for t in ODD_TEXTS if t not in ("x" * 128, "null")),
    (lambda _: c.DismissJobFailure(job_id="none"), "UnknownJob", "job not found: 'none'"),
    (lambda _: c.DismissJobFailure(job_id="evicted"), "UnknownJob", "was evicted from memory"),
    (lambda _: c.DismissJobFailure(job_id="running"), "JobNotFailed", "job 'running' is RUNNING"),
    (lambda _: c.DismissJobFailure(job_id="done"), "JobNotFailed", "job 'done' is FINISHED"),
    (lambda _: c.DismissJobFailure(job_id="done", leader_id="x"), FENCED, "is for the leader 'x'"),
    (lambda _: c.DismissJobFailure(job_id="done", reason="x" * 1_025), INVALID, "reason: must have at most 1024 characters"),
    *((lambda _, t=t: c.DismissJobFailure(job_id=t), INVALID, NO_JOB) for t in ODD_TEXTS if t not in ("x" * 128, "null")),
    (lambda _: c.RerunJob(job_id="new", rerun_of="none"), "UnknownJob", "job not found: 'none'"),
    *(
        (lambda _, t=t: c.RerunJob(job_id="new", rerun_of=t), INVALID, f"rerun_of '{t[:20]}")
        for t in ODD_TEXTS
        if t not in ("x" * 128, "null")
    ),
    *(
        (lambda _, p=p: c.RerunJob(job_id="new", rerun_of="done", parameters=(p,)), code, says)
        for t in ODD_TEXTS
        for p, is_short, says in (
            (ParameterValue("run", t), len(t) <= MAX_VALUE_LENGTH, "parameter 'run': must be a boolean"),
            (ParameterValue(t, "1"), len(t) <= MAX_NAME_LENGTH, "unknown parameter: '"),
        )
        for code, says in ((("InvalidParameters", says) if is_short else (INVALID, "has at most")),)
    ),
    (lambda _: c.RerunJob(job_id="new", rerun_of="running"), "JobNotEnded", "job 'running' is RUNNING"),
    (lambda _: c.RerunJob(job_id="done", rerun_of="done"), "DuplicateJobSubmission", "job 'done' was submitted before"),
    (lambda _: c.RerunJob(job_id="new", rerun_of="done", leader_id="x"), FENCED, "is for the leader 'x'"),
    *((lambda _, t=t: c.RerunJob(job_id=t, rerun_of="done"), INVALID, NO_JOB) for t in ODD_TEXTS if t not in ("x" * 128, "null", "")),
    *((lambda _, k=k: k(schedule_id="none"), "UnknownSchedule", "schedule not found: 'none'") for k in OF_SCHEDULES),
    *((lambda _, k=k: k(schedule_id="nightly", leader_id="x"), FENCED, "is for the leader 'x'") for k in OF_SCHEDULES),
    *((lambda _, t=t: c.DeleteSchedule(schedule_id=t), INVALID, "schedule_id '") for t in ODD_TEXTS if t not in ("x" * 128, "null")),
    *((lambda _, t=t: put_schedule(schedule_id=t, interval_ms=1_000), INVALID, "schedule_id '") for t in ODD_TEXTS if t != "null"),
    *(
        (lambda _, t=t, n=n: put_schedule(time_zone=t, **n), INVALID, "time_zone: time zone not found")
        for t in ODD_TEXTS
        for n in ({}, {"starts_at_ms": 1}, {"ends_at_ms": 0})
    ),
    *((lambda _, t=t: put_schedule(cron=t), INVALID, "cron: ") for t in ODD_TEXTS if t),
    *((lambda _, n=n: put_schedule(interval_ms=n), INVALID, "interval: must be") for n in (-1, LONG_MAX)),
    (lambda _: put_schedule(interval_ms=0), INVALID, "a schedule has one of"),
    (lambda _: put_schedule(interval_ms=1_000, cron="* * * * *"), INVALID, "a schedule has one of"),
    (lambda _: put_schedule(interval_ms=1_000, after=FollowedJob("x")), INVALID, "a schedule has one of"),
    *((lambda _, t=t: put_schedule(after=FollowedJob(t)), INVALID, "after.job: ") for t in ODD_TEXTS if not 0 < len(t) <= 256),
    (lambda _: put_schedule(after=FollowedJob("test job")), "InvalidSchedule", "would start itself"),
    (lambda _: put_schedule(interval_ms=1_000, jitter_ms=LONG_MAX), INVALID, "jitter: must be"),
    (lambda _: put_schedule(interval_ms=1_000, starts_at_ms=LONG_MAX), INVALID, "it never fires"),
    (lambda _: put_schedule(interval_ms=1_000, ends_at_ms=1), "ScheduleEnded", "'ends' is in the past"),
    (lambda _: c.StartBackfill(schedule_id="none", first_ms=0, end_ms=1), "UnknownSchedule", "schedule not found: 'none'"),
    (lambda _: c.StartBackfill(schedule_id="none", first_ms=-1, end_ms=1), INVALID, "first_ms: must be at least 0"),
    (lambda _: c.StartBackfill(schedule_id="none", first_ms=0, end_ms=LONG_MAX), INVALID, "end_ms: must be at most"),
    (lambda _: c.StartBackfill(schedule_id="none", first_ms=0, end_ms=1, concurrency=101), INVALID, "concurrency: must be at most 100"),
    (lambda _: c.FireSchedule(schedule_id="none", job_id="new"), "UnknownSchedule", "schedule not found: 'none'"),
    (lambda _: c.FireSchedule(schedule_id="none", job_id="new", instant_ms=-1), INVALID, "instant_ms: must be at least 0"),
    *((lambda _, t=t: c.FireSchedule(schedule_id=t, job_id="new"), INVALID, "schedule_id '") for t in ODD_TEXTS if t != "null"),
    (lambda _: c.SuspendJob(job_id="running", job_master_id="waiting-1"), FENCED, "for the JobMaster 'waiting-1'"),
    (
        lambda _: c.SuspendJob(job_id="running", reason="x" * 10_000),
        INVALID,
        "reason: must have at most 1024 characters",
    ),
    (lambda _: c.ShutDownCluster(application_status=ENDED, leader_id="x"), FENCED, "is for the leader 'x'"),
    (
        lambda _: c.ShutDownCluster(application_status=ENDED, diagnostics="x" * 100_000),
        INVALID,
        "diagnostics: must have at most 8192 characters, not 100000",
    ),
    (lambda _: rescale("none"), "UnknownJob", "job not found: 'none'"),
    (lambda _: rescale("done"), "JobTerminated", "job 'done' is FINISHED already"),
    *((lambda _, n=n: rescale(parallelism=n), "ParallelismOutOfRange", f"parallelism {n} of") for n in (0, -1, 4_097, INT_MAX, INT_MIN)),
    *((lambda _, t=t: rescale(vertex_id=t), "UnknownVertex", "vertex not found: ") for t in ODD_TEXTS),
    *((lambda _, t=t: rescale(t), INVALID, NO_JOB) for t in ODD_TEXTS if t not in ("x" * 128, "null")),
    (lambda _: rescale(leader_id="x"), FENCED, "is for the leader 'x'"),
    (lambda _: rescale(job_master_id="waiting-1"), FENCED, "for the JobMaster 'waiting-1'"),
    (lambda _: upload("none"), "UnknownJob", "job not found: 'none'"),
    (lambda _: upload("waiting", subtask_index=1), "FileNotAvailable", "was never deployed"),
    *((lambda _, n=n: upload(subtask_index=n), "FileNotAvailable", f"running/a[{n}]#1") for n in (-1, 2, INT_MAX, INT_MIN)),
    *((lambda _, n=n: upload(attempt=n), "FileNotAvailable", f"running/a[0]#{n}") for n in (-1, 0, 2, INT_MAX)),
    *((lambda _, name=name: upload(vertex_id=name), "FileNotAvailable", "attempt running/") for name in ODD_TEXTS),
    (lambda _: upload(leader_id="leader-0"), FENCED, "the request is for the leader 'leader-0'"),
    (lambda _: own_file("none"), "UnknownTaskManager", "TaskManager not found: 'none' is not registered"),
    (lambda _: own_file("gone"), "UnknownTaskManager", "TaskManager not found: 'gone' is not registered"),
    (lambda _: own_file(name="x"), INVALID, "name 'x': only NAMED has a name"),
    (lambda _: own_file(leader_id="x"), FENCED, "the request is for the leader 'x'"),
    *(
        (lambda _, n=n: own_file(file=TaskManagerFile.NAMED, name=n), INVALID, "invalid name of a log")
        for n in ("", "..", "a/b", "x" * 256)
    ),
    (lambda _: c.BlockTaskManager(task_manager_id="none"), "UnknownTaskManager", "TaskManager not found: 'none' is not registered"),
    (lambda _: c.BlockTaskManager(task_manager_id="gone"), "UnknownTaskManager", "TaskManager not found: 'gone' is not registered"),
    (lambda _: c.BlockTaskManager(task_manager_id="tm1", duration_ms=-1), INVALID, "at least 0, not -1"),
    (
        lambda _: c.BlockTaskManager(task_manager_id="tm1", duration_ms=LONG_MAX),
        INVALID,
        f"at most {c.MAX_BLOCKED_MS}",
    ),
    (lambda _: c.BlockTaskManager(task_manager_id="tm1", reason="x" * 10_000), INVALID, "at most 1024 characters, not 10000"),
    (lambda _: c.BlockTaskManager(task_manager_id="tm1", leader_id="x"), FENCED, "the request is for the leader 'x'"),
    (lambda _: c.ReleaseParkedInput(parked_id="parked-1"), "UnknownParkedInput", "parked input not found: 'parked-1'"),
    (lambda _: c.ReleaseParkedInput(parked_id="parked-1", leader_id="x"), FENCED, "the request is for the leader 'x'"),
    (
        lambda _: c.UnblockTaskManager(task_manager_id="none"),
        "UnknownTaskManager",
        "TaskManager not found: 'none' is neither registered nor blocked",
    ),
    (lambda _: c.UnblockTaskManager(task_manager_id="tm1", leader_id="x"), FENCED, "the request is for the leader 'x'"),
    (lambda _: snapshot(log_offset=10**6), INVALID, "log_offset 1000000 is beyond the log's end"),
    (lambda _: snapshot(log_offset=LONG_MAX), INVALID, "is beyond the log's end"),
    (lambda _: snapshot(log_offset=-1), "SnapshotOutdated", "the snapshot at -1 is not newer"),
    (lambda _: snapshot(log_offset=LONG_MIN), "SnapshotOutdated", "is not newer"),
    (lambda _: snapshot(chunk_count=0), INVALID, "chunk_count: must be at least 1, not 0"),
    (lambda _: snapshot(chunk_count=INT_MIN), INVALID, "chunk_count: must be at least 1, not -"),
    (lambda _: snapshot(byte_count=-1), INVALID, "byte_count: must be at least 0"),
    (lambda _: snapshot(digest=""), INVALID, "digest: must have at least 1 character"),
    (lambda _: snapshot(digest="x" * 100_000), INVALID, "digest: must have at most 128 characters, not 100000"),
    (lambda _: confirm(), "UnknownSnapshot", "no snapshot none at offset 3 is known"),
    (lambda _: confirm(log_offset=LONG_MIN), "UnknownSnapshot", "is known"),
    (lambda _: c.DrillStep(drill_id="d", step=DrillStepType.KILL, master_id="master-1"), "DrillsNotAllowed", "drills.allowed is false"),
    *((lambda _, t=t: submission(t), INVALID, NO_JOB) for t in ODD_TEXTS if t and t not in ("x" * 128, "null")),
    *((lambda _, t=t: c.CancelJob(job_id=t), INVALID, NO_JOB) for t in ODD_TEXTS if t not in ("x" * 128, "null")),
    *((lambda _, t=t: upload(t), INVALID, NO_JOB) for t in ODD_TEXTS if t not in ("x" * 128, "null")),
    *((lambda _, t=t: c.BlockTaskManager(task_manager_id=t), INVALID, NO_JOB) for t in ODD_TEXTS if t not in ("x" * 128, "null")),
    *((lambda _, t=t: c.UnblockTaskManager(task_manager_id=t), INVALID, NO_JOB) for t in ODD_TEXTS if t not in ("x" * 128, "null")),
    *((lambda _, t=t: confirm(t), INVALID, NO_JOB) for t in ODD_TEXTS if t not in ("x" * 128, "null")),
]

ATTEMPT = ("running", "a", 0, 1)
NO_STREAM = "not a live attempt of a stream of that instance"
NOT_LIVE = "not a live attempt of that instance"

SKIPPED: list[tuple[Callable[[ScriptedCluster], c.TaskManagerReport], str]] = [
    *((lambda _, t=t: c.SlotOffer("tm1", "tm1-1", t), "it is not pending on that instance") for t in ("none", "allocation-0", *ODD_TEXTS)),
    (lambda s: c.SlotOffer("tm1", "tm1-1", allocation_of(s, 0)), "it is not pending on that instance"),
    (lambda s: c.SlotOffer("tm2", "tm2-1", allocation_of(s, 1)), "it is not pending on that instance"),
    (lambda s: c.SlotOffer("gone", "gone-1", allocation_of(s, 1)), "it is not pending on that instance"),
    (lambda s: c.SlotOffer("tm1", "", allocation_of(s, 1)), "it is not pending on that instance"),
    (lambda s: c.SlotOffer("tm1", "tm1-1", next(iter(s.master.slot_manager.pending))), "it is not pending on that instance"),
    *((lambda _, t=t: c.SlotOfferRefusal("tm1", "tm1-1", t, t, "a", 0, 1), "that instance does not hold it") for t in ("none", *ODD_TEXTS)),
    (lambda s: c.SlotOfferRefusal("tm2", "tm2-1", allocation_of(s, 0), "no", "a", 0, 1), "that instance does not hold it"),
    (lambda s: c.SlotOfferRefusal("gone", "gone-1", allocation_of(s, 0), "no", "a", 0, 1), "that instance does not hold it"),
    *((lambda _, s=s: state_report(("none", "a", 0, 1), s), NOT_LIVE) for s in ExecutionState),
    *((lambda _, s=s: state_report(("done", "a", 0, 1), s), NOT_LIVE) for s in ExecutionState),
    *((lambda _, s=s: state_report(("evicted", "a", 0, 1), s), NOT_LIVE) for s in ExecutionState),
    *((lambda _, s=s: state_report(("waiting", "a", 0, 1), s), NOT_LIVE) for s in ExecutionState),
    *((lambda _, s=s: state_report(ATTEMPT, s, "tm2-1"), NOT_LIVE) for s in ExecutionState),
    *((lambda _, s=s: state_report(ATTEMPT, s, "gone-1"), NOT_LIVE) for s in ExecutionState),
    *((lambda _, t=t: state_report((t, "a", 0, 1), FINISHED), NOT_LIVE) for t in ODD_TEXTS),
    *((lambda _, t=t: state_report(("running", t, 0, 1), FINISHED), NOT_LIVE) for t in ODD_TEXTS),
    *((lambda _, n=n: state_report(("running", "a", n, 1), FINISHED), NOT_LIVE) for n in (-1, -2, 2, 10**6, INT_MAX, INT_MIN)),
    *((lambda _, n=n: state_report(("running", "a", 0, n), FINISHED), NOT_LIVE) for n in (-1, 0, 2, INT_MAX, INT_MIN)),
    (lambda _: state_report(ATTEMPT, RUNNING), "RUNNING: the attempt is RUNNING already"),
    (lambda _: state_report(ATTEMPT, ExecutionState.INITIALIZING), "INITIALIZING: the attempt is RUNNING already"),
    *(
        (lambda _, s=s: state_report(ATTEMPT, s), f"{s} is nothing that a TaskExecutor reports")
        for s in ExecutionState
        if s in ("CREATED", "SCHEDULED", "DEPLOYING", "CANCELING", "RECONCILING")
    ),
    *((lambda _, t=t: c.FileUploadCompleted("tm1", "tm1-1", t, "k"), "nobody waits for it from that instance") for t in ODD_TEXTS),
    *((lambda _, t=t: c.StreamStartReport("tm1", "tm1-1", t, "a", 0, 1, t, t, t, t, 0), NO_STREAM) for t in ODD_TEXTS),
    *((lambda _, n=n: c.StreamStartReport("tm1", "tm1-1", *ATTEMPT, "q", "r", "s", "l", n), NO_STREAM) for n in (-1, LONG_MIN)),
    *(
        (lambda _, n=n: c.CheckpointAcknowledgement("tm1", "tm1-1", *ATTEMPT, n, StreamProgress(batch_id=n)), NO_STREAM)
        for n in (-1, 0, 1, LONG_MAX, LONG_MIN)
    ),
    *((lambda _, t=t: c.CheckpointDecline("tm1", "tm1-1", "running", t, 0, 1, 1, t), NO_STREAM) for t in ODD_TEXTS),
    (lambda _: c.Disconnection("none", "none-1", "bye"), "that instance is not registered"),
    (lambda _: c.Disconnection("tm1", "gone-1", "bye"), "that instance is not registered"),
    (lambda _: c.Disconnection("tm2", "tm1-1", "bye"), "that instance is not registered"),
    *((lambda _, t=t: c.Disconnection(t, "tm1-1", t), "that instance is not registered") for t in ODD_TEXTS),
    (lambda _: c.TaskManagerDeath("gone", "gone-1", "dead"), "that instance is not registered"),
    *((lambda _, t=t: c.TaskManagerDeath("tm1", t, t), "that instance is not registered") for t in ODD_TEXTS),
]

TURNED_AWAY: list[tuple[Callable[[ScriptedCluster], c.TaskManagerReport], str]] = [
    (lambda _: c.TaskManagerRegistration("gone", "gone-1", "h", 1, 1), "TaskManagerLost: exit code 137"),
    *((lambda _, n=n: c.TaskManagerRegistration("new", "new-1", "h", 1, n), f"not {n}") for n in (-1, 0, 1_025, 10**9, INT_MAX, INT_MIN)),
    *((lambda _, t=t: c.TaskManagerRegistration(t, "new-1", "h", 1, 1), "needs an id") for t in ODD_TEXTS if t not in ("x" * 128, "null")),
    *((lambda _, t=t: c.TaskManagerRegistration("new", t, "h", 1, 1), "needs an inst") for t in ODD_TEXTS if t not in ("x" * 128, "null")),
    *(
        (lambda _, p=p: c.TaskManagerRegistration("new", "new-1", "h", 1, 1, slot_profile=p), "its slot profile: ")
        for p in (
            ResourceProfile(-1),
            ResourceProfile(0, -1),
            ResourceProfile(0, 0, LONG_MIN),
            ResourceProfile(0, 0, 0, LONG_MAX),
            ResourceProfile(1, extended_resources=(ExtendedResource("gpu", -1),)),
            ResourceProfile(1, extended_resources=(ExtendedResource("g" * 65, 1),)),
            ResourceProfile(1, extended_resources=(ExtendedResource("gpu", 1), ExtendedResource("gpu", 1))),
            ResourceProfile(1, extended_resources=tuple(ExtendedResource(f"r{n}", 1) for n in range(17))),
        )
    ),
    *(
        (lambda _, hardware=hardware: c.TaskManagerRegistration("new", "new-1", "h", 1, 1, hardware=hardware), "its hardware: ")
        for hardware in (Hardware(INT_MIN, 1, 1), Hardware(1, -1, 1), Hardware(1, 1, LONG_MIN), Hardware(1, LONG_MAX, 1))
    ),
    (lambda _: c.SlotReport("none", "none-1", (), ()), "it is not registered"),
    (lambda _: c.SlotReport("gone", "gone-1", (), ()), "TaskManagerLost: exit code 137"),
    (lambda _: c.SlotReport("tm1", "tm2-1", (), ()), "it is not registered"),
    *((lambda _, t=t: c.SlotReport(t, t, (), ()), "it is not registered") for t in ODD_TEXTS),
]


@pytest.mark.parametrize("row", range(len(REFUSED)))
def test_a_request_that_is_wrong_is_refused_by_a_code_and_leaves_the_rest_as_it_was(shared: ScriptedCluster, row: int) -> None:
    make, code, says = REFUSED[row]
    request = make(shared)
    request.request_id, request.reply_partition = f"row-{row}", 0
    before = digest_but_for_answers(shared)
    shared.send(request)
    [rejected] = shared.last_events()
    assert isinstance(rejected, e.RequestRejected)
    assert (rejected.code, rejected.request_id, rejected.reply_partition) == (code, f"row-{row}", 0)
    assert says in rejected.message
    assert len(shared.log[-1]) < 20_000
    assert digest_but_for_answers(shared) == before


@pytest.mark.parametrize("row", range(len(SKIPPED)))
def test_a_report_that_fits_nothing_is_skipped_by_its_reason_and_changes_nothing(shared: ScriptedCluster, row: int) -> None:
    make, says = SKIPPED[row]
    before = digest_but_for_answers(shared)
    shared.say(make(shared))
    [skipped] = shared.last_events()
    assert isinstance(skipped, e.InputsSkipped)
    assert says in skipped.reason or len(skipped.reason) >= 8_192
    assert digest_but_for_answers(shared) == before


@pytest.mark.parametrize("row", range(len(TURNED_AWAY)))
def test_who_cannot_be_registered_is_told_why_and_changes_nothing(shared: ScriptedCluster, row: int) -> None:
    make, says = TURNED_AWAY[row]
    before = digest_but_for_answers(shared)
    shared.say(make(shared))
    [refused] = shared.last_events()
    assert isinstance(refused, e.TaskManagerRegistrationRefused)
    assert says in refused.reason
    assert digest_but_for_answers(shared) == before


def test_an_instance_that_reports_what_nobody_gave_it_is_told_to_end_it(shared: ScriptedCluster) -> None:
    before = digest_but_for_answers(shared)
    told = [("none", "a", 0, 1), ("done", "a", 0, 1), ("running", "a", -1, 1), ("running", "a", 0, INT_MAX), ("waiting", "a", 0, 1)]
    held = [("running", "a", 0, 1), ("running", "a", 1, 1)]
    statuses = tuple(AttemptStatus(*attempt, RUNNING) for attempt in (*told, *held, *((text, text, 0, 1) for text in ODD_TEXTS)))
    effects = shared.say(c.SlotReport("tm1", "tm1-1", (), statuses))
    [reconciled] = shared.last_events()
    assert isinstance(reconciled, e.TaskManagerReportReconciled)
    assert reconciled.missing == ()
    assert len(reconciled.unknown) == len(effects) == len(told) + len(ODD_TEXTS)
    assert digest_but_for_answers(shared) == before


def test_after_all_of_it_what_is_right_works_and_a_replay_agrees(shared: ScriptedCluster) -> None:
    shared.check()
    shared.submit(graph(vertex("a")), job_id="good", partition=2)
    assert shared.job("good").status is JobStatus.RUNNING
    shared.cancel("good")
    assert shared.job("good").status is JobStatus.CANCELED
    shared.master.validate()
    shared.check()


def test_every_input_of_the_topics_is_tried_with_something_wrong(shared: ScriptedCluster) -> None:
    tried = {type(make(shared)) for make, _, _ in REFUSED} | {type(make(shared)) for make, _ in (*SKIPPED, *TURNED_AWAY)}
    assert tried == {*c.REQUESTS, *typing.get_args(c.TaskManagerReport)}


# -- graphs ------------------------------------------------------------------------------------------------------------


def put_document(cluster: ScriptedCluster, document: dict[str, Any], job_id: str = "big") -> tuple[e.LogEvent, ...]:
    """Submit; return the events of the decision that answers it."""
    count = len(cluster.log)
    cluster.put(Topic.SUBMISSIONS, json.dumps({"job_id": job_id, "job_graph": document}, separators=(",", ":")).encode())
    cluster.settle()
    return list(cluster.decisions())[count].events


def sql(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "sql": "q", **more}


@pytest.mark.parametrize(
    ("document", "code", "says"),
    [
        ({"name": "g", "vertices": [sql(f"v{n}") for n in range(10_000)]}, "InvalidRequest", "at most 5000 items, not"),
        ({"name": "g", "vertices": [sql(f"v{n}") for n in range(20_000)]}, "UndecodableRecord", "at most 262144 are read"),
        ({"name": "g", "vertices": [sql("a")] * 1_000}, "InvalidRequest", "two vertices have the id 'a'"),
        ({"name": "g", "vertices": [sql("a")], "edges": [{"from": "a", "to": "a"}] * 7_000}, "InvalidRequest", "two inputs named 'a'"),
        ({"name": "g", "vertices": [sql("a", parameters={"x": "y" * 250_000})]}, "accepted", ""),
        ({"name": "g" * 200_000, "vertices": [sql("a")]}, "InvalidRequest", "name: must have at most 256 characters"),
    ],
    ids=["10000-vertices", "20000-vertices", "one-id", "one-input", "huge-parameters", "huge-name"],
)
def test_a_graph_beyond_the_bounds_is_refused_by_the_bound(
    cluster: ScriptedCluster, document: dict[str, Any], code: str, says: str
) -> None:
    events = put_document(cluster, document)
    if code == "accepted":
        assert isinstance(events[0], e.RequestAccepted)
        return
    [rejected] = events
    assert isinstance(rejected, e.RequestRejected)
    assert rejected.code == code
    assert says in rejected.message
    assert len(cluster.log[-1]) < 20_000
    assert not cluster.master.dispatcher.jobs


def test_a_graph_of_as_many_edges_as_a_record_holds_is_run_or_its_cycle_named(cluster: ScriptedCluster) -> None:
    names = [f"{x}{y}{z}" for x in "abcdefgh" for y in "abcdefghij" for z in "abcdefghij"]
    forward = [{"from": names[n % 700], "to": names[700 + n % 99], "name": f"e{n}"} for n in range(5_000)]
    events = put_document(cluster, {"name": "g", "vertices": [sql(n) for n in names], "edges": forward})
    assert isinstance(events[0], e.RequestAccepted)
    cluster.cancel("big")
    backward = [{"from": edge["to"], "to": edge["from"], "name": f"b{edge['name']}"} for edge in forward[:1]]
    [rejected] = put_document(cluster, {"name": "g", "vertices": [sql(n) for n in names], "edges": forward + backward}, "cyclic")
    assert isinstance(rejected, e.RequestRejected)
    assert "the graph has a cycle" in rejected.message


def test_the_largest_job_is_cut_into_decisions_that_stay_small() -> None:
    """Scheduled, matched, lost with its TaskManagers, and cancelled: each decision within its bytes, and not more of them than batches."""
    cluster = ScriptedCluster(check_digests=False, check_states=False)
    for number in range(10):
        cluster.register(f"tm{number}", slots=1_024)
    before = len(cluster.log)
    largest = graph(vertex("a", 4_096), vertex("b", 4_096), vertex("c", 1_808), restart_strategy=fixed_delay(1_000_000))
    cluster.submit(largest, job_id="j" * 128)
    assert len(cluster.master.slot_manager.allocations) == 10_000
    assert len(cluster.log) - before <= 2 * (10_000 // 256 + 2)
    for number in range(10):
        cluster.say(c.TaskManagerDeath(f"tm{number}", f"tm{number}-1", "x" * 10_000))
    cluster.cancel("j" * 128)
    assert cluster.job("j" * 128).status is JobStatus.CANCELED
    assert max(map(len, cluster.log)) <= MAX_DECISION_BYTES
    cluster.master.validate()
    cluster.check()


def test_the_largest_record_of_reports_fits_into_one_decision(cluster: ScriptedCluster) -> None:
    """Whatever it holds: thousands of small reports, or few large ones."""
    cluster.register("tm", slots=1)
    for report in (
        c.SlotOffer("tm", "tm-1", "n"),
        c.SlotReport("t", "i", (), ()),
        c.TaskStateReport("tm", "tm-1", "j", "v", 0, 1, execution_state=RUNNING),
        c.FileUploadCompleted("tm", "tm-1", "r"),
        c.Disconnection("t", "i", ""),
        c.TaskManagerRegistration("t", "i", "", 0, 0),
    ):
        record = full_record(report)
        cluster.put(Topic.TASKMANAGERS, record)
        effects = cluster.settle()
        assert len(cluster.log[-1]) <= MAX_DECISION_BYTES
        assert len(effects) <= MAX_INBOUND_BYTES // 8
    assert list(cluster.master.resource_manager.task_managers) == ["tm"]


def full_record(report: c.TaskManagerReport) -> bytes:
    """Return a record that is full of one report."""
    size = len(REPORTS.encode([report, report])) - len(REPORTS.encode([report]))
    return REPORTS.encode([report] * ((MAX_INBOUND_BYTES - 64) // size))


# -- liars -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_whatever_anybody_says_the_invariants_hold_and_a_replay_agrees(seed: int) -> None:
    """Every state is validated, every digest compared with the replay's; and no input was too much for the master itself."""
    settings = MasterSettings(
        slot_request_timeout_ms=3_000,
        start_up_time_ms=2_000,
        job_store_capacity=4,
        request_horizon=50,
        failover_strategy=FailoverStrategy.FULL if seed % 3 == 0 else FailoverStrategy.REGION,
    )
    cluster = ScriptedCluster(settings)
    liar = Liar(cluster, seed)
    for _ in range(120):
        liar.step()
    assert not cluster.events(e.InputParked)
    assert not [rejected for rejected in cluster.events(e.RequestRejected) if rejected.code == "InternalError"]
    cluster.say(c.TaskManagerRegistration("honest", f"honest-{seed}", "h", 1, 16))
    cluster.pass_time(10_000)
    for job_id in [job_id for job_id, job in cluster.master.dispatcher.jobs.items() if not job.ended_at_ms]:
        cluster.run(cluster.cancel(job_id))
    cluster.run(cluster.submit(graph(vertex("last")), job_id="last-of-all"))
    assert cluster.job("last-of-all").status is JobStatus.FINISHED
    cluster.check()
