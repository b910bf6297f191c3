"""The benchmark of slots runs, and says how many requests got slots in each situation."""

import json

from click.testing import CliRunner

from benchmarks.commands import benchmarks
from benchmarks.slots import TASKS, UNIT, measure_slots


def test_every_situation_is_measured_spread_and_packed() -> None:
    said: list[str] = []
    figures = measure_slots([1], said.append)
    assert [(f.task_managers, f.slots, f.requests, f.spread) for f in figures] == [(UNIT, 800, 1_000, True), (UNIT, 800, 1_000, False)]
    assert all(f.free_slots_per_s.count == 800 // TASKS for f in figures)
    assert all(d.min > 0 for f in figures for d in (f.free_slots_per_s, f.freed_slots_per_s, f.waiting_requests_per_s))
    assert len(said) == len(figures)


def test_the_command_prints_a_table_and_one_json_object() -> None:
    done = CliRunner().invoke(benchmarks, ["slots", "--largest", "1", "--json"], standalone_mode=False)
    assert done.exception is None
    document = json.loads(done.stdout)
    assert document["benchmark"] == "slots"
    assert [cluster["task_managers"] for cluster in document["clusters"]] == [UNIT, UNIT]
    assert document["machine"]["cores"]
    assert "slots freed one at a time" in done.stderr
