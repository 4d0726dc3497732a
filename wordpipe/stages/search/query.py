"""`wordpipe query`: an index over texts, searched by vectors, by words, or by both; a table of words or an index over one."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import (
    ENCODER,
    MANIFEST,
    BundledFiles,
    read_fact,
    refuse_without_vectors,
    row_count,
)
from wordpipe.encoders import ENCODER_FILE, EncodedBatch, TextEncoder, explained_cosine, load_facts
from wordpipe.errors import ArtifactError, ConfigError, NothingFound, shortened
from wordpipe.search import (
    FEEDBACK,
    LEXICAL,
    UNMEASURED,
    Hits,
    LexicalIndex,
    Result,
    Retriever,
    SearchMode,
    normalised,
    score_range,
)
from wordpipe.search.settings import QueryOptions
from wordpipe.stages.python_calls import printable
from wordpipe.stages.search.answer_list import (
    mark_fields,
    mark_related,
    matching_rows,
    rows_holding,
    sorted_answers,
    with_all,
    with_first,
)
from wordpipe.stages.search.asked_query import Asked, AskedRows, ChosenMode, QueryResult, choose_modes
from wordpipe.stages.search.opened_artifact import OpenIndex
from wordpipe.stages.search.opened_words_and_tables import Floats, encode_texts
from wordpipe.stages.search.row_facts import document_numbers, fields_used, reads_titles

if TYPE_CHECKING:
    from wordpipe.stages.search.passages import PassageFinder


_BUILD_AGAIN = "build the index again with: wordpipe index"
_ANY_ROW = Asked("", "")
_SHOWN = 60  # characters of a query in a message
_SUGGESTED = 5  # unknown words of a batch: to compare one with 100,000 others takes 0.1 s


class OpenTextIndex(OpenIndex):
    """An index over texts: free text, encoded as its rows were."""

    @cached_property
    def encoder(self) -> TextEncoder:
        """The query encoder that the index carries.

        Raises:
            ArtifactError: it is not the one that its vectors are of.
            ConfigError: the index has words alone.
        """
        from wordpipe.stages.encoders import bundled_encoder

        refuse_without_vectors(self.artifact)
        made, bundled = self._of("encoder").get("digest"), self._encoder_facts["identity"].get("digest")
        if isinstance(made, str) and isinstance(bundled, str) and made != bundled:
            what = "the encoder in the index is not the encoder that made the vectors of the index"
            raise ArtifactError(what, where=self.artifact.path, got=bundled[:16], expected=made[:16], hint=_BUILD_AGAIN)
        return bundled_encoder(self.artifact)

    def encode(self, texts: Iterable[str]) -> Floats:
        """Return unit vectors of texts, (n, dim) float32, by the encoder that the index carries; see `encode_texts`."""
        return encode_texts(self.encoder, texts)

    @cached_property
    def lexical(self) -> LexicalIndex:
        """Return the lexical index that queries of the index use. Raises ArtifactError: it is not of its rows."""
        found = LexicalIndex.load(BundledFiles(self.artifact, LEXICAL))
        if len(found) != (rows := row_count(self.artifact, "index")):
            what = "the lexical index and the index have different numbers of rows"
            raise ArtifactError(what, where=self.artifact.path, got=len(found), expected=rows, hint=_BUILD_AGAIN)
        return found

    def lexical_of(self, asked: Asked) -> LexicalIndex:
        """Return the lexical index with the names of a query, which are terms as long as it is answered."""
        return self.lexical if asked.lexical is None else asked.lexical

    def count_all(self, texts: Sequence[str], options: QueryOptions) -> list[int]:
        """Return for each of several queries the number of rows of the index that match; see `count`."""
        found = (np.flatnonzero(self.matching(text, options)) for text in texts)
        return [len(np.unique(self.documents[rows])) if options.per_document else len(rows) for rows in found]

    def matching(self, text: str, options: QueryOptions) -> npt.NDArray[np.bool_]:
        """Return the rows of the index that match a query, (N,); see `matching_rows`."""
        return matching_rows(self, self.asked(printable(text), options), options)

    def holding(self, text: str, *, prefix: bool = False) -> npt.NDArray[np.bool_] | None:
        """Return the rows that hold a word of a text, (N,), by the lexical index; see `OpenIndex.holding`."""
        asked = self.asked(printable(text), QueryOptions(prefix=prefix))
        words_N = rows_holding(self.lexical_of(asked), asked)
        if asked.rows is None or words_N is None:
            return words_N if asked.rows is None else asked.rows
        return words_N & asked.rows

    def completions(self, prefix: str, most: int) -> list[str]:
        """Return words of the texts that begin with a prefix, the most frequent first."""
        return self.lexical.completions(prefix, most) if self._has_words else []

    @cached_property
    def asked_rows(self) -> AskedRows:
        """The reader of queries."""
        return AskedRows(self.artifact, self.columns, self.lexical, titled=self._titled)

    @property
    def encoder_digest(self) -> object:
        """The digest of the encoder that made the vectors; None where it is not known."""
        return self._of("encoder").get("digest")

    def row_reader(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return some rows, ascending, in the form of hits."""
        return [self._shown(row) | self._also_in(row) for row in self._reader.fetch(rows)]

    def facts_of(self, name: str) -> dict[str, Any]:
        """Return a fact of the index that holds others; nothing where there is none."""
        return self._of(name)

    @cached_property
    def _has_words(self) -> bool:
        """True if the index can be searched by words."""
        return bool(self.artifact.names(LEXICAL))

    @cached_property
    def _titled(self) -> bool:
        """True if titles are searched with their texts."""
        return reads_titles(self.artifact)

    def close(self) -> None:
        """Release the index, its files and its memory."""
        if "asked_rows" in self.__dict__:
            self.asked_rows.close()
        super().close()

    def _answers(self, texts: Sequence[str], k: int, options: QueryOptions) -> list[QueryResult]:
        """Query the index: return the k best hits for each query, encoded, searched for, fetched with rows.

        A query without a vector finds nothing by vectors, one without a known word nothing by words.

        Raises:
            ConfigError: the condition cannot be read.
            ArtifactError: the index has no words to be searched by, or does not belong to its encoder.
        """
        return self.answers_to([self.asked(printable(text), options) for text in texts], k, options)

    def answers_to(self, asked: Sequence[Asked], k: int, options: QueryOptions) -> list[QueryResult]:
        """Return the k best hits for each query of the index as it is searched for; see `_answers`."""
        results = self._results(asked, k, options)
        for one, result in zip(asked, results, strict=True):
            if self._has_words:
                mark_fields(self.lexical_of(one), one, result.hits)
            # where the best passage of a long text stands in its file
            finder = self.passages(result.searched or result.query) if result.hits else None
            for hit in result.hits:
                if finder and (line := finder.line_of(hit)) is not None:
                    hit["passage_line"] = line
        return results

    def _results(self, asked: Sequence[Asked], k: int, options: QueryOptions) -> list[QueryResult]:
        """Return the k best hits for each query as it is searched for."""
        if options.sort:
            return [sorted_answers(self, one, k, options) for one in asked]
        found: dict[int, QueryResult] = {}
        # plain queries are searched for together, those with operators one by one
        plain = [number for number, one in enumerate(asked) if one.is_plain]
        others = [[number] for number, one in enumerate(asked) if not one.is_plain]
        for numbers in [plain, *others] if plain else others:
            some = self._found_of([asked[number] for number in numbers], k, options)
            found |= dict(zip(numbers, some, strict=True))
        return [found[number] for number in range(len(asked))]

    def asked(self, text: str, options: QueryOptions) -> Asked:
        """Return a query as it is searched for: its operators, its words corrected; see `AskedRows`."""
        asked = self.asked_rows.read(text, options) if self._has_words else Asked(text, text)
        said = self.row_facts.remarks(options)
        return replace(asked, remarks=(*asked.remarks, *said)) if said else asked

    def marked_words(self, asked: Asked) -> str:
        """Return the words whose places in a text show why it was found."""
        return self.asked_rows.marked_words(asked) if self._has_words else asked.words

    def _found_of(self, asked: Sequence[Asked], k: int, options: QueryOptions) -> list[QueryResult]:
        """Return the hits of queries that may find the same rows and have the same unfinished words."""
        if self.lists(asked[0]):
            return [self._listed(asked[0], k, options)]
        texts, whole = [one.words for one in asked], [one.encoded for one in asked]
        chosen, results, batch = self.found(texts, k + options.offset, options, asked=asked[0], whole=whole)
        found = [result.hits.at_least(options.min_score) for result in results]
        if asked[0].first is not None:  # which is asked alone
            firsts = with_first(self.lexical_of(asked[0]), asked[0], found[0], self.allowed(options))
            found = [firsts.first(k + options.offset)]
        if asked[0].takes_all and options.mode != "dense" and options.min_score is None:
            found = [with_all(asked[0], found[0], self.allowed(options)).first(k + options.offset)]
        hits = self.rows_of(found, options.offset)
        for one, choice, own in zip(asked, chosen, hits, strict=True):
            if choice.mode != "dense":
                mark_related(self.lexical_of(one), one, own)
        if options.explain:
            for one, choice, result, own in zip(asked, chosen, results, hits, strict=True):
                self.explain(one, choice.mode, result, own, options)
        unknown = self._unknown(batch, chosen) if batch else [{} for _ in texts]
        for one, choice, words in zip(asked, chosen, unknown, strict=True):
            if choice.mode != "dense" and not one.is_whole:
                strange = self.lexical_of(one).strangers(one.words).items()
                words |= {word: near or words.get(word, []) for word, near in strange}
        return [
            QueryResult(
                one.text, own, words, by_words=[*choice.by_words], mode=one.mode or choice.mode, corrected={**one.corrected},
                remarks=[*one.remarks], searched=self.marked_words(one), fields=one.fields, is_of_any=one.is_of_any,
            )
            for one, own, words, choice in zip(asked, hits, unknown, chosen, strict=True)
        ]  # fmt: skip

    def lists(self, asked: Asked) -> bool:
        """True if a query has operators and no words but stop words, so that it lists rows and ranks none."""
        ranks = asked.prefixes or self.lexical.analyser(asked.words)
        return asked.rows is not None and not ranks

    def _listed(self, asked: Asked, k: int, options: QueryOptions) -> QueryResult:
        """Return the first rows that the operators of a query without words allow."""
        allowed = self.allowed(options)
        assert asked.rows is not None
        rows = np.flatnonzero(asked.rows if allowed is None else asked.rows & allowed)
        (hits,) = self.rows_of([self.row_facts.listed(rows, options).first(k + options.offset)], options.offset)
        return QueryResult(asked.text, hits, remarks=[*asked.remarks], mode="lexical", fields=asked.fields)

    def found(
        self,
        texts: Sequence[str],
        k: int,
        options: QueryOptions,
        known: EncodedBatch | None = None,
        *,
        asked: Asked = _ANY_ROW,
        whole: Sequence[str] = (),
    ) -> tuple[list[ChosenMode], list[Result], EncodedBatch | None]:
        """Return the mode of each query, its k best rows, not fetched, and the queries encoded.

        Args:
            texts: the queries, none blank.
            k: rows wanted.
            options: how.
            known: the queries encoded, where they were before.
            asked: one of the queries, or all: the rows that may be found beside what the options say, beginnings of words and
                names that each query contains.
            whole: the queries as vectors are made of them, with their small words; none: as they are.
        """
        if not self.has_vectors:
            options = options.model_copy(update={"mode": "lexical"})
        mode, allowed = self.mode(options), self.allowed(options)
        if asked.rows is not None:
            allowed = asked.rows if allowed is None else asked.rows & allowed
        if mode == "lexical" and options.mode == "auto":  # a query of words that stand nowhere is left to the vectors
            lexical = self.lexical_of(asked)
            by_words = [bool(lexical.read(text, asked.prefixes).length) for text in texts]
        else:
            by_words = [mode == "lexical"] * len(texts)
        batch = None if all(by_words) else known
        if batch is None and not all(by_words):
            batch = self.encoder.for_queries.encode(whole or texts)
        # a least score is on the scale of one mode, and a weight of 1 leaves words out
        is_fixed = options.mode == "dense" or options.min_score is not None or options.weight == 1
        if batch is None or mode == "lexical":
            chosen = [ChosenMode(mode if known else "hybrid") for known in by_words]
        elif is_fixed or not any(batch.unknown):
            chosen = choose_modes(mode, batch, None)
        else:
            chosen = choose_modes(mode, batch, self.lexical)

        results = [Result(Hits.none())] * len(texts)
        for one in dict.fromkeys(choice.mode for choice in chosen):  # queries of one mode are searched for together
            retriever = self._retriever(one, options, allowed, asked)
            numbers = [number for number, choice in enumerate(chosen) if choice.mode == one]
            some, vectors = [texts[number] for number in numbers], None if batch is None else batch.vectors[numbers]
            if options.per_document:
                found = retriever.find_documents(some, vectors, k, self.documents)
            else:
                found = retriever.find(some, vectors, k)
            for number, result in zip(numbers, found, strict=True):
                results[number] = result
        return chosen, results, batch

    def passages(self, query: str) -> "PassageFinder":
        """Return a finder of passages by the index's stems; rare words count for more where the words were searched."""
        from wordpipe.search import Analyser
        from wordpipe.stages.search.passages import PassageFinder

        if "lexical" in self.__dict__:  # it is not read for this alone
            return PassageFinder(query, self.lexical.analyser, self.lexical.weight_of)
        known = self._of("lexical")
        return PassageFinder(query, Analyser(known["language"], stems=known["stems"], without=known.get("without", ())))

    def check(self, options: QueryOptions) -> None:
        """Refuse a condition that cannot be read, and a mode that the index does not have, before any query comes."""
        if options.mode in ("dense", "hybrid") or options.weight is not None:
            refuse_without_vectors(self.artifact)
        self.allowed(options)
        try:
            self.row_facts.check(options)
        except ConfigError as error:
            if became := fields_used(self.artifact.place, self.artifact.manifest).get(str(error.got)):
                error.hint = f"in this index, the field {error.got} is the column {became}: write {became}"
            raise
        if options.mode in ("lexical", "hybrid") or options.is_hybrid:
            self.lexical  # noqa: B018  opened now, so that one that is not there is said once

    def nothing_found(self, options: QueryOptions, asked: str = "") -> NothingFound:
        """Return the report that no query of the index found anything, and why where that is known."""
        if options.offset:
            return super().nothing_found(options, asked)
        # An id was asked for.
        if asked and options.where is None and "record_id" in self._columns.names:
            condition = "id = '" + asked.replace("'", "''") + "'"
            with suppress(ConfigError):  # numbers as ids
                if self._rows_where(condition).any():
                    hint = f'a record has this id; to see the record, use --where "{condition}"'
                    return NothingFound("nothing was found", hint=hint)
        # Small words alone were asked for.
        if (
            self._has_words
            and options.mode != "dense"
            and any(map(str.isalnum, asked))
            and not self.lexical.analyser(asked)
        ):
            what = f"nothing was found: {shortened(asked, _SHOWN)} is so common that it is not searched"
            hint = "use more words; to list the texts that contain the words, put them into quotes: '\"…\"'"
            return NothingFound(what, hint=hint)
        # The operators of the query allow no row, or none that has its words.
        if asked.strip() and (why := self._left_out(asked, options)):
            hint = "leave out the quotes, a sign (+ or -) or a condition (field:value); --exact searches for the words alone"
            return NothingFound(f"nothing was found: {why}", hint=hint)
        # With a condition, say of how many rows it is true.
        what, mode, allowed = "nothing was found", self.mode(options), self.allowed(options)
        if allowed is not None and options.where is not None:
            what += f": the condition is true for {allowed.sum():,} of {len(allowed):,} rows"
            if not allowed.any():
                if known := self._values_named(options.where or ""):
                    return NothingFound(what, got=options.where, hint=known)
                hint = f"to see the columns and their values, use: wordpipe show {self.artifact.path} --rows 3"
                return NothingFound(what, got=options.where, hint=hint)
        # Say what else was missing: a vector, or the words.
        if allowed is not None and options.min_score is None:
            has_vector = self.with_vector is None or allowed[self.with_vector].any()
            by_vectors = "the query has no vector" if has_vector else "none of these rows has a vector"
            what += f", and {by_vectors if mode == 'dense' else 'none of these rows contains the words of the query'}"
        if allowed is not None and mode != "dense":
            or_vectors = "; or search by vectors, with --mode dense" if mode == "lexical" and self.has_vectors else ""
            return NothingFound(what, got=options.where, hint=f"try other words or another condition{or_vectors}")
        if mode == "dense":
            return NothingFound(
                what, got=options.where, hint="try other words, or search by words, with --mode lexical"
            )
        return super().nothing_found(options, asked)

    def _left_out(self, text: str, options: QueryOptions) -> str:
        """Return how the operators of a query leave out all rows that have its words; "" where they do not."""
        asked = self.asked(printable(text), options)
        if asked.rows is None:
            return ""
        if not asked.rows.any():
            return "no text has what the quotes and signs of the query ask for"
        held_N = rows_holding(self.lexical_of(asked), asked)
        if held_N is None or (held_N & asked.rows).any():
            return ""
        rows = "the only row" if held_N.sum() == 1 else f"none of the {held_N.sum():,} rows"
        has = "does not have" if held_N.sum() == 1 else "has"
        return f"{rows} with the words of the query {has} what its quotes and signs ask for"

    def mode(self, options: QueryOptions) -> SearchMode:
        """Return the mode of queries whose words all have vectors."""
        if options.mode != "auto":
            return options.mode
        best: SearchMode = "hybrid" if options.is_hybrid else self._of("lexical").get("mode", "dense")
        return best if best in ("hybrid", "lexical") else "dense"

    def _retriever(
        self, mode: SearchMode, options: QueryOptions, allowed: npt.NDArray[np.bool_] | None, asked: Asked
    ) -> Retriever:
        return Retriever(
            None if mode == "lexical" else self.vector_index(allowed),
            None if mode == "dense" else self.lexical_of(asked),
            self._agreement,
            self._weight(options),
            self._feedback(mode, options),
            allowed,
            asked.prefixes,
            self.row_facts.doublings(options),
        )

    @cached_property
    def _agreement(self) -> float:
        """The agreement of vectors and words on what they find; see `vector_share`."""
        return read_fact(self._of("lexical"), "agreement", float, self.artifact.path / MANIFEST, UNMEASURED)

    def _weight(self, options: QueryOptions) -> float | None:
        """Return the share of the vectors in every hybrid score; None: it follows from the agreement."""
        own = self._of("lexical")
        if options.weight is not None or "weight" not in own:
            return options.weight
        return read_fact(own, "weight", float, self.artifact.path / MANIFEST)

    def _feedback(self, mode: SearchMode, options: QueryOptions) -> int:
        """Return the number of first hits by which a query of this mode is searched for a second time."""
        if mode != "lexical":
            return FEEDBACK if options.feedback is None else options.feedback
        if options.mode == "auto" and self.mode(options) == "lexical":
            return read_fact(self._of("lexical"), "feedback", int, self.artifact.path / MANIFEST, 0)
        return (options.feedback or 0) if options.mode == "lexical" else 0

    def explain(
        self, asked: Asked, mode: SearchMode, result: Result, hits: list[dict[str, Any]], options: QueryOptions
    ) -> None:
        """Explain every hit of a query: which words of the query and of its text carried its score.

        A cosine is a sum over pairs of words (see encoders/encoder.py), BM25 a sum over terms, and a hybrid score adds the
        two, each normalised and weighted. Where the query was moved by feedback, the cosine is what is left of that sum, and
        what the first hits brought.

        dense: the cosine, a sum over `pairs`, `others` and, where the query was moved, the score of `answers`, whose rows are
        those that it was moved towards; and, by word of each side, `query` and `text`. lexical: the BM25 score, a sum over
        `terms`, of which feedback has added what `answers` says. In hybrid mode each has a `share`: the two add up to the
        score. `newer` and `boost` say by what `factor` this score was then multiplied, if that was asked for.
        """
        query = asked.encoded
        parts = self.encoder.for_queries.parts(query) if hits and result.dense else None
        weight = 1.0 if result.weight is None else result.weight
        lexical = self.lexical_of(asked)
        own = lexical.read(asked.words, asked.prefixes) if result.lexical else None
        for hit in hits:
            explained: dict[str, Any] = {"mode": mode}
            for name, found, share in (("dense", result.dense, weight), ("lexical", result.lexical, 1 - weight)):
                if found is None or not (at := np.flatnonzero(found.rows == hit["row"])).size:
                    continue
                # the parts of this score: terms of BM25, or pairs of words of a cosine
                if name == "lexical":
                    assert own is not None
                    terms = lexical.explain(result.terms or own, hit["row"], own if result.terms else None)
                    explained[name] = {"score": sum(term["score"] for term in terms), "terms": terms}
                else:
                    assert parts is not None
                    text = self._encoded_text(hit)
                    kept, pull = (result.feedback.kept, result.feedback.pull) if result.feedback else (1, None)
                    explained[name] = explained_cosine(query, parts, text, self.encoder.parts(text), kept, pull)
                    if result.feedback:
                        explained[name]["answers"]["rows"] = result.feedback.rows.tolist()
                if mode == "hybrid":  # which adds weight · (score - low) / (high - low)
                    low, high = score_range(found)
                    added = share * float(normalised(found)[at[0]])
                    explained[name] |= {"weight": share, "low": low, "high": high, "share": added}
            hit["explain"] = explained | self.row_facts.explained(options, hit["row"])

    def _encoded_text(self, row: dict[str, Any]) -> str:
        """Return the text of a row that the encoder read."""
        return f"{row['title']}\n{row['text']}" if self._titled and row.get("title") else str(row["text"])

    def _unknown(self, batch: EncodedBatch, chosen: Sequence[ChosenMode]) -> list[dict[str, list[str]]]:
        """Return every query's unknown words; the first few come with words of like spelling."""
        suggest: Callable[[str], list[str]] = getattr(self.encoder, "suggest", lambda _: [])
        standing = {word for choice in chosen for word in choice.by_words}
        if any(choice.mode != "dense" for choice in chosen):  # found by words, if not by vectors
            standing |= {word for some in batch.unknown for word in some if self.lexical.knows(word)}
        words = dict.fromkeys(word for some in batch.unknown for word in some if word not in standing)
        near = {word: suggest(word) for word in islice(words, _SUGGESTED)}
        known = [() if choice.mode == "dense" else standing - {*choice.by_words} for choice in chosen]
        return [
            {word: near.get(word, []) for word in some if word not in own}
            for some, own in zip(batch.unknown, known, strict=True)
        ]

    @cached_property
    def _encoder_facts(self) -> dict[str, Any]:
        return load_facts(self.artifact.read(ENCODER + ENCODER_FILE))

    @cached_property
    def documents(self) -> npt.NDArray[np.int64]:
        """The number of the document of each row, (N,)."""
        return document_numbers(self.artifact, "index")

    def _of(self, name: str) -> dict[str, Any]:
        """Return a fact of the index that holds others; nothing where there is none."""
        return self.artifact.fact(name, dict, {})
