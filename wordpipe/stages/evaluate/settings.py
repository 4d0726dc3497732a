"""Settings of `wordpipe evaluate seq2seq`. Imports nothing heavy."""

from typing import Literal

from wordpipe.model.settings import Device, GenerateSettings
from wordpipe.settings import Settings, checked, setting


class Seq2SeqEvaluationSettings(Settings):
    """Settings of reading pairs, of writing target texts, and of measuring both."""

    command = "evaluate seq2seq"

    text_field: str = setting(
        "", "field that holds the source text; without it text, or the first column of a tsv file without a header",
        metavar="NAME", section="Pairs",
    )  # fmt: skip
    text_b: tuple[str, ...] = setting(
        (), "field that holds the target text; without it text_b, or the second column; may be repeated: more references",
        metavar="NAME",
    )  # fmt: skip
    split: Literal["train", "valid", "test", "all"] | None = setting(
        None, "part of a corpus to evaluate on; without it what is held out: valid, else test, else all"
    )
    prefix: str | None = setting(
        None,
        "put before every source text; without it what the model was trained with",
        metavar="STRING",
        section="Tasks",
        prose=True,
    )
    prefix_field: str = setting(
        "", "field whose value is put before each source text, without it that of the training; figures for each of its "
        "values too", metavar="NAME",
    )  # fmt: skip
    beams: int = setting(
        5, "target texts that are followed at a time; 1 takes the most probable token each time (greedy)", ge=1, le=1000,
        section="How target texts are found",
    )  # fmt: skip
    length_penalty: float = setting(
        1.0,
        "exponent of the length by which the score of a target text is divided; above 0 longer ones gain",
        ge=-10,
        le=10,
        expert=True,
    )
    length_penalty_by: Literal["hf", "gnmt"] = setting(
        "hf", "what the exponent is of: the tokens (transformers), or (5 + tokens) / 6 (GNMT)", expert=True
    )
    max_tokens: int | None = setting(
        None,
        "tokens after which a target text is unfinished, where the model does not end it before; without it twice those of "
        "the source and 20, at most the model's positions",
        ge=1,
        le=10**6,
        expert=True,
    )
    min_tokens: int = setting(0, "tokens before a target text may end", ge=0, le=10**6, expert=True)
    no_repeat_ngram: int = setting(0, "no run of this many tokens comes twice, 0 = off", ge=0, le=1000, expert=True)
    device: Device = setting("auto", "where the model runs; auto takes the fastest there is")
    threads: int = setting(0, "CPU threads, 0 = one per core", ge=0, le=1024, expert=True)
    draws: int = setting(
        1_000, "draws of the bootstrap, from which intervals and p come; 0 leaves them out", ge=0, le=10**6,
        section="What is shown", expert=True,
    )  # fmt: skip
    seed: int = setting(1, "seed of the bootstrap and of the choice of samples", ge=0, lt=2**32, expert=True)
    samples: int = setting(0, "pairs to show with what was written, chosen by the seed", ge=0, le=10_000)

    def generation(self, prefix: str | None) -> GenerateSettings:
        """Return the settings of a writer of target texts with this prefix.

        Raises:
            ConfigError: settings that do not go together.
        """
        names = ("beams", "length_penalty", "length_penalty_by", "max_tokens", "min_tokens", "no_repeat_ngram")
        given = {name: getattr(self, name) for name in (*names, "device", "threads")}
        return GenerateSettings.make(given | {"prefix": prefix})

    @checked
    def _one_prefix(self) -> None:
        if self.prefix is not None and self.prefix_field:
            raise ValueError(
                "prefix is the same for all sources, prefix_field has one for each: give prefix or prefix_field"
            )


class PredictionsEvaluationSettings(Settings):
    """Settings of reading labelled texts, and of measuring a model's answers."""

    command = "evaluate predictions"

    text_field: str = setting(
        "", "field that holds the text; without it text", metavar="NAME", section="Labelled texts of files",
    )  # fmt: skip
    text_b: str = setting("", "field that holds the second text of a pair; without it text_b", metavar="NAME")
    label_field: str = setting(
        "", "field that holds what is right; without it label, of taggers tags, of readers spans", metavar="NAME"
    )
    split: Literal["train", "valid", "test", "all"] | None = setting(
        None,
        "part of a corpus to evaluate on; without it test where it has one, else what the model has not learned from",
    )
    device: Device = setting("auto", "where the model runs; auto takes the fastest there is")
    threads: int = setting(0, "CPU threads, 0 = one per core", ge=0, le=1024, expert=True)
    draws: int = setting(
        1_000, "draws of the bootstrap, from which intervals and p come; 0 leaves them out", ge=0, le=10**6,
        section="What is shown", expert=True,
    )  # fmt: skip
    seed: int = setting(1, "seed of the bootstrap", ge=0, lt=2**32, expert=True)
