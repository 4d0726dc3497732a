"""Reading a map's page back: as a browser's parser sees it, and its data as arrays."""

import json
from base64 import b64decode
from html.parser import HTMLParser

import numpy as np


class Page(HTMLParser):
    """The elements of a page with their attributes, and the text of each script, style and title."""

    def __init__(self, page: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open = ""
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open = tag if tag in ("script", "style", "title", "h1", "p") else ""
        if self._open:
            self.texts.append((tag, ""))

    def handle_endtag(self, tag):
        if tag == self._open:
            self._open = ""

    def handle_data(self, data):
        if self._open:
            self.texts[-1] = (self._open, self.texts[-1][1] + data)

    def texts_of(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]

    @property
    def data(self) -> dict:
        """What the script reads, arrays unpacked."""
        data = json.loads(self.texts_of("script")[0])
        k = data["k"]
        for name, dtype, width in (("places", "<u2", 2), ("neighbours", "<u2", k), ("cosines", "i1", k)):
            data[name] = np.frombuffer(b64decode(data[name]), dtype).reshape(-1, width or 1)
        data["groups"] = np.frombuffer(b64decode(data["groups"]), np.uint8)
        return data
