"""Files of other programs, written by the shortest code that can."""

import base64


def sentencepiece_model(pieces):
    """A protobuf of pieces (field 1), each with its text (field 1)."""
    texts = [b"\n" + bytes([len(piece.encode())]) + piece.encode() for piece in pieces]
    return b"".join(b"\n" + bytes([len(text)]) + text for text in texts)


def tiktoken_file(tokens):
    return b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens))
