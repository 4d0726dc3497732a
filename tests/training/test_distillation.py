"""A student learns from its teacher: what it begins with, what the loss is, and that it comes near."""

import pytest
import torch
from torch.nn import functional as F

from tests.support.models import shaken, small_config
from tests.training.test_text_pairs import masked, stream
from wordpipe.errors import ConfigError
from wordpipe.model import new_model
from wordpipe.training import loss_sum, masked_blocks
from wordpipe.training.recipes import Distilled, start_from_teacher, student_config


def teacher_of(style, **changes):
    return shaken(new_model(small_config("encoder", style, n_layers=4, **changes), 9)).eval()


@pytest.mark.parametrize("style", ["classic", "modern"])
def test_a_student_begins_with_every_second_layer(style):
    teacher = teacher_of(style, **({"windows": (0, 3, 3, 0)} if style == "modern" else {}))
    config = student_config(teacher.config, None)
    assert (config.n_layers, config.segments) == (2, 0)
    assert config.windows == (teacher.config.windows[0], teacher.config.windows[2])
    student = start_from_teacher(teacher, config, 1).eval()
    ours, theirs = dict(student.named_parameters()), dict(teacher.named_parameters())
    assert torch.equal(ours["blocks.1.feedforward.up.weight"], theirs["blocks.2.feedforward.up.weight"])
    whole = start_from_teacher(teacher, student_config(teacher.config, 4), 1).eval()  # all layers: the same function
    ids_BT = torch.randint(7, 96, (3, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(whole(ids_BT), teacher(ids_BT), atol=1e-5, rtol=1e-5)


def test_a_student_has_the_mixers_of_the_layers_that_it_begins_with():
    mixers = ("fourier", "ssm", "dot", "linformer")
    config = student_config(teacher_of("modern", mixers=mixers, state_dim=4, linformer_dim=3).config, None)
    assert (config.mixers, config.state_dim, config.linformer_dim) == (("fourier", "dot"), 0, 0)
    assert student_config(teacher_of("modern", attention="additive").config, None).attention == "additive"


def test_a_student_is_no_larger():
    with pytest.raises(ConfigError, match="cannot have more layers"):
        student_config(teacher_of("classic").config, 5)


def given(teacher, seed=3):
    blocks = masked_blocks(stream(2000, seed), seq_len=20, cls_id=2, sep_id=3)
    rows = blocks.rows(torch.arange(8).numpy())
    return Distilled(masked(0.3), teacher).targets(rows, torch.Generator().manual_seed(seed), 0.0)


def test_the_loss_is_that_of_the_paper():
    teacher = teacher_of("classic")
    student = start_from_teacher(teacher, student_config(teacher.config, None), 1)
    targets = given(teacher)
    found = loss_sum(student, targets)
    with torch.no_grad():
        states = []
        for model in (student, teacher):
            hidden = model.encode(targets.inputs)
            at = targets.positions[..., None].expand(-1, -1, hidden.shape[-1])
            states.append(hidden.gather(1, at).flatten(0, 1))
        ours, theirs = (model.logits_at(state) for model, state in zip((student, teacher), states, strict=True))
        p = torch.softmax(theirs / 2, 1)
        kl = (p * (torch.log(p) - torch.log_softmax(ours / 2, 1))).sum(1) * 4
        tokens = F.cross_entropy(ours, targets.labels.flatten(), reduction="none")
        cosine = 1 - F.cosine_similarity(*states, dim=1)
        want = ((5 * kl + 2 * tokens + cosine) * targets.weights.flatten()).sum()
    torch.testing.assert_close(found.detach(), want, atol=1e-3, rtol=1e-4)
    found.backward()
    assert all(weight.grad is None for weight in teacher.parameters())
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in student.parameters())
    halves = loss_sum(student, targets.rows(0, 3)) + loss_sum(student, targets.rows(3, 8))
    torch.testing.assert_close(halves, found, atol=1e-3, rtol=1e-4)


def test_a_student_comes_near_its_teacher():
    teacher = teacher_of("modern")
    student = start_from_teacher(teacher, student_config(teacher.config, None), 1)
    optimiser = torch.optim.AdamW(student.parameters(), 3e-3)
    targets, losses = given(teacher), []
    for _ in range(60):
        optimiser.zero_grad()
        loss = loss_sum(student, targets) / targets.n_targets
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]


def test_a_student_of_relative_layers_alone_has_no_other_positions():
    teacher = small_config("encoder", mixers=("relative", "dot", "relative"))
    student = student_config(teacher, 1)
    assert (teacher.positions, student.positions, student.attention) == ("rope", "none", "relative")
    assert student_config(teacher, 2).positions == "rope"
