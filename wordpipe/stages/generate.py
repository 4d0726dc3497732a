"""`wordpipe generate`: a text continued by a decoder."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from wordpipe.errors import ConfigError
from wordpipe.model.generation import Draw, Generation
from wordpipe.model.settings import GenerateSettings
from wordpipe.runtime import Stopwatch, torch_threads
from wordpipe.stages.making import PathLike, storage_errors
from wordpipe.stages.models import OpenModel, open_model, printable
from wordpipe.tokens.decoding import TextStream

__all__ = ["Generated", "Stopping", "Writing", "generate"]

Stopping = Literal["eos", "length", "string"]


@dataclass(frozen=True)
class Generated:
    """One continuation.

    Attributes:
        prompt: what was continued.
        text: what the model added; a stop string is no part of it.
        tokens: how many tokens were drawn, the stop token included.
        logprob: their mean log-probability (natural) under the model itself, before temperature and all else: minus its loss.
        stopped: by the stop token, by the number of tokens, or by a stop string.
        cut: tokens at the beginning of the prompt that were not read, because the model is shorter.
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
    """One prompt being continued, as often as the settings ask for.

    Args:
        opened: a decoder.
        prompt: may be empty where the model has a token that begins texts.
        settings: how.

    Attributes:
        prompt: as printable text.
        tokens: drawn so far, over all samples.
        seconds: spent on them; the first includes reading the prompt.

    Raises:
        ArtifactError: the model is an encoder.
        ConfigError: an empty prompt, and a model without a token to begin with; or no such device.
    """

    def __init__(self, opened: OpenModel, prompt: str, settings: GenerateSettings) -> None:
        opened.need("decoder")
        opened.move_to(settings.device)
        self.prompt, self._settings = printable(prompt), settings
        self._stop_id = opened.special.get("eos")
        self._generation = Generation(
            opened.model,
            (ids := _prompt_ids(opened, self.prompt)),
            settings,
            allowed_V=opened.tokens_that_come("eos"),
            stop_id=self._stop_id,
        )
        self._n_prompt, self._max_len = len(ids), opened.max_len
        self._streams = [TextStream(opened.tokenizer, ids, settings.stop) for _ in range(settings.samples)]
        self._logprobs: list[list[float]] = [[] for _ in range(settings.samples)]
        self._stopped: list[Stopping] = ["length"] * settings.samples
        self.tokens, self.seconds = 0, 0.0

    def pieces(self) -> Iterator[tuple[int, str]]:
        """The number of a sample and the text that it gained, as it comes: whole characters, stop strings never begun.

        Raises:
            DivergedError: the model's logits are not finite.
        """
        steps = self._generation.steps()
        while draws := self._next(steps):
            for draw in draws:
                if text := self._take(draw):
                    yield draw.sample, text
        for sample, stream in enumerate(self._streams):
            if text := stream.end():
                yield sample, text

    def results(self) -> list[Generated]:
        """What came of it, after all pieces."""
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
        """What people should know of how the model's length was kept."""
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

    def _next(self, steps: Iterator[list[Draw]]) -> list[Draw]:
        clock = Stopwatch()
        with storage_errors(), torch_threads(self._settings.threads):
            draws = next(steps, [])
        self.seconds += clock.seconds
        self.tokens += len(draws)
        return draws

    def _take(self, draw: Draw) -> str:
        self._logprobs[draw.sample].append(draw.logprob)
        if draw.token_id == self._stop_id:
            self._stopped[draw.sample] = "eos"
            return ""
        stream = self._streams[draw.sample]
        text = stream.add(draw.token_id)
        if stream.stopped:
            self._stopped[draw.sample] = "string"
            self._generation.finish(draw.sample)
        return text


def generate(model: PathLike | OpenModel, prompt: str, *, verify: bool = True, **settings: Any) -> list[Generated]:
    """Continue a text with a decoder.

    Args:
        model: a model artifact, a folder of transformers, or one that `open_model` has opened.
        prompt: the text's beginning; it may be empty.
        verify: check the artifact's hashes first.
        settings: fields of `GenerateSettings`.

    Returns:
        One continuation per sample.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    chosen = GenerateSettings.make(settings)
    opened = model if isinstance(model, OpenModel) else open_model(model, verify=verify)
    writing = Writing(opened, prompt, chosen)
    for _ in writing.pieces():
        pass
    return writing.results()


def _prompt_ids(opened: OpenModel, prompt: str) -> list[int]:
    """What stood before a text in training, and the text's ids; nothing after it, or it would be at its end."""
    ids = [*opened.before, *opened.encode(prompt)]
    if not ids and "bos" in opened.special:
        ids = [opened.special["bos"]]
    if not ids:
        raise ConfigError("the prompt is empty, and the model has no token that begins a text", hint="give some words")
    return ids
