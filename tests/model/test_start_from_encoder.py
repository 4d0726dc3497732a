"""An encoder-decoder out of an encoder: it reads as the encoder did, every kind of part that both can have."""

import pytest
import torch

from tests.support.models import KINDS, files_of, kind_config, shaken, small_config
from wordpipe.errors import ConfigError
from wordpipe.model import load_hf, new_model, start_from_encoder

ENCODERS = [name for name in KINDS if name.startswith("encoder")]
REFUSED = {
    "windows": "windows", "windows with t5": "windows", "global tokens": "windows", "additive": "attention",
    "additive with alibi": "attention", "linear": "attention", "linear, learned positions": "attention",
    "performer": "attention", "linformer": "attention", "state spaces": "mixers", "all mixed": "mixers",
    "fourier": "mixers", "fourier, norm after": "mixers", "relative": "attention", "relative, windows": "attention",
}  # fmt: skip
IDS = torch.tensor([[2, 20, 21, 22, 23, 3], [2, 30, 31, 3, 0, 0]])
REAL = IDS > 0


@pytest.mark.parametrize("name", [name for name in ENCODERS if name.removeprefix("encoder ") not in REFUSED])
@torch.no_grad()
def test_it_reads_as_the_encoder_does_and_survives_its_folder(name):
    encoder = shaken(new_model(kind_config(name), 0))
    config = encoder.config.with_decoder(2, 0)
    model = start_from_encoder(encoder, config, seed=5).eval()
    want = encoder.encode(IDS, REAL)
    torch.testing.assert_close(model.encoder.encode(IDS, REAL)[REAL], want[REAL], rtol=1e-5, atol=1e-5)
    assert len(model.decoder.blocks) == 2
    target = torch.tensor([[0, 40, 41], [0, 50, 51]])
    logits = model(IDS, target, REAL)
    assert logits.shape == (2, 3, 96)
    other = IDS.clone()
    other[0, 2] += 1  # what was read decides what is written
    changed = (model(other, target, REAL) - logits).abs().amax(dim=(1, 2))
    assert changed[0] > 1e-4 > changed[1]
    files = files_of(model)
    again = load_hf(files.__getitem__, files).model
    torch.testing.assert_close(again(IDS, target, REAL), logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("kind", "part"), REFUSED.items())
def test_parts_that_no_encoder_decoder_has_are_named(kind, part):
    with pytest.raises(ConfigError) as caught:
        kind_config(f"encoder {kind}").with_decoder(2, 0)
    assert caught.value.where == part


def test_the_decoder_is_a_function_of_the_seed_alone():
    encoder = new_model(small_config("encoder"), 0)
    one, same, other = (start_from_encoder(encoder, encoder.config.with_decoder(2, 0), seed=seed) for seed in (1, 1, 2))
    weights = [dict(model.decoder.named_parameters()) for model in (one, same, other)]
    matrices = [name for name, weight in weights[0].items() if weight.dim() > 1 and name != "embedding"]
    assert matrices
    for name in matrices:
        assert torch.equal(weights[0][name], weights[1][name])
        assert not torch.equal(weights[0][name], weights[2][name])
    assert one.decoder.embedding is one.encoder.embedding
