"""`decide` reads and returns, nothing more: whatever the input and wherever the cluster stands, the state stays as it was."""

import typing
from functools import cache
from typing import Any

import pytest

from eventflink.events import inputs as c
from eventflink.master import inputs as i
from eventflink.master.canonical import InvariantBroken
from eventflink.master.effects import due_archives, due_clean_ups
from eventflink.master.inputs import MasterInput
from eventflink.master.master import Master
from eventflink.master.settings import MasterSettings, WorkerSettings
from eventflink.model.attempts import AttemptStatus, LostInput, SlotStatus
from eventflink.model.features import FEATURE_LEVEL
from eventflink.model.job_graph import ParameterValue
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.job_queues import JobQueue
from eventflink.model.schedules import OffsetRange, PartitionOffset, ScheduleDefinition, ScheduleTiming, TableVersion
from eventflink.model.statuses import ApplicationStatus, DrillStepType, ExecutionState, FollowUpType, TaskFile, TaskManagerFile
from eventflink.model.stream_progress import StreamProgress
from tests.support.cluster import START_MS, graph, new_fold, replay, vertex
from tests.support.scenarios import SALES, busy_cluster, eventful_cluster, restarting_cluster
from tests.support.values import ValueMaker

LATER_MS = 1_800_000_900_000


@cache
def _logs() -> dict[str, tuple[bytes, ...]]:
    busy, eventful = tuple(busy_cluster().log), tuple(eventful_cluster().log)
    restarting = tuple(restarting_cluster().log)
    return {"empty": busy[:1], "half": busy[: len(busy) // 2], "busy": busy, "eventful": eventful, "restarting": restarting}


def _master(state: str) -> Master:
    workers = WorkerSettings(slot_count=2, max_slots=100, idle_timeout_ms=1)
    settings = MasterSettings(
        job_store_capacity=1,
        request_horizon=2,
        slot_request_timeout_ms=1,
        workers=workers,
        queues=(JobQueue("etl", 1),),
        queue_reclaim_after_ms=1,
    )
    return replay(_logs()[state], settings).master


@cache
def _shared(state: str) -> tuple[Master, str]:
    """Return a master for those who change nothing, with its digest."""
    master = _master(state)
    return master, master.digest()


_OF_SCHEDULES = (c.DeleteSchedule, c.PauseSchedule, c.ResumeSchedule, c.CancelBackfill)


def _schedule() -> ScheduleDefinition:
    return ScheduleDefinition(timing=ScheduleTiming(interval_ms=60_000), job_graph=parse_job_graph(graph(vertex("a")), "test"))


def _awaited() -> list[tuple[int, str]]:
    """Return the instants that wait for files in some state, with these."""
    waiting = [_shared(state)[0].schedules.schedules.get("files") for state in _logs()]
    return [(instant_ms, each.file) for known in waiting if known is not None for instant_ms, each in known.awaiting.items()]


def _fitting() -> list[MasterInput]:
    """Return inputs that lead to something in a busy cluster."""
    attempt = ("running", "a", 0, 1)
    reports = [c.TaskStateReport("tm1", "tm1-1", *attempt, execution_state=s) for s in ExecutionState]
    return [
        c.JobSubmission(job_id="new", request_id="new", job_graph=parse_job_graph(graph(vertex("a", 3)), "test")),
        c.JobSubmission(job_id="running", request_id="new", job_graph=parse_job_graph(graph(vertex("a", 3)), "test")),
        *[c.CancelJob(request_id="new", job_id=job) for job in ("running", "restarting", "waiting", "failing", "cancelling", "done3", "x")],
        c.CancelJob(request_id="new", job_id="running", leader_id="nobody"),
        c.CancelJob(request_id="new", job_id="running", job_master_id="nobody"),
        c.RequestFileUpload(request_id="new", job_id="running", vertex_id="a", subtask_index=0, attempt=1, file=TaskFile.LOG),
        c.TaskManagerRegistration("tm1", "tm1-2", "h", 1, 3),
        c.TaskManagerRegistration("tm1", "tm1-1", "h", 1, 3),
        c.SlotReport("tm1", "tm1-1", (SlotStatus(0),), (AttemptStatus("x", "a", 0, 1, ExecutionState.RUNNING),)),
        c.SlotOffer("tm1", "tm1-1", "allocation-7"),
        *[c.SlotOfferRefusal("tm1", "tm1-1", f"allocation-{n}", "no", "a", 0, 1) for n in range(12)],
        *reports,
        c.FileUploadCompleted("tm1", "tm1-1", "upload", "key"),
        c.Disconnection("tm1", "tm1-1", "stopped"),
        c.TaskManagerDeath("tm2", "tm2-1", "killed"),
        c.StreamStartReport("tm5", "tm5-1", "streaming", "s", 0, 2, "query", "run", "session", "/checkpoints", 4),
        c.CheckpointAcknowledgement("tm5", "tm5-1", "streaming", "s", 1, 2, 4, StreamProgress(batch_id=10)),
        c.CheckpointDecline("tm5", "tm5-1", "streaming", "s", 1, 2, 4, "reason"),
        i.CheckpointDue("streaming"),
        *[i.TimeLimitsDue(job, 10**15) for job in ("limited", "running", "failing", "x")],
        *[c.TriggerCheckpoint(request_id="new", job_id=job) for job in ("streaming", "running", "failing", "done3", "x")],
        *[c.TriggerSavepoint(request_id="new", job_id=job, target_directory="/s") for job in ("streaming", "running", "x")],
        i.UnreadableInput("code", "message", "subject"),
        c.ReportSnapshot(
            request_id="new", snapshot_id="new", log_offset=10**6, digest="d", chunk_count=1, byte_count=1, taken_by="master-1"
        ),
        c.ConfirmSnapshot(request_id="new", snapshot_id="snapshot-2", log_offset=20, digest="digest-20", confirmed_by="master-2"),
        c.DrillStep(request_id="new", drill_id="new", step=DrillStepType.STOP, master_id="master-1"),
        c.BlockTaskManager(request_id="new", task_manager_id="tm1", reason="its disk is full", duration_ms=60_000),
        c.UnblockTaskManager(request_id="new", task_manager_id="tm2"),
        c.ReleaseParkedInput(request_id="new", parked_id="parked-1"),
        *[
            c.SuspendJob(request_id="new", job_id=job)
            for job in ("running", "restarting", "suspended", "failing", "cancelling", "done3", "x")
        ],
        *[
            c.ResumeJob(request_id="new", job_id=job)
            for job in ("running", "restarting", "suspended", "failing", "cancelling", "done3", "x")
        ],
        *[c.DismissJobFailure(request_id="new", job_id=job) for job in ("running", "failing", "done3", "x")],
        *[c.RerunJob(request_id="new", job_id="new", rerun_of=job) for job in ("running", "done3", "x")],
        *[c.RerunJob(request_id="new", job_id="new", rerun_of="kept", failed=True, from_vertices=names) for names in ((), ("b",), ("x",))],
        i.ReleaseOutputs(),
        i.FireSchedules(),
        *[
            i.RecordsSeen(name, "orders", key, (OffsetRange(0, 5, 99),), (PartitionOffset(0, 7),))
            for name in ("records", "paused", "none")
            for key in ("id-of-orders", "x")
        ],
        *[
            i.VersionsSeen(name, SALES, TableVersion(cursor), key, TableVersion(base), TableVersion(9))
            for name in ("versions", "paused", "none")
            for key in ("id-of-sales", "x")
            for cursor, base in ((7, 7), (7, 5), (7, 8), (6, 6))
        ],
        *[i.FileMissed(name, instant_ms, file, "a fault") for name in ("files", "none") for instant_ms, file in _awaited()],
        *[i.FileSeen(name, instant_ms, file) for name in ("files", "none") for instant_ms, file in _awaited()],
        *[i.TableNotSeen(name, SALES, "it is not there") for name in ("versions", "none")],
        *[c.PutSchedule(request_id="new", schedule_id=name, definition=_schedule()) for name in ("paused", "new")],
        *[k(request_id="new", schedule_id=name) for k in _OF_SCHEDULES for name in ("paused", "queue", "none")],
        *[c.StartBackfill(request_id="new", schedule_id=name, first_ms=0, end_ms=10**8) for name in ("paused", "none")],
        *[c.FireSchedule(request_id="new", job_id="new", schedule_id=name) for name in ("paused", "none")],
        *[
            c.RerunJob(request_id="new", job_id="new", rerun_of="done3", parameters=(ParameterValue("run", text),))
            for text in ("7", "seven")
        ],
        c.RequestTaskManagerFileUpload(request_id="new", task_manager_id="tm1", file=TaskManagerFile.STDOUT),
        c.FileUploadCompleted("tm1", "tm1-1", "own log", "key"),
        i.UploadsOverdue(),
        *[c.ShutDownCluster(request_id="new", application_status=s, cancel_jobs=s is ApplicationStatus.FAILED) for s in ApplicationStatus],
        i.ContinueShutdown(),
        i.StartCluster(),
        *[
            c.RescaleJob(request_id="new", job_id=job, vertex_id=v, parallelism=2)
            for job in ("running", "adaptive", "x")
            for v in ("a", "b")
        ],
        i.AdaptJob("adaptive"),
        i.FailUnfulfillableRequests(),
        i.UnblockTaskManagers(),
        i.AttemptInputs("submissions", 10**6, 10**6),
        i.AttemptInternalInputs(("SlotRequestTimeout",)),
        i.RaiseFeatureLevel(FEATURE_LEVEL),
        i.RaiseFeatureLevel(FEATURE_LEVEL + 1),
        i.PoisonedInput("submissions", 3, "error", "r", 0, "job"),
        i.BindInputs("new topic", "id", 0),
        i.LoseInputs("submissions", 100),
        i.HeartbeatTimeout("tm1", "tm1-1", 9_000),
        i.SlotRequestTimeout(),
        i.RestartsDue("restarting"),
        i.CleanupsCompleted(("dirty",)),
        i.CleanupFailed("dirty", "no"),
        i.ArchivesWritten((i.WrittenArchive("dirty", "/archives/dirty.json", "digest", 10),)),
        i.ArchiveFailed("dirty", "no"),
        i.EvictJobs(),
        i.ConfigureQueues(),
        i.ReclaimSlots(),
        i.ExpireAnswers(LATER_MS),
        i.RequestWorkers(),
        i.FailWorkerRequests(),
        i.ReleaseTaskManagers(),
        i.WorkerTerminated("worker-3", "exit code 1"),
    ]


@pytest.mark.parametrize("state", ["busy", "eventful"])
def test_deciding_what_fits_changes_nothing_and_says_the_same_twice(state: str) -> None:
    master, before = _shared(state)
    for value in _fitting():
        first = master.decide(value, LATER_MS)
        assert master.decide(value, LATER_MS) == first, value
        assert master.digest() == before, value
    assert {type(v) for v in _fitting()} == set(i.INPUT_CLASSES) - {i.FollowUp}


@pytest.mark.parametrize("state", ["empty", "half", "busy", "eventful", "restarting"])
@pytest.mark.parametrize("cls", [x for x in i.INPUT_CLASSES if x is not i.FollowUp], ids=lambda x: x.__name__)
def test_deciding_anything_changes_nothing(cls: type[Any], state: str) -> None:
    """Every input from a topic leads to at least one event (P7), however senseless it is."""
    master, before = _shared(state)
    maker = ValueMaker(seed=i.INPUT_CLASSES.index(cls))
    from_topics = cls in typing.get_args(c.TaskManagerReport) or issubclass(cls, c.Request)
    values = [maker.record(cls) for _ in range(25)]
    for value in values:
        try:
            events = master.decide(value, LATER_MS)
        except (InvariantBroken, LookupError):
            assert not from_topics, value
            continue
        assert events or not from_topics, value
    assert master.digest() == before, f"one of these changes something: {values}"


@pytest.mark.parametrize("state", list(ExecutionState))
def test_deciding_what_becomes_of_attempts_in_a_restart_changes_nothing(state: ExecutionState) -> None:
    """Also where the outputs of others are lost, and where the strategy says no."""
    master = _master("restarting")
    before = master.digest()
    lost = (LostInput("a", 0), LostInput("a", 1), LostInput("none", 0), LostInput("a", -1))
    for job_id, subtasks in master.dispatcher.jobs.items():
        for subtask in subtasks.execution_graph.subtasks():
            attempt = (job_id, subtask.vertex_id, subtask.subtask_index, subtask.attempt)
            report = c.TaskStateReport("tm1", "tm1-1", *attempt, execution_state=state, lost_inputs=lost)
            events = master.decide(report, LATER_MS)
            assert master.decide(report, LATER_MS) == events
            assert master.digest() == before
    for job_id in ("rated", "reading", "rewriting", "whole"):
        master.decide(i.RestartsDue(job_id), LATER_MS)
        master.decide(c.CancelJob(request_id="new", job_id=job_id), LATER_MS)
        assert master.digest() == before


def test_deciding_a_consequence_changes_nothing() -> None:
    """At every point of a log at which one waits."""
    seen = set()
    for log in (_logs()["busy"], _logs()["eventful"], _logs()["restarting"]):
        fold = new_fold()
        master = fold.master
        for offset, value in enumerate(log):
            fold.fold_record(offset, START_MS, value)
            head = master.follow_ups.head()
            if head is None:
                continue
            before = master.digest()
            assert master.decide(head, LATER_MS)
            assert master.digest() == before
            seen.add(head.follow_up_type)
    assert seen <= set(FollowUpType)


def test_what_is_due_is_told_without_a_change() -> None:
    for state in ("empty", "half", "busy", "eventful", "restarting"):
        master, before = _shared(state)
        due = list(master.due(LATER_MS, 0))
        due_clean_ups(master, LATER_MS)
        due_archives(master, LATER_MS)
        assert master.digest() == before
        assert due[0] == i.ConfigureQueues()
        assert bool(due[1:]) == (state != "empty")
