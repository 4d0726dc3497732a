"""Encoders as they are saved: damaged facts, what their import loads, the transform that `auto` means."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from wordpipe.encoders import load_facts, transform_kind
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import ArtifactError


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"kind": "magic", "identity": {}}', b'{"kind": "words"}'])
def test_a_file_that_is_no_encoder_is_refused(data: bytes) -> None:
    with pytest.raises(ArtifactError, match=r"encoder\.json"):
        load_facts(data)


def test_word_vectors_are_encoded_without_torch_and_settings_without_numpy() -> None:
    code = (
        "import sys; import wordpipe.words.settings, wordpipe.search.settings, wordpipe.encoders.settings;"
        "assert not {'numpy', 'pyarrow', 'torch', 'faiss', 'gensim'} & set(sys.modules), 'settings';"
        "import wordpipe.encoders.encoder, wordpipe.words.gensim_backend, wordpipe.words.formats;"
        "assert not {'torch', 'faiss', 'gensim'} & set(sys.modules), 'words'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("kind", "dim", "texts", "identity", "expected"),
    [
        ("transformer", 64, 64, {}, "whiten"),
        ("transformer", 64, 63, {}, "centre"),
        ("transformer", 64, 16, {}, "centre"),
        ("transformer", 64, 15, {}, "none"),
        ("transformer", 4, 15, {}, "none"),
        ("transformer", 64, 64, {"pairs": ["crop"]}, "none"),
        ("words", 64, 1_000_000, {}, "none"),
    ],
)
def test_auto_transform(kind: str, dim: int, texts: int, identity: dict, expected: str) -> None:
    encoder = SimpleNamespace(kind=kind, dim=dim, identity=identity)
    assert transform_kind(EmbedSettings(), encoder, texts) == expected
    assert transform_kind(EmbedSettings(transform="remove-components"), encoder, 3) == "remove-components"
