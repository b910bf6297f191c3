"""An operator of Apache Airflow: a task that runs a job of a cluster, and waits for its end without taking a worker.

Users import it where `eventflink[airflow]` is installed; no other module does. The rule it keeps: the id of a job follows from Airflow's
names of the run, the task and the try. So when a worker, a triggerer or a master dies, the next one finds the job that was submitted, and
submits no second one.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from eventflink.client.cluster import Cluster
from eventflink.client.connecting import connect, connect_async
from eventflink.client.options import Paths, each_of
from eventflink.client.tries import DEFAULT_UNREACHABLE_TIMEOUT_S, Tries, wait_for_end, why_it_ended
from eventflink.gateways.errors import ClusterUnreachable, UnknownJob
from eventflink.model.statuses import JobStatus


class EventflinkTrigger(BaseTrigger):  # type: ignore[misc]  # where types are checked there is no Airflow
    """Waits in a triggerer for the end of a job; a user who ends the task meanwhile cancels the job."""

    def __init__(
        self, job_id: str, bootstrap: str, cluster_id: str, configuration: str, unreachable_timeout_s: float = DEFAULT_UNREACHABLE_TIMEOUT_S
    ) -> None:
        """Take the job, how its cluster is found as `eventflink.connect` does, and how long that may be away."""
        super().__init__()
        self.job_id = job_id
        self.found_by: dict[str, Any] = {"bootstrap": bootstrap, "cluster_id": cluster_id, "configuration": configuration}
        self.unreachable_timeout_s = unreachable_timeout_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow keeps of it: names, and no secret."""
        return f"{__name__}.{type(self).__name__}", {
            "job_id": self.job_id,
            "unreachable_timeout_s": self.unreachable_timeout_s,
            **self.found_by,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield how the job has ended; or that the cluster is away."""
        try:
            result = await wait_for_end(self.job_id, self.found_by, self.unreachable_timeout_s, self.log.warning)
        except (ClusterUnreachable, UnknownJob) as error:
            yield TriggerEvent({"error": str(error)})
        else:
            why = why_it_ended(result)
            yield TriggerEvent({"job_id": result.job_id, "status": str(result.status), "why": why})

    async def on_kill(self) -> None:
        """Cancel the job, since a user has failed, cleared or marked the task."""
        async with connect_async(**self.found_by) as cluster:
            await cluster.job(self.job_id).cancel()


class EventflinkOperator(BaseOperator):  # type: ignore[misc]  # likewise
    """Runs a job, and has its id as its result.

    A try goes on where the one before it has stopped: a job that still runs is waited for, one that has finished meanwhile is the result,
    one that failed is run again from what failed in it (`eventflink rerun --failed`). A task that is cleared after its success runs anew.

    Example:
        ```python
        EventflinkOperator(
            task_id="sales",
            document="/jobs/sales.yaml",
            parameters={"day": "{{ ds }}"},
            bootstrap="kafka:9092",
            cluster_id="production",
            retries=2,
        )
        ```

    """

    template_fields: Sequence[str] = ("document", "parameters", "code", "bootstrap", "cluster_id", "configuration")

    def __init__(
        self,
        *,
        document: str | Mapping[str, Any],
        parameters: Mapping[str, object] | None = None,
        code: Paths = (),
        bootstrap: str = "",
        cluster_id: str = "",
        configuration: str = "",
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        unreachable_timeout_s: float = DEFAULT_UNREACHABLE_TIMEOUT_S,
        **options: Any,
    ) -> None:
        """Take what to run, and where.

        Args:
            document: the job, as `submit` of `eventflink.connect()` takes it.
            parameters: values of the parameters that it declares.
            code: files and directories with its Python code.
            bootstrap: Kafka, as host:port.
            cluster_id: the cell.
            configuration: a configuration directory, or its eventflink.yaml, with what Kafka and the masters ask for. What none of these
                three says is found on workers and triggerers as `eventflink.connect` finds it.
            deferrable: whether a triggerer waits for the job's end, and not a worker.
            unreachable_timeout_s: how long the cluster may be away before the try fails.
            options: those of each operator.

        """
        super().__init__(**options)
        self.document, self.parameters, self.code = document, dict(parameters or {}), each_of(code)
        self.bootstrap, self.cluster_id, self.configuration = bootstrap, cluster_id, configuration
        self.deferrable = deferrable
        self.unreachable_timeout_s = unreachable_timeout_s
        self._job_id = ""

    def execute(self, context: Mapping[str, Any]) -> str:
        """Have the job of this try, and wait for its end."""
        task = context["ti"]
        tries = Tries("airflow", (task.dag_id, task.task_id, task.run_id, str(getattr(task, "map_index", -1))))
        with self._connect() as cluster:
            # Of a try before somebody cleared the task, and which succeeded, a new job is wanted.
            first = task.max_tries - self.retries + 1
            job = tries.job_of(cluster, task.try_number, first, self.document, parameters=self.parameters, code=self.code)
            self._job_id = job.job_id
            self.log.info("job '%s' runs for try %s", job.job_id, task.try_number)
        trigger = EventflinkTrigger(self._job_id, self.bootstrap, self.cluster_id, self.configuration, self.unreachable_timeout_s)
        if self.deferrable:
            self.defer(trigger=trigger, method_name="execute_complete", timeout=self.execution_timeout)
        return self.execute_complete(context, asyncio.run(_first(trigger)))

    def execute_complete(self, context: Mapping[str, Any], event: Mapping[str, Any]) -> str:
        """Return the id of a job that has finished.

        Raises:
            AirflowException: it has failed, or how it stands is not known: another try may help.
            AirflowFailException: somebody has cancelled it.

        """
        del context
        if "error" in event:
            raise AirflowException(event["error"])
        job_id: str = event["job_id"]
        if event["status"] == JobStatus.FINISHED:
            return job_id
        if event["status"] == JobStatus.CANCELED:
            raise AirflowFailException(f"job '{job_id}' was cancelled")
        raise AirflowException(event["why"])

    def on_kill(self) -> None:
        """Cancel the job, since Airflow ends the task in its worker."""
        if self._job_id:
            with self._connect() as cluster:
                cluster.job(self._job_id).cancel()

    def _connect(self) -> Cluster:
        return connect(self.bootstrap, self.cluster_id, configuration=self.configuration)


async def _first(trigger: EventflinkTrigger) -> Mapping[str, Any]:
    async for event in trigger.run():
        payload: Mapping[str, Any] = event.payload
        return payload
    raise AirflowException(f"nobody has waited for job '{trigger.job_id}'")
