"""The benchmark of replay runs on a real broker, and reads its log whatever released schema the records of it are written with."""

import json

import pytest
from click.testing import CliRunner

from benchmarks.commands import benchmarks

EVENTS = 3_000

pytestmark = pytest.mark.soak("benchmarks")


def test_a_log_is_replayed_beside_its_bare_reading_and_from_a_snapshot(bootstrap: str) -> None:
    arguments = ["replay", "--events", str(EVENTS), "--rounds", "1", "--json"]
    done = CliRunner().invoke(benchmarks, [f"-Dbootstrap.servers={bootstrap}", *arguments], standalone_mode=False)
    assert done.exception is None, done.output
    document = json.loads(done.stdout)
    assert document["benchmark"] == "replay"
    assert document["events"] >= EVENTS
