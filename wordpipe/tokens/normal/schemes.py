"""What the named ways of cutting and normalising text are in Hugging Face tokenizers, and which of them a tokenizer uses.

`build_tokenizer` makes a tokenizer from a trained model and the settings; `scheme_of` reads a tokenizer's parts and says how
the compiled scanners do the same, or that they cannot.
"""

import json
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from wordpipe.tokens.letters import byte_letters
from wordpipe.tokens.normal.scripts import resolve
from wordpipe.tokens.patterns import CHARACTERS, CL100K, MARKS
from wordpipe.tokens.settings import TokenizeSettings
from wordpipe.tokens.special import CLS, SEP, SPECIAL_TOKENS

__all__ = [
    "Scheme",
    "build_tokenizer",
    "empty_tokenizer",
    "is_byte_level",
    "resolve",
    "scheme_of",
]

_BYTE_LEVEL = ("gpt2", "digits", "marks")
_PATTERNS = {"digits": CL100K, "marks": MARKS}
_CONTINUING = "##"
_LETTERS = str.maketrans(dict(enumerate(byte_letters())))
_STEPS = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "BertNormalizer"}  # what `Normaliser` can do


@dataclass(frozen=True)
class Scheme:
    """How a tokenizer's text is made ready and cut, in the terms of the compiled code.

    Attributes:
        pretokenizer: name of the scanner.
        byte_level: the model's letters stand for bytes.
        space: what every space becomes after normalization.
        prefix: what every row begins with, unless it is empty or begins so already.
    """

    pretokenizer: str
    byte_level: bool
    space: str = " "
    prefix: str = ""

    def letters(self, pretoken: bytes) -> str:
        """A pre-token as the model sees it."""
        return pretoken.decode("latin-1").translate(_LETTERS) if self.byte_level else pretoken.decode()


def is_byte_level(settings: TokenizeSettings) -> bool:
    """Whether the model's letters stand for bytes."""
    return settings.pretokenizer in _BYTE_LEVEL


def build_tokenizer(model: models.Model, settings: TokenizeSettings) -> Tokenizer:
    """A whole tokenizer around a trained model.

    The post-processor is that of encoders, `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]` with segments 0 and 1. `<s>` and `</s>`
    stand in the vocabulary, and whoever makes batches for a causal model puts them there: a file has one template only.

    Args:
        model: its vocabulary has the special tokens; those that it lacks are added behind it.
        settings: with a pre-tokenizer chosen, not "auto".
    """
    tokenizer = Tokenizer(model)
    steps = _normalizers(settings)
    if steps:
        tokenizer.normalizer = steps[0] if len(steps) == 1 else normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = _pre_tokenizer(settings.pretokenizer)
    decoder = _decoder(settings.pretokenizer, model)
    if decoder is not None:
        tokenizer.decoder = decoder
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (CLS, SEP)],
    )
    return tokenizer


def empty_tokenizer(settings: TokenizeSettings) -> Tokenizer:
    """The tokenizer of the settings before it is trained: it normalises and cuts."""
    return build_tokenizer(models.BPE(), settings)


def _normalizers(settings: TokenizeSettings) -> list[normalizers.Normalizer]:
    """The steps of the normalizer.

    Folding case and taking off accents can leave text that is not in normal form (J̌ has no composed form, ǰ has one), so it is
    composed again behind them; that also puts Korean syllables together that were taken apart for their accents.
    """
    steps: list[normalizers.Normalizer] = []
    bert = settings.pretokenizer == "bert"
    if settings.normalization != "none":
        steps.append(normalizers.NFC() if settings.normalization == "nfc" else normalizers.NFKC())
    if bert:
        steps.append(
            normalizers.BertNormalizer(
                clean_text=True,
                handle_chinese_chars=True,
                strip_accents=settings.strip_accents,
                lowercase=settings.lowercase,
            )
        )
    else:
        if settings.strip_accents:
            steps += [normalizers.NFD(), normalizers.StripAccents()]
        if settings.lowercase:
            steps.append(normalizers.Lowercase())
    if settings.strip_accents or (settings.lowercase and settings.normalization != "none"):
        steps.append(normalizers.NFC())
    return steps


def _pre_tokenizer(name: str) -> pre_tokenizers.PreTokenizer:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name == "gpt2")
    made: dict[str, pre_tokenizers.PreTokenizer] = {
        "gpt2": byte_level,
        "digits": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CL100K), "isolated"), byte_level]),
        "marks": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(MARKS), "isolated"), byte_level]),
        "bert": pre_tokenizers.BertPreTokenizer(),
        "whitespace": pre_tokenizers.Whitespace(),
        "metaspace": pre_tokenizers.Metaspace(prepend_scheme="always"),
        "characters": pre_tokenizers.Split(Regex(CHARACTERS), "isolated"),
    }
    return made[name]


def _decoder(name: str, model: models.Model) -> decoders.Decoder | None:
    """What turns tokens into text again; None puts spaces between them, where the tokens do not tell where spaces were."""
    wordpiece = isinstance(model, models.WordPiece)
    plain: dict[str, decoders.Decoder] = {
        **dict.fromkeys(_BYTE_LEVEL, decoders.ByteLevel()),
        "metaspace": decoders.Metaspace(prepend_scheme="always"),
        "characters": decoders.Fuse(),
    }
    decoder = plain.get(name)
    if not wordpiece:
        return decoder
    if decoder is None:
        return decoders.WordPiece(prefix=_CONTINUING)
    return decoders.Sequence([decoders.Replace(Regex(f"^{_CONTINUING}"), ""), decoder])


def scheme_of(tokenizer: Tokenizer) -> Scheme | None:
    """How the compiled code does what a tokenizer does with text before its model sees it.

    Known are the tokenizers of `build_tokenizer`, and those of GPT-2, RoBERTa, Llama 3 and cl100k, BERT, ModernBERT and such
    with Metaspace.

    Returns:
        None if that is not proven for every text: a part is unknown or has an option that is.
    """
    parts: dict[str, Any] = {
        "normalizer": _state(tokenizer.normalizer),
        "pre_tokenizer": _state(tokenizer.pre_tokenizer),
    }
    steps = _flat(parts["normalizer"], "normalizers")
    if any(step["type"] not in _STEPS for step in steps):
        return None
    cutting = _flat(parts["pre_tokenizer"], "pretokenizers")
    scheme = _split_scheme(cutting) if len(cutting) == 2 else _single_scheme(cutting[0]) if len(cutting) == 1 else None
    if scheme is not None and steps and cutting[0].get("prepend_scheme") == "first":
        return None  # nothing is prepended where the normalizer took off the first character
    return scheme


def _state(part: Any) -> dict[str, Any] | None:
    """The JSON of a part of a tokenizer."""
    state: dict[str, Any] | None = None if part is None else json.loads(part.__getstate__())
    return state


def _flat(state: dict[str, Any] | None, inner: str) -> list[dict[str, Any]]:
    """The steps of a part, sequences in it opened."""
    if state is None:
        return []
    if state["type"] != "Sequence":
        return [state]
    return [step for child in state[inner] for step in _flat(child, inner)]


def _single_scheme(part: dict[str, Any]) -> Scheme | None:
    options = {
        name: value for name, value in part.items() if name not in ("type", "trim_offsets")
    }  # offsets are not used
    match part["type"]:
        case "ByteLevel" if options.keys() == {"add_prefix_space", "use_regex"} and options["use_regex"]:
            return Scheme("gpt2", byte_level=True, prefix=" " if options["add_prefix_space"] else "")
        case "BertPreTokenizer" if not options:
            return Scheme("bert", byte_level=False)
        case "Whitespace" if not options:
            return Scheme("whitespace", byte_level=False)
        case "WhitespaceSplit" if not options:
            return Scheme("whitespace-split", byte_level=False)
        case "Metaspace" if options.keys() == {"replacement", "prepend_scheme", "split"}:
            if options["replacement"] != "▁" or not options["split"]:
                return None
            return Scheme("metaspace", False, "▁", "" if options["prepend_scheme"] == "never" else "▁")
        case "Split" if options == {"pattern": {"Regex": CHARACTERS}, "behavior": "Isolated", "invert": False}:
            return Scheme("characters", byte_level=False)
    return None


def _split_scheme(parts: list[dict[str, Any]]) -> Scheme | None:
    """A pattern that is known, then letters for bytes."""
    letters = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    if parts[1] != {**letters, "trim_offsets": parts[1].get("trim_offsets")}:
        return None
    for name, pattern in _PATTERNS.items():
        if parts[0] == {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}:
            return Scheme(name, byte_level=True)
    return None
