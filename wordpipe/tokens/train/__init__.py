"""Training a tokenizer from counted pre-tokens."""
