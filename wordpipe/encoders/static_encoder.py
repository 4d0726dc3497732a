"""Texts to vectors by a table that was trained on texts: as fast as reading, and what a contrastive training made of words.

A text's vector is the sum of its words' (or tokens') rows at length 1; how much a word counts is in the length of its row.

A table of words has a tokenizer.json that cuts text into our words, so that other libraries read it as we do: a WordLevel
tokenizer of `tokenizers` with lower case, the word pattern, one id per word, and [UNK] for the rest. A run of a script without
spaces stays whole there, as no pattern can cut it; a table of tokens serves such text better.

The numbers of a row are stored as float32 or float16 (`embedding.weight`), or as int8 with a factor for each row (`embeddings`
and `weights`, the names of model2vec, which sentence-transformers reads too).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import regex
import safetensors.numpy

from wordpipe.artifacts import Store, parse_json
from wordpipe.encoders.encoder import (
    TRANSFORM_FILE,
    EncodedBatch,
    EncoderKind,
    TableEncoder,
    TextParts,
    Watch,
    encoder_facts,
    joined,
    shares,
    text_runs,
)
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.encoders.text_rows import (
    MAX_PLAIN_ROWS,
    TOKENIZER_FILE,
    FoundRows,
    TextRows,
    TokenRows,
    WordRows,
    few_rows,
    sum_rows,
)
from wordpipe.encoders.transforms import Transform
from wordpipe.errors import ArtifactError, ConfigError, DivergedError
from wordpipe.runtime import cpu_count
from wordpipe.tokens import open_tokenizer
from wordpipe.wording import UNNEEDED

TABLE_FILE = "model.safetensors"
_TENSOR, _NUMBERS, _FACTORS = "embedding.weight", "embeddings", "weights"
_MOST = 127  # of int8; -128 is not used
_RUN_CHARACTERS = 500_000  # characters that a thread takes at once: vectors of four thousand sentences

_UNKNOWN = "[UNK]"
# the pattern of tokens/words.py in the words of Oniguruma, which has && in the place of --
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_LETTERS = rf"[\p{{L}}\p{{M}}\p{{N}}&&[^{_UNSPACED}]]"
_WORD = rf"[{_UNSPACED}ー々]+|\p{{N}}+(?:[.,]\p{{N}}+)+|{_LETTERS}+(?:['’\-‐]{_LETTERS}+)*"
# Python's lower() ends a word with ς, looking past accents and apostrophes; letter by letter, as here, it would be σ. A look
# behind sees a single accent.
_CASED = r"[\p{Lu}\p{Ll}\p{Lt}]"
_IGNORED = r"[\p{M}\p{Lm}'’]"
_FINAL_SIGMA = rf"(?<={_CASED}|{_CASED}{_IGNORED})Σ(?!{_IGNORED}*{_CASED})"


def static_files(
    table_VD: npt.NDArray[np.float32], tokenizer_json: bytes, store: Store = "float32"
) -> dict[str, bytes]:
    """Return the two files of a static model: table and tokenizer.

    Args:
        table_VD: float32, one row for each id of the tokenizer.
        tokenizer_json: as `word_tokenizer` makes it, or of any tokenizer.
        store: number format of the table.
    """
    if store == "int8":
        most_V1 = np.abs(table_VD).max(axis=1, keepdims=True)
        most_V1[most_V1 == 0] = 1
        most_V1[~np.isfinite(most_V1)] = np.nan  # by which the row is found when it is used
        with np.errstate(invalid="ignore"):
            numbers_VD = np.rint(table_VD * (np.float32(_MOST) / most_V1)).astype(np.int8)
        tensors = {_NUMBERS: numbers_VD, _FACTORS: most_V1[:, 0] / np.float32(_MOST)}
    else:
        tensors = {_TENSOR: np.ascontiguousarray(table_VD, store)}
    return {TABLE_FILE: safetensors.numpy.save(tensors), TOKENIZER_FILE: tokenizer_json}


def static_table(data: bytes) -> npt.NDArray[np.float32]:
    """Return the table of a static model, (V, D), out of its model.safetensors. Raises ArtifactError: it has none."""
    return _StoredTable(data).rows(slice(None))


class _StoredTable:
    """The table of a static model as it is stored; its rows are computed when they are asked for.

    Args:
        data: model.safetensors.

    Raises:
        ArtifactError: it has no table.
    """

    def __init__(self, data: bytes) -> None:
        try:
            tensors = safetensors.numpy.load(data)
            self._factors_V = tensors.get(_FACTORS)
            self._numbers_VD = tensors[_TENSOR if self._factors_V is None else _NUMBERS]
        except (KeyError, ValueError, safetensors.SafetensorError) as error:
            raise ArtifactError("the static table cannot be read", where=TABLE_FILE, got=error) from None
        shape = self._numbers_VD.shape
        factors = shape[:1] if self._factors_V is None else self._factors_V.shape
        if len(shape) != 2 or not self._numbers_VD.size or factors != shape[:1]:
            raise ArtifactError("the file does not contain a table of vectors", where=TABLE_FILE, got=shape)
        self.shape: tuple[int, ...] = shape

    def rows(self, which: Any) -> npt.NDArray[np.float32]:
        """Return some rows of the static table, (R, D), by their numbers or a slice."""
        rows_RD: npt.NDArray[np.float32] = np.ascontiguousarray(self._numbers_VD[which], np.float32)
        if self._factors_V is not None:
            rows_RD *= self._factors_V[which, None]
        return rows_RD


def word_tokenizer(words: Sequence[str], *, keep_case: bool = False) -> bytes:
    """Return the tokenizer.json of a static encoder's table of words.

    Args:
        words: the word of each row, none of them "[UNK]"; that becomes the row after them.
        keep_case: words are as written.
    """
    # text as our splitter sees it: without invisible characters, in small letters
    seen = {"type": "Replace", "pattern": {"Regex": UNNEEDED}, "content": ""}
    lower = [
        {"type": "Replace", "pattern": {"Regex": _FINAL_SIGMA}, "content": "ς"},
        {"type": "Lowercase"},
    ]
    # words are what the pattern matches, each one id
    parts: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [seen] if keep_case else [seen, *lower]},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": _WORD}, "behavior": "Removed", "invert": True},
        "post_processor": None,
        "decoder": None,
        # the row of each word is its id; all other words share the last
        "model": {
            "type": "WordLevel",
            "vocab": {word: row for row, word in enumerate([*words, _UNKNOWN])},
            "unk_token": _UNKNOWN,
        },
    }
    return json.dumps(parts, ensure_ascii=False).encode()


def unspaced_share(words: Sequence[str], counts: npt.NDArray[np.int64]) -> float:
    """Return the share of a text's words of scripts without spaces, which a static encoder's tokenizer cannot cut.

    Args:
        words: V words.
        counts: (V,) how often the text has each.
    """
    begins = regex.compile(rf"[{_UNSPACED}]")
    unspaced = np.fromiter((begins.match(word) is not None for word in words), np.bool_, len(words))
    return float(counts[unspaced].sum() / max(1, counts.sum()))


def listed_words(tokenizer_json: bytes) -> tuple[list[str], bool] | None:
    """Return the words of a static encoder's tokenizer that `word_tokenizer` made; None for any other tokenizer.

    Raises:
        ArtifactError: not a tokenizer.json, or its ids are not 0, 1, 2, …
    """
    try:
        parts = parse_json(tokenizer_json, "tokenizer.json", what="the tokenizer cannot be read")
        model, pre_tokenizer = parts["model"], parts["pre_tokenizer"]
        if model["type"] != "WordLevel" or (pre_tokenizer or {}).get("pattern", {}).get("Regex") != _WORD:
            return None
        words = sorted(model["vocab"], key=model["vocab"].__getitem__)
        if sorted(model["vocab"].values()) != list(range(len(words))) or words[-1:] != [_UNKNOWN]:
            raise ValueError("the ids have gaps")
        steps = {step["type"] for step in (parts["normalizer"] or {}).get("normalizers", [])}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError("the tokenizer cannot be read", where="tokenizer.json", got=error) from None
    return words[:-1], "Lowercase" not in steps


class StaticEncoder(TableEncoder):
    """The unit sum of a text's rows, transformed. Words without a row are left out and named.

    Args:
        files: tokenizer.json and model.safetensors by name; others are passed over.
        settings: pooling (auto or mean: a sum and a mean have one direction), window, overlap and threads are looked at.
        transform: what is applied to every vector; nothing where None.
        identity: what the caller wants to find again in the saved file (digests), JSON values.

    Raises:
        ConfigError: a pooling that a table does not have.
        ArtifactError: the files are damaged, or do not belong together.
    """

    kind: EncoderKind = "static"

    def __init__(
        self,
        files: Mapping[str, bytes],
        settings: EmbedSettings,
        transform: Transform | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        if settings.pooling not in ("auto", "mean"):
            raise ConfigError(
                "a static table does not support this pooling", where="pooling", got=settings.pooling, expected="mean"
            )
        self._files = {name: files[name] for name in (TABLE_FILE, TOKENIZER_FILE)}
        self._stored = _StoredTable(self._files[TABLE_FILE])
        self._rows = _rows(self._files[TOKENIZER_FILE], self._stored.shape[0])
        self.pooling = "mean"
        super().__init__(self._stored.shape[1], settings, transform, identity)
        self._threads = settings.threads or cpu_count()

    def encode(self, texts: Sequence[str], watch: Watch | None = None) -> EncodedBatch:
        """Encode texts by the static table: see `TextEncoder.encode`."""
        runs = text_runs(texts, _RUN_CHARACTERS)
        if len(runs) == 1 or self._threads == 1:
            return joined([self._encode(run) for run in runs])
        _ = self._whole  # computed once, before the threads ask
        with ThreadPoolExecutor(self._threads) as pool:
            return joined([*pool.map(self._encode, runs)])

    def lengths(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Words (or tokens) of each text, unknown ones included."""
        return np.diff(self._rows.find(texts).offsets)

    def parts(self, text: str) -> TextParts:
        """Return the words (or tokens) of a text that have a row of the static table, with their shares of its vector."""
        spans, rows = self._rows.spans(text)
        known = np.flatnonzero(rows >= 0)
        vectors_PK = shares(self._stored.rows(rows[known]), self.transform, text)
        return TextParts([spans[at] for at in known], vectors_PK)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files of a static encoder: its facts, model.safetensors and tokenizer.json."""
        yield from encoder_facts(self, self._settings)
        yield from self._files.items()

    @cached_property
    def _whole(self) -> npt.NDArray[np.float32]:
        """The whole table, (V, D), for many texts."""
        return self._stored.rows(slice(None))

    @classmethod
    def load(cls, about: Mapping[str, Any], files: Mapping[str, bytes]) -> "StaticEncoder":
        """Load a static encoder from its files; `about` is the content of its encoder.json."""
        transform = Transform.from_bytes(files[TRANSFORM_FILE], about["transform"], where=TRANSFORM_FILE)
        return cls(files, EmbedSettings.make(about["settings"]), transform, about["identity"])

    def _encode(self, texts: Sequence[str]) -> EncodedBatch:
        """Encode some texts by the static table."""
        found = self._rows.find(texts)
        unit_ND, filled_N = self._unit_sums(found)
        unknown: list[list[str]] = [[] for _ in texts]
        for text, word in found.unknown:
            unknown[text].append(word)
        vectors_NK, empty_N = (unit_ND, ~filled_N) if self.transform.kind == "none" else self.transform.apply(unit_ND)
        return EncodedBatch(vectors_NK, empty_N, unknown, filled_N.astype(np.int64))

    def _unit_sums(self, found: FoundRows) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """Return each text's sum of table rows at length 1, and which texts have one; without numba where the rows are few."""
        n = len(found.offsets) - 1
        if len(found.ids) <= MAX_PLAIN_ROWS:  # and their rows alone are computed
            rows_R, among = few_rows(found)
            unit_ND, norms_N = _unit_plainly(self._stored.rows(rows_R), among)
        else:
            from wordpipe.encoders.kernels import unit_texts

            unit_ND, norms_N = np.empty((n, self._whole.shape[1]), np.float32), np.empty(n, np.float32)
            unit_texts(self._whole, found.ids, found.offsets, unit_ND, norms_N)
        if not np.isfinite(norms_N).all():
            raise DivergedError(
                "the vector of a text has infinite or NaN numbers", where="static table", hint="train the model again"
            )
        return unit_ND, norms_N > 0


def _unit_plainly(
    table_VD: npt.NDArray[np.float32], found: FoundRows
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return texts' sums of table rows at length 1 (N, D), and their lengths before (N,); bits as in `kernels.unit_texts`."""
    sums_ND = sum_rows(table_VD, found)
    squares_N = np.add.accumulate(sums_ND * sums_ND, axis=1)[:, -1]
    norms_N = np.sqrt(squares_N)
    sums_ND *= (np.float32(1) / np.where(squares_N > 0, norms_N, np.float32(1)))[:, None]
    return sums_ND, norms_N


def _rows(tokenizer_json: bytes, n_rows: int) -> TextRows:
    """Return the finder of a static table's rows for texts, by the words or the tokens of this tokenizer.

    Raises:
        ArtifactError: it has ids that the table has no row for.
    """
    listed = listed_words(tokenizer_json)
    if listed is not None:
        words, keep_case = listed
        rows: TextRows = WordRows.listed(words, keep_case=keep_case)
        n_ids = len(words) + 1
    else:
        tokenizer = open_tokenizer(tokenizer_json, where=TOKENIZER_FILE)
        rows, n_ids = TokenRows(tokenizer), max(tokenizer.get_vocab().values(), default=-1) + 1
    if n_ids > n_rows:
        raise ArtifactError("the tokenizer has more ids than the table has rows", where=TABLE_FILE, got=f"{n_rows} rows",
                            expected=f"{n_ids} rows")  # fmt: skip
    return rows
