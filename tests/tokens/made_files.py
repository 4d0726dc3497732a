"""The old place of what `tests.support.tokenizer_files` has, for tests that still look here."""

from tests.support.tokenizer_files import tiktoken_ids

__all__ = ["tiktoken_ids"]
