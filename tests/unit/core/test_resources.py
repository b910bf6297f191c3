"""What slots have and tasks ask for: sizes as people write them, profiles with one spelling, what has room for what."""

import dataclasses
import itertools
import random
from typing import Any

import pytest

from eventflink.model.configuration import ConfigurationError, build_configuration
from eventflink.model.job_graph_document import MAX_PROFILES, InvalidJobGraph, graph_digest, parse_job_graph, to_document
from eventflink.model.resources import (
    MAX_AMOUNT,
    ExtendedResource,
    InvalidResources,
    ResourceProfile,
    checked_profile,
    cores_of,
    fits,
    format_memory_size,
    parse_cpu_cores,
    parse_extended_resources,
    parse_memory_size,
    sum_of,
    total_of,
)
from tests.support.cluster import graph, vertex


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        (7, 7),
        (MAX_AMOUNT, MAX_AMOUNT),
        ("512m", 512 << 20),
        ("1 gb", 1 << 30),
        ("3KIBIBYTES", 3 << 10),
        (" 2t ", 2 << 40),
        ("12 b", 12),
        ("5 bytes", 5),
    ],
)
def test_sizes_are_read_as_flink_writes_them(text: str | int, size: int) -> None:
    assert parse_memory_size(text) == size
    assert parse_memory_size(format_memory_size(size)) == size


HUGE: list[object] = [1e300, -1e300, float("inf"), float("nan"), 10**5_000, -(10**5_000), "9" * 1_000_000, [[0]] * 100]
"""What is no amount, in whatever type a document or a configuration may have it."""


@pytest.mark.parametrize(
    "text",
    ["", "m", "\u0662m", "-1", "1.5g", "1x", "1 2", True, None, 1.0, "9" * 30, "9999999t", -3, MAX_AMOUNT + 1, *HUGE],
    ids=itertools.count(),
)
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(InvalidResources, match=r"is not a size|is more than") as caught:
        parse_memory_size(text)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("text", [f"1{' ' * 1_000_000}!", " " * 1_000_000, f"{' ' * 1_000_000}1m", "1" + "m" * 1_000_000], ids=range(4))
def test_what_is_too_long_for_a_size_is_not_looked_into(text: str) -> None:
    """Where a pattern tries each way to divide so many spaces, it is at that for hours."""
    with pytest.raises(InvalidResources, match="is not a size"):
        parse_memory_size(text)


@pytest.mark.parametrize(
    ("text", "millicores"),
    [
        (2, 2000),
        ("0.5", 500),
        (0.125, 125),
        ("0", 0),
        (0.1, 100),
        ("16", 16000),
        (" 1.5000 ", 1500),
        (".25", 250),
        ("3.", 3000),
        (2.0, 2000),
        (MAX_AMOUNT // 1000, MAX_AMOUNT // 1000 * 1000),
    ],
)
def test_processors_are_counted_in_thousandths(text: object, millicores: int) -> None:
    assert parse_cpu_cores(text) == millicores
    assert parse_cpu_cores(cores_of(millicores)) == millicores


NO_PROCESSORS: list[object] = [
    "",
    "x",
    "\u0662",
    ".",
    "-1",
    0.0001,
    "1.0000000000000000000000000000001",
    1e-7,
    "nan",
    "inf",
    True,
    None,
    "1e300",
]


@pytest.mark.parametrize("text", [*NO_PROCESSORS, MAX_AMOUNT, "1e999990", "1e999999", "1e-999999", *HUGE], ids=itertools.count())
def test_what_is_no_number_of_processors_is_refused(text: object) -> None:
    """No number is made of a text before its digits are counted: a few characters of an exponent say a million of them."""
    with pytest.raises(InvalidResources, match="is not a number of processors: at least 0") as caught:
        parse_cpu_cores(text)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("text", ["gpu", "gpu=", "gpu=-1", "gpu=1.5", "a=b=1"])
def test_what_is_no_list_of_resources_is_refused(text: str) -> None:
    with pytest.raises(InvalidResources, match="name=amount"):
        parse_extended_resources(text)


def test_totals_add_what_is_said_and_have_no_bounds() -> None:
    gpu, large = ResourceProfile(500, extended_resources=(ExtendedResource("gpu", 2),)), ResourceProfile(250, managed_bytes=MAX_AMOUNT)
    assert total_of([(gpu, 3), (None, 9), (large, 2)]) == ResourceProfile(
        2_000, managed_bytes=2 * MAX_AMOUNT, extended_resources=(ExtendedResource("gpu", 6),)
    )
    assert total_of([(gpu, 0)]) == ResourceProfile(extended_resources=(ExtendedResource("gpu", 0),))
    assert total_of([(None, 1)]) is None


def test_a_profile_has_one_spelling() -> None:
    mixed = ResourceProfile(extended_resources=(ExtendedResource("gpu", 1), ExtendedResource("fpga", 2), ExtendedResource("none", 0)))
    assert checked_profile(mixed) == ResourceProfile(extended_resources=(ExtendedResource("fpga", 2), ExtendedResource("gpu", 1)))
    assert checked_profile(ResourceProfile()) is None
    for wrong in (
        ResourceProfile(cpu_millicores=-1),
        ResourceProfile(managed_bytes=MAX_AMOUNT + 1),
        ResourceProfile(extended_resources=(ExtendedResource("gpu", -1),)),
        ResourceProfile(extended_resources=(ExtendedResource("gpu", 1), ExtendedResource("gpu", 1))),
        ResourceProfile(extended_resources=(ExtendedResource("no name", 1),)),
        ResourceProfile(extended_resources=tuple(ExtendedResource(f"r{n}", 1) for n in range(17))),
    ):
        with pytest.raises(InvalidResources):
            checked_profile(wrong)


def _profile(dice: random.Random) -> ResourceProfile:
    extended = tuple(ExtendedResource(name, dice.randint(1, 3)) for name in ("fpga", "gpu") if dice.random() < 0.4)
    cpu, heap, off_heap, managed = (dice.randint(0, 2) for _ in range(4))
    return ResourceProfile(cpu, heap, off_heap, managed, extended)


def test_containing_is_an_order_and_smaller_profiles_come_first() -> None:
    """Whatever contains another one, and is not it, is behind it: a request takes no more than it must."""
    dice = random.Random(1)
    profiles = [_profile(dice) for _ in range(120)]
    for one in profiles:
        assert one.contains(one)
        assert fits(one, None)
        assert not fits(None, one)
        for other in profiles:
            if one.contains(other) and one != other:
                assert not other.contains(one)
                assert other.sort_key < one.sort_key
            for third in profiles[:20]:
                assert not (one.contains(other) and other.contains(third)) or one.contains(third)
    assert fits(None, None)


def test_the_slots_of_a_task_executor_share_what_it_has() -> None:
    values = {"taskmanager.cpu.cores": 2.5, "taskmanager.memory.task.heap.size": "1g", "taskmanager.external-resources": "gpu=3, fpga=1"}
    configuration = build_configuration({**values, "taskmanager.numberOfTaskSlots": 2}, "test")
    assert configuration.slot_profile == ResourceProfile(1250, 512 << 20, extended_resources=(ExtendedResource("gpu", 1),))
    assert build_configuration({}, "test").slot_profile is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("taskmanager.memory.managed.size", "1 x"),
        ("taskmanager.memory.task.off-heap.size", -1),
        ("taskmanager.cpu.cores", "many"),
        ("taskmanager.external-resources", "gpu"),
    ],
)
def test_a_wrong_amount_in_the_configuration_is_named_with_its_key(key: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"test: {key}: "):
        build_configuration({key: value}, "test")


def test_a_vertex_may_ask_for_resources() -> None:
    resources: dict[str, Any] = {"cpu_cores": 0.5, "task_heap_memory": "512m", "managed_memory": 7, "extended_resources": {"gpu": 1}}
    parsed = parse_job_graph(graph(vertex("a", **resources), vertex("b")), "test")
    asked = ResourceProfile(500, 512 << 20, managed_bytes=7, extended_resources=(ExtendedResource("gpu", 1),))
    assert [v.resources for v in parsed.vertices] == [asked, None]
    assert parse_job_graph(to_document(parsed), "test") == parsed
    nothing = parse_job_graph(graph(vertex("a", cpu_cores=0), vertex("b")), "test")
    assert [v.resources for v in nothing.vertices] == [None, None]


def test_what_a_graph_asks_for_is_in_its_digest() -> None:
    plain = {"name": "x", "vertices": [{"id": "a", "python": "m:f"}, {"id": "b", "sql": "SELECT 1", "parallelism": 2}]}
    parsed = parse_job_graph({**plain, "edges": [{"from": "a", "to": "b"}]}, "test")
    asking = dataclasses.replace(
        parsed, vertices=(dataclasses.replace(parsed.vertices[0], resources=ResourceProfile(1)), parsed.vertices[1])
    )
    assert graph_digest(asking) != graph_digest(parsed)


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        ({"memory": "1g"}, r"vertices\[0\].resources.memory"),
        ({"task_heap_memory": "much"}, r"vertices\[0\].resources.task_heap_memory: 'much' is not a size"),
        ({"cpu_cores": -1}, "processors: at least 0"),
        ({"cpu_cores": "1e999999"}, r"vertices\[0\].resources.cpu_cores: '1e999999' is not a number of processors"),
        ({"cpu_cores": 10**5_000}, "'a long int' is not a number of processors"),
        ({"managed_memory": 10**5_000}, "'a long int' is not a size"),
        ({"extended_resources": {"gpu": 10**5_000}}, "gpu: a long int is not between"),
        ({"extended_resources": {"gpu": -1}}, "gpu: -1 is not between"),
        ({"extended_resources": {"gpu": "1"}}, "extended_resources.gpu"),
        ({"extended_resources": {"no name": 1}}, "'no name' is not a resource's name"),
    ],
)
def test_wrong_resources_are_refused_with_their_place(resources: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidJobGraph, match=says):
        parse_job_graph(graph({**vertex("a"), "resources": resources}), "test")


def test_a_job_asks_for_so_many_different_resources_and_no_more() -> None:
    many = [vertex(f"v{n}", cpu_cores=n + 1) for n in range(MAX_PROFILES + 1)]
    assert parse_job_graph(graph(*many[1:], vertex("same", cpu_cores=2)), "test")
    with pytest.raises(InvalidJobGraph, match=f"{MAX_PROFILES + 1} different resources; at most {MAX_PROFILES}"):
        parse_job_graph(graph(*many), "test")


def test_the_sum_of_profiles_has_everything_of_each() -> None:
    one = ResourceProfile(500, 1 << 20, extended_resources=(ExtendedResource("gpu", 1),))
    other = ResourceProfile(250, 0, 7, 9, extended_resources=(ExtendedResource("fpga", 2), ExtendedResource("gpu", 3)))
    both = sum_of([one, None, other])
    assert both == ResourceProfile(750, 1 << 20, 7, 9, (ExtendedResource("fpga", 2), ExtendedResource("gpu", 4)))
    assert both.contains(one)
    assert both.contains(other)
    assert sum_of([one]) == one
    assert sum_of([]) is None
    assert sum_of([None, None]) is None
