"""The jobs, commands and nonsense that simulated clients send, as the bytes of records."""

import json
from random import Random
from typing import Any, Final

from eventflink.events.codec import PayloadCodec
from eventflink.events.inputs import BlockTaskManager, CancelJob, JobSubmission, RequestFileUpload, RescaleJob
from eventflink.events.topics import Topic
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.statuses import TaskFile

_SUBMISSIONS = PayloadCodec("SubmissionEnvelope")
_COMMANDS = PayloadCodec("CommandEnvelope")
_SHAPES: Final = ((1,), (2,), (1, 1), (2, 1), (2, 2), (1, 2, 1))
_AVRO_SHARE: Final = 0.5
_NO_RESTART_SHARE: Final = 0.15
_OTHER_SHARE: Final = 0.4


def make_graph(rng: Random, strategies: Random, number: int) -> dict[str, Any]:
    """Return the document of a job: a chain of vertices, most with a restart strategy, which `strategies` may replace by another."""
    shape = rng.choice(_SHAPES)
    vertices = [{"id": f"v{i}", "python": f"jobs:task{number}", "parallelism": p} for i, p in enumerate(shape)]
    edges = [{"from": f"v{i}", "to": f"v{i + 1}"} for i in range(len(shape) - 1)]
    strategy: dict[str, Any] = {"type": "none"}
    if rng.random() >= _NO_RESTART_SHARE:
        strategy = {"type": "fixed-delay", "attempts": 3 + int(rng.random() * 30), "delay_ms": int(rng.random() * 800)}
    strategy = _other_strategy(strategies, strategy)
    return {"name": f"job {number}", "vertices": vertices, "edges": edges, "restart_strategy": strategy}


def _other_strategy(rng: Random, strategy: dict[str, Any]) -> dict[str, Any]:
    """Return an exponential delay or a failure rate instead of some fixed delays, about as long and as often."""
    draw, attempts, delay_ms = rng.random(), strategy.get("attempts", 0), strategy.get("delay_ms", 0)
    if strategy["type"] != "fixed-delay" or draw >= _OTHER_SHARE:
        return strategy
    if draw < _OTHER_SHARE / 2:
        return {"type": "failure-rate", "attempts": attempts, "interval_ms": 20_000, "delay_ms": delay_ms}
    # Such a job restarts until it ends, so its waits must not grow longer than a run rests.
    return {"type": "exponential-delay", "delay_ms": 1 + delay_ms // 8, "max_delay_ms": 1 + delay_ms, "reset_threshold_ms": 5_000}


def submission(rng: Random, graph: dict[str, Any], job_id: str, request_id: str, reply_partition: int) -> bytes:
    """Return a record of `submissions`, in one of the encodings that clients may use."""
    if rng.random() < _AVRO_SHARE:
        return _SUBMISSIONS.encode(
            JobSubmission(
                job_id=job_id,
                request_id=request_id,
                reply_partition=reply_partition,
                actor="simulation",
                job_graph=parse_job_graph(graph, "job_graph"),
            ),
            sent_at_ms=0,
        )
    document = {"job_id": job_id, "request_id": request_id, "reply_partition": reply_partition, "actor": "simulation", "job_graph": graph}
    return json.dumps(document).encode()


def cancellation(rng: Random, job_id: str, request_id: str, reply_partition: int) -> bytes:
    """Return a record of `commands` that cancels a job."""
    if rng.random() < _AVRO_SHARE:
        return _COMMANDS.encode(CancelJob(request_id=request_id, reply_partition=reply_partition, job_id=job_id), sent_at_ms=0)
    document = {"type": "CancelJob", "job_id": job_id, "request_id": request_id, "reply_partition": reply_partition}
    return json.dumps(document).encode()


def file_request(job_id: str, request_id: str, reply_partition: int) -> bytes:
    """Return a record of `commands` that asks for a file of a job's first attempt."""
    return _COMMANDS.encode(
        RequestFileUpload(
            request_id=request_id,
            reply_partition=reply_partition,
            job_id=job_id,
            vertex_id="v0",
            subtask_index=0,
            attempt=1,
            file=TaskFile.LOG,
        ),
        sent_at_ms=0,
    )


def rescale(rng: Random, job_id: str, vertex_id: str, parallelism: int, request_id: str, reply_partition: int) -> bytes:
    """Return a record of `commands` that asks for another parallelism of a vertex."""
    if rng.random() < _AVRO_SHARE:
        command = RescaleJob(
            request_id=request_id, reply_partition=reply_partition, job_id=job_id, vertex_id=vertex_id, parallelism=parallelism
        )
        return _COMMANDS.encode(command, sent_at_ms=0)
    document = {"type": "RescaleJob", "job_id": job_id, "vertex_id": vertex_id, "parallelism": parallelism}
    return json.dumps(document | {"request_id": request_id, "reply_partition": reply_partition}).encode()


def task_manager_order(task_manager_id: str, duration_ms: int | None, request_id: str, reply_partition: int) -> bytes:
    """Return a record of `commands` that blocks a TaskManager for a time, or (None) unblocks it."""
    request = {"request_id": request_id, "reply_partition": reply_partition, "task_manager_id": task_manager_id}
    if duration_ms is None:
        return json.dumps({"type": "UnblockTaskManager", **request}).encode()
    command = BlockTaskManager(
        request_id=request_id,
        reply_partition=reply_partition,
        task_manager_id=task_manager_id,
        reason="an operator wants it so",
        duration_ms=duration_ms,
    )
    return _COMMANDS.encode(command, sent_at_ms=0)


def own_file_request(task_manager_id: str, request_id: str, reply_partition: int) -> bytes:
    """Return a record of `commands` that asks a TaskExecutor for its log."""
    request = {"request_id": request_id, "reply_partition": reply_partition, "task_manager_id": task_manager_id}
    return json.dumps({"type": "RequestTaskManagerFileUpload", **request}).encode()


def garbage(rng: Random, number: int) -> tuple[Topic, bytes | None]:
    """Return a record that masters have to refuse, and where it goes."""
    topic = rng.choice((Topic.SUBMISSIONS, Topic.COMMANDS, Topic.TASKMANAGERS))
    values = (
        None,
        b"",
        b"\x00\x01nonsense",
        b"\xc3\x01\x00\x00\x00\x00\x00\x00\x00\x00rest",
        b'{"broken": ',
        b'{"type": "Explode"}',
        b"[1, 2, 3]",
        json.dumps({"request_id": f"garbage-{number}", "reply_partition": 1, "job_graph": {"name": "x", "vertices": []}}).encode(),
        json.dumps({"type": "CancelJob", "job_id": "no such job!", "request_id": f"garbage-{number}", "reply_partition": 2}).encode(),
        json.dumps(
            {
                "name": "circle",
                "vertices": [{"id": "a", "python": "m:f"}, {"id": "b", "python": "m:f"}],
                "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}],
            }
        ).encode(),
    )
    return topic, rng.choice(values)
