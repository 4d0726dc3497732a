"""For tests/model/test_attention.py or a file of its own: goes with model.patch."""

import pytest
import torch

from tests.model.shapes import small_config
from wordpipe.model import new_model

PARTS = [
    {}, {"attention": "additive"}, {"attention": "linear"}, {"windows": (0, 0, 2)}, {"positions": "alibi"},
    {"norm_place": "post", "embedding_norm": True},
]  # fmt: skip


@pytest.mark.parametrize("parts", PARTS)
def test_only_the_wanted_positions(parts):
    """Twin: all positions, then those wanted; hidden states and gradients."""
    model = new_model(small_config("encoder", **parts), 0)
    ids_BT = torch.randint(7, 90, (3, 12), generator=torch.Generator().manual_seed(1))
    at_BK = torch.tensor([[1, 5, 7], [11, 0, 2], [3, 4, 6]])
    results = []
    for at in (None, at_BK):
        hidden = model.encode(ids_BT, at_BK=at)
        wanted = hidden.gather(1, at_BK[..., None].expand(-1, -1, hidden.shape[2])) if at is None else hidden
        weights = [weight for name, weight in model.named_parameters() if "head" not in name and name != "output_bias"]
        results.append((wanted, *torch.autograd.grad(wanted.sin().sum(), weights)))
    for want, got in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
