"""Generation, against transformers: logits processors and greedy text; caches, sliding windows, seeds, masked positions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from tests.support.models import each_kind, kind_config, small_config
from wordpipe.errors import ConfigError, DivergedError
from wordpipe.model import (
    Cache,
    Generation,
    choose,
    forbid_repeated_ngrams,
    keep_top_k,
    keep_top_p,
    most_probable,
    new_model,
    penalise_repeats,
    sample_tokens,
    save_hf,
    span_of_masks,
)
from wordpipe.model.settings import FillSettings, GenerateSettings

PLAIN = {"temperature": 1.0, "top_p": 1.0}
SEEDS = st.integers(0, 2**32)


def random_logits(seed: int, n_rows: int = 6, n_tokens: int = 40) -> torch.Tensor:
    return torch.randn(n_rows, n_tokens, generator=torch.Generator().manual_seed(seed)) * 3


def random_ids(seed: int, n_rows: int = 6, length: int = 30, n_tokens: int = 40) -> torch.Tensor:
    return torch.randint(n_tokens, (n_rows, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.landing
@given(SEEDS, st.floats(0.3, 3.0))
def test_repeats_are_penalised_as_transformers_does(seed, penalty):
    from transformers import RepetitionPenaltyLogitsProcessor

    logits, ids = random_logits(seed), random_ids(seed)
    want = RepetitionPenaltyLogitsProcessor(penalty)(ids, logits.clone())
    torch.testing.assert_close(penalise_repeats(logits, ids, penalty), want)


@pytest.mark.landing
@given(SEEDS, st.integers(1, 5), st.integers(1, 40))
def test_ngrams_are_forbidden_as_transformers_does(seed, size, length):
    from transformers import NoRepeatNGramLogitsProcessor

    logits, ids = random_logits(seed, n_tokens=9), random_ids(seed, length=length, n_tokens=4)
    want = NoRepeatNGramLogitsProcessor(size)(ids, logits.clone())
    torch.testing.assert_close(forbid_repeated_ngrams(logits, ids, size), want, rtol=0, atol=0)


@pytest.mark.landing
@given(SEEDS, st.integers(1, 60))
def test_the_k_most_probable_are_kept_as_transformers_does(seed, k):
    from transformers import TopKLogitsWarper

    logits = random_logits(seed).round()  # ties
    torch.testing.assert_close(keep_top_k(logits, k), TopKLogitsWarper(k)(None, logits.clone()), rtol=0, atol=0)


@pytest.mark.landing
@given(SEEDS, st.floats(0.01, 0.99))
def test_the_nucleus_is_the_one_of_transformers(seed, p):
    from transformers import TopPLogitsWarper

    logits = random_logits(seed)
    torch.testing.assert_close(keep_top_p(logits, p), TopPLogitsWarper(p)(None, logits.clone()), rtol=0, atol=0)


@pytest.mark.landing
@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_the_nucleus_of_a_large_vocabulary(spread):
    """Of nearly equal tokens most are needed, of unequal ones few."""

    from transformers import TopPLogitsWarper

    logits = random_logits(7, n_tokens=6000) * spread
    kept = keep_top_p(logits, 0.9)
    torch.testing.assert_close(kept, TopPLogitsWarper(0.9)(None, logits.clone()), rtol=0, atol=0)
    assert (kept.isfinite().sum(-1) > 1024).all() == (spread < 1)


def test_tokens_that_equal_the_last_of_the_nucleus_are_kept():
    kept = keep_top_p(torch.tensor([[1.0, 0.0, 2.0, 1.0, 1.0]]), 0.7)
    assert kept.isfinite().tolist() == [[True, False, True, True, True]]


@pytest.mark.landing
@given(SEEDS, st.floats(0.05, 5.0), st.integers(0, 20), st.floats(0.05, 1.0), st.floats(0.5, 2.0), st.integers(0, 3))
def test_the_whole_chain_is_the_one_of_transformers(seed, temperature, top_k, top_p, penalty, ngram):
    """The token drawn is the one that a walk along the sums of their probabilities reaches."""

    from transformers import (
        NoRepeatNGramLogitsProcessor,
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    settings = GenerateSettings(
        temperature=temperature, top_k=top_k, top_p=top_p, repetition_penalty=penalty, no_repeat_ngram=ngram
    )
    logits, ids = random_logits(seed), random_ids(seed)
    uniforms = torch.rand(6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    theirs = RepetitionPenaltyLogitsProcessor(penalty)(ids, logits.clone())
    if ngram:
        theirs = NoRepeatNGramLogitsProcessor(ngram)(ids, theirs)
    theirs = TemperatureLogitsWarper(temperature)(ids, theirs)
    if top_k:
        theirs = TopKLogitsWarper(top_k)(ids, theirs)
    if top_p < 1:
        theirs = TopPLogitsWarper(top_p)(ids, theirs)
    shares = theirs.double().softmax(-1).numpy()
    for row, chosen in enumerate(choose(logits, ids, settings, uniforms).tolist()):
        sums = shares[row].cumsum()
        assert shares[row, chosen] > 0
        assert sums[chosen] - shares[row, chosen] - 1e-5 <= uniforms[row] <= sums[chosen] + 1e-5


def test_draws_have_the_probabilities_of_the_logits():
    n = 20_000
    logits = random_logits(4, n_rows=1, n_tokens=12)
    uniforms = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    counts = np.bincount(sample_tokens(logits.expand(n, -1), uniforms).numpy(), minlength=12)
    expected = n * logits[0].double().softmax(-1).numpy()
    often = expected >= 5
    assert often.sum() >= 5
    seen, wanted = (np.append(values[often], values[~often].sum()) for values in (counts, expected))
    assert chisquare(seen, wanted * seen.sum() / wanted.sum()).pvalue > 0.01


def test_a_wrong_temperature_would_be_seen_by_that_test():
    n = 20_000
    logits = random_logits(4, n_rows=1, n_tokens=12)
    uniforms = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    settings = GenerateSettings(temperature=1.1, top_p=1.0)
    drawn = choose(logits.expand(n, -1), torch.zeros(n, 1, dtype=torch.int64), settings, uniforms)
    expected = n * logits[0].double().softmax(-1).numpy()
    often = expected >= 5
    seen = np.bincount(drawn.numpy(), minlength=12)[often]
    assert chisquare(seen, expected[often] * seen.sum() / expected[often].sum()).pvalue < 1e-6


def test_the_ends_of_chance_reach_the_first_and_the_last_possible_token():
    logits = torch.tensor([[-torch.inf, 0.0, 1.0, -torch.inf]]).expand(2, -1)
    last = float(np.nextafter(1.0, 0.0))
    assert sample_tokens(logits, torch.tensor([0.0, last], dtype=torch.float64)).tolist() == [1, 2]
    many = random_logits(8, n_rows=2000, n_tokens=30)
    many[:, -7:] = -torch.inf
    assert sample_tokens(many, torch.full((2000,), last, dtype=torch.float64)).max() < 23


def test_temperature_zero_takes_the_most_probable_token_that_is_left_and_of_equals_the_first():
    logits = torch.tensor([[1.0, 5.0, 5.0, 2.0]])
    none, start = torch.zeros(1, dtype=torch.float64), torch.tensor([[0]])
    assert choose(logits, start, GenerateSettings(temperature=0.0), none).tolist() == [1]
    seen = torch.tensor([[1, 2]])
    assert choose(logits, seen, GenerateSettings(temperature=0.0, no_repeat_ngram=1), none).tolist() == [3]
    assert choose(logits, seen, GenerateSettings(temperature=0.0, repetition_penalty=6.0), none).tolist() == [3]


@pytest.mark.parametrize("temperature", [1e-30, 1e-3, 100.0])
def test_extreme_temperatures_give_numbers(temperature):
    logits = random_logits(5) * 1e4
    logits[:, 3] = -torch.inf
    settings = GenerateSettings(temperature=temperature, top_k=5)
    chosen = choose(logits, random_ids(5), settings, torch.full((6,), 0.5, dtype=torch.float64))
    if temperature < 1:
        assert chosen.tolist() == logits.argmax(-1).tolist()
    assert 3 not in chosen.tolist()


def test_a_rule_that_would_leave_no_token_does_not_hold():
    logits = torch.tensor([[1.0, 2.0, -torch.inf], [1.0, 2.0, -torch.inf]])
    ids = torch.tensor([[0, 1, 2], [0, 0, 2]])
    assert forbid_repeated_ngrams(logits, ids, 1).tolist() == [[1.0, 2.0, -np.inf], [-np.inf, 2.0, -np.inf]]


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"samples": 0}, "samples"),
        ({"stop": ("a", "")}, "stop"),
        ({"topk": 3}, "did you mean top_k"),
    ],
)
def test_settings_out_of_bounds_are_refused_by_name(values, word):
    with pytest.raises(ConfigError) as error:
        GenerateSettings.make(values)
    assert word in f"{error.value.message} {error.value.hint}"
    with pytest.raises(ConfigError, match="top_k"):
        FillSettings.make({"top_k": 0})


PROMPT = [5, 20, 31, 7, 44]


def lively(config, seed=3, spread=0.3):
    """A model with weights large enough that its tokens depend on what came before."""
    model = new_model(config, seed).eval()
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(number))
            weight.add_(noise * (spread if weight.dim() > 1 else 0.1))
    return model


def generation(model, prompt=PROMPT, *, stop_id=None, forbidden=(), **settings):
    allowed_V = torch.ones(model.config.vocab_size, dtype=torch.bool)
    allowed_V[list(forbidden)] = False
    chosen = GenerateSettings(**({"threads": 1, "device": "cpu"} | settings))
    return Generation(model, prompt, chosen, allowed_V=allowed_V, stop_id=stop_id)


def drawn(made):
    """The token ids of each sample."""
    samples = [[] for _ in made.finished]
    for step in made.steps():
        for draw in step:
            samples[draw.sample].append(draw.token_id)
    return samples


@pytest.mark.parametrize("name", each_kind("decoder"))
def test_a_cache_changes_no_logit(name):
    """Read in pieces of every size: a prompt at once, one by one, several at once behind others."""
    model = lively(kind_config(name), spread=0.1)
    ids_BT = torch.randint(7, 96, (2, 20), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        want = model(ids_BT)
        for pieces in ([20], [1] * 20, [7, 1, 1, 5, 1, 3, 2]):
            cache = Cache(model.config, 2, 20, torch.device("cpu"))
            parts = [model.logits_at(model.encode(part, cache=cache)) for part in ids_BT.split(pieces, dim=1)]
            torch.testing.assert_close(torch.cat(parts, dim=1), want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["decoder modern", "decoder classic", "decoder windows", "decoder linear"])
def test_greedy_text_is_what_reading_everything_again_gives(name):
    """With the logarithms of the probabilities, up to the model's length and beyond it."""
    model = lively(kind_config(name))
    made = generation(model, temperature=0.0, max_tokens=40)
    ids, window = list(PROMPT), 0
    for (draw,) in made.steps():
        if len(ids) - window > 24:
            window = len(ids) - 12  # the window slides to its last half
        with torch.inference_mode():
            logits_V = model(torch.tensor([ids[window:]]))[0, -1]
        assert draw.token_id == int(logits_V.argmax())
        assert draw.logprob == pytest.approx(float(logits_V.log_softmax(-1)[draw.token_id]), abs=1e-4)
        ids.append(draw.token_id)
    assert len(ids) == 45
    assert made.n_slides == 2
    assert made.n_cut == 0


@pytest.mark.landing
@pytest.mark.parametrize(
    ("style", "changes"), [("modern", {}), ("modern", {"n_kv_heads": 2, "tied": False}), ("classic", {})]
)
def test_greedy_is_what_transformers_generates(style, changes, tmp_path):
    from transformers import AutoModelForCausalLM

    model = lively(small_config("decoder", style, **changes))
    save_hf(model, model.config, lambda name, data: (tmp_path / name).write_bytes(data) and None)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    prompt = torch.tensor([PROMPT])
    for forced in ({}, {"repetition_penalty": 1.3}, {"no_repeat_ngram": 2}):
        their_names = {"no_repeat_ngram_size" if name == "no_repeat_ngram" else name: n for name, n in forced.items()}
        want = theirs.generate(
            prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=19, min_new_tokens=19,
            eos_token_id=6, pad_token_id=0, **their_names,
        )  # fmt: skip
        made = generation(model, temperature=0.0, max_tokens=19, forbidden=[6], **forced)
        assert drawn(made) == [want[0, 5:].tolist()]


def test_a_long_prompt_is_read_from_its_end_and_what_was_cut_is_counted():
    model = lively(small_config("decoder"))
    long = torch.randint(7, 96, (60,), generator=torch.Generator().manual_seed(2)).tolist()
    made = generation(model, long, temperature=0.0, max_tokens=3)
    assert made.n_cut == 36
    assert drawn(made) == drawn(generation(model, long[-24:], temperature=0.0, max_tokens=3))
    assert made.n_slides == 1


@pytest.mark.parametrize("style", ["modern", "classic"])
@pytest.mark.parametrize("max_len", [1, 2, 3])
def test_the_shortest_models_go_on(style, max_len):
    made = generation(lively(small_config("decoder", style, max_len=max_len)), max_tokens=9)
    assert len(drawn(made)[0]) == 9
    assert made.n_cut == 5 - max_len


def test_the_seed_repeats_the_text_and_another_one_does_not():
    model = lively(small_config("decoder"))
    first, again, other = (drawn(generation(model, seed=seed, max_tokens=30)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_sample_depends_on_its_number_and_not_on_how_many_there_are():
    model = lively(small_config("decoder"))
    five, two = (drawn(generation(model, samples=n, max_tokens=12)) for n in (5, 2))
    assert five[:2] == two
    assert len({tuple(sample) for sample in five}) == 5


def test_forbidden_ids_never_come_and_the_stop_id_ends_its_sample_alone():
    model = new_model(small_config("decoder"), 1).eval()  # nearly uniform: anything comes
    forbidden = [0, 1, 2, 3, 4, 5, *range(90, 96)]
    made = generation(
        model, samples=40, max_tokens=200, temperature=1.0, top_p=1.0, stop_id=6, forbidden=forbidden, seed=4
    )
    samples = drawn(made)
    assert not {token for sample in samples for token in sample} & set(forbidden)
    lengths = {len(sample) for sample in samples}
    assert len(lengths) > 5
    for sample, finished in zip(samples, made.finished, strict=True):
        assert finished == (sample[-1] == 6)
        assert finished or len(sample) == 200
        assert sample.count(6) == finished


def test_a_reader_can_finish_a_sample():
    made = generation(lively(small_config("decoder")), samples=2, max_tokens=10)
    counts = [0, 0]
    for step in made.steps():
        for draw in step:
            counts[draw.sample] += 1
        if counts[0] == 3:
            made.finish(0)
    assert counts == [3, 10]


def test_no_run_of_tokens_comes_twice():
    model = new_model(small_config("decoder"), 1).eval()
    greedy = PROMPT + drawn(generation(model, temperature=0.0, max_tokens=60))[0]
    assert len({tuple(greedy[i : i + 3]) for i in range(len(greedy) - 2)}) < len(greedy) - 2  # it would repeat
    ids = PROMPT + drawn(generation(model, temperature=0.0, no_repeat_ngram=3, max_tokens=60))[0]
    assert len({tuple(ids[i : i + 3]) for i in range(len(ids) - 2)}) == len(ids) - 2


def test_what_cannot_be_continued_is_refused():
    with pytest.raises(ConfigError, match="needs a decoder"):
        generation(lively(small_config("encoder")))
    with pytest.raises(ConfigError, match="decoder, 0 prompt tokens"):
        generation(lively(small_config("decoder")), [])
    broken = lively(small_config("decoder"))
    with torch.no_grad():
        broken.embedding[50] = torch.nan
    with pytest.raises(DivergedError, match="not finite"):
        drawn(generation(broken))
    with pytest.raises(DivergedError, match="not finite"):
        most_probable(broken, [2, 4, 50, 3], [1], torch.ones(96, dtype=torch.bool), 3)


@pytest.mark.parametrize("name", ["encoder modern", "encoder classic"])
def test_candidates_are_the_softmax_over_the_allowed_tokens(name):
    model = lively(kind_config(name))
    ids, places = [2, 20, 4, 31, 4, 44, 3], [2, 4]
    allowed_V = torch.ones(96, dtype=torch.bool)
    allowed_V[[0, 1, 2, 3, 4, 5, 6, 90, 91, 92, 93, 94, 95]] = False
    best, shares = most_probable(model, ids, places, allowed_V, 500)
    with torch.inference_mode():
        logits_KV = model(torch.tensor([ids]))[0, places]
    for row in range(2):
        want = logits_KV[row, allowed_V].double().exp() / logits_KV[row, allowed_V].double().exp().sum()
        torch.testing.assert_close(shares[row].double(), want.sort(descending=True).values, atol=1e-6, rtol=1e-5)
        assert best[row, 0] == torch.arange(96)[allowed_V][int(want.argmax())]
    assert best.shape == (2, 83)
    few, _ = most_probable(model, ids, places, allowed_V, 4)
    assert torch.equal(few, best[:, :4])


def test_the_part_that_is_read_holds_all_masks():
    generator = torch.Generator().manual_seed(1)
    for _ in range(300):
        n_ids, room = torch.randint(1, 40, (2,), generator=generator).tolist()
        places = sorted({int(place) for place in torch.randint(n_ids, (3,), generator=generator)})
        span = span_of_masks(places, n_ids, room)
        if places[-1] - places[0] >= room:
            assert span is None
            continue
        start, end = span
        assert 0 <= start <= places[0]
        assert places[-1] < end <= n_ids
        assert end - start == min(room, n_ids)
