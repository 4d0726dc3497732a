"""Finished models in use: opened from artifacts and folders, texts continued, masked positions filled."""

import math

import pytest
import torch

from tests.support.model_artifacts import artifact_of, folder_of, model_files, tokenizer_file
from wordpipe import fill, generate, open_model
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.model.settings import FillSettings
from wordpipe.stages import Filler

QUICK = {"threads": 1, "device": "cpu"}
PROMPT = "The bees of the valley"


@pytest.fixture(scope="module")
def tokenizers(handbook, tmp_path_factory):
    root = tmp_path_factory.mktemp("tokenizers")
    return {name: tokenizer_file(handbook, root / name, algorithm=name) for name in ("bpe", "wordpiece")}


@pytest.fixture(scope="module")
def models(tokenizers, tmp_path_factory):
    """Name → path; decoders and encoders, with either tokenizer, in either style."""
    root = tmp_path_factory.mktemp("models")
    made = {
        f"{architecture} {name}": folder_of(model_files(data, architecture), root / f"{architecture}-{name}")
        for name, data in tokenizers.items()
        for architecture in ("decoder", "encoder")
    }
    made["gpt2"] = folder_of(model_files(tokenizers["bpe"], "decoder", "classic"), root / "gpt2")
    made["artifact"] = artifact_of(model_files(tokenizers["bpe"], "decoder"), root / "artifact")
    return made


def continued(path, prompt=PROMPT, **settings):
    return generate(path, prompt, **QUICK | {"max_tokens": 20} | settings)


@pytest.mark.landing
@pytest.mark.parametrize("name", ["decoder bpe", "gpt2"])
def test_greedy_text_is_that_of_transformers(models, name):
    """With their tokenizer: their template puts <s> before the prompt and no </s> behind it, as ours."""

    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(models[name])
    theirs = AutoModelForCausalLM.from_pretrained(models[name]).eval()
    asked = tokenizer(PROMPT, return_tensors="pt")
    n = asked["input_ids"].shape[1]
    wrong = [[number] for number in [0, 1, 2, 3, 4, 5, *range(len(tokenizer), 448)]]
    want = theirs.generate(**asked, do_sample=False, max_new_tokens=20, bad_words_ids=wrong, pad_token_id=0)[0, n:]
    (ours,) = continued(models[name], temperature=0.0)
    assert ours.tokens == len(want)
    assert ours.text == tokenizer.decode(want, skip_special_tokens=True)
    with torch.no_grad():
        scores = theirs(torch.cat((asked["input_ids"][0], want))[None]).logits[0, n - 1 : -1].log_softmax(-1)
    assert ours.logprob == pytest.approx(float(scores.gather(1, want[:, None]).mean()), abs=1e-4)


def test_an_artifact_is_the_folder_it_holds(models):
    assert continued(models["artifact"], seed=3) == continued(models["decoder bpe"], seed=3)
    opened = open_model(models["artifact"], verify=False)
    assert continued(opened, seed=3) == continued(models["artifact"], seed=3)


def test_the_seed_repeats_the_texts_and_samples_differ(models):
    first, again = (continued(models["artifact"], samples=3, seed=8) for _ in range(2))
    assert first == again
    assert len({made.text for made in first}) == 3
    assert first != continued(models["artifact"], samples=3, seed=9)


@pytest.mark.parametrize("name", ["decoder bpe", "decoder wordpiece"])
def test_only_tokens_of_text_come(models, name):
    """Samples from a nearly uniform model: no special token, no row above the tokenizer's ids, and </s> ends."""
    made = continued(models[name], samples=60, max_tokens=60, temperature=3.0, top_p=1.0, seed=2)
    assert {one.stopped for one in made} == {"eos", "length"}
    for one in made:
        assert not any(token in one.text for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"))
        assert one.tokens <= 60
        assert (one.stopped == "length") <= (one.tokens == 60)
        assert one.slid == 1


def test_a_stop_string_ends_a_text_before_it(models):
    (whole,) = continued(models["artifact"], seed=5, max_tokens=40)
    for stop in (whole.text[7:9], whole.text[10:15]):
        (made,) = continued(models["artifact"], seed=5, max_tokens=40, stop=(stop,))
        assert made.text == whole.text[: whole.text.index(stop)]
        assert made.stopped == "string"
        assert made.tokens < whole.tokens


def test_an_empty_prompt_begins_a_text(models):
    (made,) = continued(models["artifact"], "")
    assert made.prompt == ""
    assert made.text
    opened = open_model(models["artifact"])
    bare = type(opened)(**{**vars(opened), "before": (), "special": {"eos": 6}})
    with pytest.raises(ConfigError, match="no token for the beginning of a text"):
        continued(bare, "")
    assert continued(type(opened)(**{**vars(opened), "before": ()}), "") == continued(opened, "")


def test_a_long_prompt_is_cut_at_its_beginning_and_counted(models):
    (made,) = continued(models["artifact"], "honey " * 60 + PROMPT)
    opened = open_model(models["artifact"])
    n_prompt = 1 + len(opened.encode("honey " * 60 + PROMPT))
    assert made.cut == n_prompt - 48
    assert made.slid == 1
    assert made.prompt.startswith("honey honey")


def test_bytes_that_are_no_text_are_replaced_and_special_tokens_in_a_prompt_are_what_they_spell(models):
    (made,) = continued(models["artifact"], "bees \udcff")
    assert made.prompt == "bees ?"
    opened = open_model(models["artifact"])
    assert opened.special["eos"] in opened.encode("a</s>b")


@pytest.mark.landing
@pytest.mark.parametrize("name", ["encoder bpe", "encoder wordpiece"])
def test_candidates_are_those_of_transformers(models, name):
    """Their pipeline shares the probability among all rows of the table, ours among the tokens of text."""

    from transformers import AutoTokenizer, pipeline

    tokenizer = AutoTokenizer.from_pretrained(models[name])
    theirs = pipeline("fill-mask", model=str(models[name]), tokenizer=tokenizer, device="cpu", top_k=448)
    text = "The bees[MASK] to the field."
    ours = fill(models[name], text, top_k=448, **QUICK)
    ordinary = [one for one in theirs(text) if 7 <= one["token"] < len(tokenizer)]
    total = sum(one["score"] for one in ordinary)
    assert len(ours.masks[0]) == len(ordinary)
    assert sum(one.probability for one in ours.masks[0]) == pytest.approx(1.0, abs=1e-5)
    for mine, other in zip(ours.masks[0][:20], ordinary, strict=False):
        assert mine.probability == pytest.approx(other["score"] / total, rel=1e-3)
        assert mine.token.strip() == other["token_str"].strip() or "<0x" in mine.token or not other["token_str"].strip()


def after_word(candidate) -> str:
    """What fills a mask behind a word: letters are not written on to it."""
    return f" {candidate.token}" if candidate.token[:1].isalnum() else candidate.token


def test_every_mask_has_candidates_and_the_best_fill_the_text(models):
    filled = fill(models["encoder bpe"], "Honey [MASK] sweet and [MASK].", top_k=3, **QUICK)
    assert [[one.rank for one in mask] for mask in filled.masks] == [[1, 2, 3], [1, 2, 3]]
    assert [one.mask for mask in filled.masks for one in mask] == [1, 1, 1, 2, 2, 2]
    first, second = filled.masks
    assert filled.filled == f"Honey{after_word(first[0])} sweet and{after_word(second[0])}."
    assert first[2].filled == f"Honey{after_word(first[2])} sweet and{after_word(second[0])}."
    assert second[1].filled == f"Honey{after_word(first[0])} sweet and{after_word(second[1])}."
    assert first[0].probability >= first[1].probability >= first[2].probability > 0
    assert filled.cut == 0


def test_masked_positions_are_predicted_together(models):
    """The candidates of one do not depend on those of the other, only on its being masked."""
    opened = open_model(models["encoder bpe"])
    ids = [*opened.before, *opened.encode("The"), 4, *opened.encode(" bees"), 4, *opened.after]
    with torch.inference_mode():
        logits_TV = opened.model(torch.tensor([ids]))[0]
    filled = fill(opened, "The [MASK] bees [MASK]", top_k=1, **QUICK)
    allowed_V = opened.tokens_that_come()
    for mask, place in zip(filled.masks, [number for number, one in enumerate(ids) if one == 4], strict=True):
        want = logits_TV[place, allowed_V].softmax(-1).max()
        assert mask[0].probability == pytest.approx(float(want), rel=1e-4)


def test_a_long_text_is_cut_around_its_masks(models):
    filler = Filler(open_model(models["encoder bpe"]), FillSettings(device="cpu", threads=1))
    text = "honey " * 60 + "[MASK] and [MASK]" + " bees" * 60
    filled = filler.fill(text)
    assert len(filled.masks) == 2
    assert filled.cut > 60
    assert filled.filled.startswith("honey honey")
    with pytest.raises(InputError, match=r"too far apart.*at most 46"):
        filler.fill("[MASK]" + " honey" * 60 + "[MASK]")


def test_a_model_of_the_other_kind_is_refused_with_the_command_for_it(models):
    with pytest.raises(ArtifactError, match="wrong kind of model for this command: an encoder fills masks") as error:
        continued(models["encoder bpe"])
    assert "wordpipe fill" in error.value.hint
    with pytest.raises(ArtifactError, match="wrong kind of model for this command: a decoder continues texts") as error:
        fill(models["artifact"], "a [MASK]")
    assert "wordpipe generate" in error.value.hint


@pytest.mark.landing
def test_what_cannot_be_used_is_refused(models, tokenizers, tmp_path):
    from transformers import AutoTokenizer

    with pytest.raises(InputError, match="no mask to fill") as error:
        fill(models["encoder bpe"], "no mask")
    assert "[MASK]" in error.value.hint
    with pytest.raises(ArtifactError, match="the artifact does not exist"):
        open_model(tmp_path / "nowhere")
    files = model_files(tokenizers["bpe"], "decoder")
    lacking = folder_of({name: data for name, data in files.items() if "safetensors" not in name}, tmp_path / "lacking")
    with pytest.raises(ArtifactError, match="safetensors"):
        open_model(lacking)
    more = folder_of(files, tmp_path / "more")
    added = AutoTokenizer.from_pretrained(more)
    added.add_tokens([f"new{n}" for n in range(90)])
    added.save_pretrained(more)
    with pytest.raises(ArtifactError, match="more tokens than the model has embeddings; got 490; expected at most 448"):
        open_model(more)
    (more / "tokenizer_config.json").write_text("{")
    with pytest.raises((ArtifactError, InputError), match="JSON"):
        open_model(more)


def test_a_mask_is_found_where_only_the_tokenizer_names_it(models, tokenizers, tmp_path):
    """As in public folders of BERT: the config knows no mask."""
    files = model_files(tokenizers["wordpiece"], "encoder", "classic")
    files["config.json"] = files["config.json"].replace(b'"mask_token_id": 4,', b"")
    assert b"mask" not in files["config.json"]
    folder = folder_of(files, tmp_path / "bert")
    assert len(fill(folder, "a [MASK]", **QUICK).masks) == 1
    assert math.isclose(
        sum(one.probability for one in fill(folder, "a [MASK]", top_k=999, **QUICK).masks[0]), 1.0, rel_tol=1e-4
    )
