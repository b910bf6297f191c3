"""Real task processes, from a real fork server, with a real Spark: how they end, what code they run, and what they leave."""

import json
import os
import queue
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from eventflink.model.attempts import AttemptId, IOMetrics
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.places import Place
from eventflink.model.statuses import TaskFile
from eventflink.taskexecutor.fork_server import ForkServer, ForkServerSettings
from eventflink.taskexecutor.fork_server_wire import encode_line
from eventflink.taskexecutor.process_events import (
    EndTask,
    Failed,
    Finished,
    ForkServerDied,
    ForkServerReady,
    Killed,
    ProcessEvent,
    ReleaseSpark,
    SparkOpened,
    SparkReleased,
    TaskInitialized,
    TaskLaunched,
    TaskProcessEnded,
)
from eventflink.taskexecutor.spark_release import channel_target
from eventflink.taskexecutor.spark_server import SparkLease, is_server_alive
from eventflink.taskexecutor.task_files import task_file_path
from tests.support.spark_work import wait_until_it_computes, wait_until_it_rests
from tests.support.task_host import Host, is_running, wait_until


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FSSPEC_S3_SECRET", "of the cluster")
        patch.setenv("NAMED_FOR_TASKS", "theirs")
        host = Host(tmp_path_factory.mktemp("host with space"))
    yield host
    host.server.begin_stop()
    host.server.wait_until_gone()
    assert host.server.process_ids() == []
    host.lease.release()
    wait_until(lambda: not is_server_alive(host.settings.runtime_directory), 120)


# How a task runs and ends


def test_a_task_tells_its_life_in_order(host: Host) -> None:
    attempt, _ = host.launch("noop")
    assert host.wait_for(TaskProcessEnded, attempt).outcome == Finished((), io=IOMetrics(0, 0, 0, 0))
    mine = [type(e) for e in host.events if getattr(e, "attempt", None) == attempt]
    assert mine == [TaskLaunched, TaskInitialized, TaskProcessEnded]
    assert not is_running(host.wait_for(TaskLaunched, attempt).process_id)


def test_a_task_logs_and_prints_to_its_own_files(host: Host) -> None:
    attempt, _ = host.launch("talk", parameters={"word": "héllo"})
    assert isinstance(host.wait_for(TaskProcessEnded, attempt).outcome, Finished)
    texts = {f: task_file_path(host.settings.log_directory, attempt, f).read_text("utf-8") for f in TaskFile}
    assert texts[TaskFile.STDOUT] == "on stdout\n"
    assert texts[TaskFile.STDERR] == "on stderr\n"
    assert "INFO task.vertex: in the log héllo" in texts[TaskFile.LOG]


def test_a_task_has_named_environment_variables_only(host: Host) -> None:
    attempt, _ = host.launch("show_environment")
    assert isinstance(host.wait_for(TaskProcessEnded, attempt).outcome, Finished)
    environment = json.loads(task_file_path(host.settings.log_directory, attempt, TaskFile.STDOUT).read_text("utf-8"))
    assert environment["NAMED_FOR_TASKS"] == "theirs"
    assert environment["PATH"] == os.environ["PATH"]
    assert not [name for name in environment if name.startswith(("FSSPEC_", "PYTEST_"))]


@pytest.mark.rule("L8")
def test_a_task_is_given_the_secret_that_its_job_names_and_nothing_that_it_says_has_it(host: Host) -> None:
    secret = "hush\n'hush'"
    (host.directory / "db").write_text(secret, encoding="utf-8")
    attempt, _ = host.launch("fail_with_secret", parameters={"password": {"secret": "db"}, "length": len(secret)})
    outcome = host.wait_for(TaskProcessEnded, attempt).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.cause.failure_type, outcome.cause.message, outcome.cause.root_message) == ("ValueError", "no ***", '"***"')
    log = task_file_path(host.settings.log_directory, attempt, TaskFile.LOG).read_text("utf-8")
    assert "the password is ***" in log
    assert "hush" not in f"{outcome.cause}{log}"


def test_a_secret_that_is_missing_is_the_failure_before_any_code_of_the_job_is_loaded(host: Host) -> None:
    failure_type, message, trace = host.fail("no_such_module:f", parameters={"password": {"secret": "none"}}, code_archives=("0" * 64,))
    assert failure_type == "SecretUnavailable"
    assert message == f"vertex 'vertex': secret not found: 'none' on TaskManager 'tm-1'; looked for file 'none' in {host.directory}"
    assert not trace


def test_a_user_exception_is_the_failure(host: Host) -> None:
    failure_type, message, trace = host.fail("fail")
    assert (failure_type, message) == ("ArithmeticError", "seven is not eight")
    assert "in fail" in trace
    assert "task_run.py" not in trace
    assert host.fail("leave")[:2] == ("SystemExit", "no more of this")


def test_a_process_that_ends_without_a_message(host: Host) -> None:
    failure_type, message, _ = host.fail("vanish")
    assert failure_type == "TaskProcessExited"
    assert "exit status 7" in message
    assert "--file stderr" in message


def test_kill_9_of_a_task_is_told_as_such(host: Host) -> None:
    attempt, _ = host.launch("sleep")
    host.wait_for(TaskInitialized, attempt)
    os.kill(host.wait_for(TaskLaunched, attempt).process_id, signal.SIGKILL)
    assert host.wait_for(TaskProcessEnded, attempt).outcome == Killed(signal.SIGKILL)


def test_a_task_that_is_told_to_end_ends_with_what_it_started(host: Host, tmp_path: Path) -> None:
    attempt, _ = host.launch("sleep_with_child", parameters={"file": str(tmp_path / "child")})
    wait_until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text() != "", 120)
    host.server.send(EndTask(attempt, 5000))
    assert host.wait_for(TaskProcessEnded, attempt).outcome == Killed(signal.SIGTERM)
    wait_until(lambda: not is_running(int((tmp_path / "child").read_text())), 120)
    host.server.send(EndTask(attempt, 5000))
    assert host.finish("noop") == ()


ESCAPES = """
import os, signal, subprocess, sys, time
from pathlib import Path

def start(kind, place):
    say = f"import os, time; open({str(place)!r} + '/' + str(os.getpid()), 'w'); time.sleep(3600)"
    if kind == "session":
        subprocess.Popen([sys.executable, "-c", say], start_new_session=True, env={})
    elif kind == "daemon":  # Its parent ends at once, and its group is one of nobody.
        again = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {say!r}], start_new_session=True)"
        subprocess.run([sys.executable, "-c", again], start_new_session=True)
    elif kind == "fork":
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            exec(say)
    elif kind == "family":  # Each has a session of its own, and the one before it ends.
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                if os.fork():
                    os._exit(0)
                exec(say)

def leave(context):
    how, place = context.parameters["how"], Path(context.parameters["place"])
    start(context.parameters["kind"], place)
    while len(list(place.iterdir())) < (3 if context.parameters["kind"] == "family" else 1):
        time.sleep(0.01)
    (place.with_suffix(".ready")).touch()
    if how == "fail": raise ValueError("it fails")
    if how == "vanish": os._exit(7)
    if how == "abort": os.abort()
    if how != "finish": time.sleep(3600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers: elsewhere a session of its own escapes")
@pytest.mark.parametrize("how", ["finish", "fail", "vanish", "abort", "end", "kill"])
@pytest.mark.parametrize("kind", ["session", "daemon", "fork", "family"])
def test_nothing_that_a_task_has_started_outlives_it(host: Host, tmp_path: Path, kind: str, how: str) -> None:
    """Whatever sessions it made, whoever is orphaned below it, and however it ends; another task's processes live on."""
    place, other = tmp_path / "processes", tmp_path / "other"
    code = {"code_archives": (host.archives.add(escapes=ESCAPES),)}
    for each, its_end in ((place, how), (other, "live")):
        each.mkdir()
        attempt, _ = host.launch("escapes:leave", parameters={"kind": kind, "how": its_end, "place": str(each)}, **code)
        wait_until(each.with_suffix(".ready").exists, 120)
        if each == place:
            ended = attempt
    mine, others = ([int(path.name) for path in each.iterdir()] for each in (place, other))
    if how == "end":
        host.server.send(EndTask(ended, 500))
    if how == "kill":
        os.kill(host.wait_for(TaskLaunched, ended).process_id, signal.SIGKILL)
    host.wait_for(TaskProcessEnded, ended)
    assert [each for each in mine if is_running(each)] == []
    assert [each for each in others if is_running(each)] == others
    host.server.send(EndTask(attempt, 500))
    host.wait_for(TaskProcessEnded, attempt)
    assert [each for each in others if is_running(each)] == []


TASK_EXECUTOR = """
import sys, time
from pathlib import Path
from tests.support.task_host import Host, wait_until
host, place = Host(Path(sys.argv[1])), Path(sys.argv[2])
code = (host.archives.add(escapes=Path(sys.argv[3]).read_text()),)
host.launch("escapes:leave", parameters={"kind": sys.argv[4], "how": "live", "place": str(place)}, code_archives=code)
time.sleep(3600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="as above")
@pytest.mark.parametrize("kind", ["session", "family"])
def test_nothing_that_a_task_has_started_outlives_a_task_executor_that_is_killed(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "processes"
    place.mkdir()
    (tmp_path / "code.py").write_text(ESCAPES)
    arguments = [str(tmp_path / "host"), str(place), str(tmp_path / "code.py"), kind]
    with subprocess.Popen([sys.executable, "-c", TASK_EXECUTOR, *arguments]) as owner:
        wait_until(place.with_suffix(".ready").exists, 120)
        owner.kill()
    mine = [int(path.name) for path in place.iterdir()]
    wait_until(lambda: not any(map(is_running, mine)), 120)


def test_a_task_that_ignores_sigterm_is_killed(host: Host, tmp_path: Path) -> None:
    attempt, _ = host.launch("stubborn", parameters={"file": str(tmp_path / "deaf")})
    wait_until((tmp_path / "deaf").exists, 120)
    began = time.monotonic()
    host.server.send(EndTask(attempt, 300))
    assert host.wait_for(TaskProcessEnded, attempt).outcome == Killed(signal.SIGKILL)
    assert time.monotonic() - began > 0.25


def test_a_task_that_writes_where_it_should_not_fails_alone(host: Host) -> None:
    failure_type, message, _ = host.fail("chatter")
    assert failure_type == "TaskProcessBroken"
    assert "not an event" in message
    assert host.finish("noop") == ()


def test_the_same_attempt_is_not_started_twice(host: Host) -> None:
    attempt, order = host.launch("sleep")
    host.wait_for(TaskInitialized, attempt)
    host.server.send(order)
    host.server.send(EndTask(attempt, 0))
    host.wait_for(TaskProcessEnded, attempt)
    assert host.finish("noop") == ()
    assert len([e for e in host.events if isinstance(e, TaskLaunched) and e.attempt == attempt]) == 1


def test_more_tasks_than_waiting_processes_run_at_once(host: Host) -> None:
    attempts = [host.launch("sleep")[0] for _ in range(6)]
    for attempt in attempts:
        host.wait_for(TaskInitialized, attempt)
    for attempt in attempts:
        host.server.send(EndTask(attempt, 0))
    for attempt in attempts:
        assert isinstance(host.wait_for(TaskProcessEnded, attempt).outcome, Killed)


# Code


def test_an_unknown_function_is_named(host: Host) -> None:
    failure_type, message, _ = host.fail("nop")
    assert failure_type == "UnknownFunction"
    assert message == "vertex 'vertex': 'tasks:nop' names the function 'nop', which the module 'tasks' does not have; did you mean 'noop'?"
    failure_type, message, _ = host.fail("nowhere:run")
    assert failure_type == "UnknownFunction"
    assert "'nowhere' is neither in the job's code archives nor installed here: give it by --code" in message


def test_two_jobs_with_the_same_module_names_do_not_see_each_other(host: Host) -> None:
    first = host.archives.add(shared="def who(c):\n    import part\n    raise LookupError(part.NAME)\n", part="NAME = 'first'")
    second = host.archives.add(shared="def who(c):\n    import part\n    raise LookupError(part.NAME)\n", part="NAME = 'second'")
    for key, name in ((first, "first"), (second, "second"), (first, "first")):
        assert host.fail("shared:who", code_archives=(key,))[:2] == ("LookupError", name)


def test_an_archive_is_fetched_once_and_never_run_damaged(host: Host) -> None:
    key = host.archives.add(once="def run(c): pass\n")
    for _ in range(2):
        assert host.finish("once:run", code_archives=(key,)) == ()
    assert host.archives.requests.count(f"/blobs/{key}") == 1
    (host.settings.runtime_directory / "archives" / f"{key}.zip").write_bytes(b"damaged")
    assert host.finish("once:run", code_archives=(key,)) == ()
    assert host.archives.requests.count(f"/blobs/{key}") == 2


def test_an_archive_that_is_missing_or_no_zip_is_a_clear_failure(host: Host) -> None:
    failure_type, message, _ = host.fail("noop", code_archives=("0" * 64,))
    assert failure_type == "BlobNotFound"
    assert "0" * 64 in message
    failure_type, message, _ = host.fail("noop", code_archives=(host.archives.add_bytes(b"no zip"),))
    assert failure_type == "CodeUnusable"
    assert "is not a zip file" in message


def test_ids_that_are_paths_are_refused(host: Host) -> None:
    assert host.fail("noop", vertex_id="../../escape")[0] == "UnusableName"


# Spark that outlives its task


def begin_query(host: Host, tmp_path: Path) -> tuple[AttemptId, ReleaseSpark, psutil.Process]:
    """Start a query that never ends; return how it is released, and the process in which Spark computes it once it does."""
    attempt, order = host.launch("busy", parameters={"file": str(tmp_path / "begun")})
    opened = host.wait_for(SparkOpened, attempt)
    assert opened.spark_session_id == order.spark_session_id
    wait_until((tmp_path / "begun").exists, 120)
    port = int(channel_target(opened.remote).rpartition(":")[2])
    (spark,) = {c.pid for c in psutil.net_connections("tcp") if c.laddr and c.laddr.port == port and c.status == psutil.CONN_LISTEN}
    process = psutil.Process(spark or 0)
    wait_until_it_computes(process)
    return attempt, ReleaseSpark(attempt, order.spark_session_id, opened.remote), process


def test_release_spark_interrupts_the_query_of_a_killed_task(host: Host, tmp_path: Path) -> None:
    attempt, release, spark = begin_query(host, tmp_path)
    os.kill(host.wait_for(TaskLaunched, attempt).process_id, signal.SIGKILL)
    assert host.wait_for(TaskProcessEnded, attempt).outcome == Killed(signal.SIGKILL)
    wait_until_it_computes(spark)  # The query would continue: else this test shows nothing.
    began = time.monotonic()
    host.server.send(release)
    host.wait_for(SparkReleased, attempt)
    assert time.monotonic() - began < 60  # A Spark that has just started plans for seconds, and heeds no interrupt meanwhile.
    wait_until_it_rests(spark)


@pytest.mark.parametrize(("signum", "name"), [(signal.SIGKILL, "9 (Killed)"), (signal.SIGTERM, "15 (Terminated)")])
def test_a_task_whose_spark_is_ended_says_so_and_the_next_one_has_another(host: Host, tmp_path: Path, signum: int, name: str) -> None:
    """One that is told to end answers that its context is stopped, where one that is killed closes its connections."""
    attempt, _, spark = begin_query(host, tmp_path)
    spark.send_signal(signum)
    outcome = host.wait_for(TaskProcessEnded, attempt).outcome
    assert isinstance(outcome, Failed)
    assert outcome.cause.failure_type == "SparkLost"
    why = f"it was ended from outside, by signal {name}; the next attempt uses another Spark"
    assert outcome.cause.message == f"vertex 'vertex': the host's Spark ended in the middle of the task: {why}"
    assert len(host.finish("two_outputs")) == 2


def test_a_new_fork_server_releases_what_an_old_one_left(host: Host, tmp_path: Path) -> None:
    attempt, release, spark = begin_query(host, tmp_path)
    host.server.begin_stop()
    host.server.wait_until_gone()
    host.server = host.start()
    host.server.send(release)
    host.wait_for(SparkReleased, attempt)
    wait_until_it_rests(spark)


def test_a_release_without_any_spark_is_told_at_once(host: Host, tmp_path: Path) -> None:
    attempt = AttemptId("j", "v", 0, 1)
    inbox: queue.Queue[ProcessEvent] = queue.Queue()
    settings = ForkServerSettings(
        cluster_id="test",
        kafka=KafkaAccess("127.0.0.1:9"),
        replication_factor=1,
        working_place=Place(str(tmp_path)),
        log_directory=tmp_path,
        runtime_directory=tmp_path / "run",
        locations_directory=tmp_path / "locations",
        spark_server=replace(host.settings.spark_server, memory="1m"),
        kill_timeout_ms=100,
        with_spark=True,
        warm_processes=1,
    )
    server = ForkServer(settings, inbox.put)
    server.start()
    try:
        server.send(ReleaseSpark(attempt, str(uuid.uuid4()), "sc://localhost:1"))
        assert [inbox.get(timeout=120) for _ in range(2)] == [ForkServerReady(), SparkReleased(attempt)]
        with SparkLease(settings.runtime_directory):
            server.send(host.order("two_outputs"))
            outcome = None
            while outcome is None:
                event = inbox.get(timeout=120)
                outcome = event.outcome if isinstance(event, TaskProcessEnded) else None
        assert isinstance(outcome, Failed)
        assert outcome.cause.failure_type == "SparkUnavailable"
        assert "Too small maximum heap" in outcome.cause.message
    finally:
        server.begin_stop()
        server.wait_until_gone()


# The fork server itself


def test_a_fork_server_that_is_killed_takes_its_tasks_along_and_is_told(host: Host, tmp_path: Path) -> None:
    place = tmp_path / "processes"
    place.mkdir()
    code = {"code_archives": (host.archives.add(escapes=ESCAPES),)}
    attempt, _ = host.launch("escapes:leave", parameters={"kind": "daemon", "how": "live", "place": str(place)}, **code)
    wait_until(place.with_suffix(".ready").exists, 120)
    [stray] = [int(path.name) for path in place.iterdir()]
    ids = host.server.process_ids()
    assert host.wait_for(TaskLaunched, attempt).process_id in ids
    os.kill(ids[0], signal.SIGKILL)
    assert "status -9" in host.wait_for(ForkServerDied).reason
    assert not is_running(stray)
    wait_until(lambda: not any(is_running(i) for i in ids), 120)
    with pytest.raises(BrokenPipeError):
        host.server.send(EndTask(attempt, 0))
    host.server.begin_stop()
    host.server.wait_until_gone()
    assert host.server.process_ids() == []
    host.events.clear()
    host.server = host.start()
    assert host.finish("noop") == ()


@pytest.mark.rule("P14")
def test_a_task_that_is_told_to_end_while_the_fork_server_loads_never_begins(host: Host, tmp_path: Path) -> None:
    """Its TaskExecutor may have fenced itself, and be declared lost before anything is loaded (P14)."""
    inbox: queue.Queue[object] = queue.Queue()
    order = host.order("noop")
    server = ForkServer(replace(host.settings, log_directory=tmp_path), inbox.put)
    server.start()
    try:
        server.send(order)
        server.send(EndTask(order.attempt, 500))
        assert [inbox.get(timeout=120) for _ in range(2)] == [ForkServerReady(), TaskProcessEnded(order.attempt, Killed(signal.SIGTERM))]
    finally:
        server.begin_stop()
        server.wait_until_gone()


def test_a_waiting_process_that_dies_is_replaced(host: Host) -> None:
    wait_until(lambda: len(host.server.process_ids()) == 3, 120)
    before = host.server.process_ids()
    for process_id in before[1:]:
        os.kill(process_id, signal.SIGKILL)
    wait_until(lambda: not set(before[1:]) & set(host.server.process_ids()), 120)
    assert host.finish("noop") == ()
    wait_until(lambda: len(host.server.process_ids()) == 3 and not set(before[1:]) & set(host.server.process_ids()), 120)


OWNER = """
import sys, time
from pathlib import Path
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.places import Place
from eventflink.taskexecutor.fork_server import ForkServer, ForkServerSettings
from eventflink.taskexecutor.fork_server_wire import decode_line
from eventflink.taskexecutor.spark_server import SparkServerSettings
d = Path(sys.argv[1])
settings = ForkServerSettings(cluster_id="test", kafka=KafkaAccess(""), replication_factor=1,
    working_place=Place(str(d)), log_directory=d, runtime_directory=d, locations_directory=d,
    spark_server=SparkServerSettings("local", "1g"), kill_timeout_ms=500, with_spark=True, warm_processes=2)
server = ForkServer(settings, lambda event: None)
server.start()
assert server.wait_until_ready(60)
server.send(decode_line(sys.stdin.buffer.readline().rstrip()))
time.sleep(1)
print(*server.process_ids(), flush=True)
time.sleep(3600)
"""


@pytest.mark.rule("P15")
def test_kill_9_of_the_owner_leaves_no_process(host: Host, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        owner.stdin.write(encode_line(host.order("sleep")))
        owner.stdin.flush()
        ids = [int(word) for word in owner.stdout.readline().split()]
        assert len(ids) >= 3
        assert all(is_running(i) for i in ids)
        owner.kill()
        wait_until(lambda: not any(is_running(i) for i in ids), 120)
