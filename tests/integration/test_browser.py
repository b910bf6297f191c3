"""The browser of the tests finds what is wrong with a page, and leaves nothing behind."""

import asyncio
import http.server
import re
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.browser import PHONE, Chromium, Tabs

GOOD = '<!doctype html><html lang="en"><title>good</title><main><h1>Good</h1></main>'
BAD = f"""{GOOD}<img src="/none.png"><script>
fetch("https://example.org/").catch(() => {{ document.title = "over" }})
console.error("one")
throw Error("two")
</script>"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "good.html").write_text(GOOD)
    (tmp_path / "bad.html").write_text(BAD)
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def test_a_page_with_errors_fails_its_test_unless_they_are_expected(browser: Tabs, site: str) -> None:
    page = browser.open(f"{site}/bad.html")
    page.wait_for_function("document.title == 'over'")
    with pytest.raises(AssertionError, match=r"image-alt"):
        browser.check_accessibility(page)
    with pytest.raises(AssertionError) as failed:
        browser.check()
    for problem in ("console: one", "uncaught: two", "GET /none.png: 404", "GET https://example.org/: net::ERR_NAME_NOT_RESOLVED"):
        assert problem in str(failed.value)
    browser.problems.clear()
    browser.expect("console: one|uncaught: two|none.png|example.org")
    page.reload()
    page.wait_for_function("document.title == 'over'")
    browser.check()


def test_each_profile_is_new_and_as_it_was_asked_for(chromium: Chromium, site: str, tmp_path: Path) -> None:
    for colours, size in (("light", PHONE), ("dark", (800, 600))):
        with chromium.tabs(tmp_path, size, colours) as tabs:
            page = tabs.open(f"{site}/good.html")
            tabs.check_accessibility(page)
            assert page.evaluate("[innerWidth, innerHeight, matchMedia(`(prefers-color-scheme: dark)`).matches]") == [
                *size,
                colours == "dark",
            ]
            assert page.evaluate("[Intl.DateTimeFormat().resolvedOptions().timeZone, navigator.language]") == ["UTC", "en-GB"]
            assert page.evaluate("localStorage.length") == 0
            page.evaluate("localStorage.setItem('a', 'b')")
            assert re.match(rb"\x89PNG", tabs.screenshot(page, colours).read_bytes())


async def _answer() -> int:
    return 42


def test_event_loops_run_beside_it(chromium: Chromium) -> None:
    assert chromium is not None
    assert asyncio.run(_answer()) == 42
