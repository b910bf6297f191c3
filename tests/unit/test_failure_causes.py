"""Whose fault a failure is, and what is said of it, by what was raised: the code's, Spark's, the host's, the disk's."""

import errno
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from pyspark.errors.exceptions.connect import AnalysisException, PythonException, SparkConnectGrpcException, SparkException

import eventflink
from eventflink.jobs.shipping import InputUnusable
from eventflink.model.attempts import AttemptId, FailureCause
from eventflink.model.failure_types import FailureKind, is_restarted_by_itself, kind_of
from eventflink.model.spark_ends import SparkEnd, heap_was_full
from eventflink.streams import failures
from eventflink.taskexecutor import seen_by_spark, task_run, task_stream
from eventflink.taskexecutor.failure_causes import _EXPLAINED, cause_of
from eventflink.taskexecutor.spark_server import SparkUnavailable
from eventflink.taskexecutor.task_process import _with_reason

_OF_STREAMS = [kind for kind in vars(failures).values() if isinstance(kind, type) and kind is not failures.RowUnusable]
_DEFINE_FAILURES = (seen_by_spark, task_run, task_stream)
"""Loaded, so that their classes are among the subclasses."""

GRPC_TEXT = '<_MultiThreadedRendezvous of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "Socket closed"\n>'
NO_WORKER = "Job aborted due to stage failure: org.apache.spark.SparkException: Python worker failed to connect back.\n\tat org.apache"


class Lost(grpc.RpcError):  # type: ignore[misc] # gRPC says nothing of its types
    def __str__(self) -> str:
        return GRPC_TEXT


STOPPED = "Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was created at:"

CAUSES: list[tuple[Callable[[], BaseException], str, FailureKind, bool]] = [
    (lambda: SparkConnectGrpcException(message=GRPC_TEXT), "SparkLost", FailureKind.SPARK, True),
    (lambda: SparkConnectGrpcException(message="[INVALID_HANDLE.SESSION_NOT_FOUND] The handle"), "SparkLost", FailureKind.SPARK, True),
    (Lost, "SparkLost", FailureKind.SPARK, True),
    (lambda: SparkException(message=f"(java.lang.IllegalStateException) {STOPPED}"), "SparkLost", FailureKind.SPARK, True),
    (lambda: SparkException(message="Job 3 cancelled because SparkContext was shut down"), "SparkLost", FailureKind.SPARK, True),
    (lambda: ValueError(STOPPED), "ValueError", FailureKind.CODE, False),
    (lambda: SparkUnavailable("Spark did not start"), "SparkUnavailable", FailureKind.SPARK, False),
    (lambda: SparkException(message=NO_WORKER), "HostTooSlow", FailureKind.HOST, True),
    (lambda: OSError(errno.ENOSPC, "No space left on device"), "DiskFull", FailureKind.HOST, False),
    (lambda: SparkException(message="java.io.IOException: No space left on device"), "DiskFull", FailureKind.HOST, False),
    (lambda: OSError(errno.ENOENT, "No such file"), "FileNotFoundError", FailureKind.CODE, False),
    (lambda: ValueError("a row"), "ValueError", FailureKind.CODE, False),
    (lambda: AnalysisException(message="[UNRESOLVED_COLUMN] no"), "AnalysisException", FailureKind.CODE, False),
    (lambda: PythonException(message="\n  Traceback (most recent call last):\nKeyError: 'k'"), "PythonException", FailureKind.CODE, False),
    (lambda: SparkConnectGrpcException(message="[SOME_OTHER] error"), "SparkConnectGrpcException", FailureKind.CODE, False),
    (lambda: InputUnusable("input 'a' has no data"), "InputUnusable", FailureKind.DATA, False),
]


@pytest.mark.parametrize(("make", "failure_type", "kind", "by_itself"), CAUSES)
def test_a_failure_has_the_name_of_whose_it_is(
    make: Callable[[], BaseException],
    failure_type: str,
    kind: FailureKind,
    by_itself: bool,  # noqa: FBT001 - of the table
) -> None:
    cause = cause_of(make(), "v")
    assert (cause.failure_type, kind_of(cause), is_restarted_by_itself(cause)) == (failure_type, kind, by_itself)
    assert "terminated with" not in cause.message
    assert (cause.stack_trace is not None) == (kind is FailureKind.CODE)


WORKER = (
    "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
    "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):\n"
    '  File "job.py", line 39, in div\nKeyError: 1\n\nThe above exception was the direct cause of the following exception:\n\n'
    'Traceback (most recent call last):\n  File "job.py", line 41, in div\n{}\n SQLSTATE: 38000\n'
)


@pytest.mark.parametrize(
    ("raised", "root_type", "root_message", "kind"),
    [
        ("job.MyError: in a udf", "MyError", "in a udf", FailureKind.CODE),
        ("job.make.<locals>.MyError: a: b", "MyError", "a: b", FailureKind.CODE),
        ("ZeroDivisionError", "ZeroDivisionError", "ZeroDivisionError", FailureKind.CODE),
        ("UnicodeDecodeError: 'utf-8' codec can't decode", "UnicodeDecodeError", "'utf-8' codec can't decode", FailureKind.DATA),
        (
            "pyspark.errors.exceptions.connect.ArithmeticException: [DIVIDE_BY_ZERO]",
            "ArithmeticException",
            "[DIVIDE_BY_ZERO]",
            FailureKind.DATA,
        ),
        ("what is no class", "", "", FailureKind.CODE),
    ],
)
def test_a_failure_of_spark_goes_back_to_what_a_python_function_raised_there(
    raised: str, root_type: str, root_message: str, kind: FailureKind
) -> None:
    cause = cause_of(PythonException(message=WORKER.format(raised)), "v")
    assert (cause.failure_type, cause.root_type, cause.root_message, kind_of(cause)) == ("PythonException", root_type, root_message, kind)
    outer = LookupError("of the task")
    outer.__cause__ = PythonException(message=WORKER.format(raised))
    assert cause_of(outer, "v").root_type == (root_type or "PythonException")


def test_what_grpc_says_of_a_lost_spark_is_told_in_a_sentence() -> None:
    assert cause_of(SparkConnectGrpcException(message=GRPC_TEXT), "v").message == (
        "vertex 'v': Spark ended, or became unreachable, in the middle of the task (gRPC says Socket closed); "
        "the next attempt uses another Spark"
    )


OF_WHO_WRITES_JOBS = {
    "BlobError",
    "BlobRefused",
    "BlobTooLarge",
    "CodeUnusable",
    "DeploymentTooLarge",
    "InvalidBlobKey",
    "OutputUnusable",
    "ParametersUnusable",
    "SavepointUnusable",
    "SinkTaken",
    "StreamUnusable",
    "TableUnusable",
    "TaskProcessExited",
    "TaskUnusable",
    "UnknownFunction",
    "UnusableName",
    "ValueError",
}
"""Types that this platform tells of what a job says or does: all others that it tells are never called the user's code."""


def test_no_failure_that_the_platform_tells_is_called_the_user_s_code_unless_it_is() -> None:
    kinds = [kind for root in [*_EXPLAINED, *_OF_STREAMS] for kind in _with_subclasses(root)]
    # Archives of jobs are for masters and readers: no task asks for one. What the workbench withholds, its own user is told.
    told = {kind.__name__ for kind in kinds if not kind.__module__.startswith(("eventflink.blob.job_archives", "eventflink.workbench"))}
    sources = "".join(path.read_text(encoding="utf-8") for path in Path(eventflink.__file__).parent.rglob("*.py"))
    told |= set(re.findall(r'FailureCause\(\s*"(\w+)"', sources))
    assert {name for name in told if kind_of(FailureCause(name, "")) is FailureKind.CODE} == OF_WHO_WRITES_JOBS


def _with_subclasses(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _with_subclasses(each)


@pytest.mark.parametrize(
    ("reason", "whose", "failure_type"),
    [
        (heap_was_full("512m"), "own", "SparkHeapFull"),
        (heap_was_full("512m"), "shared", "SparkLost"),
        ("it was ended from outside, by signal 9 (Killed)", "own", "SparkLost"),
        (None, "own", "SparkLost"),
    ],
)
def test_a_full_heap_is_the_doing_of_a_job_that_has_the_spark_for_itself(reason: str | None, whose: str, failure_type: str) -> None:
    lost = FailureCause("SparkLost", "Spark ended", None)
    end = SparkEnd(1, reason) if reason is not None else None
    cause = _with_reason(lost, AttemptId("job", "v", 0, 1), end, is_own=whose == "own")
    assert cause.failure_type == failure_type
    assert (reason or "Spark ended") in cause.message
    assert is_restarted_by_itself(cause) == (failure_type == "SparkLost")
