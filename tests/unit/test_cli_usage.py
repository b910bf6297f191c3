"""A user's mistake is one line that says what is wrong, and an exit code that scripts can rely on; never a traceback."""

import contextlib
import json
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, Unpack

import click
import pytest

from eventflink.cli import checks
from eventflink.cli.examples import EXAMPLES
from eventflink.cli.exit_codes import explain
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import COMMANDS, cli, run
from eventflink.cli.session import Session
from eventflink.gateways.blocking import BlockingOptions
from eventflink.gateways.errors import ClusterUnreachable
from eventflink.gateways.kafka_clients import PartitionReader
from eventflink.gateways.request_channel import Accepted
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.processes.announced_address import Announced, announced
from eventflink.session.errors import KafkaNotFound, SecretNotWritten, SessionError, SessionInvalid
from tests.support.command_line import commands_of
from tests.support.small_disk import run_on_small_disk

T = TypeVar("T")
GRAPH = {"name": "one", "vertices": [{"id": "only", "sql": "SELECT 1"}]}


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EVENTFLINK_CONFIG", "EVENTFLINK_CONF_DIR", "EVENTFLINK_BOOTSTRAP", "EVENTFLINK_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing listens, as at localhost:1, there is nothing to wait for."""
    connect = PartitionReader.__init__
    monkeypatch.setattr(PartitionReader, "__init__", lambda *where, **_timeout: connect(*where, connect_timeout_s=0.5))
    monkeypatch.setattr(checks, "_TIMEOUT_S", 0.5)


DAILY = """
name: daily
parameters:
  region: {type: string}
  day: {type: date, default: 2026-11-25, description: whose orders are counted}
vertices: [{id: a, sql: "SELECT :day"}]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.json").write_text(json.dumps(GRAPH))
    (tmp_path / "cycle.yaml").write_text(
        "{name: c, vertices: [{id: a, sql: s}, {id: b, sql: s}], edges: [{from: a, to: b}, {from: b, to: a}]}"
    )
    (tmp_path / "typo.json").write_text('{"name": "t", "vertices": [{"id": "a", "sqll": "SELECT 1"}]}')
    (tmp_path / "daily.yaml").write_text(DAILY)
    (tmp_path / "nightly.yaml").write_text("{cron: '0 2 * * *', job: daily.yaml}")
    (tmp_path / "broken.json").write_text('{"name": ')
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "list.yaml").write_text("[1, 2]")
    (tmp_path / "typo.yaml").write_text("taskmanager: {numberOfTaskSlot: 3}")
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        ("nonsense", ExitCode.USAGE, "No such command 'nonsense'"),
        ("bench slots", ExitCode.USAGE, "No such command 'bench'. It is run in a checkout of the sources: python -m benchmarks"),
        ("simulate", ExitCode.USAGE, "No such command 'simulate'. It is run in a checkout of the sources: python -m tests.simulation"),
        ("lst", ExitCode.USAGE, "No such command 'lst'. Did you mean 'list'? (see 'eventflink --help')"),
        ("taskmanager blok", ExitCode.USAGE, "Did you mean 'block'? (see 'eventflink taskmanager --help')"),
        ("list --stats RUNNING", ExitCode.USAGE, "Did you mean --status?"),
        ("info typo.json", ExitCode.USAGE, "vertices[0].sqll: unknown key (did you mean 'sql'?)"),
        ("stop --savepointPath", ExitCode.USAGE, "Option '--savepoint-path' requires an argument"),
        ("status --at yesterday", ExitCode.USAGE, "'yesterday' is neither an offset nor a time"),
        ("diff 1 now", ExitCode.USAGE, "'now' is neither an offset nor a time"),
        ("submit", ExitCode.USAGE, "Missing argument 'FILE'. (see 'eventflink submit --help')"),
        ("submit graph.json --timeout soon", ExitCode.USAGE, "'soon' is not a valid float"),
        ("submit missing.json", ExitCode.USAGE, "missing.json: No such file"),
        ("submit empty", ExitCode.USAGE, "empty: Is a directory"),
        ("submit binary", ExitCode.USAGE, "binary: not UTF-8 text"),
        ("submit broken.json", ExitCode.USAGE, "broken.json: not valid"),
        *(
            (f"{command} nightly.yaml", ExitCode.USAGE, "nightly.yaml: it is the document of a schedule, whose 'job' is one: 'eventflink")
            for command in ("submit", "plan", "dev", "info")
        ),
        ("submit list.yaml", ExitCode.USAGE, "list.yaml: a job graph is a mapping"),
        ("submit cycle.yaml", ExitCode.USAGE, ": the graph has a cycle"),
        ("submit daily.yaml", ExitCode.USAGE, "parameter 'region': it has neither a default nor a value: give it one; the job declares"),
        ("submit daily.yaml --param region", ExitCode.USAGE, "invalid --param 'region': NAME=VALUE is expected, such as day=2026-11-25"),
        ("submit daily.yaml --param =AT", ExitCode.USAGE, "invalid --param '=AT': NAME=VALUE is expected"),
        ("submit daily.yaml --param region=A --param region=B", ExitCode.USAGE, "invalid --param 'region=B': 'region' has a value already"),
        ("submit daily.yaml --param region=A --param dya=x", ExitCode.USAGE, "unknown parameter: 'dya' (did you mean 'day'?); the job"),
        (
            "run daily.yaml --param region=A --param day=x",
            ExitCode.USAGE,
            "parameter 'day': must be a date, not 'x': it is not of the form",
        ),
        ("standalone-job daily.yaml --param region=A --param day=x", ExitCode.USAGE, "parameter 'day': must be a date, not 'x'"),
        ("submit graph.json --param day=2026-11-25", ExitCode.USAGE, "unknown parameter: 'day'; the job declares none"),
        ("rerun 3f2a --param day", ExitCode.USAGE, "invalid --param 'day': NAME=VALUE is expected"),
        (
            "--bootstrap localhost:1 submit graph.json --job-id my:job --code .",
            ExitCode.USAGE,
            "'my:job' is not a valid id: only letters",
        ),
        ("--bootstrap localhost:1 rerun 3f2a --job-id .x --code .", ExitCode.USAGE, "'--job-id': '.x' is not a valid id"),
        (f"--bootstrap localhost:1 schedule put {'s' * 97} graph.json", ExitCode.USAGE, "'_' and '-', at most 96, beginning"),
        ("--bootstrap localhost:1 schedule fire nightly --job-id a/b", ExitCode.USAGE, "'--job-id': 'a/b' is not a valid id"),
        ("application main:main --application-id a/b", ExitCode.USAGE, "'--application-id': 'a/b' is not a valid id"),
        ("standalone-job graph.json --job-id a/b", ExitCode.USAGE, "'--job-id': 'a/b' is not a valid id"),
        ("submit graph.json --code missing", ExitCode.USAGE, "missing: No such file"),
        ("submit graph.json --code empty", ExitCode.USAGE, "empty: holds no file"),
        ("-D slots topics", ExitCode.USAGE, "'slots' is not of the form KEY=VALUE"),
        ("-D =3 topics", ExitCode.USAGE, "not of the form KEY=VALUE"),
        ("-D cluster.idd=x topics", ExitCode.USAGE, "did you mean 'cluster.id'?"),
        ("-D heartbeat.interval=soon topics", ExitCode.USAGE, "heartbeat.interval"),
        ("-c typo.yaml topics", ExitCode.USAGE, "did you mean 'taskmanager.numberOfTaskSlots'?"),
        ("-c missing.yaml topics", ExitCode.USAGE, "missing.yaml: cannot be read"),
        ("-D data.directory=. topics", ExitCode.UNREACHABLE, "Kafka cluster not found"),
        ("--bootstrap localhost:1 submit graph.json", ExitCode.UNREACHABLE, "localhost:1 does not answer"),
        ("up --taskexecutors -1", ExitCode.USAGE, "-1 is not in the range"),
        ("events --type JobSubmited", ExitCode.USAGE, "did you mean JobSubmitted"),
        ("events --from yesterday", ExitCode.USAGE, "'yesterday' is neither an offset nor a time"),
        ("events --rejected --accepted", ExitCode.USAGE, "--rejected and --accepted leave nothing"),
        ("events --limit 1 --last 1", ExitCode.USAGE, "give one of them"),
        ("events --last 0", ExitCode.USAGE, "0 is not in the range"),
        ("audit DROP", ExitCode.USAGE, "syntax error"),
        ("audit --json --csv", ExitCode.USAGE, "give one of --json and --csv"),
        ("--bootstrap localhost:1 why job", ExitCode.UNREACHABLE, "localhost:1 does not answer"),
        ("logs job", ExitCode.USAGE, "Missing argument 'VERTEX_ID'"),
        ("logs job -f --attempt 1", ExitCode.USAGE, "leave --attempt out"),
        ("logs job vertex --attempt 0", ExitCode.USAGE, "0 is not in the range"),
    ],
)
def test_a_mistake_is_one_line_and_a_code(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: str, exit_code: ExitCode, said: str
) -> None:
    assert here.is_dir()
    assert run(arguments.split()) == exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert captured.err.startswith("eventflink: ")
    assert captured.err.count("\n") == 1


def test_a_broker_that_is_just_starting_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session(None, {"data.directory": str(tmp_path)}, verbose=False)
    with contextlib.ExitStack() as broker:
        # It is found in the second look, and would not be in the first.
        monkeypatch.setattr(
            "eventflink.cli.session.time.sleep", lambda _: broker.enter_context(announced(tmp_path, Announced.BROKER, "127.0.0.1:9"))
        )
        assert session.await_access().bootstrap == "127.0.0.1:9"
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"no broker runs on {tmp_path}, and bootstrap.servers is empty: ")


def test_a_broker_that_nobody_starts_is_waited_for_within_bounds(tmp_path: Path) -> None:
    with pytest.raises(KafkaNotFound, match="Kafka cluster not found"):
        Session(None, {"data.directory": str(tmp_path), "broker.start-timeout": "1000"}, verbose=False).await_access()


def test_who_is_refused_waits_for_no_other_broker(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def refuse(kafka: KafkaAccess) -> str:
        asked.append(kafka.bootstrap)
        return "does not accept User:me"

    monkeypatch.setattr("eventflink.log.refusals.find_refusal", refuse)
    session = Session(None, {"bootstrap.servers": "127.0.0.1:9", "kafka.client.rack": "r1"}, verbose=False)
    with pytest.raises(KafkaNotFound, match="does not accept User:me"):
        session.await_access()
    assert asked == ["127.0.0.1:9"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [(SessionInvalid("m"), ExitCode.USAGE), (SecretNotWritten("m"), ExitCode.ENVIRONMENT), (KafkaNotFound("m"), ExitCode.UNREACHABLE)],
)
def test_each_reason_why_a_cluster_is_not_found_has_an_exit_code(error: SessionError, exit_code: ExitCode) -> None:
    assert explain(error) == (exit_code, "m")


class Slow:
    """A cluster of which each answer takes as long as is told, by a clock of its own; it keeps how long each was waited for."""

    def __init__(self, patch: pytest.MonkeyPatch, accepted: Accepted) -> None:
        self.now_s = 0.0
        self.waited_s: list[tuple[str, float]] = []
        self._accepted = accepted
        self._options: BlockingOptions = {}
        clock = SimpleNamespace(monotonic=lambda: self.now_s)
        patch.setattr("eventflink.gateways.deadline.time", clock)
        patch.setattr("eventflink.cli.commands.submit.time", clock)
        patch.setattr("eventflink.cli.commands.submit.DispatcherGateway", self._connect)
        patch.setattr("eventflink.cli.submission.put_blob", lambda *_, within_s, **__: self._take("upload", within_s, 4, "0" * 64))
        patch.setattr("eventflink.cli.job_waiting.follow_request", self._follow)

    def _take(self, step: str, at_most_s: float, takes_s: float, answer: T) -> T:
        self.waited_s.append((step, at_most_s))
        self.now_s += takes_s
        return answer

    def _connect(self, *_where: str, **options: Unpack[BlockingOptions]) -> "contextlib.AbstractContextManager[Slow]":
        self._options = options
        return contextlib.nullcontext(self._take("connect", options["deadline"].left_s(10), 2, self))

    def find_leader(self, timeout_s: float) -> SimpleNamespace:
        return self._take("leader", timeout_s, 3, SimpleNamespace(blob_address="h:1"))

    def submit_job(self, *_: object, **__: object) -> Accepted:
        return self._take("request", self._options["deadline"].left_s(self._options["request_timeout_s"]), 2, self._accepted)

    def _follow(self, *given: Any) -> None:
        self._take("follow", given[-1].left_s(10), 2, None)
        raise ClusterUnreachable("the log is silent")


def test_the_steps_of_a_submission_share_the_time_that_it_is_given(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = Slow(monkeypatch, Accepted("r", "job", 1, 1, "leader", 0))
    arguments = ["--bootstrap", "h:1", "submit", str(here / "graph.json"), "--code", str(here / "graph.json"), "--timeout", "12"]
    assert run(arguments) == ExitCode.UNREACHABLE
    assert "job job is accepted; what became of it is not known after 12 s: the log is silent" in capsys.readouterr().err
    assert slow.waited_s == [("connect", 10), ("leader", 10), ("upload", 7), ("request", 3), ("follow", 1)]


KEEP_A_SECRET = """
from pathlib import Path
from eventflink.cli.exit_codes import explain
from eventflink.cli.session import Session
from eventflink.session.errors import SessionError
place = Path(sys.argv[1])
def session(cluster_id):
    return Session(None, {"data.directory": str(place), "cluster.id": cluster_id}, verbose=False)
def keep():
    for keep in (session("b").have_secret, lambda: session("c").take_secret(secret), lambda: known.share_secret("d")):
        try:
            keep()
        except SessionError as error:
            print(int(explain(error)[0]), error)
known = session("a")
known.have_secret()
secret = known.read_secret()
try:
    with (place / "fill").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
except OSError:
    keep()
(place / "fill").unlink()
print(sorted(path.name for path in (place / "secrets").iterdir()))
call("mount", b"none", place.as_posix().encode(), b"tmpfs", MS_REMOUNT | MS_RDONLY, b"size=64k")
keep()
"""


def test_a_cluster_secret_that_the_disk_does_not_take_is_a_matter_of_the_machine_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    lines = run_on_small_disk(tmp_path, KEEP_A_SECRET)
    full, left, read_only = lines[:3], lines[3], lines[4:]
    for said, why in ((full, "No space left on device"), (read_only, "Read-only file system")):
        place = f"{int(ExitCode.ENVIRONMENT)} the cluster secret cannot be written to {tmp_path}/secrets"
        assert said == [f"{place}/{cluster_id}.cluster-secret: {why}" for cluster_id in "bcd"]
    assert left == "['a.cluster-secret']"


def test_a_cluster_secret_that_has_no_place_is_a_matter_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("a file")
    with pytest.raises(SessionInvalid, match="cannot be written to"):
        Session(None, {"data.directory": str(tmp_path)}, verbose=False).have_secret()


def test_verbose_shows_the_traceback_and_still_the_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here.is_dir()
    assert run(["-v", "submit", "missing.json"]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert "Traceback" in captured.err
    assert captured.err.splitlines()[-1].startswith("eventflink: missing.json")


WITHOUT_JSON = {
    "broker": "it runs until it is stopped, and prints one address",
    "rest": "it runs until it is stopped, and prints one address",
    "history-server": "it runs until it is stopped, and prints one address",
    "master": "it runs until it is stopped, and prints its log",
    "application": "it runs until it is stopped, and prints its log",
    "standalone-job": "it runs until it is stopped, and prints its log",
    "taskexecutor": "it runs until it is stopped, and prints its log",
    "cluster on-host": "it prints one JSON object in any case",
    "logs": "a file is shown as it is",
    "taskmanager thread-dump": "a text is shown as it is",
    "completion": "it prints a script for a shell",
    "notify": "a dry run prints JSON anyway, a line for each notification",
}


def test_every_command_prints_json_where_it_has_a_document_to_print() -> None:
    without = {name for name, command in commands_of(cli) if not any("--json" in option.opts for option in command.params)}
    assert without == WITHOUT_JSON.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_that_says_what_the_overview_says(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run([command, "--help"]) == ExitCode.OK
    captured = capsys.readouterr()
    assert f"Usage: eventflink {command}" in captured.out
    assert run(["--help"]) == ExitCode.OK
    assert command in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_examples_that_are_right(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run([command, "--help"]) == ExitCode.OK
    said = capsys.readouterr().out
    assert "Examples:" in said
    (here / "job.yaml").write_text(json.dumps(GRAPH))
    for name in ("my_module.py", "notify.yaml"):
        (here / name).write_text("")
    (here / "conf").mkdir(exist_ok=True)
    do = click.Command.invoke
    # Read, and not done.
    monkeypatch.setattr(click.Command, "invoke", lambda each, context: do(each, context) if isinstance(each, click.Group) else None)
    for line in EXAMPLES[command]:
        assert f"\n    {line}\n" in said
        begun = line.removeprefix('eval "$(').removesuffix(')"')
        program, *arguments = shlex.split(begun)
        assert program == "eventflink"
        assert run(arguments) == ExitCode.OK, line
        assert capsys.readouterr().err == "", line


def test_run_is_submit_by_its_name_in_flink_and_takes_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    helps = []
    for name in ("run", "submit"):
        assert run([name, "--help"]) == ExitCode.OK
        helps.append(capsys.readouterr().out.replace(f"eventflink {name}", "eventflink NAME").partition("Examples:")[0])
    assert helps[0] == helps[1]


def test_the_plan_of_a_document_is_shown_without_a_cluster(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = {
        "name": "two",
        "vertices": [{"id": "numbers", "sql": "SELECT 1 AS n", "parallelism": 2}, {"id": "sums", "sql": "SELECT sum(n) FROM numbers"}],
        "edges": [{"from": "numbers", "to": "sums", "ship": "broadcast"}],
    }
    (here / "two.json").write_text(json.dumps(document))
    assert run(["info", "two.json"]) == ExitCode.OK
    said = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert [cell.strip() for cell in said[-1] if cell] == ["sums", "SQL: SELECT sum(n) FROM numbers", "1", "numbers (broadcast)"]
    assert run(["info", "two.json", "--json"]) == ExitCode.OK
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert (plan["name"], plan["type"], [(node["id"], node["parallelism"]) for node in plan["nodes"]]) == (
        *("two", "BATCH"),
        [("sums", 1), ("numbers", 2)],
    )
    assert [(each["id"], each["ship_strategy"]) for each in plan["nodes"][0]["inputs"]] == [("numbers", "BROADCAST")]


def test_the_plan_says_which_vertices_have_a_task_for_each_row(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files, load = {"id": "files", "sql": "SELECT 1 AS n"}, {"id": "load", "sql": "SELECT :n AS n", "max_parallelism": 500}
    document = {"name": "files", "vertices": [files, load], "edges": [{"from": "files", "to": "load", "ship": "each"}]}
    (here / "files.json").write_text(json.dumps(document))
    assert run(["info", "files.json"]) == ExitCode.OK
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("files: vertices 2, tasks 1 and one for each row of files, digest ")
    assert [cell.strip() for cell in last.split("  ") if cell] == ["load", "SQL: SELECT :n AS n", "at most 500", "files (each)"]


def test_the_plan_says_when_closing_vertices_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load, tell = {"id": "load", "sql": "SELECT 1 AS n"}, {"id": "tell", "python": "jobs:tell", "runs": "on-failure"}
    (here / "closed.json").write_text(json.dumps({"name": "closed", "vertices": [load, tell]}))
    assert run(["info", "closed.json"]) == ExitCode.OK
    *_, last = capsys.readouterr().out.splitlines()
    assert [cell.strip() for cell in last.split("  ") if cell.strip()] == [
        "tell",
        "jobs:tell (on-failure, when all others have come to their end)",
        "1",
    ]


def test_the_plan_says_when_a_vertex_with_a_condition_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {"id": "found", "sql": "SELECT 1 AS n"}
    (here / "when.json").write_text(
        json.dumps({"name": "when", "vertices": [found, {"id": "tell", "python": "jobs:tell", "when": {"no_rows_of": "found"}}]})
    )
    assert run(["info", "when.json"]) == ExitCode.OK
    *_, last = capsys.readouterr().out.splitlines()
    assert "jobs:tell (when 'found' has no rows)" in last


def test_the_parameters_of_a_document_are_shown_with_what_is_still_to_be_given(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", str(here / "daily.yaml")]) == ExitCode.OK
    said = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in capsys.readouterr().out.splitlines()]
    assert said[-3:] == [
        ["parameter", "type", "value", "default", "description"],
        ["day", "date", "2026-11-25", "2026-11-25", "whose orders are counted"],
        ["region", "string", "to be given"],
    ]


def test_the_installed_program_keeps_the_same_rules(here: Path) -> None:
    """As a shell sees it: bare, with a mistake, and with a reader that closes the pipe."""
    program = [sys.executable, "-m", "eventflink.cli"]
    bare = subprocess.run(program, capture_output=True, text=True, check=False, cwd=here)
    assert (bare.returncode, bare.stdout) == (ExitCode.USAGE, "")
    assert "Commands:" in bare.stderr
    wrong = subprocess.run([*program, "submit", "cycle.yaml"], capture_output=True, text=True, check=False, cwd=here)
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (ExitCode.USAGE, "", 1)
    piped = subprocess.run([*program, "submit", "-"], input="{", capture_output=True, text=True, check=False, cwd=here)
    assert piped.returncode == ExitCode.USAGE
    assert piped.stderr.startswith("eventflink: standard input: ")


def test_doctor_tells_findings_to_programs_and_people(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-D", f"data.directory={here}", "doctor", "--json"]) in (ExitCode.OK, ExitCode.NEGATIVE)
    findings = {f["name"]: f for f in json.loads(capsys.readouterr().out)}
    assert {"python", "java", "spark", "kafka jars", "disk", "kafka"} <= findings.keys()
    assert findings["python"]["verdict"] == "ok"
    assert "eventflink up" in findings["kafka"]["detail"]
    code = run(["-D", "bootstrap.servers=localhost:1", "doctor"])
    assert code == ExitCode.NEGATIVE
    assert "localhost:1" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["list", "status"])
def test_commands_that_people_type_often_load_no_kafka_and_nothing_that_decides(command: str) -> None:
    heavy = ("confluent_kafka", "fastavro", "pydantic", "pyspark", "eventflink.master", "eventflink.events")
    program = f"import sys, eventflink.cli.commands.{command}; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_rest_process_loads_neither_arrow_nor_spark_nor_what_asks_masters() -> None:
    """Who waits for one that was killed waits for its imports."""
    heavy = ("pyarrow", "numpy", "pandas", "pyspark", "aiohttp", "faust", "prometheus_client")
    program = f"import sys, eventflink.cli.commands.rest; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
