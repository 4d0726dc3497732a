"""Beam search and sampling of an encoder-decoder: what `transformers.generate` and a search without caches find."""

import json
import math

import pytest
import torch

from tests.support.models import files_of, pair_config, shaken
from wordpipe.errors import DivergedError
from wordpipe.model import (
    Rules,
    beam_search,
    largest,
    length_penalty,
    load_hf,
    new_encoder_decoder,
    sample_targets,
    save_hf,
)
from wordpipe.model.settings import GenerateSettings

STYLES = ("t5", "bart", "vaswani")
ALL_V = torch.ones(96, dtype=torch.bool)


def model_of(style, seed=5):
    """A model whose ends come soon enough, and not at once.

    Both stacks have as many layers: the cache of transformers 5.23 knows the number of the encoder's alone.
    """
    model = shaken(new_encoder_decoder(pair_config(style, n_decoder_layers=2), seed))
    with torch.no_grad():
        model.encoder.embedding *= 2.0
        if model.decoder.output_bias is not None:
            model.decoder.output_bias[6] += 2.0
    return model


def sources(n=7, seed=3):
    generator = torch.Generator().manual_seed(seed)
    ids_BS = torch.randint(7, 60, (n, 9), generator=generator)
    lengths_B = torch.randint(2, 10, (n,), generator=generator)
    mask_BS = torch.arange(9) < lengths_B[:, None]
    return ids_BS.masked_fill(~mask_BS, 0), mask_BS


def theirs_of(model, folder):
    from transformers import AutoModelForSeq2SeqLM

    for name, data in files_of(model).items():
        (folder / name).write_bytes(data)
    return AutoModelForSeq2SeqLM.from_pretrained(folder).eval()


def their_targets(theirs, ids_BS, mask_BS, **settings):
    """Ids without start, end and padding, and scores."""
    found = theirs.generate(
        input_ids=ids_BS, attention_mask=mask_BS.long(), return_dict_in_generate=True, output_scores=True,
        do_sample=False, bos_token_id=None, forced_eos_token_id=None, **settings,
    )  # fmt: skip
    texts = []
    for row in found.sequences.tolist():
        body = row[1:]
        texts.append(tuple(body[: body.index(6)] if 6 in body else body))
    return texts, None if settings.get("num_beams", 1) == 1 else found.sequences_scores.tolist()


@pytest.mark.landing
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("beams", "alpha"), [(2, 1.0), (4, 0.0), (5, 0.6), (3, 2.0), (3, -0.5)])
def test_beams_equal_those_of_transformers(style, beams, alpha, tmp_path):
    model, (ids_BS, mask_BS) = model_of(style), sources()
    want, scores = their_targets(
        theirs_of(model, tmp_path), ids_BS, mask_BS, num_beams=beams, length_penalty=alpha, max_new_tokens=12,
        num_return_sequences=beams, early_stopping=False,
    )  # fmt: skip
    rules = Rules(allowed_V=ALL_V, stop_id=6, max_tokens=12)
    found = beam_search(model, model.read(ids_BS, mask_BS), rules, beams=beams, alpha=alpha, n_best=beams)
    got = [one for of_source in found for one in of_source]
    assert [one.ids for one in got] == want
    assert [one.score for one in got] == pytest.approx(scores, abs=1e-4)


@pytest.mark.landing
@pytest.mark.parametrize("beams", [1, 4])
def test_what_every_target_begins_with_is_certain(beams, tmp_path):
    """As in the folders of public BART models, whose `config.json` names it."""
    model, (ids_BS, mask_BS) = model_of("bart"), sources()
    peer = theirs_of(model, tmp_path)
    want, scores = their_targets(
        peer, ids_BS, mask_BS, num_beams=beams, max_new_tokens=9, min_new_tokens=5, forced_bos_token_id=40
    )
    config = json.loads((tmp_path / "config.json").read_text()) | {"forced_bos_token_id": 40}
    (tmp_path / "config.json").write_text(json.dumps(config))
    ours = load_hf(lambda name: (tmp_path / name).read_bytes(), [one.name for one in tmp_path.iterdir()])
    assert ours.config.first_id == 40
    again = {}
    save_hf(ours.model, ours.config, again.__setitem__)
    assert json.loads(again["config.json"])["forced_bos_token_id"] == 40
    rules = Rules(allowed_V=ALL_V, stop_id=6, max_tokens=9, min_tokens=5, first_id=ours.config.first_id)
    source = ours.model.read(ids_BS, mask_BS)
    if beams == 1:
        greedy = GenerateSettings(temperature=0.0)
        found = sample_targets(ours.model, source, rules, greedy, range(len(ids_BS)))
    else:
        found = beam_search(ours.model, source, rules, beams=beams)
        assert [one[0].score for one in found] == pytest.approx(scores, abs=1e-4)
    assert [(40, *one[0].ids) for one in found] == want
    free = beam_search(ours.model, source, Rules(allowed_V=ALL_V, stop_id=6, max_tokens=9, min_tokens=5), beams=4)
    assert [one[0].score for one in free] != pytest.approx([one[0].score for one in found], abs=1e-3)


@pytest.mark.landing
def test_decoding_moves_to_a_file_of_its_own(tmp_path):
    """transformers 5 writes what decoding needs there and not into `config.json`."""
    theirs = theirs_of(model_of("bart"), tmp_path)
    theirs.generation_config.forced_bos_token_id = 40
    theirs.save_pretrained(tmp_path / "again")
    names = [one.name for one in (tmp_path / "again").iterdir()]
    assert load_hf(lambda name: (tmp_path / "again" / name).read_bytes(), names).config.first_id == 40


@pytest.mark.parametrize("style", ["bart", "vaswani"])
def test_among_these_searches_some_end(style):
    """Else the tests above would compare searches that never finish a sequence."""
    model, (ids_BS, mask_BS) = model_of(style), sources()
    rules = Rules(allowed_V=ALL_V, stop_id=6, max_tokens=12)
    found = beam_search(model, model.read(ids_BS, mask_BS), rules, beams=4, alpha=0.0, n_best=4)
    assert {one.finished for of_source in found for one in of_source} >= {True}


@pytest.mark.landing
@pytest.mark.parametrize("style", STYLES)
def test_lengths_and_repeats_equal_those_of_transformers(style, tmp_path):
    model, (ids_BS, mask_BS) = model_of(style), sources()
    want, _ = their_targets(
        theirs_of(model, tmp_path), ids_BS, mask_BS, num_beams=3, max_new_tokens=10, min_new_tokens=4,
        no_repeat_ngram_size=2,
    )  # fmt: skip
    rules = Rules(allowed_V=ALL_V, stop_id=6, max_tokens=10, min_tokens=4, no_repeat_ngram=2)
    found = beam_search(model, model.read(ids_BS, mask_BS), rules, beams=3)
    assert [one.ids for (one,) in found] == want


@pytest.mark.landing
@pytest.mark.parametrize("style", STYLES)
def test_greedy_targets_equal_those_of_transformers(style, tmp_path):
    model, (ids_BS, mask_BS) = model_of(style), sources()
    want, _ = their_targets(theirs_of(model, tmp_path), ids_BS, mask_BS, max_new_tokens=9)
    rules = Rules(allowed_V=ALL_V, stop_id=6, max_tokens=9)
    settings = GenerateSettings(temperature=0.0)
    found = sample_targets(model, model.read(ids_BS, mask_BS), rules, settings, range(7))
    assert [one.ids for (one,) in found] == want


@torch.no_grad()
def logprob_of(model, source, ids, *, ends=True):
    """Twin: the log-probability of a target, all positions at once and without a cache."""
    labels = [*ids, *([6] if ends else [])]
    logits = model(source[None], torch.tensor([[model.config.start_id, *labels[:-1]]]))[0]
    return float(logits.log_softmax(-1).gather(1, torch.tensor(labels)[:, None]).sum())


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", ["hf", "gnmt"])
def test_scores_are_those_of_the_whole_sequence(style, kind):
    model, (ids_BS, mask_BS) = model_of(style), sources()
    rules = Rules(allowed_V=ALL_V, stop_id=6, max_tokens=8)
    found = beam_search(model, model.read(ids_BS, mask_BS), rules, beams=4, alpha=0.6, penalty=kind, n_best=4)
    for row, of_source in enumerate(found):
        assert len(of_source) == 4
        assert len({one.ids for one in of_source}) == 4
        assert of_source == sorted(of_source, key=lambda one: -one.score)
        for one in of_source:
            want = logprob_of(model, ids_BS[row][mask_BS[row]], one.ids, ends=one.finished)
            assert one.logprob == pytest.approx(want, abs=1e-4)
            n = len(one.ids) + one.finished
            assert one.score == pytest.approx(want / (n**0.6 if kind == "hf" else ((5 + n) / 6) ** 0.6), abs=1e-4)


def test_a_search_over_everything_finds_the_best_of_all():
    """Twin: every target of up to three tokens, of a model that may use four of its ids."""
    model, (ids_BS, _) = model_of("t5"), sources(2)
    allowed_V = torch.zeros(96, dtype=torch.bool)
    allowed_V[[6, 20, 21, 22]] = True
    rules = Rules(allowed_V=allowed_V, stop_id=6, max_tokens=4)
    found = beam_search(model, model.read(ids_BS), rules, beams=27, alpha=0.0, n_best=3)
    targets = [()]
    for _ in range(3):
        targets += [(*one, token) for one in targets for token in (20, 21, 22)]
    for row, of_source in enumerate(found):
        best = sorted({one: logprob_of(model, ids_BS[row], one) for one in set(targets)}.items(), key=lambda x: -x[1])
        finished = [one for one in of_source if one.finished]
        assert [one.ids for one in finished] == [ids for ids, _ in best[: len(finished)]]


@pytest.mark.parametrize("samples", [1, 3])
def test_samples_depend_on_the_seed_and_their_number_alone(samples):
    model, (ids_BS, mask_BS) = model_of("vaswani"), sources()
    rules = Rules(allowed_V=ALL_V, stop_id=6, max_tokens=8)
    settings = GenerateSettings(temperature=1.0, top_p=1.0, samples=samples, seed=4)
    whole = sample_targets(model, model.read(ids_BS, mask_BS), rules, settings, range(7))
    assert all(len(of_source) == samples for of_source in whole)
    some = sample_targets(model, model.read(ids_BS[4:6], mask_BS[4:6]), rules, settings, [4, 5])
    assert [[one.ids for one in of] for of in some] == [[one.ids for one in of] for of in whole[4:6]]
    for row, of_source in enumerate(whole):
        for one in of_source:
            want = logprob_of(model, ids_BS[row][mask_BS[row]], one.ids, ends=one.finished)
            assert one.logprob == pytest.approx(want, abs=1e-4)
    other = sample_targets(model, model.read(ids_BS, mask_BS), rules, settings.model_copy(update={"seed": 5}), range(7))
    assert whole != other


def test_sampled_tokens_have_their_probabilities():
    model, (ids_BS, _) = model_of("vaswani"), sources(1)
    rules = Rules(allowed_V=ALL_V, stop_id=6, max_tokens=1)
    settings = GenerateSettings(temperature=1.0, top_p=1.0, samples=4000)
    (found,) = sample_targets(model, model.read(ids_BS), rules, settings, [0])
    with torch.no_grad():
        shares = model(ids_BS, torch.tensor([[model.config.start_id]]))[0, 0].softmax(-1)
    counts = torch.bincount(torch.tensor([one.ids[0] if one.ids else 6 for one in found]), minlength=96) / 4000
    assert float((counts - shares).abs().max()) < 4 * math.sqrt(0.25 / 4000)


def test_what_must_not_come_does_not():
    model, (ids_BS, mask_BS) = model_of("bart"), sources()
    allowed_V = ALL_V.clone()
    allowed_V[50:] = False
    rules = Rules(allowed_V=allowed_V, stop_id=6, max_tokens=6)
    source = model.read(ids_BS, mask_BS)
    for found in (
        beam_search(model, source, rules, beams=3, n_best=3),
        sample_targets(model, source, rules, GenerateSettings(samples=3), range(7)),
    ):
        assert max(token for of in found for one in of for token in one.ids) < 50


def test_broken_weights_are_an_error():
    model, (ids_BS, mask_BS) = model_of("t5"), sources()
    with torch.no_grad():
        model.decoder.final_norm.weight[0] = torch.nan
    with pytest.raises(DivergedError):
        beam_search(model, model.read(ids_BS, mask_BS), Rules(allowed_V=ALL_V, stop_id=6, max_tokens=3), beams=2)


def test_length_penalties():
    assert length_penalty(4, 0.5, "hf") == 2.0
    assert length_penalty(13, 2.0, "gnmt") == 9.0


@pytest.mark.parametrize("style", STYLES)
def test_every_source_has_its_own_limit(style):
    """Together they are what each is alone: no target is longer than its limit, and none shorter for that of another."""
    model, (ids_BS, mask_BS) = model_of(style), sources()
    limits = (3, 12, 1, 7, 12, 5, 9)
    whole, settings = model.read(ids_BS, mask_BS), GenerateSettings(temperature=1.0, top_p=1.0, samples=2)
    together = Rules(allowed_V=ALL_V, stop_id=6, max_tokens=12, limits=limits)
    beams = beam_search(model, whole, together, beams=3, n_best=3)
    samples = sample_targets(model, whole, together, settings, range(7))
    for row, limit in enumerate(limits):
        alone = Rules(allowed_V=ALL_V, stop_id=6, max_tokens=limit)
        source = model.read(ids_BS[row : row + 1], mask_BS[row : row + 1])
        (searched,) = beam_search(model, source, alone, beams=3, n_best=3)
        (sampled,) = sample_targets(model, source, alone, settings, [row])
        for want, got in ((searched, beams[row]), (sampled, samples[row])):
            assert [(one.ids, one.finished) for one in got] == [(one.ids, one.finished) for one in want]
            assert [one.score for one in got] == pytest.approx([one.score for one in want], abs=1e-4)
            assert all(len(one.ids) + one.finished <= limit for one in got)
            assert all(one.finished or len(one.ids) == limit for one in got)


@pytest.mark.parametrize(("n", "size", "count"), [(5, 4000, 10), (3, 4097, 7), (4, 300, 20), (1, 8000, 2)])
def test_the_largest_are_those_of_a_whole_search(n, size, count):
    scores = torch.randn(n, size, generator=torch.Generator().manual_seed(size))
    scores[:, ::3] = -torch.inf
    best, places = largest(scores, count)
    want = scores.topk(count, dim=1)
    assert torch.equal(best, want.values)
    assert torch.equal(scores.gather(1, places), best)
    assert all(len(set(row)) == count for row in places.tolist())
