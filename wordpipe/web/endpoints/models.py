"""The API over models: `/fill`, `/predict`, and OpenAI's `/v1/completions` and `/v1/models`."""

import secrets
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wordpipe.errors import ConfigError
from wordpipe.model.settings import FillSettings, GenerateSettings
from wordpipe.stages import Predictor, TargetWriter, Writing, filler_of
from wordpipe.web.endpoints.search import checked_text
from wordpipe.web.replies import EventReply, Params, bounded, busy, field, json_body, json_reply
from wordpipe.web.served import Generation, Served, ServedArtifacts
from wordpipe.web.settings import ServeSettings

MAX_CANDIDATES = 100  # of a mask
MAX_TOKENS = 4_096  # of a completion
MAX_PROMPTS = 32  # and completions of each
MAX_STOPS = 16
_OF_CHANCE = ("temperature", "top_p")
_NOT_OURS = ("echo", "logprobs", "suffix", "best_of", "logit_bias", "presence_penalty", "frequency_penalty")
_LEFT_TO_SAY = 0.95  # of the seconds of a request: a stream then says that it ends, before the guard cuts it
_ENDS = {"eos": "stop", "string": "stop", "length": "length"}
TEXTS_NOT_IDS = "token ids are not taken: send texts"


class ModelsApi:
    """The endpoints, over the artifacts of a server."""

    def __init__(self, artifacts: ServedArtifacts, settings: ServeSettings) -> None:
        self._artifacts, self._settings = artifacts, settings
        self.routes = [
            Route("/fill", self.fill, methods=["GET"]),
            Route("/predict", self.predict, methods=["GET"]),
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/models", self.models, methods=["GET"]),
            Route("/v1/models/{name}", self.model, methods=["GET"]),
        ]

    async def fill(self, request: Request) -> Response:
        """The candidates for the masked positions of a text, as `wordpipe fill --json` has them."""
        params = Params(request)
        text, served = self._text(params.text("text")), self._artifacts.pick(params.optional("model"), "fill")
        top_k = params.whole("top_k", 5, 1, MAX_CANDIDATES) or 1
        params.end()

        def answer(items: Sequence[str]) -> list[dict[str, Any]]:
            settings = FillSettings(top_k=top_k)
            filler = generation.remember(("filler", top_k), lambda: filler_of(generation.language_model, settings))
            return [{"mask": filler.mask, **asdict(filler.fill(item))} for item in items]

        with served.lease() as generation:
            found = await served.ask(generation, answer, text, key=("fill", top_k))
        return json_reply(_named(served, generation) | found)

    async def predict(self, request: Request) -> Response:
        """What a model with a head says of a text or a pair, as `wordpipe predict --json` has it."""
        params = Params(request)
        text, second = self._text(params.text("text")), params.optional("second")
        served = self._artifacts.pick(params.optional("model"), "predict")
        params.end()
        item = text if second is None else (text, self._text(second))

        def answer(items: Sequence[str | tuple[str, str]]) -> list[dict[str, Any]]:
            predictor = generation.predictor
            return [_said(predictor, *predictor.predict([one])) for one in items]

        with served.lease() as generation:
            found = await served.ask(generation, answer, item, key="predict")
        return json_reply({**_named(served, generation), "text": item, **found})

    async def completions(self, request: Request) -> Response:
        """Texts that a model goes on with, or target texts; the fields that OpenAI's clients send.

        With `stream` they come as server-sent events while they are written.
        """
        Params(request)
        body = await json_body(request)
        prompts, settings, n = self._asked(body)
        served = self._artifacts.pick(field(body, "model", str), "complete")
        about = {"id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion", "created": int(time.time())}
        about["model"] = served.name
        streams, with_usage = _how_streamed(body)
        if streams:
            events = self._events(served, _Completion(prompts, settings, n), about, with_usage=with_usage)
            return EventReply(await anext(events), events)
        deadline = time.monotonic() + self._settings.timeout

        def answer(items: Sequence[list[str]]) -> list[dict[str, Any]]:
            return [_Completion(item, settings, n).whole(generation, deadline) for item in items]

        with served.lease() as generation:
            found = await served.ask(generation, answer, prompts, key=object())
        return json_reply({**about, **found})

    async def _events(
        self, served: Served, completion: "_Completion", about: Mapping[str, Any], *, with_usage: bool
    ) -> AsyncGenerator[Any, None]:
        """The objects of a streamed completion, each asked of the artifact's thread when the one before has been sent.

        Other requests are answered in between, and where nobody takes the next object, nothing more is written.
        """
        deadline = time.monotonic() + _LEFT_TO_SAY * self._settings.timeout
        unused = {"usage": None} if with_usage else {}
        with served.lease() as generation:
            parts = completion.parts(generation)
            while part := await served.ask(generation, _next_parts, parts, key=object()):
                yield {**about, "choices": [asdict(part)], **unused}
                if time.monotonic() > deadline:
                    raise busy(503, "the completion was not ready in time")
        if with_usage:
            yield {**about, "choices": [], "usage": completion.usage}

    async def models(self, request: Request) -> Response:
        """The artifacts, as OpenAI lists models."""
        Params(request).end()
        return json_reply({"object": "list", "data": [_model(one) for one in self._artifacts.by_name.values()]})

    async def model(self, request: Request) -> Response:
        """One of them."""
        name = request.path_params["name"]
        one = self._artifacts.by_name.get(name)
        return json_reply(_model(one or self._artifacts.pick(name, "embed")))

    def _asked(self, body: Mapping[str, Any]) -> tuple[list[str], GenerateSettings, int]:
        """The prompts, the settings of `wordpipe generate`, and how many texts for each prompt."""
        for name in _NOT_OURS:
            if body.get(name) not in (None, False, 0, 1 if name == "best_of" else None, {}, ""):
                raise ConfigError("not taken here", where=name, got=repr(body[name])[:60], hint=f"leave {name} out")
        given = body.get("prompt")
        prompts = [given] if isinstance(given, str) else given
        if not isinstance(prompts, list) or not prompts or not all(isinstance(one, str) for one in prompts):
            raise ConfigError("not a text, nor a list of texts", where="prompt", hint=TEXTS_NOT_IDS)
        bounded("prompt", len(prompts), 1, MAX_PROMPTS)
        for prompt in prompts:
            bounded("characters of a prompt", len(prompt), 0, self._settings.max_chars)
        n = bounded("n", field(body, "n", int, 1), 1, MAX_PROMPTS)
        stop = body.get("stop") or []
        stops = [stop] if isinstance(stop, str) else stop
        if (
            not isinstance(stops, list)
            or not all(isinstance(one, str) and one for one in stops)
            or len(stops) > MAX_STOPS
        ):
            raise ConfigError("not a text, nor a list of texts", where="stop", expected=f"at most {MAX_STOPS}")
        values: dict[str, Any] = {name: field(body, name, float) for name in _OF_CHANCE if body.get(name) is not None}
        if body.get("max_tokens") is not None:
            values["max_tokens"] = bounded("max_tokens", field(body, "max_tokens", int), 1, MAX_TOKENS)
        seed = field(body, "seed", int)
        values["seed"] = secrets.randbits(31) if seed is None else seed % (1 << 32)
        return prompts, GenerateSettings.make({"stop": tuple(stops), **values}), n

    def _text(self, text: str) -> str:
        return checked_text(text, "the text", self._settings.max_chars)


@dataclass(frozen=True, slots=True)
class _Part:
    """What one choice of a completion gains; with its last part why it ended."""

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

    @property
    def usage(self) -> dict[str, int]:
        """The tokens, as OpenAI counts them."""
        return {
            "prompt_tokens": self.read, "completion_tokens": self.written, "total_tokens": self.read + self.written,
        }  # fmt: skip

    def parts(self, generation: Generation) -> Iterator[_Part]:
        """The texts as they are written, those of one prompt after those of the other; the texts of targets come whole."""
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

    def whole(self, generation: Generation, deadline: float) -> dict[str, Any]:
        """The choices at their end, and the usage. Raises Refused: 503, the time is over."""
        choices = [{"text": "", "index": index, "logprobs": None} for index in range(self.n * len(self.prompts))]
        for part in self.parts(generation):
            choice: dict[str, Any] = choices[part.index]
            choice |= {"text": choice["text"] + part.text, "finish_reason": part.finish_reason}
            if time.monotonic() > deadline:
                raise busy(503, "the completion was not ready in time")
        return {"choices": choices, "usage": self.usage}


def _next_parts(items: Sequence[Iterator[_Part]]) -> list[_Part | None]:
    return [next(parts, None) for parts in items]


def _how_streamed(body: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether the texts are sent as they are written, and whether their tokens are counted at the end."""
    streams, options = field(body, "stream", bool, False), field(body, "stream_options", dict, {})
    if options and not streams:
        raise ConfigError("only with stream", where="stream_options", hint="leave stream_options out, or set stream")
    return streams, field(options, "include_usage", bool, False)


def _targets(generation: Generation, prompt: str, settings: GenerateSettings, n: int) -> list[tuple[str, int, str]]:
    by_chance = {"samples": n} if settings.temperature else {"n_best": n}
    given = {name: getattr(settings, name) for name in settings.model_fields_set} | by_chance
    if not settings.temperature:
        given = {name: value for name, value in given.items() if name not in ("seed", "top_p")}
    (found,) = TargetWriter(generation.language_model, GenerateSettings.make(given)).write([prompt])
    return [(one.text, one.tokens, "eos" if one.finished else "length") for one in found.targets]


def _said(predictor: Predictor, found: Any) -> dict[str, Any]:
    values = {name: value for name, value in asdict(found).items() if value is not None}
    if "probabilities" in values:
        known = dict(zip(predictor.labels, values["probabilities"], strict=False))
        values["probabilities"] = {name: round(value, 6) for name, value in known.items()}
    return values


def _named(served: Served, generation: Generation) -> dict[str, str]:
    return {"model": served.name, "digest": generation.digest}


def _model(one: Served) -> dict[str, Any]:
    generation = one.current
    return {
        "id": one.name, "object": "model", "created": int(generation.since), "owned_by": "wordpipe",
        "kind": generation.opened.kind, "can": [*generation.abilities], "digest": generation.digest,
    }  # fmt: skip
