"""`wordpipe import` of a text encoder: a folder of sentence-transformers, transformers or model2vec → model.

The weights are written as those of our own models are, and the tokenizer as a tokenizer.json. So all that reads a model of
ours reads this one. Data is never code: weights are read from safetensors alone, and a module of other code is refused.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import (
    TOKENIZER,
    WEIGHTS_FILE,
    HashCache,
    InputEntry,
    is_artifact,
    parse_json,
    parse_json_object,
    read_regular_file,
)
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.runtime import ADDRESS_SPACE, need_address_space
from wordpipe.stages.encoder_folder import file_names, origin_of
from wordpipe.stages.inputs import reading
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.sources import joint_hash, refuse_headless

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from wordpipe.encoders.sentence_transformers import FolderModules
    from wordpipe.model import Loaded
    from wordpipe.words.settings import ImportSettings

_MODULES, _CONFIG, _TOKENIZER_CONFIG = "modules.json", "config.json", "tokenizer_config.json"
_MAX_FILE = 1 << 40  # bytes
_ENDLESS = 1_000_000  # tokens: transformers writes 1e30 where a tokenizer has no longest text


def encoder_entry(path: PathLike) -> InputEntry:
    """Return the manifest's entry of a folder with a text encoder: all files that are read, by their content.

    Raises:
        ArtifactError: an artifact that lost its manifest.
    """
    folder = Path(path)
    if is_artifact(folder):
        raise ArtifactError("the input is already an artifact", where=folder, hint="use the artifact without import")
    refuse_headless(folder)
    cache = HashCache()
    files = [folder / name for name in file_names(folder)]
    digest = joint_hash((one.relative_to(folder).as_posix(), cache.hash_file(one)) for one in files)
    cache.save()
    size = sum(one.stat().st_size for one in files)
    return InputEntry(kind="file", digest=digest, path=folder.name or ".", bytes=size)


def import_encoder(path: Path, output: PathLike, settings: "ImportSettings", run: RunOptions | None) -> Made:
    """Make a model artifact of a folder with a text encoder.

    Args:
        path: the folder.
        output: folder of the artifact.
        settings: the prompts are looked at.
        run: progress, fresh start, verification.

    Raises:
        WordpipeError: its class and its hint say what to do.
    """
    from wordpipe.encoders import read_modules

    _refuse_settings_of_words(settings)
    with open_job("model", output, settings, run) as job:
        job.libraries = ("numpy", "safetensors", "tokenizers")
        with reading(job, encoder_entry, path):
            folder = _Folder(path)
            modules = folder.modules(read_modules)
            prompts = {**modules.prompts, **settings.prompts}
            if modules.kind == "static":
                _import_table(job, folder, modules, prompts)
            else:
                _import_transformer(job, folder, modules, {role: text for role, text in prompts.items() if text})
            for note in modules.notes:
                job.warn(f"{path.name}: {note}")
            job.facts |= origin_of(path)
        if job.facts["licence"] is None:
            job.warn(f"{path.name}: the folder does not say its licence; ask its makers before you pass the model on")
    return job.made


def _refuse_settings_of_words(settings: "ImportSettings") -> None:
    """Refuse settings that are for word vectors, where a text encoder is imported (ConfigError)."""
    given = settings.model_fields_set - {"query_prompt", "text_prompt"}
    if other := sorted(name for name in given if getattr(settings, name) != type(settings).model_fields[name].default):
        what = f"{other[0]} is a setting for word vectors, but this folder has a text encoder"
        raise ConfigError(what, where=other[0], got=getattr(settings, other[0]))


class _Folder:
    """The files of a folder with a text encoder.

    Args:
        path: of it.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.names = path, file_names(path)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file."""
        return read_regular_file(self.path / name, _MAX_FILE, what="a model file")

    def within(self, root: str) -> list[str]:
        """Return the names of all files in one of its folders, also of files that are not read."""
        return sorted({one.name for one in (self.path / root).iterdir() if one.is_file()})

    def modules(self, read_modules: Any) -> "FolderModules":
        """Return what is in the folder: by modules.json, else a plain transformer or a table of model2vec."""
        from wordpipe.encoders import FolderModules

        if _MODULES in self.names:
            found: FolderModules = read_modules(self.read, self.names)
            return found
        if _is_model2vec(parse_json_object(self.read(_CONFIG), _CONFIG)):
            return FolderModules("static")
        note = "the folder does not say how token vectors become one vector, so their mean is used (embed --pooling)"
        return FolderModules("transformer", notes=(note,))


def _is_model2vec(config: Mapping[str, Any]) -> bool:
    """Return True if a config.json is that of a table of model2vec."""
    return config.get("model_type") == "model2vec" or config.get("architectures") == ["StaticModel"]


def _import_transformer(job: Job, folder: _Folder, modules: "FolderModules", prompts: Mapping[str, str]) -> None:
    """Write the files and facts of a transformer encoder that is imported."""
    need_address_space(ADDRESS_SPACE["torch"])
    from safetensors.numpy import save

    from wordpipe.encoders import LAYERS_FILE, pooling_named, sentence_transformers_files
    from wordpipe.model import (
        WEIGHTS,
        config_from_hf,
        config_to_hf,
        family_of,
        is_of_head,
        save_hf,
        transformers_class,
        without_tensors,
    )
    from wordpipe.tokens import number_of_ids, transformers_files

    # the model, in our format, and its tokenizer
    loaded = _load(folder, modules.root)
    model, config = loaded.language_model, loaded.config
    tokenizer, special = _tokenizer(folder, modules)
    if (n_ids := number_of_ids(tokenizer)) > config.vocab_size:
        what, expected = "the tokenizer has more tokens than the model has embeddings", f"at most {config.vocab_size}"
        raise ArtifactError(what, where=folder.path, got=n_ids, expected=expected)
    files: dict[str, bytes] = {}
    save_hf(model, config, files.__setitem__)
    if not loaded.has_head:  # fresh weights say nothing
        family, _ = config_from_hf(config_to_hf(config))
        assert family is family_of(config)
        files[WEIGHTS] = without_tensors(files[WEIGHTS], is_of_head(family, config))
    # what comes after it
    max_len = min(modules.max_len or _longest(folder, modules.root) or config.max_len, config.max_len)
    files |= transformers_files(tokenizer, special, max_len=max_len)
    if modules.layers.layers:
        files[LAYERS_FILE] = modules.layers.to_bytes()
    tokens: list[str] = []
    if modules.weights is not None:
        files[WEIGHTS_FILE] = save({"weights": modules.weights})
        tokens = [tokenizer.id_to_token(number) or f"[unused{number}]" for number in range(len(modules.weights))]
    if transformers_class(config) is not None:
        files |= sentence_transformers_files(
            "transformer", dim=config.dim, pooling=modules.pooling, max_len=max_len, weights_V=modules.weights,
            tokens=tokens, layers=modules.layers, prompts=prompts,
        )  # fmt: skip
    for name, content in files.items():
        job.write(name, content)
    for note in loaded.notes:
        if loaded.has_head or "initialised at random" not in note:
            job.note(f"{folder.path.name}: {note}")
    # what its readers need to know
    pooling = pooling_named(modules.pooling)
    assert pooling is not None
    job.counts["parameters"] = sum(
        one.numel() for name, one in model.named_parameters() if loaded.has_head or not _of_head(name)
    )
    job.facts |= {
        "encoder": "transformer", "pooling": modules.pooling, "dim": modules.layers.width(config.dim * pooling.joins),
        "architecture": config.architecture, "max_len": max_len, "n_layers": config.n_layers,
        "transformers": transformers_class(config), "has_head": loaded.has_head,
        **{f"{role}_prompt": text for role, text in prompts.items()}, **_trained(folder),
    }  # fmt: skip


def _of_head(name: str) -> bool:
    """Return True of our name of a weight that predicts tokens alone."""
    from wordpipe.model import Entry

    return Entry(name, ()).of_head


def _trained(folder: _Folder) -> dict[str, Any]:
    """Return the fact that a folder's encoder learned from pairs, which a folder of sentence-transformers is taken to have."""
    from wordpipe.encoders import UNKNOWN_PAIRS

    return {"pairs": [UNKNOWN_PAIRS]} if _MODULES in folder.names else {}


def _load(folder: _Folder, root: str) -> "Loaded":
    """Return the model of a folder's transformer, or of its encoder where it has a decoder too."""
    from wordpipe.model import load_encoder

    return load_encoder(lambda name: folder.read(root + name), folder.within(root))


def _longest(folder: _Folder, root: str) -> int | None:
    """Return the longest text of a folder's tokenizer, in tokens; None: it has no limit."""
    if (name := root + _TOKENIZER_CONFIG) not in folder.names:
        return None
    found = parse_json_object(folder.read(name), name).get("model_max_length")
    return found if type(found) is int and 0 < found < _ENDLESS else None


def _tokenizer(folder: _Folder, modules: "FolderModules") -> "tuple[Tokenizer, dict[str, str]]":
    """Return the tokenizer of a folder, and role → special token."""
    from tokenizers import normalizers

    from wordpipe.tokens import named_tokens, read_tokenizer, special_names

    tokenizer = read_tokenizer(folder.path / modules.root)
    if modules.lower_case:
        own = [tokenizer.normalizer] if tokenizer.normalizer is not None else []
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *own])
    name = modules.root + _TOKENIZER_CONFIG
    said = parse_json(folder.read(name), name) if name in folder.names else {}
    return tokenizer, special_names(tokenizer) | (named_tokens(said) if isinstance(said, dict) else {})


def _import_table(job: Job, folder: _Folder, modules: "FolderModules", prompts: Mapping[str, str]) -> None:
    """Write the files and facts of a static encoder that is imported.

    Raises:
        ArtifactError: no table, a prompt, or layers that cannot be made part of the table.
    """
    from wordpipe.encoders import LAYERS_FILE, UNKNOWN_PAIRS, sentence_transformers_files, static_files
    from wordpipe.tokens import open_tokenizer

    if any(prompts.values()):
        raise ArtifactError("wordpipe does not support prompts of a static encoder", where=folder.path)
    if not modules.layers.is_linear:
        what = "wordpipe supports only linear layers after a table of embeddings"
        raise ArtifactError(what, where=LAYERS_FILE, got=", ".join(one.kind for one in modules.layers.layers))
    table_VD, of_model2vec = _table(folder, modules.root)
    data = folder.read(modules.root + TOKENIZER)
    if of_model2vec and _MODULES not in folder.names:  # which leaves unknown tokens out, as a row of zeros does
        tokenizer = open_tokenizer(data, where=str(folder.path / TOKENIZER))
        unknown = getattr(tokenizer.model, "unk_token", None)
        if unknown is not None and (number := tokenizer.token_to_id(unknown)) is not None:
            table_VD[number] = 0
    table_VK = modules.layers.linear(table_VD)
    files = static_files(table_VK, data) | sentence_transformers_files("static", dim=table_VK.shape[1])
    for name, content in files.items():
        job.write(name, content)
    job.counts["parameters"] = table_VK.size
    job.facts |= {"encoder": "static", "pooling": "mean", "dim": table_VK.shape[1], "pairs": [UNKNOWN_PAIRS]}


def _table(folder: _Folder, root: str) -> tuple[npt.NDArray[np.float32], bool]:
    """Return the table of a static encoder's folder, a row for each id, and True if it is one of model2vec.

    model2vec may keep one row for many ids (`mapping`) and what each id weighs in the mean (`weights`).
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    name = f"{root}model.safetensors"
    if name not in folder.names:
        pickled = sorted(one.name for one in (folder.path / root).glob("*") if one.suffix in (".bin", ".npy", ".pt"))
        raise ArtifactError("the folder has no weights in a format that wordpipe reads", where=folder.path,
                            got=", ".join(pickled) or None, expected=name)  # fmt: skip
    try:
        tensors = load(folder.read(name))
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError("the table of embeddings cannot be read", where=folder.path / name, got=error) from None
    of_model2vec = "embeddings" in tensors
    table_VD = tensors.get("embeddings", tensors.get("embedding.weight"))
    if table_VD is None or table_VD.ndim != 2 or not table_VD.size:
        expected = "a tensor embedding.weight or embeddings"
        raise ArtifactError(
            "the file does not contain a table of vectors", where=folder.path / name, got=", ".join(tensors)[:80],
            expected=expected,
        )  # fmt: skip
    if "mapping" in tensors:
        table_VD = table_VD[tensors["mapping"].astype(np.int64)]
    table_VD = table_VD.astype(np.float32)
    if "weights" in tensors:
        table_VD *= tensors["weights"].astype(np.float32)[:, None]
    if not np.isfinite(table_VD).all():
        raise ArtifactError("the table has numbers that are not finite", where=folder.path / name)
    return table_VD, of_model2vec
