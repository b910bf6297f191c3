"""A run of the tests as a whole, as a plugin of pytest: what it leaves to `make soak`, which processes it started, and what they used.

Four things, each said at the end of a run:

- tests marked `soak` are left out unless `--soak` asks for them, or for a sample of them, and what is left out is said;
- each file of tests on processes has a budget of process starts (`tests/process_budget.toml`); a file beyond it fails the run;
- what has failed, also while the run goes on;
- the processor time of the run by kind of process, and by the file of tests for which processes ran (`--costs=N` names more).

With pytest-xdist each worker counts, and the process that started them adds up. A process belongs to the run if it has
`EVENTFLINK_TEST_RUN` in its environment, or was started by one that does: tasks and Spark have few variables of who started them.
"""

import os
import re
import sys
import threading
import time
import tomllib
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from tests.support.zygote import STARTED

T = TypeVar("T")

_LONGEST_REASON: Final = 300

RUN_VARIABLE: Final = "EVENTFLINK_TEST_RUN"
BUDGET: Final = Path(__file__).parents[1] / "process_budget.toml"
_SAMPLE_INTERVAL_S: Final = 0.5
_YOUNG_LOOKS: Final = 10
"""After so many samples the command line of a process, whose reading costs more than all else, is read as rarely."""
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_SHARED_STARTS: Final = 12
"""What the first file of a worker may start for all that come after it: a broker, a Spark, a zygote, a browser."""

_LEAST_SHOWN_S: Final = 0.05
_WORKER: Final = b"PYTEST_XDIST_WORKER="
_SHARED: Final = "what all workers share"
_OWN: Final = "the process that started the workers"
_KINDS: Final = (
    ("pytest", re.compile(r"-c import sys;exec\(eval\(sys\.stdin|-m pytest|execnet|tests\.support\.zygote")),
    ("archives of classes", re.compile(r"-Xshare:dump|local\.class_data")),
    ("Spark", re.compile(r"SparkConnectServer|spark_supervisor|org\.apache\.spark")),
    (
        "Python workers of Spark",
        re.compile(r"pyspark[./](daemon|worker)|taskexecutor\.spark_worker|pyspark\.sql\.streaming|pyspark/python"),
    ),
    ("broker", re.compile(r"kafka\.(Kafka|tools)|StorageTool")),
    ("guardian", re.compile(r"\.guardian\b")),
    ("fork server and tasks", re.compile(r"fork_server_main|task:")),
    ("past of REST", re.compile(r"rest\.history\.worker")),
    ("browser", re.compile(r"chrom|playwright|node ")),
    ("master", re.compile(r"eventflink(\.cli)? .*\bmaster\b|ef-master")),
    ("TaskExecutor", re.compile(r"eventflink(\.cli)? .*\btaskexecutor\b|simulated_task_executors|ef-taskexecutor")),
    ("REST", re.compile(r"eventflink(\.cli)? .*\b(rest|history-server)\b|ef-rest")),
    ("command line", re.compile(r"eventflink(\.cli)?\b|ef-cli")),
)
"""Kinds of processes by their command lines; the first that fits counts."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("eventflink's own tests")
    group.addoption("--soak", action="store_true", help="run what is marked soak as well")
    group.addoption("--soak-sample", type=int, default=1, metavar="N", help="of each N tests marked soak run one, another with each commit")
    group.addoption("--costs", type=int, default=15, metavar="N", help="name the N files, and as many tests, that cost most processor time")
    group.addoption("--write-process-budget", action="store_true", help="write tests/process_budget.toml from the starts of this run")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count."""
    config.addinivalue_line(
        "markers", "soak(*rooms): takes long, and is run by `make soak`, and by .ci/run where these rooms are concerned"
    )
    os.environ.setdefault(RUN_VARIABLE, uuid.uuid4().hex)
    is_worker = hasattr(config, "workerinput")
    config.pluginmanager.register(_Starts(), "process-starts")
    if not is_worker:
        config.pluginmanager.register(_Run(config), "whole-run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is for `make soak`."""
    marked = [item for item in items if item.get_closest_marker("soak")]
    left_out = beyond_the_sample(marked, config.getoption("--soak-sample"), _TURN) if config.getoption("--soak") else marked
    config.stash[_LEFT_OUT] = Counter(item.nodeid.partition("[")[0] for item in left_out)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def beyond_the_sample(items: Sequence[T], of_each: int, turn: int) -> list[T]:
    """Return what a sample leaves out that takes one of each so many; so many turns one after the other take everything."""
    return [item for number, item in enumerate(items) if (number + turn) % of_each]


_TURN: Final = int(os.environ.get("SOAK_SEED", "0")) // 1_000
"""The number of the commit, which `make soak` makes its seeds of."""
_LEFT_OUT: Final = pytest.StashKey[Counter[str]]()


def _left_out(session: pytest.Session) -> Counter[str]:
    """Return how many tests of each function this process has left out; one that collects none leaves none out."""
    return session.config.stash.get(_LEFT_OUT, Counter())


class _Starts:
    """Counts the processes that this process starts, by the file whose test runs."""

    def __init__(self) -> None:
        self.by_file: Counter[str] = Counter()
        self._file = ""
        sys.addaudithook(self._on_event)

    def _on_event(self, event: str, _arguments: tuple[Any, ...]) -> None:
        if event in ("subprocess.Popen", STARTED) and self._file:
            self.by_file[self._file] += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Note whose starts follow."""
        self._file = str(item.path.relative_to(BUDGET.parent)) if item.path.is_relative_to(BUDGET.parent) else ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Say in each report which process the test ran in; a worker sends it with what the report has."""
        vars(report).setdefault("process_id", os.getpid())

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the process that started this one."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["starts"], output["left_out"] = dict(self.by_file), dict(_left_out(session))


class _Run:
    """Adds up what all processes of a run have counted, and says it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._starts: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        """How many tests of each function were left out; each worker leaves out the same."""
        self._began = time.monotonic()
        self._sampler = ProcessorTime(os.environ[RUN_VARIABLE])
        if config.getoption("numprocesses", None):  # A run of many; of one file a person wants the result alone.
            self._sampler.start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker has counted."""
        output = getattr(node, "workeroutput", {})
        self._starts.update(output.get("starts", {}))
        self._left_out |= Counter(output.get("left_out", {}))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Charge a test of a worker for what has run there since the one before it ended."""
        if not hasattr(report, "node"):
            return
        if report.failed:
            self._tell_failure(report)
        self._sampler.name_worker(vars(report)["process_id"], report.node.gateway.id)
        if report.when == "teardown":
            self._sampler.charge(report.node.gateway.id, report.nodeid)

    def _tell_failure(self, report: pytest.TestReport) -> None:
        """Say at once what failed: a run takes long, and one that is stopped says nothing at its end."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(reporter, pytest.TerminalReporter)
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = (crash.message if crash is not None else report.longreprtext).partition("\n")[0]
        reporter.ensure_newline()
        reporter.write_line(f"FAILED {report.nodeid}: {reason[:_LONGEST_REASON]}", red=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run in which a file has started too many processes."""
        own = session.config.pluginmanager.get_plugin("process-starts")
        assert isinstance(own, _Starts)
        self._starts.update(own.by_file)
        self._left_out |= _left_out(session)
        if session.config.getoption("--write-process-budget"):
            BUDGET.write_text(written_budget(self._starts), encoding="utf-8")
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._config.getoption("--soak-sample") > 1:
            session.exitstatus = pytest.ExitCode.OK  # Of a few tests the sample may have none this time.
        if self._over_budget() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _over_budget(self) -> list[str]:
        """Return what is beyond its budget; what `make soak` runs besides has none."""
        return [] if self._config.getoption("--soak") else over_budget(self._starts, read_budget())

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what was left out, what was started, and what it used."""
        if self._left_out:
            terminalreporter.write_line(f"{self._left_out.total()} tests are left to `make soak`")
            if self._config.getoption("--soak"):
                for name, count in sorted(self._left_out.items()):
                    terminalreporter.write_line(f"{count:8} of {name}")
        for line in self._over_budget():
            terminalreporter.write_line(line, red=True)
        if not (used := self._sampler.stop()):
            return
        total = sum(used.values())
        terminalreporter.section(f"processor time by kind of process: {total:.0f} s in {time.monotonic() - self._began:.0f} s", "-")
        for kind, seconds in sorted(used.items(), key=lambda each: -each[1]):
            terminalreporter.write_line(f"{seconds:8.1f} s {seconds / total:5.0%}  {kind}")
        terminalreporter.write_line(f"sampled each {_SAMPLE_INTERVAL_S} s: what a process used after its last sample is not in it")
        for title, costs in (("file of tests", _by_file(self._sampler.by_test)), ("test", self._sampler.by_test)):
            terminalreporter.section(f"processor time by {title}", "-")
            for name, kinds in sorted(costs.items(), key=lambda each: -each[1].total())[: self._config.getoption("costs")]:
                most = ", ".join(f"{kind} {seconds:.0f}" for kind, seconds in kinds.most_common(4) if seconds >= 1)
                terminalreporter.write_line(f"{kinds.total():8.1f} s  {name}  ({most})")
        terminalreporter.write_line("what tests of a worker share, such as its Spark, is charged to the one that runs meanwhile")


# -- budgets --------------------------------------------------------------------------------------------------------


def read_budget() -> dict[str, int]:
    """Return how many processes each file of tests may start."""
    return tomllib.loads(BUDGET.read_text(encoding="utf-8"))["starts"] if BUDGET.exists() else {}


def over_budget(starts: Counter[str], budget: dict[str, int]) -> list[str]:
    """Return a line for each file of tests on processes that has started more than it may."""
    return [
        f"{file} has started {count} processes; its budget in {BUDGET.name} is {budget.get(file, 0)}: share a cluster, start by the zygote "
        "what need not be executed, or raise the budget and say why"
        for file, count in sorted(starts.items())
        if file.startswith(("integration/", "e2e/")) and count > budget.get(file, 0) + _SHARED_STARTS
    ]


def written_budget(starts: Counter[str]) -> str:
    """Return a file of budgets: of each file of tests what it started, and a fifth, for what is tried again on a slow machine."""
    lines = [f'"{file}" = {count + count // 5 + 2}' for file, count in sorted(starts.items()) if file.startswith(("integration/", "e2e/"))]
    return "\n".join(
        ["# How many processes each file of tests may start; `pytest --write-process-budget` writes it anew.", "[starts]", *lines, ""]
    )


# -- processor time -------------------------------------------------------------------------------------------------


def _by_file(by_test: "dict[str, Counter[str]]") -> "dict[str, Counter[str]]":
    """Return what the tests of each file have cost by kind of process."""
    costs: dict[str, Counter[str]] = {}
    for name, kinds in by_test.items():
        costs.setdefault(name.partition("::")[0], Counter()).update(kinds)
    return costs


def kind_of(command_line: str) -> str:
    """Return the kind of a process by its command line."""
    return next((kind for kind, pattern in _KINDS if pattern.search(command_line)), "other")


class ProcessorTime:
    """Samples the processor time of all processes of a run, in a thread of its own."""

    def __init__(self, run_id: str) -> None:
        self._mark = f"{RUN_VARIABLE}={run_id}".encode()
        self._used: dict[tuple[int, int], tuple[str, float]] = {}
        """The kind of each process, and what it has used, by its id and when it began."""
        self._looks: Counter[tuple[int, int]] = Counter()
        self._strangers: set[tuple[int, int]] = set()
        self._workers: dict[tuple[int, int], str] = {}
        """For which worker of the run each process was started."""
        self._names: dict[int, str] = {}
        self._uncharged: dict[str, Counter[str]] = {}
        """What each worker has used since its last test ended, by kind of process."""
        self._charging = threading.Lock()
        self.by_test: dict[str, Counter[str]] = {}
        """What each test has used by kind of process, and what is of no test."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_ended, name="processor-time", daemon=True)

    def start(self) -> None:
        """Begin, where there is a /proc."""
        if Path("/proc/self/stat").exists():
            self._thread.start()

    def stop(self) -> dict[str, float]:
        """End, and return the seconds of each kind of which there was anything."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_SAMPLE_INTERVAL_S * 4)
        for worker in list(self._uncharged):
            self.charge(worker, f"{worker} when its tests had ended" if worker not in (_SHARED, _OWN) else worker)
        used: Counter[str] = Counter()
        for kind, seconds in list(self._used.values()):
            used[kind] += seconds  # type: ignore[assignment] # a Counter of seconds
        return {kind: seconds for kind, seconds in used.items() if seconds >= _LEAST_SHOWN_S}

    def name_worker(self, process_id: int, worker: str) -> None:
        """Take a process for a worker of the run; it says so in the environment of what it starts, not in its own."""
        if self._names.get(process_id) != worker:
            self._names[process_id] = worker
            self._workers = {}  # What it has started before was not known to be of it.

    def charge(self, worker: str, name: str) -> None:
        """Charge a test for what its worker has used since the last time."""
        with self._charging:
            used = self._uncharged.pop(worker, None)
        if used:
            self.by_test.setdefault(name, Counter()).update(used)

    def _sample_until_ended(self) -> None:
        while not self._ended.wait(_SAMPLE_INTERVAL_S):
            self._sample()

    def _sample(self) -> None:
        now = sorted(_processes(), key=lambda each: each[1])  # Whoever starts another one began before it.
        ours = {process_id for process_id, began, _, _ in now if (process_id, began) in self._used} | {os.getpid()}
        workers = {process_id: self._workers[process_id, began] for process_id, began, _, _ in now if (process_id, began) in self._workers}
        for process_id, began, parent_id, seconds in now:
            process = process_id, began
            if process in self._strangers:
                continue
            if process_id not in ours and parent_id not in ours and not self._is_of_the_run(process_id):
                self._strangers.add(process)
                continue
            ours.add(process_id)
            kind, before_s = self._used.get(process, ("other", 0.0))
            self._looks[process] += 1
            # A process that was forked may become another one, by exec or by a name that it takes; one that has ended has neither.
            if self._looks[process] <= _YOUNG_LOOKS or self._looks[process] % _YOUNG_LOOKS == 0:
                kind = self._kind_of(process_id) or kind
            if process not in self._workers or process_id in self._names:
                self._workers[process] = workers[process_id] = self._worker_of(process_id, workers.get(parent_id, _OWN))
            with self._charging:
                counted = self._uncharged.setdefault(workers[process_id], Counter())
                counted[kind] += seconds - before_s  # type: ignore[assignment] # a Counter of seconds
            self._used[process] = kind, seconds

    def _worker_of(self, process_id: int, of_parent: str) -> str:
        """Return the worker for which a process was started, by its environment, or else by its parent."""
        if process_id in self._names:
            return self._names[process_id]
        try:
            if (
                b"/shared-" in Path(f"/proc/{process_id}/cmdline").read_bytes()
            ):  # A directory that `tests/conftest.py` has all workers share.
                return _SHARED
            environment = Path(f"/proc/{process_id}/environ").read_bytes().split(b"\0")
        except OSError:
            return of_parent
        named = next((each.removeprefix(_WORKER).decode() for each in environment if each.startswith(_WORKER)), of_parent)
        return of_parent if of_parent == _SHARED else named

    def _is_of_the_run(self, process_id: int) -> bool:
        try:
            return self._mark in Path(f"/proc/{process_id}/environ").read_bytes().split(b"\0")
        except OSError:
            return False

    def _kind_of(self, process_id: int) -> str:
        """Return the kind of a process; nothing if it has ended and nobody has waited for it."""
        if process_id == os.getpid():
            return "pytest"
        try:
            command_line = Path(f"/proc/{process_id}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            name = Path(f"/proc/{process_id}/comm").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""
        if not command_line:
            return ""
        return kind_of(name if name.startswith("ef-") else command_line)


def _processes() -> Iterator[tuple[int, int, int, float]]:
    """Yield the processes of this host: the id, when it began in ticks, its parent's id, and the processor time so far in seconds."""
    for name in (entry.name for entry in os.scandir("/proc")):
        if not name.isdecimal():
            continue
        try:
            descriptor = os.open(f"/proc/{name}/stat", os.O_RDONLY)  # A path and a text file of each would cost six times that.
        except OSError:  # It has just ended.
            continue
        try:
            stat = os.read(descriptor, 4_096)
        except OSError:
            continue
        finally:
            os.close(descriptor)
        fields = stat.rpartition(b")")[2].split(maxsplit=20)
        yield int(name), int(fields[19]), int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
