"""`wordpipe plot`: the logs of trainings → curves."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from wordpipe.artifacts.writer import whole_file
from wordpipe.errors import ConfigError, InputError
from wordpipe.report.curves import INSTALL_MATPLOTLIB, PictureForm, draw_curves, has_matplotlib
from wordpipe.report.run_log import AXES, RunLog
from wordpipe.runtime import Progress
from wordpipe.stages.inputs import as_list
from wordpipe.stages.making import PathLike, RunOptions, storage_errors
from wordpipe.stages.run_logs import read_run_logs

__all__ = ["plot"]

_FORMS: dict[str, PictureForm] = {".png": "png", ".svg": "svg"}
_BEGINNINGS = (b"\x89PNG", b"<?xml", b"<svg")


def plot(
    trained: PathLike | Iterable[PathLike],
    output: PathLike | None = None,
    *,
    axis: str = "tokens",
    log: bool = False,
    start: float = 0,
    run: RunOptions | None = None,
) -> dict[str, Any]:
    """Loss and learning rate of trainings, finished or not, as one picture; the same logs give the same bytes.

    Args:
        trained: model or words artifacts, or what they will be: of a training that still runs, or was stopped, what its last
            checkpoint knows is drawn.
        output: a .png or .svg file, which is written whole or not at all; None: nothing is drawn.
        axis: what the curves run along: tokens, steps or seconds.
        log: a logarithmic axis.
        start: draw nothing before this many tokens, steps or seconds, so that what comes after fills the picture.
        run: progress, verification.

    Returns:
        path, bytes (None without an output), and runs: a list of name, kind, finished, steps, tokens, seconds, loss,
        valid_loss, unigram_entropy, and log: the rows of its log (step, tokens, split, loss, lr, seconds).

    Raises:
        ConfigError: a setting is wrong, matplotlib is not installed, or the runs cannot stand in one picture.
        InputError: a run has reported no loss.
        ArtifactError: nothing there that was ever trained, or it is damaged.
    """
    run = run or RunOptions()
    form = None if output is None else _form_of(Path(output))
    if axis not in AXES:
        raise ConfigError("no such axis", where="axis", got=axis, expected=", ".join(AXES))
    if start < 0:
        raise ConfigError("out of bounds", where="start", got=start, expected="0 or more")
    with storage_errors():
        logs = read_run_logs(as_list(trained), verify=run.verify)
        _check(logs)
        size = None
        if output is not None and form is not None:
            run.report(Progress("drawing"))
            picture = draw_curves(logs, axis=axis, log_axis=log, start=start, form=form)
            with whole_file(Path(output)) as file:
                file.write(picture)
            size = len(picture)
    return {
        "path": None if output is None else str(output),
        "bytes": size,
        "runs": [{**one.summary(), "log": [dict(row) for row in one.rows]} for one in logs],
    }


def _form_of(output: Path) -> PictureForm:
    form = _FORMS.get(output.suffix.lower())
    if form is None or output.is_dir():
        raise ConfigError("the picture's name says what it is", where="output", got=output, expected=".png or .svg")
    if not has_matplotlib():
        raise ConfigError("matplotlib, which draws the picture, is not installed", hint=INSTALL_MATPLOTLIB)
    if output.is_file():
        with output.open("rb") as file:
            begins = file.read(5)
        if begins and not begins.startswith(_BEGINNINGS):
            raise ConfigError(
                "a file is there that is no picture", where="output", got=output, hint="name another file"
            )
    return form


def _check(logs: Sequence[RunLog]) -> None:
    for one in logs:
        if not any(row["loss"] is not None for row in one.rows):
            raise InputError("this training reported no loss", where=one.name, hint=_no_loss_hint(one))
    if len({one.kind for one in logs}) > 1:
        raise ConfigError(
            "words and models learn to predict different things, so their losses do not compare",
            got=", ".join(f"{one.name}: {one.kind}" for one in logs),
            hint="plot them one by one",
        )


def _no_loss_hint(one: RunLog) -> str:
    return "word2vec by gensim gives no honest loss" if one.kind == "words" else "wait for its first report"
