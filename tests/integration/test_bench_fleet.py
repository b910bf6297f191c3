"""The benchmark of a fleet gives orders to real consumers, and counts what each of them is sent."""

import json

import pytest
from click.testing import CliRunner

from benchmarks.commands import benchmarks

pytestmark = pytest.mark.soak("benchmarks")
FLEET = 20


@pytest.mark.parametrize("way", [(), ("--at-once",)])
def test_who_shares_a_partition_is_sent_the_orders_of_all_in_it(way: tuple[str, ...]) -> None:
    arguments = ["fleet", "--task-executors", str(FLEET), "--waves", "1", "--json", *way]
    done = CliRunner().invoke(benchmarks, arguments, standalone_mode=False)
    assert done.exception is None, done.output
    document = json.loads(done.stdout[done.stdout.index("{") :])
    assert document["benchmark"] == "fleet"
    assert document["deliveries"]["min"] >= FLEET / document["partitions"] > 1
    assert document["delivered_bytes"]["min"] > document["deliveries"]["min"]
