"""The special tokens every tokenizer of ours has, in the order of their ids."""

__all__ = ["BOS", "CLS", "EOS", "MASK", "PAD", "SEP", "SPECIAL_TOKENS", "UNK"]

PAD, UNK, CLS, SEP, MASK, BOS, EOS = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK, BOS, EOS)
