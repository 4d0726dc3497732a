"""The artifacts of a server: each opened once, and swapped whole when another generation is published at its path.

A request takes a lease of the generation that is current, and is answered from it alone. When the manifest at the path has
changed, the new generation is opened and warmed beside the old one, then takes its place; the old one is closed when its last
request has ended. Where the new one cannot be opened, the old one stays, and `/health` and the log say why.
"""

import asyncio
import math
import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from wordpipe.artifacts import MANIFEST, Kind, row_count
from wordpipe.errors import ArtifactError, ConfigError, InputError, StorageError, WordpipeError
from wordpipe.search import LEXICAL
from wordpipe.stages import COMMANDS, OpenArtifact, OpenIndex, OpenTextIndex, OpenWords, is_transformer, open_artifact
from wordpipe.storage import as_path, open_bucket, standing, url_of
from wordpipe.web.batching import Batcher
from wordpipe.web.replies import Refused, busy

if TYPE_CHECKING:
    from wordpipe.stages import Inspected, OpenModel, Predictor

T = TypeVar("T")
R = TypeVar("R")

KINDS: tuple[Kind, ...] = ("index", "words", "sentences", "model")
CAN: dict[str, str] = {
    "search": "an index or a words artifact",
    "similar": "an index of texts with vectors",
    "neighbours": "a words artifact or an index of words",
    "embed": "an index of texts with vectors, a sentences or words artifact, or a model that encodes texts",
    "rerank": "an index of texts, a sentences or words artifact, or a model that encodes texts",
    "fill": "a model made by `train mlm` or `train denoising`",
    "complete": "a model made by `train clm` or `train seq2seq`",
    "predict": "a model made by `train classifier` or `train tagger`",
    "attend": "a transformer model",
    "map": "a words artifact",
    "examine": "an index with vectors, a words or sentences artifact, or a transformer model",
}
"""Ability of an artifact → which artifacts have it."""
_POLL_S = 0.5  # between two looks at the manifests: a `stat` each
_POLL_FAR_S = 10.0  # at those in a bucket: a request each
_RETRY_S = 5.0  # before a generation that could not be opened is tried again, at first
_MOST_RETRY_S = 3600.0  # and at most
_REMEMBERED = 32  # of a generation
_KEPT_S = 30.0  # an error of work that takes seconds
_LAST_S = 10.0  # for slow work to see that it is to end: a thread in the middle of it may not outlive the interpreter
_WARM_TEXT = "warm"

Report = Callable[[str], None]
"""Takes a line for the log."""
Stamp = tuple[int, int, int] | str | tuple[str, ...]
"""What `stat` says of a manifest: inode, nanoseconds of its last change, bytes; in a bucket its e_tag; of several, digests."""


@dataclass(frozen=True)
class _Look:
    """The outcome of slow work on a generation: the result, or the error."""

    made: Any = None
    error: WordpipeError | None = None
    until: float = math.inf  # an error is kept so long, for whoever has waited for it; then it is tried again


@dataclass(eq=False)
class Generation:
    """One artifact as it was published once, open, with the number of its users."""

    opened: OpenArtifact
    stamp: Stamp | None
    since: float  # seconds of the Unix clock at which it became current
    users: int = 0
    retired: bool = False
    remembered: dict[Hashable, Any] = field(default_factory=dict)  # what is asked often and takes time, as facets
    looks: dict[Hashable, "asyncio.Future[_Look]"] = field(default_factory=dict)  # slow work; for the loop's thread
    steps: dict[Hashable, tuple[float, str]] = field(default_factory=dict)  # since when slow work goes on, and its step

    def remember(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, kept with the served artifact for later requests; for the artifact's thread."""
        if key not in self.remembered:
            while len(self.remembered) >= _REMEMBERED:
                del self.remembered[next(iter(self.remembered))]
            self.remembered[key] = make()
        found: T = self.remembered[key]
        return found

    @property
    def digest(self) -> str:
        """The digest of the artifact's content; of indexes that are asked together one digest of theirs."""
        own = [one.artifact.digest for one in getattr(self.opened, "parts", [self.opened])]
        return own[0] if len(own) == 1 else sha256("".join(own).encode()).hexdigest()

    @cached_property
    def abilities(self) -> tuple[str, ...]:
        """Return the abilities of the served artifact: keys of `CAN`."""
        opened = self.opened
        if isinstance(opened, OpenTextIndex):
            return ("search", "similar", "embed", "examine", "rerank") if opened.has_vectors else ("search", "rerank")
        if isinstance(opened, OpenIndex):
            return "search", "neighbours", "examine"
        if isinstance(opened, OpenWords):
            return "search", "neighbours", "embed", "map", "examine", "rerank"
        if opened.kind == "sentences":
            return "embed", "examine", "rerank"
        made_by = COMMANDS.get(opened.artifact.manifest.command)
        able = made_by.can if made_by else ("embed",)
        more = ("attend", "examine") if is_transformer(opened.artifact) else ()
        return *able, *more, *(["rerank"] if "embed" in able else [])

    def has(self, ability: str) -> bool:
        """True if the artifact has an ability, or one of several abilities, which have spaces between."""
        return any(one in self.abilities for one in ability.split())

    @cached_property
    def language_model(self) -> "OpenModel":
        """The model with its tokenizer, where it fills gaps or completes texts."""
        from wordpipe.stages import model_of

        return model_of(self.opened.artifact)

    @cached_property
    def predictor(self) -> "Predictor":
        """The model with its head."""
        from wordpipe.stages import predictor_of

        return predictor_of(self.opened.artifact, "auto")

    @cached_property
    def inspected(self) -> "Inspected":
        """Return the served model opened for its attention and its health; the language model itself if it has no head."""
        from wordpipe.stages import inspected_of

        shared = {"fill", "complete"} & {*self.abilities}
        return inspected_of(self.opened.artifact, self.language_model if shared else None)

    def warm(self) -> None:
        """Read what the first request to a served artifact needs, so that no request waits.

        Raises:
            WordpipeError: damaged, or libraries are missing.
        """
        opened, ability = self.opened, self.abilities[0]
        if ability == "search":
            parts: list[Any] = getattr(opened, "parts", [opened])
            read = [one.vector_index(None) for one in parts if isinstance(one, OpenIndex) and one.has_vectors]
            with suppress(ConfigError, InputError):  # the word need not be there
                opened.query_all([_WARM_TEXT], 1)
            for one in read:
                one.compile_meanwhile()
            if isinstance(opened, OpenTextIndex) and opened.artifact.names(LEXICAL):
                parts[0].lexical.compile_meanwhile()
        if "embed" in self.abilities and ability in ("search", "embed"):
            opened.encoder.encode([_WARM_TEXT])  # type: ignore[attr-defined]
        elif ability == "predict":
            self.predictor  # noqa: B018  read now
        elif ability in ("fill", "complete"):
            self.language_model  # noqa: B018  read now

    def release(self) -> None:
        """Count one user of the generation less; close it if it is retired and unused."""
        self.users -= 1
        self._close_if_unused()

    def retire(self) -> None:
        """Mark the generation as replaced; close it once its last request has ended."""
        self.retired = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        """Close a replaced generation that no request uses."""
        if self.retired and not self.users:
            self.close()

    def close(self) -> None:
        """Close the artifact, and release all that was made for requests."""
        self.opened.close()
        for name in ("language_model", "predictor", "inspected"):
            self.__dict__.pop(name, None)
        self.remembered.clear()
        self.looks.clear()


@dataclass(eq=False)
class Served:
    """An artifact under a name: its current generation, and its thread."""

    name: str
    path: Path
    current: Generation
    batcher: Batcher
    verify: bool = True
    error: str | None = None  # why the newest generation could not be opened
    swaps: int = 0
    is_silent: bool = False  # the store does not answer
    parts: tuple[str, ...] = ()  # the names of the indexes that are asked together here
    _looked_at: Stamp | None = None  # the newest
    _failed: tuple[Stamp | None, float] | None = None  # a generation that could not be opened, and when to try again
    _pause: float = _RETRY_S  # before that

    @property
    def is_far(self) -> bool:
        """True if it stands in a bucket."""
        return url_of(self.path) is not None

    @contextmanager
    def lease(self) -> Iterator[Generation]:
        """Give the current generation of a served artifact, which stays open for the time of the block."""
        generation = self.current
        generation.users += 1
        try:
            yield generation
        finally:
            generation.release()

    async def ask(
        self, generation: Generation, answer: Callable[[Sequence[T]], Sequence[R]], item: T, *, key: Hashable, weight: int = 1
    ) -> R:  # fmt: skip
        """Return the served artifact's answer for one item of a request, computed in its thread.

        Args:
            generation: which answers; it stays open until the work has ended, also where the request is given up.
            answer: called with items of the same generation and key.
            item: what is asked.
            key: of requests that one call of `answer` may answer together.
            weight: texts in it.
        """
        generation.users += 1
        return await self.batcher.run(answer, item, key=(id(generation), key), weight=weight, ended=generation.release)

    def is_replaced(self) -> bool:
        """True if another generation of a served artifact stands at the path, and is to be opened.

        Raises:
            StorageError: the store refuses, or does not answer.
        """
        stamp = self._looked_at = _stamp(self.path)
        if stamp is None or stamp == self.current.stamp:
            return False
        return self._failed is None or self._failed[0] != stamp or time.monotonic() > self._failed[1]

    def open_next(self) -> Generation:
        """Open the generation at the path and warm it; for a thread. Raises WordpipeError, OSError: it cannot be."""
        return open_generation(self.path, verify=self.verify)

    def swap(self, new: Generation) -> None:
        """Make a generation the current one of a served artifact."""
        old, self.current = self.current, new
        self.error, self._failed, self._pause = None, None, _RETRY_S
        if new.digest != old.digest:
            self.swaps += 1
        old.retire()

    def fail(self, error: Exception) -> None:
        """Keep the current generation, and remember why the next could not be opened; it is tried again, ever more seldom."""
        self.error = error.message if isinstance(error, WordpipeError) else str(error)
        self._failed = (self._looked_at, time.monotonic() + self._pause)
        self._pause = min(2 * self._pause, _MOST_RETRY_S)

    def hear(self, error: WordpipeError | None) -> bool:
        """Record whether the store of a served artifact answers; return True if it has just stopped."""
        was_silent, self.is_silent = self.is_silent, error is not None
        if error is not None or was_silent:
            self.error = None if error is None else error.message
        return self.is_silent and not was_silent


def open_generation(path: Path, *, verify: bool = True) -> Generation:
    """Open an artifact, and read what its first request needs.

    Raises:
        ArtifactError: missing, damaged, or of a kind that nothing can be asked of.
    """
    stamp = _stamp(path)
    return opened_warm(open_artifact(path, KINDS, verify=verify), stamp)


def opened_warm(opened: OpenArtifact, stamp: Stamp | None) -> Generation:
    """Return what was opened as a generation that has read what its first request needs; closed where that fails."""
    try:
        generation = Generation(opened, stamp, time.time())
        generation.warm()
    except BaseException:
        opened.close()
        raise
    return generation


def _stamp(path: Path) -> Stamp | None:
    """Return the stamp of a served artifact's manifest, None without one. Raises StorageError: the store does not answer."""
    if (url := url_of(path)) is not None:
        found_there = open_bucket(url.bucket).look((url / MANIFEST).key)
        return None if found_there is None else found_there.e_tag
    try:
        found = os.stat(path / MANIFEST)  # noqa: PTH116  (three times as fast, every half second)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


@dataclass(eq=False)
class ServedArtifacts:
    """All artifacts of a server by their names, in the order in which they were given."""

    by_name: dict[str, Served]
    report: Report = lambda _: None
    slow: Batcher = field(default_factory=lambda: Batcher("slow"))  # what takes seconds, so that no query waits for it
    far: Batcher = field(default_factory=lambda: Batcher("far"))  # for what waits for a store of objects
    together: dict[tuple[str, ...], Served] = field(default_factory=dict)  # names → indexes that are asked as one
    _pollers: list["asyncio.Task[None]"] = field(default_factory=list, init=False)

    @classmethod
    def open(
        cls, artifacts: Iterable[str | os.PathLike[str]], *, verify: bool = True, report: Report = lambda _: None,
        on_batch: Callable[[str, int], None] = lambda *_: None,
    ) -> "ServedArtifacts":  # fmt: skip
        """Open the artifacts to serve: each a path, or NAME=PATH.

        Raises:
            ConfigError: none, or two of one name.
            ArtifactError: one cannot be opened.
        """
        found: dict[str, Served] = {}
        try:
            for name, path in names_of(artifacts).items():
                batcher = Batcher(name, on_batch=lambda size, name=name: on_batch(name, size))  # type: ignore[misc]
                found[name] = Served(name, path, open_generation(path, verify=verify), batcher, verify)
        except BaseException:
            cls(found).close()
            raise
        return cls(found, report)

    def pick(self, name: str | None, ability: str) -> Served:
        """Return the served artifact with a name, or, without a name, the first that has an ability.

        Raises:
            Refused: 404, there is none, with those that there are.
        """
        able = [one for one in self.by_name.values() if one.current.has(ability)]
        if name is None and able:
            return able[0]
        said = ability.replace(" ", " or ")
        needed = " or ".join(CAN[one] for one in ability.split())
        hint = f"choose one of: {', '.join(one.name for one in able)}" if able else f"serve {needed}"
        if not name:
            raise Refused(404, f"no artifact of this server supports {said}", hint=hint)
        if name not in self.by_name:
            raise Refused(404, f"there is no artifact named {name[:80]!r}", hint=hint)
        if (found := self.by_name[name]) not in able:
            raise Refused(400, f"{name} does not support {said}, because {name} is {_kind(found)}", hint=hint)
        return found

    async def made_once(self, generation: Generation, key: Hashable, make: Callable[[], T], seconds: float) -> T:
        """Return the result of slow work, done once for a served generation in a thread of its own.

        After an error it is tried again.

        Args:
            generation: of what; it stays open until the work has ended.
            key: names what is made.
            make: makes it.
            seconds: to wait for it.

        Raises:
            Refused: 503, it is not ready yet; the work goes on, and whoever asks again gets what it made.
            Exception: what `make` raises.
        """
        looks = generation.looks
        if (work := looks.get(key)) is not None and work.done() and time.monotonic() > _end_of(work):
            del looks[key]
            work = None
        if work is None:
            generation.users += 1
            asked = self.slow.run(lambda _: [_looked(make)], None, key=object(), ended=generation.release)
            work = looks[key] = asyncio.ensure_future(asked)
        done, _ = await asyncio.wait([work], timeout=seconds)
        if not done:
            raise busy(503, f"the result is not ready after {seconds:g} seconds; the server continues the work")
        try:
            found = work.result()
        finally:
            del work, done, _  # an error refers to this frame, and they to the error
        if found.error is not None:
            raise copy(found.error)  # one of its own for each request, or it would gather what all of them did
        made: T = found.made
        return made

    async def start_polling(self) -> None:
        """Begin to check the manifests of the artifacts for new generations."""
        self._pollers = [asyncio.create_task(self._poll(is_far)) for is_far in (False, True)]

    async def stop_polling(self) -> None:
        """Stop checking the served artifacts' manifests for new generations."""
        while self._pollers:
            poller = self._pollers.pop()
            poller.cancel()
            with suppress(asyncio.CancelledError):
                await poller

    def close(self) -> None:
        """Close all artifacts of the server, when no request is at work."""
        self.slow.stop(_LAST_S)
        self.far.stop(_LAST_S)
        for one in (*self.by_name.values(), *self.together.values()):
            one.batcher.stop()
            one.current.retire()

    async def _poll(self, is_far: bool) -> None:
        """Check the manifests of served artifacts again and again, and open new generations."""
        while watched := [one for one in self.by_name.values() if one.is_far == is_far]:
            await asyncio.sleep(_POLL_FAR_S if is_far else _POLL_S)
            for one in watched:
                try:
                    is_new = await self._far_away(one.is_replaced) if is_far else one.is_replaced()
                except (StorageError, InputError) as error:
                    if one.hear(error):
                        what = "the storage does not answer, so the server keeps the current version"
                        self.report(f"{one.name}: {what}: {one.error}")
                    continue
                one.hear(None)
                if is_new:
                    await self.refresh(one)

    async def _far_away(self, work: Callable[[], T]) -> T:
        """Return the result of work that waits for a store, in a thread of its own, so that other polling goes on."""
        return await self.far.run(lambda _: [work()], None, key=object())

    async def refresh(self, one: Served) -> None:
        """Open the new generation of a served artifact in a thread, and make it the current one."""
        try:
            new = await (self._far_away(one.open_next) if one.is_far else asyncio.to_thread(one.open_next))
        except Exception as error:  # noqa: BLE001  (the old generation answers on)
            one.fail(error)
            what = "the new version cannot be opened, so the server keeps the old version"
            self.report(f"{one.name}: {what}: {one.error}")
            return
        before = one.current.digest
        one.swap(new)
        if new.digest != before:
            self.report(f"{one.name}: version {new.digest[:16]} replaces version {before[:16]}")


def names_of(artifacts: Iterable[str | os.PathLike[str]]) -> dict[str, Path]:
    """Return name → path of artifacts to serve: the name of the folder, or the text before =.

    Raises:
        ConfigError: none is given, or two have one name.
    """
    from wordpipe.stages import index_in

    found: dict[str, Path] = {}
    for given in artifacts:
        text = os.fspath(given)
        name, sign, path = text.partition("=")
        if not sign or not path or os.sep in name or os.path.lexists(text):
            name, path = Path(text).name or Path(text).resolve().name, text
        if name in found:
            hint = f"give one artifact another name, for example {name}-2={path}"
            raise ConfigError("two artifacts have the same name", where=path, got=name, hint=hint)
        # or a program that works elsewhere later would be answered from there
        found[name] = index_in(standing(as_path(path)))
    if not found:
        raise ConfigError("there is no artifact to serve", hint="wordpipe serve run/index")
    return found


def _looked(make: Callable[[], Any]) -> _Look:
    """Do slow work for the served artifacts; return its result or its error."""
    try:
        return _Look(make())
    except WordpipeError as error:
        return _Look(error=copy(error), until=time.monotonic() + _KEPT_S)


def _end_of(work: "asyncio.Future[_Look]") -> float:
    """Return the time until which the result of slow work is kept."""
    return -math.inf if work.cancelled() or work.exception() is not None else work.result().until


def rows_of(generation: Generation) -> int | None:
    """Return the number of rows of a served artifact's table; None for a model."""
    with suppress(ArtifactError):
        artifact = generation.opened.artifact
        return None if artifact.kind == "model" else row_count(artifact, artifact.kind)
    return None


def _kind(one: Served) -> str:
    """Return the kind of a served artifact for an error message."""
    artifact = one.current.opened.artifact
    made = f"a model made by `{artifact.manifest.command}`"
    return made if artifact.kind == "model" else f"an artifact of kind {artifact.kind}"
