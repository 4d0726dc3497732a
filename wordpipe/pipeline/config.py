"""The config file of a pipeline: read with a bound, its stages checked against each other, all that is wrong said at once.

    workdir = "run"                      # where the stages' folders go, seen from the config file

    [stage.corpus]
    command = "ingest"
    inputs = ["docs/*.md"]               # sources, or names of stages

    [stage.tokens]
    command = "tokenize"
    inputs = ["corpus"]
    keep = true                          # once made, other inputs do not make it stale
    vocab_size = 8000                    # any setting of the command

What a stage takes and makes is in the registry of commands, so that clusters of a corpus are refused before anything runs.
"""

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, get_args, get_origin

from wordpipe.artifacts import Kind, is_artifact, manifest_at
from wordpipe.corpus import expand
from wordpipe.errors import ArtifactError, ConfigError, InputError, WordpipeError
from wordpipe.settings import shown_value
from wordpipe.stages import COMMANDS, Argument, Maker, fetched
from wordpipe.stages import CONFIG as CONFIG
from wordpipe.storage import as_path, refuse_controls, url_of

_LONGEST = 16 << 20  # bytes of a config
_NAME = re.compile(r"(?!\.)[\w.-]+( [\w.-]+)*")  # no slash, no dot in front: a folder in workdir that is not hidden
_STREAMS = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")  # what a shell hands over by <(…) and by a pipe
_FLAG = re.compile(r"--(no-)?([a-z][a-z0-9-]*)(?: ([\w.]+|'[^']*'))?")
_CALL = re.compile(r"wordpipe ((?:train )?[a-z0-9]+) (--[a-z][a-z0-9-]*(?: [\w.]+)?)")  # a command with one flag
_COMMAND = re.compile(r"(wordpipe [^,;:)]*)")
_NUMBER = re.compile(r"\d[\d.]*(e-?\d+)?")


@dataclass(frozen=True)
class Stage:
    """One stage of a pipeline."""

    name: str
    command: Maker
    inputs: tuple[str, ...]  # as written: stage names or sources
    settings: dict[str, Any]
    output: Path  # seen from the config's folder; in a pipeline a place that is valid everywhere
    keep: bool = False  # once made, it is not made again because its inputs changed

    @property
    def needs(self) -> tuple[str, ...]:
        """The inputs of the stage and the artifacts that its settings name: stages, sources or files."""
        return (*self.inputs, *self.artifacts.values())

    def by_argument(self, paths: list[str]) -> list[str | list[str]]:
        """Return the paths of the inputs as the arguments of the command; the last argument may be several paths."""
        fixed = len(self.command.arguments) - 1
        return [*paths[:fixed], paths[fixed:] if self.command.arguments[-1].many else paths[fixed]]

    def kind(self, home: Path) -> Kind:
        """Return the kind of artifact that the stage makes of what lies in its config's folder."""
        return self.command.made_of(str(home / self.inputs[0]))

    @property
    def artifacts(self) -> dict[str, str]:
        """The settings of the stage that name an artifact, or a stage whose artifact is meant."""
        fields = self.command.load_settings().artifact_fields()
        return {name: str(self.settings[name]) for name in fields if name in self.settings}

    @property
    def given(self) -> Iterator[tuple[Argument, list[str]]]:
        """Each argument of the command with its inputs; the last argument may take several."""
        fixed = len(self.command.arguments) - 1
        for place, argument in enumerate(self.command.arguments):
            yield argument, list(self.inputs[place:]) if place == fixed else [self.inputs[place]]


def is_stream(path: Path) -> bool:
    """True if a config comes through a pipe of the shell, and so lies in no folder."""
    return str(path).startswith(_STREAMS)


def home_of(config: Path) -> Path:
    """Return the folder from which a config sees its inputs and outputs."""
    return Path.cwd() if is_stream(config) else config.absolute().parent


def read_toml(path: Path) -> dict[str, Any]:
    """Read a config's TOML file, or a config that comes through a pipe of the shell.

    Raises:
        ConfigError: not there, no regular file, larger than 16 MB, or not TOML.
    """
    path = as_path(path)
    try:
        # a named pipe without a writer would be waited for without end, but for this flag
        flags = os.O_RDONLY if is_stream(path) else os.O_RDONLY | os.O_NONBLOCK
        with open(os.open(path, flags), "rb") as file:  # noqa: PTH123  (it is open already)
            # a file of the user's, read within a bound
            if not (is_stream(path) or stat.S_ISREG(os.fstat(file.fileno()).st_mode)):
                raise ConfigError("not a TOML file: it is a folder, a pipe or a device", where=path)
            data = file.read(_LONGEST + 1)
    # no such file, or a folder
    except FileNotFoundError:
        hint = "write a new config file with: wordpipe init"
        hint = hint if path == Path(CONFIG) else f"check the path, or {hint}"
        raise ConfigError("the config file does not exist", where=path, hint=hint) from None
    except IsADirectoryError:
        raise ConfigError("not a TOML file: it is a folder", where=path) from None
    # parse the text; each error of TOML with its line
    if len(data) > _LONGEST:
        raise ConfigError("not a TOML file", where=path, got=f"more than {_LONGEST >> 20} MiB")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except RecursionError:
        raise ConfigError("not a TOML file: its values are nested too deeply", where=path) from None
    except tomllib.TOMLDecodeError as error:
        # show the line that is wrong
        at = re.search(r"at line (\d+)", str(error))
        line = data.decode("utf-8-sig").splitlines()[int(at[1]) - 1 : int(at[1])] if at else []
        got = line[0].strip()[:200] if line else None
        advice = 'write a text value in quotes, for example: name = "text"' if "Invalid value" in str(error) else None
        raise ConfigError(f"not a TOML file: {str(error)[:200]}", where=path, got=got, hint=advice) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"not a TOML file: {str(error)[:200]}", where=path) from None
    except ValueError:
        raise ConfigError("not a TOML file: it contains a number with thousands of digits", where=path) from None


def read_stages(config: Path) -> list[Stage]:
    """Read the stages of a config file, and return them in an order in which they can be made.

    Raises:
        ConfigError: not TOML, an unknown key, command, stage or setting, an input of a wrong kind, or stages that need each
            other in a circle; all that is wrong together.
    """
    table = read_toml(config)
    problems: list[WordpipeError] = []
    if unknown := sorted(set(table) - {"workdir", "stage"}):
        expected = "workdir and [stage.NAME] tables"
        problems.append(ConfigError(f"unknown key {shown_value(unknown[0])}", where=config, expected=expected))
    # the folder of the artifacts
    workdir = table.get("workdir", "run")
    if not isinstance(workdir, str):
        problems.append(ConfigError("workdir should be a string", where=config, got=shown_value(workdir)))
        workdir = "run"
    refuse_controls(workdir, f"{config} workdir")
    # the tables of the stages, all errors together
    bodies = table.get("stage", {})
    if not isinstance(bodies, dict) or not bodies:
        hint = "add a [stage.NAME] table with a command, or write a new file: wordpipe init"
        problems.append(ConfigError("the file does not contain any stages", where=config, hint=hint))
        raise_together(problems, config)
    makes = {name: _makes(body, home_of(config)) for name, body in bodies.items()}
    stages: list[Stage] = []
    for name, body in bodies.items():
        try:
            stages.append(_stage(config, name, body, workdir, problems))
        except ConfigError as error:
            problems.append(error)
    # what the stages name, and an order in which they can be made
    for stage in stages:
        problems += _wrong_names(stage, makes, config)
    ordered: list[Stage] = []
    try:
        ordered = _in_order(stages, config)
    except ConfigError as error:
        problems.append(error)
    except RecursionError:
        problems.append(ConfigError("too many stages (hundreds) depend on each other in one chain", where=config))
    raise_together(problems, config)
    return ordered


def raise_together(problems: Iterable[WordpipeError], where: Path) -> None:
    """Raise all problems of a config as one error, of the kind of the worst; none, no error.

    Raises:
        WordpipeError: the problem, or a list of them, a line each.
    """
    problems = list(problems)
    found = list(dict.fromkeys((problem.message, problem.hint) for problem in problems))
    if not found:
        return
    if len(found) == 1:
        raise problems[0]
    kinds = {type(problem) for problem in problems}
    worst = next((kind for kind in (ConfigError, InputError, ArtifactError) if kind in kinds), type(problems[0]))
    lines = [
        f"\n  {message.removeprefix(f'{where} ')}" + (f"\n    hint: {hint}" if hint else "") for message, hint in found
    ]
    raise worst(f"{len(found)} errors were found, and nothing was started{''.join(lines)}", where=where)


def place_of(stage: Stage, config: Path) -> str:
    """Return the place of a stage for errors: the config file and the table."""
    return f"{config} [stage.{stage.name}]"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown stage: the stages of similar spelling, else all."""
    known = sorted(known)
    near = get_close_matches(name, known, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else f"the stages are: {', '.join(known) or 'none'}"


def in_keys(error: WordpipeError, stages: Iterable[Stage], config: Path) -> WordpipeError:
    """Return an error as a reader of the config needs it: with keys of a stage in place of flags.

    Args:
        error: raised in a stage; it is changed.
        stages: that stage, and those that it needs, nearest first: a hint may mean a setting of theirs.
        config: where they stand.
    """
    stages = list(stages)
    for part in ("what", "expected", "hint"):
        if isinstance(text := getattr(error, part), str):
            setattr(error, part, text_in_keys(text, stages))
    if error.hint and "[stage." in error.hint:
        error.hint += f" of {config.name}" if error.hint.endswith("]") else f" ({config.name})"
    error.args = (error.message,)
    return error


def text_in_keys(text: str, stages: Sequence[Stage]) -> str:
    """Return a message with keys of the config in place of flags; a flag that no stage here has stays.

    Args:
        text: such as "name the right one with --text-field", "leave it out with wordpipe ingest --no-deduplicate".
        stages: the stage that says it, and those that it needs, nearest first.
    """
    if "--" not in text:
        return text

    def of_command(match: re.Match[str]) -> str:
        of = [stage for stage in stages if stage.command.name == match[1]]
        return _FLAG.sub(lambda flag: _key(flag, of), match[2]) if of else match[0]

    parts = _COMMAND.split(_CALL.sub(of_command, text))  # a whole command line stays as it is
    parts[::2] = [_FLAG.sub(lambda flag: _key(flag, stages), part) for part in parts[::2]]
    return "".join(parts)


def _key(flag: re.Match[str], stages: Sequence[Stage]) -> str:
    """Return the key of the config that stands for a flag, and the table of its stage."""
    name = flag[2].replace("-", "_")
    for stage in stages:
        field = stage.command.load_settings().model_fields.get(name)
        if field is not None:
            said = f"{name} = false" if flag[1] else _assigned(name, flag[3], field.annotation)
            behind = "" if ("=" in said and not flag[1]) or not flag[3] or flag[3].isupper() else f" {flag[3]}"
            return f"{said} in [stage.{stage.name}]{behind}"
    return flag[0]


def _assigned(name: str, word: str | None, annotation: Any) -> str:
    """Return a setting as a line of TOML, if the word after its flag is a value; else its name."""
    if word is None:
        return name
    if word.startswith("'") and tuple in (get_origin(annotation), *map(get_origin, get_args(annotation))):
        listed = ", ".join(f'"{one}"' for one in word.strip("'").split(","))
        return f"{name} = [{listed}]"
    choices = {value for inner in (annotation, *get_args(annotation)) for value in get_args(inner)}
    if word in choices:
        return f'{name} = "{word}"'
    return f"{name} = {word}" if _NUMBER.fullmatch(word) else name


def _makes(body: Any, home: Path) -> str | None:
    """Return the kind of artifact that a stage makes, by its body in the config; None if its command is unknown."""
    name, inputs = (body.get("command"), body.get("inputs")) if isinstance(body, dict) else (None, None)
    if not isinstance(name, str) or name not in COMMANDS:
        return None
    first = inputs[0] if isinstance(inputs, list) and inputs and isinstance(inputs[0], str) else ""
    return COMMANDS[name].made_of(str(home / first))


def _stage(config: Path, name: str, body: Any, workdir: str, problems: list[WordpipeError]) -> Stage:
    """Return one stage of a config; wrong settings are added to the problems, so that its inputs are still checked.

    Raises:
        ConfigError: something else is wrong with it.
    """
    where = f"{config} [stage.{name if len(name) <= 60 else f'{name[:60]}…'}]"
    # the name, which is a folder in workdir, and the command
    if not _NAME.fullmatch(name) or len(name) > 200:
        expected = "letters, digits, - _ and . (the name is also the name of a folder in workdir)"
        raise ConfigError("this name is not allowed for a stage", where=where, expected=expected)
    if not isinstance(body, dict):
        raise ConfigError("a stage must be a table: [stage.NAME]", where=where)
    body = dict(body)
    command_name = body.pop("command", None)
    if not isinstance(command_name, str) or command_name not in COMMANDS:
        near = get_close_matches(str(command_name)[:60], COMMANDS, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else None
        got, expected = shown_value(command_name), ", ".join(COMMANDS)
        raise ConfigError("unknown command", where=where, got=got, expected=expected, hint=hint)
    # the inputs, and `keep`
    inputs = body.pop("inputs", None)
    if not isinstance(inputs, list) or not inputs or not all(isinstance(item, str) and item for item in inputs):
        raise ConfigError("inputs should be a list of stages or sources", where=where, got=shown_value(inputs))
    for item in inputs:
        refuse_controls(item, f"{where} inputs")
    keep = body.pop("keep", False)
    if not isinstance(keep, bool):
        raise ConfigError("keep should be true or false", where=where, got=shown_value(keep))
    # the settings of the command
    command = COMMANDS[command_name]
    try:
        for key in sorted(body.keys() - command.load_settings().model_fields.keys()):
            if near := get_close_matches(key[:60], ("keep", "inputs", "command"), n=1, cutoff=0.7):
                raise ConfigError(f"unknown key {shown_value(key)}", where=where, hint=f"did you mean {near[0]}?")
        command.load_settings().make(body, where=where)
    except ConfigError as error:
        problems.append(error)
    # as many inputs as the command takes
    if "-" in inputs:
        hint = "save the text in a file first: the pipeline must be able to read its inputs again"
        raise ConfigError("a pipeline cannot read standard input", where=where, hint=hint)
    if len(inputs) < len(command.arguments) or (
        len(inputs) > len(command.arguments) and not command.arguments[-1].many
    ):
        expected = " ".join(argument.name for argument in command.arguments)
        raise ConfigError(
            f"wrong number of inputs for {command.name}", where=where, got=shown_value(inputs), expected=expected
        )
    return Stage(name, command, tuple(inputs), body, as_path(workdir) / name, keep)


def _wrong_names(stage: Stage, makes: Mapping[str, str | None], config: Path) -> Iterator[ConfigError]:
    """Yield errors for inputs and settings of a config's stage that name no stage, or one of the wrong kind."""
    where, home = place_of(stage, config), home_of(config)
    takes = stage.command.name
    for argument, names in stage.given:
        # each input is a source, an artifact, or a stage that makes the right kind
        wanted = " or ".join(argument.kinds)
        for name in names:
            if name not in makes:
                if not (argument.sources or argument.entry) and not is_artifact(home / name):
                    yield ConfigError("unknown stage", where=where, got=shown_value(name), hint=nearest(name, makes))
            # a stage where sources of text are read
            elif not argument.kinds:
                reads = "a file of another program" if argument.entry else "sources of text"
                yield ConfigError(f"{takes} reads {reads}, but its input {name} is a stage", where=where)
            elif makes[name] is not None and makes[name] not in argument.kinds:
                # a stage that makes another kind
                fitting = [other for other, kind in makes.items() if kind in argument.kinds]
                hint = f"stages that make {wanted}: {', '.join(fitting) or 'none yet'}"
                got = f"{name}, which makes {makes[name]}"
                yield ConfigError(
                    f"this input of {takes} must be of the kind {wanted}", where=where, got=got, hint=hint
                )
            elif len(names) > 1:
                yield ConfigError(
                    f"the inputs of {takes} must be exactly one {wanted}, or any number of text sources",
                    where=where,
                    got=", ".join(names),
                )
    # each setting that names a stage
    fields = stage.command.load_settings().artifact_fields()
    for setting, name in stage.artifacts.items():
        kind = makes.get(name)
        if kind is not None and kind not in fields[setting]:
            fitting = [other for other, one in makes.items() if one in fields[setting]]
            fits = f"stages of the right kind: {', '.join(fitting)}" if fitting else None
            got, expected = f"{name}, which makes {kind}", f"{' or '.join(fields[setting])}"
            yield ConfigError(
                f"{setting} names a stage of the wrong kind", where=where, got=got, expected=expected, hint=fits
            )


def _in_order(stages: list[Stage], config: Path) -> list[Stage]:
    """Return the stages of a config, each after the stages that it needs; otherwise as written."""
    by_name = {stage.name: stage for stage in stages}
    done: dict[str, Stage] = {}

    def visit(stage: Stage, path: tuple[str, ...]) -> None:
        if stage.name in path:
            _refuse_circle(path[path.index(stage.name) :], stage.name, config)
        for name in stage.needs:
            if name in by_name and name not in done:
                visit(by_name[name], (*path, stage.name))
        done[stage.name] = stage

    for stage in stages:
        if stage.name not in done:
            visit(stage, ())
    return list(done.values())


def _refuse_circle(path: Iterable[str], again: str, config: Path) -> NoReturn:
    raise ConfigError("the stages depend on each other in a circle", where=config, got=" → ".join((*path, again)))


def check_sources(given: list[str], places: list[str], names: set[str], reading: Mapping[str, Any]) -> None:
    """Check that the sources of text in a config can be read; a name nearly a stage's counts as a misspelling.

    Args:
        given: as written.
        places: where each is, wherever the program works.
        names: of the stages.
        reading: how they are read, as for `expand`.

    Raises:
        WordpipeError: they are not.
    """
    for name, place in zip(given, places, strict=True):
        if is_artifact(Path(place)):
            hint = "use files or folders, or a stage that makes a corpus"
            raise ArtifactError("this is an artifact, not a source of text", where=name, hint=hint)
        if (
            not os.path.lexists(place)
            and url_of(name) is None
            and (hint := nearest(name, names)).startswith("did you mean")
        ):
            raise ConfigError("this name is neither a stage nor a file", where=name, hint=hint)
    for source in expand(fetched(places), **reading):
        if source.kind == "stream":
            hint = "save the text in a file first: the pipeline must be able to read its inputs again"
            raise ConfigError("a pipeline cannot read a pipe", where=source.name, hint=hint)


def check_artifact(setting: str, name: str, place: str, kinds: tuple[str, ...], names: set[str]) -> None:
    """Refuse a setting of a config that names nothing at `place`, or an artifact of a wrong kind.

    Raises:
        WordpipeError: what it names is not there, or of another kind.
    """
    if is_artifact(Path(place)):
        if "file" not in kinds:
            manifest_at(place, kinds)  # type: ignore[arg-type]
    elif not Path(fetched(place)).exists():
        hint = nearest(name, names)
        raise ConfigError(f"{setting} names neither a stage nor a file", got=name, hint=hint)
