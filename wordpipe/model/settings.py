"""Settings of `wordpipe generate` and `wordpipe fill`. Imports nothing heavy.

A decoder goes on with a text, token by token. An encoder-decoder writes a target text for a source text; it searches with
beams unless a temperature asks for chance. What belongs to one way only is refused in the other, by its name.
"""

from typing import Literal, NoReturn, Self

from wordpipe.errors import ConfigError
from wordpipe.settings import Settings, checked, setting

Device = Literal["auto", "cpu", "cuda", "mps"]
_DEVICE = setting("auto", "device that runs the model; auto: the fastest one available")
_THREADS = setting(0, "number of CPU threads (0 = one per core)", ge=0, le=1024, expert=True)


_BEAMS, _MAX_TOKENS, _TEMPERATURE = 5, 100, 0.8
_EXAMPLE = f"--temperature {_TEMPERATURE}"
_WITH_TEMPERATURE = f"also set a temperature, for example {_EXAMPLE}"
_OF_SEARCH = ("n_best", "length_penalty", "length_penalty_by")
_OF_CHANCE = ("samples", "top_k", "top_p", "seed")
_OF_SINGLE_TOKENS = ("temperature", *_OF_CHANCE, "repetition_penalty")


class GenerateSettings(Settings):
    """Settings of the continuation of a text, and of the target text of a source text."""

    command = "generate"

    max_tokens: int | None = setting(
        None,
        f"maximum number of tokens to generate; default for a decoder: {_MAX_TOKENS}; default for an encoder-decoder: "
        "twice the number of source tokens plus 20 (at most the maximum length of the model)",
        ge=1,
        le=10**6,
    )
    min_tokens: int = setting(
        0, "minimum number of tokens before the model may end a text", ge=0, le=10**6, expert=True
    )
    beams: int | None = setting(
        None,
        f"number of beams in the beam search of an encoder-decoder, 1 = no beam search; default: {_BEAMS}, or 1 with "
        "a temperature",
        ge=1,
        le=1_000,
    )
    n_best: int = setting(
        1,
        "number of best targets per source text, each on a line with source number, rank, score and text; the line "
        "is separated by tabs, and for 1 target it has only the text; at most the number of beams",
        ge=1,
        le=1_000,
    )
    # α = 1 is Hugging Face's default, α = 0.6 by GNMT's formula that of Vaswani et al. 2017
    length_penalty: float = setting(
        1.0, "exponent of the length penalty, which divides the log-probability of a target; higher values favour "
        "long targets",
        ge=-10, le=10, expert=True,
    )  # fmt: skip
    length_penalty_by: Literal["hf", "gnmt"] = setting(
        "hf",
        "formula of the length penalty for a target of n tokens: hf = n (Hugging Face), gnmt = (5 + n) / 6 (Wu et "
        "al. 2016)",
        expert=True,
    )
    prefix: str | None = setting(
        None,
        'text to add before every prompt, for example "translate German to English: "; default: the prefix used in '
        "training",
        metavar="STRING",
    )
    temperature: float | None = setting(
        None,
        "temperature of random sampling; values below 1 favour likely tokens; 0 = always the most probable token; "
        f"default for a decoder: {_TEMPERATURE}; without a temperature, an encoder-decoder uses beam search",
        ge=0,
        le=100,
    )
    top_k: int = setting(0, "number of most probable tokens to sample from, 0 = all tokens", ge=0, le=10**6)
    # Holtzman et al. 2020, table 1: text sampled so is about as surprising as people's (perplexity 13.1 and 12.4)
    top_p: float = setting(
        0.95,
        "total probability of the most probable tokens to sample from, 1 = all tokens (nucleus sampling)",
        gt=0,
        le=1,
    )
    repetition_penalty: float = setting(
        1.0,
        "divide the logits of tokens that are already in the text by this number (negative logits are multiplied); 1 "
        "= off",
        gt=0,
        le=100,
        expert=True,
    )
    no_repeat_ngram: int = setting(
        0, "length of token sequences that may occur only once in a text; 0 = off", ge=0, le=1000, expert=True
    )
    stop: tuple[str, ...] = setting(
        (), "end the text before this string; for several strings, repeat the option", metavar="STRING", prose=True
    )
    samples: int = setting(1, "number of texts for each prompt", ge=1, le=10_000)
    seed: int = setting(1, "seed of random sampling; the same seed gives the same text", ge=0, lt=2**32)
    device: Device = _DEVICE
    threads: int = _THREADS

    @checked
    def _stops_are_strings(self) -> None:
        if "" in self.stop:
            raise ValueError("stop = '' is not allowed, because an empty string would end every text immediately")

    @checked
    def _go_together(self) -> None:
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens = {self.min_tokens} is more than max_tokens = {self.max_tokens}")
        if self.beams is not None:
            self._check_beams(self.beams)

    @property
    def chosen_temperature(self) -> float:
        """Return the temperature; 0.8 where none is given."""
        return _TEMPERATURE if self.temperature is None else self.temperature

    @property
    def chosen_max_tokens(self) -> int:
        """Return the most tokens of a continuation; 100 where none is given."""
        return _MAX_TOKENS if self.max_tokens is None else self.max_tokens

    def of_decoder(self) -> Self:
        """Return the settings of a continuation.

        Raises:
            ConfigError: one of a search with beams.
        """
        if (self.beams or 1) > 1:
            self._refuse("beams", "a decoder does not use beam search", "use --beams 1, or leave out --beams")
        if given := self._given(_OF_SEARCH):
            hint = self._so_many_samples if given == "n_best" else f"leave out {given}"
            self._refuse(given, "a decoder does not use beam search", hint)
        return self

    def of_pairs(self) -> Self:
        """Return the settings of target texts, with the beams, and with the temperature 0 where one beam has none.

        Raises:
            ConfigError: settings that do not go together.
        """
        if self.stop:
            self._refuse("stop", "an encoder-decoder decides where the target text ends", "leave out stop")
        beams = self.beams or (_BEAMS if self.temperature is None else 1)
        self._check_beams(beams)
        if beams == 1 and self.temperature is None and (given := self._given(_OF_CHANCE)):
            self._refuse(given, "random sampling needs a temperature", _WITH_TEMPERATURE)
        temperature = self.temperature if beams > 1 or self.temperature is not None else 0.0
        return self.model_copy(update={"beams": beams, "temperature": temperature})

    def _check_beams(self, beams: int) -> None:
        """Refuse settings that do not go with so many beams.

        Raises:
            ConfigError: names the setting.
        """
        # several beams choose no single tokens
        no_search = f"beam search is not used with temperature = {self.temperature}"
        if beams > 1 and (given := self._given(_OF_SINGLE_TOKENS)):
            if self.beams is None:
                hints = {
                    "samples": f"{_WITH_TEMPERATURE}, or use --n-best to get several targets from the beam search",
                    "repetition_penalty": f"use --beams 1, or set a temperature, for example {_EXAMPLE}",
                }
                why = "the model uses beam search if no temperature is given"
                self._refuse(given, why, hints.get(given, _WITH_TEMPERATURE))
            hints = {
                "temperature": "leave out --beams or temperature",
                "repetition_penalty": "use --beams 1, or leave out repetition_penalty",
            }
            hint = hints.get(given, f"use {_EXAMPLE} instead of --beams, or leave out {given}")
            self._refuse(given, f"beams = {beams} means beam search", hint)
        # several results need as many beams
        if self.n_best > beams and self.temperature is not None:
            self._refuse("n_best", no_search, f"{self._so_many_samples}, or leave out temperature")
        if self.n_best > beams:
            raise ConfigError(f"n_best = {self.n_best} is more than beams = {beams}", hint=f"use --beams {self.n_best}")
        # one beam is no search
        if beams == 1 and (given := self._given(_OF_SEARCH)):
            if self.temperature is not None:
                self._refuse(given, no_search, f"leave out {given} or temperature")
            self._refuse(given, "beams = 1 means no beam search", f"use --beams 2 or more, or leave out {given}")

    @property
    def _so_many_samples(self) -> str:
        """Return the hint for as many random texts as `n_best` asks for."""
        return f"use --samples {self.n_best} instead of --n-best"

    def _given(self, names: tuple[str, ...]) -> str | None:
        """Return the first of some settings of generation that does not have its default."""
        return next((name for name in names if getattr(self, name) != type(self).model_fields[name].default), None)

    def _refuse(self, name: str, why: str, hint: str) -> NoReturn:
        """Raise the error for a setting of generation that does not work here."""
        raise ConfigError(f"{name} = {getattr(self, name)} cannot be used here, because {why}", hint=hint)


class FillSettings(Settings):
    """Settings of the filling of masked positions."""

    command = "fill"

    top_k: int = setting(5, "number of candidates for each mask", ge=1, le=10**6)
    device: Device = _DEVICE
    threads: int = _THREADS
