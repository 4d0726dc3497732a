"""Models of any kind, opened for `attention` and `doctor`: language models, encoder-decoders, models with a head.

A text is read as the model reads it: with what stands before and after it. What is shown of a token is the text that it
stands for; tokens of one word have the number of that word. A word is a run of letters and digits, with inner apostrophes and
hyphens; in scripts without spaces each token is one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import (
    KINDS,
    TOKENIZER,
    Artifact,
    BundledFiles,
    input_of,
    is_artifact,
    parse_json_object,
    read_regular_file,
)
from wordpipe.errors import ArtifactError, InputError
from wordpipe.metrics import words_of_tokens
from wordpipe.stages.infer.generate import source_ids
from wordpipe.stages.job import PathLike
from wordpipe.stages.models import OpenModel, model_of, open_model
from wordpipe.stages.sources import refuse_headless
from wordpipe.tokens import library_errors, open_tokenizer, read_tokenizer

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from wordpipe.model import LoadedHead, Transformer

_CONFIG = "config.json"
_MAX_FILE = 1 << 40  # bytes
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff"  # Thai, Lao, Burmese, Khmer, kana, Han
_WORD = re.compile(rf"[^\W_{_UNSPACED}]+(?:['’\-‐][^\W_{_UNSPACED}]+)*")
_ENDS = ("bos", "eos", "cls", "sep", "pad")


@dataclass(frozen=True)
class TokenRow:
    """A text as a model reads it, N tokens.

    Attributes:
        ids: int64.
        shown: what each stands for.
        words: the number of the word of each, from 0.
        word_names: what each word stands for.
        separators: which of them begin, part or end texts.
        segments: which text of a pair each belongs to; None: the model does not ask.
        cut: tokens at the end that the model has no room for.
    """

    ids: npt.NDArray[np.int64]
    shown: list[str]
    words: list[int]
    word_names: list[str]
    separators: npt.NDArray[np.bool_]
    segments: npt.NDArray[np.int64] | None = None
    cut: int = 0


@dataclass(frozen=True)
class Inspected:
    """A model opened for `attention` and `doctor`.

    Attributes:
        path: where it came from.
        model: in evaluation mode, on the CPU.
        tokenizer: cuts and fills nothing.
        opened: the same as a language model; None of a model with a head.
        command: that made the artifact; empty of a folder of transformers.
        facts, settings: of its manifest.
        inputs: kind and place of the artifacts that it was made of, where they are still there.
        made_of: the kinds of all of them.
        notes: what the user should know of how it was read.
    """

    path: str
    model: "Transformer"
    tokenizer: "Tokenizer"
    opened: OpenModel | None
    command: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    inputs: Sequence[tuple[str, Path]] = ()
    made_of: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def max_len(self) -> int:
        """Return how many tokens of a text the inspected model reads."""
        most, read = self.model.config.max_len, self.facts.get("read_tokens")
        return min(most, read) if self.opened is None and isinstance(read, int) and read > 1 else most

    @property
    def writes_targets(self) -> bool:
        """True if the model is an encoder-decoder."""
        return self.model.config.architecture == "encoder-decoder"

    def separators(self, ids: Sequence[int] | npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.bool_]:
        """Mark the ids of tokens that begin, separate or end texts for an inspected model."""
        special = self.model.config.special_ids
        found: npt.NDArray[np.bool_] = np.isin(
            ids, [number for role in _ENDS if (number := special.get(role)) is not None]
        )
        return found

    def read(self, text: str, second: str | None = None) -> TokenRow:
        """Read a text, or a pair of texts, as tokens in the frame of the inspected model.

        Raises:
            InputError: there is no letter in it.
        """
        if not text.strip() or (second is not None and not second.strip()):
            raise InputError("a text is blank", expected="some words")
        found = _encode(self.tokenizer, text, second)
        kinds = np.array(found.type_ids, np.int64)
        texts = [text, text if second is None else second]
        pieces = [
            _Piece(number, texts[part or 0], place, -1 if part is None else part)
            for number, place, part in zip(found.ids, found.offsets, found.sequence_ids, strict=True)
        ]
        return self._row(pieces, self.max_len, kinds if self.model.config.segments else None)

    def read_source(self, text: str) -> TokenRow:
        """Read a source text of an inspected encoder-decoder as tokens, behind the prefix of its training.

        Raises:
            InputError: there is no letter in it.
        """
        if not text.strip():
            raise InputError("a text is blank", expected="some words")
        assert self.opened is not None
        prefix = self.opened.prefix
        wanted, cut = source_ids(self.opened, prefix, text)
        parts = [prefix, text] if prefix and self.opened.made_by else [prefix + text]
        inner = [piece for n, part in enumerate(filter(None, parts)) for piece in _pieces(self.tokenizer, part, n)]
        before = len(self.opened.before)
        kept = inner[: len(wanted) - before - max(1, len(self.opened.after))]
        ends = [_Piece(number, "", (0, 0), -1) for number in wanted]
        row = self._row([*ends[:before], *kept, *ends[before + len(kept) :]], len(wanted), None)
        assert row.ids.tolist() == wanted
        return TokenRow(**vars(row) | {"cut": cut})

    def read_target(self, text: str) -> TokenRow:
        """Read a target text as tokens, in the form that the decoder of an inspected model reads."""
        assert self.opened is not None
        config = self.opened.pair_model.config
        first = [number for number in (config.start_id, config.first_id) if number is not None]
        start = [_Piece(number, "", (0, 0), -1) for number in first]
        return self._row([*start, *_pieces(self.opened.writing_tokenizer, text)], self.max_len, None, writes=True)

    def _row(
        self, pieces: "list[_Piece]", room: int, segments: npt.NDArray[np.int64] | None, *, writes: bool = False
    ) -> TokenRow:
        """Return pieces as a row of tokens, cut to the room of the inspected model."""
        cut = max(0, len(pieces) - room)
        if cut:  # what ends a text stays at its end
            last = 1 if pieces[-1].special else 0
            pieces = [*pieces[: room - last], *pieces[len(pieces) - last :]]
            segments = (
                None if segments is None else np.append(segments[: room - last], segments[len(segments) - last :])
            )
        tokenizer = self.opened.writing_tokenizer if writes and self.opened is not None else self.tokenizer
        shown = [piece.shown(tokenizer) for piece in pieces]
        words, names = _words(pieces, shown)
        ids = np.array([piece.id for piece in pieces], np.int64)
        return TokenRow(ids, shown, words, names, self.separators(ids), segments, cut)


@dataclass(frozen=True)
class _Piece:
    """A token and where it comes from."""

    id: int
    text: str  # that it is cut out of
    place: tuple[int, int]
    part: int  # number of that text; -1 of a special token

    @property
    def special(self) -> bool:
        """True if the piece stands for no text."""
        return self.part < 0

    @property
    def solid(self) -> tuple[int, int] | None:
        """Return the place of an inspected model's piece without white space at its ends; None if nothing is left."""
        part = self.text[slice(*self.place)]
        begin = self.place[0] + len(part) - len(part.lstrip())
        end = begin + len(part.strip())
        return None if self.special or begin >= end else (begin, end)

    def shown(self, tokenizer: "Tokenizer") -> str:
        """Return the text of an inspected model's piece; of a special token its own name.

        Of a part of a character, and of a special token, its own name.
        """
        if (place := self.solid) is not None:
            return self.text[slice(*place)]
        name = str(tokenizer.id_to_token(self.id) or self.id)
        return name if self.special else repr(self.text[slice(*self.place)])[1:-1] or name


def _encode(tokenizer: "Tokenizer", text: str, second: str | None = None, *, framed: bool = True) -> "Encoding":
    """Encode a text or a pair with a tokenizer, with errors of ours."""
    with library_errors("the tokenizer cannot encode the text", TOKENIZER):
        return tokenizer.encode(text, second, add_special_tokens=framed)


def _pieces(tokenizer: "Tokenizer", text: str, part: int = 0) -> list[_Piece]:
    """Return the tokens of a text with their places, without special tokens."""
    found = _encode(tokenizer, text, framed=False)
    return [_Piece(number, text, place, part) for number, place in zip(found.ids, found.offsets, strict=True)]


def _words(pieces: Sequence[_Piece], shown: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return the number of the word of each token that an inspected model reads, and the words."""
    numbers: list[int] = []
    first = 0
    while first < len(pieces):  # one text after the other: places are those in its own
        last = first + 1
        while last < len(pieces) and pieces[last].part == pieces[first].part:
            last += 1
        places = [match.span() for match in _WORD.finditer(pieces[first].text)]
        found = words_of_tokens(_solid_places(pieces[first:last]), places)
        numbers += [number + (numbers[-1] + 1 if numbers else 0) for number in found]
        first = last
    names = []
    for number in range(numbers[-1] + 1 if numbers else 0):
        parts = [place for place, one in enumerate(numbers) if one == number]
        spans = [span for place in parts if (span := pieces[place].solid) is not None]
        text = pieces[parts[0]].text
        names.append(text[min(a for a, _ in spans) : max(b for _, b in spans)] if spans else shown[parts[0]])
    return numbers, names


def see_its_vectors(path: PathLike) -> str:
    """Return the commands that check the vectors of an encoder of texts, for a hint."""
    return f"to check the vectors: wordpipe embed {path} CORPUS -o SENTENCES, then wordpipe doctor SENTENCES"


def _solid_places(pieces: Sequence[_Piece]) -> list[tuple[int, int] | None]:
    """Return the place of each token that an inspected model reads.

    White space by itself goes with the token after it, as it does within tokens.
    """
    found = [piece.solid for piece in pieces]
    for number in range(len(pieces) - 2, -1, -1):
        if found[number] is None and not pieces[number].special:
            found[number] = found[number + 1]
    return found


def inspect_model(path: PathLike, *, verify: bool = True) -> Inspected:
    """Open a model of any kind, to be inspected.

    Raises:
        ArtifactError: nothing there, damaged, or of a class that we do not compute.
    """
    folder = Path(path)
    if is_artifact(folder) or not (folder / _CONFIG).is_file():
        with Artifact(folder, ["model"], verify=verify) as artifact:
            return inspected_of(artifact)
    refuse_headless(folder)

    def read(name: str) -> bytes:
        return read_regular_file(folder / name, _MAX_FILE, what="a model file")

    if _is_headed(read(_CONFIG)):
        names = [file.name for file in folder.iterdir()]
        return _headed(folder, _load_headed(read, names), read_tokenizer(folder), {})
    opened = open_model(folder, verify=verify)
    return Inspected(str(folder), opened.model.eval(), opened.tokenizer, opened, notes=opened.notes)


def inspected_of(artifact: Artifact, language_model: OpenModel | None = None) -> Inspected:
    """Return the inspected model of an open artifact.

    Args:
        artifact: of a model of any kind.
        language_model: the same model, where it is in memory already and has no head.

    Raises:
        ArtifactError: as from `inspect_model`.
    """
    folder, files, manifest = artifact.path, BundledFiles(artifact), artifact.manifest
    about: dict[str, Any] = {
        "command": manifest.command, "facts": manifest.facts, "settings": manifest.settings,
        "inputs": _inputs_of(artifact), "made_of": tuple(entry.kind for entry in manifest.inputs),
    }  # fmt: skip
    if _CONFIG not in files and manifest.facts.get("encoder") == "static":
        raise ArtifactError(
            "this model has no attention, because it only adds up word vectors", where=folder, expected="a transformer",
            hint=see_its_vectors(folder),
        )  # fmt: skip
    with files.damage("the model cannot be read"):
        if _is_headed(files[_CONFIG]):
            tokenizer = open_tokenizer(files[TOKENIZER], where=str(folder / TOKENIZER))
            return _headed(folder, _load_headed(files.__getitem__, artifact.names()), tokenizer, about)
    opened = language_model or model_of(artifact)
    return Inspected(str(folder), opened.model.eval(), opened.tokenizer, opened, notes=opened.notes, **about)


def is_transformer(artifact: Artifact) -> bool:
    """True if a model to inspect is a transformer, and not a sum of word vectors."""
    from wordpipe.heads import is_static_head

    if _CONFIG not in artifact.names():
        return False
    return not is_static_head(parse_json_object(artifact.read(_CONFIG), _CONFIG))


def _inputs_of(artifact: Artifact) -> list[tuple[str, Path]]:
    """Return the artifacts that an inspected model was made of, if they are still the same."""
    return [
        (entry.kind, there[0])
        for entry in artifact.manifest.inputs
        if entry.kind in KINDS and entry.path and (there := input_of(artifact.place, entry)) is not None
    ]


def _is_headed(config: bytes) -> bool:
    from wordpipe.model import is_headed

    return is_headed(parse_json_object(config, _CONFIG))


def _load_headed(read: Any, names: Sequence[str]) -> "LoadedHead":
    from wordpipe.model import load_headed

    return load_headed(read, [*names])


def _headed(folder: Path, loaded: "LoadedHead", tokenizer: "Tokenizer", about: dict[str, Any]) -> Inspected:
    """Return a model with a head as an inspected model."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    loaded.model.requires_grad_(False)
    return Inspected(str(folder), loaded.model.eval(), tokenizer, None, notes=loaded.notes, **about)
