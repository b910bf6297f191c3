"""Why requests wait: which jobs have been told, for which profile they ask, and which have still to be told.

The reason is the same for all who ask for one profile, and changes only when TaskManagers come, go, or are blocked, or when a blocked
one has slots free. So a job is told once for each profile, and again when the reason changes: never for each request, nor at each match.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from eventflink.master.canonical import require
from eventflink.master.slot_requests import Asked, RequestQueues
from eventflink.model.statuses import IllegalTransition, SlotRequestDeferralReason


@dataclass(slots=True)
class Deferral:
    """What those were told who wait for slots of one profile."""

    reason: SlotRequestDeferralReason
    jobs: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class Deferrals:
    """Every job with requests that wait is in one of the two, once for each profile that it asks for."""

    told: dict[Asked, Deferral] = field(default_factory=dict)
    untold: dict[Asked, dict[str, None]] = field(default_factory=dict)

    def add(self, job_id: str, profile: Asked) -> None:
        """Take note that a job has a request for a profile."""
        told = self.told.get(profile)
        if told is None or job_id not in told.jobs:
            self.untold.setdefault(profile, {})[job_id] = None

    def tell(self, job_id: str, profile: Asked, reason: SlotRequestDeferralReason) -> None:
        """Take note that it was told why a job's requests for a profile wait.

        Raises:
            IllegalTransition: the job has none that this had to be told of.

        """
        if job_id not in self.untold.get(profile, ()):
            raise IllegalTransition(f"job '{job_id}' has no requests for {profile} of which a reason is to be told")
        self._drop_untold(job_id, profile)
        self.told.setdefault(profile, Deferral(reason)).jobs[job_id] = None

    def forget(self, job_id: str, profile: Asked) -> None:
        """Take note that a job asks for a profile no more."""
        told = self.told.get(profile)
        if told is not None and job_id in told.jobs:
            del told.jobs[job_id]
            if not told.jobs:
                del self.told[profile]
        if job_id in self.untold.get(profile, ()):
            self._drop_untold(job_id, profile)

    def _drop_untold(self, job_id: str, profile: Asked) -> None:
        untold = self.untold[profile]
        del untold[job_id]
        if not untold:
            del self.untold[profile]

    def reconsider(self, why: Callable[[Asked], SlotRequestDeferralReason]) -> None:
        """Have it told again where the reason is another one now."""
        for profile in [p for p, told in self.told.items() if why(p) is not told.reason]:
            self.untold.setdefault(profile, {}).update(self.told.pop(profile).jobs)

    def reason_of(self, job_id: str, profile: Asked) -> SlotRequestDeferralReason | None:
        """Return what a job was told; None: nothing yet."""
        told = self.told.get(profile)
        return told.reason if told is not None and job_id in told.jobs else None

    def validate(self, queues: RequestQueues, why: Callable[[Asked], SlotRequestDeferralReason]) -> None:
        """Check both against the requests that wait, and what was told against what is."""
        for profile, told in self.told.items():
            require(bool(told.jobs) and told.reason is why(profile), f"of {profile} it was told {told.reason}; it is {why(profile)}")
            require(not set(told.jobs) & set(self.untold.get(profile, ())), f"of {profile} jobs were told a reason and were not")
        for profile, jobs in [*((p, d.jobs) for p, d in self.told.items()), *self.untold.items()]:
            require(bool(jobs), f"of {profile} nobody has to be told anything, yet it is kept")
            for job_id in jobs:
                require(bool(queues.waiting(job_id, profile)), f"job '{job_id}' does not wait for {profile}")
