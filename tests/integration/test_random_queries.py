"""A graph of tasks comes to the rows of the one Spark query that it is: whatever its types, keys, edges and parallelism.

Each vertex runs in its task processes, with what they read and publish; nothing is left out but who tells them to. `make soak` runs
thousands of graphs.
"""

import os
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from eventflink.events.effects import TaskInput
from eventflink.model.attempts import OutputLocation
from eventflink.model.job_graph import DEFAULT_OUTPUT
from eventflink.model.statuses import ShipStrategy
from eventflink.taskexecutor.process_events import Finished, TaskProcessEnded
from tests.support.random_queries import RandomQuery, Vertex, random_query
from tests.support.spark_sessions import own_session
from tests.support.task_host import SQL, Host, forwarded

pytestmark = pytest.mark.slow
SEED = int(os.environ.get("FUZZ_SEED", "0"))
SOAK_SEED = int(os.environ.get("SOAK_SEED", "0"))
SOAK_SEEDS = int(os.environ.get("SOAK_SEEDS", "20"))
GRAPHS = 3


@pytest.fixture(scope="module")
def host(spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    host = Host(tmp_path_factory.mktemp("host"), spark)
    yield host
    host.server.begin_stop()
    host.server.wait_until_gone()
    host.lease.release()


@pytest.fixture(scope="module")
def session(spark: str) -> Iterator[SparkSession]:
    with own_session(spark) as session:
        yield session


def run_graph(host: Host, query: RandomQuery) -> list[OutputLocation]:
    """Run the subtasks of one vertex after the other; return what those of the last one left."""
    job_id = uuid.uuid4().hex
    left: dict[str, list[OutputLocation]] = {}
    for vertex in query.vertices:
        left[vertex.name] = run_vertex(host, job_id, vertex, left)
    return left[query.vertices[-1].name]


def run_vertex(host: Host, job_id: str, vertex: Vertex, left: dict[str, list[OutputLocation]]) -> list[OutputLocation]:
    inputs = tuple(TaskInput(each.writer, each.ship, each.keys, tuple(left[each.writer])) for each in vertex.inputs)
    attempts = []
    for index in range(vertex.parallelism):
        shape = {"subtask_index": index, "parallelism": vertex.parallelism, "max_parallelism": vertex.max_parallelism}
        told = tuple([forwarded(each, index) if each.ship is ShipStrategy.FORWARD else each for each in inputs])
        names = {"job_id": job_id, "vertex_id": vertex.name, "inputs": told, "outputs": (DEFAULT_OUTPUT,)}
        attempts.append(host.launch(vertex.sql, **SQL, **shape, **names)[0])
    outcomes = [host.wait_for(TaskProcessEnded, attempt).outcome for attempt in attempts]
    assert all(isinstance(each, Finished) for each in outcomes), outcomes
    return [output for each in outcomes if isinstance(each, Finished) for output in each.outputs]


def rows_of(rows: DataFrame) -> Counter[tuple[str, ...]]:
    """Return how often each row is there; which zero is the greatest of zeros of both signs is nobody's promise."""
    texts = rows.selectExpr("string(k)", "string(j)", "string(v)").collect()
    return Counter(tuple("0.0" if value == "-0.0" else str(value) for value in row) for row in texts)


def check(host: Host, session: SparkSession, seed: int) -> int:
    """Compare the rows of a seed's graph with those of its query; return how many there are."""
    query = random_query(seed)
    expected = rows_of(session.sql(query.as_one_query(), args={"parallelism": 1, "subtask_index": 0}))
    found = rows_of(session.read.parquet(*[each.location for each in run_graph(host, query)]))
    assert found == expected, f"seed {seed}: {found - expected} too many, {expected - found} missing of\n{query}"
    return found.total()


def test_graphs_come_to_the_rows_of_their_queries(host: Host, session: SparkSession) -> None:
    """A few, and so many more that one has rows."""
    found = 0
    for number in range(4 * GRAPHS):
        if number < GRAPHS or not found:
            found += check(host, session, SEED + number)
    assert found > 0


@pytest.mark.soak("eventflink.jobs", "eventflink.taskexecutor.task_run")
@pytest.mark.timeout(60 * SOAK_SEEDS)
def test_thousands_of_graphs_come_to_the_rows_of_their_queries(host: Host, session: SparkSession) -> None:
    assert sum(check(host, session, seed) for seed in range(SOAK_SEED, SOAK_SEED + SOAK_SEEDS)) > 0


@pytest.mark.parametrize("join", ["JOIN", "LEFT ANTI JOIN"])
def test_a_division_that_splits_equal_keys_is_found(session: SparkSession, join: str) -> None:
    """What the comparison is worth: keys of two decimals that are hashed as they are do not all meet."""
    left, right = (f"SELECT CAST(id AS {kind}) AS k FROM range(100)" for kind in ("DECIMAL(10,2)", "DECIMAL(12,4)"))

    def part(rows: str, index: int) -> str:
        return f"(SELECT * FROM ({rows}) WHERE pmod(hash(k), 4) = {index})"

    divided = sum(session.sql(f"SELECT * FROM {part(left, i)} a {join} {part(right, i)} b ON a.k = b.k").count() for i in range(4))
    assert divided != session.sql(f"SELECT * FROM ({left}) a {join} ({right}) b ON a.k = b.k").count()
