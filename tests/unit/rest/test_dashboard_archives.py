"""The dashboard over archives alone, in a real Chromium: jobs of several clusters, and the bar within the life of one."""

from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import expect

from tests.support.archive_server import put_all, served_archives
from tests.support.browser import Tabs
from tests.support.dashboard_pages import Dashboard
from tests.support.ended_jobs import STREAMS

PAGES: Final = (
    "/jobs?name=nightly",
    "/jobs/nightly-6?cluster=orders&vertex=join&at=20",
    "/jobs/nightly-4/bars?cluster=orders&at=12",
    "/jobs/flaky-5/exceptions?cluster=orders",
    f"/jobs/{STREAMS}/flow?vertex=s",
    "/jobs/nightly-6/results",
    "/jobs/flaky-5/load/0/2?cluster=orders",
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
    rows.filter(has_text="another job").get_by_role("link").click()
    expect(dashboard.main.get_by_role("heading", level=1)).to_have_text("another job")
    expect(dashboard.main.locator(".job-facts")).to_contain_text("of cluster reports")
    dashboard.page.get_by_role("link", name="Jobs", exact=True).click()
    expect(rows).to_have_count(7)
    rows.filter(has_text="orders").filter(has_text="flaky-5").get_by_role("link").click()
    expect(dashboard.main.locator(".job-facts")).to_contain_text("of cluster orders")
    for name in ("Actions", "Events", "Waits", "Masters"):
        assert dashboard.page.get_by_text(name, exact=True).count() == 0, name


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
