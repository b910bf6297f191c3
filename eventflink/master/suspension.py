"""What a job knows of its suspensions.

SUSPENDED is where a job stands from the request on. Its attempts are cancelled as those of a cancelled job, and it keeps its JobMaster
until the last of them is terminal (P15); then the JobMaster stops. A job that is resumed gets a new JobMaster, under a new fencing token,
which gives a new attempt to every subtask that has no result (RECONCILING) and then runs. Flink's SUSPENDED is the same: stopped, and
still in the store. What suspends and resumes a job is decided in `suspend_resume.py`, and at a shutdown of the cluster.
"""

from dataclasses import dataclass
from typing import Final

from eventflink.master.canonical import require
from eventflink.model.statuses import SUSPENDABLE_JOB_STATUSES, IllegalTransition, JobStatus

_WITHOUT_JOB_MASTER: Final = (JobStatus.INITIALIZING, JobStatus.SUSPENDED, JobStatus.CANCELLING, JobStatus.CANCELED)


@dataclass(slots=True)
class Suspension:
    """Why a job is suspended, and whether it is to be resumed."""

    reason: str = ""
    """Why it is suspended."""
    resumption_requested: bool = False
    """It is resumed as soon as nothing of it is alive."""
    job_masters: int = 1
    """How many JobMasters it has had, the present one included."""
    suspended_ms: int = 0
    """For how long it was SUSPENDED before, in all."""

    def request(self, job_id: str, status: JobStatus, reason: str) -> None:
        """Take note that the job is to be suspended; raises `IllegalTransition` where it ends already."""
        if status not in SUSPENDABLE_JOB_STATUSES and status is not JobStatus.SUSPENDED:
            raise IllegalTransition(f"{job_id} is {status}, and cannot be suspended")
        self.reason = reason
        self.resumption_requested = False

    def request_resumption(self, job_id: str, status: JobStatus) -> None:
        """Take note that the job is to be resumed; raises `IllegalTransition` where it is not suspended, or to be resumed already."""
        if status is not JobStatus.SUSPENDED or self.resumption_requested:
            raise IllegalTransition(f"{job_id} is {status}; it is to be resumed: {self.resumption_requested}")
        self.resumption_requested = True

    def resume(self, job_id: str, job_master_id: str, suspended_ms: int) -> None:
        """Take note of the next JobMaster; raises `IllegalTransition` unless the suspended job may get one now."""
        if job_master_id or not self.resumption_requested:
            raise IllegalTransition(f"{job_id} has the JobMaster '{job_master_id}'; it is to be resumed: {self.resumption_requested}")
        self.reason, self.resumption_requested = "", False
        self.job_masters += 1
        self.suspended_ms += suspended_ms

    def drop_resumption(self) -> None:
        """Resume nothing: the job is cancelled."""
        self.resumption_requested = False

    def validate(self, job_id: str, status: JobStatus, job_master_id: str) -> None:
        """Check it against the job's status."""
        require(not self.resumption_requested or status is JobStatus.SUSPENDED, f"{job_id} is {status}, and is to be resumed")
        require(bool(job_master_id) or status in _WITHOUT_JOB_MASTER, f"{job_id} is {status} without a JobMaster")
