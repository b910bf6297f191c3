"""The dashboard in a real browser: every page settles, is accessible and fits; the bar, the keys and links move all of them."""

import csv
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from eventflink.audit.database import AuditDatabase, tables_of
from eventflink.audit.filters import EventFilter, Range, Wanted
from eventflink.cli.commands.events import events
from eventflink.events.topics import Topic
from eventflink.rest.access.identity import AccessRole
from eventflink.rest.access.tokens import mint_token
from tests.support.asked_log import entries_of
from tests.support.cluster import ScriptedCluster, graph, vertex
from tests.support.dashboard_pages import Dashboard
from tests.support.recorded_cluster import BEGAN_MS, Recording, recorded
from tests.support.rest_server import Served, served
from tests.support.scenarios import with_queues, with_something_parked

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect, Locator, Route

    from tests.support.browser import Tabs

PAGES = [
    "/",
    "/jobs?status=FAILED&name=fl",
    "/waits?all=1&at=120",
    "/masters",
    "/log/150?job=flaky-5",
    "/refused",
    "/diff?vs=100&at=200",
    "/jobs?at=3",
]
MANY = 1_500
OF_KAFKA = re.compile("/dead-letters|/masters/present")
"""What is asked of Kafka, which these tests have not."""


@pytest.fixture(scope="module")
def recording() -> Recording:
    return recorded()


@pytest.fixture(scope="module")
def server(recording: Recording) -> Iterator[Served]:
    with served(recording.cluster) as server:
        yield server


@pytest.fixture
def dashboard(browser: "Tabs", server: Served) -> Dashboard:
    browser.context.route(OF_KAFKA, lambda route: route.abort())
    browser.expect(OF_KAFKA.pattern)
    return Dashboard(browser, server.url)


def test_every_page_settles_without_an_error_accessible_and_as_narrow_as_a_phone(dashboard: Dashboard) -> None:
    dashboard.show("/jobs")
    for path in PAGES:
        dashboard.go(path)
        dashboard.check_both_themes_and_widths()


def test_what_is_parked_leads_from_the_cluster_to_the_command_that_ends_it(browser: "Tabs") -> None:
    with served(with_something_parked()) as server:
        browser.context.route(OF_KAFKA, lambda route: route.abort())
        browser.expect(OF_KAFKA.pattern)
        dashboard = Dashboard(browser, server.url)
        dashboard.show("/")
        dashboard.main.get_by_role("link", name="RequestWorkers could not be decided").click()
        dashboard.settle()
        dashboard.check_both_themes_and_widths()
        dashboard.main.get_by_text("eventflink parked drop parked-1").wait_for()


def test_the_page_of_waits_shows_the_queues_of_jobs(browser: "Tabs") -> None:
    with served(with_queues()) as server:
        browser.context.route(OF_KAFKA, lambda route: route.abort())
        browser.expect(OF_KAFKA.pattern)
        dashboard = Dashboard(browser, server.url)
        dashboard.show("/waits")
        dashboard.check_both_themes_and_widths()
        dashboard.main.get_by_role("heading", name="The share of its queue").wait_for()
        dashboard.main.get_by_text("queue 'adhoc' holds 2 slots, as many as it may").wait_for()
        dashboard.main.get_by_text("etl", exact=True).wait_for()
        dashboard.go("/jobs/flood")
        dashboard.main.get_by_text("priority 7").wait_for()


def test_a_drag_of_the_bar_shows_the_cluster_of_that_moment_and_back_leads_to_now(dashboard: Dashboard, recording: Recording) -> None:
    dashboard.show("/")
    now = dashboard.settle()
    assert now == len(recording.cluster.log) - 1
    track = dashboard.page.locator(".scrub-canvas canvas").bounding_box()
    assert track is not None
    dashboard.page.mouse.move(track["x"] + track["width"] - 2, track["y"] + 36)
    dashboard.page.mouse.down()
    for share in (0.8, 0.6, 0.5, 0.4):
        dashboard.page.mouse.move(track["x"] + track["width"] * share, track["y"] + 36)
    dashboard.page.mouse.up()
    dashboard.page.wait_for_url("**at=*")
    past = dashboard.pinned()
    assert past is not None
    assert 20 < past < now - 20
    dashboard.settle_at(past)
    assert dashboard.page.get_by_label("The moment that is shown").is_visible()
    assert dashboard.slider.get_attribute("aria-valuenow") == str(past)
    dashboard.page.go_back()
    dashboard.settle_at(now)
    assert dashboard.pinned() is None


def test_two_fingers_on_the_bar_show_less_of_the_log_and_pin_nothing(dashboard: Dashboard) -> None:
    dashboard.show("/")
    track = dashboard.page.locator(".scrub-canvas canvas").bounding_box()
    assert track is not None
    hand = dashboard.page.context.new_cdp_session(dashboard.page)

    def touch(kind: str, *shares: float) -> None:
        points = [{"x": track["x"] + share * track["width"], "y": track["y"] + 36, "id": n} for n, share in enumerate(shares)]
        hand.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 0.4, 0.6)
    touch("touchMove", 0.3, 0.7)
    touch("touchMove", 0.2, 0.8)
    touch("touchEnd")
    dashboard.page.wait_for_url(re.compile(r"z=\d+-\d+"))
    [(first, last)] = re.findall(r"z=(\d+)-(\d+)", dashboard.page.url)
    assert 0 < int(first) < int(last) < dashboard.settle()
    assert dashboard.pinned() is None


def test_times_are_shown_and_typed_in_the_zone_that_somebody_names(dashboard: Dashboard) -> None:
    dashboard.show("/?at=150")
    page = dashboard.page
    page.get_by_role("button", name="Times are in").click()
    page.get_by_role("menuitem", name="Another").click()
    page.get_by_label("Name, such as").fill("Nowhere/Land")
    dashboard.press("Enter")
    page.get_by_role("alert").get_by_text("knows no zone").wait_for()
    page.get_by_label("Name, such as").fill("Asia/Kathmandu")
    dashboard.press("Enter")
    page.get_by_role("dialog").wait_for(state="hidden")
    strip = page.get_by_label("The moment that is shown")
    strip.get_by_text("Asia/Kathmandu").wait_for()
    page.locator("#search").fill("07:50")  # 02:05 in UTC
    dashboard.press("Enter")
    page.wait_for_url(re.compile(r"at=(?!150)\d+"))
    pinned = dashboard.pinned()
    dashboard.show("/?t=2026-11-22T02:05Z")
    page.wait_for_url("**at=*")
    assert dashboard.pinned() == pinned
    strip.get_by_text(re.compile("07:4[0-9]|07:50:00")).wait_for()


def test_keys_step_to_the_events_that_concern_a_page_record_by_record_and_to_marks(dashboard: Dashboard) -> None:
    dashboard.show("/?at=150")
    for key, expected in ((",", 149), (".", 150), ("[", 149), ("]", 150)):
        dashboard.press(key)
        dashboard.settle_at(expected)
    dashboard.press("}")
    dashboard.page.wait_for_url(re.compile(r"at=1(5[1-9]|[6-9]\d)"))
    dashboard.slider.focus()
    dashboard.press("Home")
    dashboard.settle_at(0)
    dashboard.press("End")
    dashboard.page.wait_for_function("!location.search.includes('at=')")
    dashboard.press("g")
    dashboard.press("w")
    dashboard.page.wait_for_url("**/ui/waits")


def test_a_link_shows_another_person_the_same_moment(dashboard: Dashboard, recording: Recording) -> None:
    dashboard.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    dashboard.show("/jobs")
    dashboard.press("y")
    dashboard.page.get_by_text("Copied a link to this moment").wait_for()
    link = dashboard.page.evaluate("navigator.clipboard.readText()")
    seen = dashboard.main.inner_text()
    assert f"at={len(recording.cluster.log) - 1}" in link
    other = dashboard.page.context.new_page()
    other.clock.set_fixed_time("2027-01-01T00:00:00Z")
    other.goto(link)
    other.wait_for_selector(f'html[data-settled="{len(recording.cluster.log) - 1}"]', state="attached")
    words = [re.sub(r"\d+ (min|s|h|d|ms)( \d+ s)?( ago)?", "", text) for text in (seen, other.locator("main").inner_text())]
    assert words[0].split() == words[1].split()


def test_what_is_compared_is_said_in_one_sentence_with_old_and_new_values(dashboard: Dashboard) -> None:
    dashboard.show("/jobs?at=100")
    dashboard.press("a")
    dashboard.page.wait_for_url("**vs=100*")
    dashboard.page.goto(f"{dashboard.url}/ui/diff?vs=100&at=200")
    dashboard.settle()
    assert "epoch 1 → 2" in dashboard.main.get_by_role("heading", level=1).inner_text()
    assert (
        "RUNNING" in dashboard.main.get_by_role("listitem").filter(has_text="nightly report, again").filter(has_text="status").inner_text()
    )
    dashboard.press("x")
    dashboard.page.wait_for_url("**vs=200*")


def test_a_decision_leads_to_what_it_was_because_of_and_to_what_it_led_to(dashboard: Dashboard, recording: Recording) -> None:
    failed = next(n for n, d in enumerate(recording.cluster.decisions()) if any(type(e).__name__ == "TaskFailed" for e in d.events))
    dashboard.show(f"/log/{failed}")
    panel = dashboard.page.get_by_role("complementary", name=f"Decision {failed}")
    assert "OSError" in panel.inner_text()
    led_to = panel.locator(".chain").last.get_by_role("link").first
    target = led_to.get_attribute("href")
    assert target is not None
    led_to.click()
    # Once the list is there, links say where it stays (`?around=…`): it may have come since the link was read.
    dashboard.page.wait_for_url(re.compile(rf"{re.escape(target.partition('?')[0])}(\?|$)"))
    dashboard.page.go_back()
    panel.get_by_role("button", name="Show the cluster here").click()
    dashboard.settle_at(failed)


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_the_list_is_where_the_decision_is_that_was_opened_by_its_address(dashboard: Dashboard, order: str) -> None:
    dashboard.show(f"/log/150?order={order}")
    chosen = dashboard.main.locator("tr.chosen").first
    chosen.wait_for()
    assert chosen.locator("td").first.inner_text() == "150"
    assert chosen.is_visible()
    offsets = [int(text.replace(",", "")) for text in dashboard.main.locator("tbody tr td:first-child").all_inner_texts() if text]
    assert min(offsets) < 150 < max(offsets)
    other = dashboard.main.locator("tbody tr:not(.chosen) td:first-child a").last
    text = other.inner_text()
    other.click()
    dashboard.page.wait_for_url(f"**/log/{text}*")
    dashboard.page.locator("tr.chosen").first.wait_for()
    assert "around=150" in dashboard.page.url, "the list stays where it is"
    dashboard.main.get_by_role("button", name="Close").click()
    dashboard.main.get_by_role("button", name=f"From the {order}").click()
    dashboard.page.wait_for_url(f"**/log?order={order}")
    dashboard.main.get_by_text("around 150").wait_for(state="detached")


def test_what_a_table_shows_is_taken_elsewhere_whole_and_its_command_and_query_give_the_same(
    dashboard: Dashboard, recording: Recording
) -> None:
    page = dashboard.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    def saved(item: str) -> str:
        page.get_by_role("button", name="Export").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=item).click()
        return download.value.path().read_text()

    def copied(item: str, what: str) -> str:
        page.get_by_role("button", name="Export").click()
        page.get_by_role("menuitem", name=item).click()
        page.get_by_text(f"Copied {what}").wait_for()
        return str(page.evaluate("navigator.clipboard.readText()"))

    dashboard.show("/log?type=TaskStateChanged&at=200")
    exported = json.loads(saved("Save all rows as JSON"))
    assert len(exported) > dashboard.main.get_by_role("row").count(), "also those that are not in sight"
    places = [(event["offset"], event["index"]) for event in exported]
    sql = copied("Copy as SQL", "the query")
    database = AuditDatabase(tables_of(sql))
    try:
        database.check(sql)
        database.load(entries_of(recording.cluster))
        assert [tuple(row[:2]) for row in database.ask(sql).rows()] == places
    finally:
        database.close()
    program, name, *words = shlex.split(copied("Copy as command", "the command"))
    assert (program, name) == ("eventflink", events.name)
    given = events.make_context(name, words).params
    wanted = EventFilter(Wanted(given["types"], given["job_id"], given["task_manager_id"]))
    known = Range(given["first"], given["last"])
    printed = [(entry.offset, n) for entry in entries_of(recording.cluster) for n in wanted.choose(entry) if known.holds(entry)]
    assert printed == places[::-1], "a terminal shows the newest last"
    dashboard.show("/jobs?status=FINISHED&at=200")
    rows = list(csv.DictReader(saved("Save all rows as CSV").splitlines()))
    assert {row["job_id"] for row in rows} == set(re.findall(r"/ui/jobs/([^?\"]+)\?at", dashboard.main.inner_html()))


def test_a_switch_hides_checkpoints_that_went_well_and_nothing_else_in_the_log_and_of_a_job(
    dashboard: Dashboard, recording: Recording
) -> None:
    counted = Counter(type(event).__name__ for decision in recording.cluster.decisions() for event in decision.events)
    hidden = {"CheckpointTriggered", "CheckpointAcknowledged", "CheckpointCompleted", "CheckpointSubsumed"}
    assert all(counted[name] for name in hidden - {"CheckpointSubsumed"})
    for path in ("/log?from=0", "/jobs/orders-1/events"):
        dashboard.show(path)
        assert dashboard.main.get_by_text("CheckpointCompleted").count() > 0
        dashboard.main.get_by_label("hide checkpoints").click()
        dashboard.page.wait_for_url("**checkpoints=hidden*")
        dashboard.main.get_by_text("CheckpointCompleted").first.wait_for(state="detached")
        dashboard.settle()
        assert dashboard.main.get_by_text("JobSubmitted").count() + dashboard.main.get_by_text("StreamStarted").count() > 0
    asked = "".join(f"&without={name}" for name in hidden)
    answer = dashboard.page.request.get(f"{dashboard.url}/eventflink/v1/log/events?limit=1000{asked}").json()["body"]["events"]
    shown = Counter(event["type"] for event in answer)
    assert shown == {name: count for name, count in counted.items() if name not in hidden}


def test_an_empty_cluster_teaches_and_what_happens_then_shows_by_itself(browser: "Tabs") -> None:
    cluster = ScriptedCluster(wall_ms=BEGAN_MS)
    with served(cluster) as server:
        dashboard = Dashboard(browser, server.url)
        dashboard.show("/")
        assert "eventflink submit" in dashboard.main.inner_text()
        dashboard.check_both_themes_and_widths()
        server.change(lambda: [cluster.register("tm-1"), cluster.submit(graph(vertex("a", 5), name="first"))])
        dashboard.page.get_by_text("1 task waits for a slot").first.wait_for()
        cluster.master_id = "master-2"
        server.change(cluster.fail_over)
        dashboard.main.get_by_role("link", name="Leader").filter(has_text="master-2").wait_for()
        dashboard.page.close()


def test_a_page_stays_while_the_server_is_away_and_goes_on_when_it_is_back(dashboard: Dashboard) -> None:
    dashboard.tabs.expect("ERR_INTERNET_DISCONNECTED")
    dashboard.show("/jobs")
    dashboard.page.context.set_offline(offline=True)
    dashboard.main.get_by_role("button", name=re.compile("FAILED")).click()
    dashboard.main.get_by_text("the server cannot be reached. Trying again").wait_for()
    assert dashboard.main.get_by_role("row").count() > 2
    dashboard.page.context.set_offline(offline=False)
    dashboard.main.get_by_role("button", name="Try now").click()
    dashboard.main.get_by_text("1 of 7").wait_for()
    dashboard.settle()


def test_whoever_has_no_token_logs_in_first(browser: "Tabs", tmp_path: Path) -> None:
    browser.expect(": 401")
    token = mint_token(tmp_path / "tokens", "ann", AccessRole.VIEWER)
    with served(ScriptedCluster(wall_ms=BEGAN_MS), **{"rest.tokens-file": str(tmp_path / "tokens")}) as server:
        dashboard = Dashboard(browser, server.url)
        dashboard.show("/", settled=False)
        dashboard.page.get_by_label("Token").fill("something")
        dashboard.press("Enter")
        dashboard.page.get_by_role("alert").wait_for()
        dashboard.page.get_by_label("Token").fill(token)
        dashboard.press("Enter")
        dashboard.page.get_by_text("This cluster is new.").wait_for()
        assert "ann viewer" in dashboard.page.locator("header.head").inner_text()
        dashboard.page.close()


def test_thousands_of_jobs_are_a_table_of_few_elements_that_do_not_move_when_others_come(browser: "Tabs") -> None:
    cluster = ScriptedCluster(wall_ms=BEGAN_MS, check_digests=False, check_states=False)
    for number in range(MANY):
        _submit(cluster, number)
    cluster.settle()
    with served(cluster) as server:
        dashboard = Dashboard(browser, server.url)
        dashboard.show("/jobs")
        box = dashboard.page.get_by_role("region", name="Jobs")
        box.evaluate("box => box.scrollTo(0, box.scrollHeight)")
        box.get_by_role("link", name="job 0", exact=True).wait_for()
        assert dashboard.page.evaluate("document.getElementsByTagName('*').length") < 2_000
        assert box.locator("table").get_attribute("aria-rowcount") == str(MANY + 1)
        for place, looked_at in ((20_000, "job 7"), (0, "job 14")):  # The reader has scrolled; the reader points at a row.
            box.evaluate(f"box => box.scrollTo(0, {place})")
            box.get_by_role("link", name="job 0", exact=True).wait_for(state="detached")
            row = box.get_by_role("link", name=re.compile(looked_at)).first
            row.hover()
            before = row.inner_text(), row.bounding_box()
            total = len(cluster.master.dispatcher.jobs)
            for number in range(total, total + 3):
                _submit(cluster, number)
            server.change(cluster.settle)
            announced = box.get_by_role("button", name="3 new ↑")
            announced.wait_for()
            row = box.get_by_role("link", name=before[0], exact=True)
            assert (row.inner_text(), row.bounding_box()) == before
            announced.click()
            box.get_by_role("link", name=f"job {total + 2}", exact=True).wait_for()
            assert announced.count() == 0
        dashboard.show("/log")
        box = dashboard.page.get_by_role("region", name="Events of the log")
        cell = box.get_by_role("row").nth(3)
        cell.hover()
        before = cell.inner_text(), cell.bounding_box()
        _submit(cluster, 9_999)
        server.change(cluster.settle)
        announced = box.get_by_role("button", name=re.compile(r"\d new ↑"))
        announced.wait_for()
        assert (cell.inner_text(), cell.bounding_box()) == before
        announced.click()
        cell.filter(has_text="job-09999").wait_for()
        dashboard.page.close()


def test_rows_stay_where_a_reader_scrolls_while_newer_ones_are_under_way(browser: "Tabs") -> None:
    cluster = ScriptedCluster(wall_ms=BEGAN_MS, check_digests=False, check_states=False)
    for number in range(400):
        _submit(cluster, number)
    cluster.settle()
    with served(cluster) as server:
        dashboard = Dashboard(browser, server.url)
        dashboard.show("/jobs")
        page = dashboard.page
        under_way: list[Route] = []

        def hold(route: "Route") -> None:
            under_way.append(route)

        page.route(lambda url: "/jobs?" in url and "first=" not in url, hold)
        for number in range(400, 403):
            _submit(cluster, number)
        with page.expect_request(lambda request: "/jobs?" in request.url):
            server.change(cluster.settle)
        box = page.get_by_role("region", name="Jobs")
        box.evaluate("box => box.scrollTo(0, 5000)")
        row = box.get_by_role("link", name="job 220", exact=True)
        row.wait_for()
        before = _box_at_rest(row)
        for route in under_way:
            route.continue_()
        page.unroute_all()
        box.get_by_role("button", name="3 new ↑").wait_for()
        assert row.bounding_box() == before
        page.close()


def _box_at_rest(element: "Locator") -> "FloatRect | None":
    """Return where an element stands once two looks in a row, a drawn frame apart, find it there."""
    last = element.bounding_box()
    while True:
        element.page.evaluate("() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        if (now := element.bounding_box()) == last:
            return now
        last = now


def _submit(cluster: ScriptedCluster, number: int) -> None:
    document = {"job_graph": graph(vertex("a"), name=f"job {number}"), "job_id": f"job-{number:05d}", "actor": "ann"}
    cluster.put(Topic.SUBMISSIONS, json.dumps(document).encode())
