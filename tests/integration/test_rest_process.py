"""The REST process on a real cluster: it follows the log through the loss of the leader, and ends in order."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventflink.model.statuses import JobStatus
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

NO_SLOT = {"id": "only", "sql": "SELECT 1"}


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path) as running:
        running.start_master("master-1")
        yield running


def get(url: str, min_offset: int = -1) -> tuple[int, int, Any]:
    """Return status, offset and document of an answer."""
    request = urllib.request.Request(url, headers={"X-Eventflink-Min-Offset": str(min_offset)})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, int(answer.headers["X-Eventflink-Offset"]), json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, -1, json.load(error)


def next_frame(changes: Any) -> Any:
    """Return the data of the next event of a stream of changes."""
    return json.loads(next(line for line in changes if line.startswith(b"data: ")).removeprefix(b"data: "))


def test_what_was_accepted_is_read_at_its_offset_and_through_the_loss_of_the_leader(cluster: RunningCluster) -> None:
    url = cluster.start_rest()
    first = cluster.submit(cluster.graph(NO_SLOT))
    end = cluster.state().last_offset
    status, offset, answer = get(f"{url}/jobs", end)
    assert (status, offset >= end) == (200, True)
    assert answer == {"jobs": [{"id": first, "status": JobStatus.RUNNING}]}
    cluster.start_standby("master-2")
    cluster.kill("master-1")
    assert get(f"{url}/v1/jobs")[2] == answer
    with urllib.request.urlopen(f"{url}/eventflink/v1/changes", timeout=30) as changes:
        stands_at = next_frame(changes)
        second = cluster.submit(cluster.graph(NO_SLOT))
        seen = stands_at
        while second not in seen["jobs"]:
            seen = next_frame(changes)
        assert (seen["epoch"], seen["master_id"], seen["offset"] > offset) == (2, "master-2", True)
    _, _, overview = get(f"{url}/jobs/overview", cluster.state().last_offset)
    assert [(row["jid"], row["state"]) for row in overview["jobs"]] == [(first, "RUNNING"), (second, "RUNNING")]
    assert cluster.stop("rest") == 0


def test_a_port_that_is_taken_is_passed_over_or_named(cluster: RunningCluster) -> None:
    port = int(cluster.start_rest().rpartition(":")[2])
    process = cluster.start("other", "rest", **{"rest.bind-port": str(port)})
    assert process.wait(60) == 4
    del cluster.processes["other"]
    assert cluster.output("other").strip().splitlines()[-1].endswith(f"rest.bind-port: no port of {port} is free on 127.0.0.1")
    several = cluster.start("other", "rest", **{"rest.bind-port": f"{port}-{port + 20}"})
    wait_until(lambda: "RestServerStarted" in cluster.output("other"), "the other REST process")
    assert several.poll() is None
