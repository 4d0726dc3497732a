"""Reading: a `tokenizer.json` or a folder of transformers becomes one `tokenizers.Tokenizer`.

What cannot be converted so that the ids stay the same is refused, with the reason.

An exception of a library over a file of another program becomes an error that names the file. The older files of a
transformers folder (vocab.txt, or vocab.json with merges.txt) hold tokens alone; how text is cut is code of the class that
`tokenizer_config.json` names, so only the classes of BERT, GPT-2 and RoBERTa are read from these files.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from wordpipe.artifacts import parse_json, read_regular_file
from wordpipe.errors import InputError, WordpipeError
from wordpipe.tokens.vocabulary import (
    CLS,
    CONTINUING,
    MASK,
    PAD,
    SEP,
    UNK,
    USUAL_NAMES,
    check_ids,
    json_texts,
    template_of,
)

_LARGEST = 1 << 30  # bytes; the largest vocabularies in use take some 40 MB


@contextmanager
def library_errors(what: str, where: str) -> Iterator[None]:
    """Turn every exception of the library tokenizers in the block into an error about the file.

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


def read_json(data: bytes, where: str) -> dict[str, Any]:
    """Return the JSON object of a tokenizer's file.

    Raises:
        InputError: not JSON, or not an object.
    """
    value = parse_json(data, where, what="not a JSON file", error=InputError)
    if not isinstance(value, dict):
        raise InputError(
            "the file does not contain a JSON object", where=where, got=type(value).__name__, expected="a JSON object"
        )
    return value


def read_file(path: Path) -> bytes:
    """Return the bytes of a tokenizer's file, if it is of reasonable size.

    Raises:
        InputError: not there, not a file, or larger than any tokenizer.
    """
    return read_regular_file(path, _LARGEST, what="a tokenizer")


def open_tokenizer(data: bytes, *, where: str) -> Tokenizer:
    """Load a `tokenizer.json`, with truncation and padding switched off: nothing is cut in silence.

    Raises:
        InputError: not a tokenizer.
    """
    with library_errors("the tokenizers library cannot read this tokenizer.json", where):
        tokenizer = Tokenizer.from_str(data.decode())
        tokenizer.no_truncation()
        tokenizer.no_padding()
    return tokenizer


CONVERTER = "create a tokenizer.json with transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OUT)"

_BERT = ("Bert", "DistilBert", "Electra", "MobileBert", "LayoutLM")
_GPT2 = ("GPT2",)
_ROBERTA = ("Roberta", "Bart", "Longformer", "LED")
_GENERAL = ("PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend")
_BERT_NAMES = {"unk": UNK, "pad": PAD, "cls": CLS, "sep": SEP, "mask": MASK}
_ROBERTA_NAMES = {
    "bos": "<s>",
    "eos": "</s>",
    "cls": "<s>",
    "sep": "</s>",
    "unk": "<unk>",
    "pad": "<pad>",
    "mask": "<mask>",
}
_GPT2_NAMES = {"unk": "<|endoftext|>", "bos": "<|endoftext|>", "eos": "<|endoftext|>"}


def read_folder(path: Path, warn: Callable[[str], None]) -> Tokenizer:
    """Return the tokenizer of a transformers folder.

    Args:
        path: the folder.
        warn: called with what was assumed.

    Raises:
        InputError: no tokenizer there, one of a class that is not known, or damaged files.
    """
    config = {**_optional(path / "special_tokens_map.json"), **_optional(path / "tokenizer_config.json")}
    if (path / "tokenizer.json").is_file():
        tokenizer = open_tokenizer(read_file(path / "tokenizer.json"), where=str(path / "tokenizer.json"))
    elif (path / "vocab.txt").is_file():
        tokenizer = _bert(path, config, warn)
    elif (path / "vocab.json").is_file() and (path / "merges.txt").is_file():
        tokenizer = _byte_level(path, config)
    else:
        raise _nothing_there(path)
    _add_tokens(tokenizer, path, config)
    return tokenizer


def _nothing_there(path: Path) -> InputError:
    """Return the error for a folder without a tokenizer."""
    found = [file.name for pattern in ("*.model", "*.tiktoken") for file in path.glob(pattern)]
    expected = "tokenizer.json, or vocab.txt, or vocab.json with merges.txt"
    return InputError(
        "the folder contains no tokenizer", where=path, got=", ".join(sorted(found)) or None, expected=expected,
        hint=CONVERTER if found else None,
    )  # fmt: skip


def _bert(path: Path, config: Mapping[str, Any], warn: Callable[[str], None]) -> Tokenizer:
    """Return the WordPiece tokenizer of a folder with vocab.txt: BERT and its relatives."""
    # the vocabulary, with the special tokens that BERT needs
    where = str(path / "vocab.txt")
    _known_class(path, config, _BERT)
    names = _BERT_NAMES | named_tokens(config)
    vocabulary = _lines_of_vocabulary(read_file(path / "vocab.txt"), where, warn)
    for role in ("unk", "cls", "sep"):
        if names[role] not in vocabulary:
            raise InputError(f"the vocabulary has no {role} token", where=where, expected=names[role])
    # whether case is folded: as the folder says, else as the vocabulary looks
    lowercase = config.get("do_lower_case")
    if lowercase is None:
        special = set(names.values())
        lowercase = all(
            token == token.lower() for token in vocabulary if token not in special and token[:7] != "[unused"
        )
        case = (
            "text is lower-cased, because the vocabulary has no upper-case letters"
            if lowercase
            else "text is not lower-cased, because the vocabulary has upper-case letters"
        )
        warn(f"{where}: the files do not say whether to lower-case text; {case}")
    # the parts of BERT's tokenizer
    with library_errors("the tokenizers library cannot use these files", str(path)):
        tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=names["unk"], max_input_chars_per_word=100))
        tokenizer.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=bool(config.get("tokenize_chinese_chars", True)),
            strip_accents=config.get("strip_accents"),
            lowercase=bool(lowercase),
        )
        # cut, put together again, framed
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece(prefix=CONTINUING)
        tokenizer.post_processor = template_of(tokenizer, names["cls"], names["sep"])
        _mark_special(tokenizer, names, vocabulary)
    return tokenizer


def _byte_level(path: Path, config: Mapping[str, Any]) -> Tokenizer:
    """Return the byte-level BPE tokenizer of a folder with vocab.json and merges.txt: GPT-2, RoBERTa."""
    where = str(path / "vocab.json")
    family = _known_class(path, config, (*_GPT2, *_ROBERTA))
    vocabulary = read_json(read_file(path / "vocab.json"), where)
    is_roberta = family in _ROBERTA or (not family and "<mask>" in vocabulary)
    names = (_ROBERTA_NAMES if is_roberta else _GPT2_NAMES) | named_tokens(config)
    if wrong := [
        token for token, number in vocabulary.items() if not isinstance(number, int) or not 0 <= number < 1 << 31
    ]:
        raise InputError("a token has no valid id", where=where, got=f"{wrong[0]!r}: {vocabulary[wrong[0]]!r}")
    merges = list(_lines_of_merges(read_file(path / "merges.txt"), str(path / "merges.txt")))
    prefix = bool(config.get("add_prefix_space", False))
    with library_errors("the tokenizers library cannot use these files", str(path)):
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, fuse_unk=False))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
        tokenizer.decoder = decoders.ByteLevel()
        if is_roberta and names["cls"] in vocabulary and names["sep"] in vocabulary:
            sep, cls = ((names[role], vocabulary[names[role]]) for role in ("sep", "cls"))
            tokenizer.post_processor = processors.RobertaProcessing(sep, cls, add_prefix_space=prefix)
        _mark_special(tokenizer, names, vocabulary)
    return tokenizer


def _mark_special(tokenizer: Tokenizer, names: Mapping[str, str], vocabulary: Mapping[str, int]) -> None:
    """Mark the special tokens of the vocabulary, in the order of their ids; a missing default of the class is not added."""
    there = sorted({token for token in names.values() if token in vocabulary}, key=vocabulary.__getitem__)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in there])


def _known_class(path: Path, config: Mapping[str, Any], known: tuple[str, ...]) -> str:
    """Return the model family that the class of the tokenizer names; "" where it names none."""
    name = str(config.get("tokenizer_class") or "")
    family = "" if name in _GENERAL else name.removesuffix("Fast").removesuffix("Tokenizer")
    if family not in ("", *known):
        raise InputError(
            "these files do not fully define this class of tokenizer",
            where=path / "tokenizer_config.json",
            got=name,
            expected=", ".join(f"{part}Tokenizer" for part in known),
            hint=CONVERTER,
        )
    return family


def named_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the special tokens that the folder names, by role."""
    found = {role: _content(config.get(f"{role}_token")) for role in USUAL_NAMES}
    return {role: token for role, token in found.items() if token}


def _content(value: Any) -> str:
    """Return the text of a token in a config of transformers."""
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def _lines_of_vocabulary(data: bytes, where: str, warn: Callable[[str], None]) -> dict[str, int]:
    """Return token → id from the lines of vocab.txt."""
    lines = _text(data, where).split("\n")
    if lines[-1] == "":
        lines.pop()
    vocabulary: dict[str, int] = {}
    for number, line in enumerate(lines):
        token = line.removesuffix("\r")
        if token in vocabulary:
            warn(f"{where}:{number + 1}: the token {token!r} occurs twice; its later id is used")
        vocabulary[token] = number
    return vocabulary


def _lines_of_merges(data: bytes, where: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of merges.txt."""
    for number, line in enumerate(_text(data, where).split("\n"), 1):
        left, parted, right = line.removesuffix("\r").partition(" ")
        if not left + right or (number == 1 and left == "#version:"):
            continue
        if not (left and parted and right) or " " in right:
            raise InputError(
                "this line is not a merge",
                where=f"{where}:{number}",
                got=repr(line[:80]),
                expected="two tokens, separated by a space",
            )
        yield left, right


def _text(data: bytes, where: str) -> str:
    """Return the UTF-8 text of a tokenizer's file."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8", where=where, got=error) from None


def _optional(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file that a tokenizer's folder may lack."""
    return read_json(read_file(path), str(path)) if path.is_file() else {}


def _add_tokens(tokenizer: Tokenizer, path: Path, config: Mapping[str, Any]) -> None:
    """Add the tokens beside the vocabulary; each must get the id that the folder gives."""
    for where, number, token in sorted(_beside(path, config), key=lambda found: found[1]):
        with library_errors("the tokenizers library cannot add this token", where):
            if tokenizer.token_to_id(token.content) is None:
                (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
        if (got := tokenizer.token_to_id(token.content)) != number:
            raise InputError(
                f"the token {token.content!r} gets a different id than the folder gives", where=where, got=got,
                expected=number, hint="the files in the folder belong to different tokenizers",
            )  # fmt: skip


def _beside(path: Path, config: Mapping[str, Any]) -> Iterator[tuple[str, int, AddedToken]]:
    """Yield file, id and token of each added token that a folder to read names."""
    where = str(path / "added_tokens.json")
    for content, number in _optional(path / "added_tokens.json").items():
        if not content or not isinstance(number, int):
            raise InputError("the entry is not a token with its id", where=where, got=f"{content!r}: {number!r}")
        yield where, number, AddedToken(content, normalized=False)
    where = str(path / "tokenizer_config.json")
    entries = config.get("added_tokens_decoder") or {}
    for number, entry in entries.items() if isinstance(entries, dict) else ():
        if not str(number).isdecimal() or not _content(entry):
            raise InputError("not an added token", where=where, got=f"{number!r}: {entry!r}"[:120])
        flags = {flag: bool(entry.get(flag)) for flag in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        yield where, int(number), AddedToken(_content(entry), **flags)


_TAKEN = "a tokenizer.json or a transformers folder"
# a protobuf whose first field is a piece that begins with its text; a token in base64 and its rank
_SENTENCEPIECE, _TIKTOKEN = re.compile(rb"\n[\x03-\x7f]\n"), re.compile(rb"[A-Za-z0-9+/]+={0,2} \d+\r?(\n|\Z)")


def read_tokenizer(path: Path, *, warn: Callable[[str], None] | None = None) -> Tokenizer:
    """Read a tokenizer, with truncation and padding switched off: nothing is cut in silence.

    Args:
        path: a tokenizer.json or a transformers folder.
        warn: called with what was assumed, a line each.

    Raises:
        InputError: missing, damaged, or not to be converted exactly.
    """
    warn = warn or (lambda _: None)
    if path.is_dir():
        return _checked(read_folder(path, warn), path, warn)
    if not path.is_file():
        raise InputError("the tokenizer does not exist", where=path, expected=_TAKEN)
    data = read_file(path)
    if data.lstrip()[:1] != b"{":
        raise _unknown(path, data)
    return _checked(open_tokenizer(data, where=str(path)), path, warn)


def _unknown(path: Path, data: bytes) -> InputError:
    """Return the error for a tokenizer file in another format; it names the program that converts the file."""
    if path.suffix == ".tiktoken" or _TIKTOKEN.match(data):
        return InputError(
            "this is a tiktoken file: convert it with transformers first", where=path, expected=_TAKEN,
            hint=f"from transformers.convert_slow_tokenizer import TikTokenConverter; "
            f"TikTokenConverter({path.name!r}, pattern=…, extra_special_tokens=[…]).converted().save('tokenizer.json')",
        )  # fmt: skip
    if path.suffix in (".model", ".spm") or _SENTENCEPIECE.match(data):
        return InputError(
            "this is a sentencepiece model: convert it with transformers first",
            where=path,
            expected=_TAKEN,
            hint=CONVERTER,
        )
    hint = f"give the folder instead: {path.parent}" if path.name in ("vocab.txt", "vocab.json", "merges.txt") else None
    return InputError("unknown tokenizer format", where=path, expected=_TAKEN, hint=hint)


def _checked(tokenizer: Tokenizer, path: Path, warn: Callable[[str], None]) -> Tokenizer:
    """Return the tokenizer that was read; refuse no tokens or too large ids, warn of slow patterns."""
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    if not vocabulary:
        raise InputError("the tokenizer has no tokens", where=path)
    check_ids(vocabulary, path, InputError)
    parts = json.loads(tokenizer.to_str())
    patterns = set(json_texts([parts.get("pre_tokenizer"), parts.get("normalizer")], "Regex"))
    for pattern in sorted(filter(_may_explode, patterns)):
        warn(f"{path}: wordpipe does not know the pattern {pattern!r}; cutting some texts with it may take very long")
    return tokenizer


def _may_explode(pattern: str) -> bool:
    """True if an unknown pattern repeats anything: without repetition the time is bounded by the pattern's length."""
    from wordpipe.tokens.pretokenizers import KNOWN_PATTERNS  # not above: a query opens a tokenizer without it

    return pattern not in KNOWN_PATTERNS and re.search(r"[*+{]", re.sub(r"\\.", "", pattern)) is not None
