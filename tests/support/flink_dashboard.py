"""Flink's own web dashboard, unmodified, in a real browser, before a REST process of ours.

The browser gets the dashboard's files from Flink's jar, and everything else from the REST process under the same origin, as from Flink.
"""

import mimetypes
import re
import zipfile
from collections.abc import Iterable
from typing import Final

from playwright.sync_api import Page, Request, Route, expect

from eventflink.local.jars import ensure_jars
from eventflink.local.java import find_java
from tests.support.browser import TIMEOUT_MS, Tabs
from tests.support.flink_client import FLINK
from tests.support.running_cluster import wait_until

_FILES: Final = "web/"
"""Where they are in the jar."""

_LEFT_SOON: Final = r"Cannot read properties of null \(reading 'layout'\)|Could not resolve relative length"
"""What the dashboard says where a page with an editor, or with a graph, is left before that has its place."""


class FlinkDashboard:
    """The dashboard in one tab."""

    def __init__(self, tabs: Tabs, url: str) -> None:
        """Fetch its files, once for this machine, and open it before the REST process at `url`."""
        jar = ensure_jars(FLINK, find_java()) / f"flink-runtime-web-{FLINK.version}.jar"
        with zipfile.ZipFile(jar) as archive:
            self._files = {
                name.removeprefix(_FILES): archive.read(name)
                for name in archive.namelist()
                if name.startswith(_FILES) and not name.endswith("/")
            }
        self._tabs = tabs
        self._url = url
        self._under_way: set[Request] = set()
        tabs.context.on("request", self._asks)
        tabs.context.on("requestfinished", self._has_asked)
        tabs.context.on("requestfailed", self._has_asked)
        tabs.expect(_LEFT_SOON)
        names = "|".join(map(re.escape, self._files))
        tabs.context.route(re.compile(rf"^{re.escape(url)}/({names})?$"), self._answer)
        self.page: Page = tabs.open(f"{url}/")

    def show(self, place: str, *texts: str, refused: str = "") -> None:
        """Go to a page by the part of its address behind `#/`, and check that it shows these texts, and that nothing went wrong.

        A request that is to be `refused` is one such as `GET /jobmanager/log: 404`.
        """
        if refused:
            self._tabs.expect(refused)
        self.page.evaluate("place => { location.hash = place }", f"#/{place}")
        self._shows(texts)
        wait_until(lambda: self._is_still() and (not refused or refused in self._tabs.excused), f"all that {place} asks for")
        self._tabs.check()

    def choose(self, tab: str, *texts: str) -> None:
        """Choose one of the tabs of a page, and check that it shows these texts."""
        self.page.get_by_role("tab", name=tab).last.click()
        self._shows(texts)
        self._tabs.check()

    def _shows(self, texts: Iterable[str]) -> None:
        for text in texts:
            expect(self.page.locator("nz-content"), self.page.url).to_contain_text(text, timeout=TIMEOUT_MS)

    def _asks(self, request: Request) -> None:
        self._under_way.add(request)

    def _has_asked(self, request: Request) -> None:
        self._under_way.discard(request)

    def _is_still(self) -> bool:
        self.page.wait_for_timeout(1)  # What has happened is told meanwhile.
        return not self._under_way

    def _answer(self, route: Route) -> None:
        name = route.request.url.removeprefix(f"{self._url}/") or "index.html"
        route.fulfill(body=self._files[name], content_type=mimetypes.guess_type(name)[0] or "application/octet-stream")
