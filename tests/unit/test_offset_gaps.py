"""An offset that a reader was not given has no record only if Kafka, asked for it, gives what comes later."""

import pytest

from eventflink.leadership.offset_gaps import OffsetGaps, Stretch


class Asked:
    """A partition with records at some offsets, and what it was asked."""

    def __init__(self, end_offset: int, *present: int) -> None:
        self.questions: list[int] = []
        self._end_offset, self._present = end_offset, frozenset(present)

    def __call__(self, offset: int) -> Stretch:
        self.questions.append(offset)
        return Stretch(offset, self._end_offset, frozenset(each for each in self._present if each >= offset))


def read(gaps: OffsetGaps, *offsets: int) -> list[int]:
    """Return the offsets that are handed on, with and without a record, where a consumer gives these."""
    handed_on: list[int] = []
    for offset in offsets:
        handed_on += gaps.before(offset)
        gaps.give(offset)
        handed_on.append(offset)
    return handed_on


def test_where_nothing_is_missing_nobody_is_asked() -> None:
    asked = Asked(5, 2, 3, 4)
    assert read(OffsetGaps(2, asked), 2, 3, 4) == [2, 3, 4]
    assert asked.questions == []


@pytest.mark.rule("P3b")
def test_an_offset_without_a_record_is_handed_on_empty() -> None:
    asked = Asked(5, 0, 2, 4)
    gaps = OffsetGaps(0, asked)
    assert read(gaps, 0, 2) == [0, 1, 2]
    assert gaps.next_offset == 3


@pytest.mark.rule("P3")
def test_a_record_that_the_reader_missed_is_not_taken_for_one_that_is_not_there() -> None:
    asked = Asked(5, 0, 1, 2, 4)
    assert read(OffsetGaps(0, asked), 0, 2) == [0, 2]
    assert read(OffsetGaps(0, Asked(5, 0, 2, 4)), 0, 4) == [0, 4], "one of the missing has a record, so all count as missed"


def test_gaps_near_each_other_cost_one_question() -> None:
    asked = Asked(9, 0, 2, 4, 6, 8)
    gaps = OffsetGaps(0, asked)
    assert read(gaps, 0, 2, 4, 6, 8) == list(range(9))
    assert list(gaps.before(9)) == []
    assert asked.questions == [1]


def test_behind_the_last_record_offsets_are_empty_up_to_the_position_of_the_reader() -> None:
    gaps = OffsetGaps(3, Asked(6))
    assert list(gaps.before(6)) == [3, 4, 5]
    assert list(gaps.before(6)) == []


@pytest.mark.rule("P3b")
def test_what_an_answer_does_not_reach_is_not_known() -> None:
    gaps = OffsetGaps(3, Asked(5))
    assert list(gaps.before(6)) == []
    assert gaps.next_offset == 3


@pytest.mark.parametrize("offset", [0, 2, 3])
def test_a_redelivery_is_no_gap(offset: int) -> None:
    asked = Asked(9)
    gaps = OffsetGaps(3, asked)
    assert list(gaps.before(offset)) == []
    gaps.give(offset)
    assert gaps.next_offset == max(3, offset + 1)
    assert asked.questions == []
