"""The benchmark of memory runs on a real cluster, and what it says of a task process and of the state hangs together."""

import json

import pytest
from click.testing import CliRunner

from benchmarks.commands import benchmarks

TASKS = 2

pytestmark = pytest.mark.soak("benchmarks")


def test_a_running_subtask_is_weighed_as_a_process_and_as_a_part_of_the_state(bootstrap: str) -> None:
    arguments = ["memory", "--tasks", str(TASKS), "--running-jobs", "200", "--rounds", "1", "--json"]
    done = CliRunner().invoke(benchmarks, [f"-Dbootstrap.servers={bootstrap}", *arguments], standalone_mode=False)
    assert done.exception is None, done.output
    document = json.loads(done.stdout)
    assert document["benchmark"] == "memory"
    processes, state = document["task_processes"], document["state"]
    assert processes["resident"]["count"] == TASKS
    # A process maps what it shares; its share of that is less than all of it, and more than nothing.
    assert processes["resident"]["min"] > processes["proportional"]["max"] > processes["unique"]["min"] > 0
    assert processes["running_host_bytes"] >= processes["idle_host_bytes"] + TASKS * processes["unique"]["min"] // 2
    assert state["running_jobs"] == 200
    assert state["bytes_per_running_subtask"]["median"] > 0
    assert "task process, alone its own" in done.stderr
