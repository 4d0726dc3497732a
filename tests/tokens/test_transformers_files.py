import json

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

from wordpipe.errors import ArtifactError
from wordpipe.tokens import SPECIAL_TOKENS, framed_tokenizer, transformers_files

TEXT = "the cat sat on the mat"
IDS = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4, "bos": 5, "eos": 6}


def tokenizer_json(post_processor=None):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=list(SPECIAL_TOKENS), show_progress=False)
    tokenizer.train_from_iterator([TEXT] * 20, trainer)
    if post_processor is not None:
        tokenizer.post_processor = post_processor
    return tokenizer.to_str().encode()


@pytest.mark.parametrize("post_processor", [None, processors.ByteLevel(trim_offsets=True)])
@pytest.mark.parametrize(
    ("causal", "first", "last", "side"), [(False, "[CLS]", "[SEP]", "right"), (True, "<s>", None, "left")]
)
def test_auto_tokenizer_adds_what_training_had(causal, first, last, side, post_processor, tmp_path):
    data = tokenizer_json(post_processor)
    tokenizer, names = framed_tokenizer(data, IDS, causal=causal, vocab_size=60)
    for name, content in transformers_files(tokenizer, names, max_len=24, padding_side=side).items():
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
    tokenizer, _ = framed_tokenizer(tokenizer_json(), IDS, causal=False, vocab_size=60)
    encoded = tokenizer.encode("the cat", "the mat")
    assert [token for token in encoded.tokens if token in SPECIAL_TOKENS] == ["[CLS]", "[SEP]", "[SEP]"]
    assert encoded.type_ids[0] == 0
    assert encoded.type_ids[-1] == 1


def test_a_tokenizer_that_does_not_belong_is_refused():
    with pytest.raises(ArtifactError, match="more tokens"):
        framed_tokenizer(tokenizer_json(), IDS, causal=False, vocab_size=16)
    with pytest.raises(ArtifactError, match="no mask token"):
        framed_tokenizer(tokenizer_json(), IDS | {"mask": 90}, causal=False, vocab_size=100)
    with pytest.raises(ArtifactError, match="not a tokenizer"):
        framed_tokenizer(b"{}", IDS, causal=False, vocab_size=60)


def test_unknown_ids_are_left_out():
    tokenizer, names = framed_tokenizer(tokenizer_json(), IDS | {"pad": None, "unk": None}, causal=True, vocab_size=60)
    settings = json.loads(transformers_files(tokenizer, names)["tokenizer_config.json"])
    assert not {"pad_token", "unk_token", "model_max_length"} & set(settings)
