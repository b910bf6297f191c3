"""Key groups, places of outputs, and causes of failures: the parts of a task process that need neither Spark nor a process."""

import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import eventflink
from eventflink.jobs.accumulators import TaskAccumulators
from eventflink.jobs.context import TaskContext, TaskInputs
from eventflink.jobs.shipping import InputUnusable, Share, key_groups_of
from eventflink.model.attempts import AttemptId
from eventflink.model.places import Place
from eventflink.model.statuses import TaskFile
from eventflink.taskexecutor.failure_causes import MESSAGE_LIMIT, STACK_TRACE_LIMIT, UnknownFunction, bounded, cause_of
from eventflink.taskexecutor.fork_server_wire import LineBuffer, decode_line, encode_line
from eventflink.taskexecutor.message_lines import UnreadableLine
from eventflink.taskexecutor.process_events import EndTask, Failed, Finished, Killed, TaskProcessEnded
from eventflink.taskexecutor.spark_release import channel_target
from eventflink.taskexecutor.task_code import resolve_function, resolve_task
from eventflink.taskexecutor.task_files import UnusableName, output_place, task_file_path
from eventflink.taskexecutor.task_spark import session_address

ATTEMPT = AttemptId("job", "vertex", 1, 2)


@pytest.mark.parametrize(("parallelism", "max_parallelism"), [(1, 1), (1, 128), (2, 128), (3, 128), (7, 10), (10, 10), (128, 128), (5, 3)])
def test_every_key_group_belongs_to_the_one_subtask_that_flink_gives_it(parallelism: int, max_parallelism: int) -> None:
    owners: dict[int, list[int]] = {group: [] for group in range(max_parallelism)}
    for index in range(parallelism):
        for group in key_groups_of(Share(subtask_index=index, parallelism=parallelism, max_parallelism=max_parallelism)):
            owners[group].append(index)
    assert owners == {group: [group * parallelism // max_parallelism] for group in range(max_parallelism)}


def test_groups_are_shared_out_evenly() -> None:
    sizes = [len(key_groups_of(Share(subtask_index=i, parallelism=6, max_parallelism=128))) for i in range(6)]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\0b", "a" * 129, "-a"])
def test_no_name_leads_out_of_its_directory(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnusableName, match=r"output name .* cannot name a directory"):
        output_place(Place(str(tmp_path)), ATTEMPT, name)
    with pytest.raises(UnusableName, match=r"job id .* cannot name a directory"):
        output_place(Place(str(tmp_path)), ATTEMPT._replace(job_id=name), "default")
    with pytest.raises(UnusableName, match=r"vertex id .* cannot name a directory"):
        task_file_path(tmp_path, ATTEMPT._replace(vertex_id=name), TaskFile.LOG)


@pytest.mark.rule("P17")
def test_each_attempt_has_places_of_its_own(tmp_path: Path) -> None:
    assert output_place(Place(str(tmp_path)), ATTEMPT, "default") == Place(str(tmp_path / "job/vertex/default/1/attempt-2"))
    assert task_file_path(tmp_path, ATTEMPT, TaskFile.STDERR) == tmp_path / "job/vertex-1-2.stderr"


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("no_such_module_here:run", "the module 'no_such_module_here', but 'no_such_module_here' is neither"),
        ("json.nothing:run", "but 'json.nothing' is neither"),
        ("json:dump_", "did you mean 'dump'"),
        ("json", "invalid function: 'json'; give module:function"),
        (":", "invalid function: ':'; give module:function"),
        ("json:__name__", "cannot be called: str"),
    ],
)
def test_an_unknown_function_is_named(task: str, message: str) -> None:
    with pytest.raises(UnknownFunction, match=re.escape(message)):
        resolve_function(task)


def _no_argument() -> None: ...


def _two_arguments(context: object, day: str) -> None: ...


def _decorated(*arguments: object, **named: object) -> None: ...


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_no_argument, "invalid function: 'its_tasks:run' takes () -> None; a task takes one argument, the context"),
        (_two_arguments, "takes (context: object, day: str) -> None; a task takes one argument, the context"),
        (lambda **named: named, "takes (**named); a task takes one argument, the context"),
        (functools.wraps(_two_arguments)(_decorated), ""),
        (eventflink.task(_two_arguments), ""),
        (lambda context, day="today": (context, day), ""),
        (print, ""),
    ],
)
def test_a_task_that_does_not_take_the_context_is_named(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], said: str) -> None:
    module = ModuleType("its_tasks")
    module.run = function  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "its_tasks", module)
    if said:
        with pytest.raises(UnknownFunction, match=re.escape(said)):
            resolve_task("its_tasks:run")
    else:
        assert resolve_task("its_tasks:run") is function


def test_a_module_that_misses_another_fails_as_user_code_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needs_more.py").write_text("import not_there_at_all\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        resolve_function("needs_more:run")


def test_causes_are_bounded_and_can_be_encoded() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    cause = cause_of(ValueError("\ud800" + "x" * 100_000), "v")
    assert cause.failure_type == "ValueError"
    assert len(cause.message) <= MESSAGE_LIMIT
    assert cause.stack_trace is not None
    assert len(cause.stack_trace) <= STACK_TRACE_LIMIT
    (cause.message + cause.stack_trace).encode()
    assert "cannot be told" in cause_of(Unspeakable(), "v").message
    assert cause_of(SystemExit(3), "v").message == "3"
    assert cause_of(ValueError(), "v").message == "ValueError"
    assert len(bounded("y" * 999, 100)) <= 100


def test_an_input_that_is_missing_names_those_that_are_there() -> None:
    inputs = TaskInputs({"left": lambda: pytest.fail("read although nobody asked"), "right": lambda: pytest.fail("likewise")})
    assert list(inputs) == ["left", "right"]
    assert "left" in inputs
    with pytest.raises(InputUnusable, match="input not found: 'middle'; this vertex has left, right"):
        inputs["middle"]


def test_a_task_that_never_asks_for_spark_never_opens_it() -> None:
    opened: list[int] = []
    context = TaskContext(
        ATTEMPT,
        parallelism=2,
        max_parallelism=128,
        parameters={},
        readers={},
        open_spark=lambda: opened.append(1),
        accumulators=TaskAccumulators(),
    )
    assert (context.subtask_index, context.attempt, context.parallelism) == (1, 2, 2)
    assert opened == []


def test_what_is_sent_arrives_in_pieces_too() -> None:
    messages = [
        TaskProcessEnded(ATTEMPT, Killed(9)),
        EndTask(ATTEMPT, 500),
        TaskProcessEnded(ATTEMPT, Finished(())),
        TaskProcessEnded(ATTEMPT, Failed(cause_of(ValueError("a\nb"), "v"))),
    ]
    stream = b"".join(encode_line(m) for m in messages)
    buffer = LineBuffer()
    lines = [line for byte in stream for line in buffer.feed(bytes([byte]))]
    assert [decode_line(line) for line in lines] == messages
    with pytest.raises(UnreadableLine):
        decode_line(b"os.system {}")
    with pytest.raises(UnreadableLine):
        decode_line(b"EndTask {}")


def test_addresses_of_spark() -> None:
    assert session_address("sc://h:1", "u") == "sc://h:1/;session_id=u;user_id=eventflink"
    assert session_address("sc://h:1/;use_ssl=true", "u") == "sc://h:1/;use_ssl=true;session_id=u;user_id=eventflink"
    assert channel_target("sc://h") == "h:15002"
    with pytest.raises(ValueError, match="invalid Spark Connect address"):
        channel_target("http://h")
