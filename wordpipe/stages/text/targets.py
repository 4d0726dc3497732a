"""Target texts of source texts, by an encoder-decoder: translations, titles, answers.

    texts → prefix, ids, end → sorted by length, cut into batches → beams or samples → texts, in the order given

Sources of about the same length are read together, so that little of a batch is padding. What a text becomes depends on this
text alone: its limit of tokens comes from its own length, its random numbers from the seed and its own letters. Only the last
bits of the arithmetic depend on the batch, as a matrix product of other shape adds in another order; where two tokens are
equal to the sixth digit, or a random number falls between two to the sixth digit, that may decide.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model import Hypothesis, Rules, beam_search, sample_targets, seed_of
from wordpipe.model.settings import GenerateSettings
from wordpipe.runtime import Stopwatch, torch_threads
from wordpipe.stages.calls import printable
from wordpipe.stages.job import storage_errors
from wordpipe.stages.models import DENOISING, OpenModel
from wordpipe.tokens import library_errors, number_of_ids

if TYPE_CHECKING:
    from torch import Tensor

WINDOW = 1_024  # lines that are sorted together
_CHARACTERS = 1 << 20  # of a window
_POSITIONS = 1 << 15  # of the targets that are written at once, and of their sources
_LOGITS = 1 << 24  # numbers at once: 64 MiB
_PREFIXES_SHOWN = 5
_MORE_THAN_TWICE = 20  # tokens of a target beyond twice those of its source


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
        """The first target."""
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
        self._model, self._opened = opened.pair_model, opened
        self._settings = settings.of_pairs()
        if "eos" not in opened.special:
            raise ArtifactError("the model has no token that ends a text", where=opened.path, expected="eos_token_id")
        self._stop_id = opened.special["eos"]
        opened.move_to(settings.device)
        self._allowed_V = _target_tokens(opened)
        self.max_len = opened.max_len
        self.prefix = printable(opened.prefix if settings.prefix is None else settings.prefix)
        self._before, self._after = _frame(opened)
        self._n_prefix = len(opened.encode(self.prefix)) if self.prefix else 0
        if self.max_len <= len(self._before) + len(self._after) + self._n_prefix:
            raise ConfigError(
                "the prefix leaves no room for a text", where="prefix", got=f"{self._n_prefix} tokens",
                expected=f"fewer than the model's {self.max_len} positions",
            )  # fmt: skip
        self.notes: list[str] = []
        if opened.made_by == DENOISING:
            self.notes.append(
                "the model has learned to restore texts (wordpipe train denoising), and no pairs: wordpipe fill is what it is "
                f"for; wordpipe train seq2seq PAIRS --init {opened.path} teaches it pairs"
            )
        if self._model.config.decoder_vocab_size and opened.target_tokenizer is None:
            self.notes.append(
                "the model has embeddings for what it writes and no tokenizer for it: its tokens are taken to be those of the "
                "sources"
            )
        if (asked := settings.max_tokens or 0) > self.max_len:
            self.notes.append(f"max_tokens is {asked:,}, and the model has {self.max_len:,} positions: so many at most")
        if opened.prefix_field and settings.prefix is None:
            known = ", ".join(f'"{text}"' for text in opened.prefixes[:_PREFIXES_SHOWN])
            left = opened.n_prefixes - _PREFIXES_SHOWN
            more = f", and {left:,} more" if left > 0 else ""
            self.notes.append(
                f"the model knows its tasks by a text before each source: give one as --prefix: {known}{more}"
            )
        self.sources = self.empty = self.shortened = self.cut = self.tokens = self.unfinished = 0
        self.seconds = 0.0

    @property
    def losses(self) -> list[str]:
        """Sentences for the user: what was cut or left empty so far."""
        found = []
        if self.shortened:
            found.append(
                f"{which_sources(self.shortened, self.sources)} longer than the model's {self.max_len:,} positions: "
                f"{self.cut:,} tokens at the end were not read"
            )
        if self.unfinished:
            which = "1 target has" if self.unfinished == 1 else f"{self.unfinished:,} targets have"
            found.append(
                f"{which} as many tokens as were allowed, and the model had not ended: --max-tokens allows more; "
                "a model that repeats itself has to be trained for longer"
            )
        if self.empty and self.sources > 1:
            found.append(f"{which_sources(self.empty, self.sources)} empty, and so are their targets")
        return found

    def stream(self, sources: Iterable[str]) -> Iterator[Written]:
        """The targets of any number of texts, in their order; about a thousand are in memory at a time."""
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
        """The targets of some texts, in their order.

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
        """A text as it is read, and the limit of its target."""
        ids, cut = source_ids(self._opened, self.prefix, text)
        limit = self._settings.max_tokens
        if limit is None:
            own = max(0, len(ids) - len(self._before) - len(self._after) - self._n_prefix)
            limit = max(2 * own + _MORE_THAN_TWICE, self._settings.min_tokens + 1)
        return _Source(number, ids, min(limit, self.max_len), cut, seed_of("source", text))

    def _batches(self, queue: list[_Source]) -> Iterator[list[_Source]]:
        """Sources that are written together: as many as have about so many positions and logits."""
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

    def _search(self, batch: list[_Source]) -> list[list[Hypothesis]]:
        """What is found for each source of a batch."""
        import torch

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

    def _targets(self, hypotheses: list[Hypothesis]) -> list[Target]:
        with library_errors("the tokenizer cannot decode what the model wrote", "tokenizer.json"):
            texts = self._opened.writing_tokenizer.decode_batch(
                [list(one.ids) for one in hypotheses], skip_special_tokens=True
            )
        return [
            Target(text, one.score, one.logprob, len(one.ids) + one.finished, one.finished)
            for text, one in zip(texts, hypotheses, strict=True)
        ]


def _frame(opened: OpenModel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids before and after a source; folders of Marian have a tokenizer without a frame, and then its end comes after."""
    return opened.before, opened.after or (opened.special["eos"],)


def which_sources(number: int, of: int) -> str:
    """The beginning of a sentence about some of the sources.

    >>> which_sources(1, 1), which_sources(1, 3)
    ('the source was', '1 of 3 sources were')
    """
    return "the source was" if of == 1 else f"{number:,} of {of:,} sources were"


def source_ids(opened: OpenModel, prefix: str, text: str) -> tuple[list[int], int]:
    """A source in its frame, its beginning as far as the model has room, and how many ids at its end have none.

    The prefix of an artifact's training stood before ids, that of others before letters: the tokenizer may join the two.
    """
    apart = prefix and opened.made_by
    ids = [*opened.encode(prefix), *opened.encode(text)] if apart else opened.encode(prefix + text)
    before, after = _frame(opened)
    read = ids[: opened.max_len - len(before) - len(after)]
    return [*before, *read, *after], len(ids) - len(read)


def _target_tokens(opened: OpenModel) -> "Tensor":
    """Ids that a target is made of, and its end, as bool [V] of the decoder's vocabulary.

    Raises:
        ArtifactError: it is another one than that of the sources, and there is no tokenizer for it.
    """
    allowed_V, own = opened.tokens_that_come("eos"), opened.pair_model.config.decoder_vocab_size
    if own and own < number_of_ids(opened.writing_tokenizer):
        raise ArtifactError(
            "the model writes in a vocabulary of its own, which its tokenizer does not have", where=opened.path,
            got=f"{own:,} tokens", expected=f"the {number_of_ids(opened.tokenizer):,} of the tokenizer",
        )  # fmt: skip
    rows_V = allowed_V.new_zeros(own or len(allowed_V))  # those above the tokenizer's stand for nothing
    rows_V[: len(allowed_V)] = allowed_V[: len(rows_V)]
    return rows_V
