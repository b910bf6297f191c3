"""From what a task raised to the `FailureCause` that people and programs read: short, saying what and where, the rest in the stack trace.

Nothing is reported from here. The rule it keeps: a cause is bounded, whatever was raised, is text that can be encoded, and has no secret of
the task in it.
"""

import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import dropwhile
from typing import TYPE_CHECKING, Final

from eventflink.blob import BlobError
from eventflink.jobs import stored_files
from eventflink.jobs.shipping import InputUnusable
from eventflink.jobs.stored_files import StoreFailed, say_refused
from eventflink.model.attempts import FailureCause
from eventflink.model.failure_types import DISK_FULL, HOST_TOO_SLOW, SPARK_LOST
from eventflink.model.places import Place
from eventflink.model.secret_masks import masked
from eventflink.model.stack_traces import cut_stack_trace
from eventflink.processes.disk import FAULTS as DISK_FAULTS
from eventflink.streams import failures
from eventflink.streams.failures import SinkFenced, SinkTaken, SinkUnavailable, SourceUnavailable, StreamUnusable
from eventflink.taskexecutor.spark_server import SparkUnavailable
from eventflink.taskexecutor.task_files import UnusableName

if TYPE_CHECKING:
    from types import TracebackType

MESSAGE_LIMIT: Final = 2_000
SPARK_MESSAGE_LIMIT: Final = 500
ROOT_MESSAGE_LIMIT: Final = 500
STACK_TRACE_LIMIT: Final = 16_000
_MOST_LINKS: Final = 100
"""In a chain of exceptions; user code can close it to a ring."""
_TRACE: Final = "Traceback (most recent call last)"
_STATE: Final = re.compile(r" SQLSTATE: \w+")
_PYSPARK: Final = "pyspark.errors."
_RAISED: Final = re.compile(r"(?:[\w<>]+\.)*(\w{1,256})(?:: (.*))?")
"""How a stack trace ends: with the class of the exception, behind its module and what it is defined in, and what it says."""

_STREAM_FAILED: Final = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")
_SINK_FAILURE: Final = re.compile(rf"^(?:{re.escape(failures.__name__)}|{re.escape(stored_files.__name__)})\.(\w+): (.*)$", re.MULTILINE)
"""What a sink of this platform raised, where Spark ran it."""

_REFUSED: Final = re.compile(r"java\.nio\.file\.AccessDeniedException: (?:.*S3Exception: )?(.{1,200})")
"""What Hadoop says of a store that knows whose request it refuses."""

_NO_WORKER: Final = "Python worker failed to connect back"
_NO_SPACE: Final = "No space left on device"
_CONNECTION_LOST: Final = (
    "terminated with:",
    "INVALID_HANDLE.SESSION_NOT_FOUND",
    "INVALID_HANDLE.SESSION_CLOSED",
    "INVALID_HANDLE.SESSION_CHANGED",
)
"""What Spark's client says of a call that gRPC ended, and another Spark at the same port of a session that it does not know."""

_STOPPED: Final = (
    "Cannot call methods on a stopped SparkContext",
    "SparkContext was shut down",
    "SparkContext has been shutdown",
)
"""What a Spark says that is just ending: to calls, to the jobs that it ran, to those that it was to run."""

_GRPC_DETAILS: Final = re.compile(r"^\s*details = \"?([^\"\n]+)", re.MULTILINE)
_PLATFORM: Final = ("eventflink.taskexecutor.", "importlib.", "runpy")


class TaskUnusable(Exception):
    """A task cannot be run as it was deployed, or what it returned cannot be published; subclasses name the failure."""


class UnknownFunction(TaskUnusable):
    """A Python vertex names no function that can be called."""


class CodeUnusable(TaskUnusable):
    """A code archive is not a zip file, or cannot be stored."""


class ParametersUnusable(TaskUnusable):
    """The vertex's parameters are no JSON object."""


class OutputUnusable(TaskUnusable):
    """A task returned something that is not an output, or did not return one that another vertex reads."""


_EXPLAINED: Final = (
    *(TaskUnusable, InputUnusable, UnusableName, SparkUnavailable, BlobError, StoreFailed),
    *(StreamUnusable, SinkFenced, SinkTaken, SinkUnavailable, SourceUnavailable),
)
"""Errors whose message says it all: they are raised by this platform about the task, not by the task."""


def cause_of(error: BaseException, vertex_id: str) -> FailureCause:
    """Return why a task of the vertex failed."""
    failure_type = type(error).__name__
    if isinstance(error, _EXPLAINED):
        return FailureCause(failure_type, bounded(f"vertex '{vertex_id}': {text_of(error)}", MESSAGE_LIMIT))
    if (of_platform := _platform_failure(error)) is not None:
        kind, what = of_platform
        return FailureCause(kind, bounded(f"vertex '{vertex_id}': {what}", MESSAGE_LIMIT))
    of_sink = _SINK_FAILURE.search(text_of(error)) if _is_spark_error(error) else None
    if of_sink is not None:
        return FailureCause(of_sink[1], bounded(f"vertex '{vertex_id}': {of_sink[2]}", MESSAGE_LIMIT))
    trace = cut_stack_trace(_user_stack_trace(error), lambda text: len(text) <= STACK_TRACE_LIMIT)
    stack_trace = bounded(trace, STACK_TRACE_LIMIT)
    root_type, root_message = _root(error)
    message = f"vertex '{vertex_id}': {_message_of(error)}" if _is_spark_error(error) else _message_of(error)
    return FailureCause(failure_type, bounded(message, MESSAGE_LIMIT), stack_trace, root_type, bounded(root_message, ROOT_MESSAGE_LIMIT))


def _root(error: BaseException) -> tuple[str, str]:
    """Return type and message of what an error goes back to, also of what a Python function raised that Spark ran; empty: to nothing."""
    root = root_of(error)
    if _is_spark_error(root):
        [said, *_] = [*_raised_in_function(text_of(root)), ""]
        if (raised := _RAISED.fullmatch(_STATE.sub("", said))) is not None:
            return raised[1], raised[2] or raised[1]
    return ("", "") if root is error else (type(root).__name__, _message_of(root))


def _platform_failure(error: BaseException) -> tuple[str, str] | None:
    """Return type and message of a failure in which the task's code has no part, whoever told it; None: it is another."""
    text = text_of(error)
    if isinstance(error, OSError) and error.errno in DISK_FAULTS:
        return DISK_FULL, f"the disk takes no more: {text}"
    if not _is_spark_error(error) and not _is_rpc_error(error):
        return None
    if _is_spark_lost(error, text):
        detail = _GRPC_DETAILS.search(text)
        said = f" (gRPC says {detail[1]})" if detail else ""
        return SPARK_LOST, f"Spark ended, or became unreachable, in the middle of the task{said}; the next attempt uses another Spark"
    if _NO_WORKER in text:
        return HOST_TOO_SLOW, "the host is too slow: a Python process of Spark did not connect to it in time; run fewer tasks at once"
    if _NO_SPACE in text:
        return DISK_FULL, f"the disk of Spark takes no more: {_spark_message(text)}"
    return None


@contextmanager
def refusals_told(place: Place) -> Iterator[None]:
    """Have what a store refuses to Spark below a place end as what it refuses to this process does.

    Raises:
        StoreFailed: the store refused what Spark asked.

    """
    try:
        yield
    except Exception as error:
        if place.scheme and _is_spark_error(error) and (refused := _REFUSED.search(text_of(error))):
            raise StoreFailed(say_refused(place, "used by Spark", refused[1])) from error
        raise


def _is_spark_lost(error: BaseException, text: str) -> bool:
    """Tell whether an error is about Spark's end or the connection to it, and not about what was asked of it."""
    if _is_rpc_error(error):
        return True
    if any(sign in text for sign in _STOPPED):
        return True
    return type(error).__name__ == "SparkConnectGrpcException" and any(sign in text for sign in _CONNECTION_LOST)


def _is_rpc_error(error: BaseException) -> bool:
    module = sys.modules.get("grpc")
    return module is not None and isinstance(error, module.RpcError)


def root_of(error: BaseException) -> BaseException:
    """Return the exception that an error goes back to: what it was raised from, or while that was handled, again and again."""
    for _ in range(_MOST_LINKS):
        before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if before is None:
            break
        error = before
    return error


def _message_of(error: BaseException) -> str:
    if not _is_spark_error(error):
        return text_of(error) or type(error).__name__
    notes = masked("; ".join(str(note) for note in getattr(error, "__notes__", ())))
    return f"{_spark_message(text_of(error))}; {notes}".replace("; \n", "\n") if notes else _spark_message(text_of(error))


def bounded(text: str, limit: int) -> str:
    """Return text of at most `limit` characters that can be encoded; of longer text the beginning and, mostly, the end."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) <= limit:
        return text
    mark = f"\n… {len(text) - limit} characters left out …\n"
    head = max(0, (limit - len(mark)) // 3)
    return text[:head] + mark + text[len(text) - max(0, limit - len(mark) - head) :]


def text_of(error: BaseException) -> str:
    """Return what an error says, whatever its class makes of that; without the secrets of the task."""
    try:
        return masked(str(error))
    except Exception as second:  # noqa: BLE001 - user code may raise anything
        return f"(its message cannot be told: {type(second).__name__})"


def _user_stack_trace(error: BaseException) -> str:
    """Format the trace from the first frame on that is not this platform's."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None and _is_platform(trace.tb_frame.f_globals.get("__name__", "")):
        trace = trace.tb_next
    try:
        return masked("".join(traceback.format_exception(type(error), error, trace)))
    except Exception as second:  # noqa: BLE001 - user code may raise anything
        return f"(its stack trace cannot be told: {type(second).__name__})"


def _is_platform(module: str) -> bool:
    return module.startswith(_PLATFORM) or module == "importlib"


def _is_spark_error(error: BaseException) -> bool:
    module = sys.modules.get("pyspark.errors")
    return module is not None and isinstance(error, module.PySparkException)


def _spark_message(text: str) -> str:
    """Return the first line of Spark's message; of an error in a Python function that Spark ran, also what that function raised."""
    lines = _lines_of(text)
    if not lines:
        return "Spark gave no message"
    raised = _raised_in_function(text)
    if raised and raised[0].startswith(_PYSPARK):  # The function asked Spark for something, and Spark failed.
        return " ".join(raised).partition(": ")[2][:SPARK_MESSAGE_LIMIT]
    if raised:
        return f"a Python function that Spark ran raised {_STATE.sub('', raised[0])}"[:SPARK_MESSAGE_LIMIT]
    return lines[0].strip()[:SPARK_MESSAGE_LIMIT]


def _raised_in_function(text: str) -> list[str]:
    """Return what a Python function raised that Spark ran, from the last stack trace in Spark's message; empty: none raised anything."""
    lines = _lines_of(text)
    traces = [number for number, line in enumerate(lines) if _TRACE in line]
    return [line.strip() for line in dropwhile(lambda line: line[0].isspace(), lines[traces[-1] + 1 :])] if traces else []


def _lines_of(text: str) -> list[str]:
    text = text.partition("JVM stacktrace:")[0].partition("=== Streaming Query ===")[0]
    return [line.rstrip() for line in _STREAM_FAILED.sub("", text).splitlines() if line.strip()]
