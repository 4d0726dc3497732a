"""The files with which transformers' `AutoTokenizer` loads a tokenizer from a folder."""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer, processors

from wordpipe.errors import ArtifactError, InputError
from wordpipe.tokens.formats.foreign import open_tokenizer

__all__ = ["framed_tokenizer", "special_names", "transformers_files"]

_NAMES = {
    "pad": ("[PAD]", "<pad>", "<|pad|>"),
    "cls": ("[CLS]",),
    "sep": ("[SEP]",),
    "mask": ("[MASK]", "<mask>"),
    "bos": ("<s>", "<bos>", "<|startoftext|>", "<|begin_of_text|>"),
    "eos": ("</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>"),
    "unk": ("[UNK]", "<unk>"),
}


def special_names(tokenizer: Tokenizer) -> dict[str, str]:
    """Role (pad, cls, sep, mask, bos, eos, unk) → the special token that plays it, for the names that are usual."""
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
    usual = ((role, next((name for name in names if name in added), None)) for role, names in _NAMES.items())
    found = {role: name for role, name in usual if name is not None}
    unknown = getattr(tokenizer.model, "unk_token", None)
    return found | ({"unk": unknown} if unknown and tokenizer.token_to_id(unknown) is not None else {})


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
    tokenizer.post_processor = _framing(tokenizer, names, causal=causal)
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


def _framing(tokenizer: Tokenizer, names: Mapping[str, str], *, causal: bool) -> Any:
    opening = "bos" if causal else "cls"
    used = [role for role in (opening, *(() if causal else ("sep",))) if role in names]
    before = [names[opening]] if opening in names else []
    after, after_pair = ([names["sep"]], [f"{names['sep']}:1"]) if "sep" in used else ([], [])
    return processors.TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *after, "$B:1", *after_pair],
        special_tokens=[(names[role], tokenizer.token_to_id(names[role])) for role in used],
    )


def _json(values: Mapping[str, Any]) -> bytes:
    return f"{json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False)}\n".encode()
