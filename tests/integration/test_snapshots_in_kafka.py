"""P18 on a real broker: snapshots are written, found, passed over when damaged, confirmed by another, and the log is trimmed behind one.

The leader is the real one, without its process: its log is put into Kafka record by record, and its commands are taken from there.
"""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from eventflink.events.codec import PayloadCodec
from eventflink.events.log_events import RequestRejected, SnapshotConfirmed, SnapshotTaken
from eventflink.events.schemas import MARKER
from eventflink.events.topics import Topic, topic_name
from eventflink.leadership.known_log import LogTruncated
from eventflink.log.admin_connection import AdminConnection
from eventflink.log.administration import AdministrationError, delete_topics, ensure_topics, log_topic_id, trim_log
from eventflink.log.clients import consumer_settings
from eventflink.log.replay import log_bounds, new_fold, replay
from eventflink.model.cluster_access import access_to
from eventflink.model.cluster_secret import MIN_LENGTH
from eventflink.model.configuration import build_configuration
from eventflink.snapshots import snapshotter
from eventflink.snapshots.keeper import SnapshotTask, starter
from eventflink.snapshots.loading import LogTrimmed, find_snapshot, load_fold, read_state
from eventflink.snapshots.log_copy import CopyFailed
from eventflink.snapshots.log_repair import repair_log
from eventflink.snapshots.log_survey import survey_log
from eventflink.snapshots.search import ENVELOPE, MANIFEST, record_key
from eventflink.snapshots.snapshot import encode_fold, take_snapshot
from eventflink.snapshots.snapshotter import DONE, FAILED, REFUTED, NotConfirmed, SnapshotRefuted, confirm, main, take, trim
from eventflink.snapshots.topic import list_snapshots, remove_snapshots, write_snapshot
from eventflink.snapshots.truncation import accept_log_end
from tests.support.cluster import CODEC, EventType, ScriptedCluster, graph, vertex
from tests.support.running_cluster import wait_until
from tests.support.scenarios import eventful_cluster

pytestmark = pytest.mark.slow
SNAPSHOTTER = [sys.executable, "-m", "eventflink.snapshots.snapshotter"]


class Cell:
    """A cluster whose log and commands are in Kafka."""

    def __init__(self, bootstrap: str, cluster_id: str) -> None:
        self.bootstrap, self.cluster_id = bootstrap, cluster_id
        self.access = access_to(bootstrap, cluster_id)
        ensure_topics(self.access)
        self.scripted = eventful_cluster()
        self.first = len(self.scripted.log)
        self.appended = 0
        self.commands = 0
        self.append()

    def events(self, kind: type[EventType]) -> list[EventType]:
        """Return the events of a class that were decided since the cell began."""
        return [e for value in self.scripted.log[self.first :] for e in CODEC.decode(value).events if isinstance(e, kind)]

    def append(self) -> None:
        """Put into Kafka what the leader has decided since the last time."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 0})
        for value in self.scripted.log[self.appended :]:
            producer.produce(topic_name(self.cluster_id, Topic.LOG), value, partition=0)
        assert producer.flush(30) == 0
        self.appended = len(self.scripted.log)

    def run_jobs(self, *names: str) -> None:
        for name in names:
            self.scripted.run(self.scripted.submit(graph(vertex("a")), job_id=name))
        self.append()

    def decide_commands(self) -> None:
        """Let the leader decide what stands on `commands`."""
        name = topic_name(self.cluster_id, Topic.COMMANDS)
        end = AdminConnection(self.access.kafka).read_watermarks([(name, 0)])[name, 0].high
        consumer = Consumer(consumer_settings(self.access.kafka))
        consumer.assign([TopicPartition(name, 0, self.commands)])
        while self.commands < end:
            for message in consumer.consume(end - self.commands, timeout=1):
                self.scripted.put(Topic.COMMANDS, message.value(), message.key())
                self.commands += 1
        consumer.close()
        self.scripted.settle()
        self.append()

    def take(self, master_id: str = "master-1", retained: int = 16) -> str:
        snapshot_id = take(self.access, master_id, retained)
        assert snapshot_id is not None
        self.decide_commands()
        return snapshot_id

    def confirm(self, snapshot_id: str, *trusted: str, master_id: str = "master-2") -> None:
        confirm(self.access, master_id, snapshot_id, trusted)
        self.decide_commands()

    def put(self, key: str, value: bytes | None) -> None:
        """Put a record into `snapshots`, as nobody should."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        producer.produce(topic_name(self.cluster_id, Topic.SNAPSHOTS), key=key.encode(), value=value, partition=0)
        assert producer.flush(30) == 0

    def check(self) -> None:
        """Compare what a reader who starts from a snapshot knows with what the leader knows."""
        fold = read_state(self.access)
        fold.master.validate()
        assert fold.master.digest() == self.scripted.master.digest()
        assert fold.running_hash == self.scripted.fold.running_hash


@pytest.fixture
def cell(bootstrap: str, cluster_id: str) -> Iterator[Cell]:
    yield Cell(bootstrap, cluster_id)
    delete_topics(access_to(bootstrap, cluster_id))


@pytest.fixture
def second_id(bootstrap: str, cluster_id: str) -> Iterator[str]:
    """The id of a cluster of which there is nothing yet."""
    yield f"{cluster_id}-2"
    delete_topics(access_to(bootstrap, f"{cluster_id}-2"))


def test_snapshot_and_tail_equal_the_full_replay(cell: Cell) -> None:
    assert find_snapshot(cell.access) is None
    snapshot_id = cell.take()
    cell.run_jobs("one", "two")
    loaded = find_snapshot(cell.access, verify=True)
    assert loaded is not None
    assert loaded.manifest.snapshot_id == snapshot_id
    assert 0 < loaded.fold.last_offset < cell.appended - 5
    whole = replay(cell.access, new_fold(cell.access))
    assert encode_fold(read_state(cell.access)) == encode_fold(whole)
    cell.check()


def test_a_snapshot_is_told_in_the_log_and_one_of_the_same_state_is_not_taken_again(cell: Cell) -> None:
    snapshot_id = cell.take()
    [taken] = cell.events(SnapshotTaken)
    assert (taken.snapshot_id, taken.taken_by) == (snapshot_id, "master-1")
    # The report itself was decided behind the snapshot, so there is something new; behind that there is nothing.
    second = take(cell.access, "master-1", 16)
    assert second is not None
    assert take(cell.access, "master-1", 16) is None
    cell.decide_commands()
    assert [e.snapshot_id for e in cell.events(SnapshotTaken)] == [snapshot_id, second]


def test_a_damaged_snapshot_is_named_and_the_one_before_it_used(cell: Cell, caplog: pytest.LogCaptureFixture) -> None:
    old = cell.take()
    cell.run_jobs("one")
    new = cell.take()
    cell.put(record_key(new, 0), None)
    with caplog.at_level(logging.WARNING):
        loaded = find_snapshot(cell.access)
    assert loaded is not None
    assert loaded.manifest.snapshot_id == old
    assert f"SnapshotSkipped snapshot {new} at offset" in caplog.text
    assert "chunk 0 of 1 is missing" in caplog.text
    cell.put(record_key(old, MANIFEST), b"garbage")
    with caplog.at_level(logging.WARNING):
        assert find_snapshot(cell.access) is None
    assert f"snapshot {old}: its record manifest cannot be read" in caplog.text
    cell.check()


@pytest.mark.rule("P18")
def test_a_snapshot_that_is_confirmed_while_the_next_one_is_written_is_not_removed(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be the only one behind which the log is trimmed: the next one is not confirmed."""
    first = cell.take(retained=1)
    cell.confirm(first)
    cell.run_jobs("one")
    second = cell.take(retained=1)

    def write(*arguments: Any) -> None:
        write_snapshot(*arguments)
        cell.confirm(second, first)

    monkeypatch.setattr(snapshotter, "write_snapshot", write)
    cell.run_jobs("two")
    third = cell.take(retained=1)
    assert {each.snapshot_id for each in list_snapshots(cell.access)} == {second, third}


def test_a_snapshot_among_very_many_records_is_found(cell: Cell) -> None:
    """The topic is searched backwards in growing stretches; what is in front of the snapshot may be anything."""
    snapshot_id = cell.take()
    producer = Producer({"bootstrap.servers": cell.bootstrap})
    for number in range(1000):
        producer.produce(topic_name(cell.cluster_id, Topic.SNAPSHOTS), key=f"torn/{number}", value=b"a piece", partition=0)
    assert producer.flush(30) == 0
    loaded = find_snapshot(cell.access)
    assert loaded is not None
    assert loaded.manifest.snapshot_id == snapshot_id


def test_a_snapshot_of_a_log_that_was_deleted_shows_that_this_one_is_not_it(cell: Cell) -> None:
    manifest, chunks = take_snapshot(read_state(cell.access), "foreign", "master-1", "0123456789012345678901")
    write_snapshot(cell.access, manifest, chunks)
    if not log_topic_id(cell.access):
        pytest.skip("this broker gives topics no ids")
    with pytest.raises(LogTruncated, match="created after the topic 0123456789012345678901, of which the snapshot foreign was taken"):
        load_fold(cell.access)
    assert accept_log_end(cell.access, cell.appended)
    cell.check()


@pytest.mark.rule("P5a")
def test_a_snapshot_of_records_that_are_gone_stops_every_reader_until_an_operator_accepts_the_end(cell: Cell) -> None:
    cell.take()
    fold = read_state(cell.access)
    fold.last_offset = cell.appended + 2
    manifest, chunks = take_snapshot(fold, "later", "master-1", log_topic_id(cell.access))
    write_snapshot(cell.access, manifest, chunks)
    reason = rf"it ends at {cell.appended}, and the records {cell.appended} to {cell.appended + 2} are missing, of which the snapshot later"
    with pytest.raises(LogTruncated, match=reason):
        read_state(cell.access)
    assert not accept_log_end(cell.access, cell.appended + 3)
    with pytest.raises(LogTruncated):
        read_state(cell.access)
    assert accept_log_end(cell.access, cell.appended)
    cell.check()
    cell.take()


@pytest.mark.rule("P5a")
def test_a_snapshot_of_other_records_stops_every_reader_until_an_operator_accepts_the_end(cell: Cell, second_id: str) -> None:
    """The log has lost its end, and has grown past the snapshot since."""
    lost = ScriptedCluster()
    lost.register()
    lost.submit(graph(vertex("a")), job_id="lost")
    lost.settle()
    manifest, chunks = take_snapshot(lost.fold, "lost", "master-1", log_topic_id(cell.access))
    assert manifest.log_offset < cell.appended
    write_snapshot(cell.access, manifest, chunks)
    reason = f"up to the record {manifest.log_offset} it has other records than those of which the snapshot lost was taken"
    with pytest.raises(LogTruncated, match=reason):
        read_state(cell.access)
    assert reason in [finding.reason for finding in survey_log(cell.access).findings]
    assert repair_log(cell.access, cell.access.of_copy(second_id), 1, lambda _: None).end_offset == cell.appended
    assert accept_log_end(cell.access, cell.appended)
    cell.check()


def test_a_survey_of_a_whole_cluster_finds_nothing_and_the_state_at_its_end(cell: Cell) -> None:
    snapshot_id = cell.take()
    cell.run_jobs("one")
    survey = survey_log(cell.access)
    # Its cursors are those of a script, whose inputs are not in Kafka.
    assert [finding for finding in survey.findings if finding.topic is Topic.LOG] == []
    assert survey.fold is not None
    assert survey.fold.master.digest() == cell.scripted.master.digest()
    assert survey.snapshot is not None
    assert survey.snapshot.manifest.snapshot_id == snapshot_id
    assert survey.provable_end == survey.known_end == cell.appended


def test_of_a_log_with_a_record_of_an_unknown_version_all_before_it_is_brought_into_a_new_cluster(cell: Cell, second_id: str) -> None:
    cell.take()
    producer = Producer({"bootstrap.servers": cell.bootstrap})
    producer.produce(topic_name(cell.cluster_id, Topic.LOG), MARKER + bytes(40), partition=0)
    assert producer.flush(30) == 0
    (finding,) = [finding for finding in survey_log(cell.access).findings if finding.topic is Topic.LOG]
    assert f"log@{cell.appended}: " in finding.reason
    done = repair_log(cell.access, cell.access.of_copy(second_id), 1, lambda _: None)
    assert (done.end_offset, done.snapshot_id) == (cell.appended, "")
    assert done.lost[0] == f"the records {cell.appended} to {cell.appended} of the log"
    assert read_state(access_to(cell.bootstrap, second_id)).master.digest() == cell.scripted.master.digest()
    with pytest.raises(CopyFailed, match="has topics already"):
        repair_log(cell.access, cell.access.of_copy(second_id), 1, lambda _: None)


def test_of_a_log_that_is_empty_the_newest_whole_snapshot_is_brought_into_a_new_cluster(cell: Cell, second_id: str) -> None:
    snapshot_id = cell.take()
    trimmed = topic_name(cell.cluster_id, Topic.LOG)
    before = cell.scripted.master.digest()
    snapshot = find_snapshot(cell.access)
    assert snapshot is not None
    connection = AdminConnection(cell.access.kafka)
    connection.delete_topics([trimmed])
    wait_until(lambda: trimmed not in connection.find_topics(), "the topic is gone")
    reasons = [finding.reason for finding in survey_log(cell.access).findings if finding.topic is Topic.LOG]
    assert "the topic is missing" in reasons
    done = repair_log(cell.access, cell.access.of_copy(second_id), 1, lambda _: None)
    assert (done.end_offset, done.snapshot_id) == (snapshot.manifest.log_offset + 1, snapshot_id)
    fold = read_state(access_to(cell.bootstrap, second_id))
    assert fold.last_offset == snapshot.manifest.log_offset
    assert fold.master.digest() == snapshot.fold.master.digest() != before


def test_a_cluster_from_before_there_were_snapshots_is_read_from_its_first_record(bootstrap: str, cell: Cell) -> None:
    name = topic_name(cell.cluster_id, Topic.SNAPSHOTS)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([name], operation_timeout=10)[name].result(120)
    cell.check()


def test_stale_snapshots_are_removed_but_never_the_newest_confirmed_nor_one_in_the_making(cell: Cell) -> None:
    confirmed = cell.take()
    cell.confirm(confirmed)
    for name in ("one", "two", "three"):
        cell.run_jobs(name)
        cell.take()
    stored = list_snapshots(cell.access)
    assert len(stored) == 4
    torn, making = ("1-torn", "2-making")
    cell.put(record_key(torn, 0), b"a piece")
    cell.run_jobs("four")
    last = take(cell.access, "master-1", 2)
    assert last is not None
    assert {s.snapshot_id for s in list_snapshots(cell.access)} == {confirmed, stored[-1].snapshot_id, last}
    cell.put(record_key(making, 0), b"a piece")
    cell.decide_commands()
    cell.run_jobs("five")
    newest = take(cell.access, "master-1", 1)
    assert newest is not None
    assert {s.snapshot_id for s in list_snapshots(cell.access)} == {confirmed, newest}
    cell.put(record_key(making, 1), b"a piece")
    cell.decide_commands()
    assert {s.snapshot_id for s in list_snapshots(cell.access)} == {confirmed, newest, making}
    remove_snapshots(cell.access, list_snapshots(cell.access))
    assert list_snapshots(cell.access) == []
    assert find_snapshot(cell.access) is None


@pytest.mark.rule("P3a")
def test_what_has_no_seal_takes_no_snapshot_out_of_the_list(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not listed as whole is removed."""
    monkeypatch.setenv("SECRET_OF_THE_CELL", "s" * MIN_LENGTH)
    sealing = replace(cell.access, secret_reference="${env:SECRET_OF_THE_CELL}")
    manifest, chunks = take_snapshot(new_fold(sealing), "sealed", "master-1", "")
    write_snapshot(sealing, manifest, chunks)
    for name in (0, MANIFEST):
        cell.put(record_key("sealed", name), PayloadCodec(ENVELOPE).encode(manifest))
    [found] = list_snapshots(sealing)
    assert found.is_whole
    assert found.manifest == manifest


def test_a_snapshot_is_confirmed_by_another_who_folded_the_log_without_it(cell: Cell) -> None:
    first = cell.take()
    cell.confirm(first)
    [confirmed] = cell.events(SnapshotConfirmed)
    assert (confirmed.snapshot_id, confirmed.confirmed_by) == (first, "master-2")
    cell.run_jobs("one")
    second = cell.take("master-2")
    cell.confirm(second, first, master_id="master-1")
    assert [e.snapshot_id for e in cell.events(SnapshotConfirmed)] == [first, second]


@pytest.mark.rule("P18")
def test_who_took_a_snapshot_cannot_confirm_it(cell: Cell) -> None:
    cell.confirm(cell.take(), master_id="master-1")
    assert cell.events(SnapshotConfirmed) == []
    assert cell.events(RequestRejected)[-1].code == "NotAnotherMaster"


@pytest.mark.rule("P18")
def test_a_snapshot_that_is_not_what_the_log_leads_to_is_refuted(cell: Cell) -> None:
    """Whoever wrote it had a fault: every check sum of it is right."""
    wrong = read_state(cell.access)
    wrong.master.leader.blob_address = "elsewhere:1"
    manifest, chunks = take_snapshot(wrong, "wrong", "master-1", log_topic_id(cell.access))
    write_snapshot(cell.access, manifest, chunks)
    with pytest.raises(SnapshotRefuted, match="but the log leads to"):
        confirm(cell.access, "master-2", "wrong", [])
    miscounted = read_state(cell.access)
    miscounted.master.leader.blob_address = cell.scripted.master.leader.blob_address
    miscounted.event_count += 1
    manifest, chunks = take_snapshot(miscounted, "miscounted", "master-1", log_topic_id(cell.access))
    write_snapshot(cell.access, manifest, chunks)
    with pytest.raises(SnapshotRefuted, match="other counts"):
        confirm(cell.access, "master-2", "miscounted", [])
    manifest, chunks = take_snapshot(replay(cell.access, new_fold(cell.access)), "lying", "master-1", log_topic_id(cell.access))
    write_snapshot(cell.access, replace(manifest, digest="0" * 64), chunks)
    arguments = ["--access", cell.access.as_text(), "--master-id", "master-2", "--snapshot-id"]
    assert subprocess.run([*SNAPSHOTTER, "confirm", *arguments, "lying"], check=False, timeout=120).returncode == REFUTED
    assert subprocess.run([*SNAPSHOTTER, "confirm", *arguments, "absent"], check=False, timeout=120).returncode == REFUTED


@pytest.mark.rule("P18")
def test_the_log_is_trimmed_only_behind_a_confirmed_snapshot_and_the_cluster_goes_on(cell: Cell) -> None:
    unconfirmed = cell.take()
    with pytest.raises(NotConfirmed, match=unconfirmed):
        trim(cell.access, unconfirmed, 0)
    assert log_bounds(cell.access)[0] == 0
    cell.run_jobs("one")
    snapshot_id = cell.take()
    cell.confirm(snapshot_id)
    offset = cell.scripted.master.upkeep.snapshots[snapshot_id].log_offset
    assert trim(cell.access, snapshot_id, 10**9) == 0
    assert trim(cell.access, snapshot_id, cell.appended - 50) == 50
    assert trim(cell.access, snapshot_id, 0) == offset + 1
    assert trim(cell.access, snapshot_id, 0) == offset + 1
    assert log_bounds(cell.access) == (offset + 1, cell.appended)
    cell.check()
    # A master that starts now: what it knows comes from the snapshot; it leads, decides, and the next snapshot is taken and confirmed.
    before = cell.scripted.master.digest()
    fold = read_state(cell.access)
    fold.last_timestamp_ms = cell.scripted.timestamps[-1]  # The script's time is not Kafka's.
    cell.scripted.participant = cell.scripted.new_participant(fold)
    assert cell.scripted.master.digest() == before
    cell.scripted.lead()
    cell.run_jobs("after")
    cell.check()
    later = cell.take("master-2")
    cell.confirm(later, snapshot_id, master_id="master-1")
    assert cell.scripted.master.upkeep.newest_confirmed() == later
    cell.check()


def test_a_trimmed_log_whose_snapshots_are_gone_is_an_error_that_says_so(cell: Cell) -> None:
    cell.take()
    trim_log(cell.access, 20)
    remove_snapshots(cell.access, list_snapshots(cell.access))
    with pytest.raises(LogTrimmed, match=r"begins at offset 20: .* no usable snapshot reaches that offset"):
        load_fold(cell.access)
    manifest, chunks = take_snapshot(new_fold(cell.access), "short", "master-1", "")
    write_snapshot(cell.access, replace(manifest, log_offset=10), chunks)
    with pytest.raises(LogTrimmed):
        load_fold(cell.access)


def test_trimming_beyond_the_end_is_refused(cell: Cell) -> None:
    with pytest.raises(AdministrationError, match="delete records of"):
        trim_log(cell.access, cell.appended + 1)


def test_the_snapshotter_is_a_process_that_does_its_work_and_says_how_it_went(cell: Cell) -> None:
    configuration = build_configuration({"cluster.id": cell.cluster_id, "jobmanager.id": "master-7"}, "test")
    start = starter(configuration, cell.access)
    assert start(SnapshotTask("take")).wait(120) == DONE
    cell.decide_commands()
    [taken] = cell.events(SnapshotTaken)
    assert taken.taken_by == "master-7"
    other = starter(configuration.model_copy(update={"master_id": "master-8"}), cell.access)
    assert other(SnapshotTask("trim", taken.snapshot_id)).wait(120) == FAILED
    assert other(SnapshotTask("confirm", taken.snapshot_id)).wait(120) == DONE
    cell.decide_commands()
    assert [e.confirmed_by for e in cell.events(SnapshotConfirmed)] == ["master-8"]
    assert other(SnapshotTask("trim", taken.snapshot_id)).wait(120) == DONE
    assert log_bounds(cell.access)[0] == 0  # Fewer records than are kept.


def test_a_snapshotter_whose_master_died_before_it_was_ready_ends_at_once(cell: Cell) -> None:
    arguments = ["--access", cell.access.as_text(), "--master-id", "master-1", "--parent", str(os.getppid())]
    assert subprocess.run([*SNAPSHOTTER, "take", *arguments], check=False, timeout=120).returncode == FAILED
    assert list_snapshots(cell.access) == []


def test_a_snapshotter_without_a_broker_fails_in_time() -> None:
    started = time.monotonic()
    code = subprocess.run(
        [*SNAPSHOTTER, "take", "--access", access_to("127.0.0.1:1", "x").as_text(), "--master-id", "y"], check=False, timeout=120
    ).returncode
    assert code == FAILED
    assert time.monotonic() - started < 60


def test_pieces_of_the_codec_fit_into_a_record_of_the_topic(cell: Cell) -> None:
    """The largest chunk there can be is taken by Kafka."""
    fold = read_state(cell.access)
    for number in range(60_000):
        fold.master.resource_manager.gone_instances[os.urandom(16).hex()] = f"{number}"
    manifest, chunks = take_snapshot(fold, "large", "master-1", log_topic_id(cell.access))
    pieces = list(chunks)
    assert manifest.chunk_count == len(pieces) > 1
    assert max(len(PayloadCodec(ENVELOPE).encode(piece)) for piece in pieces) > 512 * 1024
    write_snapshot(cell.access, manifest, pieces)
    loaded = find_snapshot(cell.access, verify=True)
    assert loaded is not None
    assert loaded.manifest == manifest


def test_the_command_line_of_the_snapshotter_is_checked() -> None:
    with pytest.raises(SystemExit):
        main(["shrink"])
