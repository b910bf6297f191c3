"""A run of the tests says what it leaves out and what it used, and fails where a file starts too many processes."""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.concerned import ROOT, concerned, main, soak_files
from tests.support.test_run import RUN_VARIABLE, ProcessorTime, beyond_the_sample, kind_of, over_budget, read_budget, written_budget

FILE = """
import subprocess, sys, pytest

@pytest.mark.soak("eventflink.log")
def test_long():
    assert False

def test_short():
    subprocess.run([sys.executable, "-c", "pass"])
"""


SAMPLED = """
import pytest

@pytest.mark.soak("eventflink.log")
@pytest.mark.parametrize("number", range(7))
def test_long(number):
    pass

def test_short():
    pass
"""


def run_pytest(directory: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    plugins = ["-p", "tests.support.test_run", "-p", "no:schemathesis", "-p", "no:hypothesispytest"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options, str(directory)],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("options", [(), ("-n", "2"), ("--soak",)])
def test_what_is_left_to_soak_is_counted_and_said(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "test_it.py").write_text(FILE)
    done = run_pytest(tmp_path, *options)
    is_soak = "--soak" in options
    assert done.returncode == is_soak, done.stdout
    assert ("1 failed, 1 passed" if is_soak else "1 passed") in done.stdout
    assert ("1 tests are left to `make soak`" in done.stdout) == (not is_soak)
    assert ("processor time by kind of process" in done.stdout) == ("-n" in options)


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_what_a_sample_of_soak_leaves_out_is_said_by_name(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_it.py").write_text(SAMPLED)
    done = run_pytest(tmp_path, "--soak", "--soak-sample=3", *workers, SOAK_SEED="1000")
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
    assert "5 tests are left to `make soak`\n       5 of test_it.py::test_long\n" in done.stdout


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_sample_that_has_no_test_this_time_fails_nothing(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_it.py").write_text(SAMPLED)
    done = run_pytest(tmp_path, "--soak", "-m", "soak", "--soak-sample=99", *workers, SOAK_SEED="1000")
    assert done.returncode == 0, done.stdout
    assert "7 of test_it.py::test_long" in done.stdout
    assert run_pytest(tmp_path, "-k", "nothing", *workers).returncode == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize("of_each", [1, 2, 3, 9])
def test_as_many_samples_one_after_the_other_take_each_test_once(of_each: int) -> None:
    tests = range(7)
    taken = [test for turn in range(50, 50 + of_each) for test in tests if test not in beyond_the_sample(tests, of_each, turn)]
    assert sorted(taken) == list(tests)


def test_a_file_beyond_its_budget_is_named_with_what_to_do() -> None:
    starts = Counter({"integration/test_a.py": 19, "integration/test_b.py": 15, "unit/test_c.py": 99})
    [line] = over_budget(starts, {"integration/test_a.py": 6, "integration/test_b.py": 3})
    assert line.startswith("integration/test_a.py has started 19 processes; its budget in process_budget.toml is 6: share a cluster")


def test_a_written_budget_holds_and_leaves_some_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = Counter({"integration/test_a.py": 10, "unit/test_c.py": 99})
    monkeypatch.setattr("tests.support.test_run.BUDGET", tmp_path / "budget.toml")
    (tmp_path / "budget.toml").write_text(written_budget(starts))
    assert read_budget() == {"integration/test_a.py": 14}


def test_each_file_of_tests_on_processes_exists_that_has_a_budget() -> None:
    assert [file for file in read_budget() if not (ROOT / "tests" / file).exists()] == []


@pytest.mark.parametrize(
    ("command_line", "kind"),
    [
        ("/x/python -m eventflink.cli -v -Dcluster.id=a master", "master"),
        ("/x/python -m eventflink.cli -v -Dcluster.id=a taskexecutor", "TaskExecutor"),
        ("/x/python -m eventflink.taskexecutor.guardian --access {}", "guardian"),
        ("/x/python -m eventflink.entrypoint.guardian --access {}", "guardian"),
        ("/x/python -P -m eventflink.taskexecutor.fork_server_main 7", "fork server and tasks"),
        ("/x/java -cp /jars/* kafka.Kafka server.properties", "broker"),
        ("/x/java org.apache.spark.deploy.SparkSubmit --class org.apache.spark.sql.connect.service.SparkConnectServer", "Spark"),
        ("/x/python -m eventflink.taskexecutor.spark_worker pyspark.sql.connect.streaming.worker", "Python workers of Spark"),
        ("/x/python -P -m eventflink.local.class_data /c/spark-4.2.0-a.jsa", "archives of classes"),
        ("/x/java -Xshare:dump -cp /jars/spark org.apache.spark.deploy.SparkSubmit", "archives of classes"),
        ("/x/python -m eventflink.cli list", "command line"),
        ("ef-master", "master"),
        ("/usr/lib/chromium/chromium --headless", "browser"),
        ("sleep 9", "other"),
    ],
)
def test_a_process_has_its_kind_by_its_command_line(command_line: str, kind: str) -> None:
    assert kind_of(command_line) == kind


def test_processor_time_is_that_of_the_processes_of_this_run_and_of_those_that_they_start() -> None:
    """In whatever session, and with whatever environment; not that of anybody else."""
    busy = "while True: pass"
    sampler = ProcessorTime("a run of its own")
    with (
        subprocess.Popen([sys.executable, "-c", busy], env={RUN_VARIABLE: "a run of its own"}, start_new_session=True) as marked,
        subprocess.Popen([sys.executable, "-c", busy], env={}, start_new_session=True) as started,
    ):
        sampler.start()
        while not {marked.pid, started.pid} <= {process[0] for process, (_, seconds) in sampler._used.items() if seconds}:
            time.sleep(0.05)
        used = sampler.stop()
        marked.kill()
        started.kill()
    assert used.keys() >= {"other"}
    assert os.getppid() not in {process[0] for process in sampler._used}


def test_a_process_that_has_ended_keeps_its_kind_while_nobody_waits_for_it() -> None:
    sampler = ProcessorTime("a run of its own")
    program = "import time\nwhile time.process_time() < 0.2: pass\n#kafka.Kafka"
    with subprocess.Popen([sys.executable, "-c", program]) as broker:
        while (sampled := [value for process, value in sampler._used.items() if process[0] == broker.pid]) == []:
            sampler._sample()
        while Path(f"/proc/{broker.pid}/cmdline").read_bytes():
            time.sleep(0.05)
        sampler._sample()
        assert sampled[0][0] == "broker"
        assert [kind for process, (kind, _) in sampler._used.items() if process[0] == broker.pid] == ["broker"]


def test_what_soak_runs_can_be_collected_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Files of one name in two folders cannot."""
    main(["--all"])
    files = capsys.readouterr().out.split()
    assert files == sorted(file for file, _ in soak_files())
    assert len({Path(file).name for file in files}) == len(files)


def test_a_change_concerns_what_imports_it_and_a_change_of_what_decides_concerns_all() -> None:
    rooms = dict(soak_files())
    assert rooms
    for path in ("eventflink/master/master.py", "schemas/eventflink.Decision.1.avsc", "eventflink/log/replay.py"):
        assert concerned([path]) == sorted(rooms)
    assert concerned(["docs/architecture.md"]) == []
    assert concerned(["docs/developing.md"]) == ["tests/unit/test_recipes.py"]
    assert "tests/integration/test_bench_gate.py" in concerned(["benchmarks/gate.py"])
    assert "tests/unit/test_simulation.py" in concerned(["eventflink/taskexecutor/protocol/machine.py"])
    assert "tests/unit/test_simulation.py" not in concerned(["eventflink/rest/errors.py"])
    assert concerned(["tests/unit/test_simulation.py"]) == ["tests/unit/test_simulation.py"]
