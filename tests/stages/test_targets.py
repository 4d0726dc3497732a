"""Target texts by an encoder-decoder: those of transformers, whatever stands beside them, and nothing lost in silence."""

import pytest
import torch

from tests.support.model_artifacts import artifact_of, folder_of, model_files, pair_files, tokenizer_file
from wordpipe import evaluate_seq2seq, generate, open_model
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model.settings import GenerateSettings
from wordpipe.stages import WINDOW, RunOptions, Target, TargetWriter
from wordpipe.training.settings import DenoisingSettings

QUICK = {"threads": 1, "device": "cpu"}
STYLES = ("t5", "bart", "vaswani")
SOURCES = [
    "The bees of the valley fly to the flowers.", "Honey", "A keeper looks after the hives in spring, and again in autumn.",
    "Honey is sweet.", "Water", "The sea is deep and the mud is soft, they say.",
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer(handbook, tmp_path_factory):
    return tokenizer_file(handbook, tmp_path_factory.mktemp("tokens") / "bpe")


@pytest.fixture(scope="module")
def models(tokenizer, tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    made = {style: folder_of(pair_files(tokenizer, style), root / style) for style in STYLES}
    made["without a frame"] = folder_of(pair_files(tokenizer, "vaswani", framed=False), root / "bare")
    made["artifact"] = artifact_of(pair_files(tokenizer, "vaswani"), root / "artifact")
    return made


def writer(path, **settings):
    return TargetWriter(open_model(path), GenerateSettings.make(QUICK | {"max_tokens": 12} | settings))


def texts(found):
    return [[target.text for target in one.targets] for one in found]


def theirs(path, sources, **settings):
    """Texts and scores of transformers: its tokenizer, its model, its search; only tokens of text may come."""

    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModelForSeq2SeqLM.from_pretrained(path).eval()
    asked = tokenizer(sources, return_tensors="pt", padding=True)
    wrong = [[number] for number in [0, 1, 2, 3, 4, 5, *range(len(tokenizer), 448)]]
    found = model.generate(
        **asked, do_sample=False, max_new_tokens=12, bad_words_ids=wrong, bos_token_id=None, forced_eos_token_id=None,
        return_dict_in_generate=True, output_scores=True, **settings,
    )  # fmt: skip
    scores = None if settings["num_beams"] == 1 else found.sequences_scores.tolist()
    return tokenizer.batch_decode(found.sequences, skip_special_tokens=True), scores


@pytest.mark.landing
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("beams", [1, 4])
def test_texts_are_those_of_transformers(models, style, beams):
    """From letters to letters: their frame, their padding; ours in batches sorted by length."""
    want, scores = theirs(models[style], SOURCES, num_beams=beams)
    found = writer(models[style], beams=beams).write(SOURCES)
    assert [one.text for one in found] == want
    assert [one.source for one in found] == SOURCES
    assert len(set(want)) > 2  # they depend on their sources
    if scores:
        assert [one.targets[0].score for one in found] == pytest.approx(scores, abs=1e-4)


@pytest.mark.landing
def test_the_n_best_are_those_of_transformers(models):
    settings = {"num_beams": 4, "num_return_sequences": 3, "length_penalty": 0.6}
    want, scores = theirs(models["bart"], SOURCES, **settings)
    found = writer(models["bart"], beams=4, n_best=3, length_penalty=0.6).write(SOURCES)
    assert [target.text for one in found for target in one.targets] == want
    assert [target.score for one in found for target in one.targets] == pytest.approx(scores, abs=1e-4)


def test_the_gnmt_penalty_ranks_otherwise(models):
    by_length = writer(models["bart"], beams=4, n_best=4).write(SOURCES)
    by_gnmt = writer(models["bart"], beams=4, n_best=4, length_penalty=0.6, length_penalty_by="gnmt").write(SOURCES)
    for one in by_gnmt:
        for target in one.targets:
            assert target.score == pytest.approx(target.logprob / ((5 + target.tokens) / 6) ** 0.6)
    assert texts(by_length) != texts(by_gnmt)


def alike(one, other):
    """The same texts; their scores but for the last bits, as a product of another shape adds in another order."""
    assert texts(one) == texts(other)
    assert [(a.source, a.cut) for a in one] == [(b.source, b.cut) for b in other]
    for a, b in zip(one, other, strict=True):
        for mine, its in zip(a.targets, b.targets, strict=True):
            assert (mine.tokens, mine.finished) == (its.tokens, its.finished)
            assert (mine.score, mine.logprob) == pytest.approx((its.score, its.logprob), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"beams": 2, "n_best": 2, "max_tokens": None},
        {"temperature": 1.5, "samples": 2, "top_k": 5},
        {"temperature": 0.0},
    ],
    ids=["beams", "own limits", "samples", "greedy"],
)
def test_a_text_gets_the_same_target_whatever_stands_beside_it(models, settings, monkeypatch):
    whole = writer(models["bart"], **settings).write([*SOURCES, *SOURCES[::-1]])
    alike(whole[:6], whole[:5:-1])
    alike(whole[:6], [writer(models["bart"], **settings).write([text])[0] for text in SOURCES])
    monkeypatch.setattr("wordpipe.stages.infer.generate._POSITIONS", 100)
    alike(whole, writer(models["bart"], **settings).write([*SOURCES, *SOURCES[::-1]]))


def test_the_seed_decides_the_samples(models):
    first, again, other = (
        writer(models["vaswani"], temperature=2.0, samples=3, seed=seed).write(SOURCES) for seed in (4, 4, 5)
    )
    assert first == again != other
    assert all(len(one.targets) == 3 for one in first)


def test_batches_are_bounded_and_every_source_is_in_one(models):
    made = writer(models["vaswani"], beams=3)
    sizes = []
    search = made._search

    def counted(batch):
        sizes.append((len(batch), len(batch) * (3 * 12 + max(len(one.ids) for one in batch))))
        return search(batch)

    made._search = counted
    made.write(["honey " * (1 + number % 30) for number in range(200)])
    assert sum(size for size, _ in sizes) == 200
    assert len(sizes) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wordpipe.stages.infer.generate._POSITIONS", 1_000)
        sizes.clear()
        made.write(["honey " * (1 + number % 30) for number in range(200)])
    assert sum(size for size, _ in sizes) == 200
    assert len(sizes) > 5
    assert max(positions for _, positions in sizes) <= 1_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wordpipe.stages.infer.generate._LOGITS", 448 * 3 * 7)
        sizes.clear()
        made.write(SOURCES * 4)
    assert {size for size, _ in sizes} == {7, 3}


def test_a_source_that_is_too_long_is_cut_at_its_end_and_counted(models):
    made = writer(models["t5"])
    n_ids = len(open_model(models["t5"]).encode("honey " * 60))
    short, long = made.write(["honey", "honey " * 60])
    assert (short.cut, long.cut) == (0, n_ids - 47)
    assert (made.cut, made.sources, made.empty) == (n_ids - 47, 2, 0)
    assert long.targets[0].text
    framed = writer(models["bart"]).write(["honey " * 60])
    assert framed[0].cut == n_ids - 46


def test_an_empty_source_has_an_empty_target(models):
    made = writer(models["t5"], n_best=2)
    found = made.write(["", "Honey", " \t"])
    assert [len(one.targets) for one in found] == [1, 2, 1]
    assert found[0].targets == [Target("", 0.0, 0.0, 0, finished=True)]
    assert (found[2].text, made.empty, made.sources) == ("", 2, 3)
    assert made.write([]) == []


def test_limits_follow_the_source(models):
    """Twice its tokens and 20, at most the positions: sampling from nearly equal tokens mostly reaches it."""
    opened = open_model(models["vaswani"])
    for source in ("Honey", "honey " * 12, "honey " * 60):
        limit = min(48, 2 * min(len(opened.encode(source)), 47) + 20)
        found = writer(models["vaswani"], max_tokens=None, temperature=50.0, samples=30).write([source])
        assert max(target.tokens for target in found[0].targets) == limit
        assert {target.finished for target in found[0].targets} >= {False}
        for target in found[0].targets:
            assert target.finished or target.tokens == limit
    assert writer(models["vaswani"], max_tokens=4).write(["Honey"])[0].targets[0].tokens <= 4


def test_more_tokens_than_positions_are_said(models):
    made = writer(models["vaswani"], max_tokens=500)
    assert made.notes == ["max_tokens is 500, but the model has 48 positions, so no target can have more tokens"]
    assert made.write(["Honey"])[0].targets[0].tokens <= 48
    assert writer(models["vaswani"]).notes == []


def test_a_denoiser_is_named(tokenizer, models, tmp_path):
    """Where the manifest says what the model learned; nothing is known of folders of others."""
    path = artifact_of(pair_files(tokenizer, "t5"), tmp_path / "model", DenoisingSettings())
    (note,) = writer(path).notes
    assert note.startswith("the model was trained for denoising, not on pairs of texts")
    assert f"wordpipe train seq2seq PAIRS --init {path}" in note
    assert writer(path).write(["Honey"])[0].targets
    told = []
    evaluate_seq2seq(
        path, [{"text": "a", "text_b": "b"}], draws=0, max_tokens=2, **QUICK, run=RunOptions(report=told.append)
    )
    assert f"model: {note}" in [one.note for one in told]
    assert writer(models["t5"]).notes == writer(models["artifact"]).notes == []


def test_at_least_so_many_tokens(models):
    short = writer(models["bart"], beams=3).write(SOURCES)
    assert min(one.targets[0].tokens for one in short) < 8
    for settings in ({"beams": 3}, {"temperature": 0.0}):
        found = writer(models["bart"], min_tokens=8, **settings).write(SOURCES)
        assert min(one.targets[0].tokens for one in found) >= 8
    assert writer(models["bart"], min_tokens=30, max_tokens=None).write(["Honey"])[0].targets[0].tokens >= 30


def test_only_tokens_of_text_come(models):
    for style in STYLES:
        for one in writer(models[style], temperature=9.0, samples=20, top_p=1.0).write(SOURCES):
            for target in one.targets:
                assert not any(name in target.text for name in ("[PAD]", "[UNK]", "[MASK]", "<s>", "</s>"))


def test_a_tokenizer_without_a_frame_gets_the_end(models):
    assert open_model(models["without a frame"]).after == ()
    alike(writer(models["without a frame"]).write(SOURCES), writer(models["vaswani"]).write(SOURCES))


def test_the_prefix_stands_before_every_source(models):
    """Of a folder before the letters, of an artifact before the ids, as in training."""
    prefix = "keep: "
    want = [one.targets for one in writer(models["vaswani"]).write([prefix + text for text in SOURCES])]
    found = writer(models["vaswani"], prefix=prefix).write(SOURCES)
    assert [one.targets for one in found] == want
    assert [one.source for one in found] == SOURCES
    assert want != [one.targets for one in writer(models["vaswani"]).write(SOURCES)]

    opened = open_model(models["artifact"])
    assert (opened.made_by, opened.prefix) == ("fill", "")  # the command of the test's artifact
    own = type(opened)(**vars(opened) | {"prefix": prefix})
    ids = TargetWriter(own, GenerateSettings(**QUICK))._source(0, "Honey").ids
    assert ids == [*opened.encode(prefix), *opened.encode("Honey"), opened.special["eos"]]
    without = TargetWriter(own, GenerateSettings(**QUICK, prefix=""))._source(0, "Honey").ids
    assert without == [*opened.encode("Honey"), opened.special["eos"]]
    assert TargetWriter(own, GenerateSettings(**QUICK))._source(0, "Honey").limit == 20 + 2 * len(
        opened.encode("Honey")
    )
    with pytest.raises(ConfigError, match="the prefix is too long: no position is left") as error:
        writer(models["vaswani"], prefix="honey " * 60)
    assert error.value.where == "prefix"


def test_the_prefix_of_an_artifact_is_read_from_its_manifest(tokenizer, tmp_path):
    path = artifact_of(pair_files(tokenizer, "vaswani"), tmp_path / "model", GenerateSettings(prefix="to German: "))
    assert open_model(path).prefix == "to German: "
    assert writer(path).prefix == "to German: "
    assert writer(path, prefix="").prefix == ""


def test_a_stream_is_answered_in_order_by_the_window(models):
    made = writer(models["t5"], max_tokens=2, beams=1)
    read = []

    def lines():
        for number in range(WINDOW + 5):
            read.append(number)
            yield f"honey {number}"

    stream = made.stream(lines())
    assert next(stream).source == "honey 0"
    assert len(read) == WINDOW
    assert [one.source for one in stream] == [f"honey {number}" for number in range(1, WINDOW + 5)]
    assert made.sources == WINDOW + 5
    long = made.stream(["honey " * 200_000, "water", "sea"])
    assert next(long).cut > 100_000
    assert made.sources == WINDOW + 6
    assert [one.source for one in long] == ["water", "sea"]


def test_one_text_from_python(models):
    (made,) = generate(models["bart"], SOURCES[0], **QUICK)
    (target,) = writer(models["bart"], max_tokens=None).write(SOURCES[:1])[0].targets
    assert (made.prompt, made.text, made.tokens) == (SOURCES[0], target.text, target.tokens)
    assert made.logprob == pytest.approx(target.logprob / target.tokens)
    assert made.stopped == ("eos" if target.finished else "length")
    assert (made.cut, made.slid) == (0, 0)
    assert generate(models["bart"], "honey " * 60, **QUICK)[0].cut > 0
    assert len(generate(models["bart"], SOURCES[0], n_best=3, **QUICK)) == 3
    assert [one.text for one in generate(models["bart"], " ", **QUICK)] == [""]


BY_CHANCE = "also set a temperature, for example --temperature 0.8"


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        (
            {"beams": 3, "temperature": 0.7},
            "temperature = 0.7 cannot be used here, because beams = 3",
            "leave out --beams or temperature",
        ),
        (
            {"beams": 3, "samples": 2},
            "samples = 2 cannot be used here, because beams = 3",
            "use --temperature 0.8 instead of --beams, or leave out samples",
        ),
        (
            {"beams": 3, "top_k": 4},
            "top_k = 4 cannot be used here, because beams = 3",
            "use --temperature 0.8 instead of --beams",
        ),
        (
            {"beams": 3, "seed": 4},
            "seed = 4 cannot be used here, because beams = 3",
            "use --temperature 0.8 instead of --beams",
        ),
        (
            {"beams": 3, "repetition_penalty": 1.2},
            "repetition_penalty = 1.2 cannot",
            "use --beams 1, or leave out repetition_penalty",
        ),
        (
            {"repetition_penalty": 1.2},
            "repetition_penalty = 1.2 cannot .* if no temperature is given",
            "use --beams 1, or set a temperature",
        ),
        (
            {"samples": 2},
            "samples = 2 cannot .* uses beam search if no temperature is given",
            f"{BY_CHANCE}, or use --n-best to get",
        ),
        ({"seed": 2}, "seed = 2 cannot be used here, because the model uses beam search", BY_CHANCE),
        ({"beams": 3, "n_best": 4}, "n_best = 4 is more than beams = 3", "use --beams 4"),
        ({"n_best": 6}, "n_best = 6 is more than beams = 5", "use --beams 6"),
        (
            {"beams": 1, "length_penalty": 0.5},
            "length_penalty = 0.5 cannot be used here, because beams = 1",
            "--beams 2 or more",
        ),
        (
            {"temperature": 1.0, "length_penalty_by": "gnmt"},
            "beam search is not used with temperature = 1.0",
            "leave out length_penalty_by or temperature",
        ),
        (
            {"temperature": 1.0, "n_best": 2},
            "n_best = 2 cannot .* is not used with temperature = 1.0",
            "use --samples 2 instead of",
        ),
        ({"beams": 1, "top_k": 4}, "top_k = 4 cannot be used here, because random sampling needs a temp", BY_CHANCE),
        ({"beams": 1, "seed": 4}, "seed = 4 cannot be used here, because random sampling needs a temp", BY_CHANCE),
        ({"stop": ("a",)}, "stop = .* cannot be used here, because an encoder-decoder decides", "leave out stop"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_by_name(models, settings, message, hint):
    """With the next step, which is not refused again."""
    with pytest.raises(ConfigError, match=message) as error:
        writer(models["t5"], **settings)
    assert hint in error.value.hint


def test_at_least_is_not_more_than_at_most(models):
    with pytest.raises(ConfigError, match="min_tokens = 5 is more than max_tokens = 4"):
        writer(models["t5"], min_tokens=5, max_tokens=4)


def test_a_decoder_has_no_beams(tokenizer, tmp_path):
    path = folder_of(model_files(tokenizer, "decoder"), tmp_path / "decoder")
    few = QUICK | {"max_tokens": 6}
    for settings, name in (({"beams": 2}, "beams = 2"), ({"length_penalty": 0.5}, "length_penalty = 0.5")):
        with pytest.raises(ConfigError, match=f"{name} cannot be used here, because a decoder"):
            generate(path, "Honey", **few, **settings)
    with pytest.raises(ConfigError, match="n_best = 2 cannot be used here") as error:
        generate(path, "Honey", **few, n_best=2)
    assert error.value.hint == "use --samples 2 instead of --n-best"
    assert generate(path, "Honey", **few, beams=1) == generate(path, "Honey", **few)
    assert generate(path, "ey", **few, prefix="Hon") == generate(path, "Honey", **few)
    long = generate(path, "Honey", **QUICK, max_tokens=60, min_tokens=60, samples=20, temperature=3.0)
    assert {(one.tokens, one.stopped) for one in long} == {(60, "length")}
    with pytest.raises(ArtifactError, match="wrong kind of model for this command: a decoder continues texts"):
        writer(path)


def test_a_target_vocabulary_without_a_tokenizer_is_refused(tokenizer, tmp_path):
    path = folder_of(pair_files(tokenizer, "vaswani", decoder_vocab_size=200), tmp_path / "two")
    with pytest.raises(ArtifactError, match="separate vocabulary for targets"):
        writer(path)
    for size in (448, 410):  # tables of their own, and the same tokens
        same = folder_of(pair_files(tokenizer, "vaswani", decoder_vocab_size=size), tmp_path / f"same{size}")
        assert writer(same).write(["Honey"])[0].targets


def test_a_model_without_an_end_is_refused(models):
    opened = open_model(models["t5"])
    bare = type(opened)(**vars(opened) | {"special": {}})
    with pytest.raises(ArtifactError, match="no token for the end of a text"):
        TargetWriter(bare, GenerateSettings(**QUICK))


@torch.no_grad()
def test_logprobs_are_those_of_the_model(models):
    opened = open_model(models["vaswani"])
    for one in writer(models["vaswani"], beams=4, n_best=4).write(SOURCES[:3]):
        source = torch.tensor([[*opened.encode(one.source), opened.special["eos"]]])
        for target in one.targets:
            ids = opened.encode(target.text)
            labels = [*ids, *([opened.special["eos"]] if target.finished else [])]
            if len(labels) != target.tokens or opened.tokenizer.decode(ids) != target.text:
                continue  # letters that are spelled otherwise than the model wrote them
            logits = opened.model(source, torch.tensor([[opened.special["pad"], *labels[:-1]]]))[0].log_softmax(-1)
            want = float(logits.gather(1, torch.tensor(labels)[:, None]).sum())
            assert target.logprob == pytest.approx(want, abs=1e-3)
