"""The dashboard's pages of jobs, attempts and TaskManagers, in a real Chromium over a recorded cluster: what they show and let one do."""

import shlex
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from eventflink.cli.commands.exceptions import exceptions
from eventflink.cli.commands.rerun import rerun
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import ExecutionState, JobStatus
from eventflink.reader.past.why import explain, tell_story
from tests.support.asked_log import book_of, records_of
from tests.support.browser import Tabs
from tests.support.cluster import ScriptedCluster, fixed_delay, graph, stream, vertex
from tests.support.dashboard_pages import NARROW, Dashboard
from tests.support.recorded_cluster import new_recording, recorded
from tests.support.rest_server import Served, served

PAGES: Final = (
    "/jobs/nightly-6",
    "/jobs/backfill-7?vertex=scan",
    "/jobs/nightly-4/bars",
    "/jobs/nightly-6/events",
    "/jobs/flaky-5/story",
    "/why/flaky-5",
    "/why/orders-1%2Ftotals%5B0%5D",
    "/why/tm-4",
    "/jobs/flaky-5/exceptions",
    "/jobs/orders-1/checkpoints",
    "/jobs/orders-1/flow?vertex=totals",
    "/jobs/orders-1/config",
    "/jobs/nightly-6/results",
    "/jobs/flaky-5/load/0/2",
    "/taskmanagers?by=job",
    "/taskmanagers/tm-4",
    "/data",
    "/runs",
    "/runs/nightly%20report",
    "/schedules",
    "/submit",
)
MAX_NODES: Final = 2_000
WORD: Final = "unbroken" * 32
LONG_ID: Final = "endless_name_" * 4
NODES: Final = "document.querySelectorAll('*').length"


@pytest.fixture(scope="module")
def serving() -> Iterator[Served]:
    with served(recorded().cluster, **{"spark.local.ui-port": "4040"}) as serving:
        yield serving


@pytest.fixture
def dashboard(browser: Tabs, serving: Served) -> Dashboard:
    return Dashboard(browser, serving.url)


def test_each_page_draws_without_an_error_and_can_be_used_by_everybody(dashboard: Dashboard) -> None:
    dashboard.show("/jobs")
    for path in PAGES:
        dashboard.go(path)
        assert dashboard.main.locator("h1").count() == 1, path
        dashboard.check_both_themes_and_widths()


@pytest.mark.parametrize("thing", ["flaky-5", "orders-1/totals[0]", "flaky-5/load[0]#1", "allocation-1", "tm-4", "cancel-nightly-4"])
def test_why_is_shown_as_the_command_line_tells_it(dashboard: Dashboard, thing: str) -> None:
    book = book_of(records_of(recorded().cluster))
    told = explain(book, thing, book.last_offset)
    dashboard.show(f"/why/{quote(thing, safe='')}")
    assert dashboard.main.locator("h1").inner_text() == told.id
    assert dashboard.main.locator(".job-title").get_by_text(f"{told.type} {told.state}", exact=True).count() == 1
    assert dashboard.main.locator(".job-sentence b").all_inner_texts() == [wait.what for wait in told.waits]
    chain = dashboard.main.get_by_role("region", name="What led there")
    assert chain.locator("ol > li .row-head > a").all_inner_texts() == [f"{step.offset:,}" for step in told.chain]
    assert chain.locator("ol > li .row-head > .clamp").all_inner_texts() == [step.cause or "a candidacy" for step in told.chain]
    assert chain.locator("ol > li .caption").count() == sum(len(step.events) for step in told.chain)


def test_the_head_of_a_job_has_no_value_without_its_name(dashboard: Dashboard) -> None:
    dashboard.show("/jobs/backfill-7")
    head = dashboard.main.locator("header.job-head")
    expect(head.get_by_role("heading", level=1)).to_be_visible()
    bare = head.evaluate(
        "head => [...head.childNodes].filter(each => each.nodeType === Node.TEXT_NODE).map(each => each.textContent.trim())"
    )
    assert [text for text in bare if text] == []


def test_a_job_leads_to_its_story_and_to_why_it_is_so(dashboard: Dashboard) -> None:
    book = book_of(records_of(recorded().cluster))
    dashboard.show("/jobs/flaky-5")
    dashboard.main.get_by_role("link", name="Story").click()
    dashboard.settle()
    lines = dashboard.main.get_by_role("table", name="Story of the job").locator("span[title]")
    expect(lines.first).to_be_visible()
    told = tell_story(book, "flaky-5", book.last_offset).lines
    shown = [line.get_attribute("title") for line in lines.all()]
    assert shown == [line.text for line in told[: len(shown)]]
    dashboard.main.get_by_role("link", name="why it is so").click()
    expect(dashboard.main.get_by_role("heading", name="What led there")).to_be_visible()


def test_a_stream_has_curves_of_what_its_checkpoints_told_and_a_click_goes_to_that_moment(dashboard: Dashboard) -> None:
    dashboard.show("/jobs/orders-1/flow?vertex=totals")
    curves = dashboard.main.get_by_role("region", name="How totals has flowed")
    behind = curves.get_by_role("img", name="Records behind:")
    behind.wait_for()
    names = [each.split(":")[0] for each in curves.get_by_role("img").evaluate_all("all => all.map(each => each.ariaLabel)")]
    assert names == ["Rows/s in", "Rows/s done", "Records behind", "Watermark back", "Batch took", "State"], "rows written are not known"
    box = behind.bounding_box()
    assert box is not None
    behind.click(position={"x": 2, "y": box["height"] / 2})
    dashboard.page.wait_for_url("**at=*")
    expect(curves).to_have_count(0)


def test_a_place_leads_to_the_newest_run_that_writes_it_and_to_all_its_runs(dashboard: Dashboard) -> None:
    dashboard.show("/data")
    headings = dashboard.main.get_by_role("heading", level=2).all_inner_texts()
    assert headings == ["Functions", "Results of batch jobs"]
    rows = dashboard.main.get_by_role("listitem")
    everything = rows.count()
    dashboard.main.get_by_role("searchbox").fill("nightly")
    expect(rows).not_to_have_count(everything)
    nightly = rows.filter(has_text="nightly").first
    expect(nightly).to_contain_text("written by")
    runs = nightly.get_by_role("link", name="newest of")
    assert "/ui/runs/nightly" in (runs.get_attribute("href") or "")
    nightly.get_by_role("link").first.click()
    dashboard.page.wait_for_url("**/jobs/nightly-*")


def test_a_job_near_its_time_limit_is_a_problem_and_shows_what_is_left(browser: Tabs) -> None:
    recording = new_recording()
    recording.register("tm", "tm.example")
    recording.seconds["late", "slow"] = 3_600
    recording.submit("late", graph(vertex("slow") | {"time_limit": "2h"}, time_limit="15m", time_limit_warning="14m"), "me")
    recording.pass_seconds(120)
    with served(recording.cluster) as serving:
        dashboard = Dashboard(browser, serving.url)
        dashboard.show("/")
        dashboard.main.get_by_role("link", name="Job 'late' has used up most of its time limit of 15m").click()
        dashboard.page.wait_for_url("**/jobs/late")
        expect(dashboard.main.locator(".job-facts").first).to_contain_text("time limit 15 min, up ")
        dashboard.go("/jobs/late/config")
        settings = dashboard.main.get_by_role("region", name="Settings")
        expect(settings).to_contain_text("slow: 2 h")


def test_no_page_is_wider_than_a_phone_whatever_it_has_to_say(browser: Tabs) -> None:
    recording = new_recording()
    trace = f'Traceback (most recent call last):\n  File "/{WORD}.zip/{WORD}.py", line 5, in {WORD}\n    {WORD}({WORD})\n{WORD}: {WORD}'
    recording.failures = {("long", LONG_ID, 0, attempt): FailureCause(WORD, f"{WORD} /{WORD}/{WORD}", trace) for attempt in (1, 2)}
    recording.register(LONG_ID, f"{LONG_ID}.example")
    recording.submit("long", graph(vertex(LONG_ID), name=WORD, restart_strategy=fixed_delay(1, 1_000)), WORD)
    recording.submit(LONG_ID, graph(vertex(LONG_ID, 9), stream("s"), name=WORD), WORD)
    recording.command(WORD, "refused", type="CancelJob", job_id=LONG_ID + "-not")
    schedule = {"interval": "1s", "jitter": "1s", "description": WORD, "job": graph(vertex(LONG_ID), name=WORD)}
    recording.command(WORD, "schedule", type="PutSchedule", schedule_id=LONG_ID, definition=schedule)
    recording.pass_seconds(30)
    recording.command(WORD, "pause", type="PauseSchedule", schedule_id=LONG_ID, reason=WORD)
    with served(recording.cluster) as serving:
        browser.context.route("**/masters/present*", lambda route: route.abort())
        browser.context.route("**/dead-letters*", lambda route: route.abort())
        browser.expect("/dead-letters|/masters/present")
        dashboard = Dashboard(browser, serving.url)
        dashboard.show("/")
        failed = next(n for n, d in enumerate(recording.cluster.decisions()) if any(type(e).__name__ == "TaskFailed" for e in d.events))
        tabs = ("", "/bars", "/events", "/exceptions", "/config", "/results", f"/{LONG_ID}/0/1")
        jobs = [f"/jobs/{job}{tab}" for job in ("long", LONG_ID) for tab in (*tabs, f"?vertex={LONG_ID}")]
        tasks = ("/taskmanagers", f"/taskmanagers/{LONG_ID}")
        others = (
            "/",
            "/jobs",
            "/data",
            "/runs",
            f"/runs/{WORD}",
            "/schedules",
            f"/schedules/{LONG_ID}",
            "/waits",
            *tasks,
            "/masters",
            "/log",
            f"/log/{failed}",
            "/refused",
            "/submit",
        )
        for path in (*others, "/diff?vs=1&at=12", *jobs, f"/jobs/{LONG_ID}/checkpoints", f"/jobs/{LONG_ID}/flow"):
            dashboard.go(path)
            dashboard.check_it_fits(NARROW)


def test_a_page_of_the_past_counts_to_its_moment_and_lets_nothing_be_ordered(dashboard: Dashboard) -> None:
    dashboard.show("/jobs/nightly-4/clean/0/1?at=150")
    assert dashboard.settle() == 150
    dashboard.go("/jobs/orders-1?at=150")
    expect(dashboard.main.locator(".job-facts")).to_contain_text("for 10 min")
    dashboard.page.get_by_role("button", name="Actions").click()
    dashboard.page.get_by_role("menuitem", name="Cancel the job").click()
    dialog = dashboard.page.get_by_role("dialog")
    expect(dialog.get_by_text("What the leader would have decided at 150")).to_be_visible()
    expect(dialog.get_by_role("button", name="Cancel orders")).to_have_count(0)
    dialog.get_by_role("button", name="Return to now").click()
    expect(dashboard.page.locator(".moment")).to_have_count(0)
    assert dashboard.pinned() is None


def test_a_task_manager_leads_to_sparks_own_pages_as_they_are_now(dashboard: Dashboard) -> None:
    dashboard.show("/taskmanagers/tm-4")
    host = dashboard.main.locator(".crumbs").inner_text().rpartition("▸")[2].strip()
    link = dashboard.main.get_by_role("link", name="Spark's UI")
    expect(link).to_have_attribute("href", f"http://{host}:4040/")
    dashboard.go("/taskmanagers/tm-4?at=150")
    expect(link).to_have_count(0)


def test_the_failures_of_a_job_end_with_the_commands_that_show_their_traces_and_run_it_again(dashboard: Dashboard) -> None:
    dashboard.show("/jobs/flaky-5/exceptions")
    traces, again = (shlex.split(command) for command in dashboard.main.locator(".command").all_inner_texts())
    given = exceptions.make_context("exceptions", traces[2:]).params
    assert (traces[:2], given["job_id"], given["trace"]) == (["eventflink", "exceptions"], "flaky-5", True)
    given = rerun.make_context("rerun", again[2:]).params
    assert (again[:2], given["rerun_of"]) == (["eventflink", "rerun"], "flaky-5")


def test_arrow_keys_go_along_the_edges_of_a_graph_and_enter_shows_the_subtasks(dashboard: Dashboard) -> None:
    dashboard.show("/jobs/nightly-6")
    page = dashboard.page
    page.locator("[data-vertex=extract]").focus()
    for key, reached in (("ArrowRight", "clean"), ("ArrowRight", "join"), ("ArrowRight", "aggregate"), ("ArrowLeft", "join")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.dataset.vertex") == reached
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Subtasks of join")).to_be_visible()
    assert "vertex=join" in page.url
    assert page.locator(".vertex[tabindex='0']").count() == 1, "one stop of the Tab key, whatever the graph"


def test_the_view_that_is_shown_is_in_sight_on_a_phone(dashboard: Dashboard) -> None:
    dashboard.page.set_viewport_size({"width": 390, "height": 760})
    for path in ("/jobs/orders-1/results", "/taskmanagers/tm-1/events"):
        dashboard.show(path)
        expect(dashboard.page.locator(".tabs [aria-current]")).to_be_in_viewport(ratio=1)


def test_a_menu_and_its_dialog_are_used_by_keys_and_give_the_focus_back(dashboard: Dashboard) -> None:
    dashboard.show("/jobs/orders-1")
    page = dashboard.page
    page.get_by_role("button", name="Actions").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Take a checkpoint")).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_role("menuitem", name="Cancel the job")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Cancel the job")).to_be_visible()
    dashboard.tabs.check_accessibility(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Actions")).to_be_focused()


def test_a_job_is_cancelled_after_what_that_does_was_shown(browser: Tabs) -> None:
    with served(recorded().cluster) as serving:
        dashboard = Dashboard(browser, serving.url)
        dashboard.show("/jobs/backfill-7")
        page = dashboard.page
        page.get_by_role("button", name="Actions").click()
        page.get_by_role("menuitem", name="Cancel the job").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_text("16 tasks are cancelled, 1 job is cancelled")).to_be_visible()
        dialog.get_by_role("button", name="Cancel backfill 2025").click()
        expect(page.get_by_text("accepted at")).to_be_visible()
        expect(page.locator(".job-title .chip")).to_contain_text("CANCEL")
        assert serving.cluster.job("backfill-7").status in (JobStatus.CANCELLING, JobStatus.CANCELED)


def test_a_job_shows_its_parameters_and_runs_again_with_another_one(browser: Tabs) -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    parameters = {"day": {"type": "date", "value": "2026-11-25"}, "least": {"type": "integer", "default": 100}}
    cluster.run(cluster.submit(graph(vertex("a"), name="daily", parameters=parameters), job_id="daily-25"))
    with served(cluster) as serving:
        dashboard = Dashboard(browser, serving.url)
        dashboard.show("/jobs/daily-25")
        page = dashboard.page
        expect(page.get_by_label("Parameters")).to_have_text("day 2026-11-25least 100")
        dashboard.check_both_themes_and_widths()
        page.get_by_role("button", name="Actions").click()
        page.get_by_role("menuitem", name="Run the job again").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("day").fill("24.11.2026")
        expect(dialog.get_by_text("InvalidParameters")).to_be_visible()
        expect(dialog.get_by_text("must be a date, not '24.11.2026'")).to_be_visible()
        dialog.get_by_label("day").fill("2026-11-24")
        expect(dialog.get_by_text("would be accepted")).to_be_visible()
        dialog.get_by_role("button", name="Run daily again").click()
        expect(page.get_by_label("Parameters")).to_have_text("day 2026-11-24least 100")


def test_a_document_is_checked_and_drawn_while_one_types_and_then_submitted(browser: Tabs) -> None:
    with served(recorded().cluster) as serving:
        dashboard = Dashboard(browser, serving.url)
        dashboard.show("/submit")
        page = dashboard.page
        document = page.get_by_label("The document, in YAML or JSON")
        document.fill("name: hello\nvertices: [{id: only}]\n")
        expect(page.get_by_role("status").get_by_text("python").first).to_be_visible()
        assert page.get_by_role("button", name="Submit the job").is_disabled()
        document.fill("name: hello\nvertices: [{id: only, sql: SELECT 1}]\n")
        expect(page.locator("[data-vertex=only]")).to_be_visible()
        page.get_by_role("button", name="Submit hello").click()
        expect(page.get_by_role("heading", name="hello")).to_be_visible()
        assert "hello" in {job.execution_graph.graph.name for job in serving.cluster.master.dispatcher.jobs.values()}


def test_a_job_is_submitted_with_values_of_the_parameters_that_its_document_declares(browser: Tabs) -> None:
    browser.expect("/dry-run: 400|status of 400")
    with served(recorded().cluster) as serving:
        dashboard = Dashboard(browser, serving.url)
        dashboard.show("/submit")
        page = dashboard.page
        declared = "parameters: {day: {type: date, description: which one}, least: {type: integer, default: 100}}"
        page.get_by_label("The document, in YAML or JSON").fill(f"name: daily\nvertices: [{{id: only, sql: SELECT 1}}]\n{declared}\n")
        expect(page.get_by_label("least")).to_have_value("100")
        expect(page.get_by_text("date; it has to be given; which one")).to_be_visible()
        page.get_by_label("day").fill("tomorrow")
        expect(page.get_by_text("must be a date, not 'tomorrow'")).to_be_visible()
        page.get_by_label("day").fill("2026-11-25")
        expect(page.get_by_text("would be accepted")).to_be_visible()
        expect(page.get_by_text("eventflink submit job.yaml --param 'day=2026-11-25'")).to_be_visible()
        dashboard.check_both_themes_and_widths()
        page.get_by_role("button", name="Submit daily").click()
        expect(page.get_by_role("heading", name="daily")).to_be_visible()
        expect(page.get_by_label("Parameters")).to_have_text("day 2026-11-25least 100")


def test_a_job_runs_again_from_the_vertex_that_is_chosen(browser: Tabs) -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    effects = cluster.submit(graph(vertex("a"), vertex("b"), edges=[("a", "b", "hash")], name="daily"), job_id="daily-25")
    cluster.run(effects, lambda task: ExecutionState.FAILED if task.vertex_id == "b" else ExecutionState.FINISHED)
    with served(cluster) as serving:
        dashboard = Dashboard(browser, serving.url)
        dashboard.show("/jobs/daily-25")
        page = dashboard.page
        page.get_by_role("button", name="Actions").click()
        page.get_by_role("menuitem", name="Run again from a vertex").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Vertex").select_option("b")
        expect(dialog.get_by_text("would be accepted")).to_be_visible()
        dialog.get_by_role("button", name="Run daily again from a vertex").click()
        expect(page.get_by_role("link", name="daily-25")).to_be_visible()
        [again] = [job for job in serving.cluster.master.dispatcher.jobs.values() if job.rerun_of == "daily-25"]
        assert again.execution_graph.vertices["a"].subtasks[0].state is ExecutionState.FINISHED, "it is reused"


def test_ten_thousand_subtasks_take_few_nodes_and_can_be_scrolled(browser: Tabs) -> None:
    cluster = ScriptedCluster(check_digests=False, check_states=False)
    cluster.register(slots=8)
    cluster.submit(graph(vertex("many", 4_096), vertex("more", 4_096), vertex("others", 1_808)))
    with served(cluster) as serving:
        dashboard = Dashboard(browser, serving.url)
        page = dashboard.page
        for path, box, last in (
            ("/jobs/job?vertex=many", ".table-box", page.get_by_role("link", name="4095", exact=True)),
            ("/jobs/job/bars", ".bars", page.get_by_role("button", name="next")),
        ):
            dashboard.show(path)
            assert page.evaluate(NODES) < MAX_NODES
            page.locator(box).evaluate("element => { element.scrollTop = element.scrollHeight }")
            expect(last).to_be_visible()
            assert page.evaluate(NODES) < MAX_NODES
