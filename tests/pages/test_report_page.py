"""The page of a report: whole with few facts, the same bytes for the same facts, and no text in it that is more than text."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from wordpipe.pages import ReportedArtifact, ReportedPipeline, bar, draw_report, flow_lines, loss_curves, shown

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a\u202egnp.exe",
    "\x1b[2J",
    "'\"&",
    "w" * 100_000,
]
VOID = {"meta", "link", "rect", "path", "circle"}


class Parsed(HTMLParser):
    """The elements and attributes of a page, its text, and whether everything that was opened was closed."""

    def __init__(self, page: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.names: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text += data


def test_questions_dates_and_clusters_are_shown_as_texts():
    answers = [
        {"title": text, "place": f"{text}:3", "pieces": [(text, False), (f"{text} found", True)]} for text in HOSTILE
    ]
    samples = [{"query": text, "answers": answers} for text in HOSTILE]
    artifacts = [
        ReportedArtifact("corpus", manifest("corpus"), dates=dict.fromkeys(HOSTILE, ("1990", "2024-05-06"))),
        ReportedArtifact("index", manifest("index", command="index"), samples=samples),
        ReportedArtifact("some", manifest("clusters", counts={"clusters": 9}), clusters=[(HOSTILE[0], 7), ("b", 2)]),
        ReportedArtifact("all", manifest("clusters", counts={"clusters": 1}), clusters=[("c", 9)]),
    ]  # fmt: skip
    page = Parsed(draw_report(ReportedPipeline("run", "1", artifacts)))
    assert page.names.count("figcaption") == len(HOSTILE)
    assert page.names.count("mark") == len(HOSTILE) ** 2
    assert "script" not in page.names
    assert "img" not in page.names
    for text in ("2024-05-06", "The 2 largest of 9 clusters of some", "Clusters of all", "dates in"):
        assert text in page.text
    assert not re.search("[\u202a-\u202e\x1b]", page.text)
    assert "Sample questions" not in Parsed(draw_report(ReportedPipeline("run", "1", artifacts[:1]))).text


def test_each_label_has_its_figures():
    right = {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "support": 8}
    labels = {"<b>": right, "rare": right | {"support": 2}, "bad": 3}
    many = {f"l{n}": right for n in range(50)} | {"x": {"f1": "9"}}
    found = {
        "evaluated": "predictions",
        "metrics": {"accuracy": 0.5},
        "systems": [
            {"system": "model", "metrics": {"accuracy": 0.5}, "by_label": labels},
            {"system": "majority", "metrics": {"accuracy": 0.4}, "by_label": None},
            {"system": "tags", "metrics": {"span_f1": 0.4}, "by_label": many},
        ],
    }  # fmt: skip
    page = Parsed(draw_report(ReportedPipeline("run", "1", [], {"e.json": found})))
    assert "each label, model" in page.text
    assert page.text.index("<b>50.025.033.38") < page.text.index("rare50.025.033.32")
    assert "majority" in page.text
    assert "each label, majority" not in page.text
    assert "and 10 more labels" in page.text
    assert "spans" in page.text


def manifest(kind="tokens", **more):
    body = {
        "kind": kind, "command": "tokenize", "wordpipe": "1", "settings": {"vocab_size": 9}, "outputs": [], "counts": {},
        "metrics": {}, "facts": {}, "warnings": [], "bitwise": True, "device": "cpu", "threads": 1, "versions": {},
        "seconds": 1.0, "peak_memory_bytes": 1, "recipe": "r" * 64, "digest": "d" * 64,
    }  # fmt: skip
    return {**body, **more}


def page_with(*artifacts, **more):
    return Parsed(draw_report(ReportedPipeline("run", "1", artifacts, **more)))


def test_the_same_facts_give_the_same_bytes_and_there_is_no_script_and_nothing_fetched():
    pipeline = ReportedPipeline("run", "1", [ReportedArtifact("a", manifest())])
    assert draw_report(pipeline) == draw_report(pipeline)
    page = Parsed(draw_report(pipeline))
    assert page.open == []
    assert "script" not in page.names
    assert not [one for one in page.attributes if one[1].startswith("on") or one[1] == "style"]
    assert {value for _, name, value in page.attributes if name in ("src", "href")} <= {
        "data:,", "#flow", "#settings", "#versions", "#tokenizers", "#quality",
    }  # fmt: skip
    policy = next(value for _, name, value in page.attributes if name == "content" and "default-src" in value)
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "script-src" not in policy


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_is_more_than_text(text):
    body = manifest(
        counts={text: 3, f"{text}_read": 4, f"documents_dropped_{text}": 1}, metrics={text: 0.5}, warnings=[text],
        facts={"algorithm": text, "vocab_size": text, "type": text, "lexical": {"mode": text}}, settings={text: text},
        versions={text: text}, command=text, device=text, recipe=text, digest=text, wordpipe=text,
        outputs=[{"path": text, "bytes": 1, "rows": None}],
    )  # fmt: skip
    log = [{"step": 1, "tokens": 1, "split": "train", "loss": 2.0, "lr": 0.1, "seconds": 1.0}]
    run = {
        "finished": True,
        "log": log,
        "unigram_entropy": None,
        "tokens": 1,
        "seconds": 1.0,
        "loss": 2.0,
        "valid_loss": None,
    }
    sources = [{"kind": "source", "path": text, "bytes": 1, "digest": text}]
    artifacts = [
        ReportedArtifact(text, body | {"kind": kind}, "stale", [text], {text: text}, [run], [text], sources)
        for kind in ("tokens", "index", text)
    ]
    evaluations = {text: {"evaluated": text, "data": [text], "metrics": {text: 1.0}}}
    page = page_with(*artifacts, evaluations=evaluations, missing=[(text, text)], said_by=text, notes=[text])
    plain = page_with(*[replace(one, name="a", made_from=["a"]) for one in artifacts])
    assert set(page.names) <= set(plain.names) | {"h3"}
    assert not {"script", "img"} & set(page.names)
    assert not [one for one in page.attributes if one[1].startswith("on")]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", page.text)
    assert max(map(len, page.text.split())) <= 600


def test_states_are_said_in_words_and_the_worst_comes_first():
    artifacts = [
        ReportedArtifact("words", manifest(warnings=["few words"]), "stale", ["words.dim 100 → 64"]),
        ReportedArtifact("model", state="damaged", reasons=["model.safetensors: wrong size"]),
    ]
    text = page_with(*artifacts, missing=[("index", "missing")]).text
    assert "1 stale, 1 damaged" in text
    assert "1 stage not made" in text
    places = [text.index(some) for some in ("wrong size", "words.dim 100 → 64", "not made: missing", "few words")]
    assert places == sorted(places)


def test_it_begins_in_plain_words_and_folds_what_is_for_checking():
    made = [
        ReportedArtifact(
            "corpus", manifest("corpus", counts={"documents_kept": 165, "sources": 1, "bytes_read": 111_579})
        ),
        ReportedArtifact(
            "index", manifest("index", counts={"vectors": 165}, facts={"dim": 32, "lexical": {"terms": 9}})
        ),
        ReportedArtifact(
            "colours",
            manifest(
                "model", command="train classifier", metrics={"valid_accuracy": 0.857}, counts={"texts_held_out": 7}
            ),
        ),
    ]
    page = page_with(*made)
    said = (
        "corpus has 165 texts from 1 file (111.6 kB). index finds 165 texts by their words and by their meaning. "
        "colours gives the right label to 86% of 7 texts that it did not learn from. 3 artifacts of"
    )
    assert said in " ".join(page.text.split())
    assert page.names.count("details") >= 3
    assert page.text.index("Quality") < page.text.index("Flow")


def test_there_is_one_held_out_loss_and_a_rise_is_a_warning():
    def run(*losses):
        rows = [
            {"step": n, "tokens": 1000 * n, "split": "valid", "loss": loss, "lr": 1.0, "seconds": 1.0}
            for n, loss in enumerate(losses, start=1)
        ]
        return {"finished": True, "log": rows, "unigram_entropy": None, "tokens": 1000 * len(rows), "seconds": 1.0,
                "loss": 2.0, "valid_loss": losses[-1]}  # fmt: skip

    kept = manifest("model", metrics={"valid_loss": 2.71234})
    page = page_with(ReportedArtifact("words", kept, logs=[run(2.9, 2.7, 3.3)]))
    assert page.text.count("held-out loss 2.7123") == 2
    assert "3.300: from there on the training learned" in page.text
    assert "was lowest after 2,000 tokens (2.700)" in page.text
    steady = page_with(ReportedArtifact("words", kept, logs=[run(2.9, 2.70, 2.71)]))
    assert "was lowest" not in steady.text


def test_the_ledger_says_what_was_read_kept_and_dropped():
    counts = {
        "bytes_read": 2000, "bytes_kept": 1500, "bytes_dropped_duplicate": 500,
        "documents_read": 4, "documents_kept": 3, "documents_dropped_duplicate": 1, "files_skipped.png": 2, "sources": 1,
    }  # fmt: skip
    text = page_with(ReportedArtifact("corpus", manifest("corpus", counts=counts))).text
    assert "documents4375.0%1 duplicate" in text
    assert "bytes2.0 kB1.5 kB75.0%500 B duplicate" in text
    assert "2 png" in text


def test_the_systems_of_an_evaluation_stand_side_by_side():
    systems = [
        {"system": name, "metrics": {"recall_at_10": share, "nested": {}}}
        for name, share in (("bm25", 0.5), ("ours", 0.75))
    ]
    found = {"evaluated": "retrieval", "data": "set", "metrics": {"recall_at_10": 0.5}, "systems": systems}
    text = page_with(ReportedArtifact("index", manifest("index")), evaluations={"r.json": found}).text
    assert "bm25ours" in text
    assert "recall@1050.0075.00" in text
    assert "evaluations" not in text


def test_long_logs_are_thinned_and_gaps_stay():
    log = [
        {"tokens": n, "split": "train", "loss": None if 100 <= n < 200 else 5 - n / 1000, "lr": 0.1}
        for n in range(1, 3000)
    ]
    drawing = loss_curves(log, 4.5, "a <b>")
    assert len(drawing) < 20_000
    assert "a &lt;b&gt;" in drawing
    line = re.search('class="train" d="([^"]*)"', drawing)[1]
    assert line.count("M") == 2
    assert loss_curves([{"tokens": 1, "split": "train", "loss": None, "lr": 0.1}], None, "a") == ""
    assert "NaN" not in loss_curves([{"tokens": 0, "split": "valid", "loss": 1.0, "lr": None}], float("nan"), "a")


def test_lines_of_the_flow_and_bars():
    lines = flow_lines([(0, 1), (0, 2), (0, 2)], 3)
    assert lines.count("<path") == 2
    assert lines.count("<circle") == 3
    assert 'width="100.00"' in bar(7)
    assert 'width="0.00"' in bar(-1)


def test_a_text_is_shown_without_its_middle():
    assert shown("a" * 1000, 10) == "aaaaa … aaaaa"
    assert shown("a\nb\t\u202e") == "a b \\u202e"
