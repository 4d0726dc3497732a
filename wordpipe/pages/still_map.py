"""A still map for a browser without a script: a picture of its points, and the names of the points of each group.

Shapes: N points.
"""

import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from wordpipe.pages.markup import shown

_WIDE = 900, 620  # of the picture, at most
_EDGE = 8  # around it
_INKS = "a6373f b04c13 8f5c00 736300 536e06 007a3c 007d79 007b9f 0069b0 325fb5 7659b9 9c4a96"  # of page.css, in light
_LISTED = 30  # names of each group


def still_map(
    title: str, names: Sequence[str], places_N2: npt.NDArray[np.uint16], colours_N: npt.NDArray[np.integer],
    labels: Mapping[int, str], address: Callable[[int], str],
) -> str:  # fmt: skip
    """Return the HTML of a still map.

    Args:
        title: of the map.
        names: N, of the points.
        places_N2: as on the map.
        colours_N: of the points.
        labels: colour → its meaning, in the order of the groups.
        address: takes the number of a point and gives the address of its page; empty: it has none.
    """
    parts = [f'<p><img alt="{shown(title)}" src="{_picture(places_N2, colours_N.astype(np.uint8))}"></p>']
    for colour, label in labels.items():
        members = np.flatnonzero(colours_N == colour)
        items = []
        for number in members[:_LISTED].tolist():
            name, to = f"<bdi>{shown(names[number])}</bdi>", shown(address(number))
            items.append(f'<li><a href="{to}">{name}</a></li>' if to else f"<li>{name}</li>")
        more = f"<li>and {len(members) - _LISTED:,} more</li>" if len(members) > _LISTED else ""
        head = f'<summary><i class="c{colour}"></i><bdi>{shown(label)}</bdi> ({len(members):,})</summary>'
        parts.append(f"<details>{head}<ul>{''.join(items)}{more}</ul></details>")
    return "".join(parts)


def _picture(places_N2: npt.NDArray[np.uint16], colours_N: npt.NDArray[np.uint8]) -> str:
    """Return a picture of the points of a map, PNG with a palette as a data URL; what is not a point is transparent.

    Source: W3C, Portable Network Graphics (PNG) Specification.
    """
    low, high = places_N2.min(axis=0).astype(np.int64), places_N2.max(axis=0).astype(np.int64)
    scale = min((side - 2 * _EDGE) / max(1, reach) for side, reach in zip(_WIDE, (high - low).tolist(), strict=True))
    at_N2 = np.rint((places_N2 - low) * scale).astype(np.int64) + _EDGE
    wide, tall = at_N2.max(axis=0) + 1 + _EDGE
    pixels = np.zeros((tall, wide + 1), np.uint8)  # the first byte of a line says that it is not filtered
    for dx, dy in ((0, 0), (1, 0), (0, 1), (1, 1)):
        pixels[at_N2[:, 1] + dy, at_N2[:, 0] + dx + 1] = colours_N + 1
    palette = b"\0\0\0" + bytes.fromhex(_INKS.replace(" ", ""))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", wide, tall, 8, 3, 0, 0, 0)
    parts = [
        (b"IHDR", head),
        (b"PLTE", palette),
        (b"tRNS", b"\0"),
        (b"IDAT", zlib.compress(pixels.tobytes(), 9)),
        (b"IEND", b""),
    ]
    data = b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, part) for kind, part in parts)
    return f"data:image/png;base64,{b64encode(data).decode()}"
