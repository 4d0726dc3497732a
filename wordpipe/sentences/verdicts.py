"""What the figures of a space mean, in words, and which transform helps most."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from wordpipe.sentences.diagnosis import Figures
from wordpipe.sentences.transforms import TransformKind

__all__ = ["NORMS", "Norm", "State", "Verdict", "best_transform", "judge", "state_of"]

State = Literal["healthy", "weak", "sick"]


@dataclass(frozen=True, slots=True)
class Norm:
    """What is healthy.

    Attributes:
        name: of the figure.
        what: the figure in words.
        value: the number that is compared: the larger, the worse; None where it could not be measured.
        weak: above this it is not healthy any more.
        sick: above this it is bad.
        healthy: what is healthy, as it is shown.
        says: what the state means for a search, per state.
    """

    name: str
    what: str
    value: Callable[[Figures], float | None]
    weak: float
    sick: float
    healthy: str
    says: Mapping[State, str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One figure, judged."""

    name: str
    state: State
    says: str


_LEAKS: dict[State, str] = {
    "healthy": "has little to do with how near two texts are",
    "weak": "has a say in how near two texts are",
    "sick": "decides much of how near two texts are",
}

NORMS: tuple[Norm, ...] = (
    Norm(
        "mean_cosine", "mean cosine of two texts", lambda of: abs(of.mean_cosine), 0.1, 0.3, "within ±0.1",
        {
            "healthy": "texts that have nothing in common score about 0",
            "weak": "texts that have nothing in common score above 0: all lie to one side",
            "sick": "all texts look alike: they lie in a narrow cone, and a high score says little",
        },
    ),
    Norm(
        "effective_rank", "effective rank", lambda of: -of.effective_rank / of.dim, -0.15, -0.05,
        "15 % of the dimensions or more",
        {
            "healthy": "the vectors use many directions",
            "weak": "the vectors use few of their directions",
            "sick": "the vectors lie in next to no directions",
        },
    ),
    Norm(
        "hub_skew", "hubness (skew of 10-occurrence)", lambda of: of.hub_skew, 3.0, 6.0, "up to 3",
        {
            "healthy": "no text is near everything",
            "weak": "some texts are near very many others",
            "sick": "a few texts turn up in answer to everything",
        },
    ),
    Norm(
        "orphans", "texts near nobody", lambda of: of.orphans, 0.2, 0.4, "up to 20 %",
        {
            "healthy": "few texts are out of every other's reach",
            "weak": "many texts are among nobody's 10 nearest",
            "sick": "a search would hardly ever find a large part of the texts",
        },
    ),
    Norm(
        "twins", "texts with a twin (cosine 0.99)", lambda of: of.twins, 0.05, 0.3, "up to 5 %",
        {
            "healthy": "texts that differ have vectors that differ",
            "weak": "some texts cannot be told apart",
            "sick": "a large part of the texts cannot be told apart",
        },
    ),
    Norm(
        "length_in_cosine", "length in the cosine", lambda of: of.length_in_cosine, 0.15, 0.3, "up to 0.15",
        {state: f"the length of the texts {says}" for state, says in _LEAKS.items()},
    ),
    Norm(
        "frequency_in_cosine", "word frequency in the cosine", lambda of: of.frequency_in_cosine, 0.15, 0.3,
        "up to 0.15",
        {state: f"how common the words are {says}" for state, says in _LEAKS.items()},
    ),
    Norm(
        "dead_dimensions", "dead dimensions", lambda of: of.dead_dimensions / of.dim, 0.0, 0.1, "0",
        {
            "healthy": "every number of a vector says something",
            "weak": "some numbers are the same in all vectors",
            "sick": "many numbers are the same in all vectors: a smaller --dim would do",
        },
    ),
)  # fmt: skip


def state_of(norm: Norm, figures: Figures) -> State:
    """Healthy, weak or sick; healthy too where it could not be measured."""
    value = norm.value(figures)
    if value is None or value <= norm.weak:
        return "healthy"
    return "weak" if value <= norm.sick else "sick"


def judge(figures: Figures) -> list[Verdict]:
    """A verdict on every figure that could be measured."""
    there = [norm for norm in NORMS if norm.value(figures) is not None]
    return [Verdict(norm.name, state := state_of(norm, figures), norm.says[state]) for norm in there]


def best_transform(spaces: Mapping[TransformKind, Figures]) -> TransformKind:
    """What mends a sick space: the transform that leaves the fewest sick figures, then the fewest weak ones.

    Of equals it is the first, which does least; but where the vectors lie in next to no directions the last, which gives
    every direction its say. A space that is weak at most is left alone.

    Correlation with people's judgement (STS-B dev, Spearman x 100) as it is / centred / whitened: mean-pooled hidden states
    of three small masked models, which are sick, 55.5 / 53.4 / 63.0, 54.0 / 57.0 / 67.1 and 48.4 / 43.3 / 61.5; sif of word
    vectors, which is weak, 75.0 / 73.8 / 73.5.
    """

    def pains(kind: TransformKind) -> tuple[int, int]:
        states = [state_of(norm, spaces[kind]) for norm in NORMS]
        return states.count("sick"), states.count("weak")

    if not pains("none")[0]:
        return "none"
    flat = state_of(next(norm for norm in NORMS if norm.name == "effective_rank"), spaces["none"]) == "sick"
    return min([*spaces][:: -1 if flat else 1], key=pains)
