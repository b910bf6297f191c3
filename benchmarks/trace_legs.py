"""From stamps and from what stands in Kafka to the legs of each job's way: client → reply, and reply → FINISHED.

The points of a way are named below in their order. Those in a process are stamps (`processes/trace.py`), by the monotonic clock; those in
Kafka are the append times of the records, by the broker's clock, which are whole milliseconds: each is taken to be in the middle of its
millisecond, so that means are right, and a single leg beside such a point may be wrong by half of one. A stamp of a record that has no
offset yet counts by its place: what one process alone appends to a partition stands there in the order in which it was produced.

What a leg costs is known where both of its ends are stamps of one process, and where no other job is under way: it is all that this process
used meanwhile, in all of its threads.
"""

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from eventflink.events.codec import DecisionCodec, PayloadCodec, ReportsCodec
from eventflink.events.effects import TaskDeployment
from eventflink.events.inputs import TaskStateReport
from eventflink.events.log_events import JobResultStored, RequestAccepted
from eventflink.events.topics import Topic
from eventflink.model.statuses import ExecutionState
from eventflink.processes.trace import Stamp

HALF_MS_NS: Final = 500_000
KAFKA: Final = "Kafka"
CLIENT: Final = "client"
LEADER: Final = "leader"
TASK_EXECUTOR: Final = "TaskExecutor"

TO_REPLY: Final = (
    "sent",
    "submission in Kafka",
    "submission received",
    "deciding",
    "decided",
    "decision in Kafka",
    "decision read back",
    "reply released",
    "reply in Kafka",
    "answered",
)
TO_FINISHED: Final = (
    "reply released",
    "deployment released",
    "deployment in Kafka",
    "deployment received",
    "task ordered",
    "task launched",
    "task ended",
    "report sent",
    "report in Kafka",
    "report received",
    "deciding the end",
    "end decided",
    "end in Kafka",
    "FINISHED seen",
)
DELIVERY: Final = ("decided", "decision delivered", "decision read back")
"""A way beside the others: when the leader learns from its producer what it waits to read back."""


class TraceIncomplete(Exception):
    """What was traced does not fit what stands in Kafka; the message says where."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When a point was reached, by the monotonic clock, and what the process there had used of the processor by then."""

    at_ns: int
    process: str
    cpu_ns: int | None = None


Timeline = dict[str, Moment]
"""The points of one job's way that were seen."""


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """A record as it stands in a topic."""

    offset: int
    timestamp_ms: int
    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Leg:
    """From one point to the next; times in milliseconds, over all jobs of which both ends were seen."""

    start: str
    end: str
    place: str
    """The process in which it is spent, or both ends' where it leads from one to another."""
    mean_ms: float
    median_ms: float
    p99_ms: float
    cpu_ms: float | None
    """Of that process, on average; None where it leads from one to another, or jobs overlap."""
    jobs: int


def legs(points: Sequence[str], timelines: Iterable[Timeline], *, with_cpu: bool) -> list[Leg]:
    """Return the legs between these points; one that no job has is left out."""
    seen = list(timelines)
    found = []
    for start, end in itertools.pairwise(points):
        pairs = [(each[start], each[end]) for each in seen if start in each and end in each]
        if not pairs:
            continue
        waits = sorted((b.at_ns - a.at_ns) / 1e6 for a, b in pairs)
        costs = [(b.cpu_ns - a.cpu_ns) / 1e6 for a, b in pairs if a.cpu_ns is not None and b.cpu_ns is not None]
        places = list(dict.fromkeys(moment.process for moment in pairs[0]))
        found.append(
            Leg(
                start,
                end,
                " → ".join(places),
                round(statistics.fmean(waits), 3),
                round(statistics.median(waits), 3),
                round(waits[min(len(waits) - 1, len(waits) * 99 // 100)], 3),
                round(statistics.fmean(costs), 3) if with_cpu and len(places) == 1 and costs else None,
                len(pairs),
            )
        )
    return found


@dataclass(slots=True)
class Evidence:
    """What is known of one cluster's run: the records of its topics, from the first on, and the stamps of its processes."""

    records: Mapping[Topic, Sequence[KafkaRecord]]
    leader: Sequence[Stamp]
    task_executor: Sequence[Stamp]
    clock_ns: int
    """What the broker's clock is ahead of the monotonic one."""
    _leader: "_Stamps" = field(init=False)
    _task_executor: "_Stamps" = field(init=False)

    def __post_init__(self) -> None:
        """Order the stamps."""
        self._leader, self._task_executor = _Stamps(LEADER, self.leader), _Stamps(TASK_EXECUTOR, self.task_executor)

    def in_kafka(self, record: KafkaRecord) -> Moment:
        """Return when the record was appended."""
        return Moment(record.timestamp_ms * 1_000_000 + HALF_MS_NS - self.clock_ns, KAFKA)

    def produced(self, stamps: "_Stamps", topic: Topic) -> list[Moment]:
        """Return when each record of a topic was produced by the one process that writes it, in their order.

        Raises:
            TraceIncomplete: there are more or fewer.

        """
        moments, records = stamps.produced.get(topic, []), self.records[topic]
        if len(moments) != len(records):
            raise TraceIncomplete(f"the {stamps.process} produced {len(moments)} records to '{topic}', and {len(records)} are there")
        return moments

    def submission(self, record: KafkaRecord) -> Timeline:
        """Return the first points of the way of the job that this record of `submissions` submits."""
        timeline = {"submission in Kafka": self.in_kafka(record)}
        _add(timeline, "submission received", self._leader.received.get((Topic.SUBMISSIONS, record.offset)))
        return timeline

    def decision(self, offset: int, names: Sequence[str]) -> Timeline:
        """Return the points of a decision of the log under these names: deciding, decided, in Kafka, delivered, read back."""
        decided = self.produced(self._leader, Topic.LOG)[offset]
        known = [
            self._leader.deciding.get(decided.at_ns),
            decided,
            self.in_kafka(self.records[Topic.LOG][offset]),
            self._leader.delivered.get(offset),
            self._leader.received.get((Topic.LOG, offset)),
        ]
        return {name: moment for name, moment in zip(names, known, strict=False) if moment is not None}

    def reply(self, record: KafkaRecord) -> Timeline:
        """Return when a record of `replies` was released and appended."""
        timeline = {"reply in Kafka": self.in_kafka(record)}
        _add(timeline, "reply released", self._leader.replied.get(record.key))
        return timeline

    def deployment(self, job_id: str, record: KafkaRecord) -> Timeline:
        """Return the points from the release of a job's only task, which this record of `deployments` deploys, to its end."""
        timeline = {"deployment released": self.produced(self._leader, Topic.DEPLOYMENTS)[record.offset]}
        timeline["deployment in Kafka"] = self.in_kafka(record)
        _add(timeline, "deployment received", self._task_executor.received.get((Topic.DEPLOYMENTS, record.offset)))
        for name, point in (("task ordered", "launching"), ("task launched", "launched"), ("task ended", "ended")):
            _add(timeline, name, self._task_executor.of_job.get((point, job_id)))
        return timeline

    def report(self, record: KafkaRecord) -> Timeline:
        """Return the points of this record of `taskmanagers`, up to the leader."""
        timeline = {"report sent": self.produced(self._task_executor, Topic.TASKMANAGERS)[record.offset]}
        timeline["report in Kafka"] = self.in_kafka(record)
        _add(timeline, "report received", self._leader.received.get((Topic.TASKMANAGERS, record.offset)))
        return timeline


class _Stamps:
    """The stamps of one process, by what they are about."""

    def __init__(self, process: str, stamps: Iterable[Stamp]) -> None:
        self.process = process
        self.received: dict[tuple[str, int], Moment] = {}
        self.produced: dict[str, list[Moment]] = {}
        self.delivered: dict[int, Moment] = {}
        self.replied: dict[str, Moment] = {}
        """The first release to each key; a repetition is another's way."""
        self.deciding: dict[int, Moment] = {}
        """When the decision began that was produced then."""
        self.of_job: dict[tuple[str, str], Moment] = {}
        began: Moment | None = None
        for each in stamps:
            moment = Moment(each.at_ns, process, each.cpu_ns)
            match each.point:
                case "received":
                    self.received[each.topic, each.offset] = moment
                case "delivered":
                    self.delivered[each.offset] = moment
                case "deciding":
                    began = moment
                case "produced":
                    if each.topic == Topic.LOG and began is not None:
                        self.deciding[each.at_ns] = began
                        began = None
                    if each.topic == Topic.REPLIES:
                        self.replied.setdefault(each.subject, moment)
                    self.produced.setdefault(each.topic, []).append(moment)
                case _:
                    self.of_job.setdefault((each.point, each.subject), moment)


def _add(timeline: Timeline, point: str, moment: Moment | None) -> None:
    if moment is not None:
        timeline[point] = moment


_ACCEPTING: Final = ("deciding", "decided", "decision in Kafka", "decision delivered", "decision read back")
_ENDING: Final = ("deciding the end", "end decided", "end in Kafka")


def floor_timelines(evidence: Evidence) -> dict[str, Timeline]:
    """Return the way of each request to the floor, by its id: the n-th request has the n-th record of the log, and nothing is decided.

    Raises:
        TraceIncomplete: the records and the stamps do not fit each other.

    """
    replies = {record.key: record for record in evidence.records[Topic.REPLIES]}
    timelines = {}
    for record in evidence.records[Topic.SUBMISSIONS]:
        timeline = evidence.submission(record) | evidence.decision(record.offset, _ACCEPTING) | evidence.reply(replies[record.key])
        _add(timeline, "deciding", timeline.get("submission received"))
        timelines[record.key] = timeline
    return timelines


def cluster_timelines(evidence: Evidence) -> dict[str, Timeline]:
    """Return the way of each job of one task, by its id, as far as it came.

    Raises:
        TraceIncomplete: the records and the stamps do not fit each other.

    """
    timelines: dict[str, Timeline] = {}
    for record in evidence.records[Topic.SUBMISSIONS]:
        timelines.setdefault(record.key, evidence.submission(record))  # The first: a repetition is of no account.
    replies = {record.key: record for record in reversed(evidence.records[Topic.REPLIES])}
    decisions = DecisionCodec()
    for record in evidence.records[Topic.LOG]:
        for event in decisions.decode(record.value).events:
            match event:
                case RequestAccepted(request_id=request_id, subject=job_id) if job_id in timelines and request_id in replies:
                    timelines[job_id] |= evidence.decision(record.offset, _ACCEPTING) | evidence.reply(replies[request_id])
                case JobResultStored(job_id=job_id) if job_id in timelines:
                    timelines[job_id] |= evidence.decision(record.offset, _ENDING)
    _add_tasks(evidence, timelines)
    return timelines


def _add_tasks(evidence: Evidence, timelines: dict[str, Timeline]) -> None:
    deployments = PayloadCodec("DeploymentEnvelope")
    for record in evidence.records[Topic.DEPLOYMENTS]:
        payload, _ = deployments.decode(record.value)
        if isinstance(payload, TaskDeployment) and payload.job_id in timelines:
            timelines[payload.job_id] |= evidence.deployment(payload.job_id, record)
    reports = ReportsCodec("TaskManagerEnvelope")
    for record in evidence.records[Topic.TASKMANAGERS]:
        for report in reports.decode(record.value):
            if isinstance(report, TaskStateReport) and report.execution_state is ExecutionState.FINISHED and report.job_id in timelines:
                timelines[report.job_id] |= evidence.report(record)
