"""Every method of the gateways on a running cluster: real masters, a real TaskExecutor, a real broker; blocking and in an event loop.

The masters end with the last tests: a killed leader changes nothing for whoever asks but time.
"""

import asyncio
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from eventflink.benchmarks.failover_tasks import idle_graph
from eventflink.blob.client import get_blob
from eventflink.events.log_events import JobCancellationRequested, JobSubmitted, RequestRepeated
from eventflink.gateways.async_gateways import (
    AsyncDispatcherGateway,
    AsyncJobMasterGateway,
    AsyncResourceManagerGateway,
    AsyncTaskExecutorGateway,
)
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import (
    ClusterNotFound,
    DuplicateJobSubmission,
    FencingTokenMismatch,
    FileNotAvailable,
    GatewayError,
    JobNotTerminated,
    JobTerminated,
    NotSupported,
    UnknownJob,
    UnknownTaskManager,
)
from eventflink.gateways.job_master_gateway import JobMasterGateway
from eventflink.gateways.reads import QuestionInvalid
from eventflink.gateways.resource_manager_gateway import ResourceManagerGateway
from eventflink.gateways.task_executor_gateway import TaskExecutorGateway
from eventflink.log.administration import delete_topics
from eventflink.model.attempts import AttemptId
from eventflink.model.statuses import ExecutionState, JobStatus, SlotState, TaskFile
from tests.support.running_cluster import RunningCluster, wait_until

pytestmark = pytest.mark.slow
DOCUMENT = Path(__file__).parents[2] / "docs" / "gateways.md"
SAID = "said on stdout\n"
WORDS = ("words", "task", 0, 1)


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A leader, `first`, a standby, `second`, simulated TaskExecutors and a real one, and jobs that ended and that run."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    running = RunningCluster(bootstrap, name, tmp_path_factory.mktemp("cluster"))
    running.start_master("first")
    running.start_task_executor("tm", slots=2)
    running.start_standby("second")
    running.submit(running.graph({"id": "task", "python": "user_tasks:print_words"}), "words")
    running.submit(running.graph({"id": "task", "python": "user_tasks:fail", "parameters": {"message": "as wanted"}}), "failed")
    running.wait_for_status("words", JobStatus.FINISHED)
    running.wait_for_status("failed", JobStatus.FAILED)
    running.stop("tm")  # What it holds goes with it; another one, of the same name, takes over.
    running.start_task_executor("tm", slots=2)
    yield running
    running.close()
    delete_topics(bootstrap, name)
