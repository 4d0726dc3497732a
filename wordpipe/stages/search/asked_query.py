"""A query as it is searched for: operators and the rows that they allow, corrected and unfinished words, mode, result."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts import Artifact, RowReader, has_vectors, is_json
from wordpipe.encoders import EncodedBatch
from wordpipe.search import (
    Clause,
    FieldColumns,
    FieldKind,
    IndexWithNames,
    LexicalIndex,
    Phrase,
    Prefix,
    Question,
    SearchMode,
    are_small,
    field_kind,
    fields_of_clause,
    folded,
    is_sure,
    may_lack_words,
    names_in,
    read_question,
    remarks_on_fields,
    rows_matching,
    small_in_question,
    texts_in,
)
from wordpipe.search.settings import QueryOptions
from wordpipe.stages.search.row_facts import (
    fields_used,
    rows_of_begun_id,
    rows_of_file,
    rows_of_id,
    searched_columns,
    with_file_name,
)
from wordpipe.wording import counted

Mask = npt.NDArray[np.bool_]

_CLAUSES = 8  # whose rows are remembered: the pages of one query
_COMPLETED = 20  # words that an unfinished one may become, of which passages show the places
_LEAST_BEGUN = 4  # letters of a word that may be unfinished though nobody said so
_SMALL = 3  # words that a remark on small words names
_ID = re.compile(r"(?=\S*\d)\S{1,200}")  # what is typed as one word with a digit may be an id


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as it is searched for."""

    text: str  # as typed
    words: str  # what rows are ranked by: without operators and the small words of a question, misspelt words corrected
    prefixes: tuple[str, ...] = ()  # beginnings of words, by which rows are ranked, too
    rows: Mask | None = None  # (N,) the rows that the operators allow; None: all
    first: Mask | None = None  # (N,) those of them that come before all others, whatever their scores; None: none
    takes_all: bool = False  # every row that the operators allow is an answer, also one without a word
    lexical: LexicalIndex | None = None  # of the index, with the names of the query; None: the query has no names
    is_whole: bool = False  # the words are parts of one name, which may stand in no text by themselves
    corrected: Mapping[str, str] = field(default_factory=dict)  # misspelt word → the word that was searched for
    remarks: tuple[str, ...] = ()  # what was not read as an operator
    fields: tuple[str, ...] = ()  # that the query names
    is_of_any: bool = False  # it is several words, any of which is enough
    says_little: bool = False  # its words are small ones that most texts have
    mode: Literal["dense"] | None = None  # it is ranked by vectors alone, whatever was chosen
    whole: str = ""  # the words with the small ones, which vectors are made of; empty where they are the same

    @property
    def encoded(self) -> str:
        """The words that vectors are made of."""
        return self.whole or self.words

    @property
    def is_plain(self) -> bool:
        """True if the query is words that may find any row."""
        return self.rows is None and not self.prefixes and self.lexical is None


class RowsReader(Protocol):
    """A reader of single rows."""

    def fetch(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return some rows."""

    def close(self) -> None:
        """Close the files."""


class AskedRows:
    """The rows of an index that queries ask for.

    Args:
        artifact: the index.
        columns: of its rows.
        lexical: the words of its rows.
        titled: whether titles are searched with their texts.
        texts: reads them; None: they are read from the artifact.

    Attributes:
        fields: those that `field:value` may name, and what their values are.
    """

    def __init__(
        self,
        artifact: Artifact,
        columns: FieldColumns,
        lexical: LexicalIndex,
        *,
        titled: bool,
        texts: RowsReader | None = None,
    ) -> None:
        self.columns, self.lexical = columns, lexical
        kinds = {one.name: field_kind(one.type) for one in columns.schema if not is_json(one)}
        self.fields: dict[str, FieldKind] = {name: kind for name, kind in kinds.items() if kind is not None}
        read = ["title", "text"] if titled else ["text"]
        self._texts = texts or RowReader(artifact, "index", [*read, *searched_columns(artifact)])
        self._remembered: dict[Clause | str, Mask] = {}  # of clauses, and of names
        self._ranks_by_words = not has_vectors(artifact)
        self._artifact = artifact

    def read(self, text: str, options: QueryOptions) -> Asked:
        """Return a query as it is searched for by these options."""
        if options.exact:
            return Asked(text, text)
        if (with_id := self._with_id(text.strip())) is not None:
            return self._asked_for_id(text, with_id)
        if (begun_N := self._with_begun_id(text.strip())) is not None:
            remark = f"no record has the id {text.strip()}; these ids begin so; --exact searches for the words"
            return Asked(text, "", rows=begun_N, remarks=(remark,))
        also = self._other_names if ":" in text else None
        question = read_question(text, self.fields, also=also, is_unfinished=options.prefix)
        if options.prefix and question.prefixes and not self._begins_any(question.prefixes[-1]):
            question = read_question(text, self.fields, also=also)  # a misspelt word is none that is still typed
        fixed = {word.lower() for part in question.fixed for word in part.split()}
        words, prefixes = self._unfinished(question, still_typed=options.prefix)
        small = small_in_question([*words.split(), *prefixes], self.lexical.analyser.language)
        small = frozenset(word for word in small if word.lower() not in fixed)
        about_names: list[str] = []
        lexical = self.lexical
        if not options.prefix and options.mode != "dense":
            lexical, about_names = self._with_names(words, fixed)
            if question.clause is None and (alone := self._alone(words, lexical, options)) is not None:
                said = (*question.remarks, *alone[1])
                return Asked(text, words, rows=alone[0], lexical=lexical, is_whole=True, remarks=said)
        kept = fixed | {word.lower() for word in small}  # of which none is taken for misspelt
        instead = {} if options.mode == "dense" else self._instead(lexical, words, kept)
        for word, meant in instead.items():
            words = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", meant or "", words, flags=re.IGNORECASE)
        whole, words, prefixes = words, *self._without_small(words, prefixes, small)
        begun = [word for word, meant in instead.items() if meant is None]
        remarks = [
            f"searched for words that begin with {word}, which no text contains; --exact searches for {word}"
            for word in begun
        ]
        corrected = {word: meant for word, meant in instead.items() if meant is not None}
        rows = None if question.clause is None else self._rows_of(question.clause)
        if question.clause is not None and rows is not None:
            remarks += remarks_on_fields(question.clause, self, finds_none=not rows.any())
        if not options.prefix and options.mode != "dense":
            remarks += [
                f"{one} {other} is also written as one word: {counted(n, 'texts')} have {joined}"
                for one, other, joined, n in self.lexical.as_one_word(words.split())
            ]
            remarks += [
                f"{word} is in only {counted(n, 'texts')}: {counted(n_near, 'texts')} have {other}"
                for word, n, other, n_near in self.lexical.rare_beside(
                    one for one in words.split() if one.lower() not in kept
                )
            ]
        remarks += about_names
        little = (
            "" if question.clause or prefixes or options.sort or options.mode == "dense" else self._about_small(words)
        )
        ranks_by_words = self._ranks_by_words or options.mode == "lexical" or bool(self.lexical.analyser(words))
        by_meaning = bool(little) and not ranks_by_words
        if little and (by_meaning or self.lexical.analyser(words)):
            remarks.append(
                little + (", so the order is by meaning alone" if by_meaning else ", so the order says little")
            )
        said = (*question.remarks, *remarks)
        named = None if lexical is self.lexical else lexical
        fields = () if (clause := question.clause) is None else fields_of_clause(clause)
        return Asked(
            text, words, (*prefixes, *begun), rows, lexical=named, corrected=corrected, remarks=said, fields=fields,
            takes_all=clause is not None and fixed.issuperset(words.lower().split()) and may_lack_words(clause),
            is_of_any=question.clause is None and len([*filter(self.lexical.analyser, words.split())]) > 1,
            whole=whole if whole != words else "", says_little=bool(little),
            mode="dense" if by_meaning else None,
        )  # fmt: skip

    def _without_small(self, words: str, prefixes: list[str], small: Set[str]) -> tuple[str, list[str]]:
        """Return the words and beginnings of a question but for its small words; all of them if no other stands anywhere."""
        others = [word for word in words.split() if word not in small]
        begun = [prefix for prefix in prefixes if prefix not in small]
        is_known = any(map(self.lexical.knows, others)) or any(map(self._begins_any, begun))
        return (" ".join(others), begun) if small and is_known else (words, prefixes)

    def _about_small(self, words: str) -> str:
        """Return what is to be said of a question of small words alone, which almost every text has; empty of another one."""
        own = [*dict.fromkeys(words.lower().split())]
        if not are_small(own, self.lexical.analyser.language):
            return ""
        held = [self.lexical.holding(word) for word in own if self.lexical.analyser(word)]
        if any(one is None or 2 * np.count_nonzero(one) < len(one) for one in held):
            return ""
        named = " and ".join(f'"{word}"' for word in own[:_SMALL])
        return f"{named} {'is' if len(own) == 1 else 'are'} in almost every text"

    def _begins_any(self, prefix: str) -> bool:
        """True if a word begins like this."""
        return any(self.lexical.begun(one) for one in self.lexical.parted(prefix)[1])

    def _with_names(self, words: str, fixed: set[str]) -> tuple[LexicalIndex, list[str]]:
        """Return the words of the rows, with the names of a question as words; and remarks on its names.

        Of a name that no row has as a whole the parts are searched for.
        """
        remarks, found = [], dict[str, Mask]()
        for name, word in names_in(words):
            if (whole_N := self._with_whole(name)).any():
                found[word] = whole_N
            elif word.lower() not in fixed and self.lexical.holding(name) is not None:
                remarks.append(f"no text contains {name} as a whole; it was searched for by its parts")
        return IndexWithNames.of(self.lexical, found), remarks

    def _alone(self, words: str, lexical: LexicalIndex, options: QueryOptions) -> tuple[Mask, list[str]] | None:
        """Return the rows that contain the name that a question is, and a remark; None if vectors rank the rows, too."""
        if lexical is self.lexical or len(words.split()) > 1 or not (self._ranks_by_words or options.mode == "lexical"):
            return None
        (name,) = names_in(words)
        whole_N, held_N = self._with_whole(name[0]), self.lexical.holding(name[0])
        others = 0 if held_N is None else int((held_N & ~whole_N).sum())
        beside = f"parts of it stand in {counted(others, 'other rows')}, which --exact finds"
        return whole_N, [f"searched for {name[0]} as a whole; {beside}"] if others else []

    def _with_whole(self, name: str) -> Mask:
        """Return the rows that contain a name as it is written, or as one word, or are of a document called so, (N,)."""
        if (found := self._remembered.get(name)) is None:
            if name.endswith("*") and name[-2:-1].isalnum():
                found = rows_matching(Prefix(name[:-1]), self)
            else:
                joined_N = self.lexical.with_name(name)
                found = joined_N | rows_matching(Phrase(name), self, among=~joined_N)
                if "source" in self.columns.schema.names:
                    found |= rows_of_file(self.field_values("source"), name)
            self._remember(name, found)
        return found

    @cached_property
    def _other_names(self) -> dict[str, str]:
        """The names of the fields that became the title, the text and the id of the rows, each with what it became."""
        used = fields_used(self._artifact.place, self._artifact.manifest)
        return {name: became for name, became in used.items() if name not in self.fields and became in self.fields}

    def marked_words(self, asked: Asked) -> str:
        """Return the words whose places in a text show why it was found."""
        begun = [word for prefix in asked.prefixes for word in self.lexical.completions(prefix, _COMPLETED)]
        return " ".join([asked.words, *begun])

    def _with_id(self, text: str) -> Mask | None:
        """Return the rows of the record whose id is typed; None if no record has it, or if it may be a number in the texts."""
        may_be_id = (
            "id" in self.fields and _ID.fullmatch(text) and not (text.isdecimal() and self.lexical.stands_in_text(text))
        )
        if not may_be_id:
            return None
        found_N = rows_of_id(self.field_values("id"), text)
        return found_N if found_N.any() else None

    def _asked_for_id(self, text: str, with_id: Mask) -> Asked:
        """Return the question for the record with an id, before other records that contain the id."""
        name, first = text.strip(), _first_alone(with_id)
        others_N = self._with_whole(name) & ~with_id
        if not others_N.any():
            remark = f"this is the record with the id {name}; --exact searches for the words"
            return Asked(text, "", rows=first, remarks=(remark,))
        remark = (
            f"first comes the record with the id {name}, then others that contain it; --exact searches for the words"
        )
        return Asked(text, name, rows=first | others_N, first=first, remarks=(remark,))

    def _with_begun_id(self, text: str) -> Mask | None:
        """Return the rows of records whose ids begin with a name with a digit that stands nowhere; None if there are none."""
        if "id" not in self.fields or len(text) < _LEAST_BEGUN or not _ID.fullmatch(text) or text.isdecimal():
            return None
        if self.lexical.has_name(text):
            return None
        found_N = rows_of_begun_id(self.field_values("id"), text)
        return found_N if found_N.any() else None

    def _unfinished(self, question: Question, *, still_typed: bool) -> tuple[str, list[str]]:
        """Return the finished words of a question, and the beginnings of words.

        Of small words alone (`on the `), while they are typed, the last one is taken as a beginning: else nothing is found
        until the next word is begun.
        """
        parts = [self.lexical.parted(prefix) for prefix in question.prefixes]
        words = " ".join([question.text, *(finished for finished, _ in parts if finished)]).strip()
        begun = [one for _, several in parts for one in several]
        if still_typed and not begun and question.clause is None and (typed := words.split()):
            begun = [] if self.lexical.analyser(words) else [typed[-1]]
        return words, begun

    def _instead(self, lexical: LexicalIndex, text: str, fixed: set[str]) -> dict[str, str | None]:
        """Return the words of a text that stand in no row, each with the word that was most likely meant.

        In its place, None stands for all words that begin with the typed one, which is then unfinished rather than
        misspelt. A typed word for which there is neither is left out.
        """
        strangers = {word: near for word, near in lexical.strangers(text).items() if word not in fixed}
        found: dict[str, str | None] = {
            word: next(meant for meant in near if is_sure(folded(word), folded(meant)))
            for word, near in strangers.items()
            if any(is_sure(folded(word), folded(meant)) for meant in near)
        }
        begun = (word for word in strangers if len(word) >= _LEAST_BEGUN)
        return found | {word: None for word in begun if self.lexical.completions(word, 1)}

    def texts_of(self, rows_R: npt.NDArray[np.int64]) -> list[tuple[str, ...]]:
        """Return the texts of R rows, ascending, each with its title where titles are searched, and its fields."""
        fetched = self._texts.fetch(rows_R.tolist())
        rows = (with_file_name(row) if "source" in row else row for row in fetched)
        return [
            tuple(text for name, value in row.items() if name != "source" for text in texts_in(value)) for row in rows
        ]

    def texts(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return the texts of some rows, ascending, by the names of their columns."""
        return self._texts.fetch(rows)

    def field_values(self, name: str) -> pa.ChunkedArray:
        """Return the values of a field of all rows."""
        return self.columns.values(name)

    def close(self) -> None:
        """Close the files."""
        self._texts.close()

    def _rows_of(self, clause: Clause) -> Mask:
        found = self._remembered.get(clause)
        if found is None:
            found = rows_matching(clause, self)
            self._remember(clause, found)
        return found

    def _remember(self, clause: Clause | str, rows_N: Mask) -> None:
        while len(self._remembered) >= _CLAUSES:
            self._remembered.pop(next(iter(self._remembered)))
        self._remembered[clause] = rows_N


def _first_alone(rows_N: Mask) -> Mask:
    """Return the first of some rows alone: of windows of one record one is enough."""
    first_N = np.zeros_like(rows_N)
    first_N[int(rows_N.argmax())] = True
    return first_N


@dataclass(frozen=True, slots=True)
class ChosenMode:
    """The mode in which one query is searched for."""

    mode: SearchMode
    # its words that have no vector but stand in the texts: what made it another mode than it would have been
    by_words: tuple[str, ...] = ()


def choose_modes(mode: SearchMode, queries: EncodedBatch, lexical: LexicalIndex | None) -> list[ChosenMode]:
    """Return the mode of search for every query of an index.

    A query whose unknown words stand in the texts is searched for by both; by words alone where it has no vector at all, as a
    fusion would then only scale down what the words found.

    Args:
        mode: of the queries whose words all have vectors, or stand nowhere.
        queries: Q of them.
        lexical: the words of the texts; None where they are not to be searched.
    """
    chosen = []
    for unknown, empty in zip(queries.unknown, queries.empty.tolist(), strict=True):
        by_words = tuple(word for word in dict.fromkeys(unknown) if lexical and lexical.knows(word))
        chosen.append(ChosenMode("lexical" if empty else "hybrid", by_words) if by_words else ChosenMode(mode))
    return chosen


@dataclass(frozen=True)
class QueryResult:
    """The hits of one query."""

    query: str  # the query
    # the best first: rank, score, row (its number), and what the row holds: text or word, source, line, …; id (the user's,
    # where the records have one) and metadata (the fields of the record by their names)
    hits: list[dict[str, Any]]
    # words that have no vector, with words spelled like them where the encoder is a table of words
    unknown: dict[str, list[str]] = field(default_factory=dict)
    # words that are not in the table, whose vectors were guessed from their letters (character n-grams)
    guessed: list[str] = field(default_factory=list)
    # those of the unknown that stand in the texts: the query was searched for by words too, or alone
    by_words: list[str] = field(default_factory=list)
    mode: SearchMode | None = None  # how an index was searched; None of words
    # misspelt words that stand in no text, each with the word that was searched for
    corrected: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)  # what could not be read as an operator of the query
    fields: tuple[str, ...] = ()  # of the records, that the query names
    is_of_any: bool = False  # the query is several words, any of which is enough
    searched: str = ""  # the words that hits were ranked by, and those that unfinished ones may become


class QueryKeywords(TypedDict, total=False):
    """The fields of `QueryOptions` as keywords, for those who check types."""

    mode: Literal["auto", "dense", "lexical", "hybrid"]
    weight: float | None
    feedback: int | None
    exact: bool
    prefix: bool
    where: str | None
    per_document: bool
    offset: int
    sort: str | None
    newer_better: str | None
    half_life: str | None
    boost: str | None
    min_score: float | None
    explain: bool
