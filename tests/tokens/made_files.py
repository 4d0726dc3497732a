"""Files of other programs, written by the shortest code that can, and slow twins of what those programs do with them."""

import base64
import struct

UNIGRAM, BPE, WORD, CHAR = 1, 2, 3, 4
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
HEAD = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
BYTES = [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece_model(
    pieces, algorithm=UNIGRAM, *, charsmap=b"", dummy_prefix=True, squeeze=True, suffix=False, escape=True
):
    listed = [field(1, text.encode()) + field(2, float(score)) + field(3, kind) for text, score, kind in pieces]
    trainer = field(3, algorithm) + field(24, int(suffix)) + field(4, 8000)
    normalizer = field(1, b"made") + field(2, charsmap) + field(3, int(dummy_prefix)) + field(4, int(squeeze))
    return (
        b"".join(field(1, piece) for piece in listed) + field(2, trainer) + field(3, normalizer + field(5, int(escape)))
    )


def sentencepiece_text(text, *, dummy_prefix=True, squeeze=True):
    """How sentencepiece writes a text before cutting it, without a normalisation table."""
    if squeeze:
        text = " ".join(part for part in text.split(" ") if part)
    text = ("▁" if dummy_prefix and text else "") + text.replace(" ", "▁")
    return text.rstrip("▁") if squeeze else text


def fused(pieces, known):
    """Neighbours that are not known become one unknown token."""
    out = []
    for piece in pieces:
        name = piece if piece in known else "<unk>"
        if not (name == "<unk>" and out[-1:] == ["<unk>"]):
            out.append(name)
    return out


def best_cut(text, scores):
    """The score of the best cut by trying all, over a text that is already written as sentencepiece writes it."""
    best = [0.0]
    for end in range(1, len(text) + 1):
        pieces = ((start, text[start:end]) for start in range(end))
        best.append(
            max(best[at] + score_of(piece, scores) for at, piece in pieces if piece in scores or len(piece) == 1)
        )
    return best[-1]


def score_of(piece, scores):
    """Of a piece, or of so many unknown characters."""
    return scores[piece] if piece in scores else len(piece) * (min(scores.values()) - 10)


def joined(symbols, ranks):
    """BPE as tiktoken and sentencepiece have it: of all neighbours that are a token together, the lowest rank first."""
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
