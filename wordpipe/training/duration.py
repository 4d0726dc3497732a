"""How long a training takes is said once: in steps, or in passes over the text. Imports nothing."""

__all__ = ["STEPS_OR_EPOCHS", "refuse_two_lengths"]

STEPS_OR_EPOCHS: dict[str, tuple[str, ...]] = {"steps": ("epochs",), "epochs": ("steps",)}
"""For `Settings.displaces`: a flag of the one takes the place of the other in a file."""


def refuse_two_lengths(steps: int | None, epochs: float | None) -> None:
    """For the validators of settings that have both.

    Raises:
        ValueError: both are given.
    """
    if steps is not None and epochs is not None:
        raise ValueError(f"steps = {steps} and epochs = {epochs} both say how long to train: give one")
