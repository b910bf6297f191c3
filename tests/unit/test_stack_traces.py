"""Of a trace that is too long what its author wrote stays, and what is left out is said."""

import json
import traceback
from pathlib import Path

import pytest

from eventflink.model.stack_traces import cut_stack_trace, folded_stack_trace, user_location
from eventflink.taskexecutor.failure_causes import STACK_TRACE_LIMIT, cause_of

_CHAINED = """
import json

def read(text):
    try:
        return json.loads(text)
    except ValueError as error:
        raise KeyError(text) from error
"""

_DEEP = """
import re

def task():
    return re.sub("x", go, "x")

def go(_):
    raise ValueError(chr(10).join(["jvm"] * 50_000))
"""


def in_libraries(depth: int, message: str) -> str:
    """Return a trace: the user's module calls a library, which calls itself, which calls the user's function, which fails."""
    frames = ['  File "/home/ann/job.py", line 3, in total\n    return rows.aggregate(add)']
    frames += [
        f'  File "/venv/lib/python3.11/site-packages/frames/core.py", line {n}, in step\n    return step()\n           ^^^^^^'
        for n in range(depth)
    ]
    frames += ['  File "/home/ann/job.py", line 7, in add\n    raise ValueError(row)']
    return "Traceback (most recent call last):\n" + "\n".join(frames) + f"\nValueError: {message}\n"


_DIGEST = "0123456789abcdef" * 4
_PLACES = [
    ('  File "/home/ann/job.py", line 7, in add', "/home/ann/job.py:7 in add"),
    (f'  File "/data/run/archives/{_DIGEST}/steps/job.py", line 7, in Steps.add', "steps/job.py:7 in Steps.add"),
    (f'  File "/data/run/archives/{_DIGEST}.zip/job.py", line 7, in <lambda>', "job.py:7 in <lambda>"),
    (f'  File "/my data/run/archives/{_DIGEST}.zip/job.py", line 7, in add', "job.py:7 in add"),
    ('  File "/home/ann/job.py", line 1, in <module>', "/home/ann/job.py:1"),
    ('  File "/home/ann/job.py", line 1', "/home/ann/job.py:1"),
    ('  File "/venv/lib/python3.11/site-packages/a/b.py", line 1, in c', ""),
    ('  File "/src/eventflink/taskexecutor/task_run.py", line 1, in c', ""),
    ('  File "<frozen importlib._bootstrap>", line 1, in c', ""),
    ("no frame", ""),
]


@pytest.mark.parametrize(("frame", "place"), _PLACES)
def test_where_the_user_s_code_was_is_its_last_frame_by_its_name_in_the_archive(frame: str, place: str) -> None:
    library = '  File "/venv/lib/python3.11/site-packages/frames/core.py", line 3, in step\n    step()'
    trace = f"Traceback (most recent call last):\n{library}\n{frame}\n    pass\n{library}\nValueError: x"
    assert user_location(trace) == place


@pytest.mark.parametrize("directory", ["/data", "/my own data"])
def test_folded_a_trace_has_the_user_s_frames_whole_and_libraries_counted(directory: str) -> None:
    trace = in_libraries(3, "x").replace("/home/ann/", f"{directory}/archives/{_DIGEST}/")
    assert folded_stack_trace(trace).splitlines() == [
        "Traceback (most recent call last):",
        '  File "job.py", line 3, in total',
        "    return rows.aggregate(add)",
        "  … 3 frames of frames …",
        '  File "job.py", line 7, in add',
        "    raise ValueError(row)",
        "ValueError: x",
    ]


def test_a_trace_that_fits_is_left_as_it_is() -> None:
    trace = in_libraries(3, "x")
    assert cut_stack_trace(trace, lambda _: True) is trace


def test_frames_of_libraries_go_first_and_are_counted() -> None:
    assert cut_stack_trace(in_libraries(30, "bad row"), lambda text: len(text.splitlines()) <= 10).splitlines() == [
        "Traceback (most recent call last):",
        '  File "/home/ann/job.py", line 3, in total',
        "    return rows.aggregate(add)",
        "  … 30 frames of frames …",
        '  File "/home/ann/job.py", line 7, in add',
        "    raise ValueError(row)",
        "ValueError: bad row",
    ]


def test_then_the_middle_of_a_message_goes() -> None:
    jvm = "\n".join(["it failed", *(f"\tat org.apache.spark.Some{n}" for n in range(500)), "Caused by: java.io.IOException"])
    lines = cut_stack_trace(in_libraries(5, jvm), lambda text: len(text) < 600).splitlines()
    assert lines[-5:] == [
        "ValueError: it failed",
        "\tat org.apache.spark.Some0",
        "\tat org.apache.spark.Some1",
        "  … 498 lines …",
        "Caused by: java.io.IOException",
    ]
    assert lines[1] == '  File "/home/ann/job.py", line 3, in total'


def test_each_exception_of_a_chain_keeps_its_own_frames_and_its_line(tmp_path: Path) -> None:
    path = tmp_path / "chained.py"
    path.write_text(_CHAINED)
    module: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), module)
    read = module["read"]
    assert callable(read)
    with pytest.raises(KeyError) as raised:
        read("{" * 50)
    trace = "".join(traceback.format_exception(raised.value))
    cut = cut_stack_trace(trace, lambda text: len(text) < len(trace) - 200)
    assert len(cut) < len(trace)
    assert cut.count(f'File "{path}"') == trace.count(f'File "{path}"') == 2
    assert "json.decoder.JSONDecodeError: " in cut
    assert "The above exception was the direct cause" in cut
    assert f'File "{json.__file__}"' not in cut


def test_a_text_that_is_no_trace_keeps_its_beginning_and_its_end() -> None:
    assert cut_stack_trace("\n".join(map(str, range(100))), lambda _: False).splitlines() == ["0", "1", "2", "  … 96 lines …", "99"]


def test_what_a_task_executor_reports_of_a_deep_failure_keeps_the_frames_of_the_task(tmp_path: Path) -> None:
    path = tmp_path / "deep.py"
    path.write_text(
        "import re\n\ndef task():\n    return re.sub('x', go, 'x')\n\ndef go(_):\n    raise ValueError('\\n'.join(['jvm'] * 50_000))\n"
    )
    module: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), module)
    task = module["task"]
    assert callable(task)
    with pytest.raises(ValueError, match="jvm") as raised:
        task()
    trace = cause_of(raised.value, "v").stack_trace
    assert trace is not None
    assert len(trace) <= STACK_TRACE_LIMIT
    assert "in task" in trace
    assert "in go" in trace
    assert "lines …" in trace
