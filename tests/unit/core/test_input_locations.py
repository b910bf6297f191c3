"""Lists of locations that are told apart from the orders that name them: what is told, what an instance keeps, what it does without."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import (
    INLINE_LOCATIONS,
    MAX_LOCATIONS_OF_PART,
    DeploymentPayload,
    InputLocations,
    TaskDeployment,
    TaskInput,
)
from eventflink.events.topics import SPECIFICATIONS, Topic
from eventflink.leadership.input_locations import ToldLocations
from eventflink.master.default_scheduler import MAX_TOLD_BYTES, find_fault_of_deployment
from eventflink.master.task_executor_reports import MAX_LOCATION_LENGTH
from eventflink.model.attempts import OutputLocation
from eventflink.model.statuses import ShipStrategy, TaskType
from eventflink.taskexecutor.fork_server_wire import MAX_LINE_BYTES, encode_line
from eventflink.taskexecutor.process_events import LaunchTask
from eventflink.taskexecutor.protocol import input_locations
from eventflink.taskexecutor.protocol.input_locations import MAX_KNOWN_LOCATIONS, KnownLocations
from tests.support.cluster import ScriptedCluster, graph, vertex

ENVELOPES = PayloadCodec("DeploymentEnvelope")


@pytest.fixture
def cluster() -> ScriptedCluster:
    return ScriptedCluster()


def locations(count: int, name: str = "a", length: int = 0) -> tuple[OutputLocation, ...]:
    return tuple([OutputLocation("default", f"/{name}/{n}".ljust(length, "x"), n, 1, 2, "digest") for n in range(count)])


def order(*inputs: tuple[OutputLocation, ...]) -> TaskDeployment:
    told = [TaskInput(f"in{n}", ShipStrategy.HASH, ("k",), each) for n, each in enumerate(inputs)]
    return TaskDeployment(
        "job",
        "v",
        0,
        1,
        allocation_id="1",
        slot_index=0,
        job_name="job",
        task_type=TaskType.PYTHON,
        task="m:f",
        parallelism=2,
        max_parallelism=128,
        parameters_json="{}",
        inputs=tuple(told),
        outputs=(),
        code_archives=(),
    )


def obey(known: KnownLocations, told: Iterable[DeploymentPayload]) -> list[TaskDeployment | None]:
    """Have an instance take what it is told; return its orders as it would carry them out."""
    orders = []
    for payload in told:
        sent, _ = ENVELOPES.decode(ENVELOPES.encode(payload, epoch=1, task_manager_id="tm", instance_id="i"))
        if isinstance(sent, InputLocations):
            known.take(sent)
        else:
            orders.append(known.complete(sent))
    return orders


def without_ids(deployment: TaskDeployment | None) -> TaskDeployment:
    assert deployment is not None
    return replace(deployment, inputs=tuple([replace(each, locations_id="") for each in deployment.inputs]))


@pytest.mark.parametrize("count", [0, 1, INLINE_LOCATIONS])
def test_a_short_list_stands_in_the_order(count: int) -> None:
    deployment = order(locations(count))
    assert list(ToldLocations().tell(deployment, "i")) == [deployment]
    assert KnownLocations().complete(deployment) is deployment


@pytest.mark.parametrize("count", [INLINE_LOCATIONS + 1, MAX_LOCATIONS_OF_PART, MAX_LOCATIONS_OF_PART + 1, 1_000])
def test_a_long_list_is_told_each_instance_once_and_each_order_has_all_of_it(count: int) -> None:
    told = ToldLocations()
    first, second = order(locations(count), locations(2)), replace(order(locations(count), locations(2)), subtask_index=1)
    parts = -(-count // MAX_LOCATIONS_OF_PART)
    for instance_id in ("i", "j"):
        known = KnownLocations()
        sent = list(told.tell(first, instance_id))
        assert len(sent) == parts + 1
        assert [without_ids(each) for each in obey(known, sent)] == [first]
        [again] = told.tell(second, instance_id)
        assert [without_ids(each) for each in obey(known, [again])] == [second]


def test_another_list_of_the_same_input_is_another_list() -> None:
    told, known = ToldLocations(), KnownLocations()
    for name in ("a", "b", "a"):
        deployment = order(locations(40, name), locations(40, "other"))
        assert [without_ids(each) for each in obey(known, told.tell(deployment, "i"))] == [deployment]


@pytest.mark.rule("P16a")
@pytest.mark.parametrize("lost", range(4))
def test_an_order_of_whose_lists_a_part_is_missing_is_left_alone_until_all_are_told_again(lost: int) -> None:
    told, known = ToldLocations(), KnownLocations()
    deployment = order(locations(300), locations(50))
    sent = list(told.tell(deployment, "i"))
    assert obey(known, [each for n, each in enumerate(sent) if n != lost]) == [None]
    assert obey(known, told.tell(deployment, "i")) == [None]
    told.forget()
    assert [without_ids(each) for each in obey(known, told.tell(deployment, "i"))] == [deployment]


def test_parts_may_come_twice_and_in_any_order() -> None:
    known = KnownLocations()
    *parts, named = ToldLocations().tell(order(locations(500)), "i")
    assert obey(known, [*parts, *reversed(parts), named]) == obey(KnownLocations(), [*reversed(parts), named])


@pytest.mark.rule("P16a")
def test_what_was_used_last_is_kept_and_no_more_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_KNOWN_LOCATIONS >= 4 * MAX_TOLD_BYTES / 128
    monkeypatch.setattr(input_locations, "MAX_KNOWN_LOCATIONS", 2_000)
    told, known = ToldLocations(), KnownLocations()
    kept, large = order(locations(300, "kept")), 500
    obey(known, told.tell(kept, "i"))
    for n in range(8):
        obey(known, told.tell(order(locations(large, f"other-{n}")), "i"))
        assert known._size == sum(each.size for each in known._lists.values()) <= 2_000
        assert obey(known, told.tell(kept, "i")) != [None]
    assert obey(known, told.tell(order(locations(large, "other-0")), "i")) == [None]


def test_what_cannot_be_a_part_of_a_list_is_left_alone() -> None:
    known = KnownLocations()
    for part, parts, count in ((-1, 2, 1), (2, 2, 1), (0, 0, 1), (0, 1, 0), (0, 1, MAX_LOCATIONS_OF_PART + 1)):
        known.take(InputLocations("id", part, parts, locations(count)))
    assert not known._lists
    known.take(InputLocations("id", 0, 3, locations(2)))
    known.take(InputLocations("id", 0, 1, locations(3)))
    named = replace(order(), inputs=(TaskInput("in", ShipStrategy.HASH, ("k",), (), locations_id="id"),))
    [complete] = obey(known, [named])
    assert complete is not None
    assert complete.inputs[0].locations == locations(3)
    assert known._size == 3


@pytest.mark.parametrize("letter", ["l", "ü", "語", "\N{GRINNING FACE}", "\x01"])
def test_a_part_of_the_longest_locations_is_a_record_that_kafka_takes(letter: str) -> None:
    told = locations(500, length=MAX_LOCATION_LENGTH)
    told = tuple([replace(each, location=each.location.replace("x", letter), output="l" * 64) for each in told])
    *parts, _ = ToldLocations().tell(order(told), "i")
    sizes = [len(ENVELOPES.encode(each, epoch=2**62, task_manager_id="t" * 128, instance_id="i" * 128)) for each in parts]
    assert max(sizes) < SPECIFICATIONS[Topic.DEPLOYMENTS].max_message_bytes * 0.9
    assert sum(len(each.locations) for each in parts if isinstance(each, InputLocations)) == 500


@pytest.mark.parametrize("letter", ["l", "ü", "語", "\N{GRINNING FACE}", "\x01"])
@pytest.mark.parametrize("length", [40, 150, MAX_LOCATION_LENGTH])
def test_the_largest_lists_fit_into_the_line_that_starts_a_task(cluster: ScriptedCluster, letter: str, length: int) -> None:
    """What a master lets pass must not end the fork server, and with it the tasks of others."""
    cluster.register("tm", slots=20)
    effects = cluster.submit(graph(vertex("a", 17), vertex("b"), edges=[("a", "b", "rebalance")]))
    one = OutputLocation("default", letter * length, 2**62, 2**62, 2**62, "d" * 32)
    weight = len(json.dumps([one.output, one.location, one.digest])) + 128
    count = MAX_TOLD_BYTES // weight
    job = cluster.job("job").execution_graph
    for expected, more in ((None, 0), ("DeploymentTooLarge", 1)):
        job.vertices["a"].subtasks[0].outputs = (one,) * (count + more)
        fault = find_fault_of_deployment(job, "b")
        assert (fault and fault.failure_type) == expected
    assert effects
    line = encode_line(LaunchTask(order((one,) * count), "s" * 36, "blob:1"))
    assert len(line) < MAX_LINE_BYTES * 0.9


def test_lists_of_several_inputs_of_one_name_are_named_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[bytes] = []
    sha256 = hashlib.sha256

    def count(text: bytes) -> Any:
        counted.append(text)
        return sha256(text)

    monkeypatch.setattr(hashlib, "sha256", count)
    told = ToldLocations()
    first, second = order(locations(40, "a")), order(locations(40, "b"))
    for _ in range(5):
        for each in (first, second):
            list(told.tell(each, "i"))
    assert len(counted) == 2
