"""P3a: who has the cluster secret believes nobody who has it not, whatever is written, and whatever of the cluster's is written again."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eventflink.events.codec import DecisionCodec, PayloadCodec, ReportsCodec, UndecodableRecord
from eventflink.events.decision import Decision
from eventflink.events.effects import InstanceForgotten, LeaderChanged, LeaderHeartbeat
from eventflink.events.inputs import ConfirmSnapshot, Heartbeat, ReportSnapshot, TaskManagerDeath, TaskManagerRegistration
from eventflink.events.log_events import LeadershipGranted, RequestRejected, SnapshotTaken, TaskManagerLost
from eventflink.events.seal import SEALED, Seals, has_seal, seals_of
from eventflink.events.snapshot_records import SnapshotManifest
from eventflink.events.topics import Topic
from eventflink.leadership.fold import SecretUnfit, check_believed, check_secret
from eventflink.leadership.known_log import heard_offset
from eventflink.leadership.liveness import HeartbeatMonitor
from eventflink.model.cluster_secret import OFF, mint_secret, secret_path, secrets_of
from eventflink.model.configuration import ConfigurationError, build_configuration
from eventflink.model.references import SecretMissing
from eventflink.model.statuses import Role
from eventflink.snapshots.search import ENVELOPE, MANIFEST, MAX_SKIPPED, SnapshotSearch, record_key
from eventflink.snapshots.snapshot import LogRange, take_snapshot
from eventflink.taskexecutor.protocol.records import TaskExecutorCodecs
from tests.support.cluster import CODEC, REPORTS, ScriptedCluster, graph, new_fold, replay, vertex
from tests.support.participants import LEADERSHIP, LEASE_MS, World

SEALS = Seals((b"the secret of this cluster, 32 chars",))
OTHERS = Seals((b"the secret of other people, 32 chars",))
HEARTBEAT = LeaderHeartbeat(1, "leader-1", "master-1", "blob:1", 7, 3)


def _sealed(seals: Seals = SEALS) -> bytes:
    return PayloadCodec("LeadershipEnvelope", seal=seals.of(Topic.LEADERSHIP)).encode(HEARTBEAT)


def _cluster() -> ScriptedCluster:
    cluster = ScriptedCluster(seals=SEALS)
    cluster.register()
    cluster.submit(graph(vertex("a")), job_id="job")
    return cluster


def _next_of(cluster: ScriptedCluster) -> Decision:
    """Return a decision that fits as well as anybody can make it who has read everything."""
    acceptance, last = cluster.fold.acceptance, CODEC.decode(cluster.log[-1])
    return replace(last, sequence=acceptance.sequence + 1, previous_hash=cluster.fold.running_hash)


def _grant_after(decision: Decision) -> Decision:
    events = (LeadershipGranted("nobody", "h:1"),)
    return replace(decision, epoch=decision.epoch + 1, sequence=0, leader_id="nobody", previous_hash=b"", events=events)


class TestSeal:
    def test_a_sealed_record_is_the_same_to_whoever_has_no_secret(self) -> None:
        plain = LEADERSHIP.encode(HEARTBEAT)
        assert LEADERSHIP.decode(_sealed()) == LEADERSHIP.decode(plain) == (HEARTBEAT, {})
        assert _sealed()[: len(plain) - 1] == plain[:-1]

    def test_a_seal_is_computed_as_the_protocol_says(self) -> None:
        page = Path(__file__).parents[3] / "docs" / "protocol.md"
        [example] = re.findall(r"^```python\n(import hashlib.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        said: dict[str, Any] = {}
        exec(example, said)
        for topic in SEALED:
            ours = SEALS.of(topic)
            assert ours is not None
            assert said["seal"](b"body\x00", topic.value, SEALS.secrets[0]) == ours.sealed(b"body\x00")

    @pytest.mark.rule("P3a")
    def test_every_byte_of_a_record_is_sealed(self) -> None:
        seal, value = SEALS.of(Topic.LEADERSHIP), _sealed()
        assert seal is not None
        assert seal.is_genuine(value)
        for at in range(len(value)):
            assert not seal.is_genuine(value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]), at
            assert not seal.is_genuine(value[:at]), at
        assert not seal.is_genuine(value + b"\0")

    @pytest.mark.rule("P3a")
    def test_a_seal_counts_on_its_own_topic_and_with_its_own_secret_alone(self) -> None:
        genuine = {
            (ours, theirs) for ours in SEALED for theirs in SEALED if (seal := SEALS.of(ours)) and (other := SEALS.of(theirs))
            if seal.is_genuine(other.sealed(b"anything\0"))
        }  # fmt: skip
        assert genuine == {(topic, topic) for topic in SEALED}
        with pytest.raises(UndecodableRecord, match="no valid seal"):
            PayloadCodec("LeadershipEnvelope", seal=OTHERS.of(Topic.LEADERSHIP)).decode(_sealed())

    def test_what_a_replaced_secret_has_sealed_is_believed_as_long_as_it_is_named(self) -> None:
        both = Seals(OTHERS.secrets + SEALS.secrets)
        codec = PayloadCodec("LeadershipEnvelope", seal=both.of(Topic.LEADERSHIP))
        assert codec.decode(_sealed())[0] == HEARTBEAT
        assert codec.encode(HEARTBEAT) == _sealed(OTHERS)

    def test_dead_letters_are_for_everybody(self) -> None:
        assert SEALS.of(Topic.DEAD_LETTERS) is None


class TestLog:
    @pytest.mark.rule("P3a")
    @pytest.mark.parametrize("forge", [lambda decision: decision, _grant_after])
    @pytest.mark.parametrize("seals", [Seals(), OTHERS])
    def test_a_forged_decision_or_grant_changes_nothing_and_deposes_nobody(
        self, forge: Callable[[Decision], Decision], seals: Seals
    ) -> None:
        cluster = _cluster()
        digest = cluster.master.digest()
        assert cluster.read_back(cluster.append(DecisionCodec(seal=seals.of(Topic.LOG)).encode(forge(_next_of(cluster))))) is None
        assert (cluster.master.digest(), cluster.fold.foreign_count) == (digest, 1)
        cluster.register("other")
        assert "other" in cluster.master.resource_manager.task_managers
        cluster.fail_over()
        cluster.settle()
        cluster.check()
        assert cluster.fold.foreign_count == 1

    @pytest.mark.rule("P3a")
    @pytest.mark.parametrize("value", [b"", b"x", b"\xc3\x01", b"\xc3\x01" + bytes(200), _sealed()])
    def test_garbage_in_the_log_stops_no_reader(self, value: bytes) -> None:
        cluster = _cluster()
        cluster.read_back(cluster.append(value))
        cluster.register("other")
        cluster.check()

    @pytest.mark.rule("P3a")
    def test_a_decision_that_is_written_again_is_rejected(self) -> None:
        cluster = _cluster()
        for value in list(cluster.log):
            cluster.read_back(cluster.append(value))
        cluster.register("other")
        cluster.check()

    def test_what_was_written_before_the_secret_counts_up_to_the_offset_that_is_named(self) -> None:
        log = ScriptedCluster().log
        codec = DecisionCodec(seal=SEALS.of(Topic.LOG), sealed_from_offset=len(log))
        fold = new_fold()
        fold.codec = codec
        for offset, value in enumerate([*log, log[-1]]):
            fold.fold_record(offset, 0, value)
        assert (fold.accepted_count, fold.foreign_count) == (len(log), 1)

    @pytest.mark.rule("P3a")
    def test_a_log_of_other_people_s_seals_or_of_none_is_refused_and_not_taken_for_an_empty_one(self) -> None:
        for log in (ScriptedCluster().log, ScriptedCluster(seals=OTHERS).log):
            with pytest.raises(SecretUnfit, match=f"security.sealed-from-offset: {len(log)} "):
                check_believed(replay(log, seals=SEALS))

    @pytest.mark.rule("P3a")
    def test_a_sealed_log_is_refused_by_who_has_no_secret_to_lead_with(self) -> None:
        with pytest.raises(SecretUnfit, match="cluster secret not found"):
            check_secret(replay(_cluster().log))
        check_secret(replay(_cluster().log, seals=SEALS))
        check_secret(replay(ScriptedCluster().log))


class TestMasters:
    @pytest.mark.rule("P3a")
    def test_neither_a_forged_heartbeat_nor_a_copy_keeps_a_dead_leader_alive(self) -> None:
        world = World(seals=SEALS, new_fold=lambda settings: new_fold(settings, SEALS))
        for master_id in ("a", "b"):
            world.start(master_id)
        world.run(3 * LEASE_MS)
        leader = world.leader()
        copies = list(world.leadership)
        acceptance = world.accepted().acceptance
        forged = LEADERSHIP.encode(LeaderHeartbeat(acceptance.epoch, acceptance.leader_id, "a", "h:1", 0, 2**62))
        world.kill(leader)

        def is_followed() -> bool:
            world.leadership.extend((forged, copies[-1]))
            return any(node.role is Role.LEADER for node in world.nodes.values())

        assert world.run_until(is_followed) <= 3 * LEASE_MS

    def test_a_forged_heartbeat_does_not_make_those_of_the_leader_look_like_copies(self) -> None:
        for seals in (Seals(), SEALS):
            world = World(seals=seals, new_fold=lambda settings, seals=seals: new_fold(settings, seals))  # type: ignore[misc]
            for master_id in ("a", "b"):
                world.start(master_id)
            world.run(3 * LEASE_MS)
            acceptance = world.accepted().acceptance
            world.leadership.append(LEADERSHIP.encode(LeaderHeartbeat(acceptance.epoch, acceptance.leader_id, "a", "h:1", 0, 2**62)))
            world.run(5 * LEASE_MS)
            assert world.accepted().acceptance == acceptance

    @pytest.mark.rule("P3a")
    def test_a_forged_heartbeat_proves_no_truncation(self) -> None:
        fold = _cluster().fold
        acceptance = fold.acceptance
        forged = LeaderHeartbeat(acceptance.epoch, acceptance.leader_id, "a", "h:1", 2**40)
        assert heard_offset(acceptance, [LEADERSHIP.encode(forged)], SEALS.of(Topic.LEADERSHIP)) == -1

    @pytest.mark.rule("P3a")
    def test_heartbeats_of_an_instance_count_once(self) -> None:
        monitor = HeartbeatMonitor(1_000, 0)
        assert [monitor.is_copy("i", sequence) for sequence in (0, 1, 1, 0, 2)] == [False, False, True, True, False]
        monitor.forget_all_but(set())
        assert not monitor.is_copy("i", 0)

    @pytest.mark.rule("P3a")
    @pytest.mark.parametrize("is_json", [True, False])
    def test_what_masters_alone_say_of_snapshots_is_refused_of_anybody_else(self, *, is_json: bool) -> None:
        cluster = _cluster()
        report = ReportSnapshot(
            request_id="r", snapshot_id="s", log_offset=1, digest="d", chunk_count=1, byte_count=1, taken_by="somebody"
        )  # fmt: skip
        confirmation = ConfirmSnapshot(request_id="c", snapshot_id="s", log_offset=1, digest="d", confirmed_by="another")
        codec = PayloadCodec("CommandEnvelope")
        for request in (report, confirmation):
            fields = {name: getattr(request, name) for name in type(request).__slots__} if is_json else {}
            document = {"type": type(request).__name__, "request_id": request.request_id, **fields}
            value = json.dumps(document).encode() if is_json else codec.encode(request, sent_at_ms=0)
            cluster.put(Topic.COMMANDS, value)
        cluster.settle()
        assert not cluster.events(SnapshotTaken)
        refusals = cluster.events(RequestRejected)
        assert len(refusals) == 2
        if not is_json:
            assert all("said by masters alone" in refusal.message for refusal in refusals)
            report.actor = "master-2"
            cluster.put(Topic.COMMANDS, PayloadCodec("CommandEnvelope", seal=SEALS.of(Topic.COMMANDS)).encode(report, sent_at_ms=0))
            cluster.settle()
            assert len(cluster.events(SnapshotTaken)) == 1
            assert list(cluster.decisions())[-1].actor == "master-2", "a name that is proven has no mark"


class TestTaskManagers:
    @pytest.mark.rule("P3a")
    def test_forged_deaths_and_registrations_are_refused_and_answered(self) -> None:
        cluster = _cluster()
        instance = cluster.master.resource_manager.task_managers["tm"].instance_id
        younger = TaskManagerRegistration("tm", "forged", "h", 1, 4, begun_at_ms=2**62)
        for report in (TaskManagerDeath("tm", instance, "so it is said"), younger):
            for seals in (Seals(), OTHERS):
                codec = ReportsCodec("TaskManagerEnvelope", seal=seals.of(Topic.TASKMANAGERS))
                cluster.put(Topic.TASKMANAGERS, codec.encode([report]), b"tm")
        cluster.settle()
        assert not cluster.events(TaskManagerLost)
        assert cluster.master.resource_manager.task_managers["tm"].instance_id == instance
        assert ["no valid seal" in refusal.message for refusal in cluster.events(RequestRejected)] == [True] * 4

    @pytest.mark.rule("P3a")
    def test_a_task_executor_obeys_no_order_without_a_seal(self) -> None:
        envelope = {"epoch": 2**62, "task_manager_id": "tm", "instance_id": "i"}
        codecs = TaskExecutorCodecs(SEALS)
        for seals in (Seals(), OTHERS):
            for payload in (InstanceForgotten("so it is said"), LeaderChanged("nobody", "h:1")):
                value = PayloadCodec("DeploymentEnvelope", seal=seals.of(Topic.DEPLOYMENTS)).encode(payload, **envelope)
                with pytest.raises(UndecodableRecord, match="no valid seal"):
                    codecs.decode_deployment(value)
        genuine = PayloadCodec("DeploymentEnvelope", seal=SEALS.of(Topic.DEPLOYMENTS)).encode(InstanceForgotten("it is"), **envelope)
        assert codecs.decode_deployment(genuine).payload == InstanceForgotten("it is")

    def test_what_a_task_executor_says_is_sealed(self) -> None:
        codecs = TaskExecutorCodecs(SEALS)
        [(_, said)] = codecs.encode_reports([TaskManagerDeath("tm", "i", "it is")])
        heartbeat = codecs.encode_heartbeat(Heartbeat("tm", "i", 1, 0, 0))
        for value, topic in ((said, Topic.TASKMANAGERS), (heartbeat, Topic.HEARTBEATS)):
            seal = SEALS.of(topic)
            assert seal is not None
            assert seal.is_genuine(value)
            assert has_seal(value)
        assert not has_seal(REPORTS.encode([TaskManagerDeath("tm", "i", "it is")]))


class TestSnapshots:
    @pytest.mark.rule("P3a")
    @pytest.mark.parametrize("seals", [Seals(), OTHERS])
    def test_a_forged_snapshot_is_passed_over_and_the_one_before_it_found(self, seals: Seals) -> None:
        fold = _cluster().fold
        search = SnapshotSearch(LogRange("id", 0, 100), seal=SEALS.of(Topic.SNAPSHOTS))
        for name, made_by in (("forged", seals), ("real", SEALS)):
            manifest, chunks = take_snapshot(fold, name, "master-1", "id")
            codec = PayloadCodec(ENVELOPE, seal=made_by.of(Topic.SNAPSHOTS))
            parts: list[tuple[object, object]] = [(MANIFEST, manifest), *((chunk.chunk_index, chunk) for chunk in chunks)]
            for part, payload in parts:
                search.read_record(record_key(name, part), codec.encode(payload))
        found = search.pop_newest(at_the_beginning=True)
        assert found is not None
        assert isinstance(found.manifest, SnapshotManifest)
        assert found.manifest.snapshot_id == "real"
        assert "no valid seal" in " ".join(search.skipped)

    @pytest.mark.rule("P3a")
    @pytest.mark.parametrize("seals", [Seals(), OTHERS])
    def test_what_is_written_without_a_seal_under_the_keys_of_a_snapshot_takes_nothing_from_it(self, seals: Seals) -> None:
        fold = _cluster().fold
        manifest, taken = take_snapshot(fold, "real", "master-1", "id")
        chunks = list(taken)
        written = [(record_key("real", chunk.chunk_index), chunk) for chunk in chunks]
        ours, theirs = (PayloadCodec(ENVELOPE, seal=each.of(Topic.SNAPSHOTS)) for each in (SEALS, seals))
        records = [(key, ours.encode(payload)) for key, payload in [*written, (record_key("real", MANIFEST), manifest)]]
        records += [(key, theirs.encode(manifest)) for key, _ in records]
        search = SnapshotSearch(LogRange("id", 0, 100), seal=SEALS.of(Topic.SNAPSHOTS))
        for key, value in reversed(records):
            search.read_record(key, value)
        found = search.pop_newest(at_the_beginning=True)
        assert found is not None
        assert len(found.chunks) == len(chunks)

    @pytest.mark.rule("L3")
    def test_however_much_strangers_write_there_little_of_it_is_held_and_told_and_a_damaged_snapshot_still_is(self) -> None:
        ours = PayloadCodec(ENVELOPE, seal=SEALS.of(Topic.SNAPSHOTS))
        manifest, taken = take_snapshot(_cluster().fold, "real", "master-1", "id")
        search = SnapshotSearch(LogRange("id", 0, 100), seal=SEALS.of(Topic.SNAPSHOTS))
        for number in range(1_000):
            search.read_record(record_key("real", MANIFEST), b"\xc3\x01")
            search.read_record(record_key(f"{number}\n" + "x" * 10_000, MANIFEST), b"\xc3\x01")
            search.read_record(record_key(f"{number}" + "x" * 10_000, 0), None)
        search.read_record(record_key("real", MANIFEST), ours.encode(manifest))
        search.read_record(record_key("real", 0), ours.encode(manifest))
        assert list(taken)
        assert search.pop_newest(at_the_beginning=True) is None
        assert len(search.skipped) <= MAX_SKIPPED
        assert len(search.skipped) + search.untold >= 2_000
        assert "is a SnapshotManifest" in search.skipped[-1]
        assert all(len(line) < 2_000 and line.isprintable() for line in search.skipped)
        assert sum(map(len, search._seen)) < 1_000


class TestSecret:
    def test_it_is_made_once_and_read_by_its_owner_alone(self, tmp_path: Path) -> None:
        path = secret_path(tmp_path, "c")
        assert [mint_secret(path), mint_secret(path)] == [True, False]
        assert path.stat().st_mode & 0o777 == 0o600
        assert len(path.read_text(encoding="ascii")) == 64

    def test_a_process_and_its_children_are_told_where_it_is_and_not_what_it_is(self, tmp_path: Path) -> None:
        path = secret_path(tmp_path, "c")
        mint_secret(path)
        configuration = build_configuration({"data.directory": str(tmp_path), "cluster.id": "c"}, "f")
        access = configuration.access("kafka:9092")
        assert seals_of(access).secrets == seals_of(access.of_copy("copy")).secrets == (path.read_bytes(),)
        assert path.read_text(encoding="ascii") not in access.as_text()
        off = build_configuration({"data.directory": str(tmp_path), "cluster.id": "c", "security.cluster-secret": OFF}, "f")
        assert seals_of(off.access("kafka:9092")).secrets == ()

    def test_a_secret_that_is_too_short_or_missing_is_named_by_its_place(self, tmp_path: Path) -> None:
        short = tmp_path / "short"
        short.write_text("secret\n", encoding="ascii")
        for place, says in ((short, "at least 32 characters"), (tmp_path / "missing", "No such file")):
            with pytest.raises(SecretMissing, match=says) as caught:
                secrets_of(f"${{file:{place}}}")
            assert str(place) in str(caught.value)

    @pytest.mark.parametrize("value", ["plain text", "${file:relative}", "${env:}", "x${env:A}"])
    def test_it_is_not_written_into_the_configuration(self, value: str) -> None:
        with pytest.raises(ConfigurationError, match=r"security\.cluster-secret"):
            build_configuration({"security.cluster-secret": value}, "f")
