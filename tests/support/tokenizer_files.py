"""Files of other programs, written by the shortest code that can, and a slow twin of what tiktoken does with them."""

import base64


def sentencepiece_model(pieces):
    """A protobuf of pieces (field 1), each with its text (field 1)."""
    texts = [b"\n" + bytes([len(piece.encode())]) + piece.encode() for piece in pieces]
    return b"".join(b"\n" + bytes([len(text)]) + text for text in texts)


def joined(symbols, ranks):
    """BPE as tiktoken has it: of all neighbours that are a token together, the lowest rank first."""
    parts = list(symbols)
    while True:
        ways = [
            (ranks[parts[at] + parts[at + 1]], at) for at in range(len(parts) - 1) if parts[at] + parts[at + 1] in ranks
        ]
        if not ways:
            return parts
        _, at = min(ways)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def tiktoken_file(tokens):
    return b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens))


def tiktoken_ids(text, pattern, ranks):
    """What tiktoken's `encode_ordinary` gives."""
    import regex

    ids = []
    for match in regex.finditer(pattern, text):
        piece = match[0].encode()
        parts = [piece] if piece in ranks else joined([bytes([byte]) for byte in piece], ranks)
        ids += [ranks[part] for part in parts]
    return ids
