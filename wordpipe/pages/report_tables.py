"""Tables, lists and sample questions of a report as HTML, of texts that anybody may have written."""

from collections.abc import Mapping, Sequence

from wordpipe.metrics import Table
from wordpipe.pages.markup import shown
from wordpipe.pages.reported import ReportedArtifact


def figures_html(table: Table) -> str:
    """Return a table of figures of the report as HTML; missing cells are empty."""
    rows = ""
    for label, cells in table.rows:
        if any(cells):
            texts = "".join(f"<td class=n>{shown(cell or '', 200)}</td>" for cell in cells)
            rows += f"<tr><th scope=row>{shown(label, 80)}</th>{texts}</tr>"
    if not rows:
        return ""
    head = "".join(f"<th scope=col class=n>{named(title)}</th>" for title in table.heads)
    said = f"<caption>{shown(table.title)}</caption>" if table.title else ""
    return scroll_table(f"{said}<thead><tr><td></td>{head}</tr></thead>", rows)


def scroll_table(head: str, rows: str) -> str:
    """Wrap rows in a table that scrolls where it has no room, also by keys."""
    return f'<div class="scroll" tabindex="0"><table>{head}<tbody>{rows}</tbody></table></div>'


def head_row(*names: str) -> str:
    """Return the header of a table of the report; a name that ends in " n" is of a column of numbers."""
    cells = [
        f"<th scope=col{' class=n' if name.endswith(' n') else ''}>{name.removesuffix(' n')}</th>" for name in names
    ]
    return f"<thead><tr>{''.join(cells)}</tr></thead>"


def folded(title: str, of: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    """Return values of each artifact in a folded part of the page, which is unfolded on paper."""
    parts = "".join(f"<h3>{named(name)}</h3>{definitions(items)}" for name, items in of)
    return f"<details><summary>{title}</summary>{parts}</details>" if parts else ""


def definitions(items: Mapping[str, str]) -> str:
    """Return names and values of the report as a list."""
    rows = "".join(
        f"<div><dt>{shown(name, 100)}</dt><dd>{shown(value, 200)}</dd></div>" for name, value in items.items()
    )
    return f"<dl>{rows}</dl>"


def named(name: str) -> str:
    """Return the name of an artifact as HTML."""
    return f"<bdi>{shown(name, 60)}</bdi>"


def sample_questions(indexes: Sequence[ReportedArtifact]) -> str:
    """Return the report's section of sample questions with the answers of each index, as HTML."""
    body = ""
    for one in indexes:
        body += f"<h3>{named(one.name)}</h3>" if len(indexes) > 1 else ""
        for sample in one.samples:
            answers = ""
            for answer in sample["answers"]:
                title, place = shown(answer["title"], 200), shown(answer["place"], 120)
                parts = [f"<b><bdi>{title}</bdi></b>"] * bool(title) + [f"<small><bdi>{place}</bdi></small>"] * bool(
                    place
                )
                text = "".join(
                    f"<mark>{shown(piece)}</mark>" if is_marked else shown(piece)
                    for piece, is_marked in answer["pieces"]
                )
                answers += f"<li>{' '.join(parts)}<p dir=auto>{text}</p></li>"
            body += f"<figure class=sample><figcaption><bdi>{shown(sample['query'], 200)}</bdi></figcaption>"
            body += f"<ol>{answers}</ol></figure>"
    said = (
        "Questions are titles of texts, or words of several texts, from all of the index; answers are the first ones."
    )
    return f'<p class="hint">{said}</p><div class="samples">{body}</div>' if body else ""
