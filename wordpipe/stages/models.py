"""Language models, opened out of an artifact or a folder of transformers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordpipe.artifacts import TARGET, TOKENIZER, Artifact, BundledFiles, is_artifact, parse_json, read_regular_file
from wordpipe.errors import ArtifactError
from wordpipe.runtime import pick_device
from wordpipe.stages.job import PathLike
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import refuse_headless
from wordpipe.tokens import (
    frame_of,
    library_errors,
    named_tokens,
    number_of_ids,
    open_tokenizer,
    read_tokenizer,
    text_ids,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

    from wordpipe.model import Architecture, EncoderDecoder, LanguageModel, Loaded, Transformer
    from wordpipe.model.settings import Device

_TOKENIZER_CONFIG = "tokenizer_config.json"
DENOISING = "train denoising"  # the command whose encoder-decoders restore texts
_MAX_FILE = 1 << 40  # bytes
_USES = {
    "encoder": 'wordpipe fill {} "the cat [MASK] on the mat"',
    "decoder": 'wordpipe generate {} "The cat"',
    "encoder-decoder": 'wordpipe generate {} "a source text"',
}
_CAN = {
    "encoder": "an encoder fills masks",
    "decoder": "a decoder continues texts",
    "encoder-decoder": "an encoder-decoder writes target texts for source texts",
}
_TRAINED_BY = {"encoder": "mlm", "decoder": "clm", "encoder-decoder": "seq2seq"}


@dataclass(frozen=True)
class OpenModel:
    """A model ready to be used.

    Attributes:
        path: where it came from.
        model: in evaluation mode.
        tokenizer: truncation and padding switched off.
        before: ids that stand before every sequence, as in training.
        after: ids that stand after it; not after a text that is to go on.
        special: role (pad, unk, cls, sep, mask, bos, eos) → id, for the roles that there are.
        notes: what the user should know of how it was read.
        made_by: the command that made the artifact; empty of a folder of transformers.
        prefix: text that stood before every source text in training, as an artifact says.
        prefix_field: field of the records that said what stood before each; empty where none did.
        prefixes: what it said, the most frequent first, a hundred at most.
        n_prefixes: different texts that it said.
        answers: a decoder that learned to go on from the first text of a pair with the second; `after` ends the first one.
        target_tokenizer: of what an encoder-decoder writes, where its source texts have another one.
    """

    path: str
    model: "Transformer"
    tokenizer: "Tokenizer"
    before: tuple[int, ...]
    after: tuple[int, ...]
    special: Mapping[str, int]
    notes: tuple[str, ...] = ()
    made_by: str = ""
    prefix: str = ""
    prefix_field: str = ""
    prefixes: tuple[str, ...] = ()
    n_prefixes: int = 0
    answers: bool = False
    target_tokenizer: "Tokenizer | None" = None

    @property
    def max_len(self) -> int:
        """Positions of the model."""
        return self.model.config.max_len

    def need(self, architecture: "Architecture") -> None:
        """Refuse an opened model of another architecture.

        Raises:
            ArtifactError: names the command that can use this one.
        """
        if (found := self.model.config.architecture) != architecture:
            raise ArtifactError(
                f"wrong kind of model for this command: {_CAN[found]}",
                where=self.path,
                got=f"{found}",
                expected=f"{architecture} (wordpipe train {_TRAINED_BY[architecture]})",
                hint=_USES[found].format(self.path),
            )

    def need_guesses(self) -> None:
        """Refuse an opened model that guesses no tokens.

        Raises:
            ArtifactError: it finds replaced ones.
        """
        if self.model.config.replaced_head:
            what, hint = (
                "an ELECTRA model finds replaced tokens; it cannot predict missing tokens",
                "use this model with `train classifier`, `train tagger` or `embed`",
            )
            raise ArtifactError(what, where=self.path, expected="a model made by `train mlm`", hint=hint)

    @property
    def writes_targets(self) -> bool:
        """True if the model is an encoder-decoder."""
        return self.model.config.architecture == "encoder-decoder"

    @property
    def language_model(self) -> "LanguageModel":
        """Return the opened model, where it is an encoder or a decoder.

        Raises:
            ArtifactError: it is both.
        """
        from wordpipe.model import one_stack

        return one_stack(self.model)

    @property
    def pair_model(self) -> "EncoderDecoder":
        """The model, where it is an encoder-decoder.

        Raises:
            ArtifactError: it is one of the two.
        """
        from wordpipe.model import EncoderDecoder

        self.need("encoder-decoder")
        assert isinstance(self.model, EncoderDecoder)
        return self.model

    def encode(self, text: str) -> list[int]:
        """Ids of a text, nothing before or after it. What spells out a special token becomes that token, as in `tokenize`."""
        return _ids(self.tokenizer, text)

    @property
    def writing_tokenizer(self) -> "Tokenizer":
        """Of what the model writes: that of the target texts, where these have their own."""
        return self.tokenizer if self.target_tokenizer is None else self.target_tokenizer

    def encode_target(self, text: str) -> list[int]:
        """Return the ids of a target text."""
        return _ids(self.writing_tokenizer, text)

    def move_to(self, device: "Device") -> None:
        """Move the model, where it is elsewhere.

        Raises:
            ConfigError: no such device here.
        """
        self.model.to(pick_device(device))

    def tokens_that_come(self, *roles: str) -> "Tensor":
        """Return the ids that an opened model's texts are made of, as bool [V] on its device.

        Of what an encoder-decoder writes. Rows of the embedding table above the tokenizer's ids stand for nothing.
        """
        allowed_V = self._ordinary.clone()
        allowed_V[[self.special[role] for role in roles if role in self.special]] = True
        return allowed_V.to(self.model.embedding.device)

    @cached_property
    def _ordinary(self) -> "Tensor":
        """Return the ids of ordinary tokens of an opened model, as bool [V]."""
        import torch

        config, special, n_rows = self.model.config, [*self.special.values()], self.model.config.vocab_size
        if self.target_tokenizer is not None:  # roles that the config does not name are those of the other tokenizer
            special = [number for number in config.special_ids.values() if number is not None]
            n_rows = config.decoder_vocab_size
        return torch.from_numpy(text_ids(self.writing_tokenizer, special, n_rows))


def _ids(tokenizer: "Tokenizer", text: str) -> list[int]:
    """Return the token ids of a text, without special tokens."""
    with library_errors("the tokenizer cannot encode the text", TOKENIZER):
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


@public()
def open_model(path: PathLike, *, verify: bool = True) -> OpenModel:
    """Read a model and its tokenizer into memory, on the CPU.

    Args:
        path: a model artifact, or a folder of transformers with config.json, model.safetensors and a tokenizer.
        verify: check an artifact's hashes first.

    Raises:
        ArtifactError: nothing there, damaged, of a class that we do not compute, or model and tokenizer do not fit.

    Example:
        >>> model = wordpipe.open_model("run/model")
        >>> model.model.config.architecture, wordpipe.fill(model, "the [MASK]").text[:4]
        ('encoder', 'the ')
    """
    from wordpipe.model import CONFIG

    folder = Path(path)
    if is_artifact(folder) or not (folder / CONFIG).is_file():
        with Artifact(folder, ["model"], verify=verify) as artifact:
            return model_of(artifact)
    refuse_headless(folder)
    opened = _opened(folder, *read_folder(folder), folder)
    unchecked = "a Hugging Face model folder has no hashes, so its files were not checked"
    return replace(opened, notes=(*opened.notes, unchecked))


def model_of(artifact: Artifact) -> OpenModel:
    """Return the model of an open artifact, and its tokenizer. Raises ArtifactError: as from `open_model`."""
    opened = _opened(artifact.path, *read_artifact(artifact), artifact)
    about, before = artifact.manifest, prefixes_of(artifact)
    return replace(opened, made_by=about.command, answers=about.facts.get("answers") is True, **before)


def prefixes_of(artifact: Artifact) -> dict[str, Any]:
    """Return the prefixes of sources in the training of an opened model."""
    settings, found = artifact.manifest.settings, artifact.manifest.facts.get("prefixes")
    texts = {name: settings.get(name) for name in ("prefix", "prefix_field")}
    said: dict[str, Any] = {name: text if isinstance(text, str) else "" for name, text in texts.items()}
    listed = tuple(map(str, found)) if isinstance(found, dict) else ()
    return said | {"prefixes": listed, "n_prefixes": max(len(listed), artifact.manifest.counts.get("prefixes", 0))}


def read_artifact(
    artifact: Artifact, *, allow_missing_head: bool = False, seed: int = 0
) -> "tuple[Loaded, Tokenizer, dict[str, str]]":
    """Return the model, its tokenizer, and role → special token, named as in its files.

    The last two arguments are those of `load_hf`.
    """
    from wordpipe.model import load_hf

    if artifact.manifest.facts.get("has_head") is False and not allow_missing_head:
        raise ArtifactError(
            "the model has no output head, because the imported folder has none, so it cannot predict tokens",
            where=artifact.path, expected="a model that predicts tokens",
            hint=f"the model is a text encoder: wordpipe embed {artifact.path} CORPUS -o SENTENCES",
        )  # fmt: skip
    files = BundledFiles(artifact)
    with files.damage("the model cannot be read"):
        tokenizer = open_tokenizer(files[TOKENIZER], where=str(artifact.path / TOKENIZER))
        loaded = load_hf(files.__getitem__, artifact.names(), allow_missing_head=allow_missing_head, seed=seed)
        return loaded, tokenizer, _named_tokens(files[_TOKENIZER_CONFIG])


def read_folder(
    folder: Path, *, allow_missing_head: bool = False, seed: int = 0
) -> "tuple[Loaded, Tokenizer, dict[str, str]]":
    """Return model, tokenizer and special tokens of a folder of transformers.

    The last two arguments are those of `load_hf`.
    """
    from wordpipe.model import load_hf

    names = [file.name for file in folder.iterdir()]

    def read(name: str) -> bytes:
        return read_regular_file(folder / name, _MAX_FILE, what="a model file")

    about = read(_TOKENIZER_CONFIG) if _TOKENIZER_CONFIG in names else b"{}"
    loaded = load_hf(read, names, allow_missing_head=allow_missing_head, seed=seed)
    return loaded, read_tokenizer(folder), _named_tokens(about)


def target_tokenizer(model: Artifact | Path) -> "Tokenizer | None":
    """Return the tokenizer of an encoder-decoder's target texts, if the model has a separate tokenizer."""
    if isinstance(model, Path):
        return read_tokenizer(model / TARGET) if (model / TARGET / TOKENIZER).is_file() else None
    files = BundledFiles(model, TARGET)
    if TOKENIZER not in files:
        return None
    with files.damage("the model cannot be read"):
        return open_tokenizer(files[TOKENIZER], where=str(model.path / TARGET / TOKENIZER))


def _opened(
    folder: Path, loaded: "Loaded", tokenizer: "Tokenizer", names: Mapping[str, str], model: Artifact | Path
) -> OpenModel:
    """Put a model and its tokenizer together. Raises ArtifactError: they do not fit."""
    from wordpipe.tokens import special_names

    config = loaded.config
    target = target_tokenizer(model) if config.decoder_vocab_size else None
    for one, size in ((tokenizer, config.vocab_size), (target, config.decoder_vocab_size)):
        if one is not None and (n_ids := number_of_ids(one)) > size:
            raise ArtifactError(
                "the tokenizer has more tokens than the model has embeddings",
                where=folder if one is tokenizer else folder / TARGET,
                got=n_ids,
                expected=f"at most {size}",
            )
    named = {role: tokenizer.token_to_id(name) for role, name in {**special_names(tokenizer), **names}.items()}
    there = {role: number for role, number in (*named.items(), *config.special_ids.items()) if number is not None}
    before, after = frame_of(tokenizer)
    loaded.model.requires_grad_(False)
    return OpenModel(
        str(folder), loaded.model, tokenizer, tuple(before), tuple(after), there, loaded.notes, target_tokenizer=target
    )


def _named_tokens(data: bytes) -> dict[str, str]:
    """Return the special tokens that a `tokenizer_config.json` names; for a mask it is often the only place."""
    values = parse_json(data, _TOKENIZER_CONFIG)
    return named_tokens(values) if isinstance(values, dict) else {}
