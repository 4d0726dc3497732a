"""Both sides of benchmarks/embed.py: the same folder read by sentence-transformers and by us, on the same texts."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from wordpipe.encoders import (
    TABLE_FILE,
    TOKENIZER_FILE,
    StaticEncoder,
    TransformerEncoder,
    sentence_transformers_files,
    static_files,
    word_tokenizer,
)
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.model import STYLES, ModelConfig, load_hf, new_model, pad_vocab, save_hf

Vectors = npt.NDArray[np.float32]
Encode = Callable[[Sequence[str]], Vectors]

SHAPES = {
    "4x256": {"dim": 256, "n_layers": 4, "n_heads": 4, "ffn_dim": 384},
    "6x384": {"dim": 384, "n_layers": 6, "n_heads": 6, "ffn_dim": 1024},
}
MAX_LEN = 256
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_RUNS = (1, 1, 1, 2, 4, 8)  # sentences of a text: half of the texts are single ones


def mixed_texts(path: Path, count: int, seed: int = 1) -> list[str]:
    """Texts of one to eight lines of a file, drawn at random; the same ones for every side."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line]
    draw = random.Random(seed)
    places = [draw.randrange(len(lines)) for _ in range(count)]
    return [" ".join(lines[place : place + draw.choice(_RUNS)]) for place in places]


def make_tokenizer(texts: Sequence[str], vocab_size: int) -> Tokenizer:
    """A byte-level BPE of these texts, framed as an encoder's sequences are."""
    made = Tokenizer(models.BPE(unk_token="[UNK]"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=_SPECIAL, show_progress=False)
    made.train_from_iterator(texts, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return made


def write_transformer(folder: Path, tokenizer: Tokenizer, shape: dict[str, int]) -> None:
    """A fresh model of a shape, as a folder that both sides read."""
    ids = {f"{token.strip('[]').lower()}_id": number for number, token in enumerate(_SPECIAL) if token != "[UNK]"}
    config = ModelConfig(
        architecture="encoder", vocab_size=pad_vocab(tokenizer.get_vocab_size()), n_kv_heads=shape["n_heads"],
        max_len=MAX_LEN, **shape, **STYLES["encoder", "modern"], **ids,
    )  # fmt: skip
    files: dict[str, bytes] = {}
    save_hf(new_model(config, 1), config, files.__setitem__)
    named = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    files["tokenizer.json"] = tokenizer.to_str().encode()
    files["tokenizer_config.json"] = json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": MAX_LEN, **named}
    ).encode()
    files |= sentence_transformers_files("transformer", dim=config.dim, max_len=MAX_LEN)
    _write(folder, files)


def write_static(folder: Path, texts: Sequence[str], dim: int) -> None:
    """A random table over the texts' words, likewise."""
    words = sorted({word for text in texts for word in text.lower().split() if word.isalpha()})
    table_VD = np.random.default_rng(1).standard_normal((len(words) + 1, dim)).astype(np.float32)
    table_VD[-1] = 0  # unknown words say nothing
    _write(folder, static_files(table_VD, word_tokenizer(words)) | sentence_transformers_files("static", dim=dim))


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def ours(folder: Path, *, static: bool, device: str, dtype: str, threads: int) -> Encode:
    """Our encoder, as `wordpipe embed` opens it."""
    settings = EmbedSettings.make({"device": device, "dtype": dtype, "threads": threads})
    if static:
        table = StaticEncoder({name: (folder / name).read_bytes() for name in (TABLE_FILE, TOKENIZER_FILE)}, settings)
        return lambda texts: table.encode(texts).vectors
    loaded = load_hf(lambda name: (folder / name).read_bytes())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    encoder = TransformerEncoder(
        loaded.model, tokenizer, settings, dim=loaded.config.dim, max_len=loaded.config.max_len
    )
    return lambda texts: encoder.encode(texts).vectors


def theirs(folder: Path, *, device: str, dtype: str, batch_size: int) -> Encode:
    """sentence-transformers."""
    import torch
    from sentence_transformers import SentenceTransformer

    about: dict[str, Any] = {} if dtype == "float32" else {"model_kwargs": {"dtype": torch.bfloat16}}
    model = SentenceTransformer(str(folder), device=device, **about)
    return lambda texts: model.encode(
        list(texts), batch_size=batch_size, show_progress_bar=False, normalize_embeddings=True
    )
