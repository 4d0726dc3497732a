"""The files of tokenizers: a `tokenizer.json` or a folder of transformers, read; and the formats of other programs, written.

Whatever libraries raise over a file that others made becomes an error that names the file. What a `tokenizer.json` does not
hold (the older files of a transformers folder, sentencepiece, tiktoken) transformers converts: the error says how.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from wordpipe.errors import ArtifactError, ConfigError, InputError, WordpipeError
from wordpipe.tokens.vocabulary import CONTINUING, USUAL_NAMES, special_names, template_of

_LARGEST = 1 << 30  # bytes; the largest vocabularies in use take some 40 MB
_TAKEN = "a tokenizer.json or a transformers folder that has one"
_CONVERTER = "write a tokenizer.json with transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OUT)"
_OLDER_FILES = ("vocab.txt", "vocab.json", "*.model", "*.tiktoken")  # how text is cut is code of transformers' classes
# a protobuf whose first field is a piece that begins with its text; a token in base64 and its rank
_SENTENCEPIECE, _TIKTOKEN = re.compile(rb"\n[\x03-\x7f]\n"), re.compile(rb"[A-Za-z0-9+/]+={0,2} \d+\r?(\n|\Z)")


@contextmanager
def library_errors(what: str, where: str) -> Iterator[None]:
    """Whatever a library raises in the block is the file's fault.

    tokenizers raises bare exceptions, and panics that are no `Exception` at all.
    """
    try:
        yield
    except (WordpipeError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise InputError(what, where=where, got=str(error)[:200] or type(error).__name__) from None


def open_tokenizer(data: bytes, *, where: str) -> Tokenizer:
    """Load a `tokenizer.json`, with truncation and padding switched off: nothing is cut in silence.

    Raises:
        InputError: not a tokenizer.
    """
    with library_errors("not a tokenizer.json that tokenizers can read", where):
        tokenizer = Tokenizer.from_str(data.decode())
        tokenizer.no_truncation()
        tokenizer.no_padding()
    return tokenizer


def read_tokenizer(path: Path) -> Tokenizer:
    """Read a tokenizer, with truncation and padding switched off: nothing is cut in silence.

    Args:
        path: a tokenizer.json or a transformers folder.

    Raises:
        InputError: missing, damaged, or only in files that transformers has to convert.
    """
    if path.is_dir():
        file = path / "tokenizer.json"
        if not file.is_file():
            older = sorted(found.name for pattern in _OLDER_FILES for found in path.glob(pattern))
            raise InputError(
                "the folder holds no tokenizer.json", where=path, got=", ".join(older) or None, expected=_TAKEN,
                hint=_CONVERTER if older else None,
            )  # fmt: skip
        tokenizer = _checked(open_tokenizer(_bytes_of(file), where=str(file)), path)
        _check_added_tokens(tokenizer, path)
        return tokenizer
    if not path.is_file():
        raise InputError("no such tokenizer", where=path, expected=_TAKEN)
    data = _bytes_of(path)
    if data.lstrip()[:1] != b"{":
        raise _unknown(path, data)
    return _checked(open_tokenizer(data, where=str(path)), path)


def _bytes_of(path: Path) -> bytes:
    if (size := path.stat().st_size) > _LARGEST:
        raise InputError("too large for a tokenizer", where=path, got=f"{size} bytes", expected=f"at most {_LARGEST}")
    return path.read_bytes()


def _check_added_tokens(tokenizer: Tokenizer, folder: Path) -> None:
    """Refuse a folder in which other files give a token another id: transformers would go by them."""
    for name in ("added_tokens.json", "tokenizer_config.json"):
        path = folder / name
        if not path.is_file():
            continue
        with library_errors("not the JSON file that transformers writes", str(path)):
            ids = json.loads(_bytes_of(path))
            if name == "tokenizer_config.json":
                ids = {entry["content"]: int(key) for key, entry in (ids.get("added_tokens_decoder") or {}).items()}
            wrong = [(token, number) for token, number in ids.items() if tokenizer.token_to_id(token) != number]
        for token, number in wrong[:1]:
            raise InputError(
                f"the token {token!r} has another id in tokenizer.json", where=path, got=number,
                expected=tokenizer.token_to_id(token), hint=_CONVERTER,
            )  # fmt: skip


def _unknown(path: Path, data: bytes) -> InputError:
    """The error for a file that is not ours to read: who converts it."""
    if path.suffix == ".tiktoken" or _TIKTOKEN.match(data):
        return InputError(
            "a tiktoken file, which transformers converts", where=path, expected=_TAKEN,
            hint=f"from transformers.convert_slow_tokenizer import TikTokenConverter; "
            f"TikTokenConverter({path.name!r}, pattern=…, extra_special_tokens=[…]).converted().save('tokenizer.json')",
        )  # fmt: skip
    if path.suffix in (".model", ".spm") or _SENTENCEPIECE.match(data):
        return InputError(
            "a sentencepiece model, which transformers converts", where=path, expected=_TAKEN, hint=_CONVERTER
        )
    hint = _CONVERTER if path.name in ("vocab.txt", "vocab.json", "merges.txt") else None
    return InputError("not a kind of tokenizer that is known", where=path, expected=_TAKEN, hint=hint)


def _checked(tokenizer: Tokenizer, path: Path) -> Tokenizer:
    """Refuse an empty vocabulary, and ids that no table can hold."""
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    if not vocabulary:
        raise InputError("the tokenizer has no tokens", where=path)
    if (top := max(vocabulary.values())) >= 2 * len(vocabulary) + 1024:
        raise InputError(
            "the ids are too far apart for a table of them",
            where=path,
            got=f"{len(vocabulary)} tokens, the last id is {top}",
        )
    return tokenizer


def named_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """The special tokens that the folder names, by role."""
    found = {role: _content(config.get(f"{role}_token")) for role in USUAL_NAMES}
    return {role: token for role, token in found.items() if token}


def _content(value: Any) -> str:
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def framed_tokenizer(
    tokenizer_json: bytes, ids: Mapping[str, int | None], *, causal: bool, vocab_size: int
) -> tuple[Tokenizer, dict[str, str]]:
    """The tokenizer of a model, which adds what each training sequence had: [CLS] text [SEP], or <s> text if causal.

    Args:
        tokenizer_json: a Hugging Face tokenizer.
        ids: role → the model's id; None where it has none.
        causal: whether the model is a decoder.
        vocab_size: rows of the model's table of embeddings.

    Returns:
        The tokenizer, and role → special token.

    Raises:
        ArtifactError: the tokenizer cannot be read, lacks one of the ids, or has more tokens than the model has embeddings.
    """
    try:
        tokenizer = open_tokenizer(_with_mask(tokenizer_json, ids.get("mask")), where="tokenizer.json")
    except InputError as error:
        raise ArtifactError("not a tokenizer", where="tokenizer.json", got=error.got) from None
    if tokenizer.get_vocab_size() > vocab_size:
        raise ArtifactError(
            "the tokenizer has more tokens than the model has embeddings",
            got=tokenizer.get_vocab_size(),
            expected=f"at most {vocab_size}",
        )
    names = {role: _token(tokenizer, role, token_id) for role, token_id in ids.items() if token_id is not None}
    first, last = ("bos", "") if causal else ("cls", "sep")
    tokenizer.post_processor = template_of(tokenizer, names.get(first), names.get(last))
    return tokenizer, names


def _with_mask(tokenizer_json: bytes, mask_id: int | None) -> bytes:
    """With a mask that takes the space before it, as RoBERTa's: in training a hidden word's space is hidden with it."""
    try:
        values = json.loads(tokenizer_json)
        for token in values.get("added_tokens") or []:
            if token["id"] == mask_id:
                token["lstrip"] = True
    except (ValueError, KeyError, TypeError, AttributeError):
        return tokenizer_json  # whatever it is, `open_tokenizer` says it better
    return json.dumps(values, ensure_ascii=False).encode()


def transformers_files(
    tokenizer: Tokenizer, names: Mapping[str, str], *, max_len: int | None = None, padding_side: str = "right"
) -> dict[str, bytes]:
    """`tokenizer.json`, `tokenizer_config.json` and `special_tokens_map.json`.

    Args:
        tokenizer: written as it is.
        names: role → special token.
        max_len: the longest sequence that the model takes, in tokens; None where there is no model.
        padding_side: left for a decoder, which goes on from the last position.
    """
    special = {f"{role}_token": name for role, name in names.items()}
    settings = {
        **special,
        "tokenizer_class": "PreTrainedTokenizerFast",
        # a tokenizer of its own gives the segments of its template; our models have none
        "model_input_names": ["input_ids", *(["token_type_ids"] if max_len is None else []), "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "padding_side": padding_side,
        **({} if max_len is None else {"model_max_length": max_len}),
    }
    return {
        "tokenizer.json": tokenizer.to_str(pretty=True).encode(),
        "tokenizer_config.json": _json(settings),
        "special_tokens_map.json": _json(special),
    }


def _token(tokenizer: Tokenizer, role: str, token_id: int) -> str:
    token = tokenizer.id_to_token(token_id)
    if token is None:
        raise ArtifactError(f"the tokenizer has no {role} token", where="tokenizer.json", expected=f"id {token_id}")
    return str(token)


def _json(values: Mapping[str, Any]) -> bytes:
    return f"{json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False)}\n".encode()


FOLDERS = ("transformers",)  # these are folders, the others files


@dataclass
class ExportedTokenizer:
    """What to write: file name → content, the number of tokens, and what the format leaves out, in words."""

    files: dict[str, bytes]
    tokens: int
    notes: list[str] = field(default_factory=list)


def export_tokenizer(data: bytes, form: str, name: str, *, where: str) -> ExportedTokenizer:
    """A tokenizer in one of `FORMATS`.

    Args:
        data: a tokenizer.json.
        form: the format.
        name: name of the file to write; folders have names of their own inside.
        where: where the tokenizer comes from, for errors.

    Raises:
        ConfigError: no such format, or vocab-txt, and it cannot hold this tokenizer.
        InputError: not a tokenizer.
    """
    if form not in FORMATS:
        raise ConfigError("unknown format", where="form", got=form, expected=", ".join(FORMATS))
    return FORMATS[form](open_tokenizer(data, where=where), name, where)


def _tokenizer_json(tokenizer: Tokenizer, name: str, where: str) -> ExportedTokenizer:
    return ExportedTokenizer({name: tokenizer.to_str(pretty=True).encode()}, tokenizer.get_vocab_size())


def _transformers(tokenizer: Tokenizer, name: str, where: str) -> ExportedTokenizer:
    return ExportedTokenizer(transformers_files(tokenizer, special_names(tokenizer)), tokenizer.get_vocab_size())


def _vocab_txt(tokenizer: Tokenizer, name: str, where: str) -> ExportedTokenizer:
    parts, vocabulary = json.loads(tokenizer.to_str()), tokenizer.get_vocab(with_added_tokens=True)
    model, tokens = parts["model"], sorted(vocabulary, key=vocabulary.__getitem__)
    reason = None
    if model["type"] != "WordPiece":
        reason = f"it is for WordPiece, and the model is {model['type']}"
    elif (prefix := model["continuing_subword_prefix"]) != CONTINUING:
        reason = f"tokens within a word begin with {prefix!r}, not with {CONTINUING}"
    elif [vocabulary[token] for token in tokens] != list(range(len(tokens))):
        reason = "its ids are not 0, 1, 2, …"
    elif broken := [token for token in tokens if "\n" in token or "\r" in token]:
        reason = f"the token {broken[0]!r} would break its line"
    if reason is not None:
        hint = "tokenizer-json and transformers hold every tokenizer"
        raise ConfigError(f"vocab-txt cannot hold this tokenizer: {reason}", where=where, hint=hint)
    normalizer = parts["normalizer"] or {}
    if normalizer.get("type") == "BertNormalizer" and (parts["pre_tokenizer"] or {}).get("type") == "BertPreTokenizer":
        options = f"do_lower_case={bool(normalizer['lowercase'])}"
    else:
        options = "the normalizer and the pre-tokenizer of tokenizer.json: BERT's own cut text otherwise"
    note = f"the file holds tokens alone; read it with {options}"
    return ExportedTokenizer({name: "".join(f"{token}\n" for token in tokens).encode()}, len(tokens), [note])


FORMATS: dict[str, Callable[[Tokenizer, str, str], ExportedTokenizer]] = {
    "tokenizer-json": _tokenizer_json,
    "vocab-txt": _vocab_txt,
    "transformers": _transformers,
}
