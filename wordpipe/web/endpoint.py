"""An endpoint of the server, declared once as a class: its path, its parameters, and what it answers.

    @endpoint("/neighbours", group="Words", can="neighbours", answer=Answer("Neighbours", {"word": TEXT, "neighbours": …}))
    class Neighbours(Endpoint):
        "The words nearest to a word."

        word: str = words_param("the word", "water", "the query")
        k: int = param(10, "words that are wanted", ge=1, most="max_k")
        words: str | None = artifact_param("a words artifact or an index of words")

        @classmethod
        def answer(cls, at: At, items: Sequence[Self]) -> Sequence[dict[str, Any]]: ...

GET, with a parameter of the URL for each field, POST, with a JSON object of the same fields, what is refused of both, and the
entry in /openapi.json follow from it. Requests that differ in parameters marked `each` alone are answered by one call of
`answer`, in the thread of the artifact that they name (`batching.py`).

One request: `handle` → `read` (URL, path and body, each by its `Param`) → `validate` → `respond` (the artifact, its thread,
`answer`) → `reply`.

`openapi.py` makes the OpenAPI document at `/openapi.json` of all declarations, and the page `/api` shows that document.
"""

import re
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, replace
from dataclasses import fields as fields_of
from functools import partial
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    Protocol,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wordpipe.errors import WordpipeError
from wordpipe.settings import Settings
from wordpipe.web.metrics import Metrics
from wordpipe.web.params import (
    GIVEN,
    NO_NUL,
    PLAIN,
    PROSE,
    Body,
    Param,
    Schema,
    Url,
    bounded,
    checked_text,
    listing,
    refuse_others,
    said_schema,
)
from wordpipe.web.replies import Refused, json_reply
from wordpipe.web.served_artifacts import Generation, Served, ServedArtifacts
from wordpipe.web.settings import ServeSettings
from wordpipe.web.together import pick_several

T = TypeVar("T")

GROUPS = ("Search", "Vectors and ranking", "Words", "Models", "Vector stores", "Assistants", "Server")
"""Endpoints that belong together, in the order in which people read them."""
_OPTION = re.compile(r"(?<![\w-])--?([a-z][a-z-]*)")  # of the command line, where a request has a parameter
_MOST_INDEXES = 100  # that are asked as one
PATIENCE_S = 10.0  # that a request waits for what is made once


def param(default: Any = ..., text: str = "", **facts: Any) -> Any:
    """Declare a parameter of an endpoint; without a default it is needed. `facts` are further fields of a `Param`."""
    return field(default=MISSING if default is ... else default, metadata={"param": {"text": text, **facts}})


def words_param(text: str, example: str, what: str) -> Any:
    """Declare a needed text as an endpoint's parameter: stripped, not blank, within the limit.

    `what` is its name in errors.
    """
    return param(
        ..., text, example=example, each=True,
        check=lambda given, settings: checked_text(given, what, settings.max_chars), schema=said_schema,
    )  # fmt: skip


def artifact_param(text: str, *, at: str = "", can: str = "", several: bool = False) -> Any:
    """Declare the endpoint's parameter with the name of the artifact that answers.

    Without one it is the first that can, unless it is in the path. `can` is an ability that it has, if that is not the one of
    the endpoint. Where `several` may answer as one, the value is a tuple of names.
    """
    shown = f"name of the artifact to use: {text}" + (
        "" if at == "path" else "; default: the first artifact that can answer"
    )
    facts: dict[str, Any] = {"text": shown, "at": at, "can": can, "is_artifact": True}
    if several:
        facts["text"] += "; several names, or * for all indexes over texts: these are searched as one index"
        facts |= {
            "repeats": True,
            "check": _few_names,
            "schema": {"type": ["string", "array"], "items": GIVEN, **NO_NUL},
        }
    return field(default=MISSING if at == "path" else None, metadata={"param": facts})


def _few_names(names: Sequence[str], settings: ServeSettings) -> tuple[str, ...]:
    """Return the names of a request. Raises ConfigError: they are too many."""
    del settings
    bounded("number of indexes", len(names), 1, _MOST_INDEXES)
    return tuple(names)


def inline(*names: str, **changes: Mapping[str, Any]) -> Any:
    """Declare options of a settings class as parameters of an endpoint: the named ones, or all; `changes` change some."""
    return field(metadata={"inline": names, "changes": changes})


@dataclass(frozen=True)
class Answer:
    """The JSON schema of an answer, under a name; `parts` are other schemas that it refers to."""

    name: str
    schema: Schema
    parts: Mapping[str, Schema] = field(default_factory=dict)


@dataclass(frozen=True)
class Declared:
    """The declaration of an endpoint: the arguments of `endpoint`, and the fields of the class."""

    path: str
    group: str  # one of `GROUPS`
    place: int  # among those of its group: the lowest is read first, equal ones by path
    can: str
    answer: Answer | Schema | None
    methods: tuple[str, ...]
    media: tuple[str, ...]  # types of answers besides JSON
    others: bool  # parameters and fields that are not known say nothing
    made_once: bool  # of each generation, in the thread of what takes seconds
    refuse: Callable[[WordpipeError | Refused], Response] | None
    error: Answer | None  # the schema of an error, where it is not ours
    params: tuple[Param, ...]
    inlined: Mapping[str, tuple[type[Settings], tuple[str, ...]]]  # field → settings class, its options


TABLE: list["type[Endpoint]"] = []
"""All endpoints, in the order in which they were declared."""


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(param, words_param, artifact_param, inline)
)
def endpoint(
    path: str, *, group: str, place: int = 9, answer: Answer | Schema | None = None, can: str = "",
    methods: Sequence[str] = ("GET", "POST"),
    media: Sequence[str] = (), others: bool = False, made_once: bool = False,
    refuse: Callable[[WordpipeError | Refused], Response] | None = None, error: Answer | None = None,
) -> Callable[[type[T]], type[T]]:  # fmt: skip
    """Return a decorator that makes a class an endpoint, and its fields the parameters; see `Declared`."""

    def declare(cls: type[T]) -> type[T]:
        # the fields are the parameters; a field of options stands for several
        made: Any = dataclass(frozen=True, kw_only=True)(cls)
        kinds, params, inlined = get_type_hints(cls), list[Param](), {}
        for one in fields_of(made):
            if "inline" in one.metadata:
                several = _inlined(one, kinds[one.name])
                inlined[one.name] = (kinds[one.name], tuple(other.name for other in several))
                params += several
            else:
                kind, choices = _kind_of(kinds[one.name])
                default = ... if one.default is MISSING else one.default
                params.append(Param(one.name, kind, default, choices=choices, **one.metadata["param"]))
        # the declaration, and a place in the table
        assert group in GROUPS, group
        made.declared = Declared(
            path,
            group,
            place,
            can,
            answer,
            tuple(methods),
            tuple(media),
            others,
            made_once,
            refuse,
            error,
            tuple(params),
            inlined,
        )
        TABLE.append(made)
        return made  # type: ignore[no-any-return]

    return declare


def _inlined(one: "Field[Any]", cls: type[Settings]) -> list[Param]:
    """Return the endpoint's parameters out of options of a settings class."""
    found = []
    for name in one.metadata["inline"] or cls.model_fields:
        known = cls.model_fields[name]
        kind, choices = _kind_of(known.annotation)
        bounds = {bound: value for bound, value in known.bounds.items() if bound in ("ge", "le")}
        if (kind is str and not choices) or known.several:
            schema = PROSE if known.prose else PLAIN
            bounds["schema"] = listing(schema) if known.several else schema
        text = _OPTION.sub(lambda found: found[1].replace("-", "_"), known.description)
        made = Param(name, kind, known.default, text, choices=choices, repeats=known.several, **bounds)
        found.append(replace(made, **one.metadata["changes"].get(name, {})))
    return found


def _kind_of(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the type that an endpoint's parameter is read as, and its choices."""
    if get_origin(annotation) in (Union, UnionType):
        return _kind_of(next(one for one in get_args(annotation) if one is not type(None)))
    if get_origin(annotation) is Literal:
        return str, get_args(annotation)
    if get_origin(annotation) is dict:
        return dict, ()
    return (annotation, ()) if annotation in (str, int, float, bool, dict) else (Any, ())


class Serving(Protocol):
    """The parts of a server that endpoints use."""

    artifacts: ServedArtifacts
    settings: ServeSettings
    metrics: Metrics

    @property
    def has_page(self) -> bool:
        """True if it has a page beside the API."""
        ...

    @property
    def is_stopping(self) -> bool:
        """True if it takes no more requests."""
        ...


@dataclass(frozen=True)
class At:
    """The artifact that answers a request, as it was when the request came."""

    served: Served
    generation: Generation
    server: Serving
    began: float = field(default_factory=time.monotonic)

    @property
    def opened(self) -> Any:
        """The open artifact; the endpoint's `can` says what it is able to answer."""
        return self.generation.opened

    @property
    def about(self) -> dict[str, str]:
        """The digest of the generation that answers."""
        return {"digest": self.generation.digest}


class Endpoint:
    """The base of all endpoints, which `endpoint` declares."""

    declared: ClassVar[Declared]

    @classmethod
    def route(cls, server: Serving) -> Route:
        """Return the route of the endpoint in a server."""
        return Route(cls.declared.path, partial(cls.handle, server), methods=[*cls.declared.methods])

    @classmethod
    async def handle(cls, server: Serving, request: Request) -> Response:
        """Answer a request to the endpoint. Raises WordpipeError, Refused, unless it has errors of its own."""
        try:
            asked = await cls.read(request, server.settings)
            asked.validate()
            return await asked.respond(server, request)
        except (WordpipeError, Refused) as error:
            if cls.declared.refuse is None:
                raise
            return cls.declared.refuse(error)

    @classmethod
    async def read(cls, request: Request, settings: ServeSettings) -> Self:
        """Read the endpoint's parameters of a request. Raises ConfigError, Refused: names the first wrong one."""
        url = Url(request)
        own = Body(await request.body()) if request.method == "POST" else url
        return cls.made_of(own, url, request.path_params, settings)

    @classmethod
    def made_of(cls, own: Url | Body, url: Url | Body, path: Mapping[str, Any], settings: ServeSettings) -> Self:
        """Read the endpoint's parameters.

        Args:
            own: where they are: the URL of a GET, the body of a POST.
            url: where those are that are never in a body.
            path: those of the path.
            settings: their bounds.

        Raises:
            ConfigError, Refused: names the first wrong one.
        """
        known = cls.declared
        # each parameter is in the path, in the URL, or, of a POST, in the body; what is there besides is refused
        sources = {one.name: url if one.at else own for one in known.params if one.at != "path"}
        for source in {id(url): url, id(own): own}.values():
            names = [name for name, place in sources.items() if place is source]
            if not known.others or (source is url and names):
                refuse_others(source, names)
        if isinstance(own, Body):
            cls.look_over(own.given)
        # their values; options of a settings class as one object of it
        values = {
            one.name: one.read(sources[one.name], settings) if one.name in sources else path[one.name]
            for one in known.params
        }
        for name, (made_of, options) in known.inlined.items():
            values[name] = made_of.make({option: values.pop(option) for option in options})
        return cls(**values)

    @classmethod
    def look_over(cls, body: Mapping[str, Any]) -> None:
        """Refuse fields that the body of a request may not have. Raises ConfigError."""

    def validate(self) -> None:
        """Refuse parameters that do not fit each other. Raises ConfigError."""

    @property
    def asked_of(self) -> str | tuple[str, ...] | None:
        """The name of the artifact that is to answer, or names of several; None for the first that can."""
        return next((getattr(self, one.name) for one in self.declared.params if one.is_artifact), None)

    @property
    def batch(self) -> Hashable:
        """Return the key of requests to an endpoint that one call of `answer` may answer together."""
        return type(self), repr([
            getattr(self, one.name) for one in fields_of(self)  # type: ignore[arg-type]
            if not (facts := one.metadata.get("param", {})).get("each") and not facts.get("is_artifact")
        ])  # fmt: skip

    @property
    def weight(self) -> int:
        """The number of texts in the request, for the size of a batch."""
        return 1

    async def respond(self, server: Serving, request: Request) -> Response:
        """Return the endpoint's reply, computed in the artifact's thread."""
        del request
        reply = await self.answered(server, self.reply)
        return reply if isinstance(reply, Response) else json_reply(reply)

    async def answered(self, server: Serving, shape: Callable[[At, Any], T]) -> T:
        """Return the endpoint's answer as `shape` makes it of the artifact and of what was computed in the artifact's thread.

        Slow work that is done once is waited for not too long. Raises WordpipeError, Refused.
        """
        names, seconds = self.asked_of, min(PATIENCE_S, server.settings.timeout / 2)
        if isinstance(names, tuple):
            served = await pick_several(server.artifacts, names, self.declared.can, seconds)
        else:
            served = server.artifacts.pick(names, self.declared.can)
        with served.lease() as generation:
            at = At(served, generation, server)
            if self.declared.made_once:
                make = partial(self._alone, at)
                found = await server.artifacts.made_once(generation, self.batch, make, seconds)
            else:
                answer = partial(self.answer, at)
                found = await served.ask(generation, answer, self, key=self.batch, weight=self.weight)
            if isinstance(found, Refused):
                try:
                    raise found
                finally:
                    del found  # the error refers to this frame: both, and the generation, would stay in memory
            return shape(at, found)

    def _alone(self, at: At) -> Any:
        """Answer one request to the endpoint by itself, for work that is done once for a generation."""
        return self.answer(at, [self])[0]

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> Sequence[Any]:
        """Return the endpoint's answer, or refusal, of each of some requests that go together.

        It runs in the artifact's thread.
        """
        raise NotImplementedError

    def reply(self, at: At, found: Any) -> Response | dict[str, Any]:
        """Return the answer: the name of the artifact (under its parameter's name), its digest, and what was found."""
        name = next(one.name for one in self.declared.params if one.is_artifact)
        return {name: at.served.name, **at.about, **found}
