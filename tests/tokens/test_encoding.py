"""The compiled models against Hugging Face tokenizers: the same ids, no answer where it raises; and threads in order."""

import random
import string
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from wordpipe.tokens import PretokenModel, byte_letters, in_order, model_of
from wordpipe.tokens.kernels.bpe_encode import SHORT

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
LETTERS = byte_letters()
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
ALL = [*map(chr, [*range(0xD800), *range(0xE000, 0x110000, 97)])]
ODD = "aabbcd▁#<>unk0x41 \t\n\0\x7f\x85é́ß中文字\u200d👩🏽\u00ad\ufeffĠĊ\U0010ffff"


def packed(units: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    texts = [unit.encode() for unit in units]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return np.frombuffer(b"".join(texts), np.uint8), ends - [len(text) for text in texts], ends


def ours(model: PretokenModel, units: list[str]) -> list[list[int] | None]:
    ids, offsets, unsure = model.encode(*packed(units))
    assert ids.dtype == np.uint32
    assert offsets[-1] == len(ids)
    rows = [ids[start:end].tolist() for start, end in pairwise(offsets)]
    assert not any(row for row, no_answer in zip(rows, unsure, strict=True) if no_answer)
    return [None if no_answer else row for row, no_answer in zip(rows, unsure, strict=True)]


def theirs(tokenizer: Tokenizer, units: list[str], *, byte_level: bool) -> list[list[int] | None]:
    def ids(unit: str) -> list[int] | None:
        if byte_level:
            unit = "".join(LETTERS[byte] for byte in unit.encode())
        try:
            return [token.id for token in tokenizer.model.tokenize(unit)]
        except Exception as error:
            if "unk" not in str(error).lower():
                raise
            return None

    return [ids(unit) for unit in units]


def check(model: models.Model, units: list[str], *, byte_level: bool) -> list[list[int] | None]:
    tokenizer = Tokenizer(model)
    compiled = model_of(tokenizer, byte_level=byte_level)
    assert compiled is not None
    found = ours(compiled, units)
    for unit, mine, reference in zip(units, found, theirs(tokenizer, units, byte_level=byte_level), strict=True):
        assert mine == reference, repr(unit)
    return found


def random_units(rng: random.Random, count: int = 150) -> list[str]:
    def character() -> str:
        kind = rng.random()
        if kind < 0.75:
            return rng.choice(ODD)
        if kind < 0.9:
            return rng.choice(string.printable)
        return rng.choice(ALL)

    units = ["".join(character() for _ in range(rng.randint(0, 14))) for _ in range(count)]
    repeated = [rng.choice(ODD) * rng.randint(1, 3 * SHORT) for _ in range(20)]
    long = ["".join(rng.choices("aabcd", k=rng.randint(SHORT - 2, 4 * SHORT))) for _ in range(20)]
    return ["", *units, *repeated, *long]


def random_pieces(rng: random.Random, count: int, alphabet: str) -> list[str]:
    return ["".join(rng.choices(alphabet, k=rng.randint(1, 4))) for _ in range(count)]


def as_letters(text: str) -> str:
    return "".join(LETTERS[byte] for byte in text.encode())


def random_bpe(rng: random.Random, *, byte_level: bool) -> models.BPE:
    prefix = rng.choice(["", "", "##", "a"])
    suffix = rng.choice(["", "", "</w>"])
    fallback = not prefix and not suffix and rng.random() < 0.5
    letters = [as_letters(letter) if byte_level else letter for letter in ODD]
    start = sorted({letter for letter in "".join(letters) if letter in "aabcd" or rng.random() < 0.6})
    tokens = dict.fromkeys([*start, *(prefix + letter for letter in start), *(letter + suffix for letter in start)])
    tokens |= dict.fromkeys(prefix + letter + suffix for letter in start)
    if fallback:
        tokens |= dict.fromkeys(BYTES if rng.random() < 0.6 else rng.sample(BYTES, 200))
    if prefix:
        tokens[prefix] = None  # a merge with it changes nothing: pairs come back, and the heap holds them twice
    merges = {}
    for _ in range(60):
        left, right = rng.choice([*tokens]), rng.choice([*tokens])
        if right.startswith(prefix) and rng.random() < 0.9:
            tokens.setdefault(left + right[len(prefix) :])
            merges[left, right] = None
    unknown = rng.choice([None, "<unk>", "<nowhere>", prefix or "<unk>"])
    order = [*merges]
    rng.shuffle(order)
    named = {"unk_token": unknown, "continuing_subword_prefix": prefix, "end_of_word_suffix": suffix}
    return models.BPE(
        vocab={token: number for number, token in enumerate([*tokens, "<unk>"])},
        merges=order,
        fuse_unk=rng.random() < 0.5,
        byte_fallback=fallback,
        ignore_merges=rng.random() < 0.4,
        **{name: value for name, value in named.items() if value},
    )


@pytest.mark.parametrize("byte_level", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_bpe_of_any_shape(seed: int, byte_level: bool) -> None:
    rng = random.Random(seed)
    for _ in range(2):
        check(random_bpe(rng, byte_level=byte_level), random_units(rng), byte_level=byte_level)


@pytest.mark.parametrize("fuse", [False, True])
def test_bytes_overtake_the_unknown_letter_before_them(fuse: bool) -> None:
    vocabulary = {"a": 0, "<unk>": 1, "<0x62>": 2}
    model = models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>", byte_fallback=True, fuse_unk=fuse)
    found = check(model, ["cb", "cba", "cbc", "ccbcab", "bc"], byte_level=False)
    assert found[1] == [2, 1, 0]


@pytest.mark.parametrize("byte_level", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_wordpiece_of_any_shape(seed: int, byte_level: bool) -> None:
    rng = random.Random(seed)
    for _ in range(2):
        prefix = rng.choice(["##", "##", "", "é", "a"])
        pieces = [*"abcd", *rng.sample(ODD, 20), *random_pieces(rng, 60, ODD)]
        pieces = [as_letters(piece) if byte_level else piece for piece in pieces]
        tokens = dict.fromkeys([*pieces, *(prefix + piece for piece in pieces if rng.random() < 0.8), "", prefix])
        if rng.random() < 0.7:
            tokens["[UNK]"] = None
        model = models.WordPiece(
            {token: number for number, token in enumerate(tokens)},
            unk_token="[UNK]",
            continuing_subword_prefix=prefix,
            max_input_chars_per_word=rng.choice([3, 10, 100, 2**40]),
        )
        check(model, random_units(rng), byte_level=byte_level)


@pytest.mark.parametrize("byte_level", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_unigram_of_any_shape(seed: int, byte_level: bool) -> None:
    rng = random.Random(seed)
    for _ in range(3):
        pieces = ["<unk>", "", *"abcd", *rng.sample(ODD, 20), *random_pieces(rng, 60, rng.choice([ODD, "abcd▁é"]))]
        pieces = [as_letters(piece) if byte_level else piece for piece in pieces]
        fallback = rng.random() < 0.5
        if fallback:
            pieces += BYTES if rng.random() < 0.7 else rng.sample(BYTES, 240)
        scale = rng.choice([-10.0, -1e-9, 30.0])  # ties, rounding, and unknown text that scores better than tokens
        scores = [rng.choice([scale, 0.1 * scale, rng.random() * scale, 0.0]) for _ in pieces]
        unknown = rng.choice([0, 0, 0, 3, None])
        model = models.Unigram([*zip(pieces, scores, strict=True)], unk_id=unknown, byte_fallback=fallback)
        check(model, random_units(rng), byte_level=byte_level)


@pytest.mark.parametrize("byte_level", [False, True])
@pytest.mark.parametrize("unknown", ["<unk>", "<nowhere>"])
def test_whole_words(unknown: str, byte_level: bool) -> None:
    rng = random.Random(3)
    units = random_units(rng)
    words = dict.fromkeys([unit for unit in units if rng.random() < 0.5])
    words = dict.fromkeys([*map(as_letters, words)]) if byte_level else words
    vocabulary = {word: number for number, word in enumerate([*words, "<unk>"])}
    found = check(models.WordLevel(vocabulary, unk_token=unknown), [*units, "<unk>"], byte_level=byte_level)
    assert (None in found) == (unknown == "<nowhere>")


def sample_lines() -> list[str]:
    return [line for path in sorted(SAMPLE.iterdir()) for line in path.read_text(errors="replace").splitlines()]


def trained(kind: str) -> tuple[Tokenizer, pre_tokenizers.PreTokenizer]:
    """A tokenizer trained on the sample, and what cuts its units out of a text."""
    if kind == "bpe":
        tokenizer, cut = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=600, show_progress=False, initial_alphabet=cut.alphabet())
    elif kind == "bpe▁":
        tokenizer, cut = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True)), pre_tokenizers.Metaspace()
        trainer = trainers.BpeTrainer(vocab_size=600, show_progress=False, special_tokens=["<unk>"], limit_alphabet=60)
    elif kind == "wordpiece":
        tokenizer, cut = Tokenizer(models.WordPiece(unk_token="[UNK]")), pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=600, show_progress=False, special_tokens=["[UNK]"])
    else:
        tokenizer, cut = Tokenizer(models.Unigram()), pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=1500, show_progress=False, special_tokens=["<unk>"], unk_token="<unk>", max_piece_length=6
        )
    tokenizer.pre_tokenizer = cut
    tokenizer.train_from_iterator(sample_lines(), trainer)
    return tokenizer, cut


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["bpe", "bpe▁", "wordpiece", "unigram"])
def test_sample_text(kind: str, step: int) -> None:
    tokenizer, cut = trained(kind)
    bytes_of = {letter: byte for byte, letter in enumerate(LETTERS)}
    units = sorted({unit for line in sample_lines() for unit, _ in cut.pre_tokenize_str(line)})[::step]
    if kind == "bpe":
        units = [bytes(bytes_of[letter] for letter in unit).decode() for unit in units]
    compiled = model_of(tokenizer, byte_level=kind == "bpe")
    assert compiled is not None
    assert len(units) > 500 / step
    assert ours(compiled, units) == theirs(tokenizer, units, byte_level=kind == "bpe")


def test_threads_share_a_model() -> None:
    rng = random.Random(5)
    compiled = model_of(Tokenizer(random_bpe(rng, byte_level=True)), byte_level=True)
    assert compiled is not None
    batches = [random_units(rng) for _ in range(8)]
    alone = [ours(compiled, batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(lambda batch: ours(compiled, batch), batches)] == alone


def test_equal_letters_without_end() -> None:
    """A million equal letters are one unit, and take n log n steps."""
    tokens = ["a" * (1 << power) for power in range(8)]
    merges = [(token, token) for token in tokens[:-1]]
    bpe = models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=merges)
    pieces = models.Unigram([(token, -float(number + 1)) for number, token in enumerate(tokens)], unk_id=0)
    words = models.WordPiece(
        {f"##{token}": number for number, token in enumerate(tokens)} | {"a": 9},
        max_input_chars_per_word=1 << 30,
        unk_token="a",
    )
    for model, first, count in [(bpe, 7, 7814), (pieces, 0, 7814), (words, 9, 7814)]:
        compiled = model_of(Tokenizer(model), byte_level=False)
        assert compiled is not None
        (ids,) = ours(compiled, ["a" * 1_000_001])
        assert ids is not None
        assert ids[0] == first
        assert len(ids) == count


@pytest.mark.parametrize(
    "model",
    [
        models.BPE(vocab={"a": 0}, merges=[], dropout=0.1),
        models.BPE(vocab={"a": 0}, merges=[], byte_fallback=True, end_of_word_suffix="</w>"),
        models.BPE(vocab={"a": 0, "b": 0}, merges=[]),
        models.WordLevel({"a": 0, "b": 0}, unk_token="a"),
        models.Unigram([("<unk>", 0.0), ("a", float("nan"))], unk_id=0),
        models.Unigram([("<unk>", 0.0), ("a", float("-inf"))], unk_id=0),
        models.WordLevel({"a": 2**32 - 1}, unk_token="a"),
    ],
    ids=["dropout", "fallback+suffix", "shared id", "shared id of words", "nan", "infinite", "large id"],
)
def test_what_is_not_proven_is_refused(model: models.Model) -> None:
    assert model_of(Tokenizer(model), byte_level=False) is None


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads):
    def work(state: list[int], item: int) -> int:
        state.append(item)
        time.sleep((item * 7 % 5) / 1000)
        return item * item

    states = [[] for _ in range(threads)]
    assert list(in_order(work, range(40), states)) == [n * n for n in range(40)]
    assert sorted(item for state in states for item in state) == [*range(40)]


def test_no_more_items_are_taken_than_are_worked_on():
    taken = []

    def items():
        for n in range(1000):
            taken.append(n)
            yield n

    results = in_order(lambda _, item: item, items(), [None, None])
    assert next(results) == 0
    begun = len(taken)
    assert begun < 50
    results.close()
    assert len(taken) == begun


def test_an_error_comes_out_and_ends_the_work():
    def work(_: None, item: int) -> int:
        return 1 // (3 - item)

    results = in_order(work, range(1000), [None, None])
    with pytest.raises(ZeroDivisionError):
        list(results)
