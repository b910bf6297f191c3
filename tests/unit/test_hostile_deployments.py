"""A TaskExecutor that is told nonsense, in the parts that no schema and no check of a graph has seen before it."""

from pathlib import Path

import pytest

from eventflink.blob import InvalidBlobKey
from eventflink.events.codec import ReportsCodec
from eventflink.events.effects import DeploymentEnvelope
from eventflink.events.inputs import SlotOfferRefusal, TaskStateReport
from eventflink.events.topics import MAX_INBOUND_BYTES
from eventflink.model.attempts import AttemptId, OutputLocation
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.places import Place
from eventflink.model.statuses import ExecutionState
from eventflink.taskexecutor.failure_causes import OutputUnusable, UnknownFunction
from eventflink.taskexecutor.fork_server_wire import ForkServerSettings
from eventflink.taskexecutor.process_events import LaunchTask
from eventflink.taskexecutor.spark_server import SparkServerSettings
from eventflink.taskexecutor.task_code import fetch_archive, resolve_function
from eventflink.taskexecutor.task_files import UnusableName
from eventflink.taskexecutor.task_run import MAX_OUTPUT_NAMES_BYTES, find_places
from tests.unit.test_taskexecutor_protocol import A, B, Harness, deployment, orders, registered, reports

ATTEMPT = AttemptId("job", "a", 0, 1)


@pytest.mark.parametrize(
    "task",
    [
        *("", ":", "m", "m:", ":f", ".:f", "..:f", "../../etc/passwd:f", ".os:system", " :f", "a/b:f", "a\0b:f", "\ud800:f"),
        *("os:nothing", "os:path", "os:..", "os:\0", "os:system:x", "json:loads.__nothing__", "x" * 10_000 + ":f"),
    ],
)
def test_a_callable_that_is_none_is_named_and_nothing_is_called(task: str) -> None:
    with pytest.raises(UnknownFunction):
        resolve_function(task)


@pytest.mark.parametrize("digest", ["", "..", "../../etc/passwd", "/etc/passwd", "0" * 63, "0" * 65, "A" * 64, "0" * 64 + "\n", "t-x-1"])
def test_an_archive_whose_name_is_no_digest_is_neither_asked_for_nor_stored(digest: str, tmp_path: Path) -> None:
    settings = ForkServerSettings(
        cluster_id="test",
        kafka=KafkaAccess("127.0.0.1:9"),
        replication_factor=1,
        working_place=Place(str(tmp_path / "work")),
        log_directory=tmp_path / "logs",
        runtime_directory=tmp_path / "runtime",
        locations_directory=tmp_path / "locations",
        spark_server=SparkServerSettings("local", "1g"),
        kill_timeout_ms=1_000,
        with_spark=False,
        warm_processes=0,
    )
    with pytest.raises(InvalidBlobKey):
        fetch_archive(digest, "127.0.0.1:9", settings)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", "..", "../../x", "/x", "a/b", "a\0b", "x" * 129])
def test_an_output_cannot_be_put_outside_of_its_attempt(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnusableName):
        find_places([name], ATTEMPT, Place(str(tmp_path)))


def test_more_outputs_than_one_report_can_name_fail_the_task_before_anything_is_written(tmp_path: Path) -> None:
    """The master would refuse the record, and wait for the end of the task for ever."""
    with pytest.raises(OutputUnusable, match="it returned 5000 outputs, whose names and places have"):
        find_places([f"output-{number}" for number in range(5_000)], ATTEMPT, Place(str(tmp_path)))
    assert not list(tmp_path.iterdir())


def test_as_many_outputs_as_are_taken_fit_into_one_record() -> None:
    size = MAX_OUTPUT_NAMES_BYTES // 100
    outputs = tuple(OutputLocation("n" * 10, "/" * 90) for _ in range(size))
    report = TaskStateReport("t" * 128, "i" * 128, "j" * 128, "v" * 64, 0, 1, execution_state=ExecutionState.FINISHED, outputs=outputs)
    assert len(ReportsCodec("TaskManagerEnvelope").encode([report])) < MAX_INBOUND_BYTES * 3 // 4


def test_two_attempts_under_one_allocation_have_a_slot_each_or_none() -> None:
    harness = registered()
    first, second = deployment(A, 0), deployment(B, 1)
    second.allocation_id = first.allocation_id
    assert len(orders(harness.effect(first))) == len(orders(harness.effect(second))) == 1
    assert harness.machine.free_slots == 0
    third = deployment(A._replace(attempt=2), 0)
    third.allocation_id = first.allocation_id
    [refusal] = reports(harness.effect(third))
    assert isinstance(refusal, SlotOfferRefusal)
    assert str(A) in refusal.reason


@pytest.mark.rule("P16")
@pytest.mark.parametrize("slot_index", [0, 7])
def test_an_attempt_that_is_known_under_another_allocation_is_refused_by_the_one_that_is_named(slot_index: int) -> None:
    """Whether what was deployed first runs or was refused: who decided the other one would else wait for its answer for ever."""
    harness = registered()
    first, second = deployment(A, slot_index), deployment(A, 1)
    first.allocation_id = "of-nobody"
    assert len(orders(harness.effect(first))) == (slot_index == 0)
    for _ in range(2):
        actions = harness.effect(second)
        [refusal] = reports(actions)
        assert isinstance(refusal, SlotOfferRefusal)
        assert (refusal.allocation_id, refusal.attempt) == (second.allocation_id, A.attempt)
        assert "of-nobody" in refusal.reason
        assert orders(actions) == []


@pytest.mark.parametrize("text", ["", "..", "../../x", "a\nb", "\0", "🦆", "x" * 10_000])
def test_odd_ids_of_a_deployment_occupy_one_slot_and_are_given_to_its_process_alone(text: str) -> None:
    """The process refuses to make paths of them, and that is a failure of the attempt with a name."""
    harness = registered()
    odd = deployment(A._replace(job_id=text, vertex_id=text))
    [order] = orders(harness.effect(odd))
    assert isinstance(order, LaunchTask)
    assert harness.machine.free_slots == 1
    assert orders(harness.effect(odd)) == [], "said twice, it is started once"


@pytest.mark.parametrize(("name", "instance"), [("tm", "i0"), ("tm", ""), ("other", "i1"), ("", ""), ("tm", "i1\n"), ("TM", "I1")])
def test_what_is_for_another_instance_starts_nothing(name: str, instance: str) -> None:
    harness: Harness = registered()
    envelope = DeploymentEnvelope(epoch=1, task_manager_id=name, instance_id=instance, payload=deployment())
    assert harness.machine.on_deployment(envelope, harness.now_ms) == []
    assert harness.machine.free_slots == 2
