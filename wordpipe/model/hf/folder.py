"""A model as a Hugging Face folder and back: `config.json` and `model.safetensors`, or several files with an index.

Where transformers has a class for the model, the folder needs none of our code: `AutoModelForMaskedLM` or
`AutoModelForCausalLM` loads it and gives the same logits. Nothing here knows of files: bytes go to and come from functions
that the caller gives. Weights in pickles are not opened. Names in a folder are brought to those of its class: old names,
buffers, tied copies, models without their head.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from wordpipe.artifacts import parse_json_object
from wordpipe.errors import ArtifactError
from wordpipe.model.config import ModelConfig
from wordpipe.model.hf.families import config_from_hf, config_to_hf, family_of
from wordpipe.model.hf.mapping import CONFIG, WEIGHTS, Entry, Family
from wordpipe.model.hf.parts import unreadable_weights
from wordpipe.model.init import initialise, make_transformer
from wordpipe.model.positions import sinusoidal_table
from wordpipe.model.transformer import LanguageModel
from wordpipe.runtime import without_memory

if TYPE_CHECKING:
    from wordpipe.model.encoder_decoder import Transformer

_MAX_POSITIONS = 1 << 22  # angles of so many are made before the first text is read
_MAX_TABLE = 1 << 28  # numbers of a table of positions that is computed
INDEX = "model.safetensors.index.json"
GENERATION = "generation_config.json"
_OF_DECODING = ("decoder_start_token_id", "forced_bos_token_id")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_UNREAD = (".safetensors", ".h5", ".msgpack", ".gguf", ".onnx")
# what old releases stored although it can be computed: position numbers, rotary frequencies, GPT-2's causal mask
_BUFFERS = re.compile(r"(embeddings\.(position|token_type)_ids|rotary_emb\.inv_freq|h\.\d+\.attn\.(bias|masked_bias))$")
_TASK_HEADS = r"(classifier|score|qa_outputs)\..+"  # of models that were trained on for one task
_POSITION_TABLE = "position_embedding"
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_POSITION_TOLERANCE = (
    1e-5  # another machine's sines may differ in the last bit; one step of training moves a table by more
)


@dataclass(frozen=True)
class Loaded:
    """A model out of a folder.

    Attributes:
        model: in evaluation mode, on the CPU, in float32.
        config: its shape.
        notes: what the user should know, one sentence each: weights converted, left behind or freshly made.
        has_head: False of a folder without the head that predicts tokens, whose weights are fresh.
    """

    model: "Transformer"
    config: ModelConfig
    notes: tuple[str, ...]
    has_head: bool = True

    @property
    def language_model(self) -> LanguageModel:
        """Return the model of a folder, if it is an encoder or a decoder.

        Raises:
            ArtifactError: it is both.
        """
        return one_stack(self.model)


def one_stack(model: "Transformer") -> LanguageModel:
    """Return the model of a folder, if it is an encoder or a decoder.

    Raises:
        ArtifactError: it is both.
    """
    if isinstance(model, LanguageModel):
        return model
    raise ArtifactError(
        "an encoder-decoder cannot be used here", got=model.config.architecture, expected="an encoder or a decoder",
        hint="use wordpipe generate to write target texts, or wordpipe evaluate seq2seq to evaluate the model",
    )  # fmt: skip


def save_hf(model: "Transformer", config: ModelConfig, write: Callable[[str, bytes], None]) -> None:
    """Give the files of the model's folder, name by name, to `write`; the weights as float32.

    The tied output matrix is left out, as transformers leaves it out. Whether transformers has a class for the model says
    `families.transformers_class`.
    """
    write_folder(model, config, config_to_hf(config), family_of(config).entries(config), write)


def write_folder(
    model: "Transformer", config: ModelConfig, values: Mapping[str, Any], entries: Iterable[Entry],
    write: Callable[[str, bytes], None],
) -> None:  # fmt: skip
    """Write `config.json` with these values, and the weights of these entries."""
    ours = {name: weight.detach().to("cpu", torch.float32) for name, weight in model.named_parameters()}
    if config.positions == "sinusoidal":
        ours[_POSITION_TABLE] = sinusoidal_table(config.max_len, config.dim)
    theirs: dict[str, Tensor] = {}
    for entry in entries:
        theirs |= {name: _stored(part, factor, entry) for name, part, factor in _parts(ours[entry.ours], entry)}
    text = json.dumps(values, indent=2, sort_keys=True)
    write(CONFIG, f"{text}\n".encode())
    write(WEIGHTS, save(theirs, metadata={"format": "pt"}))


def generation_config(config: ModelConfig, *, suppressed: Collection[int], beams: int) -> bytes:
    """Return `generation_config.json` of an encoder-decoder, by which `generate` of transformers writes what ours does.

    Nothing forces an end where a target is cut, as a config of BART does: ours is cut there, too.

    Args:
        config: of the model.
        suppressed: ids that never come.
        beams: that a search has unless another number is given.
    """
    ids = {"decoder_start_token_id": config.start_id, "eos_token_id": config.eos_id, "pad_token_id": config.pad_id,
           "bos_token_id": config.bos_id}  # fmt: skip
    values = {
        **{name: number for name, number in ids.items() if number is not None},
        "max_length": config.max_len + 1,  # counts the start, which is no position of what is written
        "num_beams": beams,
        "suppress_tokens": sorted(suppressed),
    }
    return f"{json.dumps(values, sort_keys=True)}\n".encode()


def load_hf(
    read: Callable[[str], bytes],
    names: Collection[str] = (CONFIG, WEIGHTS),
    *,
    allow_missing_head: bool = False,
    seed: int = 0,
) -> Loaded:
    """Return the model in a folder, ready to use.

    Args:
        read: gives the bytes of a file of the folder by its name.
        names: the files that there are; by default those that `save_hf` writes.
        allow_missing_head: take a folder of the class without the output head, as `AutoModel` saves it, too; the head is
            then freshly initialised, and the notes name its weights.
        seed: of such a head.

    Raises:
        ArtifactError: a file is malformed; the model is of a class or a variant that our blocks do not compute; a weight is
            missing, unknown, of the wrong shape or type, or not finite.
    """
    values = read_config(read, names)
    family, config = config_from_hf(values)
    stored, entries = read_weights(read, names), list(family.entries(config))
    return fill_model(
        stored, values, family, config, entries, make_transformer, allow_missing_head=allow_missing_head, seed=seed
    )


def load_encoder(read: Callable[[str], bytes], names: Collection[str]) -> Loaded:
    """Return the encoder in a folder, with or without the head that predicts tokens; of an encoder-decoder its encoder.

    Args:
        read: gives the bytes of a file of the folder by its name.
        names: the files that there are.

    Raises:
        ArtifactError: as of `load_hf`.
    """
    values = read_config(read, names)
    if values.get("architectures") == ["T5EncoderModel"]:  # whose config says that there is no decoder
        values |= {"is_encoder_decoder": True}
    family, config = config_from_hf(values)
    if config.architecture != "encoder-decoder":
        return load_hf(read, names, allow_missing_head=True)
    # the weights of the encoder alone, by the names of a model that is no more than that
    stored, entries = read_weights(read, names), list(family.entries(config))
    own = [entry for entry in entries if entry.ours.startswith("encoder.")]
    others = {name for entry in entries for name in entry.theirs} - {name for entry in own for name in entry.theirs}
    stored = {name: weight for name, weight in stored.items() if name not in others}
    own = [replace(entry, ours=entry.ours.removeprefix("encoder.")) for entry in own]
    loaded = fill_model(stored, values, family, config.stack("encoder"), own, LanguageModel)
    note = "the folder has an encoder-decoder, of which the encoder alone is read"
    return replace(loaded, notes=(*loaded.notes, note) if others & stored.keys() else loaded.notes)


def read_config(read: Callable[[str], bytes], names: Collection[str]) -> dict[str, Any]:
    """Return the values of `config.json`, with what transformers keeps elsewhere.

    Raises:
        ArtifactError: there is none, or it is malformed.
    """
    if CONFIG not in names:
        raise ArtifactError(f"the folder has no {CONFIG}, so it is not a model folder", expected=CONFIG)
    values = parse_json_object(read(CONFIG), CONFIG)
    if GENERATION in names:  # transformers moves there what decoding needs
        later = parse_json_object(read(GENERATION), GENERATION)
        values = {name: later[name] for name in _OF_DECODING if name in later} | values
    return values


def fill_model(
    stored: Mapping[str, Tensor], values: Mapping[str, Any], family: Family, config: ModelConfig,
    entries: Sequence[Entry], make: "Callable[[ModelConfig], Transformer]", *, allow_missing_head: bool = False,
    seed: int = 0,
) -> Loaded:  # fmt: skip
    """Return a model with the weights of a folder.

    Args:
        stored: the weights by their names in the folder.
        values: of `config.json`.
        family: the class of its body.
        config: its shape.
        entries: all weights that the folder has.
        make: gives the model, its weights uninitialised.
        allow_missing_head: as of `load_hf`.
        seed: of a head that is missing.

    Raises:
        ArtifactError: as of `load_hf`.
    """
    matched = _match(stored, family, entries, tied=config.tied, allow_missing_head=allow_missing_head)
    _check_shapes(matched, config, make)
    if "auto_map" in values:
        matched.notes.append(
            "the folder refers to its own program code (auto_map), but wordpipe does not run this code"
        )
    if config.positions == "sinusoidal":
        config = _settle_positions(matched, config)
    model = make(config)
    if matched.missing:
        initialise(model, seed)
    _fill(dict(model.named_parameters()), matched)
    return Loaded(model.eval(), config, tuple(matched.notes), not matched.missing)


def read_weights(read: Callable[[str], bytes], names: Collection[str]) -> dict[str, Tensor]:
    """Return all weights by their names in the folder."""
    if WEIGHTS in names:
        return _load(read(WEIGHTS), WEIGHTS)
    if INDEX in names:
        return _read_shards(read, names)
    pickled = sorted(name for name in names if name.endswith(_PICKLES))
    if pickled:
        raise ArtifactError(
            "the weights are in a Python pickle file, but wordpipe does not open pickle files, because they can run "
            "any code",
            where=pickled[0],
            expected=WEIGHTS,
            hint="if you trust the file, load the model in transformers and save it with save_pretrained, which "
            "writes safetensors",
        )
    others = sorted(name for name in names if name.endswith(_UNREAD))
    raise ArtifactError(
        "the folder has no weights in a format that wordpipe reads", got=", ".join(others) or None, expected=WEIGHTS
    )


def _read_shards(read: Callable[[str], bytes], names: Collection[str]) -> dict[str, Tensor]:
    """Read the weights of a folder with several safetensors files and their index."""
    places = parse_json_object(read(INDEX), INDEX).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ArtifactError("the index has no weight_map", where=INDEX, got=places)
    weights: dict[str, Tensor] = {}
    for file in sorted({str(file) for file in places.values()}):
        if file not in names:  # a name that leads out of the folder is not among them either
            raise ArtifactError("a weights file is missing", where=INDEX, expected=file)
        shard = _load(read(file), file)
        if stray := [name for name in shard if places.get(name) != file]:
            raise ArtifactError(
                f"the weight {stray[0]} is not in the file that the index names",
                where=file,
                expected=places.get(stray[0]),
            )
        weights |= shard
    if absent := sorted(places.keys() - weights.keys()):
        raise ArtifactError(
            f"the weight {absent[0]} is not in the file that the index names", where=INDEX, expected=places[absent[0]]
        )
    return weights


def _load(data: bytes, where: str) -> dict[str, Tensor]:
    """Read the weights of one safetensors file."""
    try:
        weights: dict[str, Tensor] = load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise unreadable_weights(data, where, error) from None
    return weights


@dataclass
class _Matched:
    """The weights of a folder under the names of its class.

    Attributes:
        weights: name in the class → weight, of whatever type the folder has.
        entries: those to fill from `weights`.
        missing: those that the folder has nothing for; weights of the head, where that was allowed.
        notes: what the user should know.
    """

    weights: dict[str, Tensor]
    entries: list[Entry]
    missing: list[Entry] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _match(
    stored: Mapping[str, Tensor], family: Family, entries: Sequence[Entry], *, tied: bool, allow_missing_head: bool
) -> _Matched:
    """Find every weight of a model among those of the Hugging Face folder."""
    wanted = [entry for entry in entries if not entry.repeats]
    expected = {name for entry in wanted for name in entry.theirs}
    matched = _Matched(_named(stored, family, expected), wanted)
    for repeated in (name for entry in entries if entry.repeats for name in entry.theirs):
        matched.weights.pop(repeated, None)
    if tied:
        _drop_copies(matched.weights, family)
    _leave_behind(matched, family, expected)
    if unknown := sorted(matched.weights.keys() - expected):
        raise ArtifactError(f"{len(unknown)} weights are unknown; the first is {unknown[0]}", where=WEIGHTS)
    _set_missing_apart(matched, allow_missing_head)
    return matched


def _named(stored: Mapping[str, Tensor], family: Family, expected: set[str]) -> dict[str, Tensor]:
    """Return the weights of a folder under their names in the class; buffers are dropped."""
    weights: dict[str, Tensor] = {}
    for found, weight in stored.items():
        if _BUFFERS.search(found) or any(re.fullmatch(pattern, found) for pattern in family.buffers):
            continue
        name = found
        for old, new in family.renamed.items():
            name = re.sub(old, new, name)
        if name not in expected and family.prefix + name in expected:
            name = family.prefix + name
        if name in weights:
            raise ArtifactError(f"the folder has the weight {name} under two names", where=WEIGHTS, got=found)
        weights[name] = weight
    return weights


def _drop_copies(weights: dict[str, Tensor], family: Family) -> None:
    """Drop the second copy of a tied weight, which some Hugging Face folders keep."""
    for copy, name in family.copies.items():
        if copy in weights and name in weights:
            if not torch.equal(weights[copy], weights[name]):
                raise ArtifactError(
                    f"{copy} differs from {name}",
                    where=WEIGHTS,
                    expected="equal weights, because the config ties the two weights",
                )
            del weights[copy]


def _leave_behind(matched: _Matched, family: Family, expected: Collection[str]) -> None:
    """Leave out weights of a folder that a language model does not use; note their names."""
    patterns, others = (*family.unused, _TASK_HEADS), matched.weights.keys() - expected
    unused = sorted(name for name in others if any(re.fullmatch(pattern, name) for pattern in patterns))
    for name in unused:
        del matched.weights[name]
    if unused:
        matched.notes.append(f"the language model does not use some weights, so they are left out: {', '.join(unused)}")


def _set_missing_apart(matched: _Matched, allow_missing_head: bool) -> None:
    """Set apart the weights that the folder does not have: those of the output head, where that is allowed."""
    absent = sorted({name for entry in matched.entries for name in entry.theirs} - matched.weights.keys())
    if not absent:
        return
    missing = [entry for entry in matched.entries if not set(entry.theirs) <= matched.weights.keys()]
    only_head = all(entry.of_head for entry in missing)
    if not (only_head and allow_missing_head):
        hint = "the folder has a model without its output head" if only_head else None
        raise ArtifactError(f"{len(absent)} weights are missing; the first is {absent[0]}", where=WEIGHTS, hint=hint)
    matched.missing = missing
    matched.entries = [entry for entry in matched.entries if entry not in missing]
    matched.notes.append(
        f"the folder does not have some weights, so they are initialised at random: {', '.join(absent)}"
    )


def _settle_positions(matched: _Matched, config: ModelConfig) -> ModelConfig:
    """Return the config with learned positions if the sinusoidal table has changed: other programs train the table on."""
    entry = next((entry for entry in matched.entries if entry.ours == _POSITION_TABLE), None)
    if entry is None:  # our own format keeps no table
        return config
    stored, table = matched.weights[entry.theirs[0]], sinusoidal_table(config.max_len, config.dim)
    if stored.shape == table.shape and torch.allclose(stored.float(), table, rtol=0.0, atol=_POSITION_TOLERANCE):
        matched.entries.remove(entry)
        return config
    matched.notes.append(
        "training changed the table of sinusoidal positions, so the table is read as learned positions"
    )
    return replace(config, positions="learned")


def _check_shapes(matched: _Matched, config: ModelConfig, make: "Callable[[ModelConfig], Transformer]") -> None:
    """Compare a folder's stored weights with those of a model without memory: config.json may state any size.

    Raises:
        ArtifactError: a weight is of another shape, or more positions are stated than any model has.
    """
    if config.max_len > _MAX_POSITIONS or (
        config.positions == "sinusoidal" and config.max_len * config.dim > _MAX_TABLE
    ):
        raise ArtifactError(
            "the model has more positions than wordpipe supports", where=CONFIG, got=f"{config.max_len:,}"
        )
    with without_memory():
        weights = dict(make(config).named_parameters())
    for entry in matched.entries:
        for name, part, factor in _parts(weights[entry.ours], entry) if entry.ours in weights else ():
            if (stored := matched.weights[name]).shape != (wanted := _stored(part, factor, entry)).shape:
                got, expected = (f"{tuple(one.shape)}" for one in (stored, wanted))
                what = f"the weight {name} has the wrong shape"
                raise ArtifactError(what, where=WEIGHTS, got=got, expected=f"{expected}, as {CONFIG} says")


@torch.no_grad()
def _fill(weights: dict[str, Tensor], matched: _Matched) -> None:
    """Copy every stored weight of a folder to its place; note other types than float32."""
    found = {entry.ours for entry in (*matched.entries, *matched.missing)}
    assert found == weights.keys(), found ^ weights.keys()  # a weight that nothing fills is uninitialised memory
    # each part is copied to its place, and is finite there
    types = set()
    for entry in matched.entries:
        for name, part, factor in _parts(weights[entry.ours], entry):
            stored = matched.weights[name]
            # in our shape, without rows that no position uses
            fits = entry.shape and stored.shape == entry.shape
            ours = (stored.reshape(part.shape) if fits else stored)[entry.empty_rows :]
            if ours.shape != part.shape or stored.dtype not in _TYPES:
                raise ArtifactError(
                    f"the weight {name} has the wrong shape or type",
                    where=WEIGHTS,
                    got=f"{tuple(stored.shape)} {stored.dtype}",
                    expected=f"{tuple(part.shape)} torch.float32",
                )
            # as our number, which may be theirs times a factor
            types.add(stored.dtype)
            part.copy_(ours)
            if factor != 1.0:
                part.div_(factor)
            if not torch.isfinite(part).all():
                raise ArtifactError(
                    f"the weight {name} has numbers that are not finite", where=WEIGHTS, hint="train the model again"
                )
    # a note on types that were converted
    others = sorted(str(kind).removeprefix("torch.") for kind in types - {torch.float32})
    if others:
        matched.notes.append(f"weights stored as {' and '.join(others)} were converted to float32")


def _parts(weight: Tensor, entry: Entry) -> list[tuple[str, Tensor, float]]:
    """Return views of our weight in the shape of theirs: name, view, and the factor from ours to theirs."""
    turned = weight.T if entry.transposed else weight
    parts = torch.split(turned, list(entry.rows), dim=int(entry.transposed)) if entry.rows else (turned,)
    return list(zip(entry.theirs, parts, entry.factors or (1.0,) * len(parts), strict=True))


def _stored(part: Tensor, factor: float, entry: Entry) -> Tensor:
    """Return a part as the folder keeps it, with memory of its own: safetensors refuses shared memory."""
    kept = (part if factor == 1.0 else part * factor).clone().contiguous()
    if entry.empty_rows:
        kept = torch.cat((kept.new_zeros(entry.empty_rows, *kept.shape[1:]), kept))
    return kept.reshape(entry.shape) if entry.shape else kept
