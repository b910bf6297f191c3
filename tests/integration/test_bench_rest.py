"""The benchmark of REST processes runs on a real broker, with a real process that reads and a real leader."""

import json

import pytest
from click.testing import CliRunner

from benchmarks.commands import benchmarks

pytestmark = pytest.mark.soak("benchmarks")


def test_a_rest_process_is_measured_over_a_log_and_on_a_cluster(bootstrap: str) -> None:
    arguments = ["rest", "--events", "3000", "--jobs", "50", "--samples", "8", "--json"]
    done = CliRunner().invoke(benchmarks, [f"-Dbootstrap.servers={bootstrap}", *arguments], standalone_mode=False)
    assert done.exception is None, done.output
    document = json.loads(done.stdout)
    assert (document["benchmark"], document["jobs"], document["past_ms"]["count"]) == ("rest", 50, 8)
    assert document["overview_bytes"] > 50 * 100
    for figure in ("overview_ms", "past_ms", "submitted_ms", "kafka_ms"):
        assert document[figure]["min"] > 0
