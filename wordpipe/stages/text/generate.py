"""`wordpipe generate`: texts continued by a decoder. Those that an encoder-decoder writes are in `targets`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from wordpipe.errors import ConfigError
from wordpipe.model import Generation, NewToken
from wordpipe.model.settings import GenerateSettings
from wordpipe.runtime import Stopwatch, torch_threads
from wordpipe.stages.calls import printable, public
from wordpipe.stages.job import PathLike, storage_errors
from wordpipe.stages.models import OpenModel, open_model
from wordpipe.stages.text.targets import TargetWriter, which_sources
from wordpipe.tokens import TextStream

Stopping = Literal["eos", "length", "string"]
_SHARE_OF_ANSWER = 8  # of the positions of a decoder that answers one in so many is kept free for the answer


@dataclass(frozen=True)
class Generated:
    """One continuation, or one target of a source text.

    Attributes:
        prompt: what was continued, or the source.
        text: what the model added; a stop string is no part of it.
        tokens: how many tokens that are, the stop token included.
        logprob: their mean log-probability (natural) under the model itself, before temperature and all else: minus its loss.
        stopped: by the stop token, by the number of tokens (or of the model's positions), or by a stop string.
        cut: tokens at the beginning of the prompt, or at the end of the source (or of the first text of a pair), that were not
            read, because the model is shorter.
        slid: how often the model's positions were full and the last half of them was read anew.
    """

    prompt: str
    text: str
    tokens: int
    logprob: float
    stopped: Stopping
    cut: int = 0
    slid: int = 0


class Writing:
    """The continuation of one prompt, as often as the settings say.

    Args:
        opened: a decoder.
        prompt: may be empty where the model has a token that begins texts.
        settings: how.

    Attributes:
        prompt: as printable text.
        answers: what comes is a text of its own, and not the rest of the prompt's.
        cut: tokens of the prompt that were not read, because the model is shorter.
        texts: the number of a sample and the text that it gained, as it comes: whole characters, stop strings never begun.
        tokens: sampled so far, over all samples.
        seconds: spent on them; the first includes reading the prompt.

    Raises:
        ArtifactError: the model is an encoder.
        ConfigError: an empty prompt, and a model without a token to begin with; a setting of searches; or no such device.
        DivergedError: from `texts`: the model's logits are not finite.
    """

    def __init__(self, opened: OpenModel, prompt: str, settings: GenerateSettings) -> None:
        opened.need("decoder")
        settings = settings.of_decoder()
        opened.move_to(settings.device)
        self.answers = opened.answers
        self.prompt, self._settings = printable((settings.prefix or "") + prompt), settings
        self._stop_id = opened.special.get("eos")
        ids, cut = _prompt_ids(opened, self.prompt, settings.chosen_max_tokens)
        self._generation = Generation(
            opened.language_model, ids, settings, allowed_V=opened.tokens_that_come("eos"), stop_id=self._stop_id,
            slides=not self.answers,
        )  # fmt: skip
        self.cut = cut + self._generation.n_cut
        self._n_prompt, self._max_len = len(ids), opened.max_len
        follows = () if self.answers else ids
        self._streams = [TextStream(opened.tokenizer, follows, settings.stop) for _ in range(settings.samples)]
        self._logprobs: list[list[float]] = [[] for _ in range(settings.samples)]
        self._stopped: list[Stopping] = ["length"] * settings.samples
        self.tokens, self.seconds = 0, 0.0
        self.texts = self._continue()

    def results(self) -> list[Generated]:
        """All samples, each at its end."""
        for _ in self.texts:
            pass
        return [
            Generated(
                self.prompt,
                stream.text,
                tokens=len(logprobs),
                logprob=sum(logprobs) / len(logprobs),
                stopped=stopped,
                cut=self.cut,
                slid=self._generation.n_slides,
            )
            for stream, logprobs, stopped in zip(self._streams, self._logprobs, self._stopped, strict=True)
        ]

    @property
    def outgrown(self) -> bool:
        """Whether an answer was stopped because the model has no more positions."""
        return self._generation.outgrown

    @property
    def notes(self) -> list[str]:
        """Sentences for the user: what was cut or left behind because the model is shorter."""
        if self.answers:
            return answer_notes(self._max_len, 1, int(self.cut > 0), self.cut, int(self.outgrown))
        found = []
        if self.cut:
            found.append(
                f"the prompt has {self._n_prompt:,} tokens and the model reads {self._max_len:,}: the first {self.cut:,} were "
                "cut"
            )
        if slid := self._generation.n_slides:
            found.append(
                f"the text outgrew the model's {self._max_len:,} positions; {'once' if slid == 1 else f'{slid} times'} it "
                f"went on from the last {max(1, self._max_len // 2):,} tokens alone"
            )
        return found

    def _continue(self) -> Iterator[tuple[int, str]]:
        steps = self._generation.steps()
        while tokens := self._step(steps):
            for token in tokens:
                if text := self._text_of(token):
                    yield token.sample, text
        for sample, stream in enumerate(self._streams):
            if text := stream.end():
                yield sample, text

    def _step(self, steps: Iterator[list[NewToken]]) -> list[NewToken]:
        clock = Stopwatch()
        with storage_errors(), torch_threads(self._settings.threads):
            tokens = next(steps, [])
        self.seconds += clock.seconds
        self.tokens += len(tokens)
        return tokens

    def _text_of(self, token: NewToken) -> str:
        """The text that a sample gains by its new token; stops the sample where this ends it."""
        self._logprobs[token.sample].append(token.logprob)
        if token.token_id == self._stop_id:
            self._stopped[token.sample] = "eos"
            return ""
        stream = self._streams[token.sample]
        text = stream.add(token.token_id)
        if stream.stopped:
            self._stopped[token.sample] = "string"
            self._generation.finish(token.sample)
        return text


@public(GenerateSettings)
def generate(model: PathLike | OpenModel, prompt: str, *, verify: bool = True, **settings: Any) -> list[Generated]:
    """Continue a text with a decoder; write the target text of a source text with an encoder-decoder.

    Many sources go through `TargetWriter(open_model(PATH), GenerateSettings(…)).stream(texts)`, with their scores.

    Args:
        model: a model artifact, a folder of transformers, or one that `open_model` has opened.
        prompt: the text's beginning, which may be empty; or the source.
        verify: check the artifact's hashes first.
        settings: fields of `GenerateSettings`.

    Returns:
        One continuation per sample; of a source the best targets, the best first, or one per sample.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> _ = wordpipe.train_clm("run/tokens", output="new/clm", preset="tiny", steps=2, seq_len=64)
        >>> found = wordpipe.generate("new/clm", "The sea", max_tokens=5, samples=2)
        >>> [len(one.text) > 0 for one in found]
        [True, True]
    """
    chosen = GenerateSettings.make(settings)
    opened = model if isinstance(model, OpenModel) else open_model(model, verify=verify)
    if not opened.writes_targets:
        return Writing(opened, prompt, chosen).results()
    (written,) = TargetWriter(opened, chosen).write([prompt])
    return [
        Generated(
            written.source,
            target.text,
            tokens=target.tokens,
            logprob=target.logprob / max(1, target.tokens),
            stopped="eos" if target.finished else "length",
            cut=written.cut,
        )
        for target in written.targets
    ]


def answer_notes(max_len: int, sources: int, shortened: int, cut: int, outgrown: int, empty: int = 0) -> list[str]:
    """Sentences for the user about a decoder that answers: first texts that were cut, and answers that were stopped.

    Args:
        max_len: positions of the model, of a first text and its answer together.
        sources: first texts.
        shortened: those that were cut.
        cut: tokens at their ends that were not read.
        outgrown: those whose answer was stopped because the positions were full.
        empty: those without a letter.
    """
    found = []
    if shortened:
        found.append(
            f"{which_sources(shortened, sources)} too long for the model's {max_len:,} positions with room for an answer: "
            f"{cut:,} tokens at the end were not read"
        )
    if outgrown:
        which = "the answer" if sources == 1 else f"of {outgrown:,} of {sources:,} sources the answer"
        found.append(f"{which} was stopped where source and answer fill the model's {max_len:,} positions")
    if empty and sources > 1:
        found.append(f"{which_sources(empty, sources)} empty, and so are their answers")
    return found


def _prompt_ids(opened: OpenModel, prompt: str, max_tokens: int) -> tuple[list[int], int]:
    """The ids that came before every text in training, and the text's; none after it, or the text would be at its end.

    Only the first text of a pair is at its end, and the second begins. Such a text is cut at its end, between its marks, where
    it leaves less than an eighth of the positions to an answer of so many tokens; how many ids that are comes second.
    """
    if opened.answers:
        ids, frame = opened.encode(prompt), len(opened.before) + len(opened.after)
        least = min(max_tokens, max(1, opened.max_len // _SHARE_OF_ANSWER))
        read = ids[: max(0, opened.max_len - frame - least + 1)]  # the last token that is written is not read
        return [*opened.before, *read, *opened.after], len(ids) - len(read)
    ids = [*opened.before, *opened.encode(prompt)]
    if not ids and "bos" in opened.special:
        ids = [opened.special["bos"]]
    if not ids:
        raise ConfigError("the prompt is empty, and the model has no token that begins a text", hint="give some words")
    return ids, 0
