"""The API over models: `/fill`, `/predict`, and OpenAI's `/v1/completions`, `/v1/chat/completions` and `/v1/models`."""

import secrets
import time
from collections.abc import AsyncGenerator, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self

from starlette.requests import Request
from starlette.responses import Response

from wordpipe.errors import ConfigError
from wordpipe.model.settings import FillSettings, GenerateSettings
from wordpipe.stages import TargetWriter, Writing, filler_of
from wordpipe.web.endpoint import Answer, At, Endpoint, Serving, artifact_param, endpoint, param, words_param
from wordpipe.web.params import (
    ANY,
    GIVEN,
    MAP,
    PROSE,
    TEXT,
    WHOLE,
    Schema,
    bounded,
    checked_text,
    fields,
    listing,
    one_or_more,
    ref,
    said_schema,
    typed,
)
from wordpipe.web.replies import EVENTS, EventReply, busy, json_reply
from wordpipe.web.served_artifacts import Generation, Served
from wordpipe.web.settings import ServeSettings

_MAX_CANDIDATES = 100  # of a mask
_MAX_TOKENS = 4_096  # of a completion
_MAX_PROMPTS = 32  # and completions of each
_MAX_STOPS = 16
_MAX_MESSAGES = 100
_NOT_OURS = (
    "echo", "logprobs", "suffix", "best_of", "logit_bias", "presence_penalty", "frequency_penalty", "tools", "functions",
    "response_format",
)  # fmt: skip
_LEFT_TO_SAY = 0.95  # of the seconds of a request: a stream then says that it ends, before the guard cuts it
_ENDS = {"eos": "stop", "string": "stop", "length": "length"}
TEXTS_NOT_IDS = "token ids are not accepted; send texts"

_STOP = PROSE | {"minLength": 1}
_FILLED = Answer("Filled", fields({
    "model": TEXT, "digest": TEXT, "mask": TEXT, "text": TEXT, "filled": TEXT, "masks": listing(listing(MAP)), "cut": WHOLE,
    "fillings": listing(MAP),
}))  # fmt: skip
_PREDICTED = Answer("Predicted", fields({"model": TEXT, "digest": TEXT, "text": ANY, "cut": WHOLE}, closed=False))
_MODEL = Answer("Model", fields({
    "id": TEXT, "object": {"const": "model"}, "created": WHOLE, "owned_by": TEXT, "kind": TEXT, "can": listing(TEXT),
    "digest": TEXT,
}))  # fmt: skip
_MODELS = Answer("Models", fields({"object": {"const": "list"}, "data": listing(ref("Model"))}))
_USAGE = fields({"prompt_tokens": WHOLE, "total_tokens": WHOLE, "completion_tokens": WHOLE})
_COMPLETION, _CHAT = (
    Answer(name, fields({
        "id": TEXT, "object": {"const": kind}, "created": WHOLE, "model": TEXT, "usage": _USAGE,
        "choices": listing(fields({
            **text, "index": WHOLE, "logprobs": {"type": "null"}, "finish_reason": {"enum": ["stop", "length"]},
        })),
    }))
    for name, kind, text in (
        ("Completion", "text_completion", {"text": TEXT}),
        ("Chat", "chat.completion", {"message": fields({"role": {"const": "assistant"}, "content": TEXT})}),
    )
)  # fmt: skip


@endpoint("/fill", group="Models", can="fill", answer=_FILLED)
class Fill(Endpoint):
    """Candidates for masked positions."""

    text: str = words_param("a text with gaps", "the [MASK] sea", "the text")
    top_k: int = param(5, "number of candidates for each gap", ge=1, le=_MAX_CANDIDATES)
    model: str | None = artifact_param("a model that fills gaps")

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> list[dict[str, Any]]:
        """Return the candidates for each text in the form of `wordpipe fill --json`."""
        top_k, generation = items[0].top_k, at.generation
        settings = FillSettings(top_k=top_k)
        filler = generation.remember(("filler", top_k), lambda: filler_of(generation.language_model, settings))
        return [{"mask": filler.mask, **asdict(filler.fill(one.text))} for one in items]


def second_param(text: str) -> Any:
    """Declare a parameter for the second text of a pair."""
    return param(
        None, text, each=True, check=lambda given, settings: checked_text(given, "the text", settings.max_chars),
        schema=said_schema,
    )  # fmt: skip


@endpoint("/predict", group="Models", can="predict", answer=_PREDICTED)
class Predict(Endpoint):
    """The labels, spans, score or answer that a model gives to a text."""

    text: str = words_param("a text; for a reader, the passage", "7 is red", "the text")
    second: str | None = second_param("the second text of a pair; for a reader, the question")
    model: str | None = artifact_param("a model with a head")

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> list[dict[str, Any]]:
        """Return the prediction for each text or pair in the form of `wordpipe predict --json`."""
        predictor = at.generation.predictor
        asked = [one.text if one.second is None else (one.text, one.second) for one in items]
        return [{"text": one, **predictor.values(*predictor.predict([one]))} for one in asked]


def _prompts(given: Any, settings: ServeSettings) -> list[str]:
    """Return the prompts of a model's completions. Raises ConfigError: ids, too many, or too long."""
    prompts = [given] if isinstance(given, str) else given
    if not isinstance(prompts, list) or not prompts or not all(isinstance(one, str) for one in prompts):
        raise ConfigError("the value is not a text or a list of texts", where="prompt", hint=TEXTS_NOT_IDS)
    bounded("number of prompts", len(prompts), 1, _MAX_PROMPTS)
    for prompt in prompts:
        bounded("characters of a prompt", len(prompt), 0, settings.max_chars)
    return prompts


def _stops(given: Any, settings: ServeSettings) -> tuple[str, ...]:
    """Return the texts that end a model's completion. Raises ConfigError: others, or too many."""
    del settings
    stops = [given] if isinstance(given, str) else given
    if not isinstance(stops, list) or not all(isinstance(one, str) and one for one in stops) or len(stops) > _MAX_STOPS:
        raise ConfigError(
            "the value is not a text or a list of texts", where="stop", expected=f"at most {_MAX_STOPS} texts"
        )
    return tuple(stops)


@dataclass(frozen=True, kw_only=True)
class _Completing(Endpoint):
    """The base of endpoints for which a model writes texts."""

    model: str | None = artifact_param("a decoder or an encoder-decoder")
    max_tokens: int | None = param(None, "maximum number of tokens of each completion", example=8, ge=1, le=_MAX_TOKENS)
    temperature: float | None = param(
        None,
        "temperature of sampling; 0: always the most likely token",
        schema={"type": "number", "minimum": 0, "maximum": 100},
    )
    top_p: float | None = param(
        None,
        "sample from the most likely tokens that together have this probability",
        schema={"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    )
    n: int = param(1, "number of completions for each prompt", ge=1, le=_MAX_PROMPTS)
    seed: int | None = param(None, "seed for random sampling; default: a new seed each time", example=1)
    stop: tuple[str, ...] = param(
        (), "texts that end a completion", check=_stops,
        schema={"anyOf": [
            _STOP, listing(_STOP) | {"maxItems": _MAX_STOPS},
        ]},
    )  # fmt: skip
    stream: bool = param(False, "send the texts as server-sent events while they are written")
    stream_options: dict[str, Any] | None = param(  # noqa: RUF009  (a field)
        None, "include_usage: also send the number of tokens at the end",
        check=lambda given, _: {"include_usage": typed(given, "include_usage", bool, False)} if given else None,
        schema=fields({}, {"include_usage": {"type": ["boolean", "null"]}}),
    )  # fmt: skip

    # what an id begins with, and the object of an answer and of an event of a stream
    named: ClassVar[tuple[str, str, str]]

    @property
    def prompts(self) -> list[str]:
        """The texts that the model is to continue."""
        raise NotImplementedError

    def choice(self, part: "_Part", *, begins: bool) -> dict[str, Any]:
        """Return a choice in the form of OpenAI.

        Args:
            part: the next text of a stream; of an answer that comes at once, the whole text.
            begins: it is the first part of this choice.
        """
        raise NotImplementedError

    @classmethod
    def look_over(cls, body: Mapping[str, Any]) -> None:
        """Refuse fields of OpenAI's completions that wordpipe does not support. Raises ConfigError."""
        for name in _NOT_OURS:
            if body.get(name) not in (None, False, 0, 1 if name == "best_of" else None, {}, [], "", {"type": "text"}):
                raise ConfigError(
                    "this field is not supported", where=name, got=repr(body[name])[:60], hint=f"leave {name} out"
                )

    def validate(self) -> None:
        """Refuse settings of a completion that do not fit together. Raises ConfigError."""
        self.settings()
        if self.stream_options is not None and not self.stream:
            raise ConfigError(
                "stream_options needs stream",
                where="stream_options",
                hint="omit stream_options, or set stream to true",
            )

    def settings(self) -> GenerateSettings:
        """Return the settings of `wordpipe generate`; without a seed, a new one each time. Raises ConfigError."""
        chosen = {name: getattr(self, name) for name in ("temperature", "top_p", "max_tokens")}
        seed = secrets.randbits(31) if self.seed is None else self.seed % (1 << 32)
        given = {name: value for name, value in chosen.items() if value is not None}
        return GenerateSettings.make({"stop": self.stop, **given, "seed": seed})

    @property
    def batch(self) -> Hashable:
        """A key of its own for each request: completions are written one by one."""
        return object()

    async def respond(self, server: Serving, request: Request) -> Response:
        """Return the completions at their end, or as server-sent events while they are written."""
        if not self.stream:
            return await super().respond(server, request)
        events = self._events(server, server.artifacts.pick(self.model, "complete"))
        return EventReply(await anext(events), events)

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> list["_Completion"]:
        """Return each completion at its end."""
        deadline = at.began + at.server.settings.timeout
        return [one.begun.finished(at.generation, deadline) for one in items]

    @property
    def begun(self) -> "_Completion":
        """The completion, of which nothing has been written."""
        return _Completion(self.prompts, self.settings(), self.n)

    def reply(self, at: At, found: "_Completion") -> dict[str, Any]:
        """Return the reply in the form of OpenAI."""
        choices = [self.choice(part, begins=True) for part in found.choices]
        return {**self._about(at.served), "choices": choices, "usage": found.usage}

    async def _events(self, server: Serving, served: Served) -> AsyncGenerator[Any, None]:
        """The objects of a streamed completion, each asked of the artifact's thread when the one before has been sent.

        Other requests are answered in between, and where nobody takes the next object, nothing more is written.
        """
        about, completion = self._about(served), self.begun
        deadline = time.monotonic() + _LEFT_TO_SAY * server.settings.timeout
        with_usage = (self.stream_options or {}).get("include_usage", False)
        unused, said = {"usage": None} if with_usage else {}, set[int]()
        with served.lease() as generation:
            parts = completion.parts(generation)
            while part := await served.ask(
                generation, lambda items: [next(one, None) for one in items], parts, key=object()
            ):
                yield {**about, "choices": [self.choice(part, begins=part.index not in said)], **unused}
                said.add(part.index)
                if time.monotonic() > deadline:
                    raise busy(503, "the completion was not ready in time")
        if with_usage:
            yield {**about, "choices": [], "usage": completion.usage}

    def _about(self, served: Served) -> dict[str, Any]:
        """Return the first fields of a completion, or of an event of its stream."""
        begin, whole, event = self.named
        about = {"id": f"{begin}-{secrets.token_hex(12)}", "object": event if self.stream else whole}
        return {**about, "created": int(time.time()), "model": served.name}


@endpoint(
    "/v1/completions", group="Models", can="complete", answer=_COMPLETION, methods=["POST"], media=[EVENTS], others=True
)
class Completions(_Completing):
    """Continuations of prompts, or target texts for source texts."""

    prompt: list[str] = param(
        text="a text or a list of texts", example="The sea", check=_prompts,
        schema=lambda settings: one_or_more(GIVEN | {"maxLength": settings.max_chars}, _MAX_PROMPTS),
    )  # fmt: skip
    named = "cmpl", "text_completion", "text_completion"

    @property
    def prompts(self) -> list[str]:
        """The texts that the model is to continue."""
        return self.prompt

    def choice(self, part: "_Part", *, begins: bool) -> dict[str, Any]:
        """Return a choice of a completion."""
        del begins
        return asdict(part)


def _messages(given: Any, settings: ServeSettings) -> str:
    """Return the texts of messages, one below the other, as one text. Raises ConfigError: no texts, too many, or too long."""
    texts = list[str]()
    for message in given if isinstance(given, list) else []:
        content = message.get("content") if isinstance(message, dict) else None
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(parts, list) or not all(
            isinstance(one, dict) and one.get("type") == "text" and isinstance(one.get("text"), str) for one in parts
        ):
            raise ConfigError(
                "a message has no text", where="messages", expected='{"role": "user", "content": "…"}',
                hint="send messages of text, without pictures and calls of tools",
            )  # fmt: skip
        texts += [part["text"] for part in parts]
    if not texts:
        raise ConfigError("there is no message", where="messages", expected='[{"role": "user", "content": "…"}]')
    bounded("number of messages", len(given), 1, _MAX_MESSAGES)
    text = "\n".join(texts)
    bounded("characters of the messages", len(text), 0, settings.max_chars)
    return text


def _messages_schema(settings: ServeSettings) -> Schema:
    """Return the schema of the messages of a chat."""
    text = GIVEN | {"maxLength": settings.max_chars}
    part = fields({"type": {"const": "text"}, "text": text})
    content = {"anyOf": [text, {"type": "array", "items": part, "minItems": 1}]}
    message = fields({"role": GIVEN, "content": content}, {"name": GIVEN})
    return {"type": "array", "items": message, "minItems": 1, "maxItems": _MAX_MESSAGES}


@endpoint(
    "/v1/chat/completions", group="Models", can="complete", answer=_CHAT, methods=["POST"], media=[EVENTS], others=True
)
class Chat(_Completing):
    """Completions of the texts of messages; the model is not told who wrote which message."""

    messages: Any = param(
        text="messages, each with a text as its content; the prompt is these texts, one below the other",
        example=[{"role": "user", "content": "The sea"}], check=_messages, schema=_messages_schema,
    )  # fmt: skip
    max_completion_tokens: int | None = param(None, "the newer name of max_tokens", ge=1, le=_MAX_TOKENS)
    named = "chatcmpl", "chat.completion", "chat.completion.chunk"

    @property
    def prompts(self) -> list[str]:
        """The texts of the messages, as one."""
        return [self.messages]

    def settings(self) -> GenerateSettings:
        """Return the settings of `wordpipe generate`. Raises ConfigError."""
        if self.max_completion_tokens is None:
            return super().settings()
        return replace(self, max_tokens=self.max_completion_tokens, max_completion_tokens=None).settings()

    def choice(self, part: "_Part", *, begins: bool) -> dict[str, Any]:
        """Return a choice of a chat: a message, or the next part of a message."""
        said = {"role": "assistant"} if begins else {}
        message = {"delta" if self.stream else "message": {**said, "content": part.text}}
        return {**message, "index": part.index, "logprobs": None, "finish_reason": part.finish_reason}


@endpoint("/v1/models", group="Models", answer=_MODELS, methods=["GET"])
class Models(Endpoint):
    """The artifacts, in the form of OpenAI's list of models."""

    async def respond(self, server: Serving, request: Request) -> Response:
        """List the artifacts in the form of OpenAI's models."""
        return json_reply({"object": "list", "data": [_model(one) for one in server.artifacts.by_name.values()]})


@endpoint("/v1/models/{name}", group="Models", answer=_MODEL, methods=["GET"], others=True)
class Model(Endpoint):
    """One artifact, in the form of OpenAI's models."""

    name: str = artifact_param("of any kind", at="path")

    async def respond(self, server: Serving, request: Request) -> Response:
        """Return one artifact in the form of OpenAI's models."""
        one = server.artifacts.by_name.get(self.name)
        return json_reply(_model(one or server.artifacts.pick(self.name, "embed")))


@dataclass(frozen=True, slots=True)
class _Part:
    """The next text of one choice of a completion; the last part says why the choice ended."""

    text: str
    index: int
    logprobs: None = None
    finish_reason: str | None = None


@dataclass
class _Completion:
    """The choices of a completion, and how many tokens were read and written so far; for the artifact's thread."""

    prompts: Sequence[str]
    settings: GenerateSettings
    n: int  # choices of each prompt
    read: int = 0
    written: int = 0
    choices: list[_Part] = field(default_factory=list)  # at their ends

    @property
    def usage(self) -> dict[str, int]:
        """The numbers of tokens in the form of OpenAI."""
        return {
            "prompt_tokens": self.read, "completion_tokens": self.written, "total_tokens": self.read + self.written,
        }  # fmt: skip

    def parts(self, generation: Generation) -> Iterator[_Part]:
        """Yield the texts of a model's completions as they are written, prompt by prompt; the texts of targets come whole."""
        model = generation.language_model
        for first, prompt in zip(range(0, self.n * len(self.prompts), self.n), self.prompts, strict=True):
            self.read += len(model.encode(prompt))
            if model.writes_targets:
                found = _targets(generation, prompt, self.settings, self.n)
            else:
                writing = Writing(model, prompt, self.settings.model_copy(update={"samples": self.n}))
                for sample, text in writing.texts:
                    yield _Part(text, first + sample)
                found = [("", one.tokens, one.stopped) for one in writing.results()]
            for sample, (text, tokens, reason) in enumerate(found):
                self.written += tokens
                yield _Part(text, first + sample, finish_reason=_ENDS[reason])

    def finished(self, generation: Generation, deadline: float) -> Self:
        """Write all choices to their ends, and return the completion. Raises Refused: 503, the time is over."""
        self.choices = [_Part("", index) for index in range(self.n * len(self.prompts))]
        for part in self.parts(generation):
            self.choices[part.index] = replace(part, text=self.choices[part.index].text + part.text)
            if time.monotonic() > deadline:
                raise busy(503, "the completion was not ready in time")
        return self


def _targets(generation: Generation, prompt: str, settings: GenerateSettings, n: int) -> list[tuple[str, int, str]]:
    """Return the target texts that an encoder-decoder writes for a source text: text, tokens, reason of the end."""
    by_chance = {"samples": n} if settings.temperature else {"n_best": n}
    given = {name: getattr(settings, name) for name in settings.model_fields_set} | by_chance
    if not settings.temperature:
        given = {name: value for name, value in given.items() if name not in ("seed", "top_p")}
    (found,) = TargetWriter(generation.language_model, GenerateSettings.make(given)).write([prompt])
    return [(one.text, one.tokens, "eos" if one.finished else "length") for one in found.targets]


def _model(one: Served) -> dict[str, Any]:
    """Return a served artifact in the form of OpenAI's models."""
    generation = one.current
    return {
        "id": one.name, "object": "model", "created": int(generation.since), "owned_by": "wordpipe",
        "kind": generation.opened.kind, "can": [*generation.abilities], "digest": generation.digest,
    }  # fmt: skip
