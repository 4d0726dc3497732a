"""Word vectors written for other programs, and read back: by them, and by us."""

import csv
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.errors import InputError
from wordpipe.words import (
    FILES,
    FOLDERS,
    WordFile,
    WordFilter,
    WordTable,
    WordVectors,
    check_words,
    formats,
    open_folder,
    open_stream,
    read_text,
)
from wordpipe.words import vector_files as files_of

ODD = [
    "the",
    "isn't",
    "sea-bed",
    "3.5",
    "Ġthe",
    "漢字",
    "😀",
    "a\u00a0b",
    "é",
    "ﷺ",
    "##ing",
    "\u200b",
    "</s>",
    "=",
    '"',
    "\u2028",
]


def table_of(
    words: Sequence[str], vectors_VD: np.ndarray, *, rows: int = 1_000, counts_known: bool = True
) -> WordTable:
    counts = np.arange(len(words), 0, -1) if counts_known else np.zeros(len(words), np.int64)
    table = WordVectors(words, counts, vectors_VD)

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return (batch.select(list(columns)) for batch in table.to_batches(rows))

    return WordTable(len(words), vectors_VD.shape[1], counts_known, batches)


def hard_vectors(rows: int, dim: int, seed: int = 11) -> np.ndarray:
    """Numbers of all sizes that float32 has, and its corners."""
    rng = np.random.default_rng(seed)
    vectors_VD = (rng.standard_normal((rows, dim)) * 10.0 ** rng.integers(-40, 38, (rows, 1))).astype(np.float32)
    corners = np.array([1, 0, -0.0, -1, 1e-45, 3.4028235e38, 0.1, 16777216], np.float32)
    vectors_VD[0] = np.resize(corners, dim)
    return vectors_VD


def written(table: WordTable, form: str, folder: Path) -> Path:
    """Where a table was written in a format."""
    check_words(table, form)
    path = folder / form
    if form in FILES:
        path.write_bytes(b"".join(files_of(table, form)[form]))
        return path
    path.mkdir()
    for name, chunks in files_of(table, form).items():
        (path / name).write_bytes(b"".join(chunks))
    return path


def blocks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def read(file: WordFile, **options: object) -> tuple[list[str], np.ndarray, np.ndarray]:
    tables = list(WordFilter(file, name="f", **options).tables())  # type: ignore[arg-type]
    words = [word for table in tables for word in table.words]
    return words, np.concatenate([t.vectors for t in tables]), np.concatenate([t.counts for t in tables])


def read_bytes(data: bytes, form: str = "auto", size: int = 1 << 20, **options: object) -> tuple[list[str], np.ndarray]:
    words, vectors_VD, counts = read(open_stream(blocks(data, size), form, name="f"), **options)  # type: ignore[arg-type]
    assert not counts.any()
    return words, vectors_VD


def same_bits(one: np.ndarray, other: np.ndarray) -> None:
    np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


@pytest.mark.landing
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # gensim opens a file without a header twice and closes it once
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("form", FILES)
def test_gensim_reads_back_the_same_words_and_numbers(tmp_path: Path, form: str) -> None:
    models = pytest.importorskip("gensim.models")

    words = ODD + [f"w{i}" for i in range(5_000)]
    vectors_VD = hard_vectors(len(words), 7)
    path = written(table_of(words, vectors_VD), form, tmp_path)
    theirs = models.KeyedVectors.load_word2vec_format(
        str(path), binary=form == "word2vec-binary", no_header=form == "glove"
    )
    assert theirs.index_to_key == words
    same_bits(theirs.vectors, vectors_VD)


@pytest.mark.landing
def test_gensims_own_files_are_read(tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models")

    vectors_VD = hard_vectors(len(ODD), 5)
    theirs = models.KeyedVectors(5)
    theirs.add_vectors(ODD, vectors_VD)
    for as_bytes in (True, False):
        for header in (True, False):
            path = tmp_path / "theirs"
            theirs.save_word2vec_format(str(path), binary=as_bytes, write_header=header)
            if as_bytes and not header:
                continue
            words, found = read_bytes(path.read_bytes())
            assert words == ODD
            same_bits(found, vectors_VD)


def test_numpy_and_csv_read_the_folders(tmp_path: Path) -> None:
    words = [*ODD, "new york", " x "]
    vectors_VD = hard_vectors(len(words), 6)
    folder = written(table_of(words, vectors_VD, rows=3), "numpy", tmp_path)
    same_bits(np.load(folder / "vectors.npy", allow_pickle=False), vectors_VD)
    assert np.load(folder / "counts.npy", allow_pickle=False).tolist() == list(range(len(words), 0, -1))
    assert (folder / "words.txt").read_text(encoding="utf-8").split("\n") == [*words, ""]
    folder = written(table_of(words, vectors_VD, rows=3), "projector", tmp_path)
    with (folder / "metadata.tsv").open(encoding="utf-8", newline="\n") as file:
        about = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert [(row["word"], int(row["count"])) for row in about] == list(
        zip(words, range(len(words), 0, -1), strict=True)
    )
    with (folder / "vectors.tsv").open(encoding="ascii") as file:
        same_bits(np.array(list(csv.reader(file, delimiter="\t")), np.float32), vectors_VD)


def test_unknown_counts_are_not_written(tmp_path: Path) -> None:
    table = table_of(["b", "a"], np.ones((2, 2), np.float32), counts_known=False)
    assert sorted(path.name for path in written(table, "numpy", tmp_path).iterdir()) == ["vectors.npy", "words.txt"]
    assert (written(table, "projector", tmp_path) / "metadata.tsv").read_text() == "b\na\n"


strange = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6) | st.sampled_from(
    [*ODD, "12", "1e5", "new york", ". . ."]
)


@given(
    st.lists(strange, min_size=1, max_size=8, unique=True),
    st.integers(2, 6),
    st.sampled_from([*FILES]),
    st.integers(1, 60),
    st.booleans(),
)
def test_what_is_written_is_read_back_bit_for_bit(
    words: list[str], dim: int, form: str, size: int, evaluated: bool
) -> None:
    vectors_VD = hard_vectors(len(words), dim, seed=dim)
    table = table_of(words, vectors_VD, rows=3)
    try:
        check_words(table, form)
    except InputError:
        assert any(set(word) & set(" \t\n\r\v\f") for word in words)
        return
    assert form == "glove" or not any(" " in word for word in words)
    found, numbers = read_bytes(b"".join(files_of(table, form)[form]), "auto" if evaluated else form, size)
    assert found == words
    same_bits(numbers, vectors_VD)


@given(st.lists(strange, min_size=1, max_size=8, unique=True), st.booleans())
def test_folders_come_back_too(tmp_path_factory: pytest.TempPathFactory, words: list[str], counted: bool) -> None:
    words = [word for word in words if not set(word) & set("\r\n")] or ["x"]
    vectors_VD = hard_vectors(len(words), 3)
    folder = written(table_of(words, vectors_VD, counts_known=counted), "numpy", tmp_path_factory.mktemp("np"))
    found, numbers, counts = read(open_folder(folder, name="f"))
    assert found == words
    same_bits(numbers, vectors_VD)
    assert counts.tolist() == (list(range(len(words), 0, -1)) if counted else [0] * len(words))


@pytest.mark.parametrize(
    ("form", "word"),
    [
        *(("word2vec-text", word) for word in ("new york", "", "a\nb", "a\tb", "a\x0cb")),
        *(("word2vec-binary", word) for word in ("new york", "", "a\nb", "a\tb", "a\x0cb")),
        *(("glove", word) for word in ("", " a", "a ", "a\tb", "a\nb", "route 66", "x -1e5")),
        *(("numpy", word) for word in ("", "a\nb", "a\rb")),
        *(("projector", word) for word in ("", "a\tb", "a\nb")),
    ],
)  # fmt: skip
def test_a_word_that_the_format_cannot_hold_is_named(form: str, word: str) -> None:
    with pytest.raises(InputError, match="row 1") as caught:
        check_words(table_of(["fine", word], np.ones((2, 3), np.float32)), form)
    assert form not in (caught.value.hint or "")


def test_lines_as_people_write_them() -> None:
    data = (
        b"the 1 2\r\n  a  .5 \t1. \n\n. . .  +3 -4E0 \nword 12345678901234567890.5 0.00000000000000000000012\nend 1 2"
    )
    words, vectors_VD = read_bytes(data)
    assert words == ["the", "a", ". . .", "word", "end"]
    expected = [[1, 2], [0.5, 1], [3, -4], [12345678901234567890.5, 1.2e-22], [1, 2]]
    same_bits(vectors_VD, np.array(expected, np.float32))
    marked = read_bytes(b"\xef\xbb\xbf1 2\nthe 1 2\n")
    assert marked[0] == ["the"]


def test_words_are_kept_once_and_a_limit_reads_no_further() -> None:
    data = b"a 1 1\nb 2 2\na 3 3\nC 4 4\n"
    screen = WordFilter(open_stream(iter([data]), "auto", name="f"), name="f")
    (table,) = screen.tables()
    assert ([*table.words], table.vectors[:, 0].tolist()) == (["a", "b", "C"], [1, 2, 4])
    assert (screen.kept, screen.repeated, screen.keep_case, screen.counts_known) == (3, 1, True, False)
    for limit, words in ((1, ["a"]), (3, ["a", "b"]), (9, ["a", "b", "C"])):
        assert read_bytes(data, limit=limit)[0] == words
    broken = b"3 1\na 1\nb 2\nc x\n" + b"d 1\n" * 5
    assert read_bytes(b"3 1\na 1\nb 2\n", limit=2)[0] == ["a", "b"]
    with pytest.raises(InputError, match="line 4"):
        read_bytes(broken, limit=4)
    skipping = WordFilter(open_stream(iter([b"a 1 2\nb\xff 1 2\n"]), "auto", name="f"), name="f", skip_bad_bytes=True)
    assert [[*table.words] for table in skipping.tables()] == [["a"]]
    assert skipping.bad_bytes == 1


GOOD = b"2 2\na " + np.ones(2, "<f4").tobytes() + b"\nb " + np.ones(2, "<f4").tobytes() + b"\n"


@pytest.mark.parametrize(
    ("data", "form", "where", "what"),
    [
        (b"a 1 2\nb 1\n", "auto", "line 2", "wrong number of dimensions; got 1; expected 2"),
        (b"a 1 2\nb 1 2\nc 1 2 3\n", "auto", "line 3", "wrong number of dimensions; got 3; expected 2"),
        (b"a 1 2\nb 1 2x\n", "auto", "line 2", "not a number; got '2x'"),
        (b"a 1 2\nb 1 0x2\n", "auto", "line 2", "not a number"),
        (b"a 1 2\nb 1 1_0\n", "auto", "line 2", "not a number"),
        (b"a 1 2\nb 1 --2\n", "auto", "line 2", "not a number"),
        (b"a 1 2\nb 1 2e\n", "auto", "line 2", "not a number"),
        (b"a 1 2\nb . 2\n", "auto", "line 2", "not a number"),
        (b"a 1 2\n\nb nan 2\n", "auto", "line 3", "not finite; got nan"),
        (b"a 1 2\nb -Inf 2\n", "auto", "line 2", "not finite"),
        (b"a 1 2\nb 1e39 2\n", "auto", "line 2", "too large"),
        (b"a 1 2\nb\xff 1 2\n", "auto", "line 2", "not UTF-8"),
        (b"2 2\na 1 2\n", "auto", "line 3", "fewer words than its header says"),
        (b"1 2\na 1 2\nb 1 2\n", "auto", "line 3", "more words than its header says"),
        (b"1 2\na 1 2 3\n", "auto", "line 2", "wrong number"),
        (b"1 2\na b\n", "auto", "line 2", "wrong number"),
        (b"a 1 2\n", "word2vec-text", "line 1", "no header"),
        (b"a 1 2\n", "word2vec-binary", "line 1", "no header"),
        (b"5 0\n", "auto", "line 1", "wrong number of dimensions"),
        (b"5 99999999\n", "auto", "line 1", "wrong number of dimensions"),
        (b"hello world\n", "auto", "line 1", "not a file of word vectors"),
        (b"\n \n", "auto", "f:", "empty"),
        (b"0 5\n", "auto", "f:", "no word"),
        (GOOD[:-4], "auto", "word 2", "ends in the middle"),
        (GOOD[:14], "auto", "word 2", "fewer words"),
        (GOOD + b"c ", "auto", "word 3", "more words"),
        (GOOD.replace(b"b ", b" "), "auto", "word 2", "empty"),
        (GOOD.replace(b"b ", b"\xff\xff "), "auto", "word 2", "not UTF-8"),
        (GOOD.replace(b"b \0\0\x80\x3f", b"b \0\0\x80\x7f"), "auto", "word 2", "not finite"),
        (b"1 1\n" + b"x\0" * 40_000, "auto", "word 1", "no space after"),
        (b"PK\x03\x04zip", "auto", "f:", "zip"),
        (b"\x80\x04\x95gensim", "auto", "f:", "pickle"),
        (b"\x93NUMPY\x01\x00", "auto", "f:", "an array without words"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [5, 1 << 20])
def test_a_malformed_file_names_the_place(data: bytes, form: str, where: str, what: str, size: int) -> None:
    with pytest.raises(InputError) as caught:
        read_bytes(data, form, size)
    assert where in caught.value.message
    assert what in caught.value.message


def test_a_pickle_is_answered_with_the_line_that_converts_it() -> None:
    with pytest.raises(InputError) as caught:
        read_bytes(b"\x80\x04\x95")
    assert "wv.save_word2vec_format(" in (caught.value.hint or "")


def test_bad_folders_are_refused(tmp_path: Path) -> None:
    def fails(match: str) -> None:
        with pytest.raises(InputError, match=match):
            read(open_folder(tmp_path, name="f"))

    vectors_VD = hard_vectors(3, 2)
    fails(r"no vectors\.npy")
    (tmp_path / "vectors.npy").write_bytes(b"no array")
    fails(r"no words\.txt")
    (tmp_path / "words.txt").write_bytes(b"a\nb\nc\n")
    fails(r"not a complete \.npy")
    for array, match in (
        (np.array([["a"]], object), "objects"),
        (np.ones((2, 2), np.int64), "wrong shape or type"),
        (np.ones(3, np.float32), "wrong shape or type"),
        (vectors_VD[:2], "the number of rows is different from.*got 3; expected 2"),
        (np.ones((4, 2), np.float32), "words.txt: the number of rows is different from"),
        (np.array([[1, 2], [1, np.nan], [1, 2]]), "row 1"),
        (np.array([[1, 2], [1, 1e300], [1, 2]]), "row 1"),
    ):
        np.save(tmp_path / "vectors.npy", array, allow_pickle=True)
        fails(match)
    for same in (np.asfortranarray(vectors_VD), vectors_VD.astype(">f8")):
        np.save(tmp_path / "vectors.npy", same)
        same_bits(read(open_folder(tmp_path, name="f"))[1], vectors_VD)
    np.save(tmp_path / "counts.npy", np.array([3, 2]))
    fails(r"counts\.npy: the number of rows is different from")
    np.save(tmp_path / "counts.npy", np.array([3, -2, 1]))
    fails("a count is negative or too large")
    np.save(tmp_path / "counts.npy", np.array([3, 2, 1]))
    (tmp_path / "vectors.npy").write_bytes((tmp_path / "vectors.npy").read_bytes()[:-1])
    fails("the array has .* bytes, but its header says")


@pytest.mark.parametrize("form", [*FILES, *FOLDERS])
def test_a_writer_takes_a_batch_when_it_has_given_the_last(form: str) -> None:
    taken = 0

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        nonlocal taken
        for _ in range(20):
            taken += 1
            yield from whole.batches(columns)

    whole = table_of(["a", "b"], np.ones((2, 2), np.float32))
    table = WordTable(40, 2, True, batches)
    for chunks in files_of(table, form).values():
        taken = 0
        for number, _ in enumerate(chunks):
            assert taken <= number + 1
        assert taken == 20


@pytest.mark.parametrize("form", ["word2vec-text", "word2vec-binary", "glove"])
def test_a_reader_gives_words_while_the_file_still_comes(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_AT_ONCE", 1)
    data = b"".join(files_of(table_of([f"w{i}" for i in range(5_000)], hard_vectors(5_000, 2), rows=100), form)[form])
    left = blocks(data, 1_000)
    rows = iter(open_stream(left, form, name="f").rows)  # type: ignore[arg-type]
    first = len(next(rows).words)
    behind = sum(map(len, left))
    assert 0 < first < 200
    assert behind > len(data) - 10_000


def nearest(number: str) -> np.float32:
    """The float32 nearest to a decimal number, by fractions."""
    exact = abs(Fraction(number))
    near = np.float32(float(exact))
    with np.errstate(over="ignore"):
        around = [near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(np.inf))]
    around = [value for value in around if np.isfinite(value)]
    found = min(around, key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(np.uint32)) & 1))
    return -found if number.startswith("-") else found


def read_numbers(numbers: list[str]) -> np.ndarray:
    line = f"word {' '.join(numbers)}\n".encode()
    (rows,) = read_text(iter([line]), len(numbers), first_line=1, name="f")
    return rows.vectors[0]


decimals = st.from_regex(
    r"[+-]?([0-9]{1,22}|[0-9]{0,12}\.[0-9]{1,22}|[0-9]{1,9}\.)([eE][+-]?[0-3]?[0-9])?", fullmatch=True
)


@given(st.lists(decimals, min_size=1, max_size=20))
def test_any_decimal_is_rounded_as_exact_arithmetic_does(numbers: list[str]) -> None:
    numbers = [number for number in numbers if abs(Fraction(number)) < 10**38] or ["1"]
    expected = np.array([nearest(number) for number in numbers])
    np.testing.assert_array_equal(read_numbers(numbers).view(np.uint32), expected.view(np.uint32))


def test_the_middle_between_two_floats_and_its_neighbourhood() -> None:
    """Where a double's own rounding would lead the second one astray."""
    rng = random.Random(4)
    numbers = []
    for _ in range(300):
        low = np.uint32(rng.randrange(0x30000000, 0x50000000)).view(np.float32)
        middle = (Fraction(float(low)) + Fraction(float(np.nextafter(low, np.float32(np.inf))))) / 2
        digits = f"{float(middle):.60f}".rstrip("0")  # a double holds the middle exactly
        numbers += [digits, f"{digits}{'0' * 10}1", f"{float(middle):.17g}", f"{float(low):.17g}"]
    numbers += ["16777217", "16777219", "1e-45", "7e-46", "1.1754943e-38", "3.4028235e38", "3.4028235e+38", "0e99999"]
    expected = np.array([nearest(number) for number in numbers])
    np.testing.assert_array_equal(read_numbers(numbers).view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("odd", ["", "+"])  # the fast reader knows no plus sign
def test_the_fast_and_the_slow_reader_read_the_same(odd: str) -> None:
    lines = "".join(f"w{i} 1e-4{i % 6} {odd}{i}.5 1677721{i % 10}\n" for i in range(500)).encode()
    found = [*read_text(iter([lines]), 3, first_line=1, name="f")]
    expected = [[nearest(f) for f in line.split()[1:]] for line in lines.decode().splitlines()]
    np.testing.assert_array_equal(np.concatenate([rows.vectors for rows in found]), np.array(expected))
    assert [place for rows in found for place in rows.places] == [*range(1, 501)]


def test_one_odd_line_among_many_is_read_and_a_wrong_one_is_named() -> None:
    lines = [f"w{i} {i} 0.5" for i in range(1_000)]
    lines[700] = ". . . +700 .5"
    words, vectors_VD = read_bytes("\n".join(lines).encode())
    assert (words[699:702], vectors_VD[:, 0].tolist()) == (["w699", ". . .", "w701"], [*range(1_000)])
    lines[800] = "w 800 nan"
    with pytest.raises(InputError, match=r"line 801.*not finite"):
        read_bytes("\n".join(lines).encode())
