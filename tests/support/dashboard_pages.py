"""The dashboard in a tab of a real Chromium: what is waited for is that it has drawn what was asked for, never a time."""

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.support.browser import Tabs

NOW: Final = "2026-11-22T02:30:00Z"
"""What the clock of a page shows: a little after the recorded log ends."""

WIDE: Final = {"width": 1440, "height": 900}
NARROW: Final = {"width": 390, "height": 844}


WIDEST: Final = """[...document.querySelectorAll("body *")].filter(each => {
    for (let box = each.parentElement; box !== document.body; box = box.parentElement)
        if (getComputedStyle(box).overflowX !== "visible") return false;
    return each.getBoundingClientRect().right > innerWidth + 1;
}).slice(0, 8).map(each => `${each.tagName}.${each.getAttribute("class")} ${each.textContent.slice(0, 40)}`)"""
"""What stands out of the screen, the outermost first."""


class Dashboard:
    """One tab."""

    def __init__(self, tabs: "Tabs", url: str) -> None:
        self.tabs = tabs
        self.url = url
        self.page: Page = tabs.context.new_page()
        self.page.set_viewport_size({"width": WIDE["width"], "height": WIDE["height"]})
        self.page.clock.set_fixed_time(NOW)

    def show(self, path: str, *, settled: bool = True) -> None:
        """Open a page by its address below `/ui`, and wait until it is drawn."""
        self.page.goto(f"{self.url}/ui{path}")
        if settled:
            self.settle()

    def go(self, path: str) -> None:
        """Go to another page as the buttons Back and Forward do, without loading the dashboard anew, and wait until it is drawn."""
        script = "path => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }"
        self.page.evaluate(script, f"/ui{path}")
        self.settle()

    def settle(self) -> int:
        """Wait until what is asked for is drawn; return the offset that the page is of."""
        self.page.wait_for_selector("html[data-settled]", state="attached")
        return int(self.page.get_attribute("html", "data-settled") or "-1")

    def settle_at(self, offset: int) -> None:
        """Wait until the page is drawn as of this offset."""
        self.page.wait_for_selector(f'html[data-settled="{offset}"]', state="attached")

    def press(self, key: str) -> None:
        """Press a key as somebody does who looks at the page."""
        self.page.keyboard.press(key)

    def step(self, key: str) -> None:
        """Press a key that goes to another moment, and wait until the address names it."""
        before = self.pinned()
        self.press(key)
        self.page.wait_for_function(
            "before => new URLSearchParams(location.search).get('at') !== before", arg=None if before is None else str(before)
        )

    def pinned(self) -> int | None:
        """Return the offset that the address names; None: the page is live."""
        named = parse_qs(self.page.evaluate("location.search.slice(1)")).get("at")
        return int(named[0]) if named else None

    @property
    def main(self) -> "Locator":
        """The page without the shell."""
        return self.page.locator("main")

    @property
    def slider(self) -> "Locator":
        """The thumb of the bar."""
        return self.page.get_by_role("slider", name="Moment of the log")

    def check_both_themes_and_widths(self) -> None:
        """Check what axe finds, light and wide, and dark and narrow; and that nothing is wider than a narrow screen."""
        for size, scheme in ((WIDE, "light"), (NARROW, "dark")):
            self.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            self.check_it_fits(size)
            self.tabs.check_accessibility(self.page)

    def check_it_fits(self, size: dict[str, int]) -> None:
        """Check that a page is no wider than the screen."""
        self.page.set_viewport_size({"width": size["width"], "height": size["height"]})
        wider = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wider <= 0, f"{self.page.url} is {wider} px wider than a screen of {size['width']} px: {self.page.evaluate(WIDEST)}"
