"""What real tasks read and publish, with a real Spark: shares of inputs, outputs, SQL, and functions that Spark runs."""

import datetime as dt
import importlib.util
import json
import shutil
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eventflink.events.effects import TaskInput
from eventflink.jobs.plain_rows import python_rows
from eventflink.jobs.result import read_result
from eventflink.model.attempts import Accumulators, LongCounter, LostInput, OutputLocation
from eventflink.model.job_graph import JobParameter
from eventflink.model.plain_values import json_text
from eventflink.model.statuses import ParameterType, ShipStrategy
from eventflink.processes.file_lock import FileLock
from eventflink.taskexecutor.process_events import Failed, Finished
from eventflink.taskexecutor.spark_server import LOG_FILE, SERVER_FILE, SparkLease, SparkServerSettings, find_server, supervisor_command
from tests.support.task_host import CODE, SQL, Host, wait_until

pytestmark = pytest.mark.slow
SHIPS: dict[ShipStrategy, tuple[str, ...]] = {ShipStrategy.HASH: ("k",)} | dict.fromkeys(
    (ShipStrategy.FORWARD, ShipStrategy.REBALANCE, ShipStrategy.BROADCAST), ()
)


@pytest.fixture(scope="module")
def host(spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    host = Host(tmp_path_factory.mktemp("host with space"), spark)
    yield host
    host.server.begin_stop()
    host.server.wait_until_gone()
    assert host.server.process_ids() == []
    host.lease.release()


# Outputs and inputs


@pytest.mark.parametrize(("task", "what"), [("answer", "it returned int:"), ("answer_named", "it returned int as output 'second':")])
def test_what_is_no_data_frame_is_refused_by_its_type(host: Host, task: str, what: str) -> None:
    failure_type, message, _ = host.fail(task)
    assert failure_type == "OutputUnusable"
    assert what in message


def test_outputs_go_to_a_place_of_the_attempt_and_the_empty_one_keeps_its_schema(host: Host) -> None:
    job = uuid.uuid4().hex
    outputs = {o.output: o for o in host.finish("two_outputs", job_id=job, attempt=3)}
    place = host.settings.working_place.path / job / "vertex"
    assert {n: o.location for n, o in outputs.items()} == {n: str(place / n / "0" / "attempt-3") for n in ("even", "none")}
    assert [(outputs[n].rows, outputs[n].files > 0) for n in ("even", "none")] == [(5, True), (0, True)]
    assert sorted(read_result([outputs["even"]], 99).column("id").to_pylist()) == [0, 2, 4, 6, 8]
    assert read_result([outputs["none"]], 99).schema.names == ["id"]
    empty = TaskInput("rows", ShipStrategy.HASH, ("id",), (outputs["none"],))
    assert read_result([host.finish("count", inputs=(empty,))[0]], 9).to_pylist() == [{"n": 0}]


def test_a_function_that_spark_runs_takes_the_rows_of_an_input(host: Host) -> None:
    """Spark reads an input in columns, and hands those of other sources over row by row."""
    numbers = TaskInput("a", ShipStrategy.REBALANCE, (), host.make_numbers(5, 1))
    doubled = read_result([host.finish("input_with_function", inputs=(numbers,))[0]], 99).to_pylist()
    assert sorted(row["d"] for row in doubled) == [0, 2, 4, 6, 8]


def test_an_output_that_others_read_must_be_returned(host: Host) -> None:
    failure_type, message, _ = host.fail("two_outputs", outputs=("odd", "even"))
    assert failure_type == "OutputUnusable"
    assert "did not return the output 'odd', which another vertex reads; it returned 'even', 'none'" in message


def test_sources_share_out_what_all_of_them_see(host: Host) -> None:
    locations = host.make_numbers(500, 3)
    shares = [read_result([location], 9999).column("id").to_pylist() for location in locations]
    assert all(100 < len(share) < 240 for share in shares)
    assert sorted(n for share in shares for n in share) == list(range(500))


def test_hash_shipping_gives_each_key_to_exactly_one_subtask(host: Host) -> None:
    locations = host.make_numbers(300, 2)
    shares = host.shares(TaskInput("rows", ShipStrategy.HASH, ("k",), locations), 3)
    keys = [{row["k"] for row in share} for share in shares]
    assert sum(len(k) for k in keys) == 11
    assert set.union(*keys) == set(range(11))
    assert sorted(row["id"] for share in shares for row in share) == list(range(300))


def test_hash_shipping_sends_equal_numbers_of_different_types_to_the_same_subtask(host: Host) -> None:
    locations = host.make_numbers(11, 1)
    by_int = host.shares(TaskInput("rows", ShipStrategy.HASH, ("k",), locations), 2)
    by_long = host.shares(TaskInput("rows", ShipStrategy.HASH, ("id",), locations), 2)
    assert [sorted(r["id"] for r in share) for share in by_int] == [sorted(r["id"] for r in share) for share in by_long]


def test_rebalance_loses_and_repeats_nothing_and_is_even(host: Host) -> None:
    locations = host.make_numbers(300, 2)
    shares = host.shares(TaskInput("rows", ShipStrategy.REBALANCE, (), locations), 3)
    assert sorted(row["id"] for share in shares for row in share) == list(range(300))
    assert all(90 <= len(share) <= 110 for share in shares)
    assert set(shares[0][0]) == {"id", "k", "s"}


def test_forward_and_broadcast(host: Host) -> None:
    locations = host.make_numbers(60, 2)
    forward = host.shares(TaskInput("rows", ShipStrategy.FORWARD, (), locations), 2)
    assert [sorted(r["id"] for r in s) for s in forward] == [sorted(read_result([p], 999).column("id").to_pylist()) for p in locations]
    broadcast = host.shares(TaskInput("rows", ShipStrategy.BROADCAST, (), locations), 2)
    outcome = host.run("count", inputs=(TaskInput("rows", ShipStrategy.BROADCAST, (), locations),))
    assert isinstance(outcome, Finished)
    assert outcome.accumulators == Accumulators((LongCounter("rows", 60),))
    assert outcome.io is not None
    assert (outcome.io.read_records, outcome.io.write_records) == (60, 1)
    assert min(outcome.io.read_bytes, outcome.io.write_bytes) > 0
    assert [sorted(r["id"] for r in s) for s in broadcast] == [list(range(60))] * 2


def test_a_hash_column_that_is_missing_is_named(host: Host) -> None:
    locations = host.make_numbers(10, 1)
    failure_type, message, _ = host.fail("same", inputs=(TaskInput("rows", ShipStrategy.HASH, ("k", "q"), locations),))
    assert failure_type == "InputUnusable"
    assert message == "vertex 'vertex': input 'rows' is shipped by hash of column q, which it does not have; it has id, k, s"


# Inputs that are lost


def _data_file(output: OutputLocation) -> Path:
    return min(Path(output.location).glob("part-*.parquet"))


def _shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _scramble(path: Path) -> None:
    """Damage the footer without a change of the length, and let no checksum of the file system tell."""
    data = bytearray(path.read_bytes())
    data[-30:-8] = b"x" * 22
    path.write_bytes(data)
    (path.parent / f".{path.name}.crc").unlink()


def _scramble_rows(path: Path) -> None:
    """Damage rows, and leave what is said of them at the end."""
    data = bytearray(path.read_bytes())
    data[4:60] = b"x" * 56
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda p: shutil.rmtree(p.parent), "is not there"),
        (lambda p: p.unlink(), "is gone"),
        (_shorten, "bytes, and had"),
        (_scramble, "cannot be read"),
        (_scramble_rows, "Spark cannot read"),
        (lambda p: shutil.copy(p, p.with_name("part-twice.parquet")), "part-twice.parquet was not written by the attempt"),
        (lambda p: (p.parent / "foreign.parquet").write_bytes(p.read_bytes()), "foreign.parquet was not written by the attempt"),
    ],
)
def test_an_input_that_is_gone_or_damaged_names_the_subtask_that_wrote_it(host: Host, damage: Callable[[Path], Any], said: str) -> None:
    locations = host.make_numbers(300, 2)
    damage(_data_file(locations[1]))
    for ship, keys in SHIPS.items():
        told = TaskInput("rows", ship, keys, locations[1:] if ship is ShipStrategy.FORWARD else locations)
        outcome = host.run("same", inputs=(told,), subtask_index=1, parallelism=2)
        assert isinstance(outcome, Failed)
        assert outcome.lost_inputs == (LostInput("rows", 1),)
        assert outcome.cause.failure_type == "InputLost"
        assert said in outcome.cause.message
    whole = TaskInput("rows", ShipStrategy.FORWARD, (), locations[:1])
    assert host.finish("count", inputs=(whole,), parallelism=2), "subtask 0 reads nothing of what is lost"


def test_a_file_that_is_gone_while_a_task_reads_fails_the_task_although_it_has_a_result(host: Host) -> None:
    """Spark lists a directory when it reads, so it may never have heard of the file."""
    locations = host.make_numbers(300, 2)
    rows = TaskInput("rows", ShipStrategy.REBALANCE, (), locations)
    outcome = host.run("lose_and_count", inputs=(rows,), parameters={"file": str(_data_file(locations[1]))})
    assert isinstance(outcome, Failed)
    assert (outcome.cause.failure_type, outcome.lost_inputs) == ("InputLost", (LostInput("rows", 1),))
    assert " is gone" in outcome.cause.message


def test_rows_that_an_executor_wrote_elsewhere_are_missed(host: Host) -> None:
    """Spark's driver commits what it finds, and says that the write was a success."""
    job = uuid.uuid4().hex
    place = host.settings.working_place.path / job / "vertex" / "default" / "0" / "attempt-1"
    failure_type, message, _ = host.fail("written_elsewhere", job_id=job, parameters={"place": str(place)})
    assert (place / "_SUCCESS").exists()
    assert failure_type == "OutputUnusable"
    wrote = f"output 'default' cannot be published: Spark wrote 900 rows to {place}, "
    assert f"{wrote}where host {socket.gethostname()} finds 600 in 2 files: " in message
    assert "must see the same execution.working-directory" in message


# A Spark that sees another disk where the working directory is

_COVER = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host whose Spark has a directory of its own, `of spark`, where the host has its working directory."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-Urm", "true"], check=False).returncode:
        pytest.skip("this host lets nobody make a namespace of mounts")
    directory = tmp_path_factory.mktemp("elsewhere")
    runtime, jobs, of_spark = directory / "spark", directory / "jobs", directory / "of spark"
    for each in (runtime, jobs, of_spark):
        each.mkdir()
    server_lock = FileLock(runtime / SERVER_FILE, timeout_s=0)
    with SparkLease(runtime), (runtime / LOG_FILE).open("wb") as log:
        command = ["unshare", "-Urm", "sh", "-c", _COVER, "sh", str(of_spark), str(jobs)]
        with server_lock:
            command += supervisor_command(runtime, SparkServerSettings("local[2]", "1g"), *server_lock.descriptors)
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=server_lock.descriptors)
        wait_until(lambda: find_server(runtime) is not None or server.poll() is not None, 120)
        address = find_server(runtime)
        assert address is not None, (runtime / LOG_FILE).read_text()
        host = Host(directory, address)
        yield host
        host.server.begin_stop()
        host.server.wait_until_gone()
        host.lease.release()
    server.wait(60)


def test_what_is_written_to_another_disk_is_not_published(elsewhere: Host) -> None:
    failure_type, message, _ = elsewhere.fail("two_outputs")
    assert failure_type == "OutputUnusable"
    assert message.startswith(
        f"vertex 'vertex': output 'even' cannot be published: Spark wrote 5 rows to {elsewhere.settings.working_place.path}/"
    )
    assert f"where host {socket.gethostname()} finds nothing (No such file or directory): every TaskExecutor, and the driver" in message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (shutil.rmtree, "its driver finds 0 of the "),
        (lambda p: [each.unlink() for each in p.glob("*/part-*")], "its driver finds 0 of the "),
        (lambda p: min(p.glob("1/part-*")).unlink(), ", and Spark does not"),
        (
            lambda p: shutil.copy(min(p.glob("1/part-*")), p / "1" / "part-x.parquet"),
            "part-x.parquet, which was not written",
        ),
    ],
    ids=["nothing", "no files", "a file less", "a file more"],
)
def test_a_task_reads_nothing_where_spark_sees_other_files_than_were_written(
    host: Host, elsewhere: Host, change: Callable[[Path], Any], said: str
) -> None:
    """It would compute with the rows that Spark finds, and be wrong without a word."""
    name = uuid.uuid4().hex
    place, of_spark = elsewhere.settings.working_place.path / name, elsewhere.directory / "of spark" / name
    locations = []
    for index, output in enumerate(host.make_numbers(300, 2)):
        for copy in (place, of_spark):
            shutil.copytree(output.location, copy / str(index))
        locations.append(replace(output, location=str(place / str(index))))
    whole = elsewhere.run("count", inputs=(TaskInput("rows", ShipStrategy.BROADCAST, (), tuple(locations)),))
    assert isinstance(whole, Failed), "it cannot write"
    assert whole.cause.failure_type == "OutputUnusable"
    change(of_spark)
    for ship, keys in SHIPS.items():
        task_input = TaskInput("rows", ship, keys, tuple(locations[1:] if ship is ShipStrategy.FORWARD else locations))
        outcome = elsewhere.run("count", inputs=(task_input,), subtask_index=1, parallelism=2)
        assert isinstance(outcome, Failed)
        assert (outcome.cause.failure_type, outcome.lost_inputs) == ("InputInvisible", ())
        assert said in outcome.cause.message
        assert "must see the same execution.working-directory" in outcome.cause.message


# SQL, and functions that Spark runs


def test_sql_sees_its_inputs_and_its_parameters(host: Host) -> None:
    rows = TaskInput("my-rows", ShipStrategy.HASH, ("k",), host.make_numbers(100, 2))
    statement = "select count(*) n, :word word, :subtask_index i, :parallelism p from `my-rows` where id < :bound"
    got = []
    for index in range(2):
        shape = {"inputs": (rows,), "subtask_index": index, "parallelism": 2, "outputs": ("default",)}
        outputs = host.finish(statement, **SQL, parameters={"word": "w", "bound": 50, "list": [1]}, **shape)
        got += read_result([outputs[0]], 9).to_pylist()
    assert [(r["word"], r["i"], r["p"]) for r in got] == [("w", 0, 2), ("w", 1, 2)]
    assert sum(r["n"] for r in got) == 50


JOB_PARAMETERS: dict[ParameterType, tuple[str, object, str]] = {
    ParameterType.STRING: ("it's :no 'parameter'", "it's :no 'parameter'", "string"),
    ParameterType.INTEGER: ("5000000000", 5_000_000_000, "bigint"),
    ParameterType.NUMBER: ("5.0", 5.0, "double"),
    ParameterType.BOOLEAN: ("false", False, "boolean"),
    ParameterType.DATE: ("2026-11-25", dt.date(2026, 11, 25), "date"),
    ParameterType.TIMESTAMP: ("2026-11-25T23:30:00+00:00", dt.datetime(2026, 11, 25, 23, 30, tzinfo=dt.UTC), "timestamp"),
}
"""By its type a value of a parameter as text, as Python has it, and what Spark says that it is."""


def test_sql_and_python_are_given_the_parameters_of_the_job_as_values_of_their_types(host: Host) -> None:
    parameters = [JobParameter(name=kind.lower(), parameter_type=kind, value=text) for kind, (text, *_) in JOB_PARAMETERS.items()]
    asked = ", ".join(f"typeof(:{each.name}) {each.name}_type, :{each.name} {each.name}" for each in parameters)
    statement = f"select ':string' text, /* :nothing */ :mine mine, {asked}"  # What is a parameter, Spark alone says.
    [output] = host.finish(statement, **SQL, parameters={"mine": 1}, job_parameters=tuple(parameters), parallelism=1, outputs=("default",))
    [row] = read_result([output], 9).to_pylist()
    assert (row["text"], row["mine"]) == (":string", 1)
    for kind, (_, value, sql_type) in JOB_PARAMETERS.items():
        assert (row[f"{kind.lower()}_type"], row[kind.lower()]) == (sql_type, value)
    day = JobParameter(name="day", parameter_type=ParameterType.DATE, value="2026-11-25")
    [output] = host.finish("told", parameters={"mine": 1}, job_parameters=(*parameters, day))
    values = {kind.lower(): value for kind, (_, value, _) in JOB_PARAMETERS.items()} | {"mine": 1, "day": dt.date(2026, 11, 25)}
    assert read_result([output], 9).to_pylist() == [{"day": dt.date(2026, 11, 25), "text": str(sorted(values.items()))}]


def test_a_parameter_that_nobody_declares_is_named_by_spark_and_the_attempt_fails(host: Host) -> None:
    failure_type, message, _ = host.fail("select :dya", **SQL, job_parameters=())
    assert failure_type == "AnalysisException"
    assert "UNBOUND_SQL_PARAMETER" in message
    assert "dya" in message
    wrong = JobParameter(name="day", parameter_type=ParameterType.DATE, value="soon")
    failure_type, message, _ = host.fail("told", job_parameters=(wrong,))
    assert (failure_type, message) == (
        "ParametersUnusable",
        "vertex 'vertex': the parameters of its job: must be a date, not 'soon': it is not of the form 2026-11-25",
    )


@pytest.mark.parametrize(
    ("statement", "message", "pointed_at"),
    [
        ("select *\nfrm x", "[PARSE_SYNTAX_ERROR] Syntax error at or near 'x'", "  2 | frm x\n          ^"),
        ("select amout\nfrom values (1) t(amount)", "[UNRESOLVED_COLUMN.WITH_SUGGESTION]", "  1 | select amout\n             ^"),
        (
            "select * from nowhere",
            "[TABLE_OR_VIEW_NOT_FOUND] The table or view `nowhere` cannot be found.",
            "  1 | select * from nowhere\n" + 20 * " " + "^",
        ),
        ("select 1 / (id - 1) q from range(3)", "[DIVIDE_BY_ZERO] Division by zero.", ""),
    ],
)
def test_an_error_of_sql_says_what_in_a_line_and_points_at_the_place(host: Host, statement: str, message: str, pointed_at: str) -> None:
    _, found, trace = host.fail(statement, **SQL)
    first, _, rest = found.partition("\n")
    assert first.startswith(f"vertex 'vertex': {message}")
    assert rest == pointed_at
    assert len(first) < 600
    assert trace


def test_statements_run_in_order_and_the_rows_of_the_last_one_are_the_output(host: Host, tmp_path: Path) -> None:
    rows = TaskInput("rows", ShipStrategy.BROADCAST, (), host.make_numbers(100, 2))
    script = f"""
        DECLARE VARIABLE least INT DEFAULT 0; -- not 1; not 2
        SET VARIABLE least = :least;
        CREATE TEMPORARY VIEW some AS SELECT id, ';' AS mark FROM rows WHERE id >= least;
        INSERT OVERWRITE DIRECTORY '{tmp_path}/written' USING parquet SELECT id FROM some WHERE id % 2 = :odd;
        SELECT count(*) AS n, min(id) AS first, any_value(mark) AS mark FROM parquet.`{tmp_path}/written`, (SELECT mark FROM some LIMIT 1);
    """
    [output] = host.finish(script, **SQL, inputs=(rows,), parameters={"least": 90, "odd": 1}, outputs=("default",))
    assert read_result([output], 9).to_pylist() == [{"n": 5, "first": 91, "mark": ";"}]


def test_a_statement_that_fails_is_pointed_at_and_none_behind_it_is_run(host: Host, tmp_path: Path) -> None:
    written = f"INSERT OVERWRITE DIRECTORY '{tmp_path}/written' USING parquet SELECT 1 AS one"
    _, found, _ = host.fail(f"SELECT 1;\n\nSELECT 2 FROM\n  nowhere;\n{written}", **SQL)
    assert found.partition("\n")[2] == "  4 |   nowhere\n        ^"
    assert not (tmp_path / "written").exists()


def test_a_compound_statement_is_given_to_spark_whole(host: Host) -> None:
    script = "DECLARE VARIABLE n INT DEFAULT 5; BEGIN DECLARE m INT DEFAULT 2; SET n = n + m; SELECT n AS sum; END"
    [output] = host.finish(script, **SQL, outputs=("default",))
    assert read_result([output], 9).to_pylist() == [{"sum": 7}]


def test_a_table_that_is_no_input_is_said_to_be_none(host: Host) -> None:
    """Mostly the edge was forgotten."""
    locations = host.make_numbers(10, 1)
    _, found, _ = host.fail("select * from `ord``ers` join rows", inputs=(TaskInput("rows", ShipStrategy.BROADCAST, (), locations),), **SQL)
    assert "no input 'ord``ers' either (it has rows): if a vertex writes it, an edge from there is missing" in found.partition("\n")[0]


def test_a_variant_is_shown_as_what_it_holds_wherever_it_stands(host: Host) -> None:
    document = '{"a": [1, 2.5, null, "x"], "b": {"c": true}}'
    statement = f"""select parse_json('{document}') v, array(named_struct('w', parse_json('7'))) l, map('k', parse_json('"t"')) m,
        cast(null as variant) n, 1 plain union all select parse_json('2'), null, null, null, 2"""
    outputs = host.finish(statement, **SQL)
    rows = sorted(python_rows(read_result(outputs, 9)), key=lambda row: int(row["plain"]))
    assert json.loads(json_text(rows)) == [
        {"v": {"a": [1, "2.5", None, "x"], "b": {"c": True}}, "l": [{"w": 7}], "m": {"k": "t"}, "n": None, "plain": 1},
        {"v": 2, "l": None, "m": None, "n": None, "plain": 2},
    ]


def test_functions_of_the_archive_run_in_spark(host: Host) -> None:
    outputs = host.finish("with_function")
    assert sorted(read_result([outputs[0]], 9).column("d").to_pylist()) == [0, 2, 4]
    failure_type, message, _ = host.fail("failing_function")
    assert failure_type == "PythonException"
    assert "KeyError: 'inside Spark'" in message


def test_spark_names_the_line_of_a_task_that_called_it_and_loads_no_notebook_for_that(host: Host) -> None:
    assert importlib.util.find_spec("IPython") is not None
    _, message, _ = host.fail("divide_by_zero")
    line = next(number for number, line in enumerate(CODE.splitlines(), 1) if "F.lit(0)" in line)
    assert message.endswith(f".py:{line}; IPython: False")
