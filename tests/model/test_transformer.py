"""The transformer: every kind of attention, position, norm and feed-forward against the slow twin; packed sequences."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.support.models import each_kind, kind_config, small_config
from tests.support.slow_model import SlowModel
from wordpipe.errors import ConfigError
from wordpipe.model import Cache, new_model, pack
from wordpipe.model.variants import bands, similarity


def shaken(model, seed):
    """A model whose norms, biases and small tables are not where a missing one would not show."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            centre = 1.0 if weight.dim() == 1 and not name.endswith("bias") else 0.0
            weight.copy_(centre + 0.25 * torch.randn(weight.shape, generator=generator))
    return model.eval()


def slow(model):
    return SlowModel(model.config, {name: w.detach().double().numpy() for name, w in model.named_parameters()})


def some_ids(n, seed):
    return torch.randint(7, 96, (1, n), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", each_kind(rest=pytest.mark.landing))
def test_the_model_equals_the_slow_twin(name):
    seed = sum(map(ord, name))
    model = shaken(new_model(kind_config(name), 1), seed)
    ids_BT = some_ids(11, seed)
    with torch.no_grad():
        hidden, logits = model.encode(ids_BT)[0].numpy(), model(ids_BT)[0].numpy()
    np.testing.assert_allclose(hidden, slow(model).hidden(ids_BT[0].numpy()), atol=2e-4, rtol=2e-4)
    np.testing.assert_allclose(logits, slow(model).logits(ids_BT[0].numpy()), atol=2e-3, rtol=2e-4)


@pytest.mark.parametrize("name", each_kind())
def test_padding_is_not_seen(name):
    model = shaken(new_model(kind_config(name), 1), 5)
    ids_BT, mask_BT = some_ids(9, 3).repeat(2, 1), torch.ones(2, 9, dtype=torch.long)
    mask_BT[1, 6:] = 0
    with torch.no_grad():
        got, alone = model.encode(ids_BT, mask_BT), model.encode(ids_BT[:1])
    # a text beside a padded one goes another way through the kernels: how far it rounds apart depends on the processor
    torch.testing.assert_close(got[0], alone[0], atol=1e-4, rtol=1e-4)
    want = slow(model).hidden(ids_BT[1].numpy(), mask_BT[1].bool().numpy())
    np.testing.assert_allclose(got[1, :6].numpy(), want[:6], atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("name", each_kind("decoder"))
@pytest.mark.parametrize("cuts", [(1,) * 20, (7, 1, 1, 5, 6), (20,)])
def test_with_a_cache_the_logits_are_those_without(name, cuts):
    model = shaken(new_model(kind_config(name), 1), 6)
    ids_BT = torch.cat((some_ids(20, 1), some_ids(20, 2)))
    cache, parts = Cache(model.config, 2, 20, torch.device("cpu")), []
    with torch.no_grad():
        for first, n in zip(np.cumsum((0, *cuts[:-1])), cuts, strict=True):
            assert cache.length == first
            parts.append(model.encode(ids_BT[:, first : first + n], cache=cache))
        torch.testing.assert_close(torch.cat(parts, dim=1), model.encode(ids_BT), atol=1e-4, rtol=1e-4)
        with pytest.raises(ConfigError, match=r"longer than the cache.*21"):
            model.encode(ids_BT[:, :1], cache=cache)


@pytest.mark.parametrize("name", each_kind())
def test_gradients_reach_every_weight_and_padding_alone_is_finite(name):
    model = new_model(kind_config(name), 1)
    ids_BT = torch.cat((some_ids(12, 1), some_ids(12, 2)))
    F.cross_entropy(model(ids_BT)[:, :-1].flatten(0, 1), ids_BT[:, 1:].flatten()).backward()
    for weight_name, weight in model.named_parameters():
        assert weight.grad is not None, weight_name
        assert float(weight.grad.abs().max()) > 0, weight_name
    model.zero_grad()
    hidden = model.encode(ids_BT, torch.tensor([[1] * 12, [0] * 12]))
    hidden.sum().backward()
    assert bool(torch.isfinite(hidden).all())
    assert all(bool(torch.isfinite(weight.grad).all()) for weight in model.parameters() if weight.grad is not None)


@pytest.mark.parametrize("name", each_kind())
def test_a_decoder_does_not_see_ahead_and_an_encoder_does(name):
    model = shaken(new_model(kind_config(name, windows=()), 1), 7)
    ids_BT = some_ids(12, 4)
    changed_BT = ids_BT.clone()
    changed_BT[0, 8] = (ids_BT[0, 8] + 1 - 7) % 89 + 7
    with torch.no_grad():
        difference = (model(ids_BT) - model(changed_BT))[0, :8].abs().max()
    # a state space's convolution goes through Fourier transforms, which round what comes later into what came before
    nothing = 1e-4 if "ssm" in model.config.kinds else 0.0
    assert (difference > nothing) == (not model.config.causal)


@pytest.mark.parametrize("name", ["encoder modern", "decoder classic", "encoder windows", "decoder additive"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_computing_blocks_again_changes_neither_loss_nor_gradients(name, dropout):
    ids_BT = some_ids(12, 1)
    found = []
    for recompute in (False, True):
        model = new_model(kind_config(name, dropout=dropout), 1).train()
        model.recompute = recompute
        torch.manual_seed(3)
        loss = model(ids_BT).square().mean()
        loss.backward()
        found.append([loss.detach(), *(weight.grad for weight in model.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_additive_attention_in_parts_is_the_whole(monkeypatch):
    model = shaken(new_model(kind_config("decoder additive with alibi"), 1), 8)
    ids_BT = some_ids(13, 5)
    with torch.no_grad():
        whole = model(ids_BT)
        monkeypatch.setattr(similarity, "_NUMBERS_AT_ONCE", 1000)
        torch.testing.assert_close(model(ids_BT), whole)


def test_linear_attention_crosses_its_chunks():
    model = shaken(new_model(kind_config("decoder linear", max_len=80, n_layers=1), 1), 9)
    ids_BT = some_ids(70, 6)
    with torch.no_grad():
        got = model.encode(ids_BT)[0].numpy()
    np.testing.assert_allclose(got, slow(model).hidden(ids_BT[0].numpy()), atol=2e-4, rtol=2e-4)


def test_segments_are_told_apart():
    model = shaken(new_model(small_config("encoder", "classic"), 1), 1)
    ids_BT, segments_BT = some_ids(6, 1), torch.tensor([[0, 0, 0, 1, 1, 1]])
    with torch.no_grad():
        torch.testing.assert_close(model.encode(ids_BT), model.encode(ids_BT, segments_BT=torch.zeros_like(ids_BT)))
        assert not torch.allclose(model.encode(ids_BT), model.encode(ids_BT, segments_BT=segments_BT), atol=1e-3)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_more_positions_than_the_table_has_are_refused(positions):
    model = new_model(small_config("encoder", "classic", positions=positions), 1)
    with pytest.raises(ConfigError, match=r"more tokens than the model has positions.*25.*24"):
        model(some_ids(25, 1))


@pytest.mark.parametrize("positions", ["rope", "alibi", "t5"])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("global_tokens", [0, 3])
@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
def test_a_window_in_blocks_is_a_window_by_mask(architecture, global_tokens, padded, positions, monkeypatch):
    config = small_config(
        architecture, windows=(4, 7, 0), global_tokens=global_tokens, positions=positions, n_kv_heads=2, max_len=50
    )
    model = shaken(new_model(config, 1), 10)
    ids_BT, mask_BT = some_ids(43, 7).repeat(2, 1), torch.ones(2, 43, dtype=torch.long)
    mask_BT[1, 17:] = 0
    found = []
    for blocks in (False, True):
        monkeypatch.setattr(bands, "blocks_are_faster", lambda *_, faster=blocks: faster)
        model.zero_grad()
        hidden = model.encode(ids_BT, mask_BT if padded else None)
        real = hidden[mask_BT.bool()] if padded else hidden
        real.square().sum().backward()
        found.append(
            [real.detach(), *(weight.grad.clone() for weight in model.parameters() if weight.grad is not None)]
        )
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, atol=2e-3, rtol=2e-4)


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


LENGTHS = np.array([7, 3, 12, 3, 1, 7, 20])


def ids_of(lengths: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).integers(7, 90, int(lengths.sum()))


def alone(model, ids: np.ndarray, lengths: np.ndarray) -> list[torch.Tensor]:
    parts = np.split(ids, np.cumsum(lengths)[:-1])
    return [model.encode(torch.from_numpy(part)[None])[0] for part in parts]


@pytest.mark.parametrize("multiple", [1, 4])
@pytest.mark.parametrize("kind", each_kind("encoder"))
def test_every_sequence_is_encoded_as_if_it_were_alone(kind, multiple):
    model = new_model(kind_config(kind), 3).eval()
    ids = ids_of(LENGTHS)
    packed = pack(ids, LENGTHS, multiple=multiple)
    with torch.no_grad():
        expected, hidden = alone(model, ids, LENGTHS), model.encode_packed(packed)
    sequences = [row for run in packed.runs(hidden) for row in run]
    for number, got in zip(packed.order, sequences, strict=True):
        want = expected[number]
        torch.testing.assert_close(got[: len(want)], want, atol=2e-6, rtol=1e-5)


def test_gradients_are_those_of_the_sequences_one_by_one():
    ids, gradients = ids_of(LENGTHS), []
    for way in ("alone", "packed"):
        model = new_model(small_config("encoder"), 3)
        if way == "alone":
            loss = sum((hidden.cos() ** 2).sum() for hidden in alone(model, ids, LENGTHS))
        else:
            loss = (model.encode_packed(pack(ids, LENGTHS)).cos() ** 2).sum()
        loss.backward()
        gradients.append({name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-4, rtol=1e-4)


def test_blocks_computed_again_for_the_gradient_change_nothing():
    ids, gradients = ids_of(LENGTHS), []
    for recompute in (False, True):
        model = new_model(small_config("encoder", dropout=0.1), 3).train()
        model.recompute = recompute
        torch.manual_seed(5)
        model.encode_packed(pack(ids, LENGTHS)).square().sum().backward()
        gradients.append(model.embedding.grad)
    assert torch.equal(*gradients)


@pytest.mark.parametrize("multiple", [1, 5])
def test_nothing_is_lost_and_padding_is_marked(multiple):
    ids = ids_of(LENGTHS)
    packed = pack(ids, LENGTHS, multiple=multiple, pad_id=0)
    rows = [row for run in packed.runs(packed.ids) for row in run]
    parts = np.split(ids, np.cumsum(LENGTHS)[:-1])
    assert sorted(packed.order) == list(range(len(LENGTHS)))
    for number, row in zip(packed.order, rows, strict=True):
        assert len(row) % multiple == 0
        assert row[: len(parts[number])].tolist() == parts[number].tolist()
        assert not row[len(parts[number]) :].any()
    assert (packed.places() < 20).all()


def test_a_sequence_longer_than_the_table_of_positions_is_refused():
    model = new_model(small_config("encoder", "classic"), 3)
    with pytest.raises(ConfigError, match="more tokens than the model has positions"):
        model.encode_packed(pack(ids_of(np.array([30])), np.array([30])))
