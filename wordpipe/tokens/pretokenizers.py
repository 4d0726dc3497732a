"""Pre-tokenizers: named schemes of cutting and normalising text, in Hugging Face tokenizers and in our scanners.

`build_tokenizer` makes a tokenizer from a trained model and the settings; `scheme_of` reads a tokenizer's parts and says how
the compiled scanners do the same, or that they cannot.

Which of them suits a text depends on the scripts it is written in. Measured with 8,000 tokens on held-out sentences, bytes per
token of byte-level BPE: Thai 5.98 with `gpt2`, 7.58 with `digits`, 10.02 with `marks`; Hindi 3.92, 5.09, 9.58; in Japanese,
Chinese and English the three are within 2 % of each other. WordPiece behind the BERT pre-tokenizer takes whole Thai clauses
for words, and those of more than a hundred characters, 11 % of the text, for unknown ones; behind `gpt2` nothing is unknown.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import regex
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from wordpipe.tokens.settings import BYTE_LEVEL, TokenizeSettings
from wordpipe.tokens.vocabulary import CLS, CONTINUING, SEP, SPECIAL_TOKENS, spelled_bytes, template_of

if TYPE_CHECKING:
    import pyarrow as pa

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
MARKS = CL100K.replace(r"[^\r\n\p{L}\p{N}]?\p{L}+", r"[^\r\n\p{L}\p{M}\p{N}]?[\p{L}\p{M}]+").replace(
    r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{M}\p{N}]+"
)  # CL100K in which marks are letters: the vowel signs of Thai and Hindi stay in their words
CHARACTERS = r"[\s\S]"  # each by itself
KNOWN_PATTERNS = frozenset(
    {
        GPT2, CL100K, MARKS, O200K, CHARACTERS,
        CL100K.replace(r"\p{N}{1,3}", r"\p{N}"),  # Qwen
        " {2,}", r"(?<![ ▁])[ ▁]+\z|\A ",  # what conversion from sentencepiece puts there
    }
)  # fmt: skip


_PATTERNS = {"digits": CL100K, "marks": MARKS}
_STEPS = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "BertNormalizer"}  # what `RowNormalizer` can do


@dataclass(frozen=True)
class Scheme:
    """The way in which a tokenizer prepares and cuts text, in the terms of the compiled code.

    Attributes:
        pretokenizer: name of the scanner.
        byte_level: the model's letters are bytes.
        space: what every space becomes after normalization.
        prefix: what every row begins with, unless it is empty or begins so already.
    """

    pretokenizer: str
    byte_level: bool
    space: str = " "
    prefix: str = ""

    def letters(self, pretoken: bytes) -> str:
        """Return a pre-token in the letters of the model."""
        return spelled_bytes(pretoken) if self.byte_level else pretoken.decode()


def build_tokenizer(model: models.Model, settings: TokenizeSettings) -> Tokenizer:
    """Return a whole tokenizer around a trained model.

    The post-processor is that of encoders, `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]` with segments 0 and 1. `<s>` and `</s>`
    stand in the vocabulary, and the code that makes batches for a causal model adds both: a file has one template only.

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
    tokenizer.post_processor = template_of(tokenizer, CLS, SEP)
    return tokenizer


def empty_tokenizer(settings: TokenizeSettings) -> Tokenizer:
    """Return the tokenizer of the settings before it is trained: it normalises and cuts."""
    return build_tokenizer(models.BPE(), settings)


def _normalizers(settings: TokenizeSettings) -> list[normalizers.Normalizer]:
    """Return the steps of the normalizer.

    Folding case and taking off accents can leave text that is not in normal form (J̌ has no composed form, ǰ has one), so it is
    composed again behind them; that also puts Korean syllables together that were taken apart for their accents.
    """
    steps: list[normalizers.Normalizer] = []
    bert = settings.pretokenizer == "bert"
    # the normal form, then BERT's normalizer, or accents and case
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
    else:  # what BERT's normalizer does in one step
        if settings.strip_accents:
            steps += [normalizers.NFD(), normalizers.StripAccents()]
        if settings.lowercase:
            steps.append(normalizers.Lowercase())
    # composed again
    if settings.strip_accents or (settings.lowercase and settings.normalization != "none"):
        steps.append(normalizers.NFC())
    return steps


def _pre_tokenizer(name: str) -> pre_tokenizers.PreTokenizer:
    """Return the pre-tokenizer of Hugging Face for a named scheme."""
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
    """Return the decoder of a tokenizer; None puts a space between tokens, where these do not tell where spaces were."""
    wordpiece = isinstance(model, models.WordPiece)
    plain: dict[str, decoders.Decoder] = {
        **dict.fromkeys(BYTE_LEVEL, decoders.ByteLevel()),
        "metaspace": decoders.Metaspace(prepend_scheme="always"),
        "characters": decoders.Fuse(),
    }
    decoder = plain.get(name)
    if not wordpiece:
        return decoder
    if decoder is None:
        return decoders.WordPiece(prefix=CONTINUING)
    return decoders.Sequence([decoders.Replace(Regex(f"^{CONTINUING}"), ""), decoder])


def scheme_of(tokenizer: Tokenizer) -> Scheme | None:
    """Return the scheme by which the compiled code prepares and cuts text as a tokenizer does.

    Known are the tokenizers of `build_tokenizer`, and those of GPT-2, RoBERTa, Llama 3 and cl100k, BERT, ModernBERT and others
    with Metaspace.

    Returns:
        None if the scheme is not proven for every text: a part is unknown or has an unknown option.
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
    """Return the JSON of a part of a tokenizer."""
    state: dict[str, Any] | None = None if part is None else json.loads(part.__getstate__())
    return state


def _flat(state: dict[str, Any] | None, inner: str) -> list[dict[str, Any]]:
    """Return the steps of a pre-tokenizer or normalizer, with all sequences opened."""
    if state is None:
        return []
    if state["type"] != "Sequence":
        return [state]
    return [step for child in state[inner] for step in _flat(child, inner)]


def _single_scheme(part: dict[str, Any]) -> Scheme | None:
    """Return the scheme of a pre-tokenizer of one step."""
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
    """Return the scheme of a known pattern that is followed by letters for bytes."""
    letters = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    if parts[1] != {**letters, "trim_offsets": parts[1].get("trim_offsets")}:
        return None
    for name, pattern in _PATTERNS.items():
        if parts[0] == {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}:
            return Scheme(name, byte_level=True)
    return None


SCRIPTS = {
    "Chinese": r"\p{Han}",
    "Japanese": r"[\p{Hiragana}\p{Katakana}ー]",
    "Thai": r"\p{Thai}",
    "Lao": r"\p{Lao}",
    "Khmer": r"\p{Khmer}",
    "Burmese": r"\p{Myanmar}",
}  # scripts that mark no words with spaces
ANY_MARK = "marks"
_VOWEL_SIGNS = ("Thai", "Lao", "Khmer", "Burmese")
_EACH = {name: regex.compile(pattern) for name, pattern in (SCRIPTS | {ANY_MARK: r"\p{M}"}).items()}
_ANY_LETTER = regex.compile(r"[\p{L}\p{M}]")
_ENOUGH = 1 << 22  # characters
_NOTICEABLE = 0.02
_USUAL = {"bpe": "gpt2", "wordpiece": "bert", "unigram": "metaspace", "word": "whitespace", "char": "characters"}


def script_shares(texts: "Iterable[pa.Array]") -> dict[str, float]:
    """Return the share of each script without spaces in a text, by which a pre-tokenizer is chosen.

    Args:
        texts: arrays of strings, of which the first four million characters are looked at. Chinese characters among kana
            count as Japanese.
    """
    counts, letters, seen = dict.fromkeys(_EACH, 0), 0, 0
    for rows in texts:
        text = "\n".join(row for row in rows.to_pylist() if row is not None)[: _ENOUGH - seen]
        letters += len(_ANY_LETTER.findall(text))
        for name, pattern in _EACH.items():
            counts[name] += len(pattern.findall(text))
        seen += len(text)
        if seen >= _ENOUGH:
            break
    if counts["Japanese"] > counts["Chinese"] / 10:
        counts["Japanese"] += counts["Chinese"]
        counts["Chinese"] = 0
    return {name: count / max(1, letters) for name, count in counts.items()}


def resolve(settings: TokenizeSettings, shares: Mapping[str, float]) -> tuple[str, list[str]]:
    """Return the pre-tokenizer to use for settings and scripts, and warnings for the user.

    Args:
        settings: one that is named is taken; "auto" is decided here.
        shares: from `script_shares`.
    """
    auto = settings.pretokenizer == "auto"
    name = _chosen(settings.algorithm, shares) if auto else settings.pretokenizer
    warnings = []
    unspaced = [script for script in SCRIPTS if shares.get(script, 0) >= _NOTICEABLE]
    if unspaced and settings.algorithm in ("word", "wordpiece"):
        warnings.append(_about_words(settings.algorithm, name, unspaced))
    if shares.get(ANY_MARK, 0) >= _NOTICEABLE:
        if name in ("gpt2", "digits") and settings.algorithm in ("bpe", "unigram"):
            warnings.append(
                f"the pre-tokenizer {name} cuts words at vowel signs and other marks; --pretokenizer marks gives longer tokens"
            )
        if settings.strip_accents:
            warnings.append("in scripts that write vowels as marks, --strip-accents also removes the vowel signs")
    return name, warnings


def _chosen(algorithm: str, shares: Mapping[str, float]) -> str:
    """Return the pre-tokenizer that `auto` means for an algorithm and the scripts of a text."""
    if algorithm == "bpe" and shares.get(ANY_MARK, 0) >= _NOTICEABLE:
        return "marks"
    if algorithm == "wordpiece" and any(shares.get(script, 0) >= _NOTICEABLE for script in _VOWEL_SIGNS):
        return "gpt2"
    return _USUAL[algorithm]


def _about_words(algorithm: str, name: str, scripts: list[str]) -> str:
    """Return a warning about a pre-tokenizer for text without spaces."""
    if algorithm == "word":
        fate = "each clause is treated as one word; bpe and unigram find shorter units"
    elif name == "gpt2":
        fate = "words are cut at vowel signs, so a clause never becomes one unknown token; bpe and unigram find longer tokens"
    elif scripts == ["Chinese"]:
        fate = "every Chinese character becomes a separate token; bpe and unigram find longer tokens"
    else:
        fate = (
            "clauses of more than 100 characters become unknown tokens; bpe and unigram have tokens for all characters"
        )
    return (
        f"{', '.join(scripts)} text has no spaces between words; with {algorithm} and the pre-tokenizer {name}, {fate}"
    )
