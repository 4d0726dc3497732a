"""The tokenizer's files in a model's folder, so that `AutoTokenizer` loads them and adds what the model was trained with."""

import json
from typing import Any

from wordpipe.errors import ArtifactError
from wordpipe.model.config import ModelConfig

__all__ = ["tokenizer_files"]

_ROLES = ("pad", "bos", "eos", "cls", "sep", "mask")


def tokenizer_files(tokenizer_json: bytes, config: ModelConfig, *, unk_id: int | None = None) -> dict[str, bytes]:
    """`tokenizer.json`, `tokenizer_config.json` and `special_tokens_map.json` for a model's folder.

    The tokenizer is the same but for its post-processor, which adds what each training sequence had: [CLS] text [SEP]
    for an encoder, <s> text for a decoder.

    Args:
        tokenizer_json: a Hugging Face tokenizer.
        config: the model; its special ids name the tokens.
        unk_id: the token for what the tokenizer does not know, if there is one.

    Raises:
        ArtifactError: the tokenizer cannot be read, lacks one of the model's special ids, or has more tokens than the
            model has embeddings.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(tokenizer_json.decode())
    except Exception as error:  # noqa: BLE001  (tokenizers raises bare Exception)
        raise ArtifactError("not a tokenizer", where="tokenizer.json", got=error) from None
    if tokenizer.get_vocab_size() > config.vocab_size:
        raise ArtifactError(
            "the tokenizer has more tokens than the model has embeddings",
            got=tokenizer.get_vocab_size(),
            expected=f"at most {config.vocab_size}",
        )
    ids = {role: getattr(config, f"{role}_id") for role in _ROLES} | {"unk": unk_id}
    names = {role: _token(tokenizer, role, token_id) for role, token_id in ids.items() if token_id is not None}
    tokenizer.post_processor = _framing(config, names)
    special = {f"{role}_token": name for role, name in names.items()}
    settings = {
        **special,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.max_len,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "padding_side": "left" if config.causal else "right",  # a decoder goes on from the last position
    }
    return {
        "tokenizer.json": tokenizer.to_str(pretty=True).encode(),
        "tokenizer_config.json": _json(settings),
        "special_tokens_map.json": _json(special),
    }


def _token(tokenizer: Any, role: str, token_id: int) -> str:
    token = tokenizer.id_to_token(token_id)
    if token is None:
        raise ArtifactError(f"the tokenizer has no {role} token", where="tokenizer.json", expected=f"id {token_id}")
    return str(token)


def _framing(config: ModelConfig, names: dict[str, str]) -> Any:
    from tokenizers import processors

    opening, closing = ("bos", None) if config.causal else ("cls", "sep")
    used = [role for role in (opening, closing) if role in names]
    before = f"{names[opening]} " if opening in names else ""
    after, after_pair = (f" {names['sep']}", f" {names['sep']}:1") if closing in used else ("", "")
    return processors.TemplateProcessing(
        single=f"{before}$A{after}",
        pair=f"{before}$A{after} $B:1{after_pair}",
        special_tokens=[(names[role], getattr(config, f"{role}_id")) for role in used],
    )


def _json(values: dict[str, Any]) -> bytes:
    return f"{json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False)}\n".encode()
