"""Mixers of positions: what the twin of the whole model does not show; which go together; hybrids from training to folder."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.support.models import files_of, kind_config, shaken, small_config
from wordpipe.errors import ConfigError
from wordpipe.model import (
    STYLES,
    Cache,
    Generation,
    ModelConfig,
    attend_exactly,
    attention_of,
    heads_off,
    load_hf,
    new_model,
    read_arrays,
)
from wordpipe.model.settings import GenerateSettings
from wordpipe.model.variants.approximate import n_features, positive_features, random_directions
from wordpipe.model.variants.fourier import Fourier
from wordpipe.model.variants.state_space import StateSpace, circular_convolution, empty_states, initial_weight
from wordpipe.runtime import torch_threads

ALL_MIXED = "encoder all mixed"
HYBRID = {"mixers": ("ssm", "performer", "dot"), "state_dim": 8}


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def some_ids(*shape, seed=1):
    return torch.randint(7, 96, shape, generator=torch.Generator().manual_seed(seed))


# ---- Performer


@pytest.mark.parametrize("head_dim", [4, 32])
def test_directions_are_orthogonal_in_blocks_and_as_long_as_normal_vectors(head_dim):
    blocks = random_directions(head_dim, 3, 200 * head_dim).double().view(200, head_dim, head_dim)
    gram = blocks @ blocks.mT
    assert (gram - torch.diag_embed(gram.diagonal(dim1=1, dim2=2))).abs().max() < 1e-4
    squares = gram.diagonal(dim1=1, dim2=2)
    assert float(squares.mean()) == pytest.approx(head_dim, rel=0.05)
    assert float(squares.var()) == pytest.approx(2 * head_dim, rel=0.3)


def test_directions_are_a_function_of_layer_and_width():
    assert torch.equal(random_directions(8, 1), random_directions(8, 1))
    assert random_directions(8, 1).shape == (n_features(8), 8) == (24, 8)
    assert not torch.equal(random_directions(8, 1), random_directions(8, 2))
    model = new_model(kind_config("encoder performer"), 1)
    assert not torch.equal(model.blocks[0].attention.features, model.blocks[1].attention.features)
    assert not any("features" in name for name in model.state_dict())


@pytest.mark.parametrize("seed", range(3))
def test_more_features_come_nearer_to_the_softmax(seed):
    """The mean over directions is the exponential of the product: its error falls with one over the root of their number."""
    q, k = normal(20, 8, seed=seed) / 2, normal(30, 8, seed=seed + 10) / 2
    want = (q @ k.T / math.sqrt(8)).softmax(-1)
    errors = []
    for n in (8, 512, 8192):
        directions = random_directions(8, seed, n)
        weights = (
            positive_features(q, directions, of_queries=True) @ positive_features(k, directions, of_queries=False).T
        )
        errors.append(float((weights / weights.sum(-1, keepdim=True) - want).abs().sum(-1).mean()))
    assert errors[0] > 3 * errors[1] > 6 * errors[2]
    assert errors[2] < 0.06


def test_keys_that_are_far_from_all_directions_are_no_division_by_nothing():
    model = shaken(new_model(kind_config("decoder performer"), 1))
    with torch.no_grad():
        for block in model.blocks:
            block.attention.qkv.weight.mul_(100)
    ids_BT = some_ids(2, 20)
    hidden = model.encode(ids_BT)
    hidden.square().sum().backward()
    assert torch.isfinite(hidden).all()
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters() if weight.grad is not None)


# ---- Linformer


def test_a_linformer_takes_no_longer_sequences_than_its_matrix_is_wide():
    config = small_config("encoder", attention="linformer", linformer_dim=5)
    assert config.has_fixed_length
    assert not small_config("encoder").has_fixed_length
    with pytest.raises(ConfigError, match=r"more tokens than a Linformer layer has positions.*25.*24"):
        new_model(config, 1)(some_ids(1, 25))


# ---- Fourier


@pytest.mark.parametrize("seed", range(3))
def test_the_unitary_transform_keeps_lengths_and_twice_the_transform_comes_back(seed):
    """Re(F(Re(F x))) is the mean of x and x reversed along both axes: FNet's own argument that pairs of layers do little."""
    x = normal(2, 9 + seed, 6, seed=seed)
    once = Fourier(unitary=True)(x, None)
    assert float(once.norm()) < float(x.norm())
    twice = Fourier(unitary=True)(once, None)
    turned = torch.roll(x.flip(1, 2), (1, 1), (1, 2))
    torch.testing.assert_close(twice, (x + turned) / 2, atol=1e-5, rtol=1e-5)
    plain = Fourier(unitary=False)(x, None)
    torch.testing.assert_close(plain, once * math.sqrt(x.shape[1] * 6), atol=1e-4, rtol=1e-4)


def test_every_sequence_of_a_batch_is_transformed_by_its_own_length():
    x, lengths = normal(4, 8, 6), [8, 3, 0, 3]
    real = torch.arange(8) < torch.tensor(lengths)[:, None]
    found = Fourier(unitary=True)(x, real)
    for row, length in enumerate(lengths):
        if length:
            want = Fourier(unitary=True)(x[row : row + 1, :length], None)
            torch.testing.assert_close(found[row, :length], want[0], atol=1e-6, rtol=1e-5)
        assert not found[row, length:].any()


# ---- state spaces


def state_space(dim=5, state_dim=8, *, causal=True, seed=0):
    layer = StateSpace(dim, state_dim, causal=causal)
    with torch.no_grad():
        for number, (name, weight) in enumerate(layer.named_parameters()):
            generator = torch.Generator().manual_seed(100 * seed + number)
            weight.copy_(initial_weight(name, weight.shape, generator))
    return layer


@pytest.mark.parametrize("seed", range(2))
def test_the_convolution_is_the_recurrence_and_so_are_its_gradients(seed):
    layer, x = state_space(seed=seed), normal(2, 300, 5, seed=seed)
    found = []
    for cuts in ((300,), (1,) * 300, (150, 1, 149)):
        layer.zero_grad()
        states, parts, first = empty_states(2, 5, 8, torch.device("cpu")), [], 0
        for n in cuts:
            parts.append(layer(x[:, first : first + n], None, states if len(cuts) > 1 else None))
            first += n
        y = torch.cat(parts, dim=1)
        y.square().mean().backward()
        found.append([y.detach(), *(weight.grad.clone() for weight in layer.parameters())])
    for others in found[1:]:
        for want, got in zip(found[0], others, strict=True):
            torch.testing.assert_close(got, want, atol=2e-4, rtol=2e-3)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("T", [1, 2, 3, 17, 64, 509])
def test_the_convolution_is_the_sum_written_out(T, causal):
    layer, x_BTD = state_space(causal=causal, seed=T), normal(2, T, 5, seed=T)
    step_D, C_KDN = layer.log_step.detach().double().exp(), torch.view_as_complex(layer.readout.detach().double())
    A_DN = torch.complex(-layer.log_decay.detach().double().exp(), layer.frequency.detach().double())
    turn_DN, lag_TT = step_D[:, None] * A_DN, torch.arange(T)[:, None] - torch.arange(T)
    y_BTD = layer.skip.detach() * x_BTD.double()
    for C_DN, direction in zip(C_KDN, (1, -1), strict=False):
        lag = (lag_TT * direction).clamp_min(0)
        weights_DNTT = (C_DN * (turn_DN.exp() - 1) / A_DN)[..., None, None] * torch.exp(turn_DN[..., None, None] * lag)
        kernel_DTT = (2 * weights_DNTT.real.sum(1)).masked_fill(lag_TT * direction < 0, 0)
        y_BTD = y_BTD + torch.einsum("dts,bsd->btd", kernel_DTT, x_BTD.double())
    torch.testing.assert_close(layer(x_BTD, None).detach(), F.gelu(y_BTD).float(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("n", [4, 5, 8])
def test_the_gradients_of_a_circular_convolution_are_those_of_differences(n):
    u, kernel = normal(2, 4, 3).double().requires_grad_(), normal(3, n, seed=1).double().requires_grad_()
    assert torch.autograd.gradcheck(circular_convolution, (u, kernel))
    y = circular_convolution(u, kernel)
    want = sum(kernel[:, (torch.arange(4) - s) % n].T * u[:, s, None] for s in range(4))
    torch.testing.assert_close(y, want)
    with pytest.raises(RuntimeError, match="once_differentiable"):  # no second gradient rather than a wrong one
        torch.autograd.grad(y.square().sum(), u, create_graph=True)[0].sum().backward()


def test_it_remembers_for_ten_to_a_thousand_positions_at_first():
    layer = state_space(dim=200).requires_grad_(requires_grad=False)
    steps = layer.log_step.exp()
    assert 0.001 <= float(steps.min()) < 0.0015
    assert 0.07 < float(steps.max()) <= 0.1
    torch.testing.assert_close(layer.log_decay.exp(), torch.full((200, 4), 0.5))
    torch.testing.assert_close(layer.frequency[7], math.pi * torch.arange(4.0))
    assert float(layer.readout.square().sum(-1).mean()) == pytest.approx(1.0, rel=0.15)


def test_an_encoders_kernel_runs_both_ways():
    """A pulse in the middle is seen on both sides; turned around, with both kernels exchanged, all is turned around."""
    layer = state_space(causal=False)
    x = torch.zeros(1, 21, 5)
    x[0, 10] = 1.0
    y = layer(x, None)
    assert (y[0, [4, 16]].abs().amax(1) > 1e-3).all()
    other = state_space(causal=False)
    with torch.no_grad():
        other.readout.copy_(layer.readout.flip(0))
    torch.testing.assert_close(other(x, None).flip(1), y, atol=1e-5, rtol=1e-5)


# ---- hybrids


@pytest.mark.landing
@pytest.mark.parametrize(("architecture", "changes"), [("decoder", HYBRID), ("encoder", None)])
def test_a_hybrid_learns_a_batch_by_heart_and_comes_back_from_its_folder(architecture, changes):
    config = kind_config(ALL_MIXED) if changes is None else small_config(architecture, **changes)
    model = new_model(config, 1)
    ids_BT = some_ids(4, 12)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    shown_BT = ids_BT if config.causal else ids_BT.clone()
    if not config.causal:
        shown_BT[:, ::3] = config.mask_id
    losses = []
    with torch_threads(1):  # products of this size are no work for two
        for _ in range(50):
            logits = model(shown_BT)
            loss = (F.cross_entropy(logits[:, :-1].flatten(0, 1), ids_BT[:, 1:].flatten()) if config.causal
                    else F.cross_entropy(logits[:, ::3].flatten(0, 1), ids_BT[:, ::3].flatten()))  # fmt: skip
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(math.log(96), abs=0.6)
    assert losses[-1] < 0.3
    files = files_of(model.eval())
    loaded = load_hf(files.__getitem__)
    assert loaded.config == config
    assert files_of(loaded.model) == files
    with torch.no_grad():
        assert torch.equal(loaded.model(shown_BT), model(shown_BT))
    assert read_arrays(files.__getitem__) is None  # NumPy leaves it to torch


def test_a_hybrid_writes_with_its_cache_what_it_writes_without():
    model = shaken(new_model(small_config("decoder", **HYBRID), 3))
    settings = GenerateSettings(max_tokens=12, temperature=0.0)
    generation = Generation(model, [5, 20, 30], settings, allowed_V=torch.ones(96, dtype=torch.bool), stop_id=None)
    written = [new[0].token_id for new in generation.steps()]
    ids = [5, 20, 30]
    with torch.no_grad():
        for _ in range(12):
            ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    assert written == ids[3:]
    assert len(set(written)) > 3


def test_the_memory_of_each_layer_is_that_of_its_mixer():
    cache = Cache(small_config("decoder", **HYBRID), 2, 20, torch.device("cpu"))
    states, sums, keys = cache.layers
    assert states.waves.shape == (2, 32, 4)
    assert sums.weighed.shape == (2, 4, n_features(8), 8)
    assert keys.keys.shape == (2, 4, 0, 8)


def test_heads_of_a_hybrid():
    model = shaken(new_model(kind_config(ALL_MIXED), 1))
    assert len(attention_of(model)["encoder"]) == 3
    ids_BT = some_ids(1, 9)
    with torch.no_grad():
        before = model(ids_BT)
        kept = np.ones((3, 4))
        kept[1] = 0
        with heads_off(model, {"encoder": kept}):
            assert not torch.allclose(model(ids_BT), before, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "said"),
    [("encoder fourier", "a Fourier transform"), ("decoder performer", "a Performer"), ("encoder linformer", "a Linformer"),
     ("decoder state spaces", "a state-space layer")],
)  # fmt: skip
def test_what_has_no_weights_says_so(name, said):
    with pytest.raises(ConfigError, match=f"{said} has no attention weights"):
        attend_exactly(new_model(kind_config(name), 1), np.arange(7, 20))


# ---- which go together


def test_one_model_has_one_description():
    assert small_config("encoder", mixers=("linear",) * 3) == small_config("encoder", attention="linear")
    assert small_config("encoder", mixers=("dot",) * 3) == small_config("encoder")
    assert small_config("encoder").layer_mixers == ("dot",) * 3
    assert small_config("decoder", **HYBRID).kinds == {"ssm", "performer", "dot"}
    assert not small_config("encoder").is_variant
    assert small_config("decoder", **HYBRID).is_variant


@pytest.mark.parametrize(
    ("architecture", "changes", "where"),
    [
        ("encoder", {"mixers": ("dot", "linear")}, "mixers"),
        ("encoder", {"mixers": ("dot", "linear", "dot"), "attention": "linear"}, "mixers"),
        ("decoder", {"mixers": ("dot", "fourier", "dot")}, "mixers"),
        ("decoder", {"attention": "linformer", "linformer_dim": 4}, "attention"),
        ("encoder", {"attention": "linformer"}, "linformer_dim"),
        ("encoder", {"linformer_dim": 4}, "linformer_dim"),
        ("encoder", {"mixers": ("ssm",) * 3}, "state_dim"),
        ("encoder", {"mixers": ("ssm",) * 3, "state_dim": 3}, "state_dim"),
        ("encoder", {"state_dim": 4}, "state_dim"),
        ("encoder", {"mixers": ("fourier", "dot", "dot"), "windows": (2, 0, 0)}, "mixers"),
        ("encoder", {"mixers": ("fourier",) * 3, "positions": "t5"}, "mixers"),
        ("encoder", {"mixers": ("fourier", "performer", "dot"), "positions": "alibi"}, "mixers"),
        ("encoder", {"mixers": ("fourier", "dot", "dot"), "shared_layers": True}, "mixers"),
        ("encoder", {"mixers": ("fourier", "additive", "dot"), "n_kv_heads": 2}, "n_kv_heads"),
    ],
)
def test_parts_that_do_not_go_together_are_refused_by_name(architecture, changes, where):
    with pytest.raises(ConfigError) as caught:
        small_config(architecture, **changes)
    assert caught.value.where == where


@pytest.mark.parametrize("changes", [HYBRID, {"mixers": ("ssm",) * 4, "state_dim": 32, "n_layers": 4}])
@pytest.mark.parametrize("style", ["modern", "classic"])
def test_a_fresh_model_guesses(style, changes):
    sizes = {"vocab_size": 1000, "dim": 64, "n_layers": 3, "n_heads": 2, "n_kv_heads": 2, "ffn_dim": 96, "max_len": 64}
    config = ModelConfig(architecture="decoder", **sizes | STYLES["decoder", style] | changes)
    model, ids_BT = new_model(config, 0), torch.randint(0, 1000, (2, 2, 64), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        loss = F.cross_entropy(model(ids_BT[0]).flatten(0, 1), ids_BT[1].flatten())
    assert abs(float(loss) - math.log(1000)) < 0.25
