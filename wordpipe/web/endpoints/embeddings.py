"""Vectors of texts: OpenAI's `/v1/embeddings`, and `/embed` and `/info` of Hugging Face's text-embeddings-inference (TEI)."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from starlette.responses import Response

from wordpipe import __version__
from wordpipe.encoders import check_finite
from wordpipe.errors import ConfigError, WordpipeError
from wordpipe.web.endpoint import Answer, At, Endpoint, artifact_param, endpoint, param
from wordpipe.web.params import FLAG, MAP, TEXT, WHOLE, bounded, fields, listing, one_or_more, said_schema
from wordpipe.web.replies import JSON, Refused, json_reply, status_of
from wordpipe.web.settings import ServeSettings

Floats = npt.NDArray[np.float32]

_IDS = (
    "token ids are not accepted, because this model has another vocabulary; send texts (LangChain's OpenAIEmbeddings "
    "sends texts with check_embedding_ctx_length=False)"
)
_NAMED = 20  # inputs without a vector
_TEI_KINDS = {413: "Validation", 422: "Validation", 424: "Backend", 429: "Overloaded", 503: "Unhealthy"}
_NUMBERS = {"type": "array", "items": {"type": "number"}}
_EMBEDDINGS = Answer("Embeddings", fields({
    "object": {"const": "list"}, "model": TEXT, "usage": fields({"prompt_tokens": WHOLE, "total_tokens": WHOLE}),
    "data": listing(fields({
        "object": {"const": "embedding"}, "index": WHOLE, "embedding": {"anyOf": [TEXT, _NUMBERS]},
    })),
}))  # fmt: skip
_INFO = Answer("Info", fields({
    "model_id": TEXT, "model_sha": TEXT, "model_dtype": TEXT, "model_type": MAP, "max_concurrent_requests": WHOLE,
    "max_input_length": WHOLE, "max_batch_tokens": WHOLE, "max_client_batch_size": WHOLE, "auto_truncate": FLAG,
    "tokenization_workers": WHOLE, "version": TEXT, "dim": WHOLE,
}))  # fmt: skip


TEI_ERROR = Answer("TeiError", fields({"error": TEXT, "error_type": TEXT}))


def _texts_param(name: str) -> Any:
    """Declare texts to embed: one, or a list. Raises ConfigError, Refused: none, too many, too long, ids."""

    def check(given: Any, settings: ServeSettings) -> list[str]:
        texts = [given] if isinstance(given, str) else given
        if isinstance(texts, list) and any(isinstance(one, int | list) for one in texts[:1]):
            raise ConfigError(_IDS, where=name)
        if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
            raise ConfigError(
                "the value is not a text or a list of texts", where=name, expected="a text, or a list of texts"
            )
        return checked_texts(texts, name, settings)

    return param(
        text="a text or a list of texts", example=["salt and water"], each=True, check=check,
        schema=lambda settings: one_or_more(said_schema(settings), settings.max_texts),
    )  # fmt: skip


def checked_texts(texts: list[str], name: str, settings: ServeSettings) -> list[str]:
    """Return the texts of a request. Raises ConfigError, Refused: none, too many, an empty one, or too long."""
    if len(texts) > settings.max_texts:
        what = f"the request has {len(texts):,} texts, but at most {settings.max_texts:,} are allowed"
        raise Refused(413, what, hint="send fewer texts in one request")
    if not texts or not all(text.strip() for text in texts):
        what = "a text is empty" if texts else "there is no text"
        raise ConfigError(what, where=name, hint="send texts that are not empty")
    for text in texts:
        bounded("characters of a text", len(text), 1, settings.max_chars)
    return texts


def _dimensions_param() -> Any:
    """Declare the parameter `dimensions` of the endpoints for vectors."""
    shown = (
        "number of dimensions; only the first dimensions of each vector are kept, and the vector is scaled to length 1"
    )
    return param(None, shown, schema={"type": "integer", "minimum": 1})


@dataclass(frozen=True)
class _Encoded:
    """The vectors of one request's texts."""

    rows: list[str]  # each as JSON
    n_tokens: int  # that were read


def tei_error(error: WordpipeError | Refused) -> Response:
    """Return an error in the form of text-embeddings-inference, whose statuses are 413, 422, 424, 429."""
    if isinstance(error, Refused):
        status = 424 if error.status in (400, 404) else error.status
        message, hint, headers = error.message, error.hint, error.headers
    else:
        status, message, hint, headers = status_of(error), error.message, error.hint, {}
        status = 422 if status == 400 else status
    said = f"{message}; {hint}" if hint else message
    return json_reply({"error": said, "error_type": _TEI_KINDS.get(status, "Validation")}, status, headers)


@endpoint(
    "/v1/embeddings",
    group="Vectors and ranking",
    place=1,
    can="embed",
    answer=_EMBEDDINGS,
    methods=["POST"],
    others=True,
)
class Embeddings(Endpoint):
    """Vectors of texts."""

    input: list[str] = _texts_param("input")
    model: str | None = artifact_param("an encoder of texts")
    dimensions: int | None = _dimensions_param()
    encoding_format: Literal["float", "base64"] = param(
        "float", "format of the vectors; float: a list of numbers; base64: little-endian float32 in base64"
    )
    user: str | None = param(None, "has no effect")

    @property
    def weight(self) -> int:
        """The number of texts to encode in the request."""
        return len(self.input)

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> list[_Encoded | Refused]:
        """Return the vectors of each request's texts."""
        as_base64 = items[0].encoding_format == "base64"
        return _encoded(at.opened.encoder, [one.input for one in items], items[0].dimensions, as_base64=as_base64)

    def reply(self, at: At, found: _Encoded) -> Response:
        """Return embeddings in the form of OpenAI."""
        data = ",".join(
            f'{{"object":"embedding","index":{number},"embedding":{row}}}' for number, row in enumerate(found.rows)
        )
        usage = {"prompt_tokens": found.n_tokens, "total_tokens": found.n_tokens}
        about = f'"model":{json.dumps(at.served.name)},"usage":{json.dumps(usage)}'
        return Response(f'{{"object":"list","data":[{data}],{about}}}', media_type=JSON)


@endpoint(
    "/embed", group="Vectors and ranking", can="embed", answer=Answer("Vectors", listing(_NUMBERS)), methods=["POST"],
    others=True, refuse=tei_error, error=TEI_ERROR,
)  # fmt: skip
class Embed(Endpoint):
    """Vectors of texts."""

    inputs: list[str] = _texts_param("inputs")
    model: str | None = artifact_param("an encoder of texts", at="url")
    dimensions: int | None = _dimensions_param()
    normalize: bool = param(True, "must be true, because all vectors have length 1", schema={"const": True})
    truncate: bool = param(False, "has no effect, because long texts are encoded as in `wordpipe embed`")
    prompt_name: str | None = param(None, "not supported, because wordpipe has no named prompts", schema={"const": ""})

    def validate(self) -> None:
        """Refuse parameters of text-embeddings-inference that wordpipe does not support. Raises ConfigError."""
        if not self.normalize:
            hint = "leave normalize out"
            raise ConfigError("all vectors have length 1", where="normalize", got=False, expected=True, hint=hint)
        if self.prompt_name:
            raise ConfigError(
                "wordpipe has no named prompts", where="prompt_name", hint="put the prompt before the text"
            )

    @property
    def weight(self) -> int:
        """The number of texts to encode in the request."""
        return len(self.inputs)

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> list[_Encoded | Refused]:
        """Return the vectors of each request's texts."""
        return _encoded(at.opened.encoder, [one.inputs for one in items], items[0].dimensions, as_base64=False)

    def reply(self, at: At, found: _Encoded) -> Response:
        """Return the reply in the form of text-embeddings-inference."""
        return Response(f"[{','.join(found.rows)}]", media_type=JSON)


@endpoint("/info", group="Vectors and ranking", can="embed", answer=_INFO, methods=["GET"])
class Info(Endpoint):
    """Facts about the encoder of an artifact."""

    model: str | None = artifact_param("an encoder of texts")

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> list[tuple[str, int]]:
        """Return the pooling and the dimensions of the encoder, which may have to be read first."""
        encoder = at.opened.encoder
        return [(encoder.pooling, encoder.dim)] * len(items)

    def reply(self, at: At, found: tuple[str, int]) -> dict[str, Any]:
        """Return the facts that text-embeddings-inference gives of its model."""
        (pooling, dim), limits = found, at.server.settings
        return {
            "model_id": at.served.name,
            "model_sha": at.generation.digest,
            "model_dtype": "float32",
            "model_type": {"embedding": {"pooling": pooling}},
            "max_concurrent_requests": limits.max_waiting,
            "max_input_length": limits.max_chars,
            "max_batch_tokens": limits.max_texts * limits.max_chars,
            "max_client_batch_size": limits.max_texts,
            "auto_truncate": True,
            "tokenization_workers": 1,
            "version": __version__,
            "dim": dim,
        }


def _encoded(
    encoder: Any, items: Sequence[list[str]], dimensions: int | None, *, as_base64: bool
) -> list[_Encoded | Refused]:
    """Return the embeddings of each list of texts, or a refusal (422) that names texts without one.

    Raises:
        ConfigError: no such number of dimensions.
    """
    # half letters have no UTF-8
    printed = [text.encode("utf-8", "replace").decode() for item in items for text in item]
    if dimensions is not None:
        bounded("dimensions", dimensions, 1, encoder.dim)
    vectors_ND: Floats = encoder.encode(printed).vectors  # of a text without a vector zeros
    check_finite(vectors_ND, printed, "encoder", "train the encoder again")
    if dimensions is not None and dimensions < vectors_ND.shape[1]:
        vectors_ND = shortened(vectors_ND, dimensions)
    # each request's part
    empty_N = np.logical_not(vectors_ND.any(axis=1))
    rows = [
        f'"{base64.b64encode(row.astype("<f4").tobytes()).decode()}"' if as_base64 else json.dumps(row.tolist())
        for row in vectors_ND
    ]
    lengths_N = encoder.lengths(printed)
    found, first = list[_Encoded | Refused](), 0
    for item in items:
        part = slice(first, first := first + len(item))
        without = (np.flatnonzero(empty_N[part]) + 1).tolist()
        found.append(_no_vector(item, without) if without else _Encoded(rows[part], int(lengths_N[part].sum())))
    return found


def _no_vector(texts: Sequence[str], without: Sequence[int]) -> Refused:
    """Return the refusal of a request for embeddings of texts that have none, by their numbers.

    It names them by their numbers, from 1.
    """
    if len(texts) == 1:
        return Refused(
            422, "the text has no vector, because the encoder knows no word of the text", hint="use other words"
        )
    some = ", ".join(f"{number:,}" for number in without[:_NAMED]) + (", …" if len(without) > _NAMED else "")
    what = f"{len(without):,} of {len(texts):,} texts have no vector, because the encoder knows no word of them: input {some}"
    return Refused(422, f"{what} (counted from 1)", hint="send the request again without these texts")


def shortened(vectors_ND: Floats, dimensions: int) -> Floats:
    """Return the first numbers of each embedding, at length 1 again, (n, dimensions); of zeros zeros."""
    cut = vectors_ND[:, :dimensions]
    lengths = np.linalg.norm(cut, axis=1, keepdims=True)
    found: Floats = np.divide(cut, lengths, out=np.zeros_like(cut), where=lengths > 0)
    return found
