"""Pages in a real browser, the chromium of the system driven by playwright: one browser a module, one page for equal options.

A page that is opened anew costs a second of the processor before it shows anything, and its scripts are compiled again: to go
on in the same page is three times as fast. Between tests it is left empty.
"""

import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(
    not CHROMIUM or not find_spec("playwright") or not find_spec("axe_playwright_python"),
    reason="no browser: pip install playwright axe-playwright-python, apt-get install chromium",
)
_OPTIONS: dict[str, Any] = {"viewport": {"width": 1100, "height": 900}, "reduced_motion": "reduce"}
_OURS = ("file://", "data:", "about:")
_QUIET_MS = 50  # without a request, after which a page is still


class Seen:
    """A page of the browser, with what it said, what went wrong on it, and where it asked, in one test."""

    def __init__(self, browser: Any, options: dict[str, Any]) -> None:
        self._options = {**_OPTIONS, **options}
        self.context = browser.new_context(**self._options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._told)
        self.page.on("request", lambda _: self._count(1))
        for event in ("requestfinished", "requestfailed"):
            self.page.on(event, lambda _: self._count(-1))
        self.begin("")

    def begin(self, base: str) -> "Seen":
        """Use it for a test, whose addresses are below `base`."""
        self.base = base
        self.errors, self.said, self.asked = list[str](), list[str](), list[str]()
        self._waiting = 0
        self.page.route("**/*", self._routed)
        self.page.set_viewport_size(self._options["viewport"])
        return self

    def end(self) -> None:
        """Leave it empty; it has asked nobody else."""
        foreign = [url for url in self.asked if not url.startswith((self.base, *_OURS))]
        self.page.unroute_all(behavior="ignoreErrors")
        self.page.goto("about:blank")
        assert foreign == []

    def _told(self, message: Any) -> None:
        self.said.append(message.text)
        if message.type == "error":
            self.errors.append(message.text)

    def _count(self, more: int) -> None:
        self._waiting += more

    def _routed(self, route: Any) -> None:
        self.asked.append(route.request.url)
        if route.request.url.startswith((self.base, *_OURS)):
            route.continue_()
        else:
            route.abort()

    def go(self, path: str) -> Any:
        """The page, at an address."""
        self._waiting = 0
        self.page.goto(self.base + path)
        return self.page

    def settle(self) -> None:
        """Wait until it has asked for all that it shows."""
        for _ in range(200):
            before = self._waiting
            self.page.wait_for_timeout(_QUIET_MS)
            if before <= 0 and self._waiting <= 0:
                return
        raise AssertionError(self.asked[-3:])


@pytest.fixture(scope="module")
def pages() -> "Iterator[Callable[..., Seen]]":
    """Gives the page for some options of a context."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        known: dict[str, Seen] = {}

        def of(**options: Any) -> Seen:
            key = repr(sorted(options.items()))
            if key not in known:
                known[key] = Seen(browser, options)
            return known[key]

        yield of
        browser.close()


@pytest.fixture
def look_at(pages: "Callable[..., Seen]") -> "Iterator[Callable[..., Seen]]":
    """Gives a page whose addresses are below a base, for the time of a test."""
    used: list[Seen] = []

    def begin(base: str, **options: Any) -> Seen:
        seen = pages(**options)
        if seen in used:
            seen.end()
            used.remove(seen)
        used.append(seen.begin(base))
        return seen

    yield begin
    for seen in used:
        seen.end()


def violations(page: Any) -> list[tuple[str, list[Any]]]:
    """The rules of accessibility that a page breaks, by axe, with the first elements."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [(one["id"], [node["target"] for node in one["nodes"]][:3]) for one in found]
