"""Functions of a notebook as a module: what travels with them, what cannot, and that another Python refuses them."""

import importlib
import json
import os
import statistics
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from eventflink.jobs import notebook_tasks
from eventflink.jobs.archive import build_archive
from eventflink.jobs.code_digest import function_digests
from eventflink.jobs.notebook_tasks import NotebookTasksUnusable, write_module
from eventflink.jobs.python_jobs import NOTEBOOK_MODULE, InvalidPythonJob, PythonJob

TYPED = """
import eventflink
import helper
FACTOR = 3
def times(number):
    return number * FACTOR
@eventflink.task
def writes(path, number=7):
    import inner_helper
    open(path, "w").write(str([times(helper.add(number)), inner_helper.NAME]))
@eventflink.job
def job(path: str):
    writes(path)
"""

CACHED = """
import functools
@functools.lru_cache(maxsize=7, typed=True)
def fibonacci(number):
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)
@eventflink.task
def writes(path):
    import inner_helper
    open(path, "w").write(str([times(fibonacci(10)), fibonacci.cache_parameters(), inner_helper.NAME]))
"""


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """A program without a file, in which the tasks were typed, beside modules of its directory."""
    (tmp_path / "helper.py").write_text("def add(number):\n    return number + 1\n")
    (tmp_path / "inner_helper.py").write_text("NAME = 'inner'\n")
    (tmp_path / "unrelated.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    program = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", program)
    exec(TYPED, vars(program))
    return program


def job_of(program: ModuleType) -> PythonJob:
    job: PythonJob = program.job
    return job


def test_they_run_elsewhere_with_what_they_use_and_the_modules_beside_them(typed: ModuleType, tmp_path: Path) -> None:
    job = job_of(typed)
    assert job.document()["vertices"] == [{"id": "writes", "python": f"{NOTEBOOK_MODULE}:writes"}]
    code = job.code()
    assert sorted(path.name for path in code) == ["helper.py", "inner_helper.py", NOTEBOOK_MODULE]
    (tmp_path / "elsewhere").mkdir()
    archive = tmp_path / "elsewhere" / "code.zip"
    archive.write_bytes(build_archive(code))
    program = f"import sys; sys.path.insert(0, {str(archive)!r}); from {NOTEBOOK_MODULE} import writes; writes.function('written')"
    subprocess.run([sys.executable, "-c", program], cwd=archive.parent, check=True, timeout=60)
    assert (tmp_path / "elsewhere" / "written").read_text() == "[24, 'inner']"


def test_another_python_refuses_them(typed: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "made" / NOTEBOOK_MODULE
    write_module({"writes": typed.writes.function}, package)
    sources = package / "sources.json"
    sources.write_text(json.dumps(json.loads(sources.read_text()) | {"python": [3, 9]}))
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.delitem(sys.modules, NOTEBOOK_MODULE, raising=False)
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    with pytest.raises(NotebookTasksUnusable, match=rf"the notebook runs Python 3\.9, and tasks run {own}"):
        __import__(NOTEBOOK_MODULE)


def test_what_cannot_travel_is_told_with_the_task_before_anything_is_submitted(typed: ModuleType) -> None:
    exec("import threading\nFACTOR = threading.Lock()", vars(typed))
    with pytest.raises(InvalidPythonJob, match=r"job 'job': task 'writes' uses 'FACTOR' of the notebook, which cannot travel .*lock"):
        job_of(typed).code()


def test_what_cannot_travel_is_named_wherever_it_is_used(typed: ModuleType) -> None:
    job, program = job_of(typed), vars(typed)
    exec("import threading\nadd = LOCK = threading.Lock()\ndef times(number):\n    return [LOCK for _ in range(number)]", program)
    with pytest.raises(InvalidPythonJob, match="task 'writes' uses 'LOCK' of the notebook, which cannot travel"):
        job.code()
    exec("def made(lock):\n    return lambda number: lock\ntimes = made(LOCK)", program)
    with pytest.raises(InvalidPythonJob, match="task 'writes' uses 'times' of the notebook, which cannot travel"):
        job.code()


def test_cached_functions_travel_also_those_that_call_themselves(typed: ModuleType, tmp_path: Path) -> None:
    exec(CACHED, vars(typed))
    archive = tmp_path / "code.zip"
    archive.write_bytes(build_archive(job_of(typed).code()))
    program = f"import sys; sys.path.insert(0, {str(archive)!r}); from {NOTEBOOK_MODULE} import writes; writes.function('written')"
    (tmp_path / "elsewhere").mkdir()
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path / "elsewhere", check=True, timeout=60)
    assert (tmp_path / "elsewhere" / "written").read_text() == "[165, {'maxsize': 7, 'typed': True}, 'inner']"


def test_what_would_travel_as_a_name_alone_is_told(typed: ModuleType) -> None:
    exec("class Named:\n    def __reduce__(self): return 'FACTOR'\nFACTOR = Named()", vars(typed))
    with pytest.raises(InvalidPythonJob, match=r"task 'writes' uses 'FACTOR' .*of 'FACTOR' only the name would travel"):
        job_of(typed).code()


def test_data_of_the_notebook_is_bounded(typed: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_tasks, "MAX_TASKS_BYTES", 10_000)
    job_of(typed).code()
    exec("FACTOR = bytes(range(256)) * 100", vars(typed))
    with pytest.raises(InvalidPythonJob, match=r"task 'writes' takes .* bytes of the notebook with it, and at most 10000 travel"):
        job_of(typed).code()


def test_modules_that_tasks_import_travel_and_no_others_that_a_text_of_them_names(typed: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "unrelated.py").write_text("this is no Python\n")
    exec('MARK = "unrelated"\ndef marked():\n    return [MARK, "unrelated", helper.add(1)]\n', vars(typed))
    modules = write_module({"writes": typed.writes.function, "marked": typed.marked}, tmp_path / "made")
    assert {"helper", "inner_helper"} <= modules
    assert "unrelated" not in modules


def test_functions_of_libraries_stay_as_they_are(typed: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither do their sources travel, nor have they other lines once tasks that use them were loaded here."""
    exec("from statistics import mean\ndef average():\n    return mean([1])\n", vars(typed))
    write_module({"average": typed.average}, tmp_path / "made")
    assert "def mean" not in (tmp_path / "made" / "cells.py.txt").read_text()
    monkeypatch.syspath_prepend(str(tmp_path))
    before = statistics.mean.__code__
    assert importlib.import_module("made").average.function() == 1
    assert statistics.mean.__code__ is before


def test_one_pickle_that_no_function_explains_is_not_half_written(tmp_path: Path) -> None:
    lock = threading.Lock()
    with pytest.raises(NotebookTasksUnusable):
        write_module({"locks": lambda: lock}, tmp_path / "made")
    assert not (tmp_path / "made").exists()
    assert not zipfile.is_zipfile(tmp_path / "made")


def test_the_same_cells_are_the_same_bytes_and_so_the_same_version_of_the_job(typed: ModuleType) -> None:
    first, again = (build_archive(job_of(typed).code()) for _ in range(2))
    assert first == again
    exec(TYPED, vars(typed))
    assert build_archive(job_of(typed).code()) == first, "a cell that was run again"
    exec("FACTOR = 4", vars(typed))
    assert build_archive(job_of(typed).code()) != first


SHARED = """
import dataclasses
import datetime
import re
import helper
RATE = 3
NAMES = {"b", "a", "c"}
class Least:
    def __init__(self, least):
        self.least = least
    def __get__(self, row, kind):
        return self.least
    def __set__(self, row, value):
        pass
@dataclasses.dataclass
class Row:
    size: int = 2
    least = Least(3)
    @property
    def own(self):
        return "own"
    def text(self):
        return f"{RATE}"
    def again(self):
        return Row()
def scaled(number):
    return number * RATE
@eventflink.task
def orders(context):
    \"""Orders.\"""
    return [scaled(1) for _ in NAMES if re.compile("x")]
@eventflink.task
def totals(orders):
    def inner(row):
        return Row().text() + "t"
    return inner(orders)
@eventflink.task
def report(totals, day: datetime.date = datetime.date(2026, 1, 1)):
    import inner_helper
    return [each for each in totals]
@eventflink.job
def job():
    report(totals(orders()))
"""


def digests_of(program: ModuleType, text: str = SHARED) -> dict[str, str]:
    """Return the digest of each task of a notebook after its cells have run."""
    exec(text, vars(program))
    functions = [vertex["python"] for vertex in job_of(program).document()["vertices"]]
    found = function_digests([build_archive(job_of(program).code())], functions)
    return {function.partition(":")[2]: digest for function, digest in found.items()}


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("# nothing", "# nothing else", set[str]()),
        ("return [each for each in totals]", "return []", {"report"}),
        ('Row().text() + "t"', 'Row().text() + "u"', {"totals"}),
        ("return number * RATE", "return number + RATE", {"orders"}),
        ("RATE = 3", "RATE = 4", {"orders", "totals"}),
        ('return f"{RATE}"', 'return f"{RATE}."', {"totals"}),
        ('{"b", "a", "c"}', '{"b", "a"}', {"orders"}),
        ("datetime.date(2026, 1, 1)", "datetime.date(2026, 1, 2)", {"report"}),
        ("    size: int = 2", "    size: int = 3", {"totals"}),
        ('return "own"', 'return "other"', {"totals"}),
        ("Least(3)", "Least(4)", {"totals"}),
        ("def orders(context):\n", "def orders(context):\n    # Said of it.\n\n", set[str]()),
    ],
)
def test_of_a_notebook_those_tasks_have_changed_that_are_made_of_what_has(
    typed: ModuleType, before: str, after: str, changed: set[str]
) -> None:
    text = SHARED + "# nothing\n"
    assert before in text
    first, again = digests_of(typed, text), digests_of(typed, text)
    assert first == again
    assert len(set(first.values())) == 3
    then = digests_of(typed, text.replace(before, after))
    assert {name for name in first if then[name] != first[name]} == changed


@pytest.mark.parametrize(
    "reaching",
    [
        *("globals()", "eval('1')", "__import__('helper')", "re.sys.modules", "open(__file__)", "getattr(scaled, '__globals__')"),
        *("scaled.__code__", "_look()", "_load('helper')", "_pickle.loads(b'')", "(lambda: vars())()", "re.sys.path", "_system.path"),
    ],
)
def test_a_task_that_may_reach_any_other_is_made_of_all(typed: ModuleType, reaching: str) -> None:
    aliases = "from importlib import import_module as _load\nimport pickle as _pickle\nimport sys as _system\n_look = globals\n"
    text = aliases + SHARED.replace("return [each for each in totals]", f"return {reaching}")
    before = digests_of(typed, text)
    after = digests_of(typed, text.replace("return number * RATE", "return number + RATE"))
    assert {name for name in before if after[name] != before[name]} == {"orders", "report"}


def test_a_module_beside_a_notebook_is_a_part_of_each_of_its_tasks(typed: ModuleType, tmp_path: Path) -> None:
    before = digests_of(typed)
    (tmp_path / "inner_helper.py").write_text("NAME = 'other'\n")
    after = digests_of(typed)
    assert not {*before.values()} & {*after.values()}


def test_another_kernel_finds_the_same_digests(typed: ModuleType, tmp_path: Path) -> None:
    program = """
import json, sys
import tests.unit.test_notebook_tasks as tests
program = sys.modules["__main__"]
exec("import eventflink", vars(program))
print(json.dumps(tests.digests_of(program, tests.SHARED)))
"""
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(tmp_path)])}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    there, here = json.loads(done.stdout), digests_of(typed)
    assert {name: there[name] for name in ("totals", "report")} == {name: here[name] for name in ("totals", "report")}
