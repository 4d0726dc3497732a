"""Settings of ingest: bounds and what does not fit together."""

import subprocess
import sys

import pytest

from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import ConfigError


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"valid": 0.6, "test": 0.4}, "the sum must be below 1"),
        ({"valid": -0.1}, "greater than or equal to 0"),
        ({"documents": "line", "first_line_title": True}, "documents = file or block"),
        ({"metadata": ["a:integer"]}, "'a:integer'"),
        ({"metadata": ["a", "b"], "no_metadata": True}, "give only one"),
        ({"metadata": ["a", "a:int"]}, "different names"),
        ({"max_document_bytes": 10}, "greater than or equal to 1024"),
        ({"bad_bytes": "ignore"}, "'replace', 'skip' or 'fail'"),
        ({"document": "line"}, "unknown setting 'document'"),
        ({"parallel": True, "text_b": "en", "documents": "block"}, "cannot be used with text_b, documents"),
        ({"parallel": True, "format": "tsv"}, "cannot be used with format"),
    ],
)
def test_wrong_settings_are_refused_with_the_bound(values, message):
    with pytest.raises(ConfigError) as caught:
        IngestSettings.make(values)
    assert message in str(caught.value)


def test_metadata_types_are_read_in_order():
    settings = IngestSettings(metadata=("url", "year:int", "rating:float", "seen:bool"))
    assert list(settings.metadata_types.items()) == [
        ("url", None),
        ("year", "int"),
        ("rating", "float"),
        ("seen", "bool"),
    ]


def test_settings_import_nothing_heavy():
    code = "import sys, wordpipe.corpus.settings; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "pyarrow", "torch", "regex", "blake3", "zstandard"} & set(loaded)


def test_a_field_that_is_shown_under_its_name_anyway_is_kept_once():
    settings = IngestSettings(metadata=("key", "body", "title", "year:int"), id_field="key", text_field="body")
    assert settings.metadata_types == {"key": None, "year": "int"}  # by which one asks for it
    assert IngestSettings(metadata=("id", "label"), id_field="id", label_field="label").metadata_types == {}


def test_pairs_are_asked_for_by_a_field_or_two_files():
    assert not IngestSettings().is_pairs
    assert IngestSettings(text_b="en").is_pairs
    assert IngestSettings(parallel=True).is_pairs
