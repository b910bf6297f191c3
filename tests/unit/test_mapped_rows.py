"""Which row of an input a subtask of a mapped vertex has: by what was left in the log, and by nothing else."""

from dataclasses import replace

import pytest

from eventflink.jobs.mapped_rows import find_location
from eventflink.jobs.shipping import InputUnusable
from tests.support.cluster import output_at


@pytest.mark.rule("P24")
def test_rows_are_counted_through_what_the_subtasks_of_the_writer_left_in_their_order() -> None:
    locations = [replace(output_at(f"/{index}"), rows=rows) for index, rows in enumerate((0, 2, 0, 3))]
    assert [find_location("files", locations, number) for number in range(5)] == [(1, 0), (1, 1), (3, 0), (3, 1), (3, 2)]
    with pytest.raises(InputUnusable, match="input 'files' has 5 rows, and no row 5 for this subtask"):
        find_location("files", locations, 5)
