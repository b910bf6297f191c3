"""Rows whose keys Spark SQL calls equal meet in one subtask, whatever the types of their keys, or the edges are refused."""

import functools
import itertools
import os
import random
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from eventflink.jobs.hash_keys import are_spelled_alike, key_spelling
from eventflink.jobs.shipping import HashInput, HashInputs, InputUnusable, Share, read_share
from eventflink.model.statuses import ShipStrategy
from eventflink.streams.edges import Edge, check_keys
from eventflink.streams.failures import StreamUnusable
from eventflink.taskexecutor.task_spark import open_session, session_address
from tests.support.spark_sessions import own_session

pytestmark = pytest.mark.slow

NUMBERS = "(VALUES (0), (1), (2), (3), (10), (-1), (100), (127), (NULL)) AS t(n)"
FRACTIONS = "(VALUES (0.0D), (-0.0D), (1D), (1.5D), (2.25D), (0.1D), (double('NaN')), (double('-Infinity')), (NULL)) AS t(n)"
DAYS = "(VALUES ('1970-01-01'), ('2024-03-31'), ('0001-01-01'), ('9999-12-31'), ('2024-10-27 00:30:00'), (NULL)) AS t(n)"
TEXTS = "(VALUES ('a'), ('A'), ('ä'), ('Ä'), ('1'), (''), (' a'), (NULL)) AS t(n)"
KEYS = {
    "TINYINT": NUMBERS,
    "INT": NUMBERS,
    "BIGINT": NUMBERS,
    "DECIMAL(10,2)": NUMBERS,
    "DECIMAL(12,4)": NUMBERS,
    "DECIMAL(38,18)": NUMBERS,
    "DECIMAL(38,0)": NUMBERS,
    "FLOAT": FRACTIONS,
    "DOUBLE": FRACTIONS,
    "DATE": DAYS,
    "TIMESTAMP": DAYS,
    "TIMESTAMP_NTZ": DAYS,
    "STRING": TEXTS,
    "STRING COLLATE UTF8_LCASE": TEXTS,
    "STRING COLLATE UNICODE_CI": TEXTS,
    "BINARY": TEXTS,
    "BOOLEAN": "(VALUES (true), (false), (NULL)) AS t(n)",
    "ARRAY<INT>": "(SELECT array(n, 1) AS n FROM VALUES (1), (2), (NULL) AS t(n))",
    "ARRAY<DECIMAL(10,2)>": "(SELECT array(n, 1) AS n FROM VALUES (1), (2), (NULL) AS t(n))",
    "STRUCT<a: FLOAT, b: DATE>": "(SELECT struct(n AS a, date'2024-01-31' AS b) AS n FROM VALUES (0D), (-0D), (1.5D) AS t(n))",
    "STRUCT<a: DOUBLE, b: TIMESTAMP>": "(SELECT struct(n AS a, date'2024-01-31' AS b) AS n FROM VALUES (0D), (-0D), (1.5D) AS t(n))",
    "INTERVAL DAY TO SECOND": "(SELECT make_dt_interval(n) AS n FROM VALUES (1), (2), (NULL) AS t(n))",
}
"""Types of keys, each with values that are cast to it."""


@pytest.fixture(scope="module")
def session(spark: str) -> Iterator[SparkSession]:
    with own_session(spark) as session:
        yield session


@pytest.fixture(scope="module")
def written(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A Parquet directory with keys `k` of each type, each key twice, under its type."""
    directory = tmp_path_factory.mktemp("keys")
    places = {}
    for number, (kind, values) in enumerate(KEYS.items()):
        place = str(directory / str(number))
        rows = session.sql(f"SELECT CAST(n AS {kind}) AS k, id FROM {values} CROSS JOIN range(2) r(id)")
        rows.coalesce(1).write.parquet(place)
        places[kind] = place
    return places


def by_subtasks(session: SparkSession, left: str, right: str, parallelism: int) -> DataFrame:
    """Return the join of two inputs, put together from what each of so many subtasks joins."""
    joined = []
    for index in range(parallelism):
        share = Share(subtask_index=index, parallelism=parallelism, max_parallelism=128)
        inputs = HashInputs([HashInput(name=n, keys=("k",), locations=(p,)) for n, p in (("left", left), ("right", right))], share)
        mine, other = inputs.read(session, "left"), inputs.read(session, "right")
        joined.append(join(session, mine, other))
    return functools.reduce(DataFrame.unionAll, joined)


def join(session: SparkSession, left: DataFrame, right: DataFrame) -> DataFrame:
    said = "SELECT string(l.k) AS l, string(r.k) AS r, l.id, r.id AS other FROM {left} l JOIN {right} r ON l.k = r.k"
    return session.sql(said, left=left, right=right)


NUMERIC = ("TINYINT", "INT", "BIGINT", "DECIMAL(10,2)", "DECIMAL(12,4)", "DECIMAL(38,18)")
FIRST = (
    *(("INT", "INT"), ("TINYINT", "BIGINT"), ("TINYINT", "DECIMAL(10,2)"), ("INT", "DECIMAL(12,4)"), ("BIGINT", "DECIMAL(38,18)")),
    *(("DECIMAL(10,2)", "DECIMAL(12,4)"), ("DECIMAL(12,4)", "DECIMAL(38,18)"), ("DECIMAL(38,18)", "DECIMAL(38,18)")),
)
"""Of the pairs of numbers those in which each type, and each step to a common one, is there; the others are the same steps again."""

FAMILIES = (
    ("FLOAT", "DOUBLE"),
    ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"),
    ("STRUCT<a: FLOAT, b: DATE>", "STRUCT<a: DOUBLE, b: TIMESTAMP>"),
    *[(kind,) for kind in ("DECIMAL(38,0)", "STRING", "BINARY", "BOOLEAN", "ARRAY<INT>", "ARRAY<DECIMAL(10,2)>", "INTERVAL DAY TO SECOND")],
)
OFTEN = [*FIRST, *(pair for family in FAMILIES for pair in itertools.combinations_with_replacement(family, 2))]
STRIDE = 2
"""Of so many of these pairs one is tried, others with each commit; `make soak` tries all that there are."""

PAIRS = OFTEN[int(os.environ.get("FUZZ_SEED", "0")) // 1000 % STRIDE :: STRIDE]
OTHERS = [pair for pair in dict.fromkeys((*OFTEN, *itertools.combinations_with_replacement(NUMERIC, 2))) if pair not in PAIRS]
SOAK = pytest.mark.soak("eventflink.jobs.shipping", "eventflink.jobs.hash_keys")


@pytest.mark.parametrize(("left", "right"), [*PAIRS, *(pytest.param(*pair, marks=SOAK) for pair in OTHERS)])
def test_subtasks_find_what_one_join_finds_and_equal_keys_are_one_text(
    session: SparkSession, written: dict[str, str], left: str, right: str
) -> None:
    rows = {kind: session.read.parquet(written[kind]) for kind in (left, right)}
    parallelism = random.Random(f"{left}{right}").choice((2, 3))
    one = sorted(join(session, rows[left], rows[right]).collect(), key=str)
    assert one
    assert sorted(by_subtasks(session, written[left], written[right], parallelism).collect(), key=str) == one
    kinds = {kind: rows[kind].schema["k"].dataType for kind in (left, right)}
    if are_spelled_alike(kinds[left], kinds[right]):  # Then pipelined edges may bring them together: Kafka's partitioner divides the text.
        texts = {
            kind: rows[kind].select("k", key_spelling(rows[kind]["k"], kinds[kind]).alias("t")).selectExpr("k", "to_json(struct(t)) AS t")
            for kind in (left, right)
        }
        differ = "SELECT l.t, r.t FROM {left} l JOIN {right} r ON l.k = r.k WHERE l.t <> r.t"
        assert session.sql(differ, left=texts[left], right=texts[right]).collect() == []


REFUSED = [("INT", "DOUBLE"), ("DECIMAL(38,18)", "DECIMAL(38,0)"), ("BIGINT", "STRING"), ("DATE", "STRING")]


@pytest.mark.parametrize(("left", "right"), REFUSED)
def test_keys_that_come_to_no_type_without_loss_are_refused_by_both_types(
    session: SparkSession, written: dict[str, str], left: str, right: str
) -> None:
    with pytest.raises(InputUnusable, match="equal rows would not meet: cast one of them") as caught:
        by_subtasks(session, written[left], written[right], 2)
    named = [f".k is {session.read.parquet(written[kind]).schema['k'].dataType.simpleString()}" for kind in (left, right)]
    assert all(each in str(caught.value) for each in named)


@pytest.mark.parametrize("kind", ["STRING COLLATE UTF8_LCASE", "STRING COLLATE UNICODE_CI"])
def test_texts_whose_equal_ones_have_different_hashes_are_refused(session: SparkSession, written: dict[str, str], kind: str) -> None:
    with pytest.raises(InputUnusable, match="may have different hashes"):
        by_subtasks(session, written[kind], written[kind], 2)


def test_all_rows_are_somebody_s_also_those_without_a_key(session: SparkSession, written: dict[str, str]) -> None:
    for kind in ("INT", "DECIMAL(10,2)", "DOUBLE", "STRING"):
        shares = []
        for index in range(3):
            share = Share(subtask_index=index, parallelism=3, max_parallelism=128)
            inputs = HashInputs([HashInput(name="rows", keys=("k",), locations=(written[kind],))], share)
            shares.append(inputs.read(session, "rows"))
        assert functools.reduce(DataFrame.unionAll, shares).count() == session.read.parquet(written[kind]).count(), kind


def test_a_key_that_spark_cannot_compare_is_refused_by_its_name(session: SparkSession, tmp_path: Path) -> None:
    session.sql("SELECT map('a', 1) AS k").write.parquet(str(tmp_path / "rows"))
    inputs = HashInputs(
        [HashInput(name="rows", keys=("k",), locations=(str(tmp_path / "rows"),))], Share(subtask_index=0, parallelism=2, max_parallelism=4)
    )
    with pytest.raises(InputUnusable, match="input 'rows' cannot be shipped by hash of 'k': equal keys of type map<string,int> may"):
        inputs.read(session, "rows")


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP_NTZ", "STRUCT<a: FLOAT, b: DATE>"])
def test_keys_that_are_equal_by_the_time_zone_meet_in_utc_alone(spark: str, written: dict[str, str], kind: str) -> None:
    other = "STRUCT<a: DOUBLE, b: TIMESTAMP>" if kind.startswith("STRUCT") else "TIMESTAMP"
    share = Share(subtask_index=0, parallelism=2, max_parallelism=4)
    own = open_session(session_address(spark, str(uuid.uuid4())), None)
    try:
        for types, is_refused in (((kind, other), True), ((kind, kind), False), ((other, other), False)):
            both = [HashInput(name=f"i{number}", keys=("k",), locations=(written[each],)) for number, each in enumerate(types)]
            own.conf.set("spark.sql.session.timeZone", "UTC")
            inputs = HashInputs(both, share)
            inputs.read(own, "i0")
            own.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
            if is_refused:
                said = r"bring together i0.k, which is .*timestamp.*, which is Europe/Berlin; equal rows would not meet: cast one of them"
                with pytest.raises(InputUnusable, match=said):
                    inputs.check_zone()
                with pytest.raises(InputUnusable, match=said):
                    HashInputs(both, share).read(own, "i0")
            else:
                inputs.check_zone()
                HashInputs(both, share).read(own, "i0")
    finally:
        own.stop()


def test_subtasks_of_a_writer_may_have_other_columns_and_no_other_types(session: SparkSession, tmp_path: Path) -> None:
    def read(*statements: str) -> list[DataFrame]:
        """Return the two shares of what the statements left, one for each subtask, over each kind of edge that reads all of them."""
        directory = tmp_path / uuid.uuid4().hex
        places = [str(directory / str(number)) for number in range(len(statements))]
        for place, statement in zip(places, statements, strict=True):
            session.sql(statement).write.parquet(place)
        shares = []
        for index in range(2):
            share = Share(subtask_index=index, parallelism=2, max_parallelism=128)
            shares.append(read_share(session, "rows", ShipStrategy.REBALANCE, places, share))
            shares.append(HashInputs([HashInput(name="rows", keys=("id",), locations=places)], share).read(session, "rows"))
        return [*shares, read_share(session, "rows", ShipStrategy.BROADCAST, places, share)]

    shares = read("SELECT id FROM range(4)", "SELECT id, 'x' AS more FROM range(4)")
    for whole in (shares[0].unionAll(shares[2]), shares[1].unionAll(shares[3]), shares[4]):
        assert sorted(whole.collect(), key=repr) == sorted([(n, more) for n in range(4) for more in (None, "x")], key=repr)
    for one, other in (("1", "5000000000"), ("1.5", "1.25"), ("NULL", "1"), ("DATE'2024-01-31'", "TIMESTAMP_NTZ'2024-01-31 00:00:00'")):
        for both in ((one, other), (other, one)):
            with pytest.raises(InputUnusable, match=r"input 'rows': subtasks of its writer left columns of one name with different types"):
                read(*[f"SELECT 1 AS id, {each} AS v" for each in both])


def test_types_do_not_matter_where_one_subtask_has_all_rows(session: SparkSession, written: dict[str, str]) -> None:
    assert by_subtasks(session, written["INT"], written["DOUBLE"], 1).count() > 0


def edge(name: str, kind: str) -> Edge:
    return Edge(
        topic=name,
        writer_group="w",
        writers=1,
        ship=ShipStrategy.HASH,
        keys=("k",),
        partitions=2,
        row_schema=f"k {kind}, v STRING",
        event_time="",
        watermark_delay_ms=0,
    )


@pytest.mark.parametrize(("left", "right"), [("INT", "DECIMAL(10,2)"), ("FLOAT", "DOUBLE"), ("BIGINT", "STRING")])
def test_a_stream_whose_hash_edges_have_keys_of_other_texts_is_refused_at_its_start(session: SparkSession, left: str, right: str) -> None:
    check_keys(session, [edge("a", left), edge("b", left)])
    with pytest.raises(StreamUnusable, match=r"'k' of a is .*, 'k' of b is .*; equal rows would not meet"):
        check_keys(session, [edge("a", left), edge("b", right)])
