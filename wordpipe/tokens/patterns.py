"""The patterns that byte-level tokenizers cut text with, as tokenizers and tiktoken both read them."""

__all__ = ["CHARACTERS", "CL100K", "GPT2", "KNOWN_PATTERNS", "MARKS", "O200K"]

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
