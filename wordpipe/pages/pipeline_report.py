"""The report of a pipeline: facts of its artifacts in, one self-contained page out, which runs no script at all.

It is what one attaches to a paper or a pull request, so it says what is stale or damaged as loudly as what is good, it can be
printed, and the same facts give the same bytes (there is no date on it). Names and values come from files that anybody may
have written: all of them go through `shown`. The page is put together from the files in `report/`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wordpipe.artifacts import notes_of
from wordpipe.pages.markup import page_of, shown
from wordpipe.pages.report_drawings import bar, flow_lines, loss_curves
from wordpipe.pages.report_tables import (
    ReportedArtifact,
    ReportedPipeline,
    indexes_table,
    is_number,
    ledger_table,
    named,
    quality_table,
    settings_table,
    sources_table,
    tokenizers_table,
    versions_table,
)
from wordpipe.wording import counted, human_bytes, human_count, human_seconds

_STATES = {"fresh": "fresh", "stale": "stale", "kept": "kept", "damaged": "damaged", "unknown": "whole"}


def draw_report(pipeline: ReportedPipeline) -> bytes:
    """The page, UTF-8. The same facts give the same bytes."""
    found = [(title, body) for title, body in _sections(pipeline) if body]
    names = {title: re.sub(r"\W+", "-", title.lower()) for title, _ in found}
    checked = (
        "Every file was compared with its hash."
        if pipeline.verified
        else "Sizes of files were checked, their hashes were not."
    )
    fills = {
        "title": shown(pipeline.title),
        "version": shown(pipeline.version),
        "lead": _lead(pipeline),
        "contents": " ".join(f'<a href="#{names[title]}">{title}</a>' for title, _ in found),
        "sections": "\n".join(
            f'<section aria-labelledby="{names[title]}"><h2 id="{names[title]}">{title}</h2>{body}</section>'
            for title, body in found
        ),
        "foot": f"{checked} {shown(_who_says(pipeline))}",
    }
    return page_of("report", fills)


def _sections(pipeline: ReportedPipeline) -> Iterator[tuple[str, str]]:
    artifacts = pipeline.artifacts
    yield "Flow", _flow(artifacts)
    yield "Warnings", _notes(pipeline)
    yield "Ledger", ledger_table(artifacts)
    yield "Tokenizers", tokenizers_table([one for one in artifacts if one.kind == "tokens"])
    yield "Training", _training(artifacts)
    yield "Quality", quality_table(pipeline)
    yield "Index", indexes_table([one for one in artifacts if one.kind == "index"])
    yield "Settings", settings_table(artifacts)
    yield "Sources", sources_table(artifacts)
    yield "Versions", versions_table(artifacts)


def _who_says(pipeline: ReportedPipeline) -> str:
    if pipeline.said_by:
        return f"What is fresh or stale is said by {pipeline.said_by}."
    return "No config was given: an artifact is stale here where an input that lies beside it has changed."


def _lead(pipeline: ReportedPipeline) -> str:
    """The report in a sentence or two."""
    artifacts = pipeline.artifacts
    size, seconds = sum(one.size for one in artifacts), sum(one.seconds for one in artifacts)
    peak = max((one.manifest.get("peak_memory_bytes", 0) for one in artifacts), default=0)
    head = f"{counted(len(artifacts), 'artifacts')} of {human_bytes(size)}, made in {human_seconds(seconds)}"
    head += f" with at most {human_bytes(peak)} of memory." if peak else "."
    states = [(name, sum(one.state == state for one in artifacts)) for state, name in _STATES.items()]
    said = ", ".join(f'<span class="state {name}">{count} {name}</span>' for name, count in states if count)
    said += f", {counted(len(pipeline.missing), 'stages')} not made" if pipeline.missing else ""
    warnings = sum(len(one.manifest.get("warnings", ())) for one in artifacts)
    return f"{head} {said}; {counted(warnings, 'warnings') if warnings else 'no warnings'}."


def _flow(artifacts: Sequence[ReportedArtifact]) -> str:
    row_of = {one.name: row for row, one in enumerate(artifacts)}
    edges = [(row_of[name], row_of[one.name]) for one in artifacts for name in one.made_from if name in row_of]
    longest = max((one.seconds for one in artifacts), default=0) or 1
    largest = max((one.size for one in artifacts), default=0) or 1
    rows = []
    for one in artifacts:
        made_from = ", ".join(one.made_from) or _of_sources(one.sources)
        source = f"from <bdi>{shown(made_from, 80)}</bdi>" if made_from else ""
        state, cells = _STATES[one.state], ['<div class="figure">—</div>'] * 2
        if one.manifest:
            amounts = (
                (human_seconds(one.seconds), one.seconds / longest, ""),
                (human_bytes(one.size), one.size / largest, " size"),
            )
            cells = [f'<div class="figure{kind}">{text}{bar(share)}</div>' for text, share, kind in amounts]
        said = f'<span class="state {state}">{state}</span>'
        rows.append(
            f"<li><div><b>{named(one.name)}</b><small>{shown(one.manifest.get('command', 'unknown'), 40)}"
            f' · {said}</small></div><div class="what">{shown(_holds(one), 80)}'
            f"<small>{source}</small></div>{''.join(cells)}</li>"
        )
    return (
        '<p class="hint">Each row was made from those that its line comes from. Bars compare times and sizes.</p>'
        f'<div class="flow">{flow_lines(edges, len(artifacts))}<ol>{"".join(rows)}</ol></div>'
    )


def _of_sources(sources: Sequence[Mapping[str, Any]]) -> str:
    """The one source by name, more of them by number."""
    if len(sources) == 1:
        return str(sources[0]["path"] or sources[0]["kind"])
    return counted(len(sources), "sources") if sources else ""


def _holds(one: ReportedArtifact) -> str:
    """How many of what it holds: rows of its main table, else weights."""
    outputs = one.manifest.get("outputs", ())
    rows = sum(file["rows"] or 0 for file in outputs if str(file["path"]).startswith(f"{one.kind}-"))
    of = {"corpus": "sentences", "tokens": "sentences", "words": "words", "sentences": "vectors", "index": "vectors"}
    if rows:
        return counted(rows, of.get(one.kind, "clusters" if one.kind == "clusters" else "rows"))
    if weights := one.manifest.get("counts", {}).get("parameters"):
        return f"{human_count(weights)} weights"
    return one.kind


def _notes(pipeline: ReportedPipeline) -> str:
    """What is damaged, stale, missing or was warned of; the worst first."""
    lines = [("bad", one.name, "; ".join(one.reasons)) for one in pipeline.artifacts if one.state == "damaged"]
    changed = [one for one in pipeline.artifacts if one.state in ("stale", "kept") and one.reasons]
    lines += [("", one.name, f"{one.state}: {', '.join(one.reasons)}") for one in changed]
    lines += [("", name, f"not made: {why}") for name, why in pipeline.missing]
    lines += [("", "", note) for note in pipeline.notes]
    lines += [("", one.name, str(text)) for one in pipeline.artifacts for text in one.manifest.get("warnings", ())]
    items = ""
    for kind, name, text in lines:
        strong = f"<b>{named(name)}</b> " if name else ""
        items += f'<li class="{kind}">{strong}<bdi>{shown(text, 600)}</bdi></li>'
    return f'<ul class="notes">{items}</ul>' if items else ""


def _training(artifacts: Sequence[ReportedArtifact]) -> str:
    figures = []
    for one in artifacts:
        for run in one.logs:
            drawing = loss_curves(run["log"], run["unigram_entropy"], one.name)
            if not drawing:
                continue
            end = "" if run["finished"] else ", not finished"
            said = [f"{human_count(run['tokens'])} tokens", human_seconds(run["seconds"]) + end]
            said += notes_of(one.manifest.get("facts", {})) if run["finished"] else ()
            said += [f"loss {run['loss']:.3f}"] if is_number(run["loss"]) else []
            said += [f"held out {run['valid_loss']:.3f}"] if is_number(run["valid_loss"]) else []
            figures.append(
                f"<figure><figcaption><b>{named(one.name)}</b> {shown(one.manifest.get('command', ''))} · "
                f"{' · '.join(said)}</figcaption>{drawing}</figure>"
            )
    legend = (
        '<p class="hint">Loss in nats per target along the tokens that were read, the learning rate below.'
        '<span class="key"></span>training<span class="key held"></span>held-out text<span class="key known"></span>'
        "knowing how frequent each token is, and nothing else. Losses of different objectives cannot be compared.</p>"
    )
    return f'{legend}<div class="charts">{"".join(figures)}</div>' if figures else ""
