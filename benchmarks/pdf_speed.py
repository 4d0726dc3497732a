"""Pages of PDF a second and core: the reader of wordpipe beside other libraries, on the same files in the same run.

    python benchmarks/pdf_speed.py --data FOLDER            writes benchmarks/results/pdf_speed.json

FOLDER has the files. Their words are taken from each by every side in turn, in this process, and the best of --repeats counts:
seconds of the processor, without imports. What the sides give is not the same:

    wordpipe     paragraphs in reading order below the headings of the outline, tables by rows; headers, footers and numbers of
                 pages left out; split words joined
    pypdfium2    the characters of each page in the order in which the file has them: the library that wordpipe reads with
    pypdf        lines of each page
    pdfminer.six lines and boxes of each page, by its analysis of the layout

A side that is not installed is left out, and so is a file that wordpipe does not read; both are named. Exit code 0: wordpipe
reads all pages at 150 a second and core in the mean, and each file of ten pages or more.
"""

import argparse
import importlib.util
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peers.measure import versions
from tokens import machine

from wordpipe.corpus import Unreadable, function_of

RESULTS = Path(__file__).parent.absolute() / "results"
LEAST, LEAST_PAGES = 150, 10
Side = Callable[[Path], int]
"""Reads a file and returns the number of characters of its text."""


def values_of(path: Path) -> list[dict[str, Any]]:
    """What wordpipe reads of a file: what is known of it, its pages, and what was counted. Raises Unreadable."""
    with path.open("rb") as file:
        return [*function_of("wordpipe.corpus.binary.pdf_pages:read_pages")(file)]


def by_wordpipe(path: Path) -> int:
    """Paragraphs, as `ingest` has them."""
    return sum(len(text) for page in values_of(path)[1:-1] for _, texts in page["parts"] for text in texts)


def by_pypdfium2(path: Path) -> int:
    """The characters of pages, as they stand in the file."""
    import pypdfium2

    with pypdfium2.PdfDocument(path) as document:
        return sum(len(page.get_textpage().get_text_range()) for page in document)


def by_pypdf(path: Path) -> int:
    """Lines of pages."""
    import pypdf

    return sum(len(page.extract_text()) for page in pypdf.PdfReader(path).pages)


def by_pdfminer(path: Path) -> int:
    """Lines and boxes of pages."""
    from pdfminer.high_level import extract_text

    return len(extract_text(str(path)))


SIDES: dict[str, tuple[str, Side]] = {
    "wordpipe": ("wordpipe", by_wordpipe), "pypdfium2": ("pypdfium2", by_pypdfium2), "pypdf": ("pypdf", by_pypdf),
    "pdfminer.six": ("pdfminer", by_pdfminer),
}  # fmt: skip
"""The name of a distribution → its module, and how it reads a file."""


def measured(path: Path, sides: list[str], repeats: int) -> dict[str, dict[str, float]]:
    """Seconds of the processor and characters of each side on one file, the best of some runs in turns."""
    found = {name: {"seconds": float("inf"), "characters": 0.0} for name in sides}
    for _ in range(repeats):
        for name in sides:
            begun = time.process_time()
            characters = SIDES[name][1](path)
            seconds = time.process_time() - begun
            found[name] = {"seconds": min(seconds, found[name]["seconds"]), "characters": characters}
    return found


def misses_of(files: list[dict[str, Any]]) -> list[str]:
    """What is read more slowly than it should be."""
    rates = {one["name"]: one["pages"] / one["seconds"]["wordpipe"] for one in files if one["pages"] >= LEAST_PAGES}
    rates["all files"] = sum(one["pages"] for one in files) / sum(one["seconds"]["wordpipe"] for one in files)
    return [f"{name}: {rate:.0f} pages a second" for name, rate in rates.items() if rate < LEAST]


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with PDF files")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each side, of which the best counts")
    parser.add_argument("--out", type=Path, default=RESULTS / "pdf_speed.json")
    args = parser.parse_args()
    sides = [name for name, (module, _) in SIDES.items() if importlib.util.find_spec(module)]
    print(f"sides: {', '.join(sides)}; not installed: {', '.join(set(SIDES) - {*sides}) or 'none'}", flush=True)
    files, left_out = list[dict[str, Any]](), list[str]()
    for path in sorted(args.data.rglob("*.pdf")):
        try:
            pages = values_of(path)[0]["pages"]
        except Unreadable as error:
            print(f"left out: {path.name}: {error}", flush=True)
            left_out.append(path.name)
            continue
        found = measured(path, sides, args.repeats)
        one = {"name": path.name, "pages": pages}
        one |= {what: {name: side[what] for name, side in found.items()} for what in ("seconds", "characters")}
        files.append(one)
        rates = {name: round(pages / side["seconds"]) for name, side in found.items()}
        print(f"{path.name:32} {pages:5} pages, pages a second: {json.dumps(rates)}", flush=True)
    if not files:
        parser.error(f"{args.data} has no PDF that can be read")
    total = sum(one["pages"] for one in files)
    rates = {name: round(total / sum(one["seconds"][name] for one in files), 1) for name in sides}
    about = {**machine(), "load_at_the_end": round(os.getloadavg()[0], 1)}
    found = {
        "machine": about, "libraries": versions(sides), "repeats": args.repeats, "pages": total, "pages_per_s": rates,
        "left_out": left_out, "files": files,
    }  # fmt: skip
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    misses = misses_of(files)
    print(f"{total} pages, pages a second: {json.dumps(rates)}", *misses, sep="\n", flush=True)
    return int(bool(misses))


if __name__ == "__main__":
    raise SystemExit(main())
