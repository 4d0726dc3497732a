"""`wordpipe show --text`: a text as an artifact's tokenizer cuts it."""

from typing import Any

from tokenizers import Encoding, Tokenizer

from wordpipe.artifacts import TOKENIZER, Artifact
from wordpipe.errors import ArtifactError
from wordpipe.stages.job import PathLike
from wordpipe.tokens import is_byte_level, open_tokenizer, token_bytes, unknown_token, vocabulary_of


def segment(path: PathLike, text: str) -> dict[str, Any]:
    """Cut a text into tokens; special tokens are not added.

    Args:
        path: an artifact with a tokenizer: tokens, words or model.
        text: the text.

    Returns:
        path, text, tokens (as the vocabulary spells them), ids, offsets (pairs of positions in the text, in characters),
        pieces (as a reader would write them: what each stands for, with a space where a word begins, parts of a character as
        `<E6>`), special and unknown (one bool per token).

    Raises:
        ArtifactError: no artifact, or none with a tokenizer.
    """
    with Artifact(path, verify=False) as artifact:
        if TOKENIZER not in artifact.names():
            article = "an" if artifact.kind == "index" else "a"
            raise ArtifactError(
                f"{article} {artifact.kind} artifact has no tokenizer", where=str(path), expected="tokens, words or model",
                hint="name a tokens artifact",
            )  # fmt: skip
        tokenizer = open_tokenizer(artifact.read(TOKENIZER), where=str(path))
    text = text.encode("utf-8", "replace").decode()
    encoding = tokenizer.encode(text, add_special_tokens=False)
    special, unknown = vocabulary_of(tokenizer).special, unknown_token(tokenizer)
    is_unknown = [number == unknown for number in encoding.ids]
    return {
        "path": str(path),
        "text": text,
        "tokens": encoding.tokens,
        "ids": encoding.ids,
        "offsets": [list(pair) for pair in encoding.offsets],
        "pieces": _pieces(tokenizer, encoding, text, is_unknown),
        "special": [bool(special[number]) and number != unknown for number in encoding.ids],
        "unknown": is_unknown,
    }


def _pieces(tokenizer: Tokenizer, encoding: Encoding, text: str, is_unknown: list[bool]) -> list[str]:
    byte_level = is_byte_level(tokenizer)
    return [
        text[start:end] if unknown else _spelled_bytes(token) if byte_level else token.replace("▁", " ")
        for token, (start, end), unknown in zip(encoding.tokens, encoding.offsets, is_unknown, strict=True)
    ]


def _spelled_bytes(token: str) -> str:
    if (data := token_bytes(token, byte_level=True)) is None:  # a special token
        return token
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "".join(f"<{byte:02X}>" if byte > 0x7F else chr(byte) for byte in data)
