"""A static encoder against sentence-transformers, against plain sums, and against itself by its other path."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save
from tokenizers import Tokenizer, models, pre_tokenizers

from wordpipe.artifacts import Store
from wordpipe.encoders import (
    ENCODER_FILE,
    TABLE_FILE,
    TOKENIZER_FILE,
    Moments,
    StaticEncoder,
    TokenRows,
    WordRows,
    listed_words,
    static_encoder,
    static_files,
    static_table,
    unspaced_share,
    word_tokenizer,
)
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import ArtifactError, ConfigError, DivergedError, InputError
from wordpipe.tokens import WordSplitter

WORDS = [
    "the", "cat", "isn't", "sea-bed", "3.5", "café", "straße", "οδός", "σ", "中", "日本", "unk", "a", "b1", "i̇stanbul",
]  # fmt: skip
TEXTS = [
    "The CAT isn't on the sea-bed.", "3.5 cafés, one CAFÉ", "STRASSE Straße", "ΟΔΌΣ σ Σ", "中 日本 日本中", "", "?!",
    "[UNK] unk", "zebra", "İstanbul a a a B1", "the\ud800cat",
]  # fmt: skip


def files(words: list[str] = WORDS, dim: int = 6, *, keep_case: bool = False) -> dict[str, bytes]:
    table = np.random.default_rng(0).standard_normal((len(words) + 1, dim)).astype(np.float32)
    table[-1] = 0
    return static_files(table, word_tokenizer(words, keep_case=keep_case))


def encoder(made: dict[str, bytes] | None = None, **values: object) -> StaticEncoder:
    return StaticEncoder(made or files(), EmbedSettings.make(values), identity={"digest": "x"})


def test_a_vector_is_the_unit_sum_of_known_words() -> None:
    table = np.random.default_rng(0).standard_normal((len(WORDS) + 1, 6)).astype(np.float32)
    batch = encoder().encode(TEXTS)
    for text, vector, empty, unknown in zip(TEXTS, batch.vectors, batch.empty, batch.unknown, strict=True):
        words = WordSplitter()(text)
        known = [WORDS.index(word) for word in words if word in WORDS]
        assert unknown == [word for word in words if word not in WORDS]
        assert empty == (not known)
        total = table[known].sum(axis=0)
        assert vector == pytest.approx(total / max(np.linalg.norm(total), 1e-9), abs=1e-6)
    assert batch.windows.tolist() == [int(not empty) for empty in batch.empty]


@pytest.mark.parametrize(("store", "off"), [("float32", 0.0), ("float16", 2**-11), ("int8", 1 / 253)])
def test_a_stored_table_is_near_and_stays_what_it_is(store: Store, off: float) -> None:
    rng = np.random.default_rng()
    table = (rng.standard_normal((9, 7)) * 10.0 ** rng.integers(-3, 3, (9, 1))).astype(np.float32)
    table[3] = 0
    found = static_table(static_files(table, b"", store)[TABLE_FILE])
    assert (np.abs(found - table) <= off * np.abs(table).max(axis=1, keepdims=True)).all()
    again = static_table(static_files(found, b"", store)[TABLE_FILE])
    np.testing.assert_allclose(again, found, rtol=3e-7)
    if store == "int8":
        table[2, 1] = np.inf
        assert not np.isfinite(static_table(static_files(table, b"", store)[TABLE_FILE])[2]).any()


@given(
    st.lists(
        st.text(alphabet="aB9.,'-’‐ éÉςΣσ中日本ーกİßǅ½٣अ\u0301\n\ud800\u00ad\u200b\u200dس", max_size=14), max_size=6
    )
)
def test_both_paths_find_the_same(texts: list[str]) -> None:
    words = ["a", "b", "é", "aé", "σ", "ας", "中", "日本", "9.9", "ß", "i̇", "a-b", "½"]
    rows = WordRows.listed(words)
    plain, compiled = (rows.find(texts, compiled=fast) for fast in (False, True))
    assert plain.ids.tolist() == compiled.ids.tolist()
    assert plain.offsets.tolist() == compiled.offsets.tolist()
    assert plain.unknown == compiled.unknown
    for number, text in enumerate(texts):
        assert rows.spans(text)[1].tolist() == plain.ids[plain.offsets[number] : plain.offsets[number + 1]].tolist()


@given(st.text(alphabet="aB9.,'-’‐ éÉςΣσΔ中日本ーกİßǅ½٣अ\u0301\n\u00ad\u200b\u200dس", max_size=14))
def test_other_libraries_cut_text_as_we_do(text: str) -> None:
    tokenizer = Tokenizer.from_str(word_tokenizer(["x"]).decode())
    cut = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text))
    # what an accent or apostrophe beside a capital sigma means, Python knows better than a pattern can
    if "Σ" not in text or not set(text) & {"\u0301", "'", "’", "ー"}:
        assert [word for word, _ in cut] == WordSplitter()(text)


@pytest.mark.landing
@pytest.mark.parametrize("keep_case", [False, True])
def test_sentence_transformers_gives_the_same(tmp_path: Path, keep_case: bool) -> None:
    module = pytest.importorskip("sentence_transformers.sentence_transformer.modules.static_embedding")
    made = files(keep_case=keep_case)
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
    theirs = module.StaticEmbedding.load(str(tmp_path))
    texts = [text for text in TEXTS if "\ud800" not in text]
    batch = encoder(made).encode(texts)
    output = theirs(theirs.tokenize(texts))["sentence_embedding"].detach().numpy()
    norms = np.linalg.norm(output, axis=1, keepdims=True)
    assert batch.vectors == pytest.approx(np.nan_to_num(output / np.where(norms > 0, norms, 1)), abs=1e-5)


def subwords() -> Tokenizer:
    made = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, " ": 3, "Ġ": 4}, [("a", "b")]))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


@pytest.mark.landing
def test_tokens_have_rows_too() -> None:
    table = np.arange(10, dtype=np.float32).reshape(5, 2) + 1
    one = encoder(static_files(table, subwords().to_str().encode()))
    batch = one.encode(["ab a", "b"])
    total = table[2] + table[0]
    assert batch.vectors[0] == pytest.approx(total / np.linalg.norm(total), abs=1e-6)
    assert one.lengths(["ab a b", ""]).tolist() == [3, 0]
    rows = TokenRows(subwords())
    assert rows.find(["ab a", "", "b"], compiled=True).ids.tolist() == rows.find(["ab a", "", "b"]).ids.tolist()


@pytest.mark.parametrize("kind", ["none", "centre", "remove-components"])
def test_parts_add_up(kind: str) -> None:
    plain = encoder()
    moments = Moments(6)
    moments.add(plain.encode(["the cat", "a b1", "σ café 3.5", "the sea-bed", "isn't"]).vectors)
    one = plain.with_transform(moments.fit(kind))
    text = "The CAT isn't a zebra, σ!"
    parts = one.parts(text)
    assert parts.vectors.dtype == np.float32
    assert parts.vectors.sum(axis=0) == pytest.approx(one.encode([text]).vectors[0], abs=1e-5)
    assert [text[start:stop] for start, stop in parts.spans] == ["The", "CAT", "isn't", "a", "σ"]
    with pytest.raises(InputError, match="no vector"):
        one.parts("zebra")


def test_alone_or_in_a_crowd_and_on_threads() -> None:
    texts = [f"the cat a {'b1 ' * (i % 7)} zebra{i}" for i in range(30_000)]
    one, two = encoder(threads=1).encode(texts), encoder(threads=2).encode(texts)
    assert (one.vectors == two.vectors).all()
    assert one.unknown == two.unknown
    assert one.unknown[29_999] == ["zebra29999"]
    alone = encoder().encode([texts[17_003]])
    assert alone.vectors[0].tobytes() == one.vectors[17_003].tobytes()


@pytest.mark.parametrize(("dim", "store"), [(1, "float32"), (2, "int8"), (6, "float16"), (65, "int8"), (65, "float32")])
def test_a_vector_has_the_same_bits_by_either_sum(dim: int, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(dim)
    table = (rng.standard_normal((len(WORDS) + 1, dim)) * 10.0 ** rng.integers(-20, 4, (len(WORDS) + 1, 1))).astype(
        "f4"
    )
    table[0], table[1] = -0.0, -table[2]
    texts = [" ".join(rng.choice([*WORDS, "zebra"], size)) for size in rng.integers(0, 40, 200)]
    texts += ["the", "cat isn't", "", "zebra", " ".join(rng.choice(WORDS, 4500))]
    one = encoder(static_files(table, word_tokenizer(WORDS), store))
    plain = [one.encode([text]) for text in texts]
    monkeypatch.setattr(static_encoder, "MAX_PLAIN_ROWS", -1)
    compiled = one.encode(texts)
    assert np.concatenate([batch.vectors for batch in plain]).tobytes() == compiled.vectors.tobytes()
    assert [bool(batch.empty[0]) for batch in plain] == compiled.empty.tolist()


def test_no_texts_at_all() -> None:
    assert encoder().encode([]).vectors.shape == (0, 6)


def test_saved_and_loaded() -> None:
    one = encoder(overlap=4)
    kept = dict(one.files())
    about = json.loads(kept[ENCODER_FILE])
    again = StaticEncoder.load(about, kept)
    assert again.identity == {"digest": "x"}
    assert (about["kind"], about["pooling"], about["dim"], again.overlap) == ("static", "mean", 6, 4)
    assert (again.encode(TEXTS).vectors == one.encode(TEXTS).vectors).all()


def test_words_come_back_from_the_tokenizer() -> None:
    assert listed_words(word_tokenizer(WORDS)) == (WORDS, False)
    assert listed_words(word_tokenizer(WORDS, keep_case=True)) == (WORDS, True)
    assert listed_words(subwords().to_str().encode()) is None


def test_the_share_of_words_without_spaces() -> None:
    assert unspaced_share(["the", "中国", "ไทย", "a"], np.array([5, 2, 1, 2])) == pytest.approx(0.3)
    assert unspaced_share([], np.array([], np.int64)) == 0


def break_table(made: dict[str, bytes]) -> None:
    made[TABLE_FILE] = made[TABLE_FILE][:50]


def shorten_table(made: dict[str, bytes]) -> None:
    made[TABLE_FILE] = files(WORDS[:-1])[TABLE_FILE]


def lose_a_factor(made: dict[str, bytes]) -> None:
    tensors = load(static_files(np.ones((len(WORDS) + 1, 2), np.float32), b"", "int8")[TABLE_FILE])
    made[TABLE_FILE] = save(tensors | {"weights": tensors["weights"][1:]})


def break_tokenizer(made: dict[str, bytes]) -> None:
    made[TOKENIZER_FILE] = b"{}"


@pytest.mark.parametrize("damage", [break_table, shorten_table, lose_a_factor, break_tokenizer])
def test_damaged_files_are_refused(damage: Callable[[dict[str, bytes]], None]) -> None:
    made = files()
    damage(made)
    with pytest.raises(ArtifactError):
        encoder(made)


def test_a_row_that_is_no_number_is_an_error() -> None:
    table = np.full((len(WORDS) + 1, 2), np.nan, np.float32)
    with pytest.raises(DivergedError, match="infinite or NaN"):
        encoder(static_files(table, word_tokenizer(WORDS))).encode(["the cat"])


def test_other_poolings_are_refused() -> None:
    with pytest.raises(ConfigError, match="pooling"):
        encoder(pooling="cls")


def test_the_loader_knows_it_and_a_question_needs_neither_numba_nor_torch(tmp_path: Path) -> None:
    for name, data in encoder().files():
        (tmp_path / name).write_bytes(data)
    code = (
        "import sys, pathlib; from wordpipe.encoders import StaticEncoder, load_facts;"
        "files = {file.name: file.read_bytes() for file in pathlib.Path(sys.argv[1]).iterdir()};"
        "one = StaticEncoder.load(load_facts(files['encoder.json']), files);"
        "assert one.kind == 'static' and not one.encode(['the cat']).empty[0] and one.parts('the cat').spans;"
        "assert not {'torch', 'numba', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
