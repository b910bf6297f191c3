"""The routes of the log: a time line adds up, pages of events are the log in pieces, steps lead through what concerns a thing."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from eventflink.reader.past import decisions, time_line
from tests.support.rest_client import client_of_log
from tests.support.simulated_log import simulated_log

LOG = simulated_log(5)
LAST = len(LOG) - 1


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of_log([value for _, _, value in LOG], [timestamp_ms for _, timestamp_ms, _ in LOG]) as client:
        yield client


def get(client: TestClient, path: str, **parameters: Any) -> Any:
    answer = client.get(f"/eventflink/v1{path}", params={name.rstrip("_"): value for name, value in parameters.items()})
    assert answer.status_code == 200, answer.text
    assert answer.headers["X-Eventflink-Offset"] == str(answer.json()["offset"])
    return answer.json()["body"]


def offset_of(client: TestClient, **parameters: Any) -> int:
    answer = client.get("/eventflink/v1/cluster", params=parameters)
    return int(answer.headers["X-Eventflink-Offset"])


def all_events(client: TestClient, **parameters: Any) -> list[Any]:
    rows: list[Any] = []
    after: dict[str, str] = {}
    while True:
        page = get(client, "/log/events", **parameters, **after)
        assert len(page["events"]) <= parameters.get("limit", 100)
        rows += page["events"]
        if page["next"] is None:
            return rows
        after = {"after": page["next"]}


def places(rows: list[Any]) -> list[tuple[int, int]]:
    return [(row["offset"], row["index"]) for row in rows]


def test_the_bounds_say_where_the_log_begins_ends_and_is_known(client: TestClient) -> None:
    bounds = get(client, "/log/bounds")
    assert (bounds["first_offset"], bounds["states_from"], bounds["last_offset"], bounds["indexed_to"]) == (0, 0, LAST, LAST)
    assert bounds["last_at"] == bounds["indexed_to_at"] > bounds["first_at"]
    assert bounds["history"]["answers"]
    assert bounds["history"]["bytes"] > 0


@pytest.mark.parametrize("window", [{}, {"from_": 40, "until": 200}, {"buckets": 1}, {"buckets": 600}])
def test_a_time_line_has_every_record_in_one_bucket_and_names_who_led(client: TestClient, window: dict[str, Any]) -> None:
    line = get(client, "/log/histogram", **window)
    first, end = window.get("from_", 0), window.get("until", LAST) + 1
    assert (line["from"], line["until"]) == (first, end)
    buckets = line["buckets"]
    assert len(buckets) <= window.get("buckets", 240)
    assert [bucket["from_offset"] for bucket in buckets] == [first, *(bucket["until_offset"] for bucket in buckets[:-1])]
    assert buckets[-1]["until_offset"] == end
    assert sum(bucket["decisions"] for bucket in buckets) == end - first
    events = [row for row in all_events(client, limit=1000) if first <= row["offset"] < end]
    failures = [row for row in events if row["type"] in ("TaskFailed", "GlobalFailureOccurred") and row["accepted"]]
    assert sum(bucket["failures"] for bucket in buckets) == len(failures)
    assert sum(bucket["rejected"] for bucket in buckets) == len({row["offset"] for row in events if not row["accepted"]})
    marked = [mark for mark in line["marks"] if mark["kind"] == "failure"]
    assert [mark["offset"] for mark in marked] == sorted(row["offset"] for row in failures)
    led = {led["epoch"] for led in line["leaderships"]}
    assert {row["epoch"] for row in events if row["accepted"]} <= led


def test_marks_that_are_too_many_are_merged_and_counted(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    all_marks = get(client, "/log/histogram")["marks"]
    monkeypatch.setattr(time_line, "MAX_MARKS", 14)
    line = get(client, "/log/histogram")
    assert len(line["marks"]) <= 14 < line["marks_total"] == len(all_marks)
    for kind in {mark["kind"] for mark in all_marks}:
        merged = [mark for mark in line["marks"] if mark["kind"] == kind]
        assert sum(mark["count"] for mark in merged) == sum(mark["kind"] == kind for mark in all_marks)


def test_leaderships_follow_each_other_and_the_masters_are_those_who_had_them(client: TestClient) -> None:
    masters = get(client, "/masters")
    leaderships = masters["leaderships"]
    assert [led["until_offset"] for led in leaderships] == [*(led["from_offset"] for led in leaderships[1:]), None]
    assert sum(led["decisions"] + led["rejected"] for led in leaderships) == len(LOG)
    assert sum(led["gap_ms"] is None for led in leaderships) == 1
    assert masters["leader"]["epoch"] == leaderships[-1]["epoch"] > 1
    assert {led["master_id"] for led in leaderships} == {master["master_id"] for master in masters["masters"]}
    early = get(client, "/masters", at=leaderships[0]["until_offset"] - 1)
    assert [led["epoch"] for led in early["leaderships"]] == [1]
    assert early["masters"][0]["last_offset"] == leaderships[0]["until_offset"] - 1


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("wanted", [{}, {"job": "job-2"}, {"task_manager": "tm-1"}, {"rejected": True}, {"rejected": False}])
@pytest.mark.parametrize("types", [[], ["TaskStateChanged"], ["JobSubmitted", "slotfreed", "TaskStateChanged"]])
def test_pages_of_events_are_those_that_fit_in_pieces(client: TestClient, order: str, wanted: dict[str, Any], types: list[str]) -> None:
    window: dict[str, Any] = {"from_": 10, "until": LAST - 10}
    rows = all_events(client, **window, **wanted, type=types, order=order, limit=7)
    assert rows == all_events(client, **window, **wanted, type=types, order=order, limit=1000)
    assert places(rows) == sorted(places(rows), reverse=order == "newest")
    lower = {each.lower() for each in types}
    whole = all_events(client, **{name: value for name, value in wanted.items() if name != "rejected"}, limit=1000)
    fitting = [
        row
        for row in whole
        if 10 <= row["offset"] <= LAST - 10
        and (not lower or row["type"].lower() in lower)
        and row["accepted"] is not wanted.get("rejected", not row["accepted"])
    ]
    assert sorted(places(rows)) == sorted(places(fitting))


def test_a_search_that_finds_nothing_ends_a_page_early_and_goes_on_from_there(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = all_events(client, job="job-2", rejected=True)
    monkeypatch.setattr(decisions, "MAX_SEARCHED", 3)
    first = get(client, "/log/events", job="job-2", rejected=True)
    assert first["next"] is not None
    assert all_events(client, job="job-2", rejected=True) == rows


def test_steps_lead_through_the_records_that_concern_a_thing_and_back(client: TestClient) -> None:
    for concern in ({"job": "job-2"}, {"task_manager": "tm-1"}, {}):
        offsets = sorted({row["offset"] for row in all_events(client, **concern, rejected=False, limit=1000)})
        offsets = offsets[-30:]
        at: int | None = offsets[0]
        forth = []
        while at is not None:
            forth.append(at)
            step = get(client, "/log/steps", at=at, **concern)
            assert step["unchanged_since_at"] <= (step["unchanged_until_at"] or "9")
            at = step["next"]
        assert forth == offsets
        at = LAST
        back = []
        while at != offsets[0]:
            at = get(client, "/log/steps", at=at, **concern)["previous"]
            back.append(at)
        assert back[::-1] == [offset for offset in offsets if offset < LAST]
    assert get(client, "/log/steps", at=0)["previous"] is None


def test_a_decision_is_told_with_what_it_answers_and_its_events_whole(client: TestClient) -> None:
    submitted = all_events(client, type="JobSubmitted", order="oldest")[0]
    decision = get(client, f"/log/{submitted['offset']}")
    assert decision["causes"][0]["topic"] == "submissions"
    event = decision["events"][submitted["index"]]
    assert (event["type"], event["payload"]["job_id"]) == ("JobSubmitted", submitted["job_id"])
    assert decision["led_to"]


def test_a_time_is_the_last_record_that_was_decided_until_then(client: TestClient) -> None:
    for at in (50, 150):
        time = get(client, "/log/position", at=at)["decided_at"]
        found = get(client, "/log/position", at=time)
        assert found["decided_at"] == time
        assert found["offset"] >= at
        assert get(client, "/log/position", at=found["offset"] + 1)["decided_at"] > time
        assert offset_of(client, at=time) == found["offset"]
    assert get(client, "/log/position", at="2999-01-01T00:00:00")["offset"] == LAST


def test_a_time_between_two_milliseconds_has_only_what_is_on_its_side(client: TestClient) -> None:
    at = get(client, "/log/position", at=LAST)["decided_at"]
    assert get(client, "/log/position", at=at.replace("+", "999+"))["decided_at"] == at
    before = f"{datetime.fromisoformat(at) - timedelta(microseconds=1):%Y-%m-%dT%H:%M:%S.%fZ}"
    assert get(client, "/log/position", at=before)["decided_at"] < at
    assert get(client, "/log/histogram", until=before)["until_at"] < at
    assert get(client, "/log/histogram", from_=at.replace("+", "001+"))["from"] == LAST + 1


def test_two_moments_differ_by_what_is_new_and_neither_way_is_alike(client: TestClient) -> None:
    forth, back = get(client, "/diff", a=60, b=200), get(client, "/diff", a=200, b=60)
    new = {row["id"] for row in forth["rows"] if row["thing"] == "job" and row["change"] == "new"}
    assert new
    assert new == {row["id"] for row in back["rows"] if row["thing"] == "job" and row["change"] == "gone"}
    assert get(client, "/diff", a=200, b=200)["total"] == 0


def test_why_tells_of_a_job_as_it_was_at_a_moment(client: TestClient) -> None:
    submitted = all_events(client, type="JobSubmitted", order="oldest")[0]
    explained = get(client, f"/why/{submitted['job_id']}", at=submitted["offset"])
    assert (explained["type"], explained["log_offset"]) == ("job", submitted["offset"])
    assert [step["offset"] for step in explained["chain"]] == [submitted["offset"]]
    assert len(get(client, f"/why/{submitted['job_id']}")["chain"]) > 1


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        (f"/log/{LAST + 1}", 404, f"the log ends at {LAST}"),
        (f"/log/steps?at={LAST + 1}", 404, f"the log ends at {LAST}"),
        ("/log/yesterday", 400, "path.offset"),
        ("/log/events?type=JobSubmited", 400, "JobSubmitted"),
        ("/log/events?limit=1001", 400, "query.limit"),
        ("/log/events?after=5", 400, "after: it is not what a page gave"),
        ("/log/histogram?buckets=601", 400, "query.buckets"),
        ("/log/histogram?from=noon", 400, "from: 'noon' is neither"),
        ("/log/steps?job=a&task_manager=b", 400, "give one of"),
        ("/diff?a=1&b=1000000", 404, f"the log ends at {LAST}"),
        ("/why/nobody-knows-me", 404, "id not found in the log: 'nobody-knows-me'"),
        ("/jobs/job-1?at=2", 404, "job-1"),
        ("/cluster?at=1970-01-01", 410, "history begins at "),
    ],
)
def test_what_cannot_be_answered_is_refused_with_the_reason(client: TestClient, path: str, status: int, says: str) -> None:
    answer = client.get(f"/eventflink/v1{path}")
    assert answer.status_code == status, answer.text
    assert says in answer.json()["errors"][0]


def test_the_past_that_is_not_indexed_yet_is_refused_for_now_and_the_present_is_there() -> None:
    values, timestamps = [value for _, _, value in LOG], [timestamp_ms for _, timestamp_ms, _ in LOG]
    with client_of_log(values, timestamps, known=100) as client:
        bounds = get(client, "/log/bounds")
        assert (bounds["indexed_to"], bounds["last_offset"]) == (99, LAST)
        parts = [f"/log/{page}?{part}" for page in ("events", "histogram") for part in ("until=100", "from=100", "from=100&until=1000000")]
        for path in ("/cluster?at=100", "/log/100", "/log/steps?at=100", *parts):
            answer = client.get(f"/eventflink/v1{path}")
            assert answer.status_code == 503, path
            assert answer.json()["errors"][0].startswith("the log is indexed up to offset 99")
        between = client.get("/eventflink/v1/cluster", params={"at": bounds["indexed_to_at"]})
        assert between.status_code == 503
        assert get(client, "/masters")["masters"]
        for path in ("/masters", "/why/tm-1", "/log/events", "/log/histogram?until=50"):
            answer = client.get(f"/eventflink/v1{path}", headers={"X-Eventflink-Min-Offset": "100"})
            assert answer.status_code == 503, "what is demanded to be newer than the index is not answered from it"
        assert offset_of(client, at=99) == 99
        assert offset_of(client, at=LAST) == LAST
        assert places(get(client, "/log/events", until=99, limit=1)["events"])[0][0] == 99
        line = get(client, "/log/histogram")
        assert line["until"] == 100
