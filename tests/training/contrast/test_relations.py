"""The relational loss against numpy, loop by loop."""

import numpy as np
import torch
from torch.nn import functional as F

from wordpipe.training.contrastive import relational_loss


def unit(*shape: int, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64), dim=-1)


def by_loops(student: np.ndarray, teacher: np.ndarray, temperature: float) -> float:
    total = 0.0
    for i in range(len(student)):
        others = [j for j in range(len(student)) if j != i]
        mine, theirs = (np.exp([x[i] @ x[j] / temperature for j in others]) for x in (student, teacher))
        p, q = theirs / theirs.sum(), mine / mine.sum()
        total += float((p * np.log(p / q)).sum())
    return total / len(student)


def test_it_is_the_divergence_of_the_two_softmaxes():
    student, teacher = unit(7, 4), unit(7, 9, seed=1)
    expected = by_loops(student.numpy(), teacher.numpy(), 0.3)
    assert abs(float(relational_loss(student, teacher, 0.3)) - expected) < 1e-5


def test_a_turned_copy_of_the_teacher_has_nothing_to_learn():
    teacher = unit(7, 5)
    turned = teacher @ torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64))[0]
    assert abs(float(relational_loss(turned, teacher, 0.05))) < 1e-5


def test_gradients_are_those_of_finite_differences_and_only_the_students():
    student, teacher = unit(4, 3).requires_grad_(), unit(4, 3, seed=2).requires_grad_()
    loss = relational_loss(student, teacher.detach(), 0.5)
    loss.backward()
    assert teacher.grad is None
    for place in [(0, 0), (2, 1)]:
        moved = student.detach().clone()
        moved[place] += 1e-3
        back = student.detach().clone()
        back[place] -= 1e-3
        slope = (
            by_loops(moved.numpy(), teacher.detach().numpy(), 0.5)
            - by_loops(back.numpy(), teacher.detach().numpy(), 0.5)
        ) / 2e-3
        assert abs(slope - float(student.grad[place])) < 1e-4


def test_two_texts_say_nothing_of_who_is_nearer():
    assert float(relational_loss(unit(2, 3), unit(2, 3, seed=1), 0.1)) == 0.0
