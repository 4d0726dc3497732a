"""A first look at texts, before anybody has asked: questions to begin with, their answers, dates, sizes of clusters.

The page of `serve` offers the questions, and `wordpipe report` shows their answers, too.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from wordpipe.artifacts import Artifact, is_ours, read_batches, read_schema, user_name
from wordpipe.search import LEXICAL, are_small
from wordpipe.stages.job import PathLike
from wordpipe.stages.search.opening import open_artifact
from wordpipe.stages.search.passages import pieces_of
from wordpipe.stages.search.query import OpenTextIndex
from wordpipe.wording import place_of_hit

_MAX_QUERIES = 50
_PLACES, _IN_A_ROW = 16, 16  # places of an index, and rows from each, that are read for queries to begin with
_READ = 2_000  # characters of a text
_WORDS, _LETTERS = (2, 9), 70  # of a title that is a query
_FEW_WORDS, _LONG_WORD, _FOUND = (
    6,
    4,
    3,
)  # of a good one: words at most; letters of two of them; texts that have each of these
_PAIR = re.compile(r"(?<![\w'’-])(?=([^\W\d_][\w'’-]{2,30} [^\W\d_][\w'’-]{2,30})(?![\w'’-]))")
_WORD = re.compile(r"(?<![\w'’-])(?=([^\W\d_][\w'’-]{2,30})(?![\w'’-]))")
_ROWS_WITH = 2  # that have a pair of words, at least
_SAMPLES, _ANSWERS = 4, 3
_PASSAGE = 240  # characters of an answer


def queries_to_begin_with(opened: OpenTextIndex) -> list[str]:
    """Return queries that find something: titles of an index, else pairs of words of several texts, else words.

    Titles of two to six ordinary words that stand in several texts are preferred, where there are some. They are those of at
    most 256 rows, at 16 places: the same each time, in a few milliseconds.
    """
    starts = {len(opened) * place // _PLACES for place in range(_PLACES)}
    rows = sorted({row for start in starts for row in range(start, min(start + _IN_A_ROW, len(opened)))})
    read = opened.row_reader(rows)
    titles = dict.fromkeys(" ".join(str(row.get("title") or "").split()) for row in read)
    good = [one for one in titles if len(one) <= _LETTERS and _WORDS[0] <= len(one.split()) <= _WORDS[1]]
    texts = [str(row["text"])[:_READ] for row in read]
    return _ordinary(opened, good) or good or _frequent(opened, texts, _PAIR) or _frequent(opened, texts, _WORD)


def _ordinary(opened: OpenTextIndex, titles: Sequence[str]) -> list[str]:
    """Return as queries to begin with the titles of few words, at least two of which are long, and these in several texts."""
    first: OpenTextIndex = getattr(opened, "parts", [opened])[0]
    if not first.artifact.names(LEXICAL):
        return []
    found, rarest = list[str](), math.log1p((len(first) - _FOUND + 0.5) / (_FOUND + 0.5)) + 1e-6  # BM25's idf of a word
    for title in titles:
        words = title.split()
        long = [word.strip(".,;:!?()\"'") for word in words]
        long = [word for word in long if len(word) >= _LONG_WORD and word.isalpha() and word != word.upper()]
        if len(words) > _FEW_WORDS or len(long) < 2 or any(map(str.isdigit, title)):
            continue
        weights = [first.lexical.weight_of(first.lexical.analyser.stem(word)) for word in long]
        if all(0 < weight <= rarest for weight in weights):
            found.append(title)
    return found


def _frequent(opened: OpenTextIndex, texts: Sequence[str], pattern: re.Pattern[str]) -> list[str]:
    """Return words, or pairs of words, of several texts, the most frequent first, each word once: queries to begin with."""
    first: OpenTextIndex = getattr(opened, "parts", [opened])[0]
    if not first.artifact.names(LEXICAL):
        return []
    counts = Counter(phrase for text in texts for phrase in {one[1].lower() for one in pattern.finditer(text)})
    found, taken, analyser = list[str](), set[str](), first.lexical.analyser
    for phrase, n in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        words = phrase.split()
        if n < _ROWS_WITH or len(found) == _MAX_QUERIES:
            break
        # in which language a small word is small must be known: was in German is war
        has_small = analyser.language != "none" and any(are_small([word], analyser.language) for word in words)
        if taken.isdisjoint(words) and not has_small and all(map(analyser, words)):
            taken.update(words)
            found.append(phrase)
    return found


def spread(queries: Sequence[str], n: int) -> list[str]:
    """Return n of the queries that an index offers, from its beginning to its end.

    >>> spread(["a", "b", "c", "d", "e", "f"], 3)
    ['a', 'c', 'e']
    """
    return [queries[len(queries) * place // n] for place in range(n)] if len(queries) > n else [*queries]


def sample_answers(index: PathLike, *, verify: bool = True) -> list[dict[str, Any]]:
    """Ask an index over texts some queries to begin with.

    Returns:
        Of each query: query, and answers: title, place and pieces of the best passage (a text, whether it is marked), the
        best first. Nothing of an index over words.

    Raises:
        WordpipeError: it is damaged, or its encoder cannot be opened.
    """
    found = []
    with open_artifact(index, "index", verify=verify) as opened:
        if not isinstance(opened, OpenTextIndex):
            return []
        for query in spread(queries_to_begin_with(opened), _SAMPLES):
            finder, answers = opened.passages(query), []
            for hit in opened.query(query, _ANSWERS):
                text = str(hit.get("text") or "")
                best, line = finder.passage(text, _PASSAGE), finder.line_of(hit)
                place = place_of_hit({**hit, "passage_line": line} if line is not None else hit)
                pieces = pieces_of(text, best.marks, best.start, best.stop)
                begun, left = text[: best.start].strip(), text[best.stop :].strip()
                pieces = [*([("… ", False)] if begun else []), *pieces, *([(" …", False)] if left else [])]
                answers.append({"title": str(hit.get("title") or ""), "place": place, "pieces": pieces})
            found.append({"query": query, "answers": answers})
    return found


def dates_of(artifact: Artifact) -> dict[str, tuple[str, str]]:
    """Return the first and the last value of each field of an opened corpus that has dates or years."""
    import pyarrow as pa
    import pyarrow.compute as pc

    fields = [
        field
        for field in read_schema(artifact, artifact.kind)
        if not is_ours(field)
        and (pa.types.is_temporal(field.type) or (pa.types.is_integer(field.type) and "year" in field.name.lower()))
    ]
    ends = [list[Any]() for _ in fields]
    for batch in read_batches(artifact, artifact.kind, [field.name for field in fields]) if fields else ():
        for number, field in enumerate(fields):
            found = pc.min_max(batch.column(field.name)).as_py()
            ends[number] += [one for one in found.values() if one is not None]
    return {
        user_name(field): (str(min(both)), str(max(both))) for field, both in zip(fields, ends, strict=True) if both
    }


def sizes_of_clusters(artifact: Artifact) -> Iterator[tuple[str, int]]:
    """Yield the label and the size of each cluster of an opened clusters artifact, the largest first."""
    for batch in read_batches(artifact, "clusters", ["label", "size"]):
        yield from zip(batch.column("label").to_pylist(), batch.column("size").to_pylist(), strict=True)
