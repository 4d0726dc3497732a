"""Small models in folders, made without training."""

from pathlib import Path

import torch

import wordpipe
from tests.model.shapes import small_config
from wordpipe.model import new_model, save_hf
from wordpipe.settings import Settings
from wordpipe.stages import open_job
from wordpipe.tokens import framed_tokenizer, number_of_ids, open_tokenizer, transformers_files


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
    ids = {role: getattr(config, f"{role}_id") for role in ("pad", "bos", "eos", "cls", "sep", "mask")}
    with open_job("model", f"train {architecture}", path, Settings(), None) as job:
        job.open_input(tokens, ["tokens"])
        save_hf(model, config, job.write)
        tokenizer, names = framed_tokenizer(data, {**ids, "unk": 1}, causal=config.causal, vocab_size=n_ids)
        for name, content in transformers_files(tokenizer, names, max_len=config.max_len).items():
            job.write(name, content)
    return path
