"""What a task counts is a sum of one kind under a name, within bounds, and attempts whose results count are added up."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from eventflink.documents.one_job import AccumulatorInfo
from eventflink.jobs.accumulators import AccumulatorUnusable, TaskAccumulators
from eventflink.model.attempts import (
    MAX_ACCUMULATOR_NAME_LENGTH,
    MAX_ACCUMULATORS,
    MAX_LONG,
    MIN_LONG,
    Accumulators,
    DoubleCounter,
    LongCounter,
)
from eventflink.views.accumulators import added_up


def test_sums_are_reported_by_kind_in_the_order_in_which_they_began() -> None:
    counted = TaskAccumulators()
    assert counted.report() is None
    amounts: tuple[Any, ...] = (1, True, np.int64(40), -2)
    for amount in amounts:
        counted.of("rows", int).add(amount)
    counted.of("untouched", int)
    sizes: tuple[Any, ...] = (1, 0.5, np.float32(0.25))
    for size in sizes:
        counted.of("weight", float).add(size)
    assert counted.of("rows", int) is counted.of("rows", int)
    assert counted.report() == Accumulators((LongCounter("rows", 40), LongCounter("untouched", 0)), (DoubleCounter("weight", 1.75),))
    report = counted.report()
    assert report is not None
    assert [type(each.value) for each in report.longs] == [int, int]
    assert [type(each.value) for each in report.doubles] == [float]


@pytest.mark.parametrize("amount", [0.5, "1", None, np.float64(2), 1j])
def test_whole_numbers_are_not_mixed_with_others(amount: Any) -> None:
    rows = TaskAccumulators().of("rows", int)
    with pytest.raises(AccumulatorUnusable, match="'rows' adds whole numbers, and not "):
        rows.add(amount)
    assert rows.value == 0


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [(int, MAX_LONG, 1), (int, MIN_LONG, -1), (float, 9e299, 9e299), (float, 0, float("nan")), (float, 0, float("-inf"))],
)
def test_a_sum_out_of_bounds_is_refused_and_changes_nothing(kind: type[int], first: float, second: float) -> None:
    counter = TaskAccumulators().of("n", kind)
    counter.add(first)
    with pytest.raises(AccumulatorUnusable, match="accumulator 'n' would be"):
        counter.add(second)
    assert counter.value == first


@pytest.mark.parametrize("name", ["", "x" * (MAX_ACCUMULATOR_NAME_LENGTH + 1), "two\nlines"])
def test_a_name_that_cannot_be_shown_is_refused(name: str) -> None:
    with pytest.raises(AccumulatorUnusable, match="the name of an accumulator has 1 to 128 printable characters"):
        TaskAccumulators().of(name, int)


def test_a_name_has_one_kind_and_a_task_so_many_names() -> None:
    counted = TaskAccumulators()
    for number in range(MAX_ACCUMULATORS):
        counted.of(str(number), int)
    with pytest.raises(AccumulatorUnusable, match="accumulator '0' adds whole numbers"):
        counted.of("0", float)
    with pytest.raises(AccumulatorUnusable, match="at most 64 accumulators"):
        counted.of("more", int)
    with pytest.raises(AccumulatorUnusable, match="of the kind int or float"):
        counted.of("0", str)  # type: ignore[arg-type]  # as who does not check types


def test_sums_of_several_attempts_are_by_name_and_type() -> None:
    row = AccumulatorInfo(name="n", type="LongCounter", value=2**62)
    real = AccumulatorInfo(name="n", type="DoubleCounter", value=0.5)
    less = AccumulatorInfo(name="a", type="LongCounter", value=-1)
    assert added_up([[row, real], [], [row, less]]) == [less, real, replace(row, value=2**63)]
