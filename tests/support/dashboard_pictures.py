"""The pictures of docs/dashboard.md and docs/history.md, by a real Chromium: `python -m tests.support.dashboard_pictures`."""

import tempfile
from pathlib import Path
from typing import Final

from tests.support.archive_server import put_all, served_archives
from tests.support.browser import Tabs, chromium, find_chromium
from tests.support.dashboard_pages import Dashboard
from tests.support.recorded_cluster import recorded
from tests.support.rest_server import served

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
LOOK_MS: Final = 1_500
"""A part of a page may ask for more when it is drawn."""

PHONE: Final = (390, 760)
SCREEN: Final = (1200, 760)
ARCHIVES: Final = ("archives", "/jobs/flaky-5?cluster=orders&at=5", SCREEN, "light")
PICTURES: Final = (
    ("cluster", "/", SCREEN, "light"),
    ("past", "/?at=150", SCREEN, "dark"),
    ("job", "/jobs/backfill-7", SCREEN, "light"),
    ("bars", "/jobs/nightly-4/bars", SCREEN, "dark"),
    ("decision", "/log/165?type=TaskFailed", SCREEN, "light"),
    ("compared", "/diff?vs=100&at=200", SCREEN, "light"),
    ("phone", "/jobs", PHONE, "dark"),
)


def write_pictures() -> None:
    """Write all of them."""
    executable = find_chromium()
    if executable is None:
        raise SystemExit("Chromium was not found")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium(executable) as started, served(recorded().cluster) as server:
        put_all(Path(folder))
        with served_archives(Path(folder)) as archives_url:
            pictures = [(server.url, *picture) for picture in PICTURES]
            for url, name, path, size, colours in [*pictures, (archives_url, *ARCHIVES)]:
                with started.tabs(IMAGES, size, colours) as tabs:
                    _write(tabs, url, name, path, size)


def _write(tabs: Tabs, url: str, name: str, path: str, size: tuple[int, int]) -> None:
    dashboard = Dashboard(tabs, url)
    dashboard.page.set_viewport_size({"width": size[0], "height": size[1]})
    dashboard.show(path)
    dashboard.page.wait_for_timeout(LOOK_MS)
    tabs.screenshot(dashboard.page, f"dashboard-{name}")


if __name__ == "__main__":
    write_pictures()
