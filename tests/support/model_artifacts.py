"""Small models with a tokenizer of the handbook, made without training: folders of transformers and artifacts."""

from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

import wordpipe
from tests.support.models import pair_config, shaken, small_config
from wordpipe.model import STYLES, Architecture, ModelConfig, PairStyle, Style, new_encoder_decoder, new_model, save_hf
from wordpipe.model.settings import FillSettings
from wordpipe.settings import Settings
from wordpipe.stages import open_job
from wordpipe.tokens import FRAMES, framed_tokenizer, number_of_ids, open_tokenizer, transformers_files

ROLES = {"pad": "[PAD]", "bos": "<s>", "eos": "</s>", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}


def tokenizer_file(handbook: Path, folder: Path, **settings: object) -> bytes:
    """A tokenizer.json trained on the handbook."""
    wordpipe.tokenize(handbook, output=folder, **{"vocab_size": 400} | settings)
    return (folder / "tokenizer.json").read_bytes()


def model_files(
    data: bytes, architecture: Architecture, style: Style = "modern", *, max_len: int = 48, spread: float = 0.15
) -> dict[str, bytes]:
    """The files of a model whose tokens depend on the words around them, as `train` would write them."""
    tokenizer = Tokenizer.from_str(data.decode())
    ids = {role: tokenizer.token_to_id(token) for role, token in ROLES.items()}
    config = ModelConfig(
        architecture=architecture, vocab_size=448, dim=32, n_layers=2, n_heads=2, n_kv_heads=2, ffn_dim=48,
        max_len=max_len, **{f"{role}_id": number for role, number in ids.items()}, **STYLES[architecture, style],
    )  # fmt: skip
    model = new_model(config, 1)
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(number))
            weight.add_(noise * spread)
    files: dict[str, bytes] = {}
    save_hf(model, config, files.__setitem__)
    framed, names = framed_tokenizer(
        data, ids | {"unk": 1}, frame=FRAMES[config.architecture], vocab_size=config.vocab_size
    )
    return files | transformers_files(framed, names, max_len=max_len)


def folder_of(files: dict[str, bytes], path: Path) -> Path:
    """A folder of transformers."""
    path.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (path / name).write_bytes(data)
    return path


def artifact_of(files: dict[str, bytes], path: Path, settings: Settings | None = None) -> Path:
    """A model artifact that says it was made with these settings."""
    with open_job("model", path, settings or FillSettings(), None) as job:
        for name, data in files.items():
            job.write(name, data)
    return path


def small_corpus(path: Path, handbook: Path, **shares: float) -> Path:
    """A corpus of the handbook's first documents. Returns the text that it was made from."""
    text = path.with_name("text.txt")
    text.write_text("\n\n".join(handbook.read_text().split("\n\n")[:40]))
    wordpipe.ingest(text, output=path, documents="block", first_line_title=True, **shares)
    return text


def made_model(path: Path, tokens: Path, architecture: str, style: str = "modern", *, zero: bool = False, **changes):
    """A model artifact that says it was trained on a tokens artifact; with `zero`, it takes all ids to be as likely."""
    data = (tokens / "tokenizer.json").read_bytes()
    n_ids = number_of_ids(open_tokenizer(data, where="tokenizer.json"))
    config = small_config(architecture, style, **({"vocab_size": n_ids, "max_len": 32} | changes))
    model = new_model(config, 5)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(0.0 if zero else 2.0)  # further from what a fresh model says of all texts
    with open_job("model", path, Settings(), None) as job:
        job.open_input(tokens, ["tokens"])
        save_hf(model, config, job.write)
        tokenizer, names = framed_tokenizer(
            data, {**config.special_ids, "unk": 1}, frame=FRAMES[config.architecture], vocab_size=n_ids
        )
        for name, content in transformers_files(tokenizer, names, max_len=config.max_len).items():
            job.write(name, content)
    return path


PAIR_FRAMES = {"t5": ("", "</s>"), "bart": ("<s>", "</s>"), "vaswani": ("", "</s>")}
_STRENGTHS = {"t5": (0.5, 4.0), "bart": (4.0, 8.0), "vaswani": (1.0, 16.0)}  # of embeddings, and of what is read
_ENDS = {
    "t5": 3.0,
    "bart": 1.0,
    "vaswani": 4.0,
}  # T5 has no offsets: the embedding of the end is so many times as large


def pair_files(
    data: bytes, style: PairStyle, *, max_len: int = 48, framed: bool = True, **changes: object
) -> dict[str, bytes]:
    """The files of an encoder-decoder whose targets depend on their sources, and end some time.

    Args:
        data: a tokenizer.json.
        style: of the model.
        max_len: its positions.
        framed: the tokenizer puts the frame around a source; else nothing, as in folders of Marian.
        changes: other fields of the config.
    """
    tokenizer = Tokenizer.from_str(data.decode())
    ids = {role: tokenizer.token_to_id(token) for role, token in ROLES.items() if role not in ("cls", "sep")}
    values: dict[str, object] = {
        "vocab_size": 448, "max_len": max_len, "n_decoder_layers": 2, **{f"{role}_id": id_ for role, id_ in ids.items()},
        "start_id": ids["eos" if style == "bart" else "pad"],
    }  # fmt: skip
    config = pair_config(style, **(values | changes))
    model = shaken(new_encoder_decoder(config, 5))
    embeddings, cross = _STRENGTHS[style]
    with torch.no_grad():
        model.encoder.embedding *= embeddings
        for name, weight in model.named_parameters():
            weight *= cross if ".cross.out" in name or ".cross.keys_values" in name else 1.0
            weight *= 0.2 if name.endswith("bias") and style != "t5" else 1.0
        if model.decoder.output_bias is None:
            model.encoder.embedding[ids["eos"]] *= _ENDS[style]
        else:
            model.decoder.output_bias[ids["eos"]] += _ENDS[style]
    files: dict[str, bytes] = {}
    save_hf(model, config, files.__setitem__)
    first, last = PAIR_FRAMES[style] if framed else ("", "")
    tokenizer.post_processor = TemplateProcessing(
        single=" ".join(part for part in (first, "$A", last) if part),
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, last) if token],
    )
    names = {role: ROLES[role] for role in ids} | {"unk": "[UNK]"}
    return files | transformers_files(tokenizer, names, max_len=max_len)
