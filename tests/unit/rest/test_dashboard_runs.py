"""The dashboard's pages of names and of the runs of a name, in a real Chromium: a grid in words, bounded, whatever the name."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from eventflink.events.effects import TaskDeployment
from eventflink.model.statuses import ExecutionState
from tests.support.browser import Tabs
from tests.support.cluster import ScriptedCluster, graph, vertex
from tests.support.dashboard_pages import NARROW, Dashboard
from tests.support.recorded_cluster import recorded
from tests.support.rest_server import Served, served

MAX_NODES: Final = 2_000
NODES: Final = "document.querySelectorAll('*').length"
NAMES: Final = ("a/b?c=1#d%2F", "..", "x" * 256, "<b>\x1b\u202e</b>")


@pytest.fixture(scope="module")
def serving() -> Iterator[Served]:
    with served(recorded().cluster) as serving:
        yield serving


@pytest.fixture
def dashboard(browser: Tabs, serving: Served) -> Dashboard:
    return Dashboard(browser, serving.url)


def run(cluster: ScriptedCluster, job_id: str, name: str, *vertices: str, fails: str = "") -> None:
    document = graph(*[vertex(each) for each in vertices]) | {"name": name}
    ends = {fails: ExecutionState.FAILED}

    def end(task: TaskDeployment) -> ExecutionState:
        return ends.get(task.vertex_id, ExecutionState.FINISHED)

    cluster.run(cluster.submit(document, job_id=job_id), end)
    cluster.pass_time(1_000)


def test_the_list_of_jobs_leads_to_the_runs_of_a_name_and_these_to_each_run(dashboard: Dashboard) -> None:
    dashboard.show("/jobs")
    dashboard.main.get_by_role("link", name="Runs of nightly report", exact=True).first.click()
    dashboard.page.wait_for_url("**/runs/nightly%20report")
    dashboard.settle()
    expect(dashboard.main.get_by_role("heading", level=1)).to_have_text("nightly report")
    grid = dashboard.main.get_by_role("region", name="Runs of nightly report and their vertices")
    rows = grid.get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("nightly-6")
    said = rows.nth(1).get_by_role("img").evaluate_all("all => all.map(each => each.ariaLabel)")
    assert said[0].startswith("extract: FINISHED after 28.0 s, ")
    assert len(said) == 6
    rows.nth(2).get_by_role("link", name="nightly-3").click()
    dashboard.page.wait_for_url("**/jobs/nightly-3")
    dashboard.settle()
    dashboard.main.get_by_role("link", name="all its runs").click()
    dashboard.page.wait_for_url("**/runs/nightly%20report")


def test_names_are_found_and_opened_by_the_keyboard(dashboard: Dashboard) -> None:
    dashboard.show("/runs")
    rows = dashboard.main.get_by_role("region", name="Names of jobs").get_by_role("row")
    everything = rows.count()
    dashboard.main.get_by_role("searchbox").fill("REPORT, a")
    expect(rows).to_have_count(2)
    assert everything > 2
    rows.nth(1).get_by_role("link").focus()
    dashboard.press("Enter")
    dashboard.page.wait_for_url("**/runs/nightly%20report%2C%20again*")


def test_of_the_past_there_are_the_runs_that_were_known_then(dashboard: Dashboard) -> None:
    dashboard.show("/runs/nightly%20report")
    versions = dashboard.main.get_by_role("listitem")
    expect(versions).to_have_count(1)
    dashboard.go("/runs/nightly%20report?at=5")
    expect(dashboard.main).to_contain_text("No run of this name was known at this moment.")


def test_any_name_has_a_page_that_shows_it_and_fits(browser: Tabs) -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=4)
    for number, name in enumerate(NAMES):
        run(cluster, f"job-{number}", name, "a")
    with served(cluster) as serving:
        dashboard = Dashboard(browser, serving.url)
        dashboard.show("/runs")
        dashboard.check_it_fits(NARROW)
        links = dashboard.main.get_by_role("region", name="Names of jobs").get_by_role("link")
        paths = links.evaluate_all("all => all.map(each => each.getAttribute('href'))")
        assert len(paths) == len(NAMES)
        for path, number in zip(paths, reversed(range(len(NAMES))), strict=True):
            dashboard.go(path.removeprefix("/ui"))
            expect(dashboard.main.get_by_role("row")).to_have_count(2)
            expect(dashboard.main.get_by_role("row").nth(1)).to_contain_text(f"job-{number}")
            dashboard.check_it_fits(NARROW)
        dashboard.show(f"/runs/{quote(NAMES[0], safe='')}")
        expect(dashboard.main.get_by_role("heading", level=1)).to_have_text(NAMES[0])


def test_a_name_is_troubled_by_a_failure_until_it_is_dismissed(browser: Tabs) -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=4)
    for name in ("known", "new"):
        run(cluster, name, name, "a", fails="a")
    cluster.command(type="DismissJobFailure", job_id="known")
    with served(cluster) as serving:
        dashboard = Dashboard(browser, serving.url)
        dashboard.show("/runs")
        rows = dashboard.main.get_by_role("region", name="Names of jobs").get_by_role("row")
        expect(rows).to_have_count(3)
        troubled = rows.evaluate_all("all => all.filter(each => each.classList.contains('troubled')).map(each => each.textContent)")
        assert len(troubled) == 1
        assert troubled[0].startswith("new")


def test_many_runs_of_many_vertices_are_a_bounded_number_of_elements(browser: Tabs) -> None:
    cluster = ScriptedCluster(check_digests=False, check_states=False)
    cluster.register(slots=64)
    vertices = [f"v{number}" for number in range(16)]
    for number in range(120):
        run(cluster, f"narrow-{number}", "narrow", *vertices, fails="v3" if number % 2 else "")
    for number in range(3):
        run(cluster, f"wide-{number}", "wide", *[f"w{each}" for each in range(60)])
    with served(cluster) as serving:
        dashboard = Dashboard(browser, serving.url)
        dashboard.show("/runs/narrow")
        box = dashboard.main.locator(".table-box")
        assert dashboard.page.evaluate(NODES) < MAX_NODES
        box.evaluate("element => { element.scrollTop = element.scrollHeight }")
        expect(dashboard.main.get_by_role("link", name="narrow-0")).to_be_visible()
        assert dashboard.page.evaluate(NODES) < MAX_NODES
        dashboard.go("/runs/wide")
        expect(dashboard.main.get_by_role("row").nth(1)).to_contain_text("50✔")
        expect(dashboard.main.get_by_role("row").nth(1)).to_contain_text("and 10 more")
