"""Texts filled by denoised encoder-decoders: with T5's sentinels, and by BART, which writes the whole text."""

import json
from itertools import pairwise

import pytest
import torch
from tokenizers import Tokenizer

from tests.support.model_artifacts import artifact_of, folder_of, pair_files, tokenizer_file
from wordpipe import fill, open_model
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.model import Hypothesis
from wordpipe.model.settings import FillSettings
from wordpipe.settings import Settings
from wordpipe.stages import DenoisingFiller

QUICK = {"threads": 1, "device": "cpu"}


class Denoising(Settings):
    command = "train denoising"


@pytest.fixture(scope="module")
def tokenizers(handbook, tmp_path_factory):
    data = tokenizer_file(handbook, tmp_path_factory.mktemp("tokens") / "bpe")
    with_sentinels = Tokenizer.from_str(data.decode())
    with_sentinels.add_special_tokens([f"<extra_id_{number}>" for number in range(4)])
    return {"bart": data, "t5": with_sentinels.to_str().encode()}


@pytest.fixture(scope="module")
def models(tokenizers, tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    made = {style: folder_of(pair_files(data, style), root / style) for style, data in tokenizers.items()}
    return made | {"artifact": artifact_of(pair_files(tokenizers["t5"], "t5"), root / "artifact", Denoising())}


def theirs(path, text, sentinels, most, beams=5):
    """The targets of transformers, best first, as ids."""

    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModelForSeq2SeqLM.from_pretrained(path).eval()
    wrong = [[number] for number in [*range(6), *range(400 + sentinels, 448)]]
    found = model.generate(
        **tokenizer(text, return_tensors="pt"), do_sample=False, num_beams=beams, num_return_sequences=5,
        max_new_tokens=most,
        bad_words_ids=wrong, bos_token_id=None, forced_eos_token_id=None, return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    return tokenizer, found.sequences[:, 1:].tolist(), found.sequences_scores.tolist()


@pytest.mark.landing
def test_bart_writes_the_whole_text(models):
    """As transformers does for the same letters."""
    text = "The bees[MASK] to the flowers."
    n_ids = len(open_model(models["bart"]).encode(text)) + 2
    tokenizer, rows, scores = theirs(models["bart"], text, 0, min(48, 2 * n_ids + 20))
    want = dict(zip((tokenizer.decode(row, skip_special_tokens=True).strip() for row in rows), scores, strict=True))
    filled = fill(models["bart"], text, top_k=5, **QUICK)
    assert [one.filled for one in filled.fillings] == list(want)
    assert [one.score for one in filled.fillings] == pytest.approx(list(want.values()), abs=1e-4)
    assert [one.rank for one in filled.fillings] == list(range(1, len(want) + 1))
    assert (filled.masks, filled.cut, filled.text) == ([], 0, text)
    assert filled.filled == filled.fillings[0].filled
    assert not any(one.spans for one in filled.fillings)


@pytest.mark.landing
def test_t5_writes_what_stands_between_its_sentinels(models):
    """The same search as transformers', whose text has no space before a sentinel: it belongs to what is missing."""
    tokenizer, rows, scores = theirs(models["t5"], "The<extra_id_0> fly to<extra_id_1>.", 3, 34, beams=40)
    filled = fill(models["t5"], "The [MASK] fly to [MASK].", top_k=5, **QUICK)
    assert {round(one.score, 3) for one in filled.fillings} <= {round(score, 3) for score in scores}
    assert filled.fillings[0].score == pytest.approx(scores[0], abs=1e-4)
    row = [number for number in rows[0] if number not in (0, 6)]
    places = [*(place for place, number in enumerate(row) if number >= 400), len(row)]
    spans = {row[a]: row[a + 1 : b] for a, b in reversed(list(pairwise(places)))}
    assert filled.fillings[0].spans == [tokenizer.decode(spans.get(number, [])).strip() for number in (400, 401)]
    for one in filled.fillings:
        assert one.filled.startswith("The")
        assert " fly to" in one.filled
        assert one.filled.endswith(".")
        assert "<extra_id" not in one.filled
        assert all(span in one.filled for span in one.spans)
    assert len({one.filled for one in filled.fillings}) == len(filled.fillings)


def taught(opened, ids):
    """The model, made to write these ids: each step's logits are those of the next one."""
    model = opened.pair_model
    steps, source_of = iter(ids), model.read

    def read(*args):
        nonlocal steps
        steps = iter(ids)  # of each search
        return source_of(*args)

    def logits_at(hidden):
        logits = torch.full((*hidden.shape[:-1], 448), -20.0)
        logits[..., next(steps)] = 0.0
        return logits

    model.read, model.decoder.logits_at = read, logits_at
    return opened


@pytest.mark.parametrize(
    ("written", "filled", "spans"),
    [
        ("<extra_id_0> bees<extra_id_1> them<extra_id_2>", "The bees fly to them.", ["bees", "them"]),
        ("<extra_id_1> them", "The fly to them.", ["", "them"]),
        ("<extra_id_0><extra_id_1> a b c", "The fly to a b c.", ["", "a b c"]),
        (" no sentinel", "The fly to.", ["", ""]),
        ("<extra_id_0> one<extra_id_0> two", "The one fly to.", ["one", ""]),
    ],
)
def test_the_target_is_parted_by_its_sentinels(models, written, filled, spans):
    opened = open_model(models["t5"])
    ids = opened.tokenizer.encode(written, add_special_tokens=False).ids
    opened = taught(opened, [*ids, 6, *[6] * 40])
    found = fill(opened, "The [MASK] fly to [MASK].", top_k=1, **QUICK)
    assert (found.filled, found.fillings[0].spans) == (filled, spans)
    assert len(found.fillings) == 1


def found_by(beams_needed, widths):
    """A search that finds what fills nothing twice, the same text twice, and another one where it is wide enough."""

    def search(self, ids, n_masks, beams):
        widths.append(beams)
        texts = ["<extra_id_1>", "<extra_id_0> bees", "", "<extra_id_0> bees<extra_id_1>"]
        texts += ["<extra_id_0> birds"] if beams >= beams_needed else []
        tokens = [self._opened.tokenizer.encode(one, add_special_tokens=False).ids for one in texts]
        return [Hypothesis(tuple(one), -1.0 - rank, -2.0 - rank, finished=True) for rank, one in enumerate(tokens)]

    return search


@pytest.mark.parametrize(
    ("needed", "top_k", "filled", "widths"),
    [
        (5, 1, ["The bees fly."], [5]),
        (5, 2, ["The bees fly.", "The birds fly."], [5]),
        (20, 2, ["The bees fly.", "The birds fly."], [5, 10, 20]),
        (20, 3, ["The bees fly.", "The birds fly."], [5, 10, 20, 40]),
        (99, 2, ["The bees fly."], [5, 10, 20, 40]),
        (1, 600, ["The bees fly.", "The birds fly."], [600, 1000]),
    ],
)
def test_more_beams_search_where_too_few_texts_are_different(models, monkeypatch, needed, top_k, filled, widths):
    searched = []
    monkeypatch.setattr(DenoisingFiller, "_search", found_by(needed, searched))
    found = fill(models["t5"], "The [MASK] fly.", top_k=top_k, **QUICK)
    assert [one.filled for one in found.fillings] == filled
    assert [one.rank for one in found.fillings] == [*range(1, len(filled) + 1)]
    assert (searched, found.filled) == (widths, filled[0])


def test_fewer_candidates_than_asked_for_are_said(models, monkeypatch, cli):
    monkeypatch.setattr(DenoisingFiller, "_search", found_by(1, []))
    asked = ("fill", models["t5"], "The [MASK] fly.", "--device", "cpu", "--threads", 1)
    assert "the search found only 2 of 3 candidates\n" in cli(*asked, "--top-k", 3).err
    assert "candidates of" not in cli(*asked, "--top-k", 2).err
    assert cli(*asked, "-q").err == ""


@pytest.mark.parametrize("spelled", ["<mask>", "<MASK>"])
def test_a_mask_may_be_spelled_as_the_tokenizer_does(models, tokenizers, tmp_path, spelled):
    """Where it has such a token; [MASK] is always one."""
    want = fill(models["t5"], "The [MASK] fly to [MASK].", **QUICK).fillings
    with_mask = Tokenizer.from_str(tokenizers["t5"].decode())
    with_mask.add_special_tokens([spelled])
    path = folder_of(pair_files(with_mask.to_str().encode(), "t5"), tmp_path / "model")
    for text in (f"The {spelled} fly to {spelled}.", f"The [MASK] fly to {spelled}.", "The [MASK] fly to [MASK]."):
        assert fill(path, text, **QUICK).fillings == want
    with pytest.raises(InputError, match="no mask to fill"):
        fill(models["t5"], f"The {spelled} fly.", **QUICK)


def test_sentinels_may_be_written_themselves(models):
    plain = fill(models["t5"], "The [MASK] fly to [MASK].", **QUICK)
    own = fill(models["t5"], "The <extra_id_0> fly to <extra_id_1>.", **QUICK)
    assert plain.fillings == own.fillings


def test_an_artifact_of_denoising_fills_and_one_of_pairs_does_not(models, tokenizers, tmp_path):
    asked = "The [MASK] fly."
    assert fill(models["artifact"], asked, **QUICK).fillings == fill(models["t5"], asked, **QUICK).fillings

    class Pairs(Settings):
        command = "train seq2seq"

    pairs = artifact_of(pair_files(tokenizers["t5"], "t5"), tmp_path / "pairs", Pairs())
    with pytest.raises(ArtifactError, match="was not trained for denoising") as error:
        fill(pairs, asked)
    assert "train seq2seq" in error.value.got
    assert "wordpipe train denoising" in error.value.hint
    maskless = Tokenizer.from_str(tokenizers["bart"].decode().replace("[MASK]", "[M]")).to_str()
    files = pair_files(tokenizers["bart"], "vaswani")
    for name in ("config.json", "tokenizer_config.json"):
        values = json.loads(files[name])
        files[name] = json.dumps({key: value for key, value in values.items() if "mask" not in key}).encode()
    files["tokenizer.json"] = maskless.encode()
    with pytest.raises(ArtifactError, match="was not trained for denoising") as error:
        fill(folder_of(files, tmp_path / "maskless"), asked)
    assert error.value.got == "a tokenizer without sentinel and mask tokens"


def test_a_long_text_is_cut_around_its_masks(models):
    for style in ("t5", "bart"):
        filler = DenoisingFiller(open_model(models[style]), FillSettings(**QUICK))
        assert filler.mask == "[MASK]"
        found = filler.fill("honey " * 60 + "[MASK] and [MASK]" + " bees" * 60)
        assert found.cut > 60
        with pytest.raises(InputError, match="too far apart"):
            filler.fill("[MASK]" + " honey" * 60 + "[MASK]")
    t5 = DenoisingFiller(open_model(models["t5"]), FillSettings(**QUICK)).fill("honey " * 60 + "[MASK]")
    assert t5.filled.startswith("honey " * 59)


def test_what_cannot_be_filled_is_refused(models):
    for style in ("t5", "bart"):
        with pytest.raises(InputError, match="no mask to fill") as error:
            fill(models[style], "no mask", **QUICK)
        assert "[MASK]" in error.value.hint
        with pytest.raises(ConfigError, match="larger than the maximum number of beams"):
            fill(models[style], "a [MASK]", top_k=1_001, **QUICK)
    with pytest.raises(
        InputError, match="more masks than the tokenizer has sentinel tokens; got 5; expected at most 4"
    ):
        fill(models["t5"], "[MASK] " * 5, **QUICK)
