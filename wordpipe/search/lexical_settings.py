"""Settings of lexical search, which an index carries beside its vectors."""

from typing import Literal

from wordpipe.settings import Settings, setting

__all__ = ["Language", "LexicalSettings"]

Language = Literal[
    "auto", "none", "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french", "german",
    "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian", "portuguese",
    "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish", "yiddish",
]  # fmt: skip


class LexicalSettings(Settings):
    """How texts are found by their words: BM25 over stems, as Lucene scores it."""

    language: Language = setting(
        "auto",
        "whose endings are cut off words (Snowball); auto: English where the texts look so, else none",
        section="Lexical search",
    )
    k1: float = setting(
        1.2, "BM25: how soon a word that comes again in a text stops counting", ge=0, le=10, expert=True
    )
    b: float = setting(0.75, "BM25: how much a long text pays for its length; 0 = nothing", ge=0, le=1, expert=True)
