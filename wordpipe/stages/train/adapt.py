"""`wordpipe train contrastive --init` of an imported encoder: its weights rest, and a linear layer learns one's own text.

What is learned is a layer behind the pooling (`training/contrastive/linear_map.py`): titles and sentences of the corpus find
the passages that they stand in. The folder is that of the encoder with one more Dense layer, so everything that reads it, and
sentence-transformers, goes on to do so.
"""

import re
from itertools import islice

import numpy as np
from safetensors.numpy import load

from wordpipe.artifacts import MANIFEST, TOKENIZER, WEIGHTS_FILE, Artifact, parse_json_object
from wordpipe.encoders import LAYERS_FILE, UNKNOWN_PAIRS, Layer, Layers, sentence_transformers_files
from wordpipe.errors import ArtifactError, InputError
from wordpipe.model import config_from_hf
from wordpipe.runtime import torch_threads
from wordpipe.stages.job import Job
from wordpipe.stages.train.distil import Reading, opened_teacher, passages
from wordpipe.stages.train.run import corpus_of
from wordpipe.tokens import open_tokenizer
from wordpipe.training.contrastive import STEPS, Learned, learned_map
from wordpipe.training.contrastive.settings import ContrastiveSettings

_PASSAGES, _SPANS = 5_000, 10_000  # at most, evenly spread
_LEAST_WORDS = 3  # of a span
_LEAST_PASSAGES = 40  # fewer say nothing
_MODULES = re.compile(r"\d+_|modules\.json|config_sentence_transformers\.json|sentence_bert_config\.json")
_CONFIG = "config.json"


def adapt(job: Job, source: Artifact, settings: ContrastiveSettings) -> None:
    """Teach a linear layer behind an encoder, and write the model's folder.

    Args:
        job: the encoder and the corpus become its inputs.
        source: the tokens, which stand for their corpus; their tokenizer need not be the encoder's.
        settings: `init`, `steps`, `seed`, `threads`, `device`.

    Raises:
        ArtifactError: no corpus that fits the tokens; a model that is no transformer encoder.
        InputError: too little text.
    """
    assert settings.init is not None
    origin = job.open_input(settings.init, ["model"])
    if origin.manifest.facts.get("encoder") != "transformer":
        hint = "import an encoder with wordpipe import FOLDER"
        raise ArtifactError("this model is not a transformer encoder", where=origin.path, hint=hint)
    corpus = corpus_of(job, source, what="the texts for the encoder")
    # the texts, each read once
    total = sum(1 for _ in passages(corpus))
    if total < _LEAST_PASSAGES:
        got, expected = f"{total} passages of about 128 words", f"at least {_LEAST_PASSAGES}"
        raise InputError(
            "there is too little text for the encoder to learn from", where=corpus.path, got=got, expected=expected
        )
    chosen = [*islice(passages(corpus), 0, None, -(-total // _PASSAGES))]
    spans = [
        (part, number)
        for number, parts in enumerate(chosen)
        for part in parts
        if len(parts) > 1 and part.count(" ") + 1 >= _LEAST_WORDS  # the whole passage finds itself
    ]
    spans = spans[:: max(1, -(-len(spans) // _SPANS))]
    read = Reading(job, opened_teacher(origin, settings.threads, settings.device), len(spans) + len(chosen))
    job.note(f"the encoder reads {len(chosen):,} passages, and {len(spans):,} titles and sentences of these passages")
    passages_PD = read([" ".join(parts) for parts in chosen])
    spans_ND = read([span for span, _ in spans], as_queries=True)
    # the layer
    steps = settings.steps or STEPS
    with torch_threads(settings.threads):
        learned = learned_map(
            spans_ND, np.array([number for _, number in spans], np.int64), passages_PD, settings.seed, steps,
            lambda step, _: job.report("training", step, steps, "steps"),
        )  # fmt: skip
    job.counts |= {"passages": len(chosen), "spans": len(spans), "steps": learned.steps}
    job.metrics |= {"held_out_before": round(learned.before, 6), "held_out_after": round(learned.after, 6)}
    found = f"mean reciprocal rank of held-out sentences' passages: {learned.before:.3f}"
    if learned.matrix is None:
        why = f"{found}, and no layer was better by more than chance ({learned.error:.3f})"
        why = (
            why if spans else "no passage has a title or more than one sentence, so that there is nothing to learn from"
        )
        job.warn(f"{why}. The encoder stays as it is")
    else:
        job.note(f"{found} without the layer, {learned.after:.3f} with it, after {learned.steps} steps")
    _write(job, origin, learned, settings)


def _write(job: Job, origin: Artifact, learned: Learned, settings: ContrastiveSettings) -> None:
    """Write the folder of the adapted encoder: that of the encoder, and the layer."""
    facts, names = dict(origin.manifest.facts), {*origin.names()}
    layers = Layers.from_bytes(origin.read(LAYERS_FILE)) if LAYERS_FILE in names else Layers()
    if learned.matrix is not None:
        layers = Layers((*layers.layers, Layer("dense", np.ascontiguousarray(learned.matrix.T))))
    for name in sorted(names - {MANIFEST, LAYERS_FILE}):
        if _MODULES.match(name) is None:
            job.write(name, origin.read(name))
    if layers.layers:
        job.write(LAYERS_FILE, layers.to_bytes())
    if facts.get("transformers") is not None:
        weights = load(origin.read(WEIGHTS_FILE))["weights"] if WEIGHTS_FILE in names else None
        tokenizer = open_tokenizer(origin.read(TOKENIZER), where=str(origin.path / TOKENIZER))
        ids = range(0 if weights is None else len(weights))
        tokens = [tokenizer.id_to_token(number) or f"[unused{number}]" for number in ids]
        prompts = {role: str(facts[f"{role}_prompt"]) for role in ("text", "query") if facts.get(f"{role}_prompt")}
        _, config = config_from_hf(parse_json_object(origin.read(_CONFIG), _CONFIG))
        files = sentence_transformers_files(
            "transformer", dim=config.dim, pooling=str(facts.get("pooling", "mean")), max_len=int(facts["max_len"]),
            weights_V=weights, tokens=tokens, layers=layers, prompts=prompts,
        )  # fmt: skip
        for name, content in files.items():
            job.write(name, content)
    before = [kind for kind in facts.get("pairs", ()) if kind == UNKNOWN_PAIRS]  # it keeps what it knew
    job.facts |= facts | {
        "goal": settings.goal,
        "objective": "contrast",
        "pairs": [*before, "crop", "title"],
        "tuned": "map",
    }
    job.counts |= {name: count for name, count in origin.manifest.counts.items() if name == "parameters"}
