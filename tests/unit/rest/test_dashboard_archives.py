"""The dashboard over archives alone, in a real Chromium: jobs of several clusters, and the bar within the life of one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import expect

from eventflink.views.archive import archive_view
from tests.support.archive_server import put, put_all, served_archives
from tests.support.browser import Tabs
from tests.support.dashboard_pages import Dashboard
from tests.support.ended_jobs import STREAMS
from tests.support.recorded_cluster import recorded

PAGES: Final = (
    "/jobs?name=nightly",
    "/jobs/nightly-6?cluster=orders&vertex=join&at=20",
    "/jobs/nightly-4/bars?cluster=orders&at=12",
    "/jobs/flaky-5/exceptions?cluster=orders",
    f"/jobs/{STREAMS}/flow?vertex=s",
    "/jobs/nightly-6/results",
    "/jobs/flaky-5/load/0/2?cluster=orders",
    "/runs",
    "/runs/nightly%20report?cluster=orders",
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("archives")
    put_all(directory)
    with served_archives(directory) as url:
        yield url


@pytest.fixture
def dashboard(browser: Tabs, url: str) -> Dashboard:
    return Dashboard(browser, url)


def test_each_page_of_archives_draws_without_an_error_and_can_be_used_by_everybody(dashboard: Dashboard) -> None:
    dashboard.show("/")
    for path in PAGES:
        dashboard.go(path)
        assert dashboard.main.locator("h1").count() == 1, path
        dashboard.check_both_themes_and_widths()


def test_the_jobs_of_all_clusters_are_listed_and_one_cluster_can_be_chosen(dashboard: Dashboard) -> None:
    dashboard.show("/")
    rows = dashboard.main.locator("tbody tr.opens")
    expect(rows).to_have_count(7)
    dashboard.main.get_by_label("Only this cluster").select_option("reports")
    expect(rows).to_have_count(3)
    rows.filter(has_text="another job").get_by_role("link", name="another job", exact=True).click()
    expect(dashboard.main.get_by_role("heading", level=1)).to_have_text("another job")
    expect(dashboard.main.locator(".job-facts")).to_contain_text("of cluster reports")
    dashboard.page.get_by_role("link", name="Jobs", exact=True).click()
    expect(rows).to_have_count(7)
    rows.filter(has_text="orders").filter(has_text="flaky-5").get_by_role("link").first.click()
    expect(dashboard.main.locator(".job-facts")).to_contain_text("of cluster orders")
    for name in ("Actions", "Events", "Waits", "Masters"):
        assert dashboard.page.get_by_text(name, exact=True).count() == 0, name


def test_the_runs_of_a_name_are_a_grid_and_one_stays_in_a_cluster(dashboard: Dashboard) -> None:
    dashboard.show("/")
    dashboard.main.get_by_role("link", name="by name").click()
    rows = dashboard.main.get_by_role("region", name="Names of jobs").locator("tbody tr.opens")
    expect(rows).to_have_count(4)
    dashboard.main.get_by_label("Only this cluster").select_option("orders")
    expect(rows).to_have_count(3)
    dashboard.main.get_by_role("searchbox").fill("NIGHTLY REPORT")
    expect(rows).to_have_count(2)
    rows.get_by_role("link", name="nightly report", exact=True).click()
    dashboard.page.wait_for_url("**/runs/nightly%20report?cluster=orders")
    grid = dashboard.main.get_by_role("region", name="Runs of nightly report and their vertices").locator("tbody tr.opens")
    expect(grid).to_have_count(2)
    expect(grid.nth(0)).to_contain_text("nightly-6")
    said = grid.nth(0).get_by_role("img").evaluate_all("all => all.map(each => each.ariaLabel)")
    assert said[0].startswith("extract: FINISHED after 28.0 s, ")
    expect(dashboard.main.locator(".job-facts")).to_contain_text("of cluster orders")
    expect(dashboard.main.locator("section.card")).to_contain_text("version 1")
    assert dashboard.main.get_by_text("eventflink runs").count() == 0
    grid.nth(1).get_by_role("link", name="nightly-3").click()
    dashboard.page.wait_for_url("**/jobs/nightly-3?cluster=orders")
    dashboard.settle()
    dashboard.main.get_by_role("link", name="all its runs").click()
    dashboard.page.wait_for_url("**/runs/nightly%20report?cluster=orders")
    dashboard.main.get_by_role("link", name="all names").click()
    dashboard.page.wait_for_url("**/runs?cluster=orders")
    dashboard.page.get_by_role("link", name="Jobs", exact=True).click()
    dashboard.page.wait_for_url("**/jobs")


def test_no_link_leads_to_what_archives_do_not_have_and_what_cannot_be_read_is_named(browser: Tabs, tmp_path: Path) -> None:
    archive = archive_view(recorded().cluster.fold, "nightly-6")
    put(tmp_path, "c", archive, schedule_id="every-night", instant="2026-11-25T03:00:00.000+00:00", labels={"team": "finance"})
    (tmp_path / "c" / "empty.json").touch()
    with served_archives(tmp_path) as url:
        dashboard, sections, known = Dashboard(browser, url), {"/ui/", "/ui/jobs", "/ui/runs"}, ("/ui/jobs/nightly-", "/ui/runs/nightly")
        for path in ("/runs", "/runs/nightly%20report", "/jobs/nightly-6?cluster=c"):
            dashboard.show(path)
            expect(dashboard.main.get_by_text("nightly report").first).to_be_visible()
            links = dashboard.page.locator("a[href^='/']").evaluate_all("all => all.map(each => each.pathname)")
            assert {link for link in links if not link.startswith(known)} == sections & set(links), path
            if path.startswith("/runs"):
                expect(dashboard.main.locator("summary")).to_have_text("1 archive cannot be read")
            else:
                expect(dashboard.main).to_contain_text("team finance")
            if path != "/runs":
                expect(dashboard.main).to_contain_text("every-night")


def test_a_link_to_runs_that_somebody_copies_names_no_moment(dashboard: Dashboard) -> None:
    dashboard.tabs.context.grant_permissions(["clipboard-read", "clipboard-write"])
    dashboard.show("/jobs/nightly-6?cluster=orders")
    dashboard.go("/runs/nightly%20report?cluster=orders")
    dashboard.press("y")
    expect(dashboard.page.get_by_text("a link to this moment")).to_be_visible()
    assert dashboard.page.evaluate("navigator.clipboard.readText()") == f"{dashboard.url}/ui/runs/nightly%20report?cluster=orders"


def test_the_bar_goes_through_the_life_of_a_job_and_the_address_pins_the_moment(dashboard: Dashboard) -> None:
    dashboard.show("/")
    expect(dashboard.slider).to_have_count(0)
    dashboard.show("/jobs/flaky-5?cluster=orders")
    slider = dashboard.page.get_by_role("slider", name="Moment of the life")
    last = dashboard.settle()
    expect(slider).to_have_attribute("aria-valuemax", str(last))
    status = dashboard.main.locator(".job-title .chip")
    expect(status).to_contain_text("FAILED")
    dashboard.step("{")
    dashboard.step("[")
    assert (dashboard.pinned() or last) < last
    expect(status).not_to_contain_text("FAILED")
    expect(dashboard.page.get_by_role("complementary", name="The moment that is shown")).to_contain_text("before its end")
    pinned = dashboard.pinned()
    dashboard.main.get_by_role("link", name="Bars").click()
    assert dashboard.pinned() == pinned
    other = Dashboard(dashboard.tabs, dashboard.url)
    other.page.goto(dashboard.page.url)
    assert other.settle() == pinned
    slider.press("Home")
    dashboard.settle_at(0)
    slider.press("End")
    dashboard.settle_at(last)
    dashboard.go("/jobs/nightly-3?cluster=orders")
    expect(slider).not_to_have_attribute("aria-valuemax", str(last))
