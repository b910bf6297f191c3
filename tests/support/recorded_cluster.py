"""A rich recorded log, always the same: what the dashboard shows in its tests and pictures. `rest_server.py` serves it.

Twenty minutes of a small cluster, decided by the real leader: batch jobs and streams, user code that fails, a TaskManager that is lost, a
leader that dies and is followed after 0.9 s, requests that are refused, a job that waits for slots. TaskManagers do what a table says that
their tasks do.
"""

import heapq
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import count
from typing import Any, Final

from eventflink.events.effects import CheckpointOrder, ResumeStream, TaskCancellation, TaskDeployment
from eventflink.events.inputs import SlotReport, TaskManagerDeath, TaskManagerRegistration
from eventflink.events.topics import Topic
from eventflink.master.effects import Deployment, Effect
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import AttemptId, FailureCause
from eventflink.model.statuses import ExecutionState
from eventflink.model.stream_progress import StreamSourceProgress
from tests.support.cluster import (
    ScriptedCluster,
    acknowledgement,
    fixed_delay,
    graph,
    reports_of,
    state_report,
    stream,
    stream_start,
    vertex,
)

BEGAN_MS: Final = 1_795_312_800_000
"""2026-11-22T02:00:00Z."""

HOUR_MS: Final = 3_600_000
STEP_MS: Final = 500
DEPLOYING_MS: Final = 400
SLOT_COUNT: Final = 4
FIELD_MISSING: Final = FailureCause(
    "KeyError",
    "'sku'",
    'Traceback (most recent call last):\n  File "jobs/load.py", line 41, in load\n    key = row["sku"]\nKeyError: \'sku\'',
)


@dataclass
class Recording:
    """A scripted cluster whose tasks take their time: deployed, running, then ended as the tables say."""

    cluster: ScriptedCluster
    seconds: dict[tuple[str, str], float] = field(default_factory=dict)
    """How long the tasks of a job's vertex run; others run for ever."""
    failures: dict[tuple[str, str, int, int], FailureCause] = field(default_factory=dict)
    """Which attempts fail, by job, vertex, subtask and attempt."""
    down: set[str] = field(default_factory=set)
    """TaskManagers that say nothing any more."""
    _deployed: dict[AttemptId, Deployment] = field(default_factory=dict)
    _due: list[tuple[int, int, Callable[[], list[Effect]]]] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=count)

    def pass_seconds(self, seconds: float) -> None:
        """Let time pass; who has something to say by then says it."""
        for _ in range(round(seconds * 1000 / STEP_MS)):
            self.take(self.cluster.pass_time(STEP_MS))
            while self._due and self._due[0][0] <= self.cluster.wall_ms:
                self.take(heapq.heappop(self._due)[2]())

    def take(self, effects: list[Effect]) -> None:
        """Have TaskManagers do what they are told."""
        for effect in effects:
            if not isinstance(effect, Deployment) or effect.task_manager_id in self.down:
                continue
            match effect.payload:
                case TaskDeployment():
                    self._deployed[effect.payload.attempt_id] = effect
                    self._run(effect, effect.payload)
                case ResumeStream():
                    begun = stream_start(self._deployed[effect.payload.attempt_id], self._batch())
                    resumed = replace(begun, run_id=f"{begun.run_id}-after-{self._batch()}")
                    self._after(300, effect, partial(self.cluster.say, resumed))
                case TaskCancellation():
                    self._after(300, effect, partial(self._canceled, effect))
                case CheckpointOrder():
                    told = acknowledgement(effect, **self._progress(effect.payload))
                    self._after(500, effect, partial(self.cluster.say, told))

    def _progress(self, order: CheckpointOrder) -> dict[str, Any]:
        """Return where a stream stands: `totals` cannot keep up with what `orders` writes."""
        batch = self._batch()
        slow = order.vertex_id == "totals"
        behind = 18 * batch if slow else 0
        return {
            "batch_id": batch,
            "sources": (StreamSourceProgress(name="numbers", end_offset="", records_behind=behind),),
            "input_rows": 1_840 + batch % 97,
            "input_rows_per_second": 920.0,
            "processed_rows_per_second": 740.0 if slow else 1_310.5,
            "batch_duration_ms": 2_600 if slow else 700,
            "slowest_phase": "addBatch",
            "slowest_phase_ms": 2_300 if slow else 540,
            "state_rows": 12_000 + 3 * batch,
            "state_bytes": (12_000 + 3 * batch) * 96,
            "watermark_ms": self.cluster.wall_ms - (95_000 if slow else 12_000),
        }

    def _batch(self) -> int:
        return (self.cluster.wall_ms - BEGAN_MS) // 2_000

    def _run(self, effect: Deployment, task: TaskDeployment) -> None:
        where = (task.job_id, task.vertex_id)
        cause = self.failures.get((*where, task.subtask_index, task.attempt))
        lasts = self.seconds.get(where)
        delay = DEPLOYING_MS + 100 * (task.subtask_index % 5)
        running = list(reports_of(effect, ExecutionState.RUNNING))
        if lasts is None and cause is None:
            running.append(stream_start(effect))
        self._after(delay, effect, lambda: self.cluster.say(*running))
        if cause is not None:
            self._after(delay + 2_500, effect, lambda: self.cluster.say(state_report(effect, ExecutionState.FAILED, cause)))
        elif lasts is not None:
            ended = delay + round(lasts * 1000) + 700 * (task.subtask_index % 4)
            self._after(ended, effect, lambda: self.cluster.say(state_report(effect, ExecutionState.FINISHED)))

    def _canceled(self, effect: Deployment) -> list[Effect]:
        return self.cluster.say(state_report(effect, ExecutionState.CANCELED))

    def _after(self, delay_ms: int, effect: Deployment, act: Callable[[], list[Effect]]) -> None:
        def unless_down() -> list[Effect]:
            return [] if effect.task_manager_id in self.down else act()

        heapq.heappush(self._due, (self.cluster.wall_ms + delay_ms, next(self._numbers), unless_down))

    # -- what people and hosts do ------------------------------------------------------------------------------------

    def register(self, name: str, host: str, slots: int = SLOT_COUNT) -> None:
        """Have a TaskExecutor come."""
        self.down.discard(name)
        begun = self.cluster.wall_ms
        instance = f"{name}-{begun % 1_000_000}"
        self.take(self.cluster.say(TaskManagerRegistration(name, instance, host, 4242, slots, begun)))
        self.take(self.cluster.say(SlotReport(name, instance, (), (), number=1, ready=True)))

    def lose(self, name: str, reason: str) -> None:
        """Have a TaskExecutor die."""
        self.down.add(name)
        instance = self.cluster.master.resource_manager.task_managers[name].instance_id
        self.take(self.cluster.say(TaskManagerDeath(name, instance, reason)))

    def submit(self, job_id: str, document: Mapping[str, Any], actor: str) -> None:
        """Have somebody submit a job."""
        asked = {"job_graph": document, "job_id": job_id, "request_id": f"submit-{job_id}", "reply_partition": 0, "actor": actor}
        self.cluster.put(Topic.SUBMISSIONS, json.dumps(asked).encode())
        self.take(self.cluster.settle())

    def command(self, actor: str, request_id: str, **document: Any) -> None:
        """Have somebody command something."""
        self.take(self.cluster.command(actor=actor, request_id=request_id, **document))

    def fail_over(self, master_id: str, gap_ms: int) -> None:
        """Have the leader die, and another master follow it."""
        self.cluster.monotonic_ms += gap_ms
        self.cluster.wall_ms += gap_ms
        self.cluster.master_id = master_id
        released = self.cluster.fail_over()
        self.take(list(released.effects))
        self.take(self.cluster.settle())


def new_recording() -> Recording:
    """Return a cluster before anything has happened, at the time at which records begin."""
    return Recording(
        ScriptedCluster(MasterSettings(slot_request_timeout_ms=7_200_000), check_digests=False, check_states=False, wall_ms=BEGAN_MS)
    )


def recorded() -> Recording:
    """Return the whole story; each call tells the same one."""
    recording = new_recording()
    recording.failures = {
        ("flaky-5", "load", 0, 1): FIELD_MISSING,
        ("flaky-5", "load", 0, 2): FIELD_MISSING,
        ("nightly-3", "clean", 2, 1): FailureCause("OSError", "connection to s3.internal timed out"),
    }
    for vertex_id, seconds in (("extract", 25), ("clean", 40), ("dimensions", 15), ("join", 55), ("aggregate", 20), ("publish", 6)):
        for job_id in ("nightly-3", "nightly-4", "nightly-6"):
            recording.seconds[job_id, vertex_id] = seconds
    recording.seconds["backfill-7", "scan"] = 4_000
    recording.seconds["backfill-7", "write"] = 60
    recording.seconds["flaky-5", "extract"] = 12
    recording.seconds["flaky-5", "load"] = 30
    _first_leadership(recording)
    _second_leadership(recording)
    return recording


@cache
def recorded_cluster() -> ScriptedCluster:
    """Return the cluster at the end of the story; whoever changes it makes its own by `recorded`."""
    return recorded().cluster


def _first_leadership(recording: Recording) -> None:
    recording.pass_seconds(20)
    for name, host in (("tm-1", "a1"), ("tm-2", "a1"), ("tm-3", "a2"), ("tm-4", "a2")):
        recording.register(name, host)
    recording.pass_seconds(30)
    recording.submit("orders-1", _orders(), "ann")
    recording.pass_seconds(120)
    recording.submit("nightly-3", _nightly("nightly report"), "scheduler")
    recording.pass_seconds(200)
    recording.command("ann", "savepoint-1", type="TriggerSavepoint", job_id="orders-1", target_directory="/savepoints")
    recording.command("bob", "cancel-nobody", type="CancelJob", job_id="orders-9")
    recording.pass_seconds(90)
    recording.submit("nightly-4", _nightly("nightly report, again"), "scheduler")
    recording.pass_seconds(32)
    recording.lose("tm-3", "the process was killed by signal 9 (out of memory)")
    recording.pass_seconds(40)
    recording.command("bob", "cancel-nightly-4", type="CancelJob", job_id="nightly-4")
    recording.pass_seconds(140)


def _second_leadership(recording: Recording) -> None:
    recording.fail_over("master-2", 900)
    recording.pass_seconds(20)
    recording.register("tm-5", "a3", slots=6)
    recording.pass_seconds(60)
    recording.submit("flaky-5", _flaky(), "carol")
    recording.cluster.put(Topic.SUBMISSIONS, b'{"job_graph": {"name": "broken"', key=b"broken")
    recording.cluster.put(Topic.COMMANDS, b'{"type": "Nonsense", "actor": "bob"}')
    recording.take(recording.cluster.settle())
    recording.pass_seconds(90)
    recording.submit("nightly-6", _nightly("nightly report"), "scheduler")
    recording.pass_seconds(260)
    recording.submit("backfill-7", _backfill(), "bob")
    recording.pass_seconds(120)
    recording.command(
        "bob", "block-tm-4", type="BlockTaskManager", task_manager_id="tm-4", reason="its disk is nearly full", duration_ms=7_200_000
    )
    recording.submit("sessions-8", _sessions(), "ann")
    recording.pass_seconds(150)


def _orders() -> dict[str, Any]:
    """Return two streams with an edge between them."""
    orders, totals = stream("orders"), stream("totals")
    del orders["stream"]["sink"], totals["stream"]["sources"]
    edge = {"from": "orders", "to": "totals", "ship": "hash", "keys": ["sku"], "schema": "sku STRING, amount BIGINT"}
    more = {"restart_strategy": fixed_delay(5, 3_000), "checkpointing": {"interval_ms": 30_000}, "edges": [edge]}
    return graph(orders, totals, name="orders") | more


def _sessions() -> dict[str, Any]:
    return graph(stream("sessions", 3), name="sessions", checkpointing={"interval_ms": 60_000})


def _nightly(name: str) -> dict[str, Any]:
    return graph(
        vertex("extract", 4),
        vertex("clean", 4),
        vertex("dimensions", 2),
        vertex("join", 4),
        vertex("aggregate", 2),
        vertex("publish"),
        edges=[
            ("extract", "clean", "forward"),
            ("clean", "join", "hash"),
            ("dimensions", "join", "broadcast"),
            ("join", "aggregate", "hash"),
            ("aggregate", "publish", "rebalance"),
        ],
        owner="finance",
        description="What was ordered and paid on one day.",
        labels={"team": "finance", "tier": "1"},
        links={"runbook": "https://wiki.example.org/nightly"},
        name=name,
        restart_strategy={"type": "fixed-delay", "attempts": 3, "delay_ms": 4_000},
    )


def _flaky() -> dict[str, Any]:
    return graph(
        vertex("extract", 2),
        vertex("load"),
        edges=[("extract", "load", "rebalance")],
        name="flaky",
        restart_strategy={"type": "fixed-delay", "attempts": 1, "delay_ms": 5_000},
    )


def _backfill() -> dict[str, Any]:
    return graph(vertex("scan", 24), vertex("write", 4), edges=[("scan", "write", "hash")], name="backfill 2025")
