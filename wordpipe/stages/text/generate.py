"""`wordpipe generate` and `wordpipe fill`: texts continued by a decoder, masked positions filled by an encoder.

What an encoder-decoder does with these commands is in `targets` and `denoised`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.model import Generation, NewToken, most_probable, span_of_masks
from wordpipe.model.settings import FillSettings, GenerateSettings
from wordpipe.runtime import Stopwatch, torch_threads
from wordpipe.stages.calls import printable, public
from wordpipe.stages.job import PathLike, storage_errors
from wordpipe.stages.models import OpenModel, open_model
from wordpipe.stages.text.targets import TargetWriter
from wordpipe.tokens import MaskTokenizer, TextStream

Stopping = Literal["eos", "length", "string"]


@dataclass(frozen=True)
class Generated:
    """One continuation, or one target of a source text.

    Attributes:
        prompt: what was continued, or the source.
        text: what the model added; a stop string is no part of it.
        tokens: how many tokens that are, the stop token included.
        logprob: their mean log-probability (natural) under the model itself, before temperature and all else: minus its loss.
        stopped: by the stop token, by the number of tokens, or by a stop string.
        cut: tokens at the beginning of the prompt, or at the end of the source, that were not read, because the model is
            shorter.
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
        self.prompt, self._settings = printable((settings.prefix or "") + prompt), settings
        self._stop_id = opened.special.get("eos")
        ids, allowed_V = _prompt_ids(opened, self.prompt), opened.tokens_that_come("eos")
        self._generation = Generation(opened.language_model, ids, settings, allowed_V=allowed_V, stop_id=self._stop_id)
        self._n_prompt, self._max_len = len(ids), opened.max_len
        self._streams = [TextStream(opened.tokenizer, ids, settings.stop) for _ in range(settings.samples)]
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
                cut=self._generation.n_cut,
                slid=self._generation.n_slides,
            )
            for stream, logprobs, stopped in zip(self._streams, self._logprobs, self._stopped, strict=True)
        ]

    @property
    def notes(self) -> list[str]:
        """Sentences for the user: what was cut or left behind because the model is shorter."""
        found = []
        if cut := self._generation.n_cut:
            found.append(
                f"the prompt has {self._n_prompt:,} tokens and the model reads {self._max_len:,}: the first {cut:,} were cut"
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

    Many sources go through `TargetWriter`, in batches and with their scores.

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


def _prompt_ids(opened: OpenModel, prompt: str) -> list[int]:
    """The ids that came before every text in training, and the text's; none after it, or the text would be at its end."""
    ids = [*opened.before, *opened.encode(prompt)]
    if not ids and "bos" in opened.special:
        ids = [opened.special["bos"]]
    if not ids:
        raise ConfigError("the prompt is empty, and the model has no token that begins a text", hint="give some words")
    return ids


@dataclass(frozen=True)
class Candidate:
    """One token for one masked position.

    Attributes:
        mask: number of the masked position, from 1.
        rank: from 1, the most probable.
        token: as text; with the space before it where the vocabulary has it.
        probability: its share among all tokens that text is made of.
        filled: the text with it in this position, and the most probable tokens in the others.
    """

    mask: int
    rank: int
    token: str
    probability: float
    filled: str


@dataclass(frozen=True)
class Filled:
    """A text with its masked positions filled.

    Attributes:
        text: with the masks.
        filled: with the most probable token in every masked position.
        masks: for each masked position its candidates, the most probable first; all others were masked, too.
        cut: tokens of the text that were not read, because the model is shorter; masked positions are always read.
    """

    text: str
    filled: str
    masks: list[list[Candidate]]
    cut: int = 0


class Filler:
    """An encoder that fills masked positions.

    Args:
        opened: an encoder.
        settings: how.

    Attributes:
        mask: the mask as it is written in a text.
        max_len: positions of the model.

    Raises:
        ArtifactError: the model is a decoder, or its tokenizer has no mask.
        ConfigError: no such device.
    """

    def __init__(self, opened: OpenModel, settings: FillSettings) -> None:
        opened.need("encoder")
        opened.move_to(settings.device)
        if "mask" not in opened.special:
            raise ArtifactError("the tokenizer has no mask, so no position can be masked", where=opened.path)
        self._opened, self._settings = opened, settings
        self._mask_id, self.max_len = opened.special["mask"], opened.max_len
        self.mask = str(opened.tokenizer.id_to_token(self._mask_id))
        self._masked = MaskTokenizer(opened.tokenizer, self.mask, self._mask_id)
        self._allowed_V = opened.tokens_that_come()

    def fill(self, text: str) -> Filled:
        """Fill the masked positions of one text.

        Raises:
            InputError: no mask in it, or masks too far apart for the model.
            DivergedError: the model's logits are not finite.
        """
        text = printable(text)
        if self.mask not in text:
            raise InputError(
                "there is nothing to fill",
                got=repr(text[:80]),
                hint=f'write {self.mask} for what is missing: "the {self.mask}"',
            )
        ids, cut = self._cut(self._masked.ids(text))
        sequence = [*self._opened.before, *ids, *self._opened.after]
        positions = [position for position, number in enumerate(sequence) if number == self._mask_id]
        with storage_errors(), torch_threads(self._settings.threads):
            ids_KC, shares_KC = most_probable(
                self._opened.language_model, sequence, positions, self._allowed_V, self._settings.top_k
            )
        return self._result(text, ids_KC.tolist(), shares_KC.tolist(), cut)

    def _cut(self, ids: list[int]) -> tuple[list[int], int]:
        """The part that the model has room for, with all masks in it, and how many ids are not in it."""
        room = self.max_len - len(self._opened.before) - len(self._opened.after)
        positions = [position for position, number in enumerate(ids) if number == self._mask_id]
        span = span_of_masks(positions, len(ids), room)
        if span is None:
            raise InputError(
                "the masks are too far apart for the model to see them together",
                got=f"{positions[-1] - positions[0] + 1} tokens from the first to the last",
                expected=f"at most {room}",
                hint="fill a part of the text at a time",
            )
        return ids[slice(*span)], len(ids) - (span[1] - span[0])

    def _result(self, text: str, ids_KC: list[list[int]], shares_KC: list[list[float]], cut: int) -> Filled:
        best = [ids[0] for ids in ids_KC]
        masks = [
            [
                Candidate(
                    mask=number + 1,
                    rank=rank,
                    token=self._masked.shown(token_id),
                    probability=share,
                    filled=self._masked.filled(text, [*best[:number], token_id, *best[number + 1 :]]),
                )
                for rank, (token_id, share) in enumerate(zip(ids, shares, strict=True), start=1)
            ]
            for number, (ids, shares) in enumerate(zip(ids_KC, shares_KC, strict=True))
        ]
        return Filled(text, self._masked.filled(text, best), masks, cut)


@public(FillSettings)
def fill(model: PathLike | OpenModel, text: str, *, verify: bool = True, **settings: Any) -> Filled:
    """Fill the masked positions of a text with an encoder.

    Args:
        model: a model artifact, a folder of transformers, or one that `open_model` has opened.
        text: with the tokenizer's mask (most often [MASK]) wherever something is missing.
        verify: check the artifact's hashes first.
        settings: fields of `FillSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> filled = wordpipe.fill("run/model", "the high [MASK] of the day", top_k=3)
        >>> len(filled.masks), len(filled.masks[0])
        (1, 3)
    """
    chosen = FillSettings.make(settings)
    opened = model if isinstance(model, OpenModel) else open_model(model, verify=verify)
    return Filler(opened, chosen).fill(text)
