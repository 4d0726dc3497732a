"""Vectors of texts: OpenAI's `/v1/embeddings`, and `/embed` and `/info` of Hugging Face's text-embeddings-inference (TEI)."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wordpipe import __version__
from wordpipe.errors import ConfigError, WordpipeError
from wordpipe.sentences import check_finite
from wordpipe.web.replies import JSON, Params, Refused, bounded, field, json_body, json_reply, status_of
from wordpipe.web.served import Generation, Served, ServedArtifacts
from wordpipe.web.settings import ServeSettings

Floats = npt.NDArray[np.float32]

_IDS = (
    "token ids are not taken, as the vocabulary is another: send texts (LangChain's OpenAIEmbeddings does with "
    "check_embedding_ctx_length=False)"
)
_NAMED = 20  # inputs without a vector
_TEI_KINDS = {413: "Validation", 422: "Validation", 424: "Backend", 429: "Overloaded", 503: "Unhealthy"}


class EmbeddingsApi:
    """The endpoints, over the artifacts of a server."""

    def __init__(self, artifacts: ServedArtifacts, settings: ServeSettings) -> None:
        self._artifacts, self._settings = artifacts, settings
        self.routes = [
            Route("/v1/embeddings", self.embeddings, methods=["POST"]),
            Route("/embed", self.embed, methods=["POST"]),
            Route("/info", self.info, methods=["GET"]),
        ]

    async def embeddings(self, request: Request) -> Response:
        """Vectors of texts, as clients of OpenAI ask for them: as base64 of little-endian float32, or as numbers."""
        body = await json_body(request)
        texts = self._texts(body.get("input"), "input")
        form = field(body, "encoding_format", str, "float")
        if form not in ("float", "base64"):
            raise ConfigError("no such format", where="encoding_format", got=repr(form[:60]), expected="float, base64")
        Params(request)
        served, dimensions = self._artifacts.pick(field(body, "model", str), "embed"), field(body, "dimensions", int)
        with served.lease() as generation:
            rows, n_tokens = await _encoded(served, generation, texts, dimensions, as_base64=form == "base64")
        data = ",".join(
            f'{{"object":"embedding","index":{number},"embedding":{row}}}' for number, row in enumerate(rows)
        )
        usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
        about = f'"model":{json.dumps(served.name)},"usage":{json.dumps(usage)}'
        return Response(f'{{"object":"list","data":[{data}],{about}}}', media_type=JSON)

    async def embed(self, request: Request) -> Response:
        """Vectors of texts, as clients of text-embeddings-inference ask for them."""
        try:
            body = await json_body(request)
            texts = self._texts(body.get("inputs"), "inputs")
            if not field(body, "normalize", bool, default=True):
                hint = "leave normalize out"
                raise ConfigError(
                    "vectors have the length 1 here", where="normalize", got=False, expected=True, hint=hint
                )
            if field(body, "prompt_name", str):
                raise ConfigError(
                    "there are no prompts here", where="prompt_name", hint="put the prompt before the text"
                )
            field(body, "truncate", bool)  # a long text is read as `wordpipe embed` reads it, whatever this says
            params = Params(request)
            served, dimensions = self._artifacts.pick(params.optional("model"), "embed"), field(body, "dimensions", int)
            params.end()
            with served.lease() as generation:
                rows, _ = await _encoded(served, generation, texts, dimensions, as_base64=False)
        except (WordpipeError, Refused) as error:
            return _tei_error(error)
        return Response(f"[{','.join(rows)}]", media_type=JSON)

    async def info(self, request: Request) -> Response:
        """What TEI says of its model, of the first artifact that encodes texts."""
        params = Params(request)
        served = self._artifacts.pick(params.optional("model"), "embed")
        params.end()

        def answer(items: Sequence[None]) -> list[tuple[str, int]]:  # it may have to be read
            encoder: Any = generation.opened.encoder  # type: ignore[attr-defined]
            return [(encoder.pooling, encoder.dim)] * len(items)

        with served.lease() as generation:
            pooling, dim = await served.ask(generation, answer, None, key="info")
            about = {
                "model_id": served.name,
                "model_sha": generation.digest,
                "model_dtype": "float32",
                "model_type": {"embedding": {"pooling": pooling}},
                "max_concurrent_requests": self._settings.max_waiting,
                "max_input_length": self._settings.max_chars,
                "max_batch_tokens": self._settings.max_texts * self._settings.max_chars,
                "max_client_batch_size": self._settings.max_texts,
                "auto_truncate": True,
                "tokenization_workers": 1,
                "version": __version__,
                "dim": dim,
            }
        return json_reply(about)

    def _texts(self, given: Any, name: str) -> list[str]:
        """The texts of a body: one, or a list of them. Raises ConfigError, Refused: none, too many, too long, or ids."""
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list):
            raise ConfigError("not a text, nor a list of texts", where=name, expected="a text, or a list of texts")
        if any(isinstance(one, int | list) for one in texts[:1]):
            raise ConfigError(_IDS, where=name)
        if not all(isinstance(one, str) for one in texts):
            raise ConfigError("not a text, nor a list of texts", where=name, expected="a text, or a list of texts")
        if len(texts) > self._settings.max_texts:
            most = f"{len(texts):,} texts are more than {self._settings.max_texts:,}"
            raise Refused(413, most, hint="send fewer at a time")
        if not texts or not all(text.strip() for text in texts):
            raise ConfigError("a text is empty" if texts else "there is no text", where=name, hint="leave it out")
        for text in texts:
            bounded("characters of a text", len(text), 1, self._settings.max_chars)
        return texts


async def _encoded(
    served: Served, generation: Generation, texts: list[str], dimensions: int | None, *, as_base64: bool
) -> tuple[list[str], int]:
    """The vector of each text as JSON, a list of numbers or base64 of little-endian float32; and how many tokens were read.

    Raises:
        Refused: 422, texts have no vector, with their numbers: zeros would be taken for one.
        ConfigError: no such number of dimensions.
    """

    def answer(items: Sequence[list[str]]) -> list[tuple[list[str], int, list[int]]]:
        encoder: Any = generation.opened.encoder  # type: ignore[attr-defined]
        # half letters have no UTF-8
        printed = [text.encode("utf-8", "replace").decode() for item in items for text in item]
        if dimensions is not None:
            bounded("dimensions", dimensions, 1, encoder.dim)
        vectors_ND: Floats = encoder.encode(printed).vectors  # of a text without a vector zeros
        check_finite(vectors_ND, printed, "encoder", "train it again")
        if dimensions is not None and dimensions < vectors_ND.shape[1]:
            vectors_ND = shortened(vectors_ND, dimensions)
        empty_N = np.logical_not(vectors_ND.any(axis=1))
        rows = [_as_base64(row) if as_base64 else json.dumps(row.tolist()) for row in vectors_ND]
        lengths_N = encoder.lengths(printed)
        ends = np.cumsum([len(item) for item in items]).tolist()
        parts = [slice(end - len(item), end) for item, end in zip(items, ends, strict=True)]
        return [
            (rows[part], int(lengths_N[part].sum()), (np.flatnonzero(empty_N[part]) + 1).tolist()) for part in parts
        ]

    key = ("embed", dimensions, as_base64)
    rows, n_tokens, without = await served.ask(generation, answer, texts, key=key, weight=len(texts))
    if without:
        raise _no_vector(texts, without)
    return rows, n_tokens


def _no_vector(texts: Sequence[str], without: Sequence[int]) -> Refused:
    """The refusal of texts without a vector, by their numbers, from 1."""
    if len(texts) == 1:
        return Refused(422, "the text has no vector: none of its words is known", hint="ask with other words")
    some = ", ".join(f"{number:,}" for number in without[:_NAMED]) + (", …" if len(without) > _NAMED else "")
    what = f"{len(without):,} of {len(texts):,} texts have no vector, as none of their words is known: input {some}"
    return Refused(422, f"{what} (counted from 1)", hint="send the others again without them")


def shortened(vectors_ND: Floats, dimensions: int) -> Floats:
    """The first numbers of each vector, at length 1 again, (n, dimensions); of zeros zeros."""
    cut = vectors_ND[:, :dimensions]
    lengths = np.linalg.norm(cut, axis=1, keepdims=True)
    found: Floats = np.divide(cut, lengths, out=np.zeros_like(cut), where=lengths > 0)
    return found


def _as_base64(row: Floats) -> str:
    return f'"{base64.b64encode(row.astype("<f4").tobytes()).decode()}"'


def _tei_error(error: WordpipeError | Refused) -> Response:
    """An error in the form of text-embeddings-inference, whose statuses are 413, 422, 424, 429."""
    if isinstance(error, Refused):
        status = 424 if error.status in (400, 404) else error.status
        message, hint, headers = error.message, error.hint, error.headers
    else:
        status, message, hint, headers = status_of(error), error.message, error.hint, {}
        status = 422 if status == 400 else status
    said = f"{message}; {hint}" if hint else message
    return json_reply({"error": said, "error_type": _TEI_KINDS.get(status, "Validation")}, status, headers)
