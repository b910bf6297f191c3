"""`list`, `why`, `history` and `diff` ask the REST process of their cluster, say what the log would say, and need no Kafka for it."""

import http.client
import json
import urllib.parse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from eventflink.audit.difference import difference_between, moment_of
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.documents.plain import plain
from eventflink.gateways import state_reads
from eventflink.gateways.kafka_clients import PartitionReader
from eventflink.gateways.rest_process import IDENTITY_VARIABLE, cluster_name
from eventflink.processes.announced_address import Announced, announced
from eventflink.reader.past.why import explain, tell_story
from eventflink.rest.access.identity import AccessRole
from eventflink.rest.access.server_tls import ServerTls
from eventflink.views.jobs_and_cluster import jobs_view
from eventflink.views.queues import queue_rows
from tests.support.asked_log import book_of, records_of
from tests.support.cluster import ScriptedCluster, replay
from tests.support.recorded_cluster import recorded_cluster
from tests.support.rest_server import served
from tests.support.rest_tokens import tokens_of_three
from tests.support.scenarios import with_queues
from tests.support.tls_files import Certificates

NOWHERE = "localhost:1"


@pytest.fixture(scope="module")
def cluster() -> ScriptedCluster:
    return recorded_cluster()


@pytest.fixture(scope="module")
def url(cluster: ScriptedCluster) -> Iterator[str]:
    with served(cluster) as serving:
        yield serving.url


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_reads, "TIMEOUT_S", 60.0)  # But for what is served by a busy machine.
    connect = PartitionReader.__init__
    monkeypatch.setattr(PartitionReader, "__init__", lambda *where, **_timeout: connect(*where, connect_timeout_s=0.2))


def ask(directory: Path, *command: str) -> int:
    return run(["-D", f"data.directory={directory}", "--bootstrap", NOWHERE, *command])


def list_jobs(directory: Path, *options: str) -> int:
    return ask(directory, "list", *options)


@pytest.mark.parametrize(
    ("options", "statuses", "limit", "labels"),
    [
        ((), (), 100, ()),
        (("--limit", "2"), (), 2, ()),
        (("--status", "FINISHED"), ("FINISHED",), 100, ()),
        (("-r", "-s"), None, 100, ()),
        (("--label", "team=finance", "--label", "tier"), (), 100, ("team=finance", "tier")),
        (("--queue", "default", "--queue", "nightly"), (), 100, ()),
    ],
)
def test_the_list_of_a_rest_process_is_that_of_a_master(
    cluster: ScriptedCluster,
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    statuses: tuple[str, ...] | None,
    limit: int,
    labels: tuple[str, ...],
) -> None:
    fold = replay(cluster.log, timestamps=cluster.timestamps)
    if statuses is None:
        statuses = tuple({row.status for row in jobs_view(fold, (), 100).jobs} - {"FINISHED", "FAILED", "CANCELED"})
    with announced(tmp_path, Announced.REST, url, of_cluster=cluster_name(NOWHERE, "eventflink")):
        assert list_jobs(tmp_path, "--json", *options) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == plain(found := jobs_view(fold, statuses, limit, labels).jobs)
    assert found
    assert not labels or {row.owner for row in found} == {"finance"}


def test_the_list_has_the_jobs_of_the_queues_that_are_named(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with announced(tmp_path, Announced.REST, url, of_cluster=cluster_name(NOWHERE, "eventflink")):
        assert list_jobs(tmp_path, "--json", "--queue", "nightly") == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == []


KINDS = {
    "job": "orders",
    "job that failed": "nightly-4",
    "subtask": "orders-1/totals[0]",
    "attempt": "orders-1/totals[0]#1",
    "allocation": "allocation-1",
    "TaskManager": "tm-4",
    "instance": "tm-4-820000",
    "request": "cancel-nightly-4",
}


@pytest.mark.parametrize("subject", KINDS.values(), ids=KINDS)
def test_why_is_told_by_a_rest_process_as_by_who_reads_the_log(
    cluster: ScriptedCluster, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], subject: str
) -> None:
    book = book_of(records_of(cluster))
    told = explain(book, subject, book.last_offset)
    with announced(tmp_path, Announced.REST, url, of_cluster=cluster_name(NOWHERE, "eventflink")):
        assert ask(tmp_path, "why", subject, "--json") == ExitCode.OK
        answer = json.loads(capsys.readouterr().out)
        assert [wait.pop("waited_ms") >= 0 for wait in answer["waits"]] == [True] * len(told.waits)
        assert answer == json.loads(json.dumps(plain(told)))
        assert ask(tmp_path, "why", subject) == ExitCode.OK
        shown = capsys.readouterr().out
    assert f"{told.type} {told.id} is {told.state}" in shown
    assert len(shown.splitlines()) > len(told.chain)


def test_the_story_of_every_job_is_told_by_a_rest_process_as_by_who_reads_the_log(
    cluster: ScriptedCluster, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book = book_of(records_of(cluster))
    with announced(tmp_path, Announced.REST, url, of_cluster=cluster_name(NOWHERE, "eventflink")):
        for job_id in book.index.by_job:
            told = tell_story(book, job_id, book.last_offset)
            assert ask(tmp_path, "history", job_id, "--json") == ExitCode.OK
            assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(plain(told)))
            assert ask(tmp_path, "history", job_id) == ExitCode.OK
            assert len(capsys.readouterr().out.splitlines()) > len(told.lines)


def test_two_moments_are_compared_by_a_rest_process_as_from_the_log(
    cluster: ScriptedCluster, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folds = [replay(cluster.log[:end], timestamps=cluster.timestamps) for end in (4, len(cluster.log))]
    told = difference_between(moment_of(folds[0]), moment_of(folds[1]))
    assert told.rows
    with announced(tmp_path, Announced.REST, url, of_cluster=cluster_name(NOWHERE, "eventflink")):
        for place in ("3", str(told.before.at)):
            assert ask(tmp_path, "diff", place, "2999-01-01", "--json") == ExitCode.OK
            assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(plain(told)))


def test_how_many_are_not_shown_is_said(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with announced(tmp_path, Announced.REST, url, of_cluster=cluster_name(NOWHERE, "eventflink")):
        assert list_jobs(tmp_path, "--limit", "1") == ExitCode.OK
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 2
    assert "older ones are not shown" in captured.err


def test_queues_of_jobs_are_shown_with_what_they_may_hold_and_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = with_queues()
    with served(cluster) as serving, announced(tmp_path, Announced.REST, serving.url, of_cluster=cluster_name(NOWHERE, "eventflink")):
        assert ask(tmp_path, "queues") == ExitCode.OK
        table = capsys.readouterr().out
        assert ask(tmp_path, "queues", "--json") == ExitCode.OK
        rows = json.loads(capsys.readouterr().out)["queues"]
        assert ask(tmp_path, "status", "flood") == ExitCode.OK
        told = " ".join(capsys.readouterr().out.split())
        assert list_jobs(tmp_path) == ExitCode.OK
        heading, row = (line.split() for line in capsys.readouterr().out.splitlines()[:2])
    assert [line.split() for line in table.splitlines()[1:]] == [
        ["adhoc", "1", "1", "1", "2", "1", "3", "1"],
        ["default", "0", "all", "1", "0", "0", "0", "0"],
        ["etl", "8", "all", "3", "0", "0", "0", "0"],
    ]
    assert rows == plain(queue_rows(cluster.master.slot_manager))
    assert "queue: adhoc, priority 7" in told
    assert "queue 'adhoc' holds 2 slots, as many as it may: its quota is 1, and it may borrow 1" in told
    assert ("queue" in heading, "adhoc" in row) == (True, True)


def test_the_list_has_no_column_of_queues_where_no_job_names_one(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with announced(tmp_path, Announced.REST, url, of_cluster=cluster_name(NOWHERE, "eventflink")):
        assert list_jobs(tmp_path) == ExitCode.OK
    assert "queue" not in capsys.readouterr().out.splitlines()[0]


def test_a_cluster_without_queues_says_so(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with announced(tmp_path, Announced.REST, url, of_cluster=cluster_name(NOWHERE, "eventflink")):
        assert ask(tmp_path, "queues") == ExitCode.OK
    assert capsys.readouterr().out == "no queues are configured: all jobs take turns\n"


@pytest.mark.parametrize("of_cluster", [cluster_name(NOWHERE, "another"), cluster_name("elsewhere:9092", "eventflink"), ""])
def test_the_rest_process_of_another_cluster_is_not_asked(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], of_cluster: str
) -> None:
    with announced(tmp_path, Announced.REST, url, of_cluster=of_cluster):
        assert list_jobs(tmp_path) == ExitCode.UNREACHABLE
    assert f"{NOWHERE} does not answer" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["http://127.0.0.1:1", "http://localhost", "gopher://127.0.0.1:1", "nonsense"])
def test_a_rest_process_that_does_not_answer_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str) -> None:
    with announced(tmp_path, Announced.REST, path, of_cluster=cluster_name(NOWHERE, "eventflink")):
        assert list_jobs(tmp_path) == ExitCode.UNREACHABLE
    assert f"{NOWHERE} does not answer" in capsys.readouterr().err


def test_a_rest_process_that_the_configuration_names_is_asked_with_tls_and_a_token(
    cluster: ScriptedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates, tokens = Certificates(tmp_path / "tls"), tokens_of_three(tmp_path)
    with served(cluster, "0", ServerTls(replace(certificates.server, ca=None)), **tokens.configuration) as serving:
        port = str(urllib.parse.urlsplit(serving.url).port)
        keys = {
            "data.directory": str(tmp_path),
            "rest.address": "localhost",
            "rest.port": port,
            "security.ssl.rest.enabled": "true",
            "security.ssl.rest.ca": str(certificates.ca),
        }
        command = [part for key, value in keys.items() for part in ("-D", f"{key}={value}")] + ["list", "--json"]
        monkeypatch.delenv(IDENTITY_VARIABLE, raising=False)
        assert run(command) == ExitCode.UNREACHABLE, "without a token the log is to be folded, and there is no Kafka"
        monkeypatch.setenv(IDENTITY_VARIABLE, tokens.tokens[AccessRole.VIEWER])
        assert run(command) == ExitCode.OK
    assert len(json.loads(capsys.readouterr().out)) == len(cluster.master.dispatcher.jobs)


def test_a_token_is_not_sent_in_the_clear_to_another_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sent: list[dict[str, str]] = []
    monkeypatch.setattr(http.client.HTTPConnection, "request", lambda *_, headers: sent.append(headers))
    monkeypatch.setenv(IDENTITY_VARIABLE, "secret")
    for name in ("localhost", "elsewhere.example"):
        run(["-D", f"data.directory={tmp_path}", "-D", f"rest.address={name}", "-D", "rest.port=1", "list"])
    assert ["Authorization" in headers for headers in sent] == [True, False]
