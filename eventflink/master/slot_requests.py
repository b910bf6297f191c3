"""The requests that wait for a slot, in the order in which they are served: by turns between jobs, in order within a job.

Which named queue of jobs is next is in `queue_shares.py`. Within a queue jobs of a higher priority are served first, and jobs of one
priority take turns.

A request gets the number of its round when it comes: each job has one turn in a round (one for each profile that it asks for), so a job
that has asked for 10,000 slots is in 10,000 rounds, and one that comes later is in the next. Requests are served round by round, and
within a round in the order in which they came. Requests for different profiles wait in lines of their own, so that one that nothing
fits holds up no other. All of this follows from the requests and their rounds alone; nothing of it is stored.
"""

from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from eventflink.master.canonical import require
from eventflink.model.attempts import AttemptId
from eventflink.model.job_queues import DEFAULT_QUEUE, JobQueue, counted_in
from eventflink.model.resources import ResourceProfile

Asked = ResourceProfile | None
"""What a request asks for; None: any slot will do."""

Turn = tuple[int, int, int, int, str]
"""What requests of a named queue are ordered by: the priority, the round, then when they came, then the id, which counts."""


class Line(NamedTuple):
    """Where a request waits."""

    queue: str
    """The named queue in which its job counts."""
    priority: int
    profile: Asked


@dataclass(slots=True)
class SlotRequest:
    """An attempt that waits for a slot."""

    attempt: AttemptId
    requested_at_ms: int
    profile: ResourceProfile | None = None
    round_number: int = 0
    """0 for all that came before the cluster knew rounds."""
    slot_sharing_group: str = ""
    """Whose vertices may share the slot; empty: it is to be the attempt's own."""
    queue: str = DEFAULT_QUEUE
    """As the job names it."""
    priority: int = 0
    """Of the job, within its queue."""

    @property
    def group_key(self) -> tuple[str, str]:
        """The job, and the group within it."""
        return self.attempt.job_id, self.slot_sharing_group


@dataclass(slots=True)
class RequestQueue:
    """The requests of one line."""

    round_numbers: list[int] = field(default_factory=list)
    """Those that somebody waits in, the lowest first."""
    by_round: dict[int, OrderedDict[str, None]] = field(default_factory=dict)
    count: int = 0
    """How many there are."""

    def add(self, allocation_id: str, request: SlotRequest) -> None:
        """Put a request, the newest of all, where it belongs."""
        members = self.by_round.get(request.round_number)
        if members is None:
            # A plain dictionary would be walked from its beginning each time, over all who were served before.
            members = self.by_round[request.round_number] = OrderedDict()
            insort(self.round_numbers, request.round_number)
        members[allocation_id] = None
        self.count += 1

    def remove(self, allocation_id: str, request: SlotRequest) -> None:
        """Take a request out."""
        members = self.by_round[request.round_number]
        del members[allocation_id]
        self.count -= 1
        if not members:
            del self.by_round[request.round_number]
            del self.round_numbers[bisect_left(self.round_numbers, request.round_number)]

    def in_turn(self) -> Iterator[str]:
        """Yield the allocation ids in the order in which they are served."""
        for number in self.round_numbers:
            yield from self.by_round[number]


@dataclass(slots=True)
class JobRequests:
    """The requests of one job for one profile: all of them wait in one line."""

    line: Line
    queue: RequestQueue
    requests: OrderedDict[str, None] = field(default_factory=OrderedDict)
    """In the order in which they came."""

    def next_round(self, served_round: int, pending: Mapping[str, SlotRequest]) -> int:
        """Return the round in which the next request of the job is; `served_round` is the highest that anybody was served in.

        A round that has begun to be served takes no more requests: else those that come one by one would hold back the next round.
        A queue that lags behind, because nothing fitted, is joined where it stands.
        """
        if not self.queue.round_numbers:
            return served_round + 1
        joined = min(served_round, self.queue.round_numbers[0]) + 1
        return max(joined, pending[next(reversed(self.requests))].round_number + 1) if self.requests else joined

    def add(self, allocation_id: str, request: SlotRequest) -> None:
        """Put the newest request where it belongs."""
        self.queue.add(allocation_id, request)
        self.requests[allocation_id] = None


@dataclass(slots=True)
class RequestQueues:
    """All requests, by the line in which they wait and by job; no line is empty, and nothing depends on the order in which they stand."""

    defined: Mapping[str, JobQueue] = field(default_factory=dict)
    """The named queues that are configured."""
    queues: dict[Line, RequestQueue] = field(default_factory=dict)
    by_job: dict[str, dict[Asked, JobRequests]] = field(default_factory=dict)

    @classmethod
    def of(cls, pending: Mapping[str, SlotRequest], defined: Mapping[str, JobQueue]) -> "RequestQueues":
        """Return the queues of requests that stand in the order in which they came."""
        made = cls(defined)
        for allocation_id, request in pending.items():
            made.of_job(request).add(allocation_id, request)
        return made

    def of_job(self, request: SlotRequest) -> JobRequests:
        """Return where a request belongs that comes now, and is added there at once."""
        of_job = self.by_job.setdefault(request.attempt.job_id, {})
        known = of_job.get(request.profile)
        if known is None:
            line = Line(counted_in(request.queue, self.defined), request.priority, request.profile)
            queue = self.queues.setdefault(line, RequestQueue())
            known = of_job[request.profile] = JobRequests(line, queue)
        return known

    def line_of(self, request: SlotRequest) -> Line:
        """Return where a request waits."""
        return self.by_job[request.attempt.job_id][request.profile].line

    def remove(self, allocation_id: str, request: SlotRequest) -> bool:
        """Take a request out; tell whether its job asks for this profile no more."""
        of_job = self.by_job[request.attempt.job_id]
        known = of_job[request.profile]
        known.queue.remove(allocation_id, request)
        if not known.queue.by_round:
            del self.queues[known.line]
        del known.requests[allocation_id]
        if known.requests:
            return False
        del of_job[request.profile]
        if not of_job:
            del self.by_job[request.attempt.job_id]
        return True

    def waiting(self, job_id: str, profile: Asked) -> dict[str, None]:
        """Return the requests of a job for a profile, the oldest first."""
        known = self.by_job.get(job_id, {}).get(profile)
        return known.requests if known is not None else {}

    def profiles_of(self, job_id: str) -> Iterable[Asked]:
        """Return for which profiles a job has requests that wait."""
        return list(self.by_job.get(job_id, ()))

    def first_of_jobs(self) -> Iterator[str]:
        """Yield of each job one request that waits."""
        for of_job in self.by_job.values():
            yield next(iter(next(iter(of_job.values())).requests))

    def counts(self) -> Counter[Asked]:
        """Return how many requests wait for each profile."""
        counted = Counter[Asked]()
        for line, queue in self.queues.items():
            counted[line.profile] += queue.count
        return counted

    def count_of(self, name: str) -> int:
        """Return how many requests of a named queue wait."""
        return sum(queue.count for line, queue in self.queues.items() if line.queue == name)

    def in_turn(self, name: str, profile: Asked) -> Iterator[str]:
        """Yield the requests of a named queue for a profile in the order in which they are served."""
        lines = [line for line in self.queues if line.queue == name and line.profile == profile]
        for line in sorted(lines, key=lambda each: -each.priority):
            yield from self.queues[line].in_turn()

    def validate(self, pending: Mapping[str, SlotRequest]) -> None:
        """Compare the queues with those that follow from the requests."""
        expected = RequestQueues.of(pending, self.defined)
        require(expected.queues == self.queues and expected.by_job == self.by_job, "the queues of requests are stale")
        for line, queue in self.queues.items():
            require(list(queue.in_turn()) == list(expected.queues[line].in_turn()), f"the queue for {line} is in another order")


def turn_of(allocation_id: str, request: SlotRequest) -> Turn:
    """Return what a request is ordered by, over all lines of its named queue."""
    return -request.priority, request.round_number, request.requested_at_ms, len(allocation_id), allocation_id
