"""Settings of `wordpipe evaluate seq2seq`. Imports nothing heavy."""

from typing import Literal

from wordpipe.model.settings import Device, GenerateSettings
from wordpipe.settings import Settings, checked, setting


class Seq2SeqEvaluationSettings(Settings):
    """Settings of reading pairs, of writing target texts, and of measuring both."""

    command = "evaluate seq2seq"

    text_field: str = setting(
        "", "field of the source text; default: text, or the first column of a tsv file without a header",
        metavar="NAME", section="Pairs",
    )  # fmt: skip
    text_b: tuple[str, ...] = setting(
        (), "field of the target text; default: text_b, or the second column; repeat the option for more references",
        metavar="NAME",
    )  # fmt: skip
    split: Literal["train", "valid", "test", "all"] | None = setting(
        None, "part of the corpus to evaluate on; default: the first of valid, test and all that exists"
    )
    prefix: str | None = setting(
        None,
        "text put before every source text; default: the prefix used in training",
        metavar="STRING",
        section="Tasks",
        prose=True,
    )
    prefix_field: str = setting(
        "", "field whose value is put before each source text; default: the field used in training; figures are also "
        "shown for each value", metavar="NAME",
    )  # fmt: skip
    beams: int = setting(
        5, "number of beams in beam search; 1: always the most probable token (greedy search)", ge=1, le=1000,
        section="Search for target texts",
    )  # fmt: skip
    length_penalty: float = setting(
        1.0,
        "exponent of the length; the score of a target text is divided by length^exponent; above 0 favours longer texts",
        ge=-10,
        le=10,
        expert=True,
    )
    length_penalty_by: Literal["hf", "gnmt"] = setting(
        "hf",
        "definition of length for --length-penalty; hf: number of tokens, as in transformers; gnmt: (5 + tokens) / 6",
        expert=True,
    )
    max_tokens: int | None = setting(
        None,
        "maximum number of tokens of a target text; a longer text is cut and counts as unfinished; default: twice the "
        "tokens of the source plus 20, but at most the positions of the model",
        ge=1,
        le=10**6,
        expert=True,
    )
    min_tokens: int = setting(0, "minimum number of tokens of a target text", ge=0, le=10**6, expert=True)
    no_repeat_ngram: int = setting(
        0, "no sequence of this many tokens may occur twice in a target text; 0 = off", ge=0, le=1000, expert=True
    )
    device: Device = setting("auto", "device that runs the model; auto: the fastest available")
    threads: int = setting(0, "CPU threads, 0 = one per core", ge=0, le=1024, expert=True)
    draws: int = setting(
        1_000, "number of bootstrap samples for intervals and p; 0 = no intervals and no p", ge=0, le=10**6,
        section="What is shown", expert=True,
    )  # fmt: skip
    seed: int = setting(1, "seed of the bootstrap and of the choice of samples", ge=0, lt=2**32, expert=True)
    samples: int = setting(
        0, "number of pairs to show with the texts that the models wrote; --seed chooses the pairs", ge=0, le=10_000
    )

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
                "give prefix (one text for all sources) or prefix_field (a prefix for each source), not both"
            )


class PredictionsEvaluationSettings(Settings):
    """Settings of reading labelled texts, and of measuring a model's answers."""

    command = "evaluate predictions"

    text_field: str = setting(
        "", "field of the text; default: text", metavar="NAME", section="Labelled texts of files",
    )  # fmt: skip
    text_b: str = setting("", "field of the second text of a pair; default: text_b", metavar="NAME")
    label_field: str = setting(
        "", "field of the right answers; default: label; tags for a tagger, spans for a reader", metavar="NAME"
    )
    split: Literal["train", "valid", "test", "all"] | None = setting(
        None,
        "part of the corpus to evaluate on; default: test; without a part test: valid, if the model was trained on "
        "this corpus, else all",
    )
    device: Device = setting("auto", "device that runs the model; auto: the fastest available")
    threads: int = setting(0, "CPU threads, 0 = one per core", ge=0, le=1024, expert=True)
    draws: int = setting(
        1_000, "number of bootstrap samples for intervals and p; 0 = no intervals and no p", ge=0, le=10**6,
        section="What is shown", expert=True,
    )  # fmt: skip
    seed: int = setting(1, "seed of the bootstrap", ge=0, lt=2**32, expert=True)
