"""A slow twin of the whole model: float64 numpy, one sequence, loops over heads and positions, written from the equations."""

import math

import numpy as np

from wordpipe.model.variants.approximate import random_directions


class SlowModel:
    """Args: config of the model, and its weights by name as float64 arrays."""

    def __init__(self, config, weights):
        self.config, self.w = config, weights

    def logits(self, ids, real=None):
        hidden = self.hidden(ids, real)
        return self.features(hidden) @ self.w.get("output", self.w["embedding"]).T + self.w.get("output_bias", 0.0)

    def features(self, hidden):
        if not self.config.head:
            return hidden
        return self.norm(self.activate(self.linear(hidden, "head.dense"), head=True), "head.norm")

    def hidden(self, ids, real=None):
        c = self.config
        real = np.ones(len(ids), dtype=bool) if real is None else real
        x = self.w["embedding"][ids]
        if c.positions in ("learned", "learned-t5"):
            x = x + self.w["position_embedding"][: len(ids)]
        if c.positions == "sinusoidal":
            x = x + np.array([sinusoid(t, c.dim) for t in range(len(ids))])
        if c.segments:
            x = x + self.w["segment_embedding"][0]
        if c.embedding_norm:
            x = self.norm(x, "embedding_norm")
        for layer in range(c.n_layers):
            x = self.block(x, layer, real)
        return self.norm(x, "final_norm") if c.norm_place == "pre" else x

    def block(self, x, layer, real):
        name, c = f"blocks.{layer}", self.config
        if c.norm_place == "post":
            x = self.norm(x + self.mixed(x, layer, real), f"{name}.attention_norm")
            return self.norm(x + self.feedforward(x, layer), f"{name}.feedforward_norm")
        normed = self.norm(x, f"{name}.attention_norm") if f"{name}.attention_norm.weight" in self.w else x
        x = x + self.mixed(normed, layer, real)
        return x + self.feedforward(self.norm(x, f"{name}.feedforward_norm"), layer)

    def activate(self, z, head=False):
        kind = "gelu" if head and self.config.gated else self.config.feedforward
        act = {"relu": lambda z: np.maximum(z, 0), "gelu": gelu, "geglu": gelu, "gelu_tanh": gelu_tanh, "swiglu": silu}
        return act[kind](z)

    def feedforward(self, x, layer):
        c, inner = self.config, self.linear(x, f"blocks.{layer}.feedforward.up")
        activated = self.activate(inner[:, : c.ffn_dim])
        gated = activated * inner[:, c.ffn_dim :] if c.gated else activated
        return self.linear(gated, f"blocks.{layer}.feedforward.down")

    def mixed(self, x, layer, real):
        other = {"fourier": self.fourier, "ssm": self.state_space}.get(self.config.layer_mixers[layer], self.attention)
        return other(x, layer, real)

    def fourier(self, x, layer, real):
        """Lee-Thorp et al.: the transform of the real positions, by its matrices."""
        n, out = int(real.sum()), np.zeros_like(x)
        unitary = math.sqrt(n * x.shape[1]) if self.config.norm_place == "pre" else 1.0
        out[:n] = (waves(n) @ x[:n] @ waves(x.shape[1]).T).real / unitary
        return out

    def state_space(self, x, layer, real):
        """Gu et al.: the recurrence, position by position, from both ends where both sides are seen."""
        w = {name: self.w[f"blocks.{layer}.attention.mixer.{name}"] for name in STATE_SPACE}
        A, readout = -np.exp(w["log_decay"]) + 1j * w["frequency"], w["readout"][..., 0] + 1j * w["readout"][..., 1]
        A_bar = np.exp(np.exp(w["log_step"])[:, None] * A)
        y = x * w["skip"]
        for C, order in zip(readout, (1, -1), strict=False):
            state = np.zeros(A.shape, complex)
            for t in np.flatnonzero(real)[::order]:
                state = A_bar * state + (A_bar - 1) / A * x[t][:, None]
                y[t] += 2 * (C * state).real.sum(1)
        return self.linear(gelu(y), f"blocks.{layer}.attention.out")

    def attention(self, x, layer, real):
        c, E = self.config, self.config.head_dim
        projected = self.linear(x, f"blocks.{layer}.attention.qkv")
        gathered = np.zeros((len(x), c.n_heads * E))
        for h in range(c.n_heads):
            group = h // (c.n_heads // c.n_kv_heads)
            k_at, v_at = (c.n_heads + group) * E, (c.n_heads + c.n_kv_heads + group) * E
            q, k, v = projected[:, h * E : h * E + E], projected[:, k_at : k_at + E], projected[:, v_at : v_at + E]
            for t in range(len(x)):
                seen = [s for s in range(len(x)) if real[s] and self.sees(layer, t, s)]
                if seen:
                    gathered[t, h * E : h * E + E] = self.mix(layer, h, t, seen, q, k, v)
        return self.linear(gathered, f"blocks.{layer}.attention.out")

    def sees(self, layer, t, s):
        c, window = self.config, self.config.windows[layer]
        if c.causal and s > t:
            return False
        if c.mem_len and c.layer_mixers[layer] == "relative" and s < (t // c.mem_len - 1) * c.mem_len:
            return False
        return not window or abs(t - s) <= window or t < c.global_tokens or s < c.global_tokens

    def mix(self, layer, h, t, seen, q, k, v):
        c, kind = self.config, self.config.layer_mixers[layer]
        if kind == "linear":
            return self.mix_linear(layer, t, seen, q, k, v)
        if kind == "performer":
            return self.mix_performer(layer, t, seen, q, k, v)
        if kind == "linformer":
            return self.mix_linformer(layer, t, seen, q, k, v)
        if kind == "relative":
            return self.mix_relative(layer, h, t, seen, q, k, v)
        q_t, keys = self.turn(q[t], t, layer), {s: self.turn(k[s], s, layer) for s in seen}
        if kind == "dot":
            scores = np.array([q_t @ keys[s] / math.sqrt(c.head_dim) for s in seen])
        else:
            w = self.w[f"blocks.{layer}.attention.score"][h]
            scores = np.array([w @ np.tanh(q_t + keys[s]) for s in seen])
        scores += [self.distance_bias(h, t, s) for s in seen]
        weights = np.exp(scores - scores.max())
        return sum(w * v[s] for w, s in zip(weights / weights.sum(), seen, strict=True))

    def mix_linear(self, layer, t, seen, q, k, v):
        phi = lambda z: np.where(z > 0, z, np.exp(z) - 1) + 1  # noqa: E731
        turned = self.turn(phi(q[t]), t, layer)
        above = sum((turned @ self.turn(phi(k[s]), s, layer)) * v[s] for s in seen)
        return above / (sum(phi(q[t]) @ phi(k[s]) for s in seen) + 1e-6)

    def mix_performer(self, layer, t, seen, q, k, v):
        """Choromanski et al.: positive features of what the rotation made."""
        directions = random_directions(self.config.head_dim, layer).double().numpy()

        def exponents(x, at):
            scaled = self.turn(x, at, layer) / len(x) ** 0.25
            return directions @ scaled - scaled @ scaled / 2

        of_query = exponents(q[t], t)
        of_query = np.exp(of_query - of_query.max()) + 1e-6
        weights = [of_query @ (np.exp(exponents(k[s], s)) + 1e-6) for s in seen]
        return sum(w * v[s] for w, s in zip(weights, seen, strict=True)) / (sum(weights) + 1e-12)

    def mix_linformer(self, layer, t, seen, q, k, v):
        """Wang et al.: keys and values as mixtures over the positions."""
        columns = self.w[f"blocks.{layer}.attention.shorten"]
        keys = sum(np.outer(columns[:, s], self.turn(k[s], s, layer)) for s in seen)
        values = sum(np.outer(columns[:, s], v[s]) for s in seen)
        scores = keys @ self.turn(q[t], t, layer) / math.sqrt(self.config.head_dim)
        weights = np.exp(scores - scores.max())
        return weights / weights.sum() @ values

    def mix_relative(self, layer, h, t, seen, q, k, v, apart=None):
        """Dai et al., section 3.3; Yang et al., section 2.5: `apart` says which of those seen are of another segment."""
        w = {name: self.w[f"blocks.{layer}.attention.relative.{name}"] for name in ("content_bias", "position_bias")}
        E, W_R = self.config.head_dim, self.w[f"blocks.{layer}.attention.relative.position.weight"]
        scores = []
        for s in seen:
            of_distance = W_R[h * E : h * E + E] @ distance_waves(t - s, self.config.dim)
            score = (q[t] + w["content_bias"][h]) @ k[s] + (q[t] + w["position_bias"][h]) @ of_distance
            if apart is not None:
                keys = self.w[f"blocks.{layer}.attention.relative.segment_keys"][int(apart[s])]
                score += (q[t] + self.w[f"blocks.{layer}.attention.relative.segment_bias"][h]) @ keys[h]
            scores.append(score / math.sqrt(E))
        weights = np.exp(np.array(scores) - max(scores))
        return sum(w * v[s] for w, s in zip(weights / weights.sum(), seen, strict=True))

    def turn(self, vector, position, layer):
        """RoFormer's rotation, pair by pair: (i, i + E/2) turn by position / theta^(2i/E)."""
        if self.config.positions != "rope":
            return vector
        theta, half, out = self.config.theta_of(layer), len(vector) // 2, np.empty_like(vector)
        for i in range(half):
            angle = position / theta ** (2 * i / len(vector))
            out[i] = vector[i] * np.cos(angle) - vector[half + i] * np.sin(angle)
            out[half + i] = vector[i] * np.sin(angle) + vector[half + i] * np.cos(angle)
        return out

    def distance_bias(self, h, t, s):
        c = self.config
        if c.positions == "alibi":
            return -slope(h, c.n_heads) * abs(t - s)
        if c.positions in ("t5", "learned-t5"):
            return self.w["position_bias"][bucket(s - t, c.causal), h]
        return 0.0

    def linear(self, x, name):
        return x @ self.w[f"{name}.weight"].T + self.w.get(f"{name}.bias", 0.0)

    def norm(self, x, name):
        if self.config.norm == "layer":
            x = x - x.mean(-1, keepdims=True)
        normed = x / np.sqrt((x**2).mean(-1, keepdims=True) + self.config.norm_eps)
        return normed * self.w[f"{name}.weight"] + self.w.get(f"{name}.bias", 0.0)


STATE_SPACE = ("log_step", "log_decay", "frequency", "readout", "skip")


def waves(n):
    """The matrix of the discrete Fourier transform of n numbers."""
    return np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)


@np.vectorize
def gelu(x):
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


def gelu_tanh(x):
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def silu(x):
    return x / (1 + np.exp(-x))


def sinusoid(t, dim):
    angles = [t / 10_000 ** (2 * i / dim) for i in range(dim // 2)]
    return 0.02 * math.sqrt(2) * np.array([math.sin(a) for a in angles] + [math.cos(a) for a in angles])


def distance_waves(distance, dim):
    angles = [distance / 10_000 ** (2 * i / dim) for i in range(dim // 2)]
    return np.array([math.sin(a) for a in angles] + [math.cos(a) for a in angles])


def slope(h, n_heads):
    """Press et al.: a geometric sequence that ends at 2^-8; what is missing to a power of two comes from the next one."""
    powers = [2.0 ** (-8 * (i + 1) / n_heads) for i in range(n_heads)]
    if n_heads & (n_heads - 1):
        below = 1 << (n_heads.bit_length() - 1)
        between = [slope(i, 2 * below) for i in range(0, 2 * below, 2)]
        powers = [slope(i, below) for i in range(below)] + between[: n_heads - below]
    return powers[h]


def bucket(distance, causal):
    """Raffel et al.: near distances one by one, far ones in ranges that grow, to 128; the right side apart."""
    n, add = (32, 0) if causal else (16, 16 if distance > 0 else 0)
    far = max(-distance, 0) if causal else abs(distance)
    if far < n // 2:
        return add + far
    return add + min(n - 1, n // 2 + int(math.log(far / (n // 2)) / math.log(128 / (n // 2)) * (n - n // 2)))
