"""A stream that stands still is a problem wherever problems are told, from its last answer, until it moves, ends or is replaced."""

from typing import Any

import pytest

from eventflink.master.effects import Deployment
from eventflink.model.job_graph import StreamDefinition, StreamSink, StreamSource
from eventflink.model.statuses import ExecutionState, StreamConnector, StreamTrigger
from eventflink.model.stream_progress import NO_WATERMARK, StreamOutputProgress, StreamProgress
from eventflink.views.back_pressure import back_pressure_view
from eventflink.views.pages.cluster import cluster_page
from eventflink.views.standing_streams import GROWN_ROWS, GROWS_MS, SILENT_MS, STANDS_MS, standing_streams, why_it_stands
from tests.support.asked_log import why
from tests.support.cluster import ScriptedCluster, deployments, fixed_delay, graph, orders, stream

NOON_MS = 1_764_158_400_000
STANDS: dict[str, Any] = {"watermark_stands_ms": 90_000, "rows_since_watermark": 1_200, "state_rows": 7, "watermark_ms": NOON_MS}
SAID = (
    "its watermark has stood at 2025-11-26T12:00:00.000+00:00 for 90 s, in which 1,200 rows came: "
    "so no window ends, and its 7 rows of state stay"
)


def definition(sources: int = 1) -> StreamDefinition:
    read = tuple(StreamSource(name=f"s{number}", connector=StreamConnector.KAFKA, location="t") for number in range(sources))
    sink = StreamSink(connector=StreamConnector.PYTHON, location="m:f")
    return StreamDefinition(sources=read, sinks=(sink,), trigger=StreamTrigger.PROCESSING_TIME)


@pytest.mark.parametrize(
    ("sources", "said", "reason"),
    [
        (1, STANDS, SAID),
        (2, STANDS, SAID.replace(" rows came", " rows came (of several sources the one that is furthest behind counts)")),
        (
            1,
            STANDS | {"watermark_ms": NO_WATERMARK},
            SAID.replace("stood at 2025-11-26T12:00:00.000+00:00", "not begun").replace(" came: ", " came, none of them with a time: "),
        ),
        (1, STANDS | {"watermark_stands_ms": STANDS_MS - 1}, ""),
        (1, STANDS | {"state_rows": 0}, ""),
        (1, {}, ""),
    ],
    ids=["stands", "of several", "not begun", "not for long", "nothing waits for it", "nothing is known"],
)
def test_it_says_where_the_watermark_stands_since_when_and_what_stays(sources: int, said: dict[str, Any], reason: str) -> None:
    progress = StreamProgress(batch_id=3, **said)
    assert why_it_stands(definition(sources), progress) == reason
    assert back_pressure_view(definition(sources), progress).reason == ("it keeps up" if not reason else f"it keeps up; {reason}")


GROWS: dict[str, Any] = {"state_grows_ms": 2 * GROWS_MS, "state_grown_rows": 41_000, "state_rows": 42_000, "state_bytes": 9_000_000}
GREW = (
    "its state has only grown for 120 min: by 41,000 rows to 42,000 (9,000,000 bytes); no row has left it, and without a watermark "
    "Spark takes none out"
)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (GROWS, GREW),
        (GROWS | {"state_grows_ms": GROWS_MS - 1}, ""),
        (GROWS | {"state_grown_rows": GROWN_ROWS - 1}, ""),
        (GROWS | {"watermark_ms": NOON_MS}, ""),
        (GROWS | {"rows_since_watermark": 5}, ""),
        (STANDS | GROWS, SAID.replace("7 rows of state", "42,000 rows of state")),
    ],
    ids=["grows", "not for long", "not by much", "a watermark will end it", "a watermark has not begun", "the watermark is told first"],
)
def test_a_state_that_nothing_leaves_is_told_with_its_growth(said: dict[str, Any], reason: str) -> None:
    assert why_it_stands(definition(), StreamProgress(batch_id=3, **said)) == reason


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, "its output 'totals' (t) has got no row since the attempt began, for 90 min, in which 12,000 rows came"),
        ({"silent_ms": SILENT_MS - 1}, ""),
        ({"rows_written": 1}, ""),
        ({"rows_written": -1}, ""),
    ],
    ids=["never", "not for long", "it wrote before", "it is not known"],
)
def test_an_output_that_never_gets_a_row_is_told(more: dict[str, Any], reason: str) -> None:
    wrote = StreamOutputProgress(name="all", location="u", rows_written=12_000)
    said: dict[str, Any] = {"rows_written": 0, "rows_since": 12_000, "silent_ms": 5_400_000}
    progress = StreamProgress(batch_id=3, outputs=(wrote, StreamOutputProgress(name="totals", location="t", **said | more)))
    assert why_it_stands(definition(), progress) == reason


def test_rows_that_were_dropped_are_counted_in_the_reason() -> None:
    said = back_pressure_view(definition(), StreamProgress(batch_id=3, late_rows_dropped=4_100)).reason
    assert said == "it keeps up; 4,100 rows came behind the watermark and were dropped"


@pytest.fixture
def standing() -> tuple[ScriptedCluster, Deployment]:
    """A job with two subtasks of a stream, of which the first, as it was deployed, stands."""
    cluster = ScriptedCluster()
    cluster.register(slots=8)
    deployed = deployments(cluster.submit(graph(stream("windows", 2), restart_strategy=fixed_delay(1, delay_ms=0)), job_id="clicks"))
    for deployment in deployed:
        cluster.start_stream(deployment)
    one, other = orders(cluster.pass_time(60_000))
    cluster.acknowledge(one, batch_id=4, **STANDS)
    cluster.acknowledge(other, batch_id=4)
    return cluster, deployed[0]


@pytest.fixture
def cluster(standing: tuple[ScriptedCluster, Deployment]) -> ScriptedCluster:
    return standing[0]


def problems(cluster: ScriptedCluster) -> list[tuple[str, str, str]]:
    return [(each.severity, each.sentence, each.link) for each in cluster_page(cluster.fold).problems]


def test_it_is_a_problem_of_the_cluster_and_what_why_says_of_the_job_and_its_subtask(cluster: ScriptedCluster) -> None:
    assert problems(cluster) == [("stands", f"Job 'clicks': windows[0]: {SAID}.", "/jobs/clicks/flow")]
    assert cluster_page(cluster.fold).sentence == "1 stream brings nothing to an end. Nothing else is wrong."
    for subject in ("clicks", "clicks/windows[0]"):
        assert [(wait.what, wait.why) for wait in why(cluster, subject).waits] == [("clicks/windows[0]#1", SAID)]
    assert why(cluster, "clicks/windows[1]").waits == []


def test_many_of_a_job_are_one_problem(cluster: ScriptedCluster) -> None:
    cluster.acknowledge(*orders(cluster.pass_time(60_000)), batch_id=5, **STANDS)
    [(_, sentence, _)] = problems(cluster)
    assert sentence == f"Job 'clicks': windows[0]: {SAID}; 1 other stream brings nothing to an end either."
    assert cluster_page(cluster.fold).sentence == "2 streams bring nothing to an end. Nothing else is wrong."


@pytest.mark.parametrize("end", ["moves", "fails", "finishes", "is cancelled"])
def test_it_is_none_any_more_once_it(standing: tuple[ScriptedCluster, Deployment], end: str) -> None:
    cluster, first = standing
    asked = orders(cluster.pass_time(60_000))
    match end:
        case "moves":
            cluster.acknowledge(*asked, batch_id=5)
        case "fails":
            cluster.report(first, ExecutionState.FAILED)
        case "finishes":
            cluster.report(first, ExecutionState.FINISHED)
        case _:
            cluster.cancel("clicks")
    assert standing_streams(cluster.job("clicks")) == []
    assert all(severity != "stands" for severity, _, _ in problems(cluster))
