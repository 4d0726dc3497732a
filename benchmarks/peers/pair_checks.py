"""What must hold of encoder-decoders on every device: loss, gradient and beams are those of a CPU, and training learns."""

import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from peers.model_checks import N_TOKENS, Line, run, text
from peers.model_ours import special_of
from wordpipe.model import EncoderDecoder, HeadedModel, Rules, beam_search, new_encoder_decoder
from wordpipe.training import (
    PairBlocks,
    Pairs,
    PairWriter,
    Rows,
    SecondTexts,
    Trainer,
    assemble_learner,
    loss_sum,
    make_execution,
    model_config,
    open_pairs,
)
from wordpipe.training.recipes import Denoising, Opened, SpanCorruption, TextInfilling, fresh_config
from wordpipe.training.settings import CausalSettings, DenoisingSettings, Seq2SeqSettings, TwoStackSettings

Loss = Callable[[Any, Any], torch.Tensor]

STYLES = ("t5", "vaswani")
SPECIAL = special_of()
PAD, BOS, EOS, MASK = (SPECIAL.need(role) for role in ("pad", "bos", "eos", "mask"))
SENTINELS = tuple(range(N_TOKENS - 1, N_TOKENS - 11, -1))
LENGTHS = (2, 12)  # ids of a side
LOSS_GAPS = {"float32": 1e-4, "bfloat16": 0.02}  # of a loss per label
COSINES = {"float32": 0.9999, "bfloat16": 0.98}  # of all gradients as one vector


def made_pairs(folder: Path, n: int, seed: int) -> PairBlocks:
    """Pairs of which the target is the source turned round."""
    random, ids = np.random.default_rng(seed), text(n * LENGTHS[1], N_TOKENS - len(SENTINELS), seed)
    writer = PairWriter(folder / f"{seed}", vocab_size=N_TOKENS, before=(), after=(EOS,), end=(EOS,), max_len=16)
    for number in range(n):
        source = ids[number * LENGTHS[1] :][: random.integers(*LENGTHS)]
        writer.add(source, source[::-1])
    writer.close()
    return open_pairs(folder / f"{seed}", N_TOKENS)


def new_pair_model(settings: TwoStackSettings) -> EncoderDecoder:
    """With fresh weights, in evaluation mode: no dropout."""
    config = fresh_config(settings, Opened(special=SPECIAL, n_tokens=N_TOKENS))
    return new_encoder_decoder(config, settings.seed).eval()


def copied(model: Any, device: torch.device) -> Any:
    """The same weights on a device, in evaluation mode."""
    shape = (model.language_config, model.head_config) if isinstance(model, HeadedModel) else (model.config,)
    other = type(model)(*shape)
    other.load_state_dict(model.state_dict())
    return other.to(device).eval()


def step_of(
    model: Any, objective: Any, rows: Any, device: torch.device, dtype: torch.dtype, loss_of: Loss = loss_sum
) -> tuple[float, torch.Tensor]:
    """Loss per label and all gradients, of the model on the device, as float32 on the CPU."""
    model = copied(model, device)
    targets = objective(device).targets(rows.to(device), torch.Generator(device).manual_seed(5), 0.0)
    with torch.autocast(device.type, dtype=dtype, enabled=dtype is not torch.float32):
        loss = loss_of(model, targets) / targets.n_targets
    loss.backward()
    gradients = [weight.grad.flatten().float().cpu() for weight in model.parameters() if weight.grad is not None]
    return float(loss.detach()), torch.cat(gradients)


def check_step(
    name: str, model: Any, objective: Any, rows: Any, device: torch.device, *, loss: Loss = loss_sum
) -> Line:
    """A step on the device, in float32 and in bfloat16, beside that of a CPU in float32."""
    want, wanted = step_of(model, objective, rows, torch.device("cpu"), torch.float32, loss)
    gaps, cosines = dict[str, float](), dict[str, float]()
    for dtype in (torch.float32, torch.bfloat16):
        short = str(dtype).removeprefix("torch.")
        value, found = step_of(model, objective, rows, device, dtype, loss)
        gaps[short], cosines[short] = abs(value - want), float(F.cosine_similarity(found, wanted, dim=0))
    ok = all(gaps[one] < LOSS_GAPS[one] and cosines[one] > COSINES[one] for one in gaps)
    return {"check": f"{name} steps", "ok": ok, "loss": want, "loss_gaps": gaps, "cosines_of_gradients": cosines}


def pair_training(settings: Seq2SeqSettings, model: EncoderDecoder, blocks: PairBlocks, folder: Path) -> Trainer[Any]:
    """A training of `wordpipe train seq2seq` on pairs."""
    execution = make_execution(settings)
    assert model.config.start_id is not None
    objective = Pairs(start_id=model.config.start_id, device=execution.device)
    return assemble_learner(
        settings, model, blocks, blocks, objective=objective, valid_objective=objective, execution=execution,
        state_dir=folder / "state", run_key="check",
    )  # fmt: skip


def check_beams(style: str, model: EncoderDecoder, blocks: PairBlocks, device: torch.device) -> Line:
    """Five beams on the device find what they find on a CPU, but where two targets are nearly equal."""
    rows, allowed_V = (
        blocks.rows(np.arange(min(64, len(blocks)))),
        torch.zeros(model.config.vocab_size, dtype=torch.bool),
    )
    allowed_V[7:N_TOKENS] = allowed_V[EOS] = True
    parts = [torch.from_numpy(part) for part in np.split(rows.sources[0], np.cumsum(rows.sources[1])[:-1])]
    ids_BS = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=PAD)
    mask_BS = torch.arange(ids_BS.shape[1]) < torch.tensor([len(part) for part in parts])[:, None]
    found = []
    for place in (torch.device("cpu"), device):
        there = copied(model, place)
        rules = Rules(allowed_V=allowed_V.to(place), stop_id=EOS, max_tokens=LENGTHS[1] + 4)
        with torch.inference_mode():
            source = there.read(ids_BS.to(place), mask_BS.to(place))
            found.append([best for (best,) in beam_search(there, source, rules, beams=5)])
    same = np.mean([list(one.ids) == list(other.ids) for one, other in zip(*found, strict=True)])
    gap = max(abs(one.score - other.score) for one, other in zip(*found, strict=True))
    ok = bool(same >= 0.95 and gap < 1e-3)
    return {
        "check": f"{style} beams",
        "ok": ok,
        "same": float(same),
        "largest_gap_of_scores": gap,
        "sources": len(parts),
    }


def check_pairs(base: dict[str, Any], steps: int, device: torch.device) -> Iterator[Line]:
    """Encoder-decoders: steps, learning and beams of seq2seq, and steps of denoising; and of a decoder on pairs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        blocks = made_pairs(folder, 2_000, 0)
        rows = blocks.rows(np.arange(64))
        for style in STYLES:
            settings = Seq2SeqSettings.make(
                base | {"style": style, "steps": steps, "dropout": 0.0, "label_smoothing": 0.0}
            )
            model = new_pair_model(settings)
            start_id = model.config.start_id
            assert start_id is not None
            yield check_step(
                f"{style} seq2seq", model, lambda at, start=start_id: Pairs(start_id=start, device=at), rows, device
            )
            trained = pair_training(settings, model, blocks, folder / style)
            loss = run(trained)[-1].loss
            yield {"check": f"{style} seq2seq learns", "ok": loss < math.log(N_TOKENS) - 0.4, "loss": loss}
            yield check_beams(style, trained.learner.model.cpu(), blocks, device)
        yield from check_denoising(base, device)
        yield check_second_texts(base, blocks, device)


def check_denoising(base: dict[str, Any], device: torch.device) -> Iterator[Line]:
    """One step of each way to damage a text."""
    ids_BT = torch.from_numpy(text(64 * 14, N_TOKENS - len(SENTINELS), 2).astype(np.int64).reshape(64, 14))
    corruptions = {
        "t5": SpanCorruption(sentinels=SENTINELS, eos_id=EOS),
        "bart": TextInfilling(mask_id=MASK, bos_id=BOS, eos_id=EOS, special_ids=SPECIAL.present(), n_tokens=N_TOKENS),
    }
    starts_BT = torch.zeros(ids_BT.shape, dtype=torch.bool)
    starts_BT[:, ::5] = True
    for style, corruption in corruptions.items():
        model = new_pair_model(DenoisingSettings.make(base | {"style": style, "seq_len": 32}))
        start_id = model.config.start_id
        assert start_id is not None

        def objective(at: torch.device, start: int = start_id, how: Any = corruption) -> Denoising:
            return Denoising(how, start_id=start, device=at)

        yield check_step(f"{style} denoising", model, objective, Rows(ids_BT, starts_BT), device)


def check_second_texts(base: dict[str, Any], blocks: PairBlocks, device: torch.device) -> Line:
    """One step of a decoder that reads the first texts and learns the second ones."""
    from wordpipe.model import new_model

    settings = CausalSettings.make(base | {"seq_len": 32})
    model = new_model(model_config(settings, "decoder", n_tokens=N_TOKENS, special=SPECIAL), 0).eval()
    return check_step("clm on pairs", model, lambda at: SecondTexts(device=at), blocks.rows(np.arange(64)), device)
