"""The tables hold what the log holds, queries see nothing else, and a mistake in one is said in one line."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from eventflink.audit import QueryInvalid, database, tables
from eventflink.audit.database import EXAMPLES, AuditDatabase, check_query, table_columns, tables_of
from eventflink.audit.tables import EVENTS, TableBuilder, event_rows
from eventflink.events.log_events import JobStatusChanged, JobSubmitted, LeadershipGranted, TaskFailed
from eventflink.model.statuses import JobStatus
from tests.support.asked_log import append_foreign, entries_of, storied_cluster
from tests.support.cluster import START_MS, ScriptedCluster, graph, vertex
from tests.support.scenarios import eventful_cluster

LATE = JobStatusChanged("last", JobStatus.RUNNING, JobStatus.FAILING)
START = dt.datetime.fromtimestamp(START_MS / 1000, dt.UTC).replace(tzinfo=None)


@pytest.fixture(scope="module")
def contested() -> ScriptedCluster:
    """Give a cluster with nearly every event, several leaders, a late decision and a lost grant."""
    cluster = eventful_cluster()
    append_foreign(cluster, LATE, epoch=1, sequence=99, leader_id="leader-1")
    append_foreign(cluster, LeadershipGranted("master-2", "blob:2"), epoch=cluster.terms, sequence=0, leader_id="rival")
    return cluster


def ask(cluster: ScriptedCluster, sql: str) -> list[tuple[Any, ...]]:
    opened = AuditDatabase(tables_of(sql))
    try:
        opened.check(sql)
        opened.load(entries_of(cluster))
        return list(opened.ask(sql).rows())
    finally:
        opened.close()


def test_every_record_is_a_decision(contested: ScriptedCluster) -> None:
    rows = ask(contested, "SELECT log_offset, epoch, sequence, leader_id, event_count, byte_count FROM decisions ORDER BY log_offset")
    decisions = list(contested.decisions())
    assert rows == [
        (offset, d.epoch, d.sequence, d.leader_id, len(d.events), len(contested.log[offset])) for offset, d in enumerate(decisions)
    ]


def test_a_decision_tells_when_by_whom_and_why(contested: ScriptedCluster) -> None:
    [offset] = [
        n for n, d in enumerate(contested.decisions()) if any(isinstance(e, JobSubmitted) and e.job_id == "done0" for e in d.events)
    ]
    sql = f"SELECT decided_at, log_timestamp, actor, accepted, causes FROM decisions WHERE log_offset = {offset}"
    assert ask(contested, sql) == [(START, START, "test (declared)", True, "submissions@0 by test (declared)")]


def test_every_event_is_a_row_with_its_subject_and_its_whole_payload(contested: ScriptedCluster) -> None:
    assert ask(contested, "SELECT count(*) FROM events") == [(sum(len(d.events) for d in contested.decisions()),)]
    columns = "job_id, vertex_id, subtask_index, attempt, task_manager_id, payload"
    [(*subject, payload)] = ask(contested, f"SELECT {columns} FROM events WHERE type = 'TaskFailed' AND job_id = 'caused'")
    assert subject == ["caused", "a", 0, 1, None]
    assert json.loads(payload) == {
        "job_id": "caused",
        "vertex_id": "a",
        "subtask_index": 0,
        "attempt": 1,
        "cause": {"failure_type": "KeyError", "message": "no 'x'", "stack_trace": "Traceback", "root_type": "", "root_message": ""},
    }
    moved = ask(
        contested, "SELECT DISTINCT from_state, to_state FROM events WHERE job_id = 'bad' AND type = 'JobStatusChanged' ORDER BY ALL"
    )
    assert moved == [("CREATED", "RUNNING"), ("FAILING", "FAILED"), ("RUNNING", "FAILING")]


def test_rejected_decisions_are_told_with_the_reason(contested: ScriptedCluster) -> None:
    last, epoch = len(contested.log) - 1, contested.terms
    assert ask(contested, "SELECT log_offset, epoch, leader_id, rejection FROM rejected_decisions ORDER BY log_offset") == [
        (last - 1, 1, "leader-1", f"epoch 1 is over: epoch {epoch} is leader-{epoch}'s"),
        (last, epoch, "rival", f"epoch {epoch} was granted already; epoch {epoch} is leader-{epoch}'s"),
    ]
    assert ask(contested, "SELECT count(*) FROM events WHERE NOT accepted") == [(2,)]


def test_every_grant_is_a_leadership_with_what_its_leader_decided(contested: ScriptedCluster) -> None:
    sql = "SELECT epoch, leader_id, master_id, accepted, decisions, events, rejected_decisions FROM leaderships ORDER BY granted_offset"
    accepted = [(d.epoch, len(d.events)) for d, e in zip(contested.decisions(), entries_of(contested), strict=True) if e.accepted]
    expected: list[tuple[Any, ...]] = [
        (n, f"leader-{n}", "master-1", True, sum(e == n for e, _ in accepted), sum(m for e, m in accepted if e == n), int(n == 1))
        for n in range(1, contested.terms + 1)
    ]
    assert ask(contested, sql) == [*expected, (contested.terms, "rival", "master-2", False, 0, 0, 1)]
    ends = ask(contested, "SELECT granted_offset, last_offset FROM leaderships WHERE accepted ORDER BY epoch")
    assert [last + 1 for _, last in ends[:-1]] == [granted for granted, _ in ends[1:]]


@pytest.mark.parametrize(("question", "sql"), EXAMPLES)
def test_every_example_is_answered(contested: ScriptedCluster, question: str, sql: str) -> None:
    assert question.endswith("?")
    assert ask(contested, sql)


def test_the_example_of_failures_counts_them(contested: ScriptedCluster) -> None:
    sql = dict(EXAMPLES)["What fails, and how often?"]
    failures: dict[str, int] = {}
    for event in contested.events(TaskFailed):
        failures[event.cause.failure_type] = failures.get(event.cause.failure_type, 0) + 1
    assert {failure: attempts for failure, attempts, _ in ask(contested, sql)} == failures


def test_the_columns_that_are_told_are_those_that_are_there(contested: ScriptedCluster) -> None:
    for name, columns in table_columns().items():
        described = ask(contested, f"DESCRIBE {name}")
        assert [(row[0], row[1].removesuffix("_MS")) for row in described] == columns


def test_a_log_in_many_batches_is_the_same_log(contested: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT * FROM events ORDER BY log_offset, event_index"
    whole = ask(contested, sql)
    monkeypatch.setattr(tables, "BATCH_ROWS", 7)
    assert ask(contested, sql) == whole
    monkeypatch.setattr(tables, "BATCH_BYTES", 1)
    assert ask(contested, sql) == whole


def test_a_batch_is_full_by_rows_or_by_bytes(contested: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row for entry in entries_of(contested) for row in event_rows(entry)]
    builder = TableBuilder(EVENTS)
    monkeypatch.setattr(tables, "BATCH_ROWS", 3)
    sizes = []
    for row in rows[:10]:
        builder.add_row(row)
        if builder.is_full():
            sizes.append(builder.take_batch().num_rows)
    assert (sizes, builder.take_batch().num_rows) == ([3, 3, 3], 1)
    monkeypatch.setattr(tables, "BATCH_BYTES", 10)
    builder.add_row(rows[0])
    assert builder.is_full()


def test_a_time_that_no_calendar_shows_is_null() -> None:
    cluster = ScriptedCluster()
    cluster.wall_ms = 10**17
    append_foreign(cluster, LATE, epoch=9, sequence=9, leader_id="x")
    assert ask(cluster, "SELECT decided_at FROM rejected_decisions") == [(None,)]


def test_only_the_tables_that_a_query_names_are_built_and_all_where_it_names_none() -> None:
    assert tables_of("SELECT 1 FROM Decisions") == {"decisions"}
    assert tables_of("SELECT * FROM rejected_decisions") == {"decisions"}
    assert tables_of("SELECT * FROM events JOIN leaderships USING (epoch)") == {"events", "leaderships"}
    assert tables_of("SHOW TABLES") == {"decisions", "events", "leaderships"}
    cluster = ScriptedCluster()
    assert ask(cluster, "SELECT count(*) FROM query_table('deci' || 'sions')") == [(len(cluster.log),)]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("", "one query"),
        ("-- nothing", "one query"),
        ("SELECT 1; SELECT 2", "one query"),
        ("selec 1", 'syntax error at or near "selec"'),
        ("SELECT nothing FROM events", '"nothing" not found'),
        ("SELECT * FROM jobs", "table not found: 'jobs'; there are decisions, events, leaderships, rejected_decisions"),
        ("SELECT * FROM events JOIN nowhere USING (job_id)", "table not found: 'nowhere'; there are decisions, events"),
        ("SELECT CAST(payload AS INTEGER) FROM events", "Could not convert"),
        ("INSERT INTO events SELECT * FROM events", "not INSERT"),
        ("DROP TABLE events", "not DROP"),
        ("EXPLAIN ANALYZE SELECT 1", "not EXPLAIN"),
        ("SET memory_limit = '100GB'", "not SET"),
    ],
)
def test_a_mistake_is_one_line(sql: str, said: str) -> None:
    with pytest.raises(QueryInvalid) as raised:
        ask(ScriptedCluster(), sql)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("sql", ["SELECT 1", "FROM decisions", "WITH e AS (SELECT 1) SELECT * FROM e;", "VALUES (1)", "/* why */ SELECT 1"])
def test_any_one_select_is_a_query(sql: str) -> None:
    check_query(sql)
    assert ask(ScriptedCluster(), sql)


secret = [{"a": "a value of this process"}]


def test_a_query_reaches_no_file_no_network_no_setting_and_no_variable(tmp_path: Path) -> None:
    present, absent = tmp_path / "present.csv", tmp_path / "absent.csv"
    present.write_text("a,b\n1,2\n")
    visible = secret
    reaching = [
        f"SELECT * FROM read_csv('{present}')",
        f"SELECT * FROM read_text('{present}')",
        f"SELECT * FROM '{present}'",
        f"SELECT * FROM glob('{tmp_path}/*')",
        "SELECT * FROM read_parquet('https://localhost:1/x.parquet')",
        "SELECT * FROM visible",
        "SELECT * FROM secret",
        "SELECT getenv('HOME')",
        f"COPY (SELECT 1) TO '{absent}'",
        f"ATTACH '{absent}'",
        f"EXPORT DATABASE '{absent}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
    ]
    for sql in reaching:
        with pytest.raises(QueryInvalid):
            ask(ScriptedCluster(), sql)
    assert visible is secret
    assert [path.name for path in tmp_path.iterdir()] == ["present.csv"]


def test_the_engine_refuses_by_itself_whatever_the_check_of_the_query_lets_through(tmp_path: Path) -> None:
    absent = tmp_path / "absent.csv"
    opened = AuditDatabase(["decisions"])
    for sql in (f"COPY decisions TO '{absent}'", f"ATTACH '{absent}'", "SET enable_external_access = true", "SET memory_limit = '1TB'"):
        with pytest.raises(Exception, match=r"disabled|locked"):
            opened._connection.execute(sql)
    assert not absent.exists()


def test_a_log_that_does_not_fit_into_memory_asks_for_less_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(database._SETTINGS, "memory_limit", "1MB")
    opened = AuditDatabase(["events"])
    with pytest.raises(QueryInvalid, match="into 1MB; ask for less of it with --from and --until"):
        opened.load(entries_of(storied_cluster()) * 200)


def test_large_graphs_are_kept_whole() -> None:
    cluster = ScriptedCluster()
    cluster.submit(graph(*[vertex(f"v{n}") for n in range(300)]))
    [(payload,)] = ask(cluster, "SELECT payload FROM events WHERE type = 'JobSubmitted'")
    assert len(json.loads(payload)["job_graph"]["vertices"]) == 300
