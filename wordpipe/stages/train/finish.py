"""`wordpipe finish`: the last checkpoint of a stopped training → its artifact.

The stage that was stopped is called again, with the settings and the inputs that its checkpoint names: it opens and checks
them as always, finds its checkpoint, and ends there. So there is one way in which a model is made, and nothing of it is known
here.
"""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from wordpipe.artifacts import IN_MEMORY, StoppedRun, as_given, is_artifact, stopped_runs
from wordpipe.errors import ArtifactError
from wordpipe.stages.job import Made, PathLike, RunOptions
from wordpipe.stages.python_calls import public
from wordpipe.stages.registry import COMMANDS, load_named
from wordpipe.storage import as_path


@public()
def finish(trained: PathLike, *, cool_down: bool = False, run: RunOptions | None = None) -> Made:
    """Make the artifact of a stopped training, as far as it has come.

    The checkpoint stays: the command that began the training goes on from it, and replaces what was made here.

    Args:
        trained: what the training was to make, as its `output` named it.
        cool_down: train a tenth of the steps more, in which the learning rate falls to nothing; else the weights are those of
            the checkpoint.
        run: progress, verification.

    Raises:
        WordpipeError: there is no stopped training, it goes on, or its inputs have changed; the hint says what to do.

    Example:
        >>> try:
        ...     wordpipe.finish("run/model")
        ... except wordpipe.ArtifactError as error:
        ...     print(error.what)
        there is no stopped training here, because the training is finished
    """
    stopped = _stopped_run(as_path(trained))
    command, settings, arguments = _call_of(stopped)
    function = load_named(COMMANDS[command].function)
    run = replace(run or RunOptions(), fresh=False, finish="cool-down" if cool_down else "as it is")
    made: Made = function(*arguments, output=stopped.output, run=run, **settings)
    return made


def _stopped_run(path: Path) -> StoppedRun:
    """Return the stopped training that `finish` is to end.

    Raises:
        ArtifactError: there is none, or several.
    """
    runs = stopped_runs(path)
    if len(runs) > 1:
        shown = "; ".join(f"{one.state}: {one.stands_at}" for one in runs)
        hint = f"name one of the stopped trainings, for example: wordpipe finish {shlex.quote(str(runs[-1].state))}"
        raise ArtifactError("this artifact has several stopped trainings", where=path, got=shown, hint=hint)
    if runs:
        return runs[0]
    if is_artifact(path):
        from wordpipe.artifacts import manifest_at

        what = "there is no stopped training here, because the training is finished"
        hint = f"to train again from the start: wordpipe {manifest_at(path).command} … -o {path} --fresh"
        raise ArtifactError(what, where=path, hint=hint)
    what = "there is no stopped training here"
    hint = "a training saves the first checkpoint after a minute, or when the training is stopped with Ctrl-C"
    raise ArtifactError(what, where=path, hint=hint)


def _call_of(stopped: StoppedRun) -> tuple[str, dict[str, Any], list[Any]]:
    """Return command, settings and arguments of a stopped training, for `finish`.

    Raises:
        ArtifactError: its checkpoint does not name them: it is of an earlier version, or damaged, or its texts were in memory.
    """
    command, about, beside = stopped.command, stopped.about, stopped.folder.parent
    again = f"to continue the training, repeat the training command with -o {shlex.quote(str(stopped.output))}"
    known = COMMANDS.get(command)
    if known is None or not command.startswith("train "):
        raise ArtifactError("the checkpoint does not contain the training command", where=stopped.folder, hint=again)
    # what the checkpoint says of the call
    try:
        settings = {str(name): as_given(value, beside) for name, value in dict(about["settings"]).items()}
        arguments = [as_given(value, beside) for value in list(about["arguments"])]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ArtifactError(
            "the description of the training in the checkpoint is damaged", where=stopped.folder, hint=again
        ) from None
    if any(value is IN_MEMORY for value in (*arguments, *settings.values())):
        raise ArtifactError(
            "the training used texts from the memory of a program, and these texts are not saved", where=stopped.folder,
            hint="ingest the texts into a corpus, and train on the corpus",
        )  # fmt: skip
    # whether this version can make that call
    unknown = set(settings) - set(load_named(known.settings).model_fields)
    n_given = len(known.arguments)
    if unknown or len(arguments) != n_given:
        raise ArtifactError(
            "the checkpoint was written by another version of wordpipe", where=stopped.folder, hint=again
        )
    return command, settings, arguments
