"""The patterns that byte-level tokenizers cut text with, as tokenizers and tiktoken both read them."""

__all__ = ["CL100K", "GPT2", "KNOWN_PATTERNS", "O200K", "pattern_named_by"]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_NAMES = {
    "gpt2": GPT2, "r50k": GPT2, "p50k": GPT2, "cl100k": CL100K, "llama3": CL100K, "llama-3": CL100K, "o200k": O200K,
}  # fmt: skip

KNOWN_PATTERNS = frozenset(
    {
        GPT2, CL100K, O200K,
        CL100K.replace(r"\p{N}{1,3}", r"\p{N}"),  # Qwen
        " {2,}", r"(?<![ ▁])[ ▁]+\z|\A ",  # what conversion from sentencepiece puts there
    }
)  # fmt: skip


def pattern_named_by(name: str) -> str | None:
    """The pattern of a published vocabulary that the file name tells; None where it tells nothing."""
    return next((pattern for part, pattern in _NAMES.items() if part in name.lower()), None)
