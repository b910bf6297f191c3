"""The wheel without extras: a client that submits, follows and asks, and says how to install what needs more."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventflink.cli.main import COMMANDS
from tests.support.installations import Installation, build_wheel, install
from tests.support.running_cluster import TIMEOUT_S, RunningCluster, running_cluster

pytestmark = pytest.mark.slow

MOST_BYTES = 60_000_000
NEED_EXTRAS = {
    "master": "cluster",
    "application": "cluster",
    "standalone-job": "cluster",
    "rest": "rest",
    "history-server": "rest",
    "result": "results",
    "audit": "audit",
    "dev": "cluster",
    "demo": "all",
}
HELP = """
import contextlib, io, json, sys
from eventflink.cli.main import COMMANDS, run
answers = {}
for name in sys.argv[1:] or COMMANDS:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        answers[name] = run([name, "--help"]), said.getvalue()
print(json.dumps(answers))
"""
PROGRAM = """
import sys
import eventflink
from eventflink.model.packages import PackageMissing
with eventflink.connect(*sys.argv[1:3]) as cluster:
    job = cluster.job("asked")
    print(job.wait(timeout_s=120).status, len(cluster.jobs()))
    try:
        job.result()
    except PackageMissing as error:
        print(error)
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    folder = tmp_path_factory.mktemp("client")
    return install(build_wheel(folder), folder / "environment")


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path_factory.mktemp("cluster")) as running:
        running.start_master()
        running.start_host("host")
        yield running


def run(client: Installation, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(client.program if arguments[0] != "-c" else client.python), *arguments]
    environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def test_an_installation_without_extras_is_small(client: Installation) -> None:
    assert not client.distributions & {"pyspark", "duckdb", "fastapi", "faust-streaming", "pandas", "pyarrow", "aiohttp", "numpy"}
    assert client.size_bytes() <= MOST_BYTES
    assert list(client.folder.glob("lib/*/site-packages/eventflink/py.typed")), "users' type checkers look for it"


def test_what_needs_an_extra_says_which_and_everything_else_runs(client: Installation, tmp_path: Path) -> None:
    done = run(client, tmp_path, "-c", HELP)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert list(answers) == list(COMMANDS)
    assert {name: said for name, (code, said) in answers.items() if code != 0 and name not in NEED_EXTRAS} == {}
    for name, extra in NEED_EXTRAS.items():
        code, said = answers[name]
        assert code == 4
        assert said.startswith(f"eventflink: 'eventflink {name}' needs ")
        assert said.endswith(f"not installed: pip install 'eventflink[{extra}]'\n")


@pytest.mark.parametrize("extra", ["results", "audit", "rest", "cluster"])
def test_an_extra_brings_what_its_commands_need(client: Installation, extra: str, tmp_path: Path) -> None:
    [wheel] = client.folder.parent.glob("*.whl")
    installed = install(wheel, tmp_path / "environment", f"eventflink[{extra}]")
    done = run(installed, tmp_path, "-c", HELP, *[name for name, needed in NEED_EXTRAS.items() if needed == extra])
    assert done.returncode == 0, done.stderr
    assert [said for code, said in json.loads(done.stdout).values() if code != 0] == []


def test_a_client_submits_follows_and_asks(client: Installation, cluster: RunningCluster, tmp_path: Path) -> None:
    vertex = {"python": "nothing:nothing", "parameters": {"run_time_ms": 0}}  # What its simulated task makes of it.
    document = {"name": "asked", "vertices": [{"id": "first", **vertex}, {"id": "second", **vertex}]}
    (tmp_path / "job.json").write_text(json.dumps(document))
    options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]

    def ask(*command: str) -> str:
        done = run(client, tmp_path, *options, *command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    plan = ask("info", "job.json")
    assert "second" in plan
    assert "FINISHED" in ask("submit", "job.json", "--job-id", "asked")
    assert "asked" in ask("list", "--all")
    assert json.loads(ask("status", "asked", "--json"))["status"] == "FINISHED"
    for command in (
        ("why", "asked"),
        ("events", "--job", "asked"),
        ("history", "asked"),
        ("topics",),
        ("exceptions", "asked"),
        ("diff", "0", "5"),
    ):
        assert ask(*command)
    findings = {each["name"]: each for each in json.loads(ask("doctor", "--json"))}
    assert "eventflink[cluster]" in findings["spark"]["detail"]
    assert "eventflink[cluster]" in findings["transactions"]["detail"]
    assert findings["leader"]["verdict"] == "ok"
    done = run(client, tmp_path, "-c", PROGRAM, cluster.bootstrap, cluster.cluster_id)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "FINISHED 1",
        "Job.result needs pyarrow, which is not installed: pip install 'eventflink[results]'",
    ]
