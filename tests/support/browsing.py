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
_DRAWN = """() => new Promise((done) => requestAnimationFrame(() => setTimeout(() =>
  done(Boolean(document.querySelector("[aria-busy=true]"))))))"""


class Seen:
    """A page of the browser, with what it said, what went wrong on it, and where it asked, in one test."""

    def __init__(self, browser: Any, options: dict[str, Any]) -> None:
        self._options = {**_OPTIONS, **options}
        self.context = browser.new_context(**self._options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._told)
        self.page.on("request", lambda request: self._waiting.add(request))
        for event in ("requestfinished", "requestfailed"):
            self.page.on(event, lambda request: self._waiting.discard(request))
        self.begin("")

    def begin(self, base: str) -> "Seen":
        """Use it for a test, whose addresses are below `base`."""
        self.base = base
        self.errors, self.said, self.asked = list[str](), list[str](), list[str]()
        self._waiting = set[Any]()
        self.page.route("**/*", self._routed)
        self.page.set_viewport_size(self._options["viewport"])
        self.page.emulate_media(media="null")  # the last test may have looked at it as paper
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

    def _routed(self, route: Any) -> None:
        self.asked.append(route.request.url)
        if route.request.url.startswith((self.base, *_OURS)):
            route.continue_()
        else:
            route.abort()

    def go(self, path: str) -> Any:
        """The page, at an address."""
        self._waiting = set()
        self.page.goto(self.base + path)
        return self.page

    def settle(self) -> None:
        """Wait until it has asked for all that it shows, and has drawn it."""
        for _ in range(200):
            before = len(self._waiting)
            self.page.wait_for_timeout(_QUIET_MS)
            is_busy = self.page.evaluate(_DRAWN)
            if not (before or self._waiting or is_busy):
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


_CUT = """() => {
  const said = (one) => `${one.tagName}.${one.getAttribute("class") ?? ""}: ${one.textContent.trim().slice(0, 30)}`;
  const above = (one, is) => one && one !== document.body && (is(getComputedStyle(one)) || above(one.parentElement, is));
  const scrolls = (style) => ["auto", "scroll"].includes(style.overflowX), ends = (style) => style.textOverflow === "ellipsis";
  const found = [];
  for (const one of document.body.querySelectorAll("*")) {
    const box = one.getBoundingClientRect(), style = getComputedStyle(one);
    const isSeen = one.checkVisibility({opacityProperty: true, visibilityProperty: true});
    // what is for those who hear the page is tiny, or stands outside
    if (!isSeen || box.width < 2 || style.clipPath !== "none" || box.right < 0 || box.bottom < 0) continue;
    const hides = ["hidden", "clip"].includes(style.overflowX) && !ends(style) && !(one instanceof SVGElement);
    if (hides && one.scrollWidth > one.clientWidth + 1 && one.textContent.trim()) found.push(`cut: ${said(one)}`);
    const own = [...one.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!own.length || above(one, scrolls)) continue;
    const range = document.createRange();
    const places = own.map((node) => (range.selectNode(node), range.getBoundingClientRect()));
    const isOutside = places.some((place) => place.left < -1 || place.right > innerWidth + 1);
    if (isOutside && !above(one, ends)) found.push(`outside: ${said(one)}`);
    const drawing = one.ownerSVGElement?.getBoundingClientRect();
    const wide = drawing && (box.left < drawing.left - 1 || box.right > drawing.right + 1);
    const high = drawing && (box.top < drawing.top - 1 || box.bottom > drawing.bottom + 1);
    if (wide || high) found.push(`outside its drawing: ${said(one)}`);
  }
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth) found.push("the page scrolls sideways");
  return found.slice(0, 5);
}"""


def cut_off(page: Any) -> list[str]:
    """Texts of a page that are cut off, or stand outside it or their drawing, and whether the page scrolls sideways."""
    found: list[str] = page.evaluate(_CUT)
    return found


def violations(page: Any) -> list[tuple[str, list[Any]]]:
    """The rules of accessibility that a page breaks, by axe, with the first elements."""
    from axe_playwright_python.sync_playwright import Axe

    # axe asks for style sheets again, which a page that is a file may not; only a rule that is off by itself needs them
    options = {"resultTypes": ["violations"], "preload": False}
    found = Axe().run(page, options=options).response["violations"]
    return [(one["id"], [node["target"] for node in one["nodes"]][:3]) for one in found]
