"""The answers of `wordpipe query`: lines for people, a table, lines for a pipe, CSV, or JSON.

For people an answer is its score and title, where it stands, and the passage that answers best, wrapped to the terminal and
with the query's words marked. Lines are cut by what they take up on the screen, where a Chinese character takes two places.
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from wordpipe.cli.output import (
    cells_of,
    cells_of_letter,
    emphasised,
    escaped,
    fitted,
    one_line,
    safe_text,
    wrapped_words,
)
from wordpipe.wording import place_of_hit

if TYPE_CHECKING:
    from rich.text import Text

    from wordpipe.stages import CsvAnswers, OpenArtifact, Passage, PassageFinder, QueryResult

FORMATS = ("plain", "table", "tsv", "csv", "json")
_PIPED_CHARS = 200  # of a text, where the output is no terminal
_LINES = 3  # of a passage
_FILLED = 0.92  # of these lines, as words that have no room go to the next
_NARROW = 60  # columns; below, answers are indented by 2 and not by the width of a score
_VALUE_CHARS = 40  # of a field's value beside the place
_SCORE, _BETWEEN = 10, 3  # columns of a table that the score and its margins take, and what is before each other one
_CELL, _TEXT = 24, 30  # columns of a cell at most, before it is folded; of a text at least
_LEAST = 20  # columns that are written to, however narrow the terminal is
_CARRIES = 0.1  # of the likeness by vectors: a word of the text that brings less is not marked
_SHOWN_PLACES = 3  # where else the text of an answer stands
_SHOWN_PARTS = 5  # pairs or terms of a line that says why a hit scored as it did
_OURS = {
    "query", "rank", "score", "row", "id", "doc_id", "sentence_id", "record_id", "title", "text", "word", "count", "source",
    "line", "passage_line", "anchor", "place", "see_also", "split", "explain", "related", "metadata", "also_in", "found_in",
}  # fmt: skip
_LESS_RELATED = "— less related: less than half of the question's words (rare ones count more) —"
_PIPED_CELLS = 4  # score, text, place, id; then why, where that was asked
_LEGEND = {
    "dense": "vectors: the cosine is a sum; each number is the contribution of one word, or of one pair of words (query~text)",
    "lexical": "words: the BM25 score is a sum over the words of the query; compare BM25 scores only within the same query",
    "share": "(adds …): how much the vectors or the words add to the hybrid score, which is between 0 and 1",
    "newer": "newer: the score is multiplied by 2 to the power of -age / half-life; the newest row of the index has age 0",
    "boost": "boost: the score is multiplied by 1 + ln(1 + number) / ln(1 + largest number of the field)",
    "answers": "early answers: similarity to the results of the first search, which the index uses for a second search",
}

Segments = list[tuple[str, bool]]
"""A line in pieces: text, and whether it is marked."""


@dataclass
class Answers:
    """Prints results, one query after the other, in one format.

    Args:
        form: of `FORMATS`.
        opened: what was asked.
        titled: every query is named above its answers; in lines parted by tabs and in CSV, it is the first cell of each.
        explained: scores are explained.
        shown: metadata fields that are shown beside the place.
    """

    form: str
    opened: "OpenArtifact"
    titled: bool = False
    shown: Sequence[str] = ()
    explained: bool = False
    _table: "CsvAnswers | None" = None  # whose header is printed
    _explained: set[str] = field(default_factory=set)  # keys of the legend
    _not_shown: dict[str, None] = field(default_factory=dict)  # columns

    def print(self, result: "QueryResult") -> None:
        """Print the answers of one query: lines, a table, cells for a pipe, CSV, or JSON."""
        if self.form == "json":
            for hit in result.hits:
                click.echo(json.dumps({"query": result.query} | hit, ensure_ascii=False, default=str))
            return
        if self.form == "csv":
            self._print_csv(result)
            return
        from wordpipe.stages import fields_beside, less_related_from, shown_hit

        result = replace(result, hits=[*map(shown_hit, result.hits)])
        if self.titled and self.form != "tsv":
            click.echo(emphasised(f"# {escaped(one_line(result.query))}"))
        if self.form == "tsv":
            self._print_cells(result)
            return
        # for people: a table, or lines
        finder = self.opened.passages(result.searched or result.query)
        if self.form == "table":
            self._print_table(result.hits, finder)
        else:
            width, near = self._width(), less_related_from(result.hits)
            for place, hit in enumerate(result.hits):
                if place == near:
                    click.echo(fitted(_LESS_RELATED, width))
                for line in answer_lines(hit, finder, width, fields_beside([*self.shown, *result.fields], hit)):
                    click.echo(styled(line))
        # what the legend has to explain
        for explained in (hit["explain"] for hit in result.hits if "explain" in hit):
            sides = [explained[name] for name in ("dense", "lexical") if name in explained]
            asked_again = any("answers" in part for side in sides for part in (side, *side.get("terms", ())))
            is_mixed = any("share" in side for side in sides)
            self._explained |= {*explained, *(["share"] if is_mixed else []), *(["answers"] if asked_again else [])}

    def end(self) -> None:
        """Print the end of all answers of `query`: columns that had no room, and the legend of explanations."""
        if self.form == "csv" and self._table is None:  # a table without rows has its header
            self._print_csv(None)
        if self._not_shown:
            names = ", ".join(self._not_shown)
            said = f"columns not shown: {names}; to see all columns, use a wider terminal or --format plain"
            click.echo(fitted(said, self._width()))
        if self._explained and self.form == "plain":
            width = self._width()
            click.echo()
            for paragraph in (text for name, text in _LEGEND.items() if name in self._explained):
                for line in wrapped_words(paragraph.split(" "), width, "", "  "):
                    click.echo(line)

    def _print_cells(self, result: "QueryResult") -> None:
        """Print the answers of a query as cells, with the query first where there are several."""
        asked = [safe_text(one_line(result.query))] if self.titled else []
        if self.titled and not result.hits:  # its line, so that questions and answers stay in step
            click.echo(asked[0])
        words = (
            self.opened.passages(result.searched or result.query).words
            if any("explain" in hit for hit in result.hits)
            else {}
        )
        for hit in result.hits:
            cells = piped_cells(hit)
            why = [_equation(*part) for part in explained_parts(hit.get("explain"), words)]
            if why:
                cells += [""] * (_PIPED_CELLS - len(cells)) + [escaped("; ".join(why))]
            click.echo("\t".join([*asked, *cells]))

    def _print_csv(self, result: "QueryResult | None") -> None:
        """Print the answers of a query as CSV, after the header if they are the first."""
        from wordpipe.stages import CsvAnswers

        if self._table is None:
            self._table = CsvAnswers(self.opened, titled=self.titled, explained=self.explained)
            click.echo(self._table.header, nl=False)
        if result is not None:
            click.echo(self._table.lines(result.query, result.hits), nl=False)

    def _width(self) -> int:
        return max(_LEAST, shutil.get_terminal_size().columns)

    def _print_table(self, hits: list[dict[str, Any]], finder: "PassageFinder") -> None:
        """Print a table of the answers of a query; texts are folded, and columns without room are not shown."""
        from rich.text import Text

        from wordpipe.cli.tables import console, new_table

        screen, cells = console(), [self._cells(hit, finder) for hit in hits]
        widths = self._columns(cells, screen.width)
        table = new_table("score")
        for name, width in widths.items():
            table.add_column(Text(name), overflow="fold", min_width=width, ratio=None if width else 1)
        for hit, one in zip(hits, cells, strict=True):
            table.add_row(f"{hit['score']:.4f}", *(one.get(name, "") for name in widths))
            for name, parts in explained_parts(hit.get("explain"), finder.words):
                table.add_row("", *[safe_text(_equation(name, parts)) if one == "text" else "" for one in widths])
        screen.print(table)

    def _columns(self, cells: "list[dict[str, Text]]", room: int) -> dict[str, int | None]:
        """Return the columns of a table of query answers beside the score, and their least widths; None for the text's.

        Where the text has too little room, the title goes before it into one cell, then columns go, the least useful first.
        """
        from rich.text import Text

        # each column as wide as its widest cell
        order = ("title", "text", "word", "place", "id", *self.shown)
        widths: dict[str, int | None] = {}
        for name in order:
            if found := [one[name].cell_len for one in cells if name in one]:
                widths[name] = None if name == "text" else min(_CELL, max(found))
        if "text" not in widths:
            return widths

        def is_narrow() -> bool:
            return room - _SCORE - sum(_BETWEEN + (width or 0) for width in widths.values()) < _TEXT

        # where the text has too little room
        if is_narrow() and "title" in widths:
            del widths["title"]
            for one in cells:
                if "title" in one:
                    one["text"] = Text(" · ").join(one[name] for name in ("title", "text") if name in one)
        for name in (*reversed(self.shown), "place", "id"):
            if name in widths and is_narrow():
                del widths[name]
                self._not_shown.setdefault(name)
        return widths

    def _cells(self, hit: dict[str, Any], finder: "PassageFinder") -> "dict[str, Text]":
        """Return the cells of one answer for the table: title, word, text, place, id, fields."""
        from rich.text import Text

        found = {name: Text(escaped(one_line(str(hit[name])))) for name in ("title", "word") if hit.get(name)}
        if "text" in hit:
            text, passage = matched(hit, finder, _PIPED_CHARS)
            found["text"] = Text()
            for piece, marked in pieces(text, passage):
                found["text"].append(piece, style="bold" if marked else "")
        found |= {"place": Text(place_of(hit))} if place_of(hit) else {}
        found |= {"id": Text(user_id(hit))} if user_id(hit) else {}
        return found | {
            name: Text(escaped(_value_text(value))) for name, value in fields_of(hit).items() if name in self.shown
        }


def named_fields(condition: str | None) -> list[str]:
    """The names that a condition speaks of, in order; some are functions or keywords, which are no fields of a hit."""
    return [*dict.fromkeys(re.findall(r"[^\W\d]\w*", condition or ""))]


def piped_line(hit: Mapping[str, Any], room: int | None) -> str:
    """Return the answer of a query as cells parted by tabs; on a terminal by spaces, place and text cut."""
    score, text, *others = piped_cells(hit)
    if room is None:
        return "\t".join([score, text, *others])
    others = [_end(cell, room // 4) for cell in others]
    left = max(room - sum(cells_of(cell) + 2 for cell in (score, *others)), _LEAST)
    while cells_of(text) > left:
        text = cut(text, len(text) - 1)
    return "  ".join([score, text, *others])


def piped_cells(hit: Mapping[str, Any]) -> list[str]:
    """Return the cells of an answer of a query for a pipe: score, title and text, place, and the user's id."""
    text = one_line(str(hit.get("word") or hit.get("text") or ""))
    title = one_line(str(hit.get("title") or ""))
    if title and title != text:  # a record of a title alone
        text = f"{title} · {text}" if text else title
    score = "" if hit["score"] is None else f"{hit['score']:.4f}"  # of a cluster's text without a vector
    cells = [score, safe_text(cut(text, _PIPED_CHARS)), place_of(hit), user_id(hit)]
    while not cells[-1]:
        cells.pop()
    return cells


def answer_lines(
    hit: Mapping[str, Any], finder: "PassageFinder", width: int, shown: Sequence[str] = ()
) -> Iterator[Segments]:
    """Yield the lines of one answer, none wider than the terminal: score and title, place, passage, explanation."""
    from wordpipe.stages import field_passages

    # score, title, and the details beside or below
    score = f"{hit['score']:.4f}"
    indent = " " * (len(score) + 2 if width >= _NARROW else 2)
    room = width - len(indent)
    details = [part for part in (place_of(hit), f"id {user_id(hit)}" if user_id(hit) else "") if part]
    details += [
        f"{escaped(name)} {cut(escaped(_value_text(value)), _VALUE_CHARS)}"
        for name, value in _named_values(fields_of(hit), shown)
    ]
    if also := hit.get("also_in"):
        some = ", ".join(map(escaped, also["places"][:_SHOWN_PLACES]))
        more = also["count"] - len(also["places"][:_SHOWN_PLACES])
        details.append(f"also in {some}" + (f" and {more:,} more" if more > 0 else ""))
    about = " · ".join(details)
    head = escaped(one_line(str(hit.get("word") or hit.get("title") or "")))
    taken = len(score) + 2
    first = _wrapped(head, [(0, len(head))] if "title" in hit else [], width - taken) if head else []
    # on the first line as much as there is room for
    if not first:
        first_line, *others = _about_lines(details, width - taken)
        yield [(f"{score}  {first_line}", False)]
        yield from ([(" " * taken + line, False)] for line in others)
    elif len(first) == 1 and cells_of(head) + 2 + cells_of(about) <= width - taken:
        yield [(f"{score}  ", False), *first[0], (f"  {about}", False)] if about else [(f"{score}  ", False), *first[0]]
    else:
        yield [(f"{score}  ", False), *first[0]]
        yield from ([(" " * taken, False), *line] for line in first[1:_LINES])
        if about:
            yield from ([(indent + line, False)] for line in _about_lines(details, room))
    # the passage, and the explanation
    if hit.get("text") and hit["text"] != hit.get("title"):
        text, passage = matched(hit, finder, max(1, int(_FILLED * _LINES * room) - 2))
        yield from ([(indent, False), *line] for line in _passage_lines(text, passage, room))
    for name, value, field_passage in field_passages(hit, finder, room - 4):
        yield [(f"{indent}{escaped(name)}: ", False), *pieces(value, field_passage)]
    for name, parts in explained_parts(hit.get("explain"), finder.words):
        named = [*name.split(" "), "=", *parts[:1], *(f"+ {part}" for part in parts[1:])] if parts else [name]
        yield from (
            [(line, False)] for line in wrapped_words([safe_text(one) for one in named], width, indent, indent + "  ")
        )


def _about_lines(details: Sequence[str], room: int) -> Iterator[str]:
    """Yield the details of an answer of a query (place, id, fields) on as many lines as needed.

    The place is cut from the left.
    """
    line = ""
    for detail in (_end(details[0], room), *details[1:]) if details else ():
        joined = f"{line} · {detail}" if line else detail
        if cells_of(joined) > room:
            if line:
                yield line
            *whole, joined = ("".join(text for text, _ in one) for one in _wrapped(detail, [], room))
            yield from whole
        line = joined
    yield line


def _named_values(values: Mapping[str, Any], shown: Sequence[str], within: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the metadata fields of a query's answer to show; of an object also the fields that are named."""
    for name, value in values.items():
        if name in shown:
            named = [*_named_values(value, shown, f"{within}{name}.")] if isinstance(value, dict) else []
            yield from named or [(within + name, value)] * (value is not None)


def matched(hit: Mapping[str, Any], finder: "PassageFinder", room: int) -> tuple[str, "Passage"]:
    """Return the text of a hit on one line, fit for the terminal, and the passage of it that answers best."""
    text = safe_text(one_line(str(hit["text"])))
    dense = (hit.get("explain") or {}).get("dense")
    strongest = dict[str, float]()
    for word in sorted(dense["text"], key=lambda word: -word["score"])[:_SHOWN_PARTS] if dense else ():
        assert dense is not None
        if len(word["word"].strip()) > 1 and word["score"] >= _CARRIES * dense["score"]:
            strongest[word["word"]] = word["score"]
    return text, finder.passage(text, room, strongest)


def pieces(text: str, passage: "Passage") -> Segments:
    """Cut the passage of an answer into marked and unmarked pieces, with an ellipsis where text is left out."""
    from wordpipe.stages import pieces_of

    before: Segments = [("… ", False)] if passage.start else []
    after: Segments = [(" …", False)] if passage.stop < len(text) else []
    return [*before, *pieces_of(text, passage.marks, passage.start, passage.stop), *after]


def styled(line: Segments) -> str:
    """A line with the escapes of the terminal."""
    return "".join(emphasised(text) if marked else text for text, marked in line).rstrip()


def place_of(hit: Mapping[str, Any]) -> str:
    """The place of an answer, as far as it is known; empty where it has no source."""
    return escaped(place_of_hit(hit))


def user_id(hit: Mapping[str, Any]) -> str:
    """The id that the user's record had; empty where it had none."""
    return escaped(str(hit["id"])) if hit.get("id") is not None else ""


def fields_of(hit: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata fields of a hit: the fields of the user's record."""
    nested = hit.get("metadata")
    return dict(nested) if isinstance(nested, dict) else {name: hit[name] for name in hit if name not in _OURS}


def _value_text(value: Any) -> str:
    """A field's value on one line; lists and objects as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, (list, dict)) else str(value)


def explained_parts(explained: Mapping[str, Any] | None, words: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yield why an answer of a query has its score: for vectors and for words the name, the score, the largest parts.

    Args:
        explained: the explanation of the hit; None: there is none.
        words: stem → the word of the query.
    """
    if explained is None:
        return
    if dense := explained.get("dense"):
        pairs = [(_pair(pair), pair["score"]) for pair in dense["pairs"]]
        if answers := dense.get("answers"):
            pairs.append(("early answers", answers["score"]))
        yield f"vectors {_of(dense)}", _parts(pairs, dense["score"], "other pairs")
    if lexical := explained.get("lexical"):
        terms = [(_term(term, words), term["score"] - term.get("answers", 0.0)) for term in lexical["terms"]]
        if added := sum(term.get("answers", 0.0) for term in lexical["terms"]):
            terms.append(("early answers", added))
        yield f"words {_of(lexical)}", _parts(terms, lexical["score"], "other words")
    if newer := explained.get("newer"):
        age = f"{newer['days']:,.1f} days older than the newest row"
        why = age if newer["has_date"] else f"no date, so as old as the median row: {age}"
        yield f"newer × {newer['factor']:.3g} ({newer['field']}: {why})", []
    if boost := explained.get("boost"):
        yield f"boost × {boost['factor']:.3f} ({boost['field']})", []


def _term(term: Mapping[str, Any], words: Mapping[str, str]) -> str:
    """Return the word that a term of an explanation is, as the answer writes it, and the fields in which it was found."""
    word = str(term.get("word") or words.get(term["stem"], term["stem"]))
    return f"{word} (in {', '.join(term['fields'])})" if "fields" in term else word


def _equation(name: str, parts: Sequence[str]) -> str:
    """Return a part of an answer's explanation on one line."""
    return f"{name} = {' + '.join(parts)}" if parts else name


def _pair(pair: Mapping[str, Any]) -> str:
    """Return a word of the query and one of the text as "query~text"; a transformer's first token is the whole text."""
    one, other = (one_line(pair[side]) or f"(whole {side})" for side in ("query", "text"))
    return one if one.lower() == other.lower() else f"{one}~{other}"


def _of(side: Mapping[str, Any]) -> str:
    """Return the score by vectors or by words, with the part of the mixed score that this side adds."""
    score = f"{side['score']:.3f}"
    return f"{score} (adds {side['share']:.3f})" if "share" in side else score


def _parts(parts: list[tuple[str, float]], score: float, rest: str) -> list[str]:
    """Return the largest parts of an answer's explained score, parts of one name added up, and the rest."""
    added: dict[str, float] = {}
    for name, value in parts:
        added[name] = added.get(name, 0.0) + value
    largest = sorted(added.items(), key=lambda part: -abs(part[1]))[:_SHOWN_PARTS]
    shown = [f"{name} {value:.3f}" for name, value in largest if abs(value) >= 0.0005]
    if abs(left := score - sum(value for _, value in largest)) >= 0.0005:
        shown.append(f"{rest} {left:.3f}")
    return shown


def cut(text: str, room: int) -> str:
    """The text in at most `room` characters."""
    return text if len(text) <= room else text[: room - 1] + "…"


def _passage_lines(text: str, passage: "Passage", width: int) -> list[Segments]:
    """Return the lines of an answer's passage with marks, at most three, the last with an ellipsis if it is cut."""
    whole, marks = "", list[tuple[int, int]]()
    for piece, marked in pieces(text, passage):
        if marked:
            marks.append((len(whole), len(whole) + len(piece)))
        whole += piece
    lines = _wrapped(whole, marks, width)
    if len(lines) > _LINES:
        last = lines[_LINES - 1]
        while last and cells_of("".join(piece for piece, _ in last)) > width - 2:
            piece, marked = last.pop()
            shorter = piece[: max(0, len(piece) - 2)].rstrip()
            last += [(shorter, marked)] if shorter else []
        lines = [*lines[: _LINES - 1], [*last, (" …", False)]]
    return lines


def _wrapped(text: str, marks: Sequence[tuple[int, int]], width: int) -> list[Segments]:
    """Wrap an answer's text with marks to lines of at most `width` columns, broken at spaces or within long words."""
    width, lines, start = max(2, width), list[Segments](), 0
    while start < len(text):
        stop, taken, space = start, 0, -1
        while stop < len(text) and (taken := taken + cells_of_letter(text[stop])) <= width:
            if text[stop] == " ":
                space = stop
            stop += 1
        if stop < len(text) and text[stop] != " " and space > start:
            stop = space
        lines.append(_marked(text, start, stop, marks))
        start = stop
        while start < len(text) and text[start] == " ":
            start += 1
    return lines


def _marked(text: str, start: int, stop: int, marks: Sequence[tuple[int, int]]) -> Segments:
    """Return a stretch of an answer's text as pieces, marked and unmarked."""
    from wordpipe.stages import pieces_of

    inside = [(max(one, start), min(end, stop)) for one, end in marks if one < stop and end > start]
    return pieces_of(text, inside, start, stop)


def _end(text: str, room: int) -> str:
    """Cut the place of an answer from the left to a number of columns: its end says most."""
    while cells_of(text) > room:
        text = "…" + text[2:] if text.startswith("…") else "…" + text[1:]
    return text
