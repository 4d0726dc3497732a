"""The manifest: what goes in comes out, what was changed is found, recipe and digest depend on what they should."""

import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.support.generations import manifest_for
from wordpipe.artifacts import (
    FORMATS,
    KINDS,
    InputEntry,
    Manifest,
    OutputEntry,
    digest_of,
    hash_bytes,
    is_artifact,
    is_broken_artifact,
    is_plain_path,
    library_versions,
    recipe_of,
)
from wordpipe.errors import ArtifactError

# all of Unicode, with the lone surrogates that stand for undecodable bytes in file names
TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
PLAIN = st.text(max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(0, 2**63 - 1)
HASHES = st.binary(min_size=32, max_size=32).map(bytes.hex)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3),
    max_leaves=8,
)
SETTINGS = st.dictionaries(st.text("abcdefg", min_size=1, max_size=3), JSON, max_size=4)
INPUTS = st.builds(
    InputEntry,
    kind=st.sampled_from([*KINDS, "source", "file"]),
    digest=HASHES,
    recipe=st.none() | HASHES,
    path=st.none() | PLAIN,
    bytes=st.none() | COUNTS,
    verified=st.booleans(),
)
OUTPUTS = st.builds(
    OutputEntry,
    path=PLAIN.filter(is_plain_path),
    bytes=COUNTS,
    blake3=HASHES,
    rows=st.none() | COUNTS,
    log=st.booleans(),
)
# no file in the place of another, or of its folder
OUTPUT_LISTS = st.lists(OUTPUTS, max_size=3, unique_by=lambda one: one.path.partition("/")[0])
MANIFESTS = st.builds(
    Manifest,
    format=st.just(FORMATS["corpus"]),
    kind=st.sampled_from(KINDS),
    command=PLAIN,
    wordpipe=PLAIN,
    settings=SETTINGS,
    inputs=st.lists(INPUTS, max_size=3),
    outputs=OUTPUT_LISTS,
    counts=st.dictionaries(PLAIN, COUNTS, max_size=3),
    metrics=st.dictionaries(PLAIN, NUMBERS, max_size=3),
    facts=st.dictionaries(PLAIN, JSON, max_size=3),
    warnings=st.lists(PLAIN, max_size=2),
    bitwise=st.booleans(),
    device=PLAIN,
    threads=st.integers(1, 64),
    versions=st.dictionaries(PLAIN, PLAIN, max_size=2),
    seconds=NUMBERS,
    peak_memory_bytes=COUNTS,
    recipe=HASHES,
    digest=HASHES,
)


@given(MANIFESTS.map(lambda one: one.model_copy(update={"format": FORMATS[one.kind]})))
def test_round_trip(manifest):
    data = manifest.to_bytes()
    data.decode("utf-8")  # also with lone surrogates inside
    again = Manifest.from_bytes(data, where="manifest.json")
    assert again.to_bytes() == data
    known = manifest.model_dump(mode="json", exclude={"settings", "facts"})
    assert again.model_dump(mode="json", exclude={"settings", "facts"}) == known


@given(SETTINGS)
def test_settings_come_back_as_they_were(settings):
    manifest = manifest_for([], settings=settings)
    again = Manifest.from_bytes(manifest.to_bytes(), where="m")
    # two surrogates that make a pair are one character in JSON
    assert json.dumps(again.settings) == json.dumps(settings)


def test_keys_that_are_no_strings_do_not_look_like_a_change():
    """Numbers sort otherwise than the strings that JSON makes of them."""
    manifest = manifest_for([], facts={"by_size": {2: "a", 10: "b"}, "pair": (1, 2)})
    again = Manifest.from_bytes(manifest.to_bytes(), where="m")
    assert again.facts == {"by_size": {"2": "a", "10": "b"}, "pair": [1, 2]}


@given(MANIFESTS, st.data())
def test_a_change_anywhere_is_found(manifest, data):
    """Any field with another value, a field too many, a field too few."""
    body = json.loads(manifest.to_bytes())
    name = data.draw(st.sampled_from(sorted(body)))
    how = data.draw(st.sampled_from(["change", "remove", "add"]))
    if how == "change":
        body[name] = data.draw(JSON.filter(lambda value: json.dumps(value) != json.dumps(body[name])))
    elif how == "remove":
        del body[name]
    else:
        body["one more"] = 1
    with pytest.raises(ArtifactError) as caught:
        Manifest.from_bytes(json.dumps(body).encode(), where="run/corpus/manifest.json")
    assert caught.value.where == "run/corpus/manifest.json"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b"3", b'"x"', b"{}", b"\xff\xfe", b"\x00" * 100, b"[" * 100_000, b'{"format": 1}',
        b'{"blake3": "", "format": Infinity}', b'{"blake3": "", "format": []}', b'{"blake3": "", "format": "x"}',
        b'{"blake3": "", "format": 1}', b'{"blake3": 7, "format": -1}', b'{"blake3": "", "format": ' + b"9" * 5000 + b"}",
    ],
    ids=lambda data: repr(data[:34]),
)  # fmt: skip
def test_what_is_no_manifest(data):
    with pytest.raises(ArtifactError) as caught:
        Manifest.from_bytes(data, where="here")
    assert caught.value.where == "here"
    assert caught.value.hint


@given(st.binary(max_size=200))
def test_any_bytes_at_all(data):
    with pytest.raises(ArtifactError):
        Manifest.from_bytes(data, where="here")


@pytest.mark.parametrize(
    "more",
    [
        {"blake3": "../" * 21 + "x"}, {"blake3": "0" * 63}, {"blake3": "0" * 64 + "\n"}, {"blake3": "G" * 64}, {"blake3": ""},
        {"bytes": -1}, {"bytes": 1 << 63}, {"bytes": 1.5}, {"rows": -1}, {"path": "../x"}, {"path": "a/../../x"},
        {"path": "sub"}, {"path": "sub/a"},
    ],
    ids=str,
)  # fmt: skip
def test_what_a_forged_manifest_says_of_a_file_is_refused(more):
    there = {"path": "sub/a", "bytes": 1, "blake3": "0" * 64, "rows": 1, "log": False}
    body = json.loads(manifest_for([OutputEntry(**there)]).to_bytes())
    body["outputs"].append(there | {"path": "b"} | more)
    with pytest.raises(ArtifactError, match="the manifest was changed"):
        Manifest.from_bytes(_with_its_hash(body), where="here")


@pytest.mark.parametrize(
    "more",
    [
        {"kind": "magic"}, {"kind": ""}, {"kind": 3}, {"kind": "corpus\n"}, {"digest": ""}, {"digest": "0" * 63},
        {"digest": None}, {"digest": "\x1b[2J" + "0" * 60}, {"recipe": "x"}, {"bytes": -1}, {"bytes": 1 << 63},
        {"verified": "perhaps"}, {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_what_a_forged_manifest_says_of_an_input_is_refused(more):
    there = InputEntry(kind="file", digest="0" * 64, path="a.txt", bytes=1)
    body = json.loads(manifest_for([]).to_bytes())
    body["inputs"] = [there.model_dump(mode="json")]
    assert Manifest.from_bytes(_with_its_hash(body), where="here").inputs == [there]
    body["inputs"][0] |= more
    with pytest.raises(ArtifactError, match="the manifest was changed"):
        Manifest.from_bytes(_with_its_hash(body), where="here")


def _with_its_hash(body):
    """As who forges it would write it."""
    said = {name: value for name, value in body.items() if name != "blake3"}
    text = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    return json.dumps(said | {"blake3": hash_bytes(text)}).encode()


@pytest.mark.parametrize(
    ("data", "ours"),
    [
        (b'{"name": "wordpipe", "start_url": "/"}', False), (b'{"manifest_version": 3}', False), (b"[]", False),
        (b"", False), (b"\xff", False), (b"[" * 5000, False), (b'{"kind": "corpus", "digest": "0"}', False),
        (b'{"kind": "corpus", "wordpipe": "1"}', True), (b'{"kind": "corpus", "wordpipe": "1"', True),
    ],
    ids=lambda one: repr(one)[:40],
)  # fmt: skip
def test_whose_manifest_it_is(data, ours, tmp_path):
    (tmp_path / "manifest.json").write_bytes(data)
    assert is_artifact(tmp_path) == ours


@pytest.mark.parametrize("names", [["corpus-00000.parquet"], ["model.safetensors", "steps.parquet", "tokenizer.json"]])
@pytest.mark.parametrize(
    ("data", "ours"), [(b"", True), (b"\xff", True), (b"[" * 5000, True), (b"{}", False), (b'{"name": "x"}', False)]
)
def test_beside_files_of_ours_a_manifest_that_is_no_json_is_a_damaged_one(data, ours, names, tmp_path):
    """Or a model's folder would be read as one of transformers, without a word."""
    (tmp_path / "manifest.json").write_bytes(data)
    for name in names:
        assert not is_artifact(tmp_path)
        (tmp_path / name).touch()
    assert is_artifact(tmp_path) == ours
    assert is_broken_artifact(tmp_path) != ours


@pytest.mark.parametrize(("by", "who", "hint"), [(1, "a newer", "upgrade"), (-1, "an earlier", "wordpipe ingest")])
def test_another_format_says_what_to_do(by, who, hint):
    data = manifest_for([], format=FORMATS["corpus"] + by).to_bytes()
    with pytest.raises(ArtifactError, match=f"made by {who} version") as caught:
        Manifest.from_bytes(data, where="here")
    assert (caught.value.got, caught.value.expected) == (f"corpus format {2 + by}", "format 2")
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_figures_that_json_cannot_hold_are_refused(value):
    with pytest.raises(ValidationError):
        manifest_for([], metrics={"loss": value})


@given(SETTINGS, st.lists(INPUTS, max_size=3), st.data())
def test_the_recipe_changes_with_all_that_matters(settings, inputs, data):
    recipe = recipe_of("words", settings, inputs)
    assert recipe == recipe_of("words", dict(reversed(settings.items())), inputs)  # order of settings plays no part
    assert recipe != recipe_of("model", settings, inputs)
    assert recipe != recipe_of("words", {**settings, "one more": None}, inputs)
    for name, value in settings.items():
        other = data.draw(JSON.filter(lambda new, old=value: json.dumps(new) != json.dumps(old)))
        assert recipe != recipe_of("words", {**settings, name: other}, inputs)
        assert recipe != recipe_of("words", {key: settings[key] for key in settings if key != name}, inputs)
    for place, entry in enumerate(inputs):
        other_digest = entry.model_copy(update={"digest": hash_bytes(entry.digest.encode())})
        assert recipe != recipe_of("words", settings, [*inputs[:place], other_digest, *inputs[place + 1 :]])
        assert recipe != recipe_of("words", settings, [*inputs[:place], *inputs[place + 1 :]])
        # where an input lies and whether it was checked is recorded, but makes nothing stale; a source's name does
        checked = entry.model_copy(update={"verified": False, "bytes": 5, "recipe": None})
        assert recipe == recipe_of("words", settings, [*inputs[:place], checked, *inputs[place + 1 :]])
        moved = entry.model_copy(update={"path": f"{entry.path}, elsewhere"})
        same = recipe == recipe_of("words", settings, [*inputs[:place], moved, *inputs[place + 1 :]])
        assert same == (entry.kind != "source")


@given(OUTPUT_LISTS)
def test_the_digest_is_of_all_files_but_logs(outputs):
    digest = digest_of(outputs)
    assert digest == digest_of(reversed(outputs))
    for place, entry in enumerate(outputs):
        rest = [*outputs[:place], *outputs[place + 1 :]]
        changes = [{"blake3": hash_bytes(entry.blake3.encode())}, {"path": entry.path + "x"}]
        for change in changes:
            assert (digest == digest_of([*rest, entry.model_copy(update=change)])) == entry.log
        assert (digest == digest_of(rest)) == entry.log


@given(OUTPUT_LISTS)
def test_figures_of_the_run_are_outside_the_digest(outputs):
    one = manifest_for(outputs, seconds=1.0, device="cpu", threads=1)
    other = manifest_for(outputs, seconds=2.0, device="cuda", threads=8)
    assert (one.digest, one.recipe) == (other.digest, other.recipe)


def test_an_input_whose_name_is_not_unicode():
    entry = InputEntry(kind="source", digest="0" * 64, path=os.fsdecode(b"caf\xe9.txt"))
    assert entry.path == "caf\\udce9.txt"
    again = Manifest.from_bytes(manifest_for([], inputs=[entry]).to_bytes(), where="m")
    assert again.inputs == [entry]


def test_a_manifest_does_not_change():
    with pytest.raises(ValidationError):
        manifest_for([]).kind = "words"


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("a", True), ("a/b", True), (".a", True), ("a..b", True), ("…/ü", True), ("manifest.json.x", True),
        ("", False), ("/a", False), ("a/", False), ("a//b", False), (".", False), ("..", False), ("a/../b", False),
        ("a\0b", False), ("manifest.json", False), ("a\nb", False), ("a\x1b[2J", False), ("s3:/b", False), ("é" * 128, False),
    ],
)  # fmt: skip
def test_plain_paths(path, plain):
    assert is_plain_path(path) == plain


def test_library_versions():
    found = library_versions("pyarrow", "no-such-package")
    assert sorted(found) == ["pyarrow", "python"]
