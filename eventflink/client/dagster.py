"""A resource of Dagster: a step runs a job of a cluster, and what the tasks of the job report comes back by Dagster Pipes.

Users import it where `eventflink[dagster]` is installed; no other module does. The rule it keeps: before a job is submitted its id is among
the tags of the run. So when a process of Dagster or a master dies, the run that is retried finds the job that was submitted, and
submits no second one.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dagster import (
    AssetExecutionContext,
    ConfigurableResource,
    DagsterEventType,
    DagsterExecutionInterruptedError,
    Failure,
    OpExecutionContext,
    PipesClient,
    PipesClientCompletedInvocation,
    PipesEnvContextInjector,
    PipesMessageHandler,
    PipesMessageReader,
    RunsFilter,
    open_pipes_session,
)
from dagster_pipes import PIPES_PROTOCOL_VERSION, PIPES_PROTOCOL_VERSION_FIELD
from pydantic import PrivateAttr

from eventflink.client.cluster import Cluster, Job
from eventflink.client.connecting import connect
from eventflink.client.options import Paths
from eventflink.client.tries import DEFAULT_UNREACHABLE_TIMEOUT_S, Tries, wait_for_end, why_it_ended
from eventflink.documents.one_job import JobResult
from eventflink.model.statuses import JobStatus


class PipesEventflinkClient(ConfigurableResource, PipesClient):  # type: ignore[misc]  # where types are checked there is no Dagster
    """Runs jobs for steps. A step that is tried again goes on where the one before it has stopped.

    A job that still runs is waited for, one that has finished meanwhile is the result, one that failed is run again from what failed in it
    (`eventflink rerun --failed`). A step that is executed again after its success runs a new job.

    Example:
        ```python
        @dg.asset(partitions_def=dg.DailyPartitionsDefinition("2026-11-01"), retry_policy=dg.RetryPolicy(max_retries=2))
        def sales(context: dg.AssetExecutionContext, eventflink: PipesEventflinkClient):
            run = eventflink.run(context=context, document="/jobs/sales.yaml", parameters={"day": context.partition_key})
            return run.get_materialize_result()

        defs = dg.Definitions([sales], resources={"eventflink": PipesEventflinkClient(bootstrap="kafka:9092", cluster_id="production")})
        ```

    """

    bootstrap: str = ""
    """Kafka, as host:port."""
    cluster_id: str = ""
    """The cell."""
    configuration: str = ""
    """A configuration directory, or its eventflink.yaml. What none of these three says is found as `eventflink.connect` finds it."""
    unreachable_timeout_s: float = DEFAULT_UNREACHABLE_TIMEOUT_S
    """How long the cluster may be away before the step fails."""
    forward_termination: bool = True
    """Whether the end of a step that somebody terminates cancels its job."""
    _runs: dict[tuple[str, str, int], int] = PrivateAttr(default_factory=dict)
    """How many jobs each try of a step of a run has asked for."""

    def run(
        self,
        *,
        context: OpExecutionContext | AssetExecutionContext,
        document: str | Path | Mapping[str, Any],
        parameters: Mapping[str, object] | None = None,
        code: Paths = (),
        extras: Mapping[str, Any] | None = None,
        message_reader: PipesMessageReader | None = None,
    ) -> PipesClientCompletedInvocation:
        """Run a job, wait for its end, and return what was reported, with the id of the job as metadata.

        Args:
            context: that of the op or asset.
            document: the job, as `submit` of `eventflink.connect()` takes it.
            parameters: values of the parameters that it declares.
            code: files and directories with its Python code.
            extras: values that its tasks can ask their session of Dagster Pipes for.
            message_reader: by which what tasks report comes back. Then the job has to declare the parameters `DAGSTER_PIPES_CONTEXT` and
                `DAGSTER_PIPES_MESSAGES`, by which a task opens Dagster Pipes. None: no task reports.

        Raises:
            Failure: the job has failed, and another try may help; or somebody has cancelled it, and none does.
            ClusterUnreachable: the cluster was away for longer than it may be.

        """
        reader = message_reader or _NobodyReports()
        told = dict(parameters or {})
        with open_pipes_session(
            context=context, context_injector=PipesEnvContextInjector(), message_reader=reader, extras=dict(extras or {})
        ) as session:
            if message_reader is not None:
                told |= session.get_bootstrap_env_vars()
            with connect(self.bootstrap, self.cluster_id, configuration=self.configuration) as cluster:
                job = self._job_of(context, cluster, document, told, code)
            context.log.info("job '%s' runs", job.job_id)
            result = self._end_of(context, job.job_id)
        metadata = {"eventflink/job_id": result.job_id, "eventflink/net_run_time_ms": result.net_run_time_ms}
        if result.status is JobStatus.FINISHED:
            return PipesClientCompletedInvocation(session, metadata=metadata)
        raise Failure(why_it_ended(result), metadata=metadata, allow_retries=result.status is not JobStatus.CANCELED)

    def _job_of(
        self,
        context: OpExecutionContext | AssetExecutionContext,
        cluster: Cluster,
        document: str | Path | Mapping[str, Any],
        parameters: Mapping[str, object],
        code: Paths,
    ) -> Job:
        """Return the job of this try. The id of a new one is among the tags of the run before it is submitted."""
        run, step = context.run, context.get_step_execution_context().step.key
        this_try = (run.run_id, step, context.retry_number)
        self._runs[this_try] = ordinal = self._runs.get(this_try, 0) + 1
        tries = Tries("dagster", (run.job_name, step, run.root_run_id or run.run_id, str(ordinal)))
        number, first = 1, 1
        while runs := context.instance.get_runs(RunsFilter(tags={_tag_of(tries.job_id(number)): step})):
            if any(_has_succeeded(context, each.run_id, step) for each in runs if each.run_id != run.run_id):
                first = number + 1  # It has taken what had finished: who executes the step again wants a new job.
            number += 1
        context.instance.add_run_tags(run.run_id, {_tag_of(tries.job_id(number)): step})
        return tries.job_of(cluster, number, first, document, parameters=parameters, code=code)

    def _end_of(self, context: OpExecutionContext | AssetExecutionContext, job_id: str) -> JobResult:
        found_by = {"bootstrap": self.bootstrap, "cluster_id": self.cluster_id, "configuration": self.configuration}
        try:
            return asyncio.run(wait_for_end(job_id, found_by, self.unreachable_timeout_s, context.log.warning))
        except DagsterExecutionInterruptedError:
            if self.forward_termination:
                context.log.info("the step is terminated: job '%s' is cancelled", job_id)
                with connect(self.bootstrap, self.cluster_id, configuration=self.configuration) as cluster:
                    cluster.job(job_id).cancel()
            raise


class _NobodyReports(PipesMessageReader):  # type: ignore[misc]  # likewise
    """A reader for jobs without reports. It opens and closes the session itself: Dagster warns of a session without messages."""

    @contextmanager
    def read_messages(self, handler: PipesMessageHandler) -> Iterator[dict[str, Any]]:
        """Say that the job reports, and that it has reported all."""
        version = {PIPES_PROTOCOL_VERSION_FIELD: PIPES_PROTOCOL_VERSION}
        handler.handle_message({**version, "method": "opened", "params": {"extras": {}}})
        yield {}
        handler.handle_message({**version, "method": "closed", "params": {}})

    def no_messages_debug_text(self) -> str:
        """Say why nothing came."""
        return "The job reports nothing."


def _tag_of(job_id: str) -> str:
    """Return the key of the tag of runs that have submitted a job, or were about to; the value is the step."""
    return f"eventflink/{job_id}"


def _has_succeeded(context: OpExecutionContext | AssetExecutionContext, run_id: str, step: str) -> bool:
    entries = context.instance.all_logs(run_id, of_type=DagsterEventType.STEP_SUCCESS)
    return any(entry.step_key == step for entry in entries)
