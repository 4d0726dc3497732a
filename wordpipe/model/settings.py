"""Settings of `wordpipe generate` and `wordpipe fill`. Imports nothing heavy."""

from typing import Literal, Self

from pydantic import model_validator

from wordpipe.settings import Settings, setting

Device = Literal["auto", "cpu", "cuda", "mps"]
_DEVICE = setting("auto", "where the model runs; auto takes the fastest there is")
_THREADS = setting(0, "CPU threads, 0 = one per core", ge=0, le=1024, expert=True)


class GenerateSettings(Settings):
    """Settings of the continuation of a text."""

    command = "generate"

    max_tokens: int = setting(
        100, "tokens after which a text ends, where the model does not end it before", ge=1, le=10**6
    )
    temperature: float = setting(
        0.8,
        "logits are divided by it: below 1 the likely tokens gain, 0 = always the most probable one (greedy)",
        ge=0,
        le=100,
    )
    top_k: int = setting(0, "sample from this many of the most probable tokens, 0 = all", ge=0, le=10**6)
    # Holtzman et al. 2020, table 1: text sampled so is about as surprising as people's (perplexity 13.1 and 12.4)
    top_p: float = setting(
        0.95, "sample from the fewest tokens that together have this probability, 1 = all (nucleus)", gt=0, le=1
    )
    repetition_penalty: float = setting(
        1.0,
        "logits of tokens that are in the text are divided by it (multiplied where negative), 1 = off",
        gt=0,
        le=100,
        expert=True,
    )
    no_repeat_ngram: int = setting(0, "no run of this many tokens comes twice, 0 = off", ge=0, le=1000, expert=True)
    stop: tuple[str, ...] = setting((), "end the text before this string; may be repeated", metavar="STRING")
    samples: int = setting(1, "texts to make of a prompt", ge=1, le=10_000)
    beams: int = setting(1, "target texts of an encoder-decoder that are followed at a time", ge=1, le=1000)
    length_penalty: float = setting(
        1.0,
        "exponent of the length by which the score of a target text is divided; above 0 longer ones gain",
        ge=-10,
        le=10,
    )
    length_penalty_by: Literal["hf", "gnmt"] = setting(
        "hf", "what the exponent is of: the tokens (transformers), or (5 + tokens) / 6 (GNMT)", expert=True
    )
    n_best: int = setting(1, "target texts of each source text, of those that the beams found", ge=1, le=1000)
    min_tokens: int = setting(0, "tokens before a target text may end", ge=0, le=10**6, expert=True)
    prefix: str = setting("", "put before every source text, as in training")
    seed: int = setting(1, "seed of the sampling: the same seed gives the same text", ge=0, lt=2**32)
    device: Device = _DEVICE
    threads: int = _THREADS

    @model_validator(mode="after")
    def _stops_are_strings(self) -> Self:
        if "" in self.stop:
            raise ValueError("stop = '' would end every text before it begins")
        return self


class FillSettings(Settings):
    """Settings of the filling of masked positions."""

    command = "fill"

    top_k: int = setting(5, "candidates for each mask", ge=1, le=10**6)
    device: Device = _DEVICE
    threads: int = _THREADS
