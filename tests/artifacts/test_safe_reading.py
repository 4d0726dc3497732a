"""Bytes that anyone may have written: JSON, arrays, files that a user names, facts."""

import io
import json
import os
import struct
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError

from wordpipe.artifacts import (
    array_header,
    bounded_lines,
    damage_named,
    open_regular_file,
    parse_array,
    parse_json,
    parse_json_object,
    read_fact,
    read_regular_file,
)
from wordpipe.errors import ArtifactError, ConfigError, InputError, StorageError

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON_VALUES)
def test_json_is_read_as_python_does(value):
    text = json.dumps(value)
    assert parse_json(text, "here") == parse_json(text.encode(), "here") == json.loads(text)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"nul", b"\xff", b"[" * 5_000, b'{"a":' * 5_000, b"[" * 400 + b"]" * 400, b"9" * 5_000,
        b'{"a":' * 300 + b"1" + b"}" * 300,
    ],
    ids=["empty", "cut", "no word", "no text", "deep", "deep object", "nested", "digits", "nested object"],
)  # fmt: skip
def test_what_is_no_json_names_its_place(data):
    with pytest.raises(InputError) as error:
        parse_json(data, "corpus.jsonl:7", what="not a line of JSON", error=InputError)
    assert str(error.value).startswith("corpus.jsonl:7: not a line of JSON")
    assert len(str(error.value)) < 300


def test_many_brackets_side_by_side_are_not_deep():
    assert len(parse_json(json.dumps([[1]] * 1000), "here")) == 1000


def test_an_object_is_wanted():
    assert parse_json_object(b'{"a": 1}', "x") == {"a": 1}
    with pytest.raises(ArtifactError, match="x: not a JSON object; got list"):
        parse_json_object(b"[]", "x")


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int32), np.zeros((0, 4), np.float32), np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.array(5), np.zeros(3, np.dtype([("row", "<i8"), ("near", "<i4", (2,))])), np.array(["a", "bc"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_arrays_are_read_as_numpy_does(array, version):
    np.lib.format.write_array(buffer := io.BytesIO(), array, version=version, allow_pickle=False)
    found = parse_array(buffer.getvalue())
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)


def npy(header: str, numbers: bytes = b"\0" * 32) -> bytes:
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + numbers


SOUND = "{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }"


def test_a_header_of_python_2_is_read():
    assert parse_array(npy(SOUND.replace("(4,)", "(4L,)"))).shape == (4,)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x93NUMPY", b"\x93NUMPY\1\0\xff\xff", b"x" * 99, npy(""), npy("\t\t\t"), npy("(" * 9_000), npy("[" * 60 + "\n"),
        npy(SOUND[:-4]), npy(SOUND.replace("(4,)", "(")), npy(SOUND.replace("(4,)", "4")), npy(SOUND.replace("(4,)", "(-4,)")),
        npy(SOUND.replace("(4,)", "(1152921504606846976,)")), npy(SOUND.replace("(4,)", "(5,)")),
        npy(SOUND.replace("(4,)", "(3,)")), npy(SOUND.replace("<i8", "|O")), npy(SOUND.replace("<i8", "what")),
        npy(SOUND.replace("False", "7")), npy("__import__('os').getpid()"), npy(SOUND.replace("'shape'", "'form'")),
        b"\x93NUMPY\2\0" + struct.pack("<I", 1 << 31) + b"{",
    ],
    ids=range(21),
)  # fmt: skip
def test_a_damaged_header_is_one_error(data):
    with pytest.raises(ValueError):
        parse_array(data)


@given(st.binary(max_size=300), st.integers(0, 80))
def test_no_header_raises_anything_else(data, at):
    whole = npy(SOUND)
    for some in (data, whole[:at] + data + whole[at + len(data) :]):
        with suppress(ValueError):
            array_header(some)


@pytest.mark.parametrize(
    "raised",
    [
        ValueError("x"), KeyError("x"), IndexError("x"), TypeError("x"), AttributeError("x"), EOFError(), struct.error("x"),
        pa.ArrowInvalid("x"), SafetensorError("x"), RuntimeError("x"), Exception("x"), ZeroDivisionError(),
        InputError("no tokenizer"), ConfigError("unknown"), UnicodeDecodeError("utf-8", b"", 0, 1, "x"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_whatever_is_raised_over_a_file_is_its_damage(raised):
    with (
        pytest.raises(ArtifactError, match=r"run/index/encoder\.json: ") as error,
        damage_named("run/index/encoder.json"),
    ):
        raise raised
    assert error.value.hint


@pytest.mark.parametrize(
    "raised", [ArtifactError("other"), StorageError("disk"), OSError(5, "io"), MemoryError(), KeyboardInterrupt()]
)
def test_what_is_no_damage_passes(raised):
    with pytest.raises(type(raised)) as error, damage_named("file"):
        raise raised
    assert error.value is raised


def test_a_regular_file_is_opened_and_nothing_else(tmp_path):
    (file := tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "zero").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    assert read_regular_file(tmp_path / "link", 4) == b"text"
    for name, what in {
        "pipe": "a pipe or a device", "zero": "a pipe or a device", "": "this is a folder",
        "absent": "the file does not exist", "file/below": "the file does not exist",
        "x" * 300: "the file cannot be opened", "a\0b": "the file cannot be opened",
    }.items():  # fmt: skip
        with pytest.raises(InputError, match=what):
            open_regular_file(tmp_path / name)
    with pytest.raises(InputError, match="too large; got 4 bytes; expected at most 3"):
        open_regular_file(file, limit=3)


def test_a_line_without_an_end_is_refused():
    assert list(bounded_lines(io.BytesIO(b"a\n\nbcd"), "f", 3)) == [b"a\n", b"\n", b"bcd"]
    with pytest.raises(InputError, match="f, line 2: the line is too long; expected at most 3 bytes"):
        list(bounded_lines(io.BytesIO(b"a\nbcde\n"), "f", 3))


def test_facts_have_their_type():
    facts = {"dim": 32, "share": 1, "of": "words", "yes": True, "huge": 10**18, "far": 1e300, "wrong": "32x"}
    assert read_fact(facts, "dim", int, "m", least=1) == 32
    assert read_fact(facts, "share", float, "m") == 1.0
    assert read_fact(facts, "absent", int, "m", 7) == 7
    for name, kind, least in [
        ("absent", int, None), ("wrong", int, None), ("yes", int, None), ("dim", bool, None), ("of", dict, None),
        ("dim", int, 33), ("huge", int, None), ("far", float, None),
    ]:  # fmt: skip
        with pytest.raises(ArtifactError, match=f"m: a value is .*expected {name}: {kind.__name__}"):
            read_fact(facts, name, kind, "m", least=least)
