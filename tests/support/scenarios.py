"""Rich states and logs: everything that a cluster can be in the middle of, made by the real leader.

Whether a replay comes to the digest after each of their decisions is for `tests/unit/core/test_replay.py` to ask, and for none of the many
others that want such a state: most of the time that it takes to make one would go to that.
"""

from dataclasses import replace
from typing import Any

from eventflink.events.inputs import (
    ConfirmSnapshot,
    Disconnection,
    DrillStep,
    FileUploadCompleted,
    ReportSnapshot,
    SlotOffer,
    SlotReport,
    TaskManagerDeath,
    TaskStateReport,
)
from eventflink.events.log_events import LogEvent
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import Topic
from eventflink.master.effects import Effect, due_file_watches
from eventflink.master.inputs import (
    ArchiveFailed,
    CleanupFailed,
    CleanupsCompleted,
    FileMissed,
    FileSeen,
    RecordsSeen,
    RequestWorkers,
    StartCluster,
    TableNotSeen,
    VersionsSeen,
    WorkerTerminated,
)
from eventflink.master.settings import Context, MasterSettings, WorkerSettings
from eventflink.model.attempts import FailureCause, LostInput
from eventflink.model.job_queues import JobQueue
from eventflink.model.resources import ExtendedResource, ResourceProfile
from eventflink.model.schedules import FollowedTable, OffsetRange, TableVersion
from eventflink.model.spark_ends import SparkEnd
from eventflink.model.statuses import DrillStepType, ExecutionState, FailoverStrategy
from tests.support.cluster import (
    START_MS,
    ScriptedCluster,
    archives_written,
    cancellations,
    decline,
    deployments,
    fixed_delay,
    graph,
    orders,
    reports_of,
    sharing,
    state_report,
    stream,
    vertex,
)


def snapshot(number: int, log_offset: int) -> ReportSnapshot:
    """Return what master-1 says when it has put a snapshot into Kafka."""
    return ReportSnapshot(
        request_id=f"snapshot-{number}",
        snapshot_id=f"snapshot-{number}",
        log_offset=log_offset,
        digest=f"digest-{log_offset}",
        chunk_count=3,
        byte_count=1_000,
        taken_by="master-1",
    )


def confirmation(report: ReportSnapshot, confirmed_by: str = "master-2") -> ConfirmSnapshot:
    """Return what a master says that came to the same digest."""
    return ConfirmSnapshot(
        request_id=f"{report.snapshot_id}-by-{confirmed_by}",
        snapshot_id=report.snapshot_id,
        log_offset=report.log_offset,
        digest=report.digest,
        confirmed_by=confirmed_by,
    )


def busy_cluster(seals: Seals = NO_SEALS, *, check_digests: bool = False) -> ScriptedCluster:
    """Return a cluster with something in every store: jobs of every status, slots of every state, requests, uploads, snapshots."""
    settings = MasterSettings(job_store_capacity=2, archives=True, drills_allowed=True)
    cluster = ScriptedCluster(settings, check_digests=check_digests, seals=seals)
    cluster.register("tm1", slots=6)
    cluster.register("tm2", slots=2, profile=ResourceProfile(500, 512 << 20))
    for number in range(4):
        cluster.run(cluster.submit(graph(vertex("a"), parameters={"run": {"type": "integer", "value": number}}), job_id=f"done{number}"))
    cluster.pass_time(1)  # done0 and done1 are evicted.
    cluster.leader.timers.clear()
    [dirty] = deployments(cluster.submit(graph(vertex("a")), job_id="dirty"))
    cluster.report(dirty, ExecutionState.FINISHED)
    running = deployments(cluster.submit(graph(vertex("a", 2), vertex("b"), edges=[("a", "b", "hash")]), job_id="running"))
    cluster.report(running[0], ExecutionState.RUNNING)
    [failed] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(3)), job_id="restarting"))
    cluster.report(failed, ExecutionState.FAILED)
    cancelled = deployments(cluster.submit(graph(vertex("a")), job_id="cancelling"))
    cluster.report(cancelled[0], ExecutionState.RUNNING)
    cluster.cancel("cancelling")
    failing = deployments(cluster.submit(graph(vertex("a", 2)), job_id="failing"))
    cluster.report(failing[0], ExecutionState.FAILED)
    suspended = deployments(cluster.submit(graph(vertex("a", 2)), job_id="suspended"))
    cluster.command(type="SuspendJob", job_id="suspended")
    for deployment in suspended:
        cluster.report(deployment, ExecutionState.CANCELED)
    cluster.register("tm4", slots=1, profile=ResourceProfile(extended_resources=(ExtendedResource("tpu", 3),)))
    documents = [sharing(name, 2, extended_resources={"tpu": 1}) for name in ("a", "b", "c")]
    together = deployments(cluster.submit(graph(*documents), job_id="sharing"))  # One of each vertex has a slot, the others wait.
    cluster.report(together[0], ExecutionState.RUNNING)
    cluster.report(together[1], ExecutionState.FINISHED)
    cluster.submit(graph(vertex("a", 9)), job_id="waiting")
    about: dict[str, Any] = {"owner": "finance", "labels": {"team": "finance"}, "links": {"runbook": "https://wiki.example.org/memory"}}
    large = vertex("b", task_heap_memory="512m"), vertex("c", 2, managed_memory="1t")
    cluster.submit(graph(vertex("a", 2), *large, description="asks for much of https://u:p4ss@h.org/", **about), job_id="demanding")
    cluster.command(type="RequestFileUpload", request_id="upload", job_id="running", vertex_id="a")
    cluster.command(type="RequestTaskManagerFileUpload", request_id="own log", task_manager_id="tm1")
    cluster.command(type="RequestTaskManagerFileUpload", request_id="own named", task_manager_id="tm2", file="NAMED", name="guardian.log")
    cluster.submit(graph(vertex("a", 3), vertex("b", 3), edges=[("a", "b", "forward")], scheduler="adaptive"), job_id="adaptive")
    cluster.send(snapshot(1, 10))
    cluster.send(confirmation(snapshot(1, 10)))
    cluster.send(snapshot(2, 20))
    put_schedule(cluster, "paused", cron="* * * * *")
    cluster.command(type="PauseSchedule", schedule_id="paused", reason="its source moves")
    return cluster


SALES = FollowedTable("/sales")
RAW = {"file": "/raw/{day}/_SUCCESS", "within": "90s"}


def put_schedule(cluster: ScriptedCluster, schedule_id: str, **more: Any) -> list[Effect]:
    """Have a job of one subtask, with a parameter of the instant, started by a schedule."""
    job = graph(vertex("a"), parameters={"day": {"type": "date"}}, keep="never")
    definition = {"instant_parameters": {"day": "date"}, "job": job, **more}
    return cluster.command(type="PutSchedule", schedule_id=schedule_id, definition=definition)


def _keep_schedules(cluster: ScriptedCluster) -> None:
    """Have schedules that start, queue and skip jobs, that follow one, change, are back-filled, and go."""
    put_schedule(cluster, "queue", interval="60s", overlap="queue", catch_up="all")
    put_schedule(cluster, "cancel", interval="60s", overlap="cancel", jitter="5s")
    put_schedule(cluster, "skip", cron="* * * * *", time_zone="Europe/Berlin")
    for _ in range(2):
        cluster.pass_time(60_000)
    cluster.pass_time(200_000)  # Some come too late.
    put_schedule(cluster, "skip", interval="1h", description="less often")
    cluster.command(type="ResumeSchedule", schedule_id="paused")
    cluster.command(type="StartBackfill", schedule_id="skip", first_ms=0, end_ms=30_000_000, concurrency=2)
    cluster.command(type="FireSchedule", schedule_id="skip", job_id="by-hand", parameters={"day": "2026-11-28"})
    cluster.pass_time(1)
    cluster.command(type="CancelBackfill", schedule_id="skip")
    cluster.command(type="DeleteSchedule", schedule_id="cancel")
    put_schedule(cluster, "after", after="upstream", instant_parameters={"day": "parameter"})
    upstream = graph(vertex("a"), name="upstream", parameters={"day": {"type": "date", "default": "2026-11-28"}})
    cluster.run(cluster.submit(upstream, job_id="upstream"))
    cluster.pass_time(1)
    cluster.command(type="PauseSchedule", schedule_id="after", reason="its target moves")
    cluster.run(cluster.submit(upstream, job_id="upstream-2"))
    put_schedule(cluster, "records", records={"topic": "orders", "begin": "earliest"})
    for first_offset in (5, 5, 9):
        seen = cluster.timer(RecordsSeen("records", "orders", "id-of-orders", (OffsetRange(0, first_offset, 10), OffsetRange(1, 0, 2))))
        cluster.run(seen)
    cluster.timer(RecordsSeen("records", "orders", "id-of-orders", (OffsetRange(0, 12, 13), OffsetRange(1, 0, 2))))
    put_schedule(cluster, "files", interval="60s", wait_for=RAW, catch_up="all")
    for _ in range(4):  # One is missed, one is seen, and one waits.
        cluster.pass_time(60_000)
        over = [each for each in due_file_watches(cluster.master, cluster.wall_ms) if each.is_over]
        for each in over:
            cluster.timer(FileMissed(each.schedule_id, each.instant_ms, each.file))
        for watch in [*due_file_watches(cluster.master, cluster.wall_ms)][1:2]:
            cluster.run(cluster.timer(FileSeen(watch.schedule_id, watch.instant_ms, watch.file)))
    put_schedule(cluster, "versions", versions={"table": {"path": "/sales"}, "format": "delta"}, overlap="allow")
    cluster.timer(TableNotSeen("versions", SALES, "it is not there"))
    for cursor, base, last in ((None, 3, 4), (3, 3, 4), (4, 4, 4), (4, 2, 2), (2, 5, 7)):
        place = TableVersion(cursor) if cursor is not None else None
        cluster.run(cluster.timer(VersionsSeen("versions", SALES, place, "id-of-sales", TableVersion(base), TableVersion(last))))


def _reuse(cluster: ScriptedCluster) -> None:
    """Have two jobs fail at their second vertex: another one takes the outputs of the first, those of the second are not kept for long."""
    for job_id, keep in (("kept", "7d"), ("let-go", "1ms")):
        document = graph(vertex("a"), vertex("b"), edges=[("a", "b", "hash")], restart_strategy={"type": "none"}, keep=keep)
        [first] = deployments(cluster.submit(document, job_id=job_id))
        [second] = deployments(cluster.report(first, ExecutionState.FINISHED))
        cluster.report(second, ExecutionState.FAILED)
    cluster.command(type="RerunJob", rerun_of="kept", job_id="reusing", failed=True)
    cluster.pass_time(1)


def _starve(cluster: ScriptedCluster) -> None:
    """Let a job fail that finds no slots, and somebody see to it."""
    cluster.submit(graph(vertex("a", 20)), job_id="starved")
    cluster.pass_time(400_000)
    cluster.command(type="DismissJobFailure", job_id="starved", reason="there is no room for it")


def eventful_cluster(*, check_digests: bool = False) -> ScriptedCluster:
    """Return a cluster whose log holds every event: what busy_cluster does, then losses, refusals, failovers, ends."""
    cluster = busy_cluster(check_digests=check_digests)
    cluster.put(Topic.SUBMISSIONS, b"garbage", key=b"some-job")
    cluster.put(Topic.COMMANDS, b'{"type": "Nonsense"}')
    cluster.settle()
    cluster.submit(graph(vertex("a")), job_id="running", request_id="duplicate")
    cluster.submit(graph(vertex("a")), job_id="running", request_id="duplicate")
    cluster.say(SlotReport("tm1", "tm1-1", (), (), spark_end=SparkEnd(START_MS, "its heap was full")))
    cluster.timer(CleanupFailed("dirty", "permission denied"), ArchiveFailed("dirty", "no space left"))
    _fall_at_inputs(cluster)
    cluster.say(TaskManagerDeath("tm2", "tm2-1", "exit code 137"))
    cluster.register("tm2", slots=3, instance="2")
    cluster.pass_time(600)
    effects = cluster.submit(graph(vertex("a", 2), restart_strategy=fixed_delay(2, 0)), job_id="refused")
    for deployment in deployments(effects)[:1]:
        effects += cluster.refuse(deployment)
    cluster.command(type="ResumeJob", job_id="suspended")
    cluster.cancel("suspended")
    cluster.cancel("waiting")
    _starve(cluster)
    cluster.say(FileUploadCompleted("tm1", "tm1-1", "upload", "key"), SlotOffer("tm1", "tm1-1", "none"))
    cluster.pass_time(700_000_000)  # Every answer and every id of an evicted job is beyond the horizon.
    cluster.lose(Topic.COMMANDS, 2)
    cluster.send(snapshot(3, len(cluster.log) - 1))
    cluster.send(snapshot(4, 5))
    cluster.send(confirmation(snapshot(3, 30), "master-3"))
    cluster.send(DrillStep(request_id="drill", drill_id="drill", step=DrillStepType.FREEZE, master_id="master-1", duration_ms=2_000))
    cluster.timer(CleanupsCompleted(("dirty",)), archives_written("dirty"))
    cluster.block("tm3", request_id="block unknown")
    cluster.register("tm3", slots=4, profile=ResourceProfile(extended_resources=(ExtendedResource("gpu", 1),)))
    cluster.submit(graph(vertex("a", 2, extended_resources={"gpu": 1}), vertex("b", extended_resources={"gpu": 9})), job_id="gpus")
    cluster.block("tm3", duration_ms=1_000)
    cluster.block("tm1")
    cluster.submit(graph(vertex("a"), vertex("b", extended_resources={"gpu": 1})), job_id="blocked")
    cluster.unblock("tm1")
    cluster.pass_time(1_000)
    cluster.pass_time(300_000)
    cluster.say(Disconnection("tm2", "tm2-2", "stopped"))
    cluster.register("tm2", slots=3, instance="1")
    stop_and_start(cluster)
    cluster.register("tm1", slots=40, instance="3")
    cluster.fail_over()
    cluster.run(cluster.submit(graph(vertex("a", 3), vertex("b", 3), edges=[("a", "b", "forward")]), job_id="last"))
    cluster.run(cluster.submit(graph(vertex("a")), job_id="bad"), lambda _: ExecutionState.FAILED)
    [one] = deployments(cluster.submit(graph(vertex("a")), job_id="caused"))
    cluster.report(one, ExecutionState.FAILED, cause=FailureCause("KeyError", "no 'x'", "Traceback"))
    cluster.pass_time(1)
    for scene in (_use_workers, _rescale, _take_checkpoints, _reuse, _keep_schedules, _exceed_time_limits, _close, _use_queues, _skip):
        scene(cluster)
    return cluster


def _exceed_time_limits(cluster: ScriptedCluster) -> None:
    """Have an attempt of a job end beyond its limit, and another one told to end, before the job has used up its time; one more job has."""
    cluster.register("tm6", slots=3)
    jobs: dict[str, dict[str, Any]] = {"limited": {"time_limit": "10d"}, "too-late": {"time_limit": "2s", "time_limit_warning": "1s"}}
    for job_id, more in jobs.items():
        document = graph(vertex("a", 2) | {"time_limit": "1s"}, restart_strategy=fixed_delay(3), **more)
        for deployment in deployments(cluster.submit(document, job_id=job_id)):
            cluster.report(deployment, ExecutionState.RUNNING)
    [ended, *_] = cancellations(cluster.pass_time(1_000))
    cluster.say(state_report(ended, ExecutionState.CANCELED))
    cluster.pass_time(1_000)


def _use_queues(cluster: ScriptedCluster) -> None:
    """Configure queues, have a job wait for its own, and another take a slot back from who borrows it."""
    queues = (JobQueue("adhoc", 1), JobQueue("batch", 2, weight=3, borrowing_limit=1))
    cluster.master.settings = replace(cluster.master.settings, queues=queues, queue_reclaim_after_ms=1_000)
    cluster.pass_time(1)
    cluster.register("tm8", slots=3, profile=ResourceProfile(extended_resources=(ExtendedResource("fpga", 1),)))
    asked: dict[str, Any] = {"extended_resources": {"fpga": 1}}
    for deployment in deployments(cluster.submit(graph(vertex("a", 4, **asked), queue="batch", priority=1), job_id="queued")):
        cluster.report(deployment, ExecutionState.RUNNING)
    cluster.submit(graph(vertex("a", **asked), queue="adhoc"), job_id="entitled")
    cluster.pass_time(1_000)


def _close(cluster: ScriptedCluster) -> None:
    """Have a job fail whose closing vertices then run, one of them again, and another one whose closing vertices are cancelled."""
    cluster.register("tm7", slots=4)
    document = graph(vertex("a"), vertex("end", 2) | {"runs": "on-failure", "retries": 1}, vertex("done") | {"runs": "on-success"})
    for job_id in ("closed", "not-closed"):
        [failing] = deployments(cluster.submit(document | {"restart_strategy": {"type": "none"}}, job_id=job_id))
        one, _ = deployments(cluster.report(failing, ExecutionState.FAILED))
        cluster.report(one, ExecutionState.FAILED)
    cluster.command(type="CancelJob", job_id="not-closed", closing=True)


def _skip(cluster: ScriptedCluster) -> None:
    """Have vertices of a job skipped, once for good, and once until what has decided that is lost and made again with rows."""
    cluster.register("tm9", slots=4, profile=ResourceProfile(extended_resources=(ExtendedResource("tpu", 1),)))
    asked: dict[str, Any] = {"extended_resources": {"tpu": 1}}
    no_rows, rows = {"when": {"no_rows_of": "a"}}, {"when": {"rows_of": "a"}}
    vertices = [vertex("a", **asked), vertex("b", **asked) | no_rows, vertex("c", **asked), vertex("d", 2, **asked) | rows]
    document = graph(*vertices, edges=[("b", "c", "hash"), ("a", "d", "hash")], restart_strategy=fixed_delay(3))
    for job_id in ("skips", "skipped"):
        [first] = deployments(cluster.submit(document, job_id=job_id))
        one, other = deployments(cluster.report(first, ExecutionState.FINISHED))
        lost = (LostInput("a", 0),) if job_id == "skips" else ()
        cluster.say(replace(state_report(one, ExecutionState.FAILED), lost_inputs=lost))
        cluster.report(other, ExecutionState.FINISHED)


def stop_and_start(cluster: ScriptedCluster) -> None:
    """Shut a cluster down while a job runs, and start it again on its log."""
    cluster.submit(graph(vertex("a", 2)), job_id="lasting")
    cluster.shut_down(diagnostics="maintenance")
    cluster.run(cluster.pass_time(100))
    for task_manager_id, task_manager in list(cluster.master.resource_manager.task_managers.items()):
        cluster.say(Disconnection(task_manager_id, task_manager.instance_id, "stopped"))
    cluster.run(cluster.pass_time(100))
    cluster.pass_time(31_000)  # The data of some jobs are never removed: that is not waited for any longer.
    cluster.fail_over()
    cluster.timer(StartCluster())
    cluster.pass_time(100)


def restarting_cluster() -> ScriptedCluster:
    """Return a cluster whose jobs are in the middle of restarts: a lost output is written again, a whole job ends to restart."""
    cluster = ScriptedCluster(check_digests=False)
    cluster.register("tm1", slots=12)
    rate = {"type": "failure-rate", "attempts": 2, "interval_ms": 60_000, "delay_ms": 0}
    [rated] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=rate), job_id="rated"))
    cluster.report(rated, ExecutionState.FAILED)
    cluster.report(deployments(cluster.pass_time(1))[0], ExecutionState.RUNNING)
    document = graph(vertex("a", 2), vertex("b", 3), edges=[("a", "b", "hash")], restart_strategy={"type": "exponential-delay"})
    for job_id in ("reading", "rewriting"):
        a0, a1 = deployments(cluster.submit(document, job_id=job_id))
        cluster.report(a0, ExecutionState.FINISHED)
        b0, b1, _ = deployments(cluster.report(a1, ExecutionState.FINISHED))
        cluster.report(b0, ExecutionState.RUNNING)
        if job_id == "rewriting":
            lost = FailureCause("InputLost", "input 'a' cannot be read")
            offer, failed = reports_of(b1, ExecutionState.FAILED, lost)
            assert isinstance(failed, TaskStateReport)
            failed.lost_inputs = (LostInput("a", 0),)
            cluster.say(offer, failed)
    cluster.settings = MasterSettings(failover_strategy=FailoverStrategy.FULL)
    cluster.fail_over()
    rescaling = deployments(cluster.submit(graph(vertex("a", 2), scheduler="adaptive"), job_id="rescaling"))
    cluster.report(rescaling[0], ExecutionState.RUNNING)
    cluster.rescale("a", 3, job_id="rescaling")
    one, other = deployments(cluster.submit(graph(vertex("a", 2), restart_strategy=fixed_delay(1)), job_id="whole"))[-2:]
    cluster.report(other, ExecutionState.RUNNING)
    cluster.report(one, ExecutionState.FAILED)
    return cluster


def _use_workers(cluster: ScriptedCluster) -> None:
    """Ask the resource driver for workers: one fails, one comes, works and is released, one is still awaited."""
    profile = ResourceProfile(managed_bytes=1 << 30)
    cluster.master.settings = replace(
        cluster.master.settings, workers=WorkerSettings(slot_count=2, slot_profile=profile, max_slots=100, idle_timeout_ms=1_000)
    )
    effects = cluster.submit(graph(vertex("a", managed_memory="1g")), job_id="elastic")
    cluster.pass_time(1)
    cluster.timer(WorkerTerminated("worker-1", "exit code 1"))
    cluster.pass_time(1)
    effects += cluster.register("worker-2", slots=2, profile=profile)
    cluster.run(effects)
    cluster.pass_time(1_000)
    cluster.submit(graph(vertex("a", managed_memory="1g")), job_id="awaiting")
    cluster.pass_time(1)


def _rescale(cluster: ScriptedCluster) -> None:
    """Have a job that runs rescaled by a user; its attempts end first."""
    cluster.register("tm4", slots=9)
    [moved, *_] = deployments(cluster.submit(graph(vertex("a", 2)), job_id="rescaled"))
    cluster.report(moved, ExecutionState.RUNNING)
    cluster.run(cluster.rescale("a", 3, job_id="rescaled", request_id="rescale"))
    cluster.pass_time(1)


def _take_checkpoints(cluster: ScriptedCluster) -> None:
    """Have checkpoints of a job complete, and one too many fail: its streams start again."""
    cluster.register("tm5", slots=2)
    document = graph(stream("s", 2), restart_strategy=fixed_delay(3), checkpointing={"interval_ms": 100})
    for deployment in deployments(cluster.submit(document, job_id="streaming")):
        cluster.start_stream(deployment)
    for batch_id in (3, 7):
        cluster.acknowledge(*orders(cluster.pass_time(100)), batch_id=batch_id, state_rows=5, watermark_ms=START_MS)
    [order, _] = orders(cluster.pass_time(100))
    cluster.run(cluster.say(decline(order)))
    for deployment in deployments(cluster.pass_time(1_000)):
        cluster.start_stream(deployment, restored_batch_id=8)
    cluster.acknowledge(orders(cluster.pass_time(100))[0], batch_id=9)


def _fall_at_inputs(cluster: ScriptedCluster) -> None:
    """Have an input parked and tried again, and two leaders in a row crash at another one, which the third refuses; the next is decided."""
    _park_an_input(cluster)
    cluster.command(type="ReleaseParkedInput", parked_id="parked-1")
    cluster.put(Topic.COMMANDS, b'{"type": "CancelJob", "job_id": "none", "request_id": "suspect", "reply_partition": 0}')
    cluster.put(Topic.COMMANDS, b'{"type": "CancelJob", "job_id": "none", "request_id": "innocent", "reply_partition": 0}')
    for _ in range(2):
        cluster.fail_over()
        cluster.decide()
        cluster.read_back(len(cluster.log) - 1)
    cluster.fail_over()
    cluster.settle()


def with_queues() -> ScriptedCluster:
    """Return a cluster with two queues of jobs, one of which is full while its jobs wait."""
    cluster = ScriptedCluster(MasterSettings(queues=(JobQueue("adhoc", 1, borrowing_limit=1), JobQueue("etl", 8, weight=3))))
    cluster.pass_time(1)
    cluster.register("tm", slots=4)
    cluster.submit(graph(vertex("a", 5), queue="adhoc", priority=7), job_id="flood")
    return cluster


def with_something_parked() -> ScriptedCluster:
    """Return a cluster with an input that could not be decided."""
    cluster = ScriptedCluster()
    cluster.register()
    _park_an_input(cluster)
    return cluster


def _park_an_input(cluster: ScriptedCluster) -> None:
    """Have a leader fail at the first look for workers."""
    decide = cluster.master._deciders[RequestWorkers]

    def failing(_value: RequestWorkers, _context: Context) -> list[LogEvent]:
        raise ZeroDivisionError("a defect")

    cluster.master._deciders[RequestWorkers] = failing
    cluster.timer(RequestWorkers())
    cluster.master._deciders[RequestWorkers] = decide


def ended_streams(cluster: ScriptedCluster) -> None:
    """Run a job of streams that takes a checkpoint and is cancelled."""
    cluster.register(slots=8)
    document = graph(stream("s", 2), checkpointing={"interval_ms": 100})
    tasks = deployments(cluster.submit(document))
    for task in tasks:
        cluster.start_stream(task)
    cluster.acknowledge(*orders(cluster.pass_time(100)), batch_id=3, state_rows=5, state_bytes=70, watermark_ms=START_MS)
    cluster.say(*[state_report(order, ExecutionState.CANCELED) for order in cancellations(cluster.cancel())])
