"""One TaskExecutor for callers: its slots, and the files of the attempts that it ran.

It is asked by the masters, over the log: a caller needs no way to its host, and it no port.
"""

from typing import Unpack

from eventflink.documents.task_managers import AllocatedTaskManager
from eventflink.events.inputs import RequestFileUpload
from eventflink.gateways.blocking import BlockingGateway, BlockingOptions
from eventflink.gateways.errors import FileNotAvailable
from eventflink.gateways.gateway import DEFAULT_UPLOAD_TIMEOUT_S, CommandOptions, Gateway, header, method
from eventflink.gateways.steps import Steps
from eventflink.model.attempts import AttemptId
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.statuses import TaskFile


class TaskExecutorMethods(Gateway):
    """Requests about one TaskExecutor; errors and fencing tokens are those of the Dispatcher's methods."""

    task_manager_id: str

    @method
    def request_slot_report(self) -> Steps[AllocatedTaskManager]:
        """Return its slots as the SlotManager has them; raises `UnknownTaskManager`."""
        return self._task_manager(self.task_manager_id)

    @method
    def request_file_upload(
        self,
        attempt: AttemptId,
        file: TaskFile,
        *,
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
        **options: Unpack[CommandOptions],
    ) -> Steps[str]:
        """Have it upload a file of an attempt that ran on it; return the blob key.

        Raises `UnknownJob`, `FileNotAvailable` (also if the attempt ran elsewhere), `TooManyUploads`, and `RequestTimedOut`.
        """
        job = yield from self._job(attempt.job_id)
        places = {
            each.task_manager_id
            for vertex in job.vertices
            if vertex.vertex_id == attempt.vertex_id
            for subtask in vertex.subtasks
            if subtask.subtask_index == attempt.subtask_index
            for each in subtask.attempts
            if each.attempt == attempt.attempt and each.task_manager_id is not None
        }
        if self.task_manager_id not in places:
            ran = f"it ran on {places.pop()}" if places else "it was never deployed"
            raise FileNotAvailable("FileNotAvailable", f"attempt {attempt} did not run on {self.task_manager_id}: {ran}")
        command = RequestFileUpload(**attempt._asdict(), file=file, **header(**options))
        return (yield from self._upload(command, timeout_s))


class TaskExecutorGateway(TaskExecutorMethods, BlockingGateway):
    """Blocking requests about one TaskExecutor."""

    def __init__(
        self, cluster: ClusterAccess | str, cluster_id: str = "", task_manager_id: str = "", **options: Unpack[BlockingOptions]
    ) -> None:
        super().__init__(cluster, cluster_id, **options)
        self.task_manager_id = task_manager_id
