"""The requests that wait for a slot, in the order in which they are served: by turns between jobs, in order within a job.

A request gets the number of its round when it comes: each job has one turn in a round (one for each profile that it asks for), so a job
that has asked for 10,000 slots is in 10,000 rounds, and one that comes later is in the next. Requests are served round by round, and
within a round in the order in which they came. Requests for different profiles wait in queues of their own, so that one that nothing
fits holds up no other. All of this follows from the requests and their rounds alone; nothing of it is stored.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from eventflink.master.canonical import require
from eventflink.model.attempts import AttemptId
from eventflink.model.resources import ResourceProfile

Asked = ResourceProfile | None
"""What a request asks for; None: any slot will do."""

Turn = tuple[int, int, int, str]
"""What requests are ordered by: the round, then when they came, then the id, which counts."""


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

    @property
    def group_key(self) -> tuple[str, str]:
        """The job, and the group within it."""
        return self.attempt.job_id, self.slot_sharing_group


@dataclass(slots=True)
class RequestQueue:
    """The requests for one profile."""

    round_numbers: list[int] = field(default_factory=list)
    """Those that somebody waits in, the lowest first."""
    by_round: dict[int, OrderedDict[str, None]] = field(default_factory=dict)
    by_job: dict[str, OrderedDict[str, None]] = field(default_factory=dict)
    """Allocation ids by job, in the order in which they came."""
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
        self.by_job.setdefault(request.attempt.job_id, OrderedDict())[allocation_id] = None
        self.count += 1

    def remove(self, allocation_id: str, request: SlotRequest) -> bool:
        """Take a request out; tell whether it was the last one of its job."""
        members = self.by_round[request.round_number]
        del members[allocation_id]
        self.count -= 1
        if not members:
            del self.by_round[request.round_number]
            del self.round_numbers[bisect_left(self.round_numbers, request.round_number)]
        of_job = self.by_job[request.attempt.job_id]
        del of_job[allocation_id]
        if not of_job:
            del self.by_job[request.attempt.job_id]
        return not of_job

    def in_turn(self) -> Iterator[str]:
        """Yield the allocation ids in the order in which they are served."""
        for number in self.round_numbers:
            yield from self.by_round[number]


@dataclass(slots=True)
class RequestQueues:
    """All queues, by what is asked for; none of them is empty, and nothing depends on the order in which they stand."""

    queues: dict[Asked, RequestQueue] = field(default_factory=dict)

    @classmethod
    def of(cls, pending: Mapping[str, SlotRequest]) -> "RequestQueues":
        """Return the queues of requests that stand in the order in which they came."""
        made = cls()
        for allocation_id, request in pending.items():
            made.add(allocation_id, request)
        return made

    def add(self, allocation_id: str, request: SlotRequest) -> None:
        """Put the newest request into its queue."""
        queue = self.queues.get(request.profile)
        if queue is None:
            queue = self.queues[request.profile] = RequestQueue()
        queue.add(allocation_id, request)

    def remove(self, allocation_id: str, request: SlotRequest) -> bool:
        """Take a request out; tell whether its job asks for this profile no more."""
        queue = self.queues[request.profile]
        was_last = queue.remove(allocation_id, request)
        if not queue.by_round:
            del self.queues[request.profile]
        return was_last

    def next_round(self, job_id: str, profile: Asked, served_round: int, pending: Mapping[str, SlotRequest]) -> int:
        """Return the round in which the next request of a job is; `served_round` is the highest that anybody was served in.

        A round that has begun to be served takes no more requests: else those that come one by one would hold back the next round.
        A queue that lags behind, because nothing fitted, is joined where it stands.
        """
        queue = self.queues.get(profile)
        if queue is None:
            return served_round + 1
        joined = min(served_round, queue.round_numbers[0]) + 1
        of_job = queue.by_job.get(job_id)
        return max(joined, pending[next(reversed(of_job))].round_number + 1) if of_job else joined

    def waiting(self, job_id: str, profile: Asked) -> dict[str, None]:
        """Return the requests of a job for a profile, the oldest first."""
        queue = self.queues.get(profile)
        return queue.by_job.get(job_id, {}) if queue is not None else {}

    def profiles_of(self, job_id: str) -> Iterable[Asked]:
        """Return for which profiles a job has requests that wait."""
        return [profile for profile, queue in self.queues.items() if job_id in queue.by_job]

    def validate(self, pending: Mapping[str, SlotRequest]) -> None:
        """Compare the queues with those that follow from the requests."""
        expected = RequestQueues.of(pending)
        require(expected.queues == self.queues, "the queues of requests are stale")
        for profile, queue in self.queues.items():
            require(list(queue.in_turn()) == list(expected.queues[profile].in_turn()), f"the queue for {profile} is in another order")


def turn_of(allocation_id: str, request: SlotRequest) -> Turn:
    """Return what a request is ordered by, over all queues."""
    return request.round_number, request.requested_at_ms, len(allocation_id), allocation_id
