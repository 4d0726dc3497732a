"""Names of objects: a URL is found again in every path that is made of it, and keys in one are not said again."""

import os
import posixpath
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wordpipe
from wordpipe.errors import ConfigError, InputError
from wordpipe.stages import PathLike, public
from wordpipe.storage import Url, as_path, name_beside, parent_of, url_of

PARTS = st.text("aB9 .-_é%+~[]*?'\"…:s3", min_size=1, max_size=8)
KEYS = st.lists(PARTS.filter(lambda part: part not in (".", "..", "s3:")), min_size=1, max_size=4).map("/".join)
BUCKETS = st.text("abz09.-", min_size=2, max_size=20).map(lambda text: f"a{text}")


@given(bucket=BUCKETS, key=KEYS, folder=st.lists(PARTS.filter(lambda part: part != "s3:"), max_size=3).map("/".join))
def test_a_url_is_found_again_in_paths_that_are_made_of_it(bucket, key, folder):
    text, wanted = f"s3://{bucket}/{key}", Url(bucket, key)
    assert str(wanted) == text
    made = [
        text,
        Path(text),
        Path("/", folder, Path(text)),
        str(Path(text)),
        as_path(text),
        as_path(Path(text)),
        f"{text}/",
    ]
    assert [url_of(one) for one in made] == [wanted] * len(made)
    assert str(as_path(Path("x", text))) == text
    assert str(as_path(text).parent / "beside") == f"{text.rpartition('/')[0]}/beside"
    assert os.fspath(as_path(text)) == text


@given(one=KEYS, other=KEYS)
def test_names_in_manifests_lead_from_one_to_the_other(one, other):
    beside = as_path(f"s3://bucket/{other}").parent
    name = name_beside(as_path(f"s3://bucket/{one}"), beside)
    assert url_of(as_path(beside / name)) == Url("bucket", one)
    assert not name.startswith("s3:")
    found = posixpath.normpath(posixpath.join("/", url_of(beside).key, name))  # a twin, in names without buckets
    assert found == posixpath.normpath(f"/{one}")


def test_names_across_buckets_and_machines_are_whole(tmp_path):
    url = as_path("s3://bucket/run/corpus")
    assert name_beside(url, as_path("s3://other/run")) == "s3://bucket/run/corpus"
    assert name_beside(url, tmp_path) == "s3://bucket/run/corpus"
    assert name_beside(tmp_path / "corpus", url.parent) == str(tmp_path / "corpus")
    assert name_beside(tmp_path / "a" / "corpus", tmp_path / "b") == "../a/corpus"


@pytest.mark.parametrize(
    "path", ["run/model", "/s3/x", "as3:/bucket/x", "s3/x", "S3://bucket/x", "", "http://s3/x", None, 3, b"s3://bucket"]
)
def test_other_paths_are_none(path):
    assert url_of(path) is None


@pytest.mark.parametrize(
    "text", ["s3://", "s3:///", "s3://bucket/../x", "s3://-/x", "s3://ID:SECRET@bucket/x", "s3://a b/x"]
)
def test_what_cannot_be_is_refused_and_keys_are_not_said(text):
    with pytest.raises(ConfigError) as caught:
        url_of(text)
    assert "ID:" not in str(caught.value)


@pytest.mark.parametrize("text", ["gs://bucket/x", "S3://bucket/x", "https://host/x", "abfs+x://a"])
def test_a_url_of_another_kind_does_not_become_a_folder(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("A text. And another.")
    with pytest.raises(ConfigError, match="cannot write to a URL of this kind"):
        wordpipe.ingest("a.txt", output=text)
    with pytest.raises(ConfigError, match="cannot write to a URL of this kind"):
        wordpipe.copy(wordpipe.ingest("a.txt", output="here").path, output=text)
    folder = text.partition("/")[0]
    assert not Path(folder).exists()
    Path(folder).mkdir()  # who has such a folder means it
    wordpipe.ingest("a.txt", output=f"{folder}/x")
    assert Path(folder, "x", "manifest.json").exists()


def test_errors_show_urls():
    error = InputError(
        "no s3:/bucket/x", where=Path("/a cache/9/s3:/bucket/dir/a.txt"), hint="see /x/s3:/bucket/y, '../s3:/b/z'"
    )
    assert error.where == "s3://bucket/dir/a.txt"
    assert (error.what, error.hint) == ("no s3://bucket/x", "see s3://bucket/y, 's3://b/z'")


def test_parents():
    assert parent_of("s3://bucket/run/model") == "s3://bucket/run"
    assert parent_of("run/model") == "run"
    assert [str(one) for one in Url("bucket", "a/b/c").parents] == ["s3://bucket/a/b", "s3://bucket/a"]


def test_a_text_that_looks_like_a_url_is_a_text():
    """Of a public function, arguments that name something are URLs, and no others."""

    @public()
    def look(path: PathLike, text: str, *, output: Any = None) -> tuple[Any, str, Any]:
        return path, text, output

    text = "s3://bucket/nothing and the sea"
    assert look("run/index", text) == ("run/index", text, None)
    assert look("run/index", text=text, output="s3://bucket/x") == ("run/index", text, as_path("s3://bucket/x"))
    assert look([{"text": text}], text) == ([{"text": text}], text, None)
