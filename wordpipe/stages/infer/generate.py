"""`wordpipe generate`: texts continued by a decoder, and target texts of source texts, written by an encoder-decoder.

A decoder continues one prompt, token by token (`Writing`). An encoder-decoder writes translations, titles, answers
(`TargetWriter`):

    texts → prefix, ids, end → sorted by length, cut into batches → beams or samples → texts, in the order given

Sources of about the same length are read together, so that little of a batch is padding. What a text becomes depends on this
text alone: its limit of tokens comes from its own length, its random numbers from the seed and its own letters. Only the last
bits of the arithmetic depend on the batch, as a matrix product of other shape adds in another order; where two tokens are
equal to the sixth digit, or a random number falls between two to the sixth digit, that may decide.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model import seed_of
from wordpipe.model.settings import GenerateSettings
from wordpipe.runtime import Stopwatch, torch_threads
from wordpipe.stages.job import PathLike, storage_errors
from wordpipe.stages.models import DENOISING, OpenModel, open_model
from wordpipe.stages.python_calls import printable, public
from wordpipe.tokens import TextStream, library_errors, number_of_ids

if TYPE_CHECKING:
    from torch import Tensor

    from wordpipe.model import Hypothesis, NewToken

Stopping = Literal["eos", "length", "string"]
_SHARE_OF_ANSWER = 8  # of the positions of a decoder that answers one in so many is kept free for the answer
WINDOW = 1_024  # lines that are sorted together
_CHARACTERS = 1 << 20  # of a window
_POSITIONS = 1 << 15  # of the targets that are written at once, and of their sources
_LOGITS = 1 << 24  # numbers at once: 64 MiB
_PREFIXES_SHOWN = 5
_MORE_THAN_TWICE = 20  # tokens of a target beyond twice those of its source


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
        from wordpipe.model import Generation

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
        """Return the generated texts of all samples."""
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
        """True if an answer was stopped because the model has no more positions."""
        return self._generation.outgrown

    @property
    def notes(self) -> list[str]:
        """Return notes for the user on generated texts: what was cut or left behind as the model is shorter."""
        if self.answers:
            return answer_notes(self._max_len, 1, int(self.cut > 0), self.cut, int(self.outgrown))
        found = []
        if self.cut:
            found.append(
                f"the prompt has {self._n_prompt:,} tokens, but the model reads at most {self._max_len:,} tokens: the first "
                f"{self.cut:,} tokens were left out"
            )
        if slid := self._generation.n_slides:
            found.append(
                f"the text became longer than the model's {self._max_len:,} positions; the model kept only the last "
                f"{max(1, self._max_len // 2):,} tokens and continued ({'once' if slid == 1 else f'{slid} times'})"
            )
        return found

    def _continue(self) -> Iterator[tuple[int, str]]:
        """Yield pieces of text as the generated samples grow, each with the number of its sample."""
        steps = self._generation.steps()
        while tokens := self._step(steps):
            for token in tokens:
                if text := self._text_of(token):
                    yield token.sample, text
        for sample, stream in enumerate(self._streams):
            if text := stream.end():
                yield sample, text

    def _step(self, steps: "Iterator[list[NewToken]]") -> "list[NewToken]":
        """Generate the next token of each sample, and measure the time."""
        clock = Stopwatch()
        with storage_errors(), torch_threads(self._settings.threads):
            tokens = next(steps, [])
        self.seconds += clock.seconds
        self.tokens += len(tokens)
        return tokens

    def _text_of(self, token: "NewToken") -> str:
        """Return the text that a generated sample gains by its new token; stop the sample where it ends."""
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
    """Return notes for the user about what a decoder of pairs generates: first texts cut, answers stopped.

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
            f"{which_sources(shortened, sources)} too long, because source and answer together can have at most {max_len:,} "
            f"tokens: {cut:,} tokens at the end were not read"
        )
    if outgrown:
        which = "the answer" if sources == 1 else f"the answer to {outgrown:,} of {sources:,} sources"
        found.append(f"{which} was cut off, because source and answer together can have at most {max_len:,} tokens")
    if empty and sources > 1:
        found.append(f"{which_sources(empty, sources)} empty, so the answers are empty too")
    return found


def _prompt_ids(opened: OpenModel, prompt: str, max_tokens: int) -> tuple[list[int], int]:
    """Return the ids of a prompt to generate from, behind those before every text in training.

    No end, or the text would be over.

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
        raise ConfigError(
            "the prompt is empty, and the model has no token for the beginning of a text",
            hint="give a prompt of some words",
        )
    return ids, 0


@dataclass(frozen=True)
class Target:
    """A target text.

    Attributes:
        text: the text.
        score: what it was ranked by: `logprob` by the penalty of its length; of one beam by the number of tokens.
        logprob: log-probability (natural) of all its tokens, the end included.
        tokens: their number, the end included.
        finished: the model ended it; else it has as many tokens as were allowed.
    """

    text: str
    score: float
    logprob: float
    tokens: int
    finished: bool


@dataclass(frozen=True)
class Written:
    """A source text and its targets.

    Attributes:
        source: the text, without the prefix.
        targets: the best first, or the samples in order. A source without a letter has one, which is empty and certain.
        cut: ids at the end of the source that the model has no room for.
    """

    source: str
    targets: list[Target]
    cut: int

    @property
    def text(self) -> str:
        """Return the first target."""
        return self.targets[0].text if self.targets else ""


@dataclass(frozen=True)
class _Source:
    """A source text as it is read.

    Attributes:
        number: its place among those given.
        ids: with the prefix and the frame.
        limit: most tokens of its target.
        cut: see `Written`.
        seed: of its random numbers.
    """

    number: int
    ids: list[int]
    limit: int
    cut: int
    seed: int


class TargetWriter:
    """An encoder-decoder that writes target texts.

    Args:
        opened: the model.
        settings: how.

    Attributes:
        prefix: text before every source; what the settings say, else what the model was trained with.
        max_len: positions of the model, of a source and of a target.
        sources, empty, shortened: texts so far; those without a letter, and those that were cut.
        cut: ids that were cut.
        tokens, unfinished: written so far; targets that had as many tokens as were allowed before the model ended them.
        seconds: spent so far.
        notes: what the user should know of the settings.

    Raises:
        ArtifactError: the model is no encoder-decoder, has no end, or writes in a vocabulary that its tokenizer does not have.
        ConfigError: settings that do not go together, a prefix that leaves no room, or no such device.
    """

    def __init__(self, opened: OpenModel, settings: GenerateSettings) -> None:
        # What may be written, and what ends a text.
        self._model, self._opened = opened.pair_model, opened
        self._settings = settings.of_pairs()
        if "eos" not in opened.special:
            what = "the model has no token for the end of a text"
            raise ArtifactError(what, where=opened.path, expected="eos_token_id")
        self._stop_id = opened.special["eos"]
        opened.move_to(settings.device)
        self._allowed_V = _target_tokens(opened)
        # What stands around each source: prefix and frame, which must leave room.
        self.max_len = opened.max_len
        self.prefix = printable(opened.prefix if settings.prefix is None else settings.prefix)
        self._before, self._after = _frame(opened)
        self._n_prefix = len(opened.encode(self.prefix)) if self.prefix else 0
        if self.max_len <= len(self._before) + len(self._after) + self._n_prefix:
            raise ConfigError(
                "the prefix is too long: no position is left for a text", where="prefix", got=f"{self._n_prefix} tokens",
                expected=f"fewer tokens than the model's {self.max_len} positions",
            )  # fmt: skip
        # What the user should know of model and settings.
        self.notes: list[str] = []
        if opened.made_by == DENOISING:
            self.notes.append(
                "the model was trained for denoising, not on pairs of texts: use `wordpipe fill`, or train the model on pairs "
                f"with `wordpipe train seq2seq PAIRS --init {opened.path}`"
            )
        # Targets in a vocabulary whose tokenizer is missing.
        if self._model.config.decoder_vocab_size and opened.target_tokenizer is None:
            self.notes.append(
                "the model has a separate vocabulary for targets, but no tokenizer for this vocabulary, so the tokenizer of "
                "the sources decodes the targets"
            )
        # Limits, and prefixes that the model was trained with.
        if (asked := settings.max_tokens or 0) > self.max_len:
            self.notes.append(
                f"max_tokens is {asked:,}, but the model has {self.max_len:,} positions, so no target can have more tokens"
            )
        if opened.prefix_field and settings.prefix is None:
            known = ", ".join(f'"{text}"' for text in opened.prefixes[:_PREFIXES_SHOWN])
            left = opened.n_prefixes - _PREFIXES_SHOWN
            more = f", and {left:,} more" if left > 0 else ""
            self.notes.append(
                f"the model was trained with a prefix for each task; choose a prefix with --prefix (known: {known}{more})"
            )
        # What is counted while targets are written.
        self.sources = self.empty = self.shortened = self.cut = self.tokens = self.unfinished = 0
        self.seconds = 0.0

    @property
    def losses(self) -> list[str]:
        """Return notes for the user on generated targets: sources and targets cut or empty so far."""
        found = []
        if self.shortened:
            found.append(
                f"{which_sources(self.shortened, self.sources)} longer than the model's {self.max_len:,} positions: "
                f"{self.cut:,} tokens at the end were not read"
            )
        if self.unfinished:
            which = "1 target was" if self.unfinished == 1 else f"{self.unfinished:,} targets were"
            found.append(
                f"{which} cut off at the maximum number of tokens: raise --max-tokens, or train the model longer if it "
                "repeats the same words"
            )
        if self.empty and self.sources > 1:
            found.append(f"{which_sources(self.empty, self.sources)} empty, so the targets are empty too")
        return found

    def stream(self, sources: Iterable[str]) -> Iterator[Written]:
        """Generate the targets of any number of sources, in their order, about a thousand in memory at a time.

        About a thousand are in memory at a time.
        """
        window: list[str] = []
        size = 0
        for text in sources:
            window.append(text)
            size += len(text)
            if len(window) == WINDOW or size > _CHARACTERS:
                yield from self.write(window)
                window, size = [], 0
        yield from self.write(window)

    def write(self, sources: Sequence[str]) -> list[Written]:
        """Generate the targets of some sources, in their order.

        Raises:
            InputError: the tokenizer cannot encode a text.
            DivergedError: the model's logits are not finite.
        """
        clock = Stopwatch()
        texts = [printable(text) for text in sources]
        found = [Written(text, [Target("", 0.0, 0.0, 0, finished=True)], 0) for text in texts]
        queue = sorted(
            (self._source(number, text) for number, text in enumerate(texts) if text.strip()),
            key=lambda one: (len(one.ids), one.limit),
        )
        for batch in self._batches(queue):
            with storage_errors(), torch_threads(self._settings.threads):
                results = self._search(batch)
            for one, hypotheses in zip(batch, results, strict=True):
                found[one.number] = Written(texts[one.number], self._targets(hypotheses), one.cut)
        self.sources += len(texts)
        self.cut += sum(one.cut for one in queue)
        self.shortened += sum(one.cut > 0 for one in queue)
        self.unfinished += sum(not target.finished for written in found for target in written.targets)
        self.empty += len(texts) - len(queue)
        self.tokens += sum(target.tokens for written in found for target in written.targets)
        self.seconds += clock.seconds
        return found

    def _source(self, number: int, text: str) -> _Source:
        """Return a source to generate a target of as the encoder reads it, with the limit of its target."""
        ids, cut = source_ids(self._opened, self.prefix, text)
        limit = self._settings.max_tokens
        if limit is None:
            own = max(0, len(ids) - len(self._before) - len(self._after) - self._n_prefix)
            limit = max(2 * own + _MORE_THAN_TWICE, self._settings.min_tokens + 1)
        return _Source(number, ids, min(limit, self.max_len), cut, seed_of("source", text))

    def _batches(self, queue: list[_Source]) -> Iterator[list[_Source]]:
        """Yield sources whose targets are generated together."""
        rows = (self._settings.beams or 1) * self._settings.samples
        most = max(1, _LOGITS // len(self._allowed_V) // rows)
        batch: list[_Source] = []
        longest = limit = 0
        for one in queue:  # the shortest first
            longest, limit = len(one.ids), max(limit, one.limit)
            if batch and (len(batch) == most or (len(batch) + 1) * (rows * limit + longest) > _POSITIONS):
                yield batch
                batch, limit = [], one.limit
            batch.append(one)
        if batch:
            yield batch

    def _search(self, batch: list[_Source]) -> "list[list[Hypothesis]]":
        """Generate the hypotheses for each source of a batch."""
        import torch

        from wordpipe.model import Rules, beam_search, sample_targets

        settings, device = self._settings, self._allowed_V.device
        lengths = [len(one.ids) for one in batch]
        pad = self._model.config.pad_id or 0
        ids_BS = torch.tensor([one.ids + [pad] * (max(lengths) - len(one.ids)) for one in batch], device=device)
        mask_BS = torch.arange(max(lengths), device=device) < torch.tensor(lengths, device=device)[:, None]
        limits = tuple(one.limit for one in batch)
        rules = Rules(
            allowed_V=self._allowed_V, stop_id=self._stop_id, max_tokens=max(limits), limits=limits,
            min_tokens=settings.min_tokens, no_repeat_ngram=settings.no_repeat_ngram,
            first_id=self._model.config.first_id,
        )  # fmt: skip
        with torch.inference_mode():
            source = self._model.read(ids_BS, mask_BS)
            if settings.beams == 1:
                return sample_targets(self._model, source, rules, settings, [one.seed for one in batch])
            assert settings.beams is not None
            return beam_search(
                self._model, source, rules, beams=settings.beams, alpha=settings.length_penalty,
                penalty=settings.length_penalty_by, n_best=settings.n_best,
            )  # fmt: skip

    def _targets(self, hypotheses: "list[Hypothesis]") -> list[Target]:
        """Return the hypotheses of a source as generated target texts."""
        with library_errors("the tokenizer cannot decode the tokens that the model generated", "tokenizer.json"):
            texts = self._opened.writing_tokenizer.decode_batch(
                [list(one.ids) for one in hypotheses], skip_special_tokens=True
            )
        return [
            Target(text, one.score, one.logprob, len(one.ids) + one.finished, one.finished)
            for text, one in zip(texts, hypotheses, strict=True)
        ]


def _frame(opened: OpenModel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids before and after a source; tokenizers of Marian have no frame, and then the end comes after."""
    return opened.before, opened.after or (opened.special["eos"],)


def which_sources(number: int, of: int) -> str:
    """Return the beginning of a sentence about some of the sources of generated targets.

    >>> which_sources(1, 1), which_sources(1, 3)
    ('the source was', '1 of 3 sources were')
    """
    return "the source was" if of == 1 else f"{number:,} of {of:,} sources were"


def source_ids(opened: OpenModel, prefix: str, text: str) -> tuple[list[int], int]:
    """Return a source in its frame, to generate its target, and how many ids at the end were cut.

    The prefix of an artifact's training stood before ids, that of others before letters: the tokenizer may join the two.
    """
    apart = prefix and opened.made_by
    ids = [*opened.encode(prefix), *opened.encode(text)] if apart else opened.encode(prefix + text)
    before, after = _frame(opened)
    read = ids[: opened.max_len - len(before) - len(after)]
    return [*before, *read, *after], len(ids) - len(read)


def _target_tokens(opened: OpenModel) -> "Tensor":
    """Return the tokens that a generated target may have, and its end, as bool [V].

    Raises:
        ArtifactError: it is another one than that of the sources, and there is no tokenizer for it.
    """
    allowed_V, own = opened.tokens_that_come("eos"), opened.pair_model.config.decoder_vocab_size
    if own and own < number_of_ids(opened.writing_tokenizer):
        raise ArtifactError(
            "the tokenizer does not fit the model's separate vocabulary for targets", where=opened.path,
            got=f"{own:,} tokens", expected=f"the tokenizer's {number_of_ids(opened.tokenizer):,} tokens",
        )  # fmt: skip
    rows_V = allowed_V.new_zeros(own or len(allowed_V))  # those above the tokenizer's stand for nothing
    rows_V[: len(allowed_V)] = allowed_V[: len(rows_V)]
    return rows_V
