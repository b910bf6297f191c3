"""The benchmark of streams runs on a real cluster: a killed task costs no record, and a job is compared with plain PySpark."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import stream_latency
from benchmarks.commands import benchmarks
from benchmarks.stream_latency import TRIGGERS
from benchmarks.stream_savepoints import PROBES
from benchmarks.stream_throughput import ALL

pytestmark = [pytest.mark.slow, pytest.mark.soak("benchmarks")]

ROWS = 6_000


def run(bootstrap: str, *arguments: str) -> tuple[dict[str, Any], str]:
    done = CliRunner().invoke(benchmarks, [f"-Dbootstrap.servers={bootstrap}", "stream", *arguments, "--json"], standalone_mode=False)
    assert done.exception is None, done.output
    assert done.return_value == 0, done.output
    return json.loads(done.stdout), done.stderr


def test_a_task_is_killed_and_each_record_comes_once(bootstrap: str) -> None:
    document, said = run(bootstrap, "--faults", "task", "--runs", "1")
    assert (document["benchmark"], document["fault"]) == ("stream-faults", "task")
    [killed] = document["runs"]
    assert killed["committed"] == killed["fed"] > 0
    assert (killed["repeated"], killed["missing"], killed["attempts"]) == (0, 0, 2)
    assert killed["gap_ms"] > 0
    assert "0 repeated, 0 missing" in said


def test_a_job_that_begins_in_a_savepoint_has_all_of_its_keys(bootstrap: str) -> None:
    document, _ = run(bootstrap, "--savepoints", str(ROWS))
    [figures] = document["keys"]
    assert (figures["keys"], figures["counted_right"]) == (ROWS, PROBES)
    assert figures["bytes"] > 0
    assert figures["stop_ms"] >= figures["copy_ms"] > 0


def test_the_latency_of_each_trigger_is_measured_and_in_real_time_it_is_not_that_of_a_batch(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_latency, "TRIGGERS", TRIGGERS[-2:])
    document, _ = run(bootstrap, "--latency", "--seconds", "3")
    assert [(each["trigger"], each["trigger_ms"]) for each in document["triggers"]] == [*TRIGGERS[-2:]]
    in_real_time = document["triggers"][-1]
    assert in_real_time["counts"]["missing"] == 0
    # Records that wait for the end of their batch wait for half of it in the median.
    assert 0 < in_real_time["latency_ms"]["median"] < in_real_time["trigger_ms"] / 2


def test_a_job_and_plain_pyspark_read_the_same_records_in_alternation(bootstrap: str) -> None:
    document, said = run(bootstrap, "--rounds", "1", "--rows", str(ROWS))
    assert (document["benchmark"], document["rows"]) == ("stream", ROWS)
    assert [counts["committed"] for counts in document["counts"]] == [ROWS]
    assert document["time_ratio"]["count"] == 1
    for side in ("job", "plain"):
        assert document[side]["rows_per_s"]["min"] > 0
        assert document[side]["cpu_us_per_row"][ALL]["min"] > 0
    assert "of plain PySpark's time" in said
