"""Inputs that anybody might send: half of what they say fits the cluster, the rest is stale, foreign, out of range or garbage.

Every choice is drawn from a seed, so the same seed and the same cluster make the same inputs.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from eventflink.events import inputs as c
from eventflink.events.topics import INBOUND, Topic
from eventflink.master import inputs as i
from eventflink.model.attempts import AttemptId, AttemptStatus, FailureCause, LostInput, OutputLocation, SlotStatus
from eventflink.model.features import FEATURE_LEVEL
from eventflink.model.resources import ExtendedResource, ResourceProfile
from eventflink.model.spark_ends import SparkEnd
from eventflink.model.statuses import DrillStepType, ExecutionState, TaskFile, TaskManagerFile
from tests.support.cluster import COMMANDS, REPORTS, ScriptedCluster, graph, vertex

ODD_TEXTS: Final = (
    *("", " ", ".", "..", "../../etc", "a/b", "/", "a\nb", "a\0b", "\t", "🦆", "\u202egnp.exe", "%s%n", "{}", "null", "-1"),
    *("x" * 128, "x" * 129, "x" * 10_000),
)
ODD_INTS: Final = (0, -1, 1, 2, 3, 1_024, 1_025, 10**6, 10**9, 2**31 - 1, -(2**31))
ODD_LONGS: Final = (*ODD_INTS, 2**31, 2**62, 2**63 - 1, -(2**63))

_TASK_MANAGERS: Final = ("tm0", "tm1", "tm2")
_STRATEGIES: Final[tuple[dict[str, Any] | None, ...]] = (
    None,
    {"type": "none"},
    {"type": "fixed-delay", "attempts": 2, "delay_ms": 100},
    {"type": "exponential-delay", "delay_ms": 10, "max_delay_ms": 1_000},
    {"type": "failure-rate", "attempts": 2, "interval_ms": 1_000, "delay_ms": 10},
)


class Liar:
    """Sends one input after the other to a cluster."""

    def __init__(self, cluster: ScriptedCluster, seed: int) -> None:
        self.cluster = cluster
        self.random = random.Random(seed)
        self.count = 0
        self.kinds: tuple[tuple[Callable[[], object], int], ...] = (
            (self.submit, 14),
            (self.cancel, 2),
            (self.suspend, 3),
            (self.resume, 3),
            (self.ask_for_a_file_of_a_task_manager, 1),
            (self.ask_for_a_file, 2),
            (self.block, 2),
            (self.unblock, 1),
            (self.snapshot, 1),
            (self.drill, 1),
            (self.register, 10),
            (self.report, 40),
            (self.depart, 3),
            (self.garbage, 2),
            (self.timer, 3),
            (self.pass_time, 8),
            (self.fail_over, 1),
        )

    def step(self) -> str:
        """Send one input, have it decided, and return of which kind it was."""
        self.count += 1
        kind = self.random.choices([kind for kind, _ in self.kinds], [weight for _, weight in self.kinds])[0]
        kind()
        return str(getattr(kind, "__name__", kind))

    # -- what there is to choose from --------------------------------------------------------------------------------

    def _one(self, fitting: Sequence[str], *others: str) -> str:
        if fitting and self.random.random() < 0.8:
            return self.random.choice(fitting)
        return self.random.choice((*others, *ODD_TEXTS))

    def _job(self) -> str:
        return self._one(list(self.cluster.master.dispatcher.jobs), "none", *self.cluster.master.dispatcher.forgotten)

    def _task_manager(self) -> str:
        return self._one(_TASK_MANAGERS, "none")

    def _instance(self, task_manager_id: str) -> str:
        known = self.cluster.master.resource_manager.task_managers.get(task_manager_id)
        gone = list(self.cluster.master.resource_manager.gone_instances)
        return self._one([] if known is None else [known.instance_id], "none", *gone[-3:])

    def _allocation(self) -> str:
        slots = self.cluster.master.slot_manager
        return self._one([*slots.allocations, *slots.pending], "none", f"allocation-{slots.next_allocation}")

    def _attempt(self) -> AttemptId:
        job_id = self._job()
        job = self.cluster.master.dispatcher.jobs.get(job_id)
        if job is None or self.random.random() < 0.1:
            return AttemptId(job_id, self._one(["a"]), self.random.choice(ODD_INTS), self.random.choice(ODD_INTS))
        subtask = self.random.choice(list(job.execution_graph.subtasks()))
        attempt = subtask.attempt if self.random.random() < 0.9 else subtask.attempt + self.random.choice((-1, 1))
        return AttemptId(job_id, subtask.vertex_id, subtask.subtask_index, attempt)

    def _holder(self, attempt: AttemptId) -> tuple[str, str]:
        job = self.cluster.master.dispatcher.jobs.get(attempt.job_id)
        execution = job.execution_graph.execution_of(attempt) if job is not None else None
        if execution is not None and execution.deployed_at_ms and self.random.random() < 0.9:
            return execution.task_manager_id, execution.instance_id
        task_manager_id = self._task_manager()
        return task_manager_id, self._instance(task_manager_id)

    # -- clients -----------------------------------------------------------------------------------------------------

    def submit(self) -> None:
        names = "abcd"[: self.random.randint(1, 4)]
        vertices = [vertex(name, self.random.randint(1, 3)) for name in names]
        for each in vertices:
            if self.random.random() < 0.2:
                each["resources"] = {"cpu_cores": self.random.choice((0.5, 2)), "task_heap_memory": self.random.choice(("1m", "1t"))}
        if self.random.random() < 0.4:
            for each in vertices:
                each["slot_sharing_group"] = "g" if self.random.random() < 0.9 else "h"
        edges = [(x, y, "rebalance") for n, x in enumerate(names) for y in names[n + 1 :] if self.random.random() < 0.6]
        strategy = self.random.choice(_STRATEGIES)
        more = {} if strategy is None else {"restart_strategy": strategy}
        job_id = f"job-{self.count}" if self.random.random() < 0.9 else self._job()
        self.cluster.submit(graph(*vertices, edges=edges, **more), job_id=job_id, request_id=self._request())

    def _request(self) -> str:
        return f"request-{self.count}" if self.random.random() < 0.9 else f"request-{self.random.randint(0, self.count)}"

    def _send(self, command: c.Command) -> None:
        command.request_id = self._request()
        command.reply_partition = 0 if self.random.random() < 0.8 else self.random.choice((3, -1, -2, 1_000, 10**9))
        self.cluster.put(Topic.COMMANDS, COMMANDS.encode(command, sent_at_ms=self.cluster.wall_ms))
        self.cluster.settle()

    def _token(self) -> str:
        return "" if self.random.random() < 0.8 else self.random.choice((f"leader-{self.cluster.terms}", "leader-0", *ODD_TEXTS))

    def cancel(self) -> None:
        self._send(c.CancelJob(job_id=self._job(), leader_id=self._token(), job_master_id=self._token()))

    def ask_for_a_file(self) -> None:
        attempt = self._attempt()
        file = self.random.choice(list(TaskFile))
        self._send(
            c.RequestFileUpload(
                job_id=attempt.job_id,
                vertex_id=attempt.vertex_id,
                subtask_index=attempt.subtask_index,
                attempt=attempt.attempt,
                file=file,
                leader_id=self._token(),
            )
        )

    def suspend(self) -> None:
        reason = self.random.choice(("a reason", *ODD_TEXTS))
        self._send(c.SuspendJob(job_id=self._job(), reason=reason, leader_id=self._token(), job_master_id=self._token()))

    def resume(self) -> None:
        self._send(c.ResumeJob(job_id=self._job(), leader_id=self._token()))

    def ask_for_a_file_of_a_task_manager(self) -> None:
        file, name = self.random.choice(list(TaskManagerFile)), self._one(["taskmanager.log"])
        self._send(c.RequestTaskManagerFileUpload(task_manager_id=self._task_manager(), file=file, name=name, leader_id=self._token()))

    def block(self) -> None:
        duration_ms = self.random.choice((0, 50, 500, *ODD_LONGS))
        reason = self.random.choice(("a reason", *ODD_TEXTS))
        self._send(c.BlockTaskManager(task_manager_id=self._task_manager(), reason=reason, duration_ms=duration_ms))

    def unblock(self) -> None:
        self._send(c.UnblockTaskManager(task_manager_id=self._task_manager(), leader_id=self._token()))

    def snapshot(self) -> None:
        known = self.cluster.master.upkeep.snapshots
        offset = self.random.choice((len(self.cluster.log) - 2, *ODD_LONGS))
        if not known or self.random.random() < 0.5:
            count, size = self.random.choice(ODD_INTS), self.random.choice(ODD_LONGS)
            report = c.ReportSnapshot(
                snapshot_id=self._one([f"snapshot-{self.count}"]),
                log_offset=offset,
                digest=self.random.choice(("digest", *ODD_TEXTS)),
                chunk_count=count,
                byte_count=size,
                taken_by=self._one(["m1"]),
            )
            self._send(report)
            return
        snapshot_id = self._one(list(known))
        record = known.get(snapshot_id)
        digest = record.digest if record is not None else "digest"
        at = record.log_offset if record is not None else offset
        self._send(c.ConfirmSnapshot(snapshot_id=snapshot_id, log_offset=at, digest=digest, confirmed_by=self._one(["m1", "m2"])))

    def drill(self) -> None:
        step = self.random.choice(list(DrillStepType))
        drill_id, master_id = self._one([f"drill-{self.count}"]), self._one(["master-1"])
        self._send(c.DrillStep(drill_id=drill_id, step=step, master_id=master_id, duration_ms=self.random.choice(ODD_LONGS)))

    # -- TaskExecutors -----------------------------------------------------------------------------------------------

    def register(self) -> None:
        name = self._task_manager()
        instance = self._instance(name) if self.random.random() < 0.3 else f"{name}-{self.count}"[:200]
        slots = self.random.choice((2, 4, 8) if self.random.random() < 0.8 else ODD_INTS)
        profile = None
        if self.random.random() < 0.15:
            extended = tuple(ExtendedResource(self._one(["gpu"]), self.random.choice(ODD_LONGS)) for _ in range(self.random.randint(0, 2)))
            profile = ResourceProfile(self.random.choice((1_000, *ODD_LONGS)), 2**20, 0, self.random.choice((0, *ODD_LONGS)), extended)
        begun = self.cluster.wall_ms if self.random.random() < 0.9 else self.random.choice(ODD_LONGS)
        self.cluster.say(
            c.TaskManagerRegistration(name, instance, self._one(["host"]), self.random.choice(ODD_INTS), slots, begun, profile)
        )

    def report(self) -> None:
        """Say several things in one record, mostly of attempts."""
        self.cluster.say(*[self._report() for _ in range(self.random.choice((1, 1, 1, 2, 3)))])

    def _count(self) -> int:
        return self.random.choice((1,) * 40 + ODD_INTS)

    def _report(self) -> c.TaskManagerReport:
        attempt = self._attempt()
        holder = self._holder(attempt)
        match self.random.choices(range(5), (60, 15, 8, 10, 7))[0]:
            case 0:
                state = self.random.choice(
                    (*[ExecutionState.FINISHED] * 10, ExecutionState.RUNNING, ExecutionState.FAILED, *ExecutionState)
                )
                outputs = tuple(
                    OutputLocation(
                        self._one(["default"]),
                        self._one(["/data"]),
                        rows=self._count(),
                        files=self._count(),
                        size_bytes=self._count(),
                        digest=self._one(["digest"]),
                    )
                    for _ in range(self.random.choice((0, 0, 0, 1, 2)))
                )
                cause = FailureCause(self._one(["E"]), self._one(["m"])) if self.random.random() < 0.5 else None
                lost = tuple(LostInput(self._one(["a", "b"]), self.random.choice(ODD_INTS)) for _ in range(self.random.choice((0, 0, 2))))
                return c.TaskStateReport(
                    *holder,
                    attempt.job_id,
                    attempt.vertex_id,
                    attempt.subtask_index,
                    attempt.attempt,
                    execution_state=state,
                    outputs=outputs,
                    cause=cause,
                    lost_inputs=lost,
                )
            case 1:
                return c.SlotOffer(*holder, self._allocation())
            case 2:
                return c.SlotOfferRefusal(*holder, self._allocation(), self._one(["no memory"]), "a", 0, 1)
            case 3:
                told = [self._attempt() for _ in range(self.random.randint(0, 4))]
                statuses = tuple(AttemptStatus(*a, self.random.choice(list(ExecutionState))) for a in told)
                slots = tuple(SlotStatus(self.random.choice(ODD_INTS), self._allocation()) for _ in range(self.random.randint(0, 2)))
                end = SparkEnd(self.random.choice(ODD_LONGS), self._one(["its heap was full"])) if self.random.random() < 0.5 else None
                return c.SlotReport(*holder, slots, statuses, spark_end=end)
            case _:
                request_id = self._one(list(self.cluster.master.uploads.pending))
                return c.FileUploadCompleted(*holder, request_id, self._one(["key"]), None if self.random.random() < 0.5 else "error")

    def depart(self) -> None:
        name = self._task_manager()
        kind = self.random.choice((c.Disconnection, c.TaskManagerDeath))
        self.cluster.say(kind(name, self._instance(name), self._one(["bye"])))

    # -- neither -----------------------------------------------------------------------------------------------------

    def garbage(self) -> None:
        """Send what is nothing, or a record that was changed on the way."""
        topic = self.random.choice(INBOUND)
        value = self.random.randbytes(self.random.randint(0, 60))
        if topic is Topic.TASKMANAGERS and self.random.random() < 0.7:
            whole = bytearray(REPORTS.encode([self._report()]))
            whole[self.random.randrange(10, len(whole))] = self.random.randrange(256)
            value = bytes(whole)
        self.cluster.put(topic, value, key=self.random.choice((None, b"", b"\xff", b"request-1", b"x" * 1_000)))
        self.cluster.settle()

    def timer(self) -> None:
        """Have an internal input come that is late, or right."""
        name = self._task_manager()
        value: i.MasterInput = self.random.choice(
            (
                i.HeartbeatTimeout(name, self._instance(name), 5_000),
                i.CleanupsCompleted((self._job(), self._job())),
                i.CleanupFailed(self._job(), "the disk is full"),
                i.RestartsDue(self._job()),
                i.SlotRequestTimeout(),
                i.FailUnfulfillableRequests(),
                i.UnblockTaskManagers(),
                i.EvictJobs(),
                i.ExpireAnswers(self.cluster.wall_ms),
                i.RaiseFeatureLevel(self.random.choice((0, FEATURE_LEVEL))),
            )
        )
        self.cluster.timer(value)

    def pass_time(self) -> None:
        self.cluster.pass_time(self.random.choice((1, 50, 200, 1_000, 5_000)))

    def fail_over(self) -> None:
        self.cluster.fail_over()
        self.cluster.settle()
