"""Takes the pictures of the README and the book, of data/sample alone, in the browser of the system.

    python -m tests.support.pictures docs/static/pictures

makes the pipeline of configs/small.toml in a temporary folder, serves its index of documents, opens each page at a size that
can be read in a column, and writes one WebP picture of each, of at most 80 kB.
"""

import argparse
import io
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import wordpipe

ROOT = Path(__file__).resolve().parent.parent.parent
MOST_BYTES = 80_000
SENTENCE = "The tide rises twice a day because the moon pulls on the sea."
_SCALE = 1.5  # points of the picture for each of the page: sharp on the screens of today
_COLOURS = (256, 128, 64, 32)


@dataclass(frozen=True)
class Picture:
    """One picture: of an address below the server, or of a file that was made.

    Attributes:
        name: of its file.
        address: a path of the server, or the name of a file in the folder of the pipeline.
        size: width and height of the window.
        ready: what must be there before it is taken.
        click: what is clicked first.
        top: what the picture begins with; empty: the page.
    """

    name: str
    address: str
    size: tuple[int, int]
    ready: str
    click: str = ""
    top: str = ""


PICTURES = (
    Picture("answers", "/?q=why+are+there+two+high+waters+a+day&index=texts", (1_000, 640), "#filters label"),
    Picture(
        "filters", '/?q=water&index=texts&f=[["year",[2018,2023]]]', (1_000, 640), ".chip",
        click="#results li.hit .why-button",
    ),
    Picture("text", "/text/?q=two+high+waters+a+day&index=texts&row={tides}", (840, 640), "article mark"),
    Picture("map", "map.html", (1_000, 640), "canvas"),
    Picture("report", "report.html", (1_000, 760), "main"),
    Picture("attention", "attention.html", (900, 560), "#grid button", top="#chosen-title"),
)  # fmt: skip


def make_pipeline(folder: Path) -> None:
    """Make in a folder what the pictures show."""
    config = (ROOT / "configs" / "small.toml").read_text(encoding="utf-8")
    config = config.replace("../data", str(ROOT / "data")).replace('"../run"', '"run"')
    config = config.replace('inputs = ["words", "corpus"]', 'inputs = ["words", "corpus"]\nunit = "document"')
    (folder / "wordpipe.toml").write_text(config, encoding="utf-8")
    run = folder / "run"
    wordpipe.run(folder / "wordpipe.toml")
    wordpipe.report(run, folder / "report.html")
    wordpipe.map(run / "index", folder / "map.html")
    wordpipe.attention(run / "model", SENTENCE, output=folder / "attention.html")


def taken(folder: Path, browser: Any) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the picture, as WebP, of each page of a pipeline."""
    with wordpipe.open(folder / "run" / "index") as index:
        tides = index.query("why the sea has tides", 1)[0]["row"]
    with wordpipe.serve([f"texts={folder / 'run' / 'index'}"], port=0) as server:
        for one in PICTURES:
            width, height = one.size
            page = browser.new_page(
                viewport={"width": width, "height": height}, device_scale_factor=_SCALE, reduced_motion="reduce"
            )
            at = one.address.format(tides=tides) if "{tides}" in one.address else one.address
            page.goto(f"{server.url}{at}" if at.startswith("/") else f"file://{folder / at}")
            page.reload()  # a first question takes longer
            page.locator(one.ready).first.wait_for()
            if one.click:
                page.locator(one.click).first.click()
            page.wait_for_load_state("networkidle")
            if one.top:
                page.locator(one.top).evaluate("(one) => scrollTo(0, one.getBoundingClientRect().top + scrollY - 6)")
            yield one.name, packed(page.screenshot())
            page.close()


def packed(picture: bytes) -> bytes:
    """Return a picture as WebP of at most `MOST_BYTES`, of few colours but without another loss, as text is sharp so."""
    from PIL import Image

    opened: Any = Image.open(io.BytesIO(picture)).convert("RGB")
    for colours in _COLOURS:
        few = opened.quantize(colours, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).convert("RGB")
        written = io.BytesIO()
        few.save(written, "WEBP", lossless=True, method=6)
        if written.tell() <= MOST_BYTES:
            return written.getvalue()
    raise ValueError(f"{written.tell():,} bytes with {colours} colours; make the window of the picture smaller")


def main() -> None:
    """Take all pictures, and write them into a folder."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--pipeline", type=Path, help="keep the pipeline here, or use the one that is here")
    given = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        parser.error("no browser: apt-get install chromium")
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.pipeline or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "attention.html").is_file():
            make_pipeline(folder)
        given.output.mkdir(parents=True, exist_ok=True)
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            for name, picture in taken(folder.absolute(), browser):
                (given.output / f"{name}.webp").write_bytes(picture)
            browser.close()


if __name__ == "__main__":
    main()
