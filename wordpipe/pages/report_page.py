"""The report of a pipeline: facts of its artifacts in, one self-contained page out, which runs no script at all.

It is what one attaches to a paper or a pull request, so it says what is stale or damaged as loudly as what is good, it can be
printed, and the same facts give the same bytes (there is no date on it). Names and values come from files that anybody may
have written: all of them go through `shown`. The page is put together from the files in `report/`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wordpipe.artifacts import notes_of
from wordpipe.metrics import Figure, System, Table, side_by_side, table_of_labels
from wordpipe.pages.drawings import bar, flow_lines, is_number, loss_curves
from wordpipe.pages.markup import page_of, shown
from wordpipe.pages.report_tables import (
    definitions,
    figures_html,
    folded,
    head_row,
    named,
    sample_questions,
    scroll_table,
)
from wordpipe.pages.reported import ReportedArtifact, ReportedPipeline, overfit, plain_words
from wordpipe.wording import counted, human_bytes, human_count, human_seconds, noun, short_name

_STATES = {"fresh": "fresh", "stale": "stale", "kept": "kept", "damaged": "damaged", "unknown": "whole"}
_MOST_SOURCES = 30
_FOLDED = ("Counts", "Settings", "Sources", "Versions")
_LEDGER = re.compile(r"(?P<what>\w+?)_(?P<fate>read|kept|dropped|skipped)(?:[_.](?P<why>[\w.]+))?")
_SCORES = ("bytes_per_token", "tokens_per_word", "bytes_per_token_b", "unknown_rate")
_UNITS = {"distinct": "different words"}
_SPEEDS = ("vector_searches_per_s", "vector_queries_per_s", "exact_queries_per_s")


def draw_report(pipeline: ReportedPipeline) -> bytes:
    """Return the page of the report, UTF-8. The same facts give the same bytes."""
    # sections that have something to show
    found = [(title, body) for title, body in _sections(pipeline) if body]
    names = {title: re.sub(r"\W+", "-", title.lower()) for title, _ in found}
    checked = (
        "Every file was compared with its hash."
        if pipeline.verified
        else "The sizes of files were checked, but not their hashes."
    )
    who_says = "No config was given, so an artifact is stale if one of its inputs in this folder has changed."
    if pipeline.said_by:
        who_says = f"The config {pipeline.said_by} decides which artifacts are fresh or stale."
    # what stands around the sections
    fills = {
        "title": shown(pipeline.title),
        "version": shown(pipeline.version),
        "lead": _lead(pipeline),
        "contents": " ".join(f'<a href="#{names[title]}">{title}</a>' for title, _ in found),
        "sections": "\n".join(_section(title, names[title], body) for title, body in found),
        "foot": f"{checked} {shown(who_says)}",
    }
    return page_of("report", fills)


def _section(title: str, name: str, body: str) -> str:
    """Return a section of the report; one for those who check the report is folded."""
    head = f'<h2 id="{name}">{title}</h2>'
    body = f"<details><summary>{head}</summary>{body}</details>" if title in _FOLDED else head + body
    return f'<section aria-labelledby="{name}">{body}</section>'


def _sections(pipeline: ReportedPipeline) -> Iterator[tuple[str, str]]:
    artifacts = pipeline.artifacts
    yield "Warnings", _notes(pipeline)
    yield "Sample questions", sample_questions([one for one in artifacts if one.samples])
    yield "Quality", _quality(pipeline)
    yield "Texts", _texts(artifacts)
    yield "Index", _indexes([one for one in artifacts if one.kind == "index"])
    yield "Training", _training(artifacts)
    yield "Tokenizers", _tokenizers([one for one in artifacts if one.kind == "tokens"])
    yield "Flow", _flow(artifacts)
    yield "Counts", _ledger(artifacts)
    yield "Settings", _settings(artifacts)
    yield "Sources", _sources(artifacts)
    yield "Versions", _versions(artifacts)


def _lead(pipeline: ReportedPipeline) -> str:
    """Return the lead of the report's page: artifacts, sizes, times, states, warnings in a sentence or two."""
    artifacts = pipeline.artifacts
    size, seconds = sum(one.size for one in artifacts), sum(one.seconds for one in artifacts)
    peak = max((one.manifest.get("peak_memory_bytes", 0) for one in artifacts), default=0)
    head = f"{counted(len(artifacts), 'artifacts')} of {human_bytes(size)}, made in {human_seconds(seconds)}"
    head += f" with at most {human_bytes(peak)} of memory." if peak else "."
    states = [(name, sum(one.state == state for one in artifacts)) for state, name in _STATES.items()]
    said = ", ".join(f'<span class="state {name}">{count} {name}</span>' for name, count in states if count)
    said += f", {counted(len(pipeline.missing), 'stages')} not made" if pipeline.missing else ""
    warnings = sum(len(one.manifest.get("warnings", ())) for one in artifacts)
    said_first = " ".join(f"{named(name)} {shown(sentence)}" for name, sentence in plain_words(artifacts))
    head = f"{said_first} {head}".strip()
    return f"{head} {said}; {counted(warnings, 'warnings') if warnings else 'no warnings'}."


def _texts(artifacts: Sequence[ReportedArtifact]) -> str:
    """Return the report's section on texts, as HTML: from when they are, and in which clusters."""
    rows = "".join(
        f"<tr><th scope=row>{named(one.name)}</th><td><bdi>{shown(name, 60)}</bdi></td>"
        f"<td>{shown(first, 40)}</td><td>{shown(last, 40)}</td></tr>"
        for one in artifacts for name, (first, last) in one.dates.items()
    )  # fmt: skip
    body = scroll_table(head_row("artifact", "dates in", "from", "to"), rows) if rows else ""
    for one in artifacts:
        sizes = [size for _, size in one.clusters]
        rows = "".join(
            f"<tr><th scope=row><bdi>{shown(label, 120)}</bdi></th><td class=n>{size:,}</td>"
            f"<td class=wide>{bar(size / max(sizes))}</td></tr>"
            for label, size in one.clusters
        )
        more = _whole(one.manifest.get("counts", {}).get("clusters")) if sizes else ""
        title = f"<caption>The {len(sizes)} largest of {more} clusters of {named(one.name)}</caption>"
        title = f"<caption>Clusters of {named(one.name)}</caption>" if more == f"{len(sizes):,}" else title
        body += scroll_table(title + head_row("cluster", "texts n", "size"), rows) if rows else ""
    return body


def _flow(artifacts: Sequence[ReportedArtifact]) -> str:
    # lines from what an artifact was made of; the scales of the bars
    row_of = {one.name: row for row, one in enumerate(artifacts)}
    edges = [(row_of[name], row_of[one.name]) for one in artifacts for name in one.made_from if name in row_of]
    longest = max((one.seconds for one in artifacts), default=0) or 1
    largest = max((one.size for one in artifacts), default=0) or 1
    # a row for each artifact: name and state, what it holds, time and size
    rows = []
    for one in artifacts:
        made_from, sources = ", ".join(one.made_from), one.sources
        if not made_from and sources:
            made_from = (
                str(sources[0]["path"] or sources[0]["kind"]) if len(sources) == 1 else counted(len(sources), "sources")
            )
        source = f"from <bdi>{shown(made_from, 80)}</bdi>" if made_from else ""
        # its state, and bars for time and size
        state, cells = _STATES[one.state], ['<div class="figure">—</div>'] * 2
        if one.manifest:
            amounts = (
                (human_seconds(one.seconds), one.seconds / longest, ""),
                (human_bytes(one.size), one.size / largest, " size"),
            )
            cells = [f'<div class="figure{kind}">{text}{bar(share)}</div>' for text, share, kind in amounts]
        # the row
        said = f'<span class="state {state}">{state}</span>'
        rows.append(
            f"<li><div><b>{named(one.name)}</b><small>{shown(one.manifest.get('command', 'unknown'), 40)}"
            f' · {said}</small></div><div class="what">{shown(_holds(one), 80)}'
            f"<small>{source}</small></div>{''.join(cells)}</li>"
        )
    return (
        '<p class="hint">Lines connect each artifact with its inputs. Bars compare times and sizes.</p>'
        f'<div class="flow">{flow_lines(edges, len(artifacts))}<ol>{"".join(rows)}</ol></div>'
    )


def _holds(one: ReportedArtifact) -> str:
    """Return for the report's page the number of rows in the main table, else of weights."""
    outputs = one.manifest.get("outputs", ())
    rows = sum(file["rows"] or 0 for file in outputs if str(file["path"]).startswith(f"{one.kind}-"))
    of = {"corpus": "sentences", "tokens": "sentences", "words": "words", "sentences": "vectors"}
    if rows:
        return counted(rows, of.get(one.kind, "clusters" if one.kind == "clusters" else "rows"))
    if weights := one.manifest.get("counts", {}).get("parameters"):
        return f"{human_count(weights)} weights"
    return one.kind


def _notes(pipeline: ReportedPipeline) -> str:
    """Return the report's list of damage, stale and missing stages and warnings, the worst first, as HTML."""
    lines = [("bad", one.name, "; ".join(one.reasons)) for one in pipeline.artifacts if one.state == "damaged"]
    changed = [one for one in pipeline.artifacts if one.state in ("stale", "kept") and one.reasons]
    lines += [("", one.name, f"{one.state}: {', '.join(one.reasons)}") for one in changed]
    lines += [("", name, f"not made: {why}") for name, why in pipeline.missing]
    lines += [("", "", note) for note in pipeline.notes]
    lines += [("", one.name, text) for one in pipeline.artifacts for run in one.logs if (text := overfit(run["log"]))]
    lines += [("", one.name, str(text)) for one in pipeline.artifacts for text in one.manifest.get("warnings", ())]
    items = ""
    for kind, name, text in lines:
        strong = f"<b>{named(name)}</b> " if name else ""
        items += f'<li class="{kind}">{strong}<bdi>{shown(text, 600)}</bdi></li>'
    return f'<ul class="notes">{items}</ul>' if items else ""


def _training(artifacts: Sequence[ReportedArtifact]) -> str:
    """Return the report's section on trainings, as HTML."""
    # a drawing for each run with a loss, and its last figures
    figures = []
    for one in artifacts:
        for run in one.logs:
            drawing = loss_curves(run["log"], run["unigram_entropy"], one.name)
            if not drawing:
                continue
            # what is said beside it
            end = "" if run["finished"] else ", not finished"
            said = [f"{human_count(run['tokens'])} tokens", human_seconds(run["seconds"]) + end]
            said += notes_of(one.manifest.get("facts", {})) if run["finished"] else ()
            said += [f"training loss {run['loss']:.3f}"] if is_number(run["loss"]) else []
            # what the finished artifact has: its weights may be of another step, or averaged, and its probabilities calibrated
            final = one.manifest.get("metrics", {}).get("valid_loss") if run["finished"] else None
            held = final if is_number(final) else run["valid_loss"]
            said += [f"held-out loss {held:.4f}"] if is_number(held) else []
            figures.append(
                f"<figure><figcaption><b>{named(one.name)}</b> {shown(one.manifest.get('command', ''))} · "
                f"{' · '.join(said)}</figcaption>{drawing}</figure>"
            )
    # what the lines mean
    legend = (
        '<p class="hint">Upper part: loss in nats per target, by the number of tokens read. Lower part: learning rate.'
        ' <span class="line"><span class="key"></span>training</span>'
        ' <span class="line"><span class="key held"></span>held-out text</span>'
        ' <span class="line"><span class="key known"></span>a model that knows only token frequencies.</span>'
        " Losses of different objectives cannot be compared.</p>"
    )
    return f'{legend}<div class="charts">{"".join(figures)}</div>' if figures else ""


def _ledger(artifacts: Sequence[ReportedArtifact]) -> str:
    """Return the report's table of what was read, kept and dropped, with reasons; then all other counts."""
    # names of counts say what was counted and what became of it
    rows, others = [], []
    for one in artifacts:
        counts = {name: n for name, n in one.manifest.get("counts", {}).items() if n}
        fates: dict[str, dict[str, int]] = {}
        lost: dict[str, list[str]] = {}
        # what was dropped is added up over its reasons
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
        # a row for each thing that was counted
        for what, fate in fates.items():
            form = human_bytes if what == "bytes" else "{:,}".format
            read = fate.get("read") or fate.get("kept", 0) + fate.get("dropped", 0)
            share = fate["kept"] / read if "kept" in fate and read else None
            cells = [form(read) if read else "", form(fate["kept"]) if "kept" in fate else ""]
            # the row, with a bar for the share that was kept
            rows.append(
                f"<tr><th scope=row>{named(one.name)}</th><td>{shown(_UNITS.get(what, what).replace('_', ' '))}</td>"
                + "".join(f"<td class=n>{cell}</td>" for cell in cells)
                + f"<td class=wide>{'' if share is None else f'{share:.1%}{bar(share)}'}</td>"
                + f"<td class=why>{shown(', '.join(lost.get(what, [])))}</td></tr>"
            )
        if counts:
            others.append((one.name, {name.replace("_", " "): f"{n:,}" for name, n in counts.items()}))
    head = head_row("artifact", "what", "read n", "kept n", "share", "dropped, and why")
    table = scroll_table(head, "".join(rows)) if rows else ""
    return table + folded("All counts", others)


def _tokenizers(artifacts: Sequence[ReportedArtifact]) -> str:
    """Return the report's table of the figures of tokenizers, side by side."""
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
    return figures_html(side_by_side(columns))


def _quality(pipeline: ReportedPipeline) -> str:
    """Return the report's section on quality, as HTML: figures of artifacts, and kept evaluations."""
    # figures that artifacts carry
    rows = []
    for one in pipeline.artifacts:
        metrics = {name: value for name, value in one.manifest.get("metrics", {}).items() if name not in _SPEEDS}
        if metrics:
            lines = [line for name, value in metrics.items() for line in _figure(name, value).lines()]
            text = shown(" · ".join(f"{short_name(label, 100)} {cell or ''}" for label, cell in lines), 2_000)
            rows.append(f"<tr><th scope=row>{named(one.name)}</th><td class=what>{text}</td></tr>")
    body = f"<table><caption>Measured in the stage</caption><tbody>{''.join(rows)}</tbody></table>" if rows else ""
    # evaluations kept as files
    for file, found in pipeline.evaluations.items():
        data = found.get("data")
        of = ", ".join(map(str, data)) if isinstance(data, list) else str(data or "")
        body += f"<h3>evaluate {shown(found['evaluated'], 40)}: <bdi>{shown(of, 120)}</bdi></h3>"
        body += figures_html(side_by_side([*_systems(found)], title=f"from {file}"))
        body += "".join(_labels(one) for one in _evaluated(found))
    if not pipeline.evaluations:
        body += (
            '<p class="hint">To show evaluations here, save the output of <code>wordpipe evaluate … --json</code> as '
            ".json files in the folder.</p>"
        )
    return body


def _systems(found: Mapping[str, Any]) -> Iterator[System]:
    """Yield for the report's page the evaluated systems of a file of `evaluate --json`, with their figures."""
    for one in _evaluated(found):
        drawn = one.get("intervals")
        intervals = drawn if isinstance(drawn, Mapping) else {}
        figures = [(key, value, intervals.get(key)) for key, value in one["metrics"].items() if is_number(value)]
        yield System(
            str(one.get("system") or one.get("name") or found["evaluated"]),
            [_figure(key, value, interval) for key, value, interval in figures[:40]],
        )


def _evaluated(found: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return what a file of `evaluate --json` says of each system, of thirty at most, for the report."""
    lists = [value for value in found.values() if isinstance(value, list)]
    return next((some for some in lists if some and all(_has_metrics(one) for one in some)), [found])[:30]


def _labels(one: Mapping[str, Any]) -> str:
    """Return the report's tables of the labels of an evaluated system: precision, recall, F1, support; as HTML."""
    of_labels = one.get("by_label")
    if not isinstance(of_labels, Mapping):
        return ""
    names = ("precision", "recall", "f1", "support")
    whole = {
        label: scores for label, scores in of_labels.items()
        if isinstance(scores, Mapping) and all(is_number(scores.get(name)) for name in names)
    }  # fmt: skip
    title = " ".join(["each label,", str(one.get("system") or one.get("name") or "")]).rstrip(", ")
    parts = table_of_labels(whole, title, spans="span_f1" in one["metrics"])
    return "".join(
        figures_html(part) if isinstance(part, Table) else f'<p class="hint">{shown(part)}</p>' for part in parts
    )


def _has_metrics(one: object) -> bool:
    return isinstance(one, Mapping) and isinstance(one.get("metrics"), Mapping)


def _indexes(artifacts: Sequence[ReportedArtifact]) -> str:
    """Return the report's table of the kind, recall and speed of each index, side by side."""
    # facts and figures of each index, as far as its manifest has them
    columns = []
    for one in artifacts:
        facts, metrics = one.manifest.get("facts", {}), one.manifest.get("metrics", {})
        lexical = facts.get("lexical") if isinstance(facts.get("lexical"), Mapping) else {}
        file = sum(each["bytes"] for each in one.manifest.get("outputs", ()) if each["path"] == "index.faiss")
        fast = next((metrics[name] for name in _SPEEDS[:2] if is_number(metrics.get(name))), None)
        exact = metrics.get("exact_queries_per_s")
        # the column; what is not known is left empty
        column = {
            "type": "words alone" if facts.get("dim") == 0 else str(facts.get("type", "")),
            "vectors": _whole(one.manifest.get("counts", {}).get("vectors")),
            "texts without a vector": _whole(one.manifest.get("counts", {}).get("without_vector")),
            "dimensions": _whole(facts.get("dim") or None),
            "file": human_bytes(file) if file else "",
            "recall at 10": f"{recall:.1%}" if is_number(recall := metrics.get("recall_at_10")) else "",
            "queries in the recall test": _whole(facts.get("queries")),
            # how fast, and how the words are found
            "searches per second": human_count(fast) if fast else "",
            "exact searches per second": human_count(exact) if is_number(exact) else "",
            "words (BM25)": f"{lexical['terms']:,} {noun(2, 'terms')}" if is_number(lexical.get("terms")) else "none",
            "default search": str(lexical.get("mode", "vectors")),
        }
        # what its vectors and words find
        measured = lexical.get("measured")
        if isinstance(measured, Mapping) and isinstance(measured.get("ndcg_at_10"), Mapping):
            column |= {
                f"nDCG@10, {name[:20]}": f"{value:.3f}"
                for name, value in measured["ndcg_at_10"].items() if is_number(value)
            }  # fmt: skip
        columns.append(System(one.name, [], shown=[(name, value) for name, value in column.items() if value]))
    return figures_html(side_by_side(columns))


def _settings(artifacts: Sequence[ReportedArtifact]) -> str:
    """Return the report's section on settings that are not by default, and all settings to unfold."""
    rows = []
    for one in artifacts:
        if one.manifest:
            chosen = ", ".join(
                f"<code>{shown(name, 60)} = {shown(_json(value), 80)}</code>" for name, value in one.chosen.items()
            )
            rows.append(
                f"<tr><th scope=row>{named(one.name)}</th><td>{shown(one.manifest['command'])}</td>"
                f"<td class=what>{chosen or 'all defaults'}</td></tr>"
            )
    head = f"<caption>Settings that differ from the defaults</caption>{head_row('artifact', 'command', 'settings')}"
    table = scroll_table(head, "".join(rows))
    every = [
        (one.name, {name: _json(value) for name, value in one.manifest["settings"].items()})
        for one in artifacts if one.manifest and one.manifest["settings"]
    ]  # fmt: skip
    return table + folded("All settings", every) if rows else ""


def _sources(artifacts: Sequence[ReportedArtifact]) -> str:
    """Return the report's table of the sources that were read."""
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
    head = head_row("source", "read by", "size n", "digest")
    return scroll_table(head, "".join(rows)) if rows else ""


def _versions(artifacts: Sequence[ReportedArtifact]) -> str:
    """Return the report's table of recipes, digests and machines, and the versions of libraries."""
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
    head = head_row("artifact", "recipe", "digest", "same bytes every run", "made on", "memory n")
    items = {name: ", ".join(sorted(versions)) for name, versions in sorted(libraries.items())}
    return f"{scroll_table(head, ''.join(rows))}<h3>Libraries</h3>{definitions(items)}"


def _figure(key: str, value: object, interval: object = None) -> Figure:
    """Return a figure from JSON of unknown origin; a value that is no number becomes None."""
    good = isinstance(interval, list) and len(interval) == 2 and all(map(is_number, interval))
    return Figure(key, value if is_number(value) else None, interval if good else None)  # type: ignore[arg-type]


def _whole(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else ""


def _ratio(part: float | None, of: float | None) -> float | None:
    return part / of if part is not None and of else None


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
