"""Names of other programs for our settings and commands: gensim, fastText, transformers, tokenizers, faiss, scikit-learn.

A name of another program is answered with ours; any other unknown name with names of similar spelling. A name of ours never
stands here as another's: settings of several commands may share a name, and the first that the command has is meant.
"""

import re
from collections.abc import Callable, Collection
from difflib import SequenceMatcher

COMMANDS = {
    "ask": "query", "find": "query", "dedupe": "duplicates", "inspect": "show", "info": "show",
}  # fmt: skip
"""What other programs call a command → ours."""

_CALLED = {
    "loss": "hs",
    "negatives": "hs negative neg",
    "lr": "alpha start_alpha learning_rate",
    "weight": "alpha",
    "epochs": "iter iterations epoch num_train_epochs num_epochs n_epochs max_iter",
    "steps": "iterations max_steps num_steps train_steps max_iter",
    "embedding_dim": "embedding_size",
    "dims": "truncate_dim n_components",
    "components": "n_components",
    "dim": "vector_size size hidden_size hidden_dim d_model n_embd embed_dim embedding_size truncate_dim",
    "max_tokens": "max_length max_new_tokens",
    "seq_len": "max_position_embeddings n_positions n_ctx max_seq_length max_seq_len model_max_length block_size "
        "context_length max_length max_source_length",
    "longest": "max_position_embeddings n_positions n_ctx max_seq_length max_seq_len model_max_length block_size "
        "context_length max_length max_source_length",
    "window": "ws window_size sliding_window max_position_embeddings n_positions n_ctx max_seq_length max_seq_len "
        "model_max_length block_size context_length max_length max_source_length",
    "max_words": "max_position_embeddings n_positions n_ctx max_seq_length max_seq_len model_max_length block_size "
        "context_length max_length max_source_length",
    "top_k": "topk",
    "min_lr": "min_alpha end_alpha",
    "min_lr_frac": "min_alpha end_alpha",
    "vocab_size": "vocabulary_size max_vocab_size",
    "min_frequency": "min_freq",
    "min_count": "mincount max_final_vocab max_vocab_size min_freq",
    "eval_every": "eval_steps",
    "evaluations": "eval_steps",
    "batch_size": "per_device_train_batch_size per_gpu_train_batch_size train_batch_size batch bs",
    "batch_tokens": "batch_size per_device_train_batch_size per_gpu_train_batch_size train_batch_size batch bs",
    "samples": "num_return_sequences n_samples",
    "n_best": "n_best_size num_return_sequences",
    "threads": "thread workers n_jobs num_threads num_workers num_proc dataloader_num_workers",
    "workers": "thread workers n_jobs num_threads num_workers num_proc dataloader_num_workers",
    "architecture": "sg",
    "subsample": "sample t",
    "min_n": "minn",
    "max_n": "maxn",
    "max_ngrams": "bucket",
    "dynamic_window": "shrink_windows",
    "init": "pretrained_vectors model_name_or_path pretrained",
    "seed": "random_state random_seed",
    "n_layers": "num_hidden_layers num_layers n_layer layers depth",
    "n_heads": "num_attention_heads num_heads n_head heads",
    "n_kv_heads": "num_key_value_heads",
    "ffn_dim": "intermediate_size d_ff n_inner",
    "n_decoder_layers": "num_decoder_layers decoder_layers",
    "feedforward": "hidden_act activation activation_function",
    "positions": "position_embedding_type",
    "tied": "tie_word_embeddings",
    "dropout": "hidden_dropout_prob attention_probs_dropout_prob dropout_rate",
    "micro_batch": "gradient_accumulation_steps",
    "warmup": "warmup_steps warmup_ratio",
    "schedule": "lr_scheduler_type lr_scheduler scheduler",
    "optimiser": "optim optimizer",
    "beta1": "adam_beta1",
    "beta2": "adam_beta2",
    "clip": "max_grad_norm grad_clip",
    "weight_decay": "wd",
    "label_smoothing": "label_smoothing_factor",
    "mask_rate": "mlm_probability mask_prob mask_probability",
    "mask_unit": "whole_word_masking",
    "dtype": "fp16 bf16 torch_dtype precision",
    "compile": "torch_compile",
    "recompute": "gradient_checkpointing",
    "checkpoint_steps": "save_steps",
    "report_every": "logging_steps",
    "patience": "early_stopping_patience",
    "device": "no_cuda use_cpu gpu cuda",
    "extend": "resume_from_checkpoint",
    "noise": "noise_density",
    "mean_span": "mean_noise_span_length",
    "prefix": "source_prefix",
    "output": "output_dir",
    "stride": "doc_stride",
    "max_answer": "max_answer_length",
    "max_query": "max_query_length",
    "min_tokens": "min_new_tokens min_length",
    "beams": "num_beams beam_size",
    "temperature": "do_sample scale",
    "no_repeat_ngram": "no_repeat_ngram_size",
    "stop": "stop_strings stop_sequences",
    "k": "topk n_clusters num_clusters n_neighbors top_k top_n topn limit n_results count number top",
    "algorithm": "model_type",
    "pretokenizer": "pre_tokenizer",
    "normalization": "normalizer normalization_rule_name",
    "lowercase": "do_lower_case lower",
    "max_sentence_chars": "max_sentence_length",
    "pooling": "pooling_mode",
    "type": "index_type index_factory",
    "hnsw_m": "m",
    "where": "filter filters",
    "min_score": "threshold score_threshold",
    "mode": "search_type",
    "test": "test_size",
    "valid": "validation_split dev",
    "text_field": "text_column",
    "label_field": "label_column",
    "id_field": "id_column",
    "language": "stemmer lang",
}  # fmt: skip
"""One of our settings → what other programs call it; where several may be meant, the first that a command has."""
SETTINGS: dict[str, list[str]] = {}
for _ours, _theirs in _CALLED.items():
    for _name in _theirs.split():
        SETTINGS.setdefault(_name, []).append(_ours)
"""What other programs call a setting → our settings."""

_NOTES = {
    "sg": "sg = 1 is skipgram, sg = 0 is cbow",
    "hs": "instead of hs = 1, use loss = hs; instead of hs = 0, use loss = ns and set negatives",
    "scale": "the temperature is 1 / scale",
    "gradient_accumulation_steps": "batch_size = sequences per step; micro_batch = sequences that are computed together",
    "do_sample": "with temperature = 0, the most probable token is always chosen",
    "warmup_ratio": "a value below 1 is a fraction of all steps; a value of 1 or more is a number of steps",
    "no_cuda": "device = cpu", "use_cpu": "device = cpu", "gpu": "device = cuda", "cuda": "device = cuda",
    "fp16": "dtype = float16", "bf16": "dtype = bfloat16", "whole_word_masking": "mask_unit = word",
}  # fmt: skip
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LIKE, _VERY_LIKE = 0.65, 0.8  # of spellings; less is a guess that leads nowhere ("seed" for size)


def meant(name: str, known: Collection[str]) -> list[str]:
    """Return the settings that an unknown name may mean, the likeliest first: by other programs' names, else by spelling.

    >>> meant("vector_size", ["seed", "dim", "vectors"]), meant("minCount", ["min_n", "min_count"])
    (['dim'], ['min_count'])
    >>> meant("windwo", ["window", "workers"]), meant("size", ["seed", "tied"])
    (['window'], [])
    """
    plain = _plain(name)
    if plain in known:
        return [plain]
    if ours := [one for one in SETTINGS.get(plain, ()) if one in known]:
        return ours if plain in _NOTES else ours[:1]
    likeness = {one: SequenceMatcher(None, one.lower(), plain).ratio() for one in known}
    near = [
        one for one, ratio in likeness.items() if ratio >= _VERY_LIKE or (ratio >= _LIKE and one[:1].lower() == plain[:1])
    ]  # fmt: skip
    return sorted(near, key=lambda one: -likeness[one])[:3]


def did_you_mean(name: str, known: Collection[str], shown: Callable[[str], str] = str) -> str:
    """Return the question that names our setting for another program's name; "" without a suggestion.

    Args:
        name: what was said.
        known: our names.
        shown: one of our names → how it is said where it is given (`--dim`).

    >>> did_you_mean("sg", ["architecture", "dim"])
    'did you mean architecture? (sg = 1 is skipgram, sg = 0 is cbow)'
    """
    found = meant(name, known)
    if not found:
        return ""
    note = _NOTES.get(_plain(name), "")
    return f"did you mean {', '.join(map(shown, found))}?" + (f" ({note})" if note else "")


def _plain(name: str) -> str:
    """Return a name in the spelling of the table of names: minCount as min_count."""
    return _CAMEL.sub("_", name[:100]).lower().replace("-", "_")
