"""Fencing tokens of commands: for whom a command is, when its sender wants nobody else to do it.

A token is a part of the input and never of the log: who reads the refusal in the log needs none to apply it. A command without
one is for whoever leads.
"""

from typing import Final

from eventflink.events.inputs import (
    BlockTaskManager,
    CancelJob,
    RequestFileUpload,
    RequestTaskManagerFileUpload,
    RescaleJob,
    ResumeJob,
    ShutDownCluster,
    SuspendJob,
    UnblockTaskManager,
)
from eventflink.master.job_master import JobMaster

FencedCommand = (
    CancelJob
    | RequestFileUpload
    | BlockTaskManager
    | UnblockTaskManager
    | RequestTaskManagerFileUpload
    | SuspendJob
    | ResumeJob
    | ShutDownCluster
    | RescaleJob
)

_SHOWN: Final = 128


def mismatch_of(command: FencedCommand, leader_id: str, job: JobMaster | None) -> str:
    """Return for whom a command is instead of who is here; empty if it is for who is here.

    `leader_id` is the token of the Dispatcher and the ResourceManager, which are led together; a job's is its JobMaster's id. A job
    that is not known has none to compare with: that it is not known is the better answer.
    """
    if command.leader_id and command.leader_id != leader_id:
        return f"the request is for the leader '{command.leader_id[:_SHOWN]}'; '{leader_id}' leads now"
    of_job = CancelJob | SuspendJob | RescaleJob
    if isinstance(command, of_job) and job is not None and command.job_master_id not in ("", job.job_master_id):
        present = f"'{job.job_master_id}'" if job.job_master_id else "none"
        return f"the request is for the JobMaster '{command.job_master_id[:_SHOWN]}'; job '{job.job_id}' has {present} now"
    return ""
