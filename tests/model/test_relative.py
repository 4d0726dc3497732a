"""Relative attention: memory against recomputation, two streams against a slow twin, and what is seen of what."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.support.models import XLNET, files_of, shaken, small_config
from tests.support.slow_model import SlowModel, distance_waves
from wordpipe.errors import ConfigError
from wordpipe.model import Attention, Cache, Generation, attend_exactly, attention_of, load_hf, make_view, new_model
from wordpipe.model.settings import GenerateSettings

RELATIVE = {"attention": "relative", "positions": "none"}
MEMORY = RELATIVE | {"mem_len": 4}


def some_ids(*shape, seed=1):
    return torch.randint(7, 96, shape, generator=torch.Generator().manual_seed(seed))


# ---- memory


def layers_of(n_layers=3, **changes):
    """Attentions in float64, whose weights all show."""
    config = small_config("decoder", **MEMORY | {"dim": 12, "n_heads": 3, "n_kv_heads": 3, "head_dim": 4} | changes)
    layers = torch.nn.ModuleList(Attention(config) for _ in range(n_layers)).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in layers.parameters():
            weight.copy_(0.4 * torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    return config, layers


def by_equation(layer, h_TD, memory_SD, same_length=0):
    """Dai et al., section 3.3, for one segment, loops over heads, queries and keys."""
    E, (T, D), S = layer.head_dim, h_TD.shape, len(memory_SD)
    W_q, W_k, W_v = layer.qkv.weight.split([layer.n_heads * E, *[layer.n_kv_heads * E] * 2])
    both = torch.cat((memory_SD, h_TD))
    gathered = []
    for h in range(layer.n_heads):
        g = h * layer.n_kv_heads // layer.n_heads
        q, k, v = (x @ W[at * E : at * E + E].T for x, W, at in ((h_TD, W_q, h), (both, W_k, g), (both, W_v, g)))
        u, r_v = layer.relative.content_bias[h], layer.relative.position_bias[h]
        W_R = layer.relative.position.weight[h * E : h * E + E]
        rows = []
        for i in range(T):
            seen = range(max(0, S + i - same_length) if same_length else 0, S + i + 1)
            scores = torch.stack([
                ((q[i] + u) @ k[j] + (q[i] + r_v) @ (W_R @ torch.tensor(distance_waves(S + i - j, D)))) / math.sqrt(E)
                for j in seen
            ])  # fmt: skip
            rows.append(scores.softmax(0) @ v[list(seen)])
        gathered.append(torch.stack(rows))
    return torch.cat(gathered, dim=1) @ layer.out.weight.T


def segment_by_segment(layers, x_TD, M):
    """A text read in segments; of each the states of all layers are kept, and no gradient goes to them."""
    kept, out = [x_TD[:0]] * len(layers), []
    for first in range(0, len(x_TD), M):
        h = x_TD[first : first + M]
        for number, layer in enumerate(layers):
            memory, kept[number] = kept[number], h.detach()
            h = h + by_equation(layer, h, memory)
        out.append(h)
    return torch.cat(out)


def at_once(config, layers, x_BTD, real=None):
    view = make_view(config, "relative", 0, None, lambda _: None, first=0, last=x_BTD.shape[1], real=real,
                     device=x_BTD.device)  # fmt: skip
    # in float64, as the rest: those of a model are float32
    n_waves, far = len(view.distances.waves), view.distances
    exact = torch.tensor(np.array([distance_waves(far.n_keys - 1 - at, config.dim) for at in range(n_waves)]))
    torch.testing.assert_close(far.waves.double(), exact, atol=1e-5, rtol=0)
    view = replace(view, distances=replace(far, waves=exact))
    for layer in layers:
        x_BTD = x_BTD + layer(x_BTD, view)
    return x_BTD


@pytest.mark.parametrize(("n", "changes"), [(12, {}), (10, {"n_kv_heads": 1}), (3, {}), (9, {"mem_len": 2})])
def test_memory_is_reading_segment_by_segment_and_so_is_its_gradient(n, changes):
    config, layers = layers_of(**changes)
    x = torch.randn(n, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    results = []
    for read in (
        lambda x: segment_by_segment(layers, x, config.mem_len),
        lambda x: at_once(config, layers, x[None])[0],
    ):
        mine = x.clone().requires_grad_()
        layers.zero_grad()
        read(mine).sin().sum().backward()
        results.append([mine.grad, *(weight.grad.clone() for weight in layers.parameters())])
        with torch.no_grad():
            results[-1].append(read(x))
    for want, got in zip(*results, strict=True):
        torch.testing.assert_close(got, want, atol=1e-9, rtol=1e-9)


def test_memory_is_one_pass_over_the_longer_context():
    """Exactly: what is kept is what would be computed anew, with the mask of segments that reach one segment back."""
    config, layers = layers_of()
    x = torch.randn(2, 19, 12, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    M, T = config.mem_len, 19
    exact = np.array([[distance_waves(t - s, config.dim) for s in range(T)] for t in range(T)])
    place = torch.arange(T)
    seen = (place <= place[:, None]) & (place >= (place[:, None] // M - 1) * M)
    whole = x
    with torch.no_grad():
        for layer in layers:
            q, k, v = (
                part.unflatten(2, (3, 4)).transpose(1, 2) for part in layer.qkv(whole).split([12, 12, 12], dim=2)
            )
            of_distance = (torch.tensor(exact) @ layer.relative.position.weight.T).unflatten(2, (3, 4))
            scores = torch.einsum("bhte,bhse->bhts", q + layer.relative.content_bias[:, None], k)
            scores += torch.einsum("bhte,tshe->bhts", q + layer.relative.position_bias[:, None], of_distance)
            weights = (scores / 2).masked_fill(~seen, -math.inf).softmax(3)
            whole = whole + layer.out((weights @ v).transpose(1, 2).flatten(2))
        torch.testing.assert_close(at_once(config, layers, x), whole, atol=1e-12, rtol=1e-12)
    with torch.enable_grad():  # as in training, where keys are made twice
        torch.testing.assert_close(at_once(config, layers, x), whole, atol=1e-12, rtol=1e-12)


def test_a_position_hears_from_one_segment_more_in_each_layer():
    config, layers = layers_of(2)
    x = torch.randn(1, 20, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        before = at_once(config, layers, x)
        for place in range(20):
            other = x.clone()
            other[0, place] += 1.0
            moved = (at_once(config, layers, other) != before).any(dim=2)[0]
            reach = (place // 4 + 2) * 4 + 4  # two layers: to the end of the second segment after its own
            assert moved.tolist() == [place <= at < reach for at in range(20)]


def test_a_text_grows_without_end_and_what_is_kept_does_not():
    model = shaken(new_model(small_config("decoder", **MEMORY, max_len=8), 1))
    ids_BT = some_ids(2, 60)
    cache = Cache(model.config, 2, 60, torch.device("cpu"))
    with torch.no_grad():
        parts = [model.encode(ids_BT[:, at : at + 1], cache=cache) for at in range(60)]
        torch.testing.assert_close(torch.cat(parts, dim=1), model.encode(ids_BT), atol=1e-4, rtol=1e-4)
    assert max(layer.keys.shape[2] for layer in cache.layers) <= 2 * 8
    settings = GenerateSettings(max_tokens=30, temperature=0.0)
    generation = Generation(model, [5, 20, 30], settings, allowed_V=torch.ones(96, dtype=torch.bool), stop_id=None)
    written, ids = [new[0].token_id for new in generation.steps()], [5, 20, 30]
    with torch.no_grad():
        for _ in range(30):
            ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    assert written == ids[3:]
    assert generation.n_slides == 0
    long = Generation(model, list(range(7, 27)), settings, allowed_V=torch.ones(96, dtype=torch.bool), stop_id=None)
    assert long.n_cut == 0


def test_memory_comes_back_from_its_folder_and_learns_a_batch_by_heart():
    model = new_model(small_config("decoder", **MEMORY), 1)
    ids_BT = some_ids(4, 18)
    optimiser, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), []
    for _ in range(60):
        loss = F.cross_entropy(model(ids_BT)[:, :-1].flatten(0, 1), ids_BT[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(math.log(96), abs=0.5)
    assert losses[-1] < 0.2
    loaded = load_hf(files_of(model).__getitem__)
    assert loaded.config == model.config
    assert files_of(loaded.model) == files_of(model)


@pytest.mark.parametrize(
    ("architecture", "changes"),
    [("decoder", MEMORY), ("encoder", RELATIVE), ("encoder", XLNET | {"segments": 2}),
     ("encoder", {"mixers": ("relative", "dot", "relative"), "windows": (2, 0, 0)})],
)  # fmt: skip
def test_its_weights_are_shown_and_make_its_hidden_states(architecture, changes):
    model = shaken(new_model(small_config(architecture, "classic", **changes), 3))
    ids = some_ids(13, seed=4)
    segments = np.array([0] * 6 + [1] * 7) if model.config.two_streams else None
    shown = attend_exactly(model, ids.numpy(), segments_T=segments)
    weights = shown.maps[architecture].weights
    assert weights.shape == (len(attention_of(model)[architecture]), 4, 13, 13)
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)
    with torch.no_grad():
        want = model.encode(ids[None], segments_BT=None if segments is None else torch.from_numpy(segments)[None])
    np.testing.assert_allclose(shown.hidden, want[0].numpy(), atol=2e-5, rtol=1e-4)
    if model.config.mem_len:
        assert (weights[:, :, 8, :4] == 0).all()
        assert (weights[:, :, 8, 4:9] > 0).all()


# ---- two streams


def slow_streams(model, ids, order, segments):
    """Yang et al., section 2.3 and 2.5: content h and query g, head by head and position by position, in float64."""
    c, w = model.config, {name: weight.detach().double().numpy() for name, weight in model.named_parameters()}
    slow, n, E, width = SlowModel(c, w), len(ids), c.head_dim, c.n_heads * c.head_dim

    def after(asking, content, seen, layer):
        name = f"blocks.{layer}"
        q = asking @ w[f"{name}.attention.qkv.weight"].T
        kv = content @ w[f"{name}.attention.qkv.weight"].T
        gathered = np.zeros((n, width))
        for head in range(c.n_heads):
            at = head * E
            parts = (q[:, at : at + E], kv[:, width + at : width + at + E], kv[:, 2 * width + at : 2 * width + at + E])
            for t in range(n):
                apart = segments != segments[t]
                gathered[t, at : at + E] = slow.mix_relative(layer, head, t, seen[t], *parts, apart)
        x = slow.norm(asking + gathered @ w[f"{name}.attention.out.weight"].T, f"{name}.attention_norm")
        return slow.norm(x + slow.feedforward(x, layer), f"{name}.feedforward_norm")

    told = [[s for s in range(n) if order[s] < 0 or order[s] < order[t]] for t in range(n)]
    h, g = w["embedding"][ids], np.repeat(w["query_embedding"], n, axis=0)
    for layer in range(c.n_layers):
        h, g = (
            after(h, h, [[*told[t], t] if t not in told[t] else told[t] for t in range(n)], layer),
            after(g, h, told, layer),
        )
    return g


def xlnet_of(**changes):
    return shaken(new_model(small_config("encoder", "classic", **XLNET | {"n_layers": 2} | changes), 5))


def order_of(seed, n=11, k=5):
    generator = torch.Generator().manual_seed(seed)
    at = torch.randperm(n - 1, generator=generator)[:k] + 1  # the first place is told at once
    return at, torch.full((n,), -1.0).scatter(0, at, torch.rand(k, generator=generator))


@pytest.mark.parametrize("seed", range(3))
def test_two_streams_equal_the_slow_twin(seed):
    model, ids = xlnet_of(), some_ids(11, seed=seed)
    at, order = order_of(seed)
    segments = (torch.arange(11) >= 4 + seed).long()
    with torch.no_grad():
        got = model.encode_to_guess(ids[None], at[None], order[None], segments[None])[0]
    want = slow_streams(model, ids.numpy(), order.numpy(), segments.numpy())
    np.testing.assert_allclose(got.numpy(), want[at.numpy()], atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("changes", [{}, {"norm_place": "pre", "n_layers": 3}])
def test_a_guess_sees_what_was_told_before_it_and_nothing_else(seed, changes):
    """Perturbation of every token: its own guess does not move, nor do guesses before it; those after it do."""
    model, ids = xlnet_of(**changes), some_ids(1, 11, seed=seed)
    at, order = order_of(seed)
    with torch.no_grad():
        before = model.encode_to_guess(ids, at[None], order[None])[0]
        for place in range(11):
            other = ids.clone()
            other[0, place] = (ids[0, place] - 7 + 1) % 89 + 7
            moved = (model.encode_to_guess(other, at[None], order[None])[0] != before).any(dim=1)
            assert moved.tolist() == [bool(order[place] < order[guessed]) for guessed in at], place


def test_without_an_order_no_guess_sees_another_and_padding_of_masks_does_not_matter():
    model, ids = xlnet_of(), some_ids(1, 11)
    at = torch.tensor([[2, 5, 6]])
    other = ids.clone()
    other[0, at[0]] = model.config.mask_id
    with torch.no_grad():
        assert torch.equal(model.encode_to_guess(ids, at), model.encode_to_guess(other, at))
        together = model.encode_to_guess(ids, at)
        ahead = torch.full((1, 11), -1.0).scatter(1, at, torch.tensor([[0.0, 0.0, 0.0]]))
        assert torch.equal(together, model.encode_to_guess(ids, at, ahead))


def test_the_content_stream_sees_itself_and_both_sides():
    model, ids = xlnet_of(), some_ids(1, 11)
    with torch.no_grad():
        before = model.encode(ids)
        for place in (0, 5, 10):
            other = ids.clone()
            other[0, place] = (ids[0, place] - 7 + 1) % 89 + 7
            assert (model.encode(other) != before).any(dim=2).all()


# ---- which go together


@pytest.mark.parametrize(
    ("architecture", "changes", "where"),
    [
        ("encoder", {"attention": "relative"}, "positions"),  # rotary ones would do nothing
        ("encoder", {"positions": "none"}, "positions"),
        ("encoder", RELATIVE | {"mem_len": 4}, "mem_len"),
        ("decoder", {"mem_len": 4}, "mem_len"),
        ("decoder", MEMORY | {"windows": (2, 2, 2)}, "mem_len"),
        ("decoder", RELATIVE | {"two_streams": True}, "attention"),
        ("encoder", {"two_streams": True}, "attention"),
        ("encoder", XLNET | {"windows": (2, 2, 2)}, "attention"),
    ],
)
def test_parts_that_do_not_go_together_are_refused_by_name(architecture, changes, where):
    with pytest.raises(ConfigError) as caught:
        small_config(architecture, **changes)
    assert caught.value.where == where
