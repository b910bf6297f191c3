"""A real Chromium for tests: the system's own, which `.ci/run` installs, driven by Playwright. Fixtures are in `tests/conftest.py`.

The rule: a page that a test opens has no error on its console, no uncaught exception and no answer of status 400 or more, unless the test
says beforehand that it expects one. Nothing outside this machine can be reached from a page.
"""

import asyncio
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response, expect, sync_playwright

NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first one takes a quarter less processor time for the tests of a page, and is the same engine."""

MISSING: Final = "Chromium was not found: tests in a browser are skipped (Debian: apt-get install chromium-headless-shell)"
WIDE: Final = (1280, 800)
PHONE: Final = (390, 844)
TIMEOUT_MS: Final = 120_000
_LOADING_FAILED: Final = "Failed to load resource"
"""How the console tells of an answer with an error, without saying which; that is noted with its method and path."""
_ABANDONED: Final = "net::ERR_ABORTED"
"""What becomes of requests that a page no longer wants, as it is left."""


def find_chromium() -> str | None:
    """Return the program; None: it is not installed."""
    return next((found for name in NAMES if (found := shutil.which(name)) is not None), None)


class Chromium:
    """One Chromium for all tests of a process.

    Playwright leaves its event loop as the running one of this thread, where nobody else could run one: it is so only within `tabs`.
    """

    def __init__(self, browser: Browser, loop: asyncio.AbstractEventLoop) -> None:
        self._browser = browser
        self._loop = loop

    @contextmanager
    def tabs(self, screenshots: Path, size: tuple[int, int] = WIDE, colours: str = "light") -> Iterator["Tabs"]:
        """Give a fresh profile: in UTC and British English, without motion; `colours` is `light` or `dark`."""
        asyncio._set_running_loop(self._loop)
        try:
            context = self._browser.new_context(
                viewport={"width": size[0], "height": size[1]},
                color_scheme="dark" if colours == "dark" else "light",
                locale="en-GB",
                timezone_id="UTC",
                reduced_motion="reduce",
            )
            context.set_default_timeout(TIMEOUT_MS)
            tabs = Tabs(context, screenshots)
            try:
                yield tabs
                tabs.check()
            finally:
                context.close()
        finally:
            asyncio._set_running_loop(None)


@contextmanager
def chromium(executable: str) -> Iterator[Chromium]:
    """Run it."""
    expect.set_options(timeout=TIMEOUT_MS)
    playwright = sync_playwright().start()
    loop = asyncio.get_running_loop()
    try:
        browser = playwright.chromium.launch(
            executable_path=executable,
            chromium_sandbox=os.geteuid() != 0,
            args=["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"],
        )
        asyncio._set_running_loop(None)
        yield Chromium(browser, loop)
        asyncio._set_running_loop(loop)
        browser.close()
    finally:
        asyncio._set_running_loop(loop)
        playwright.stop()
        asyncio._set_running_loop(None)


class Tabs:
    """The pages of one test, and what went wrong in them."""

    def __init__(self, context: BrowserContext, screenshots: Path) -> None:
        self.context = context
        self.problems: list[str] = []
        """What nobody expected, in order."""
        self.excused: list[str] = []
        """What was expected."""
        self._expected: list[str] = []
        self._screenshots = screenshots
        context.on("console", self._console)
        context.on("weberror", lambda error: self._note(f"uncaught: {error.error}"))
        context.on("response", self._answered)
        context.on("requestfailed", self._failed)

    def open(self, url: str) -> Page:
        """Return a new page, once what it is of has loaded."""
        page = self.context.new_page()
        page.goto(url)
        return page

    def expect(self, pattern: str) -> None:
        """Take problems that have this for none from now on, such as `GET /jobs/nobody: 404`."""
        self._expected.append(pattern)

    def check(self) -> None:
        """Check that nothing went wrong so far."""
        assert not self.problems, "\n".join(self.problems)

    def check_accessibility(self, page: Page) -> None:
        """Check that axe finds no violation on a page as it stands."""
        results = Axe().run(page)
        assert results.violations_count == 0, results.generate_report()

    def screenshot(self, page: Page, name: str) -> Path:
        """Write what a page shows to NAME.png; return where that is."""
        path = self._screenshots / f"{name}.png"
        page.screenshot(path=path, animations="disabled", caret="hide")
        return path

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(_LOADING_FAILED):
            self._note(f"console: {message.text}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self._note(f"{response.request.method} {urlsplit(response.url)._replace(scheme='', netloc='').geturl()}: {response.status}")

    def _failed(self, request: Request) -> None:
        if request.failure != _ABANDONED:
            self._note(f"{request.method} {request.url}: {request.failure}")

    def _note(self, problem: str) -> None:
        is_expected = any(re.search(pattern, problem) for pattern in self._expected)
        (self.excused if is_expected else self.problems).append(problem)


if __name__ == "__main__" and find_chromium() is None:
    print(f"==> {MISSING}")
