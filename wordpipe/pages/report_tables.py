"""The tables of a report on a pipeline, as HTML, and the facts that they show: as plain values, no artifact is opened here."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wordpipe.metrics import Figure, System, Table, side_by_side
from wordpipe.pages.markup import shown
from wordpipe.pages.report_drawings import bar
from wordpipe.wording import counted, human_bytes, human_count, noun, short_name

_MOST_SOURCES = 30
_LEDGER = re.compile(r"(?P<what>\w+?)_(?P<fate>read|kept|dropped|skipped)(?:[_.](?P<why>[\w.]+))?")
_SCORES = ("bytes_per_token", "tokens_per_word", "bytes_per_token_b", "unknown_rate")
_UNITS = {"distinct": "different words"}
_SPEEDS = ("vector_searches_per_s", "vector_queries_per_s", "exact_queries_per_s")


@dataclass(frozen=True)
class ReportedArtifact:
    """One artifact of a pipeline.

    Attributes:
        name: of it in the pipeline.
        manifest: as JSON has it; empty: it could not be read.
        state: fresh, stale, kept, damaged, or unknown (nobody knows how it should be made).
        reasons: of the state; of what is damaged what is wrong.
        chosen: settings that are not as they are by default.
        logs: runs of its training: finished, log, unigram_entropy.
        made_from: names of artifacts of the pipeline.
        sources: other inputs: kind, path, bytes, digest.
    """

    name: str
    manifest: Mapping[str, Any] = field(default_factory=dict)
    state: str = "unknown"
    reasons: Sequence[str] = ()
    chosen: Mapping[str, Any] = field(default_factory=dict)
    logs: Sequence[Mapping[str, Any]] = ()
    made_from: Sequence[str] = ()
    sources: Sequence[Mapping[str, Any]] = ()

    @property
    def kind(self) -> str:
        """Of artifact; empty: unknown."""
        return str(self.manifest.get("kind", ""))

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(one["bytes"] for one in self.manifest.get("outputs", ()))

    @property
    def seconds(self) -> float:
        """How long it took to make."""
        return float(self.manifest.get("seconds", 0.0))


@dataclass(frozen=True)
class ReportedPipeline:
    """What a report shows.

    Attributes:
        title: of the page.
        version: of wordpipe, which writes the report.
        artifacts: each after what it was made from.
        evaluations: file name → what `evaluate --json` printed.
        missing: stages of the config that were never made: name, why.
        said_by: the config that says what is fresh; empty: the artifacts alone.
        verified: every file was compared with its hash.
        notes: what could not be read.
    """

    title: str
    version: str
    artifacts: Sequence[ReportedArtifact]
    evaluations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    missing: Sequence[tuple[str, str]] = ()
    said_by: str = ""
    verified: bool = False
    notes: Sequence[str] = ()


def ledger_table(artifacts: Sequence[ReportedArtifact]) -> str:
    """What was read, what became of it, and why something was lost; then all other counts."""
    rows, others = [], []
    for one in artifacts:
        counts = {name: n for name, n in one.manifest.get("counts", {}).items() if n}
        fates: dict[str, dict[str, int]] = {}
        lost: dict[str, list[str]] = {}
        for name, n in counts.items():
            match = _LEDGER.fullmatch(name)
            if match is None:
                continue
            what, fate, why = match["what"], match["fate"], match["why"]
            if fate in ("dropped", "skipped"):
                of = fates.setdefault(what, {})
                of["dropped"] = of.get("dropped", 0) + n
                amount = human_bytes(n) if what == "bytes" else f"{n:,}"
                lost.setdefault(what, []).append(f"{amount} {(why or fate).replace('_', ' ')}")
            elif why is None:
                fates.setdefault(what, {})[fate] = n
        for what, fate in fates.items():
            form = human_bytes if what == "bytes" else "{:,}".format
            read = fate.get("read") or fate.get("kept", 0) + fate.get("dropped", 0)
            share = fate["kept"] / read if "kept" in fate and read else None
            cells = [form(read) if read else "", form(fate["kept"]) if "kept" in fate else ""]
            rows.append(
                f"<tr><th scope=row>{named(one.name)}</th><td>{shown(_UNITS.get(what, what).replace('_', ' '))}</td>"
                + "".join(f"<td class=n>{cell}</td>" for cell in cells)
                + f"<td class=wide>{'' if share is None else f'{share:.1%}{bar(share)}'}</td>"
                + f"<td class=why>{shown(', '.join(lost.get(what, [])))}</td></tr>"
            )
        if counts:
            others.append((one.name, {name.replace("_", " "): f"{n:,}" for name, n in counts.items()}))
    head = _head("artifact", "what", "read n", "kept n", "share", "dropped, and why")
    table = _table(head, "".join(rows)) if rows else ""
    return table + _folded("All counts", others)


def tokenizers_table(artifacts: Sequence[ReportedArtifact]) -> str:
    """How well each tokenizer does, side by side."""
    columns = []
    for one in artifacts:
        counts, facts = one.manifest.get("counts", {}), one.manifest.get("facts", {})
        figures = {
            **one.manifest.get("metrics", {}),
            "tokens_per_word": _ratio(counts.get("tokens"), counts.get("words")),
            "unknown_rate": _ratio(counts.get("tokens_unknown", 0), counts.get("tokens")),
        }
        column = {"algorithm": str(facts.get("algorithm", "")), "vocabulary": _whole(facts.get("vocab_size"))}
        column |= {"tokens": _whole(counts.get("tokens")), "different words": _whole(counts.get("distinct_words"))}
        columns.append(
            System(one.name, [], shown=[*column.items(), *(_figure(name, figures.get(name)) for name in _SCORES)])
        )
    return _html(side_by_side(columns))


def quality_table(pipeline: ReportedPipeline) -> str:
    """Figures that artifacts carry, and the evaluations that were kept beside them."""
    rows = []
    for one in pipeline.artifacts:
        metrics = {name: value for name, value in one.manifest.get("metrics", {}).items() if name not in _SPEEDS}
        if metrics:
            figures = (_figure(name, value) for name, value in metrics.items())
            text = shown(
                " · ".join(f"{short_name(label, 100)} {cell or ''}" for one in figures for label, cell in one.lines()),
                2_000,
            )
            rows.append(f"<tr><th scope=row>{named(one.name)}</th><td class=what>{text}</td></tr>")
    body = (
        f"<table><caption>Measured when they were made</caption><tbody>{''.join(rows)}</tbody></table>" if rows else ""
    )
    for file, found in pipeline.evaluations.items():
        data = found.get("data")
        of = ", ".join(map(str, data)) if isinstance(data, list) else str(data or "")
        body += f"<h3>evaluate {shown(found['evaluated'], 40)}: <bdi>{shown(of, 120)}</bdi></h3>"
        body += _html(side_by_side([*_systems(found)], title=f"kept in {file}"))
    if not pipeline.evaluations:
        body += (
            '<p class="hint">What <code>wordpipe evaluate … --json</code> prints is shown here too where it is kept as a '
            ".json file in the folder.</p>"
        )
    return body


def _systems(found: Mapping[str, Any]) -> Iterator[System]:
    """The systems that were evaluated, with their figures."""
    lists = [value for value in found.values() if isinstance(value, list)]
    systems = next((some for some in lists if some and all(_has_metrics(one) for one in some)), [found])
    for one in systems[:30]:
        drawn = one.get("intervals")
        intervals = drawn if isinstance(drawn, Mapping) else {}
        figures = [(key, value, intervals.get(key)) for key, value in one["metrics"].items() if is_number(value)]
        yield System(
            str(one.get("system") or one.get("name") or found["evaluated"]),
            [_figure(key, value, interval) for key, value, interval in figures[:40]],
        )


def _has_metrics(one: object) -> bool:
    return isinstance(one, Mapping) and isinstance(one.get("metrics"), Mapping)


def indexes_table(artifacts: Sequence[ReportedArtifact]) -> str:
    """Kind, recall and speed of each index, side by side."""
    columns = []
    for one in artifacts:
        facts, metrics = one.manifest.get("facts", {}), one.manifest.get("metrics", {})
        lexical = facts.get("lexical") if isinstance(facts.get("lexical"), Mapping) else {}
        file = sum(each["bytes"] for each in one.manifest.get("outputs", ()) if each["path"] == "index.faiss")
        fast = next((metrics[name] for name in _SPEEDS[:2] if is_number(metrics.get(name))), None)
        exact = metrics.get("exact_queries_per_s")
        column = {
            "type": str(facts.get("type", "")),
            "vectors": _whole(one.manifest.get("counts", {}).get("vectors")),
            "texts without a vector": _whole(one.manifest.get("counts", {}).get("without_vector")),
            "dimensions": _whole(facts.get("dim")),
            "file": human_bytes(file) if file else "",
            "recall at 10": f"{recall:.1%}" if is_number(recall := metrics.get("recall_at_10")) else "",
            "queries it was measured with": _whole(facts.get("queries")),
            "searches per second": human_count(fast) if fast else "",
            "exact searches per second": human_count(exact) if is_number(exact) else "",
            "words (BM25)": f"{lexical['terms']:,} {noun(2, 'terms')}" if is_number(lexical.get("terms")) else "none",
            "answers by": str(lexical.get("mode", "vectors")),
        }
        measured = lexical.get("measured")
        if isinstance(measured, Mapping) and isinstance(measured.get("ndcg_at_10"), Mapping):
            column |= {
                f"nDCG@10, {name[:20]}": f"{value:.3f}"
                for name, value in measured["ndcg_at_10"].items() if is_number(value)
            }  # fmt: skip
        columns.append(System(one.name, [], shown=[(name, value) for name, value in column.items() if value]))
    return _html(side_by_side(columns))


def settings_table(artifacts: Sequence[ReportedArtifact]) -> str:
    """What was chosen, and all settings to unfold."""
    rows = []
    for one in artifacts:
        if one.manifest:
            chosen = ", ".join(
                f"<code>{shown(name, 60)} = {shown(_json(value), 80)}</code>" for name, value in one.chosen.items()
            )
            rows.append(
                f"<tr><th scope=row>{named(one.name)}</th><td>{shown(one.manifest['command'])}</td>"
                f"<td class=what>{chosen or 'all by default'}</td></tr>"
            )
    head = f"<caption>What differs from the defaults</caption>{_head('artifact', 'command', 'settings')}"
    table = _table(head, "".join(rows))
    every = [
        (one.name, {name: _json(value) for name, value in one.manifest["settings"].items()})
        for one in artifacts if one.manifest and one.manifest["settings"]
    ]  # fmt: skip
    return table + _folded("All settings", every) if rows else ""


def sources_table(artifacts: Sequence[ReportedArtifact]) -> str:
    """What was read from elsewhere."""
    rows = []
    for one in artifacts:
        for entry in one.sources[:_MOST_SOURCES]:
            size = human_bytes(entry["bytes"]) if entry["bytes"] is not None else ""
            rows.append(
                f"<tr><th scope=row><bdi>{shown(entry['path'] or entry['kind'], 120)}</bdi></th><td>{named(one.name)}</td>"
                f"<td class=n>{size}</td><td><code class=id>{shown(entry['digest'][:16])}</code></td></tr>"
            )
        if (more := len(one.sources) - _MOST_SOURCES) > 0:
            rows.append(
                f"<tr><th scope=row>and {counted(more, 'more sources')}</th><td>{named(one.name)}</td><td></td><td></td></tr>"
            )
    head = _head("source", "read by", "size n", "digest")
    return _table(head, "".join(rows)) if rows else ""


def versions_table(artifacts: Sequence[ReportedArtifact]) -> str:
    """Recipes and digests, where each was made, and the libraries that made them."""
    rows, libraries = [], dict[str, set[str]]()
    for one in artifacts:
        if not one.manifest:
            continue
        body = one.manifest
        where = f"{shown(body['device'], 20)}, {counted(body['threads'], 'threads')}"
        rows.append(
            f"<tr><th scope=row>{named(one.name)}</th><td><code class=id>{shown(body['recipe'][:16])}</code></td>"
            f"<td><code class=id>{shown(body['digest'][:16])}</code></td><td>{'yes' if body['bitwise'] else 'no'}</td>"
            f"<td>{where}</td>"
            f"<td class=n>{human_bytes(body['peak_memory_bytes'])}</td></tr>"
        )
        for name, version in {"wordpipe": body["wordpipe"], **body["versions"]}.items():
            libraries.setdefault(name, set()).add(str(version))
    if not rows:
        return ""
    head = _head("artifact", "recipe", "digest", "same bytes every run", "made on", "memory n")
    items = {name: ", ".join(sorted(versions)) for name, versions in sorted(libraries.items())}
    return f"{_table(head, ''.join(rows))}<h3>Libraries</h3>{_definitions(items)}"


def _html(table: Table) -> str:
    """A table of an evaluation, or of anything else, as HTML; what is not there is left empty."""
    rows = ""
    for label, cells in table.rows:
        if any(cells):
            texts = "".join(f"<td class=n>{shown(cell or '', 200)}</td>" for cell in cells)
            rows += f"<tr><th scope=row>{shown(label, 80)}</th>{texts}</tr>"
    if not rows:
        return ""
    head = "".join(f"<th scope=col class=n>{named(title)}</th>" for title in table.heads)
    said = f"<caption>{shown(table.title)}</caption>" if table.title else ""
    return _table(f"{said}<thead><tr><td></td>{head}</tr></thead>", rows)


def _table(head: str, rows: str) -> str:
    """A table that scrolls where it has no room, also by keys."""
    return f'<div class="scroll" tabindex="0"><table>{head}<tbody>{rows}</tbody></table></div>'


def _head(*names: str) -> str:
    """The head of a table; a name that ends in " n" is of numbers."""
    cells = [
        f"<th scope=col{' class=n' if name.endswith(' n') else ''}>{name.removesuffix(' n')}</th>" for name in names
    ]
    return f"<thead><tr>{''.join(cells)}</tr></thead>"


def _folded(title: str, of: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    """Values of each artifact, to unfold; printed they are unfolded."""
    parts = "".join(f"<h3>{named(name)}</h3>{_definitions(items)}" for name, items in of)
    return f"<details><summary>{title}</summary>{parts}</details>" if parts else ""


def _definitions(items: Mapping[str, str]) -> str:
    rows = "".join(
        f"<div><dt>{shown(name, 100)}</dt><dd>{shown(value, 200)}</dd></div>" for name, value in items.items()
    )
    return f"<dl>{rows}</dl>"


def _figure(key: str, value: object, interval: object = None) -> Figure:
    """A figure out of JSON that anybody may have written; what is no number is none."""
    good = isinstance(interval, list) and len(interval) == 2 and all(map(is_number, interval))
    return Figure(key, value if is_number(value) else None, interval if good else None)  # type: ignore[arg-type]


def _whole(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else ""


def _ratio(part: float | None, of: float | None) -> float | None:
    return part / of if part is not None and of else None


def is_number(value: object) -> bool:
    """Whether it is one that can be written: no truth value, not infinite."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def named(name: str) -> str:
    """The name of an artifact as HTML."""
    return f"<bdi>{shown(name, 60)}</bdi>"
