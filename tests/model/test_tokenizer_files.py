import json

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

from tests.model.shapes import small_config
from wordpipe.errors import ArtifactError
from wordpipe.model.checkpoint import save_hf
from wordpipe.model.initialise import new_model
from wordpipe.model.tokenizer_files import tokenizer_files

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"]
TEXT = "the cat sat on the mat"


def tokenizer_json(post_processor=None):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator([TEXT] * 20, trainer)
    if post_processor is not None:
        tokenizer.post_processor = post_processor
    return tokenizer.to_str().encode()


@pytest.mark.parametrize("post_processor", [None, processors.ByteLevel(trim_offsets=True)])
@pytest.mark.parametrize(
    ("architecture", "first", "last", "side"),
    [("encoder", "[CLS]", "[SEP]", "right"), ("decoder", "<s>", None, "left")],
)
def test_auto_tokenizer_adds_what_training_had(architecture, first, last, side, post_processor, tmp_path):
    model = new_model(small_config(architecture), 0)
    data = tokenizer_json(post_processor)
    save_hf(model, model.config, lambda name, content: (tmp_path / name).write_bytes(content) and None)
    for name, content in tokenizer_files(data, model.config, unk_id=1).items():
        (tmp_path / name).write_bytes(content)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    plain = Tokenizer.from_str(data.decode()).encode(TEXT, add_special_tokens=False).ids
    ids = loaded(TEXT)["input_ids"]
    want = [loaded.convert_tokens_to_ids(first), *plain, *([loaded.convert_tokens_to_ids(last)] if last else [])]
    assert ids == want
    assert loaded.decode(ids, skip_special_tokens=True) == TEXT
    assert loaded(TEXT, add_special_tokens=False)["input_ids"] == plain
    assert (loaded.pad_token, loaded.mask_token, loaded.unk_token) == ("[PAD]", "[MASK]", "[UNK]")
    assert loaded.model_max_length == 24
    assert loaded.padding_side == side
    assert sorted(loaded(TEXT)) == ["attention_mask", "input_ids"]


def test_pairs_are_parted():
    files = tokenizer_files(tokenizer_json(), small_config("encoder"))
    encoded = Tokenizer.from_str(files["tokenizer.json"].decode()).encode("the cat", "the mat")
    assert [token for token in encoded.tokens if token in SPECIAL] == ["[CLS]", "[SEP]", "[SEP]"]
    assert encoded.type_ids[0] == 0
    assert encoded.type_ids[-1] == 1


def test_a_tokenizer_that_does_not_belong_is_refused():
    with pytest.raises(ArtifactError, match="more tokens"):
        tokenizer_files(tokenizer_json(), small_config("encoder", vocab_size=16))
    with pytest.raises(ArtifactError, match="no mask token"):
        tokenizer_files(tokenizer_json(), small_config("encoder", mask_id=90))
    with pytest.raises(ArtifactError, match="not a tokenizer"):
        tokenizer_files(b"{}", small_config("encoder"))


def test_unknown_ids_are_left_out():
    settings = json.loads(
        tokenizer_files(tokenizer_json(), small_config("decoder", pad_id=None))["tokenizer_config.json"]
    )
    assert "pad_token" not in settings
    assert "unk_token" not in settings
