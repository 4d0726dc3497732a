"""The passage of a text that answers a query best, and where the query's words stand in it: offsets, no markup.

A passage is the stretch of at most so many characters in which the query's words weigh most. A word weighs what it tells
(its idf, where the index knows it), a second time half as much, a third time a quarter: three words of a query once each are
worth more than one of them three times.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from wordpipe.search import Analyser, fields_of_hit, texts_in
from wordpipe.stages.search.row_facts import with_file_name
from wordpipe.wording import safe_text

_SENTENCE = re.compile(r"(?<=[.!?…:;])\s+(?=\S)|\n\s*(?=\S)|(?<=[。！？])")
_LATER_INDENT = re.compile(r"\n[ \t]+\S")
_RUN = re.compile(r"\S+")
_GAP = re.compile(r"\s+")

Place = tuple[int, int, str]
"""Where a stem stands in a text: its first character, the one after its last, and the stem."""


_RUNS = 4_096  # texts without spaces whose words are remembered for one query
_NAMES = ("name", "hostname", "host")  # fields that say which record this is
_NEAR_CHARS = 200  # of the passage whose line is the place of an answer
_PACKED = re.compile(r"\.(?:gz|bz2|xz|zst)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a text: the characters `start` to `stop`, exclusive."""

    start: int
    stop: int
    marks: tuple[tuple[int, int], ...]  # the query's words in it: offsets in the text, ascending, none touches another


class PassageFinder:
    """A finder of the passage of a text that answers a query.

    Args:
        query: the query.
        analyser: text to stems, as the index has them.
        weight_of: of a stem; 1 for every one where that is not known.
    """

    def __init__(self, query: str, analyser: Analyser, weight_of: Callable[[str], float] = lambda _: 1.0) -> None:
        self._query, self._analyser, self._weight_of = query, analyser, weight_of

    @cached_property  # as a hit of one line needs none
    def words(self) -> dict[str, str]:
        """The stems of the query, each with the word as it was asked."""
        return {stem: self._query[start:stop] for start, stop, stem in self._analyser.places(self._query)}

    @cached_property
    def _weights(self) -> dict[str, float]:
        return {stem: weight for stem in self.words if (weight := self._weight_of(stem)) > 0}

    def passage(self, text: str, room: int, strongest: Mapping[str, float] | None = None) -> Passage:
        """Return the passage of a text that answers the query best.

        Args:
            text: all of it.
            room: characters that the passage may have, 1 at least.
            strongest: words of the text that are no words of the query, with what each brought to the score by vectors: the
                weightiest counts half as much as the query's weightiest.
        """
        return best_passage(text, self._places(text, strongest), self._all_weights(strongest), room)

    def line_of(self, hit: Mapping[str, Any]) -> int | None:
        """Return the line of the file that has most of the query's words in the best passage of a hit, the first of equals.

        None where the lines of the text are not lines of the file, as those of a record's field, or no word of the query
        stands in the text.
        """
        text, name = str(hit.get("text") or ""), _PACKED.sub("", str(hit.get("source") or "").rpartition("/")[2])
        is_record = any(value is not None for value in (hit.get("metadata") or {}).values())
        if "\n" not in text or is_record or hit.get("anchor") or not _is_of_lines(name):
            return None
        places = [*self._quick_places(text)]
        marks = best_passage(text, places, self._weights, _NEAR_CHARS).marks
        lines = dict[int, set[str]]()  # line of the passage → the words in it
        for start, stop, stem in places:
            if marks and marks[0][0] <= start and stop <= marks[-1][1]:
                lines.setdefault(text.count("\n", 0, start), set()).add(stem)
        weights = {line: sum(self._weights[stem] for stem in stems) for line, stems in lines.items()}
        return int(hit["line"]) + max(weights, key=lambda line: weights[line]) if weights else None

    def _quick_places(self, text: str) -> Iterator[Place]:
        """Yield the places of the query's words in a text, without those that a line end parts: in a third of the time.

        A run of ASCII in which no word begins as a word of the query begins is not analysed.
        """
        for run in _RUN.finditer(text):
            at = run.start()
            for one, end, stem in self._of_run(run[0]):
                yield at + one, at + end, stem

    @cached_property
    def _of_run(self) -> Callable[[str], list[Place]]:
        """A function from a text without spaces to the places of the query's words in this text."""
        places, weights = self._analyser.places, self._weights  # not this object, which would keep itself in memory
        first = "".join(
            {word[0] for stem, asked in self.words.items() for word in (stem.lower(), asked.lower()) if word}
        )
        begins = re.compile(rf"(?<![^\W_])[{re.escape(first)}]|[^\x00-\x7f]" if first else "(?!)", re.IGNORECASE)
        return lru_cache(_RUNS)(
            lambda run: [one for one in places(run) if one[2] in weights] if begins.search(run) else []
        )

    def lacks(self, hit: Mapping[str, Any]) -> list[str]:
        """Return the words of the query, of those that any text has, that a hit lacks in text, title and fields.

        Those that weigh most come first.
        """
        fields = fields_of_hit(with_file_name(hit))
        own = [
            hit.get("title"),
            hit.get("text"),
            *(" ".join(texts_in(fields.get(name))) for name in hit.get("found_in") or ()),
        ]
        have = {stem for text in own if text for *_, stem in self._quick_places(str(text))}
        forms = dict[tuple[int, int], set[str]]()
        for start, stop, stem in self._analyser.places(self._query):
            if stem in self._weights:
                forms.setdefault((start, stop), set()).add(stem)
        weights = {
            self._query[start:stop]: max(self._weights[stem] for stem in stems)
            for (start, stop), stems in forms.items()
            if not stems & have
        }
        return sorted(weights, key=lambda word: -weights[word])

    def marks(self, text: str) -> tuple[tuple[int, int], ...]:
        """Return the places of the query's words in all of a text."""
        return _joined([(start, stop) for start, stop, stem in self._analyser.places(text) if stem in self._weights])

    def _places(self, text: str, strongest: Mapping[str, float] | None) -> list[Place]:
        weights = self._all_weights(strongest)
        return [place for place in self._analyser.places(text) if place[2] in weights]

    def _all_weights(self, strongest: Mapping[str, float] | None) -> dict[str, float]:
        largest = max((strongest or {}).values(), default=0.0)
        if largest <= 0 or strongest is None:
            return self._weights
        scale = max(self._weights.values(), default=1.0) / 2 / largest
        more = {stem: score * scale for word, score in strongest.items() if score > 0 for stem in self._analyser(word)}
        return more | self._weights


def _is_of_lines(name: str) -> bool:
    """True if the texts of a file of this name are lines as they stand there: no other format has its ending."""
    from wordpipe.corpus import ENDINGS, READERS  # for a text of several lines alone

    ending = Path(name).suffix.lower()
    return ending not in READERS["code"].endings_if_named and (ending not in ENDINGS or ENDINGS[ending].name == "txt")


def field_passages(hit: Mapping[str, Any], finder: PassageFinder, room: int) -> Iterator[tuple[str, str, Passage]]:
    """Yield the fields by which a hit was found, as its text has not all words of the query: name, value, best passage."""
    fields = fields_of_hit(with_file_name(hit))
    for name in hit.get("found_in") or ():
        value = safe_text(" ".join(", ".join(texts_in(fields.get(name))).split()))
        yield name, value, finder.passage(value, max(1, room - len(name)))


def fields_beside(named: Sequence[str], hit: Mapping[str, Any]) -> list[str]:
    """Return the fields to show beside the place of a hit: those named, and of a hit without a title what it is called.

    >>> fields_beside(["ram"], {"metadata": {"host": "db-07", "ram": 64}}), fields_beside([], {"metadata": {"host": "db-07"}})
    (['host', 'ram'], [])
    """
    own = fields_of_hit(hit)
    called = next((name for name in _NAMES if name in own), None) if named and not hit.get("title") else None
    return [*dict.fromkeys([called, *named] if called else named)]


def shown_hit(hit: dict[str, Any]) -> dict[str, Any]:
    """Return a hit as people see it: the text of a record with neither a text nor a title is what its fields say.

    >>> shown_hit({"text": "", "metadata": {"host": "db-07", "tags": ["disk", "full"], "n": None}})["text"]
    'host: db-07 · tags: disk, full'
    """
    if hit.get("text", "-") or hit.get("title") or not hit.get("metadata"):
        return hit
    shown = {name: ", ".join(texts_in(value)) or value for name, value in hit["metadata"].items()}
    text = " · ".join(f"{name}: {value}" for name, value in shown.items() if value not in (None, "", []))
    return {**hit, "text": text, "found_in": []}


def best_passage(text: str, places: Sequence[Place], weights: Mapping[str, float], room: int) -> Passage:
    """Return the passage of at most `room` characters in which the stems of a query weigh most; of equal ones the first.

    Args:
        text: all of it.
        places: where stems of `weights` stand, ascending.
        weights: of the stems.
        room: characters, 1 at least.
    """
    if len(text) <= room:
        return Passage(0, len(text), _joined([place[:2] for place in places]))
    first, last = _heaviest(places, weights, room)
    start = _with_indent(text, _start(text, first, last, room), last, room)
    stop = _stop(text, start, max(start + 1, last), room)
    inside = [(max(one, start), min(end, stop)) for one, end, _ in places if one < stop and end > start]
    return Passage(start, stop, _joined(inside))


def _heaviest(places: Sequence[Place], weights: Mapping[str, float], room: int) -> tuple[int, int]:
    """Return the first and the last character of a query's words in the best passage; 0, 0 where there is none."""
    counts, inside = Counter[str](), deque[Place]()
    best, best_score, score = (0, 0), 0.0, 0.0
    for place in places:
        inside.append(place)
        score += weights[place[2]] / 2 ** counts[place[2]]
        counts[place[2]] += 1
        while inside and place[1] - inside[0][0] > room:
            stem = inside.popleft()[2]
            counts[stem] -= 1
            score -= weights[stem] / 2 ** counts[stem]
        if inside and score > best_score * (1 + 1e-9):  # what was added and taken away leaves a little
            best, best_score = (inside[0][0], place[1]), score
        elif not inside:
            score = 0.0
            if not best_score:  # a word longer than the room: its beginning
                best = (place[0], min(place[1], place[0] + room))
    return best


def _start(text: str, first: int, last: int, room: int) -> int:
    """Return the start of a passage: of the text, of the sentence, or of a word some way before the words found."""
    if last <= room:
        return 0
    earliest = max(0, last - room)
    latest = min(first, max(earliest, len(text) - room))  # the end of a text leaves no room empty
    sentences = [match.end() for match in _SENTENCE.finditer(text, max(0, earliest - 1), first + 1)]
    if near := [one for one in sentences if latest <= one <= min(first, latest + room // 4)]:
        return near[0]  # which reaches the end of the text, or begins with what was found
    if within := [one for one in sentences if earliest <= one <= latest]:
        return within[-1]
    gap = _GAP.search(text, (earliest + latest) // 2, latest) or _GAP.search(text, latest, first)
    return gap.end() if gap else first


def _with_indent(text: str, start: int, last: int, room: int) -> int:
    """Return where the line of a passage begins, if only its indent stands before and a later line has one, as in code."""
    line = text.rfind("\n", 0, start) + 1
    is_indent = line and text[line:start].isspace() and last - line <= room
    return line if is_indent and _LATER_INDENT.search(text, start, line + room) else start


def _stop(text: str, start: int, least: int, room: int) -> int:
    """Return the end of a passage: of the text, or of the last word that has room."""
    end = start + room
    if end >= len(text):
        return len(text)
    gaps = [match.start() for match in _GAP.finditer(text, least, end + 1) if match.start() <= end]
    return gaps[-1] if gaps and gaps[-1] > start else end


def _joined(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return ascending spans of words found in a passage, those that touch or overlap as one."""
    found: list[tuple[int, int]] = []
    for start, stop in spans:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    assert all(one[1] < other[0] for one, other in pairwise(found))
    return tuple(found)


def flowing_pieces(
    text: str, marks: Sequence[tuple[int, int]], start: int = 0, stop: int | None = None
) -> list[tuple[str, bool]]:
    """Return the pieces of a passage of prose, in which newlines that are only a right margin's work are spaces."""
    from wordpipe.corpus import unwrapped  # where a text is shown alone

    stop = len(text) if stop is None else stop
    first, last = text.rfind("\n", 0, start) + 1, text.find("\n", stop)
    lines = text[first : len(text) if last < 0 else last]
    return pieces_of(text[:first] + unwrapped(lines), marks, start, stop)


def pieces_of(
    text: str, marks: Sequence[tuple[int, int]], start: int = 0, stop: int | None = None
) -> list[tuple[str, bool]]:
    """Return a passage of a text, cut where a marked word begins or ends."""
    found, at = list[tuple[str, bool]](), start
    for first, last in marks:
        found += [(text[at:first], False), (text[first:last], True)]
        at = last
    return [piece for piece in [*found, (text[at:stop], False)] if piece[0]]
