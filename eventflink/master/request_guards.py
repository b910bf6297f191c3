"""What is asked of every request before it is decided, in this order; the first that refuses answers it.

1. A request that was answered already is answered as it was then (P8).
2. One with a fencing token of another leader or another JobMaster is refused: its sender wants no other to do it. A token is a part of
   the input and never of the log: a refusal in the log is applied without it. A request without one is for any leader.
3. One that would run a job is refused while the cluster is shut down.
"""

from eventflink.events.inputs import MAX_ID_LENGTH, FencedCommand, FencedJobCommand, Request
from eventflink.events.log_events import LogEvent
from eventflink.master.requests import rejected
from eventflink.master.settings import Context
from eventflink.master.state import ClusterState


def refuse(state: ClusterState, request: Request, context: Context) -> list[LogEvent]:
    """Return the answer to a request that is not to be decided; nothing for one that is."""
    if repeated := state.requests.decide_repeated(request.request_id, request.reply_partition):
        return repeated
    if mismatch := _mismatch_of(state, request, context.leader_id):
        return [rejected(request, "FencingTokenMismatch", mismatch)]
    if request.refused_while_shutting_down and state.shutdown.is_under_way:
        message = f"the cluster ends as {state.shutdown.describe()}, and runs no more jobs"
        return [rejected(request, "ClusterShuttingDown", message)]
    return []


def _mismatch_of(state: ClusterState, request: Request, leader_id: str) -> str:
    """Return for whom a request is instead of who is here; empty if it is for who is here.

    `leader_id` is the token of the Dispatcher and the ResourceManager, which are led together; a job's is its JobMaster's id. A job
    that is not known has none to compare with: that it is not known is the better answer.
    """
    if isinstance(request, FencedCommand) and request.leader_id not in ("", leader_id):
        return f"the request is for the leader '{request.leader_id[:MAX_ID_LENGTH]}'; '{leader_id}' leads now"
    if not isinstance(request, FencedJobCommand) or (job := state.dispatcher.jobs.get(request.job_id)) is None:
        return ""
    if request.job_master_id not in ("", job.job_master_id):
        present = f"'{job.job_master_id}'" if job.job_master_id else "none"
        return f"the request is for the JobMaster '{request.job_master_id[:MAX_ID_LENGTH]}'; job '{job.job_id}' has {present} now"
    return ""
