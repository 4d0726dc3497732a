"""The job of making one artifact, the frame of every stage: lock, inputs, files, counts, manifest, publication.

with open_job("tokens", output, settings, run) as job:
    corpus = job.open_input(path, ["corpus"])
    with job.table("tokens", schema) as table:
        ...
    job.counts["sentences"] = n
return job.made
"""

import errno
import glob
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordpipe import TERMINAL, __version__
from wordpipe.artifacts import (
    FORMATS,
    Artifact,
    ArtifactWriter,
    InputEntry,
    Kind,
    Manifest,
    OutputLock,
    ResumeCache,
    check_replaceable,
    clear_leftovers,
    digest_of,
    is_artifact,
    library_versions,
    recipe_of,
    refuse_inside_artifact,
    written,
)
from wordpipe.errors import ArtifactError, BudgetError, ConfigError, StorageError
from wordpipe.pace import Finish, TimeLimit, now
from wordpipe.runtime import (
    Progress,
    Report,
    Stopped,
    Stopwatch,
    automatic,
    forget_peak_memory,
    is_out_of_memory,
    peak_memory_bytes,
    process_number,
)
from wordpipe.settings import Settings
from wordpipe.stages.estimate import remember
from wordpipe.stages.registry import COMMANDS, load_named
from wordpipe.storage import Url, as_path, url_of

if TYPE_CHECKING:
    import pyarrow as pa

    from wordpipe.artifacts import RemoteOutput, TableWriter
    from wordpipe.engines import Engine, EngineName, EngineOptions, ShardWork

PathLike = str | os.PathLike[str]

_SPARE = 4  # what the removal of a folder with one below it opens at once


@dataclass(frozen=True)
class RunOptions:
    """Options for running any stage."""

    report: Report = automatic  # called with the progress of the work; runtime.quiet says nothing
    fresh: bool = False  # start over, even where a stopped run of the same recipe could be continued
    verify: bool = True  # check the inputs' hashes before use
    engine: "EngineName" = "local"  # what makes the shards of stages that have some: this process, or a Ray cluster
    address: str | None = None  # of a running Ray cluster; None: one is started on this machine, and ends with the work
    workers: int | None = None  # threads, or processes of Ray; None: one for each processor
    # by `pace.now`, when the command was called, of which a limit of time counts; None: now
    called: float | None = None
    # of a training: make the artifact of a stopped run's last checkpoint; None: go on with it
    finish: Finish | None = None
    keeps_settings: bool = True  # settings that an update is not given are those of the artifact at the output
    ahead: Any = None  # `WordsAhead`: counts the words of the rows that `ingest` writes, for the index that follows


@dataclass(repr=False)
class Made:
    """The artifact that a stage has made; it stands for its path as the input of another stage.

    `to_json` is what `--json` prints.
    """

    kind: str
    path: str
    recipe: str
    digest: str
    seconds: float
    peak_memory_bytes: int
    counts: dict[str, int] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        """Return a few lines: what, where, in how long; how many of what; every warning."""
        lines = load_named(f"{TERMINAL}:made_lines")(self.counts, self.metrics, self.rates, self.path)
        warnings = [f"warning: {text}" for text in self.warnings]
        return "\n  ".join([f"{self.kind} → {self.path}  in {self.seconds:.1f} s", *lines, *warnings])

    def to_json(self) -> dict[str, Any]:
        """One JSON object."""
        return asdict(self)


class Job:
    """The making of one artifact: collects inputs, counts, figures and files.

    Args:
        kind: of artifact.
        output: the folder on this machine where it is made.
        settings: of the stage.
        run: how.
        stack: is closed with the job.
        target: where it is published, and called: `output`, or a URL.
    """

    made: Made

    def __init__(
        self,
        kind: Kind,
        output: Path,
        settings: Settings,
        run: RunOptions,
        stack: ExitStack,
        target: Path | None = None,
    ) -> None:
        self.kind, self.output, self.settings, self.run = kind, output, settings, run
        self.asked: Settings | None = None  # of which the recipe is, where an input decides others of `settings`
        self.target = output if target is None else target
        self.inputs: list[InputEntry] = []
        self.counts: dict[str, int] = {}
        self.metrics: dict[str, float] = {}
        self.rates: dict[str, float] = {}
        self.facts: dict[str, Any] = {}
        self.warnings: list[str] = []
        self.bitwise, self.device, self.threads = True, "cpu", 1
        self.libraries: tuple[str, ...] = ("pyarrow",)
        self.is_usual = True  # its seconds say how long such work takes: it began anew, and compiled nothing
        # what the stage was called with beside its settings, of a stage that can be stopped
        self.arguments: list[Any] = []
        self._begun = now() if run.called is None else run.called
        self._keeps_state = False
        self._artifacts: list[Manifest] = []  # of its inputs
        forget_peak_memory()
        self.clock = Stopwatch()
        self._stack = stack
        self.writer = stack.enter_context(ArtifactWriter(output))

    @cached_property
    def engine_options(self) -> "EngineOptions":
        """Return the engine that makes the shards of the job. Raises ConfigError: options do not go together."""
        from wordpipe.engines import EngineOptions

        threads = getattr(self.settings, "threads", 0) if self.run.engine == "local" else 0
        return EngineOptions(
            self.run.engine, self.run.address, (threads or None) if self.run.workers is None else self.run.workers
        )

    def make_shards(
        self, work: "ShardWork", numbers: Sequence[int], total: int, cache: ResumeCache, opened: Any = None
    ) -> None:
        """Make the job's shards by the chosen engine, which is started for the first shard.

        Args:
            work: what is done with them.
            numbers: of those that are missing.
            total: units of all shards, those included that are there.
            cache: where their files go.
            opened: what this process has open already; see `ShardWork.prepare`.
        """
        from wordpipe.engines import ShardProgress

        if numbers:
            before = total - sum(work.size_of(number) for number in numbers)
            with cache.shared_with_others():
                self._engine.make(work, numbers, ShardProgress(work, self.run.report, before, total), opened)

    def make_missing(
        self, work: "ShardWork", names: Mapping[int, str], cache: ResumeCache, done: str,
        files_of: Callable[[str, Mapping[str, Any]], Iterable[str]] = lambda name, figures: (),
    ) -> list[int]:  # fmt: skip
        """Make those of the job's shards that no stopped run has finished; what one has `done` is said.

        Args:
            work: what is done with them.
            names: number of a shard → the name under which its figures are kept.
            cache: where.
            done: what happened to those that are there, for the note.
            files_of: the names of the other files of a shard, from that name and the figures.

        Returns:
            The numbers of those that were made.
        """

        def is_missing(name: str) -> bool:
            figures = cache.figures(name)
            return figures is None or any(cache.figures(file) is None for file in files_of(name, figures))

        missing = [number for number, name in names.items() if is_missing(name)]
        if before := len(names) - len(missing):
            self.note(f"continuing a stopped run: {before} of {len(names)} shards were already {done}")
        self.make_shards(work, missing, sum(map(work.size_of, names)), cache)
        return missing

    @cached_property
    def _engine(self) -> "Engine":
        from wordpipe.engines import open_engine

        return self._stack.enter_context(open_engine(self.engine_options, self.run.report))

    @property
    def recipe(self) -> str:
        """The hash of command, settings and inputs. Complete once all inputs are known."""
        return recipe_of(self.kind, (self.asked or self.settings).recipe_body(), self.inputs)

    @property
    def partial(self) -> Path:
        """The folder in which a resumable stage keeps its state between runs (not created here)."""
        return self.output.parent / f".{self.output.name}.partial"

    @cached_property
    def limit(self) -> TimeLimit | None:
        """The time that a training may take, if `minutes` is given."""
        minutes = getattr(self.settings, "minutes", None)
        return None if minutes is None else TimeLimit(60 * minutes, self._begun)

    @property
    def about(self) -> dict[str, Any]:
        """Return the job's command, settings and inputs that a checkpoint keeps, by which `finish` ends the job."""
        paths = self.settings.artifact_fields()
        dumped = self.settings.model_dump(mode="json", include=self.settings.model_fields_set)
        beside = self.output.parent
        settings = {name: written(value, beside) if name in paths else {"is": value} for name, value in dumped.items()}
        arguments = [written(value, beside) for value in self.arguments]
        return {"command": self.settings.command, "arguments": arguments, "settings": settings}

    @cached_property
    def scratch(self) -> Path:
        """A folder for intermediate files, gone when the job ends, however it ends."""
        path = self.output.parent / f".{self.output.name}.{secrets.token_hex(8)}.scratch.tmp"
        path.mkdir()
        self._stack.callback(shutil.rmtree, path, ignore_errors=True)
        for _ in range(_SPARE):  # descriptors for that, where a run ends because there are no more
            self._stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        return path

    def open_input(self, path: PathLike, kinds: Iterable[Kind]) -> Artifact:
        """Open, check and record an input artifact; it is closed with the job."""
        artifact = self._stack.enter_context(Artifact(path, kinds, verify=self.run.verify))
        self.inputs.append(artifact.as_input(beside=self.target.parent))
        self._artifacts.append(artifact.manifest)
        return artifact

    def keep_open(self, artifact: Artifact) -> Artifact:
        """Close an artifact with the job, without an entry in the manifest."""
        return self._stack.enter_context(artifact)

    def previous_artifact(self, instead: str) -> Artifact | None:
        """Open the artifact at the job's output, for `--update`; None, and a note why, where there is none.

        A damaged one is no error: the new one takes its place, as it would without `--update`.

        Args:
            instead: what is done without it, for the note.
        """
        if not is_artifact(self.target):
            self.note(f"nothing to update at {self.target}, so {instead}")
            return None
        try:
            return self.keep_open(Artifact(self.target, [self.kind], verify=self.run.verify))
        except ArtifactError as error:
            self.note(f"the artifact at {self.target} cannot be used ({error.what}), so {instead}")
            return None

    def table(self, stem: str, schema: "pa.Schema", *, single: bool = False, log: bool = False) -> "TableWriter":
        """Open a Parquet table of the artifact for writing."""
        from wordpipe.artifacts import TableWriter

        return TableWriter(self.writer, stem, schema, single=single, log=log)

    def write(self, name: str, data: bytes, *, log: bool = False) -> None:
        """Write a file of the artifact; a log is outside its digest."""
        self.writer.write(name, data, log=log)

    def end_early(self, done: int, planned: int, more: int) -> None:
        """Record that a job's stopped run was ended early. What it has saved stays.

        Args:
            done: steps (or words) of its checkpoint.
            planned: that it was to have.
            more: that were added, in which the learning rate fell.
        """
        unit = "word" if self.kind == "words" else "step"
        self.facts["finished_early"] = {"at": done, "of": planned, "cool_down": more, "unit": unit}
        steps = f"{more:,} more {unit}" + ("s" if more > 1 else "")
        how = f"with {steps} during which the learning rate was lowered" if more else "without further training"
        self.warnings.append(f"finished early at {unit} {done:,} of {planned:,}, {how}")
        self._keeps_state = True

    def forget_state(self) -> None:
        """Remove what stopped runs of this output left, whatever their settings."""
        for folder in self.states():
            shutil.rmtree(folder, ignore_errors=True)

    def states(self) -> list[Path]:
        """Return the folders that stopped runs of this output left."""
        return [self.partial, *self.partial.parent.glob(f"{glob.escape(self.partial.name)}-*")]

    def report(self, phase: str, done: float = 0, total: float | None = None, unit: str = "", **values: str) -> None:
        """Report the progress of the job."""
        self.run.report(Progress(phase, done, total, unit, values))

    def note(self, text: str, *, always: bool = False) -> None:
        """Show a note on the screen only; with `always` also with --quiet."""
        self.run.report(Progress("note", note=text, always=always))

    def note_first_texts(self, source: Artifact) -> None:
        """Show a note if a corpus or tokens hold pairs, of which this stage uses the first text alone."""
        from wordpipe.artifacts import read_schema

        if not {"text_b", "ids_b"}.isdisjoint(read_schema(source, source.kind).names):
            self.note("the texts are pairs: only the first text of each pair is used")

    def warn(self, text: str, *, always: bool = False) -> None:
        """Show a warning, and keep it for the manifest; a call from Python gives it as a `WordpipeWarning`."""
        self.warnings.append(text)
        self.run.report(Progress("note", note=f"warning: {text}", always=always, is_warning=True))

    def announce_compilation(self) -> AbstractContextManager[None]:
        """Show a note in the job if kernels are compiled in the block, which takes seconds, once per machine."""
        from wordpipe.compiled import watch_compilation  # numba, which many stages do without

        text = "compiling code for this machine (only in the first run)"

        def on_compilation() -> None:
            self.is_usual = False
            self.note(text)

        return watch_compilation(on_compilation)

    def publish(self) -> None:
        """Write the manifest and put the artifact in place."""
        seconds, peak = self.clock.seconds, peak_memory_bytes()
        outputs = sorted(self.writer.outputs, key=lambda entry: entry.path)
        manifest = Manifest(
            format=FORMATS[self.kind], kind=self.kind,
            command=self.settings.command, wordpipe=__version__, settings=self.settings.manifest(),
            inputs=self.inputs, outputs=outputs, counts=self.counts, metrics=self.metrics, facts=self.facts,
            warnings=self.warnings, bitwise=self.bitwise, device=self.device, threads=self.threads,
            versions=library_versions(*self.libraries), seconds=round(seconds, 3), peak_memory_bytes=peak,
            recipe=self.recipe, digest=digest_of(outputs),
        )  # fmt: skip
        self.writer.publish(manifest)
        if not self._keeps_state:
            self.forget_state()
        if self.is_usual and self.limit is None and not getattr(self.settings, "update", False):
            remember(self.settings, self.inputs, self._artifacts, manifest)
        self.made = Made(
            self.kind, str(self.target), manifest.recipe, manifest.digest, manifest.seconds, peak,
            self.counts, self.rates, self.metrics, self.warnings,
        )  # fmt: skip


@contextmanager
def open_job(kind: Kind, output: PathLike, settings: Settings, run: RunOptions | None) -> Iterator[Job]:
    """Make an artifact at `output`; it is published when the block ends well, and nothing is left when it does not.

    Raises:
        LockedError: another run writes the same output.
        StorageError, ArtifactError: the output may not be replaced; the disk refused.
    """
    target, run = as_path(output), run or RunOptions()
    remote = None
    with storage_errors(target), ExitStack() as stack:
        # where the artifact is made: at the output, or, for a URL, in a folder of this machine
        _refuse_whole(settings, run)
        if (url := url_of(target)) is not None:
            remote = _remote_output(url, kind)
            target = remote.folder
        # the output may be replaced, and no other run writes there
        refuse_inside_artifact(target)
        check_replaceable(target, kind)  # before anything is touched, and again under the lock
        target.parent.mkdir(parents=True, exist_ok=True)
        stack.enter_context(OutputLock(target))
        clear_leftovers(target)
        check_replaceable(target, kind)
        # what earlier runs left
        job = Job(kind, target, settings, run, stack, as_path(output))
        if remote is not None and remote.has_unsent:
            what = f"this run will replace the artifact in {target}, which was not sent; to send that artifact, stop this run"
            job.note(f"{what} and use: wordpipe copy {target} {job.target}", always=True)
        for state in job.states():
            if state.is_symlink():  # what it leads to is not ours
                what = "the folder of the unfinished work is a symbolic link"
                raise StorageError(what, where=state, hint="remove the link, or choose another output with -o")
        if run.fresh:
            job.forget_state()
        job.is_usual = not any(folder.exists() for folder in job.states())
        # the work, and its publication
        try:
            yield job
        except Stopped as stopped:
            if stopped.saved is None and any(folder.exists() for folder in job.states()):
                stopped.saved = "what is saved"
            raise
        job.publish()
        if remote is not None:
            remote.send(target, lambda done, total: job.report("sending", done / 1e6, total / 1e6, "MB"))


def refuse_url(output: PathLike) -> None:
    """Refuse to make an artifact at a URL in several processes, which have to see where it is made. Raises ConfigError."""
    if (url := url_of(output)) is not None:
        hint = "write to a folder, then run wordpipe copy FOLDER URL"
        raise ConfigError("a training with several processes cannot write to a URL", where=str(url), hint=hint)


def _remote_output(url: Url, kind: Kind) -> "RemoteOutput":
    """Return the place of an output at a URL. Raises ConfigError: other processes would have to see where it is made."""
    if process_number("WORLD_SIZE", 1) > 1:
        refuse_url(str(url))
    from wordpipe.artifacts import RemoteOutput

    return RemoteOutput(url, kind)


def _refuse_whole(settings: Settings, run: RunOptions) -> None:
    """Refuse an engine and workers for a stage that has no shards. Raises ConfigError."""
    if (run.engine, run.address, run.workers) == ("local", None, None):
        return
    command, given = COMMANDS[settings.command], settings.manifest()
    if command.joined:
        what, hint = f"{command.name} takes no --workers", "for several processes, use --engine ray or torchrun"
        raise ConfigError(what, where="workers", got=run.workers, expected="none", hint=hint)
    if not command.shards(given):
        usual = {name: one.default for name, one in settings.model_fields.items()}
        ways = [f" with {name} {value}" for name, value in given.items() if command.shards(given | {name: usual[name]})]
        able = ", ".join(name for name, one in COMMANDS.items() if one.takes_engine)
        raise ConfigError(
            f"{command.name}{''.join(ways)} cannot be divided and runs only in this process", where="engine", got=run.engine,
            expected="local", hint=f"--engine and --workers work with {able}",
        )  # fmt: skip


@contextmanager
def storage_errors(where: PathLike | None = None) -> Iterator[None]:
    """Turn refusals of the operating system, and of memory, during a job into errors that say what to do.

    Args:
        where: the file or folder that is written, for a refusal that names none: a full disk.
    """
    try:
        yield
    except (ImportError, MemoryError, OSError, RuntimeError, SystemError) as error:
        # torch's, which is not imported here: for a GPU it has a class of its own, for a CPU only its words
        of_torch = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
        if not (of_torch or is_out_of_memory(error)):
            if isinstance(error, OSError):
                raise storage_error(error, where) from error
            raise
        hint = "lower micro_batch, --batch-tokens, --memory or the size of the model, or train with --recompute"
        raise BudgetError("out of memory", got=next(iter(str(error).splitlines()), None), hint=hint) from error


_HINTS = {
    errno.ENOSPC: "free some space on that disk, then run the same command again; existing files are unchanged",
    errno.EDQUOT: "your disk quota is used up; free some space, then run the same command again",
    errno.EACCES: "change the permissions, or choose another output with -o",
    errno.EPERM: "change the permissions, or choose another output with -o",
    errno.EROFS: "the file system is read-only; choose an output on another disk with -o",
    errno.EMFILE: "raise the limit of open files: ulimit -n 4096",
    errno.EFBIG: "raise the limit of file sizes: ulimit -f unlimited",
}


def storage_error(error: OSError, where: PathLike | None = None) -> StorageError:
    """Return an OSError as a StorageError with a hint; `where` is used if the error names no file."""
    what = (error.strerror or str(error) or "reading or writing failed").lower()
    place = error.filename or where
    return StorageError(what, where=None if place is None else str(place), hint=_HINTS.get(error.errno or 0))
