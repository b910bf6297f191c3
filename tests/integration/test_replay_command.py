"""`eventflink replay` over a log that holds every event: what it prints is the fold, at whatever place it ends."""

import itertools
import json
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.drills.state_summary import MAX_NAMED
from eventflink.leadership.fold import Fold
from eventflink.log.administration import delete_topics, ensure_topics, log_topic_id, trim_log
from eventflink.model.cluster_access import ClusterAccess, access_to
from eventflink.snapshots.log_copy import append_records
from eventflink.snapshots.snapshot import take_snapshot
from eventflink.snapshots.topic import write_snapshot
from tests.support.cluster import CODEC, new_fold, replay
from tests.support.scenarios import eventful_cluster

pytestmark = pytest.mark.slow


@dataclass
class Log:
    """A log in Kafka, and its records."""

    bootstrap: str
    cluster_id: str
    values: list[bytes]

    @property
    def access(self) -> ClusterAccess:
        return access_to(self.bootstrap, self.cluster_id)

    @property
    def last(self) -> int:
        return len(self.values) - 1

    def fold_to(self, offset: int) -> Fold:
        return replay(self.values[: offset + 1])

    def arguments(self, *more: str) -> list[str]:
        return ["--bootstrap", self.bootstrap, "--cluster-id", self.cluster_id, "replay", *more]


@pytest.fixture(scope="module")
def log(bootstrap: str) -> Iterator[Log]:
    written = Log(bootstrap, f"test-{uuid.uuid4().hex[:12]}", eventful_cluster().log)
    ensure_topics(access_to(bootstrap, written.cluster_id))
    append_records(access_to(bootstrap, written.cluster_id), written.values)
    yield written
    delete_topics(access_to(bootstrap, written.cluster_id))


@pytest.fixture
def trimmed(bootstrap: str) -> Iterator[Log]:
    """A log of its own, with a snapshot in its middle, which is trimmed behind that."""
    written = Log(bootstrap, f"test-{uuid.uuid4().hex[:12]}", eventful_cluster().log)
    ensure_topics(access_to(bootstrap, written.cluster_id))
    append_records(access_to(bootstrap, written.cluster_id), written.values)
    write_snapshot_at(written, written.last // 2)
    trim_log(access_to(bootstrap, written.cluster_id), written.last // 2 + 1)
    yield written
    delete_topics(access_to(bootstrap, written.cluster_id))


def write_snapshot_at(log: Log, offset: int) -> None:
    fold = log.fold_to(offset)
    write_snapshot(log.access, *take_snapshot(fold, f"at-{offset}", "test", log_topic_id(log.access)))


def answer(capsys: pytest.CaptureFixture[str], log: Log, *options: str) -> dict[str, Any]:
    assert run(log.arguments("--json", *options)) == ExitCode.OK
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def place_of(fold: Fold) -> tuple[int, int, int, str]:
    return fold.last_offset, fold.acceptance.epoch, fold.acceptance.sequence, fold.master.digest()


def told(document: dict[str, Any]) -> tuple[int, int, int, str]:
    return document["log_offset"], document["epoch"], document["sequence"], document["digest"]


def test_it_ends_with_the_state_of_the_whole_log(capsys: pytest.CaptureFixture[str], log: Log) -> None:
    fold, document = log.fold_to(log.last), answer(capsys, log)
    assert told(document) == place_of(fold)
    counts = (document["records"], document["accepted"], document["rejected"], document["events"])
    assert counts == (len(log.values), fold.accepted_count, fold.rejected_count, fold.event_count)
    assert document["jobs"] == {str(s): n for s, n in Counter(j.status for j in fold.master.dispatcher.jobs.values()).items()}
    assert document["events_per_s"] > 0
    assert "changes" not in document


def test_it_ends_with_any_offset(capsys: pytest.CaptureFixture[str], log: Log) -> None:
    for offset in (0, 1, log.last // 3, log.last - 1, log.last, log.last + 1_000):
        assert told(answer(capsys, log, "--until", str(offset))) == place_of(log.fold_to(min(offset, log.last)))


def test_it_ends_with_the_last_decision_of_any_time(capsys: pytest.CaptureFixture[str], log: Log) -> None:
    times, fold = [], new_fold()
    for offset, value in enumerate(log.values):
        if fold.fold_record(offset, 0, value) is not None:
            times.append((offset, CODEC.decode(value).decided_at_ms))
    for at_ms in (times[0][1], times[len(times) // 2][1], times[-1][1] - 1, times[-1][1] + 1):
        text = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        later = [offset for offset, decided_at_ms in times if decided_at_ms > at_ms]
        document = answer(capsys, log, "--until", text)
        assert told(document) == place_of(log.fold_to(later[0] - 1 if later else log.last))
    assert answer(capsys, log, "--until", "2001-01-01")["records"] == 0


def test_what_changed_is_what_differs_between_the_two_states(capsys: pytest.CaptureFixture[str], log: Log) -> None:
    since = log.last // 2
    before, after = log.fold_to(since).master, log.fold_to(log.last).master
    document = answer(capsys, log, "--since", str(since))
    changes, jobs, old = document["changes"], after.dispatcher.jobs, before.dispatcher.jobs
    moved = {j for j in {*old, *jobs} if j not in old or j not in jobs or old[j].status is not jobs[j].status}
    assert sum(changes["jobs_moved"].values()) == len(moved) > 0
    named = {line.partition(":")[0] for line in changes["jobs_named"]}
    assert named <= moved
    assert len(named) == len(changes["jobs_named"]) == min(len(moved), MAX_NAMED)
    assert changes["jobs_submitted"] == len(jobs.keys() - old.keys())
    managers, older = after.resource_manager.task_managers, before.resource_manager.task_managers
    assert set(changes["task_managers_gained"]) == managers.keys() - older.keys()
    assert changes["slots"] == sum(t.slot_count for t in managers.values()) - sum(t.slot_count for t in older.values())
    assert told(document) == told(answer(capsys, log))


def test_with_a_snapshot_it_begins_there_and_ends_in_the_same_state(capsys: pytest.CaptureFixture[str], log: Log) -> None:
    third, whole = log.last // 3, answer(capsys, log)
    for offset in (third, 2 * third):
        write_snapshot_at(log, offset)
    newest = answer(capsys, log)
    assert (newest["snapshot"], newest["first_offset"], newest["records"]) == (f"at-{2 * third}", 2 * third + 1, log.last - 2 * third)
    assert told(newest) == told(whole)
    from_zero = answer(capsys, log, "--from-zero")
    assert (from_zero["snapshot"], from_zero["first_offset"], from_zero["records"]) == (None, 0, len(log.values))
    assert told(from_zero) == told(whole)
    # A snapshot that reaches further than what is asked for is of no use.
    assert answer(capsys, log, "--until", str(2 * third - 1))["snapshot"] == f"at-{third}"
    assert answer(capsys, log, "--since", str(third - 1))["snapshot"] is None
    for offset in itertools.chain(range(third - 1, third + 2), range(2 * third - 1, 2 * third + 2)):
        assert told(answer(capsys, log, "--until", str(offset))) == place_of(log.fold_to(offset))


def test_a_trimmed_log_begins_at_a_snapshot_or_not_at_all(capsys: pytest.CaptureFixture[str], trimmed: Log) -> None:
    assert told(answer(capsys, trimmed)) == place_of(trimmed.fold_to(trimmed.last))
    for options in (("--from-zero",), ("--until", "3")):
        assert run(trimmed.arguments(*options)) == ExitCode.NEGATIVE
        assert f"begins at offset {trimmed.last // 2 + 1}" in capsys.readouterr().err


def test_it_is_readable(capsys: pytest.CaptureFixture[str], log: Log) -> None:
    assert run(log.arguments("--since", "3")) == ExitCode.OK
    shown = capsys.readouterr().out
    assert log.fold_to(log.last).master.digest() in shown
    assert f"at offset {log.last}, epoch" in shown
    assert "since 3" in shown


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--until", "yesterday"), ExitCode.USAGE, "neither an offset nor a time"),
        (("--until", "3", "--since", "4"), ExitCode.USAGE, "--since 4 lies behind --until 3"),
        (("--since", "-1"), ExitCode.USAGE, "--since"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    capsys: pytest.CaptureFixture[str], log: Log, options: tuple[str, ...], code: ExitCode, said: str
) -> None:
    assert run(log.arguments(*options)) == code
    assert said in capsys.readouterr().err


def test_a_cluster_that_does_not_exist_is_told(capsys: pytest.CaptureFixture[str], bootstrap: str) -> None:
    assert run(["--bootstrap", bootstrap, "--cluster-id", "nowhere", "replay"]) == ExitCode.UNREACHABLE
    assert "nowhere" in capsys.readouterr().err
