"""The language of texts, recognised by their small words."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import islice

from wordpipe.search.analysis.stop_words import WORDS, listed, stop_words
from wordpipe.search.analysis.terms import words_of

_OTHERS = {
    "afrikaans": "die en van in is nie het dat vir om te met sy as word ook aan op hierdie was wat moet kan",
    "bulgarian": "на и да се за от с по не е са като че ще или при това този към със във която който бъде",
    "czech": "a se v na je že o do s z i k pro ve za by jsou jako po nebo od při není ale který která které byl jen",
    "esperanto": "la de kaj en ne al por estas kun aŭ ke ĉi el tiu ĝi per ni vi mi kiu",
    "estonian": "ja on ei ka et see oli kui või ning mis ta aga seda mida nii oma ole kes",
    "galician": "o a e de que do da en un unha dos das para con non se na no por ao os as máis como é está xa foi polo pola",
    "icelandic": "og að í á er til um við sem ekki en það var með fyrir af hann eru frá eða úr þú",
    "latvian": "un ir ar no uz par ka nav vai kas tiek pie pēc bet lai kā tas šo arī ja",
    "macedonian": "на и да се за од со не е во што или како ќе кој која ова оваа при но беше",
    "polish": "i w nie na się z do że o jest to jak za od po przez dla nie ma są oraz lub przy ale czy który",
    "slovak": "a sa v na je že s z o do pre nie sú ako alebo pri po ale ktorý ktorá ktoré bol nebol nie je od",
    "slovene": "in je na za se da so ni v z po s ki bi od pri kot ali ter bo biti to tudi ne iz",
    "ukrainian": "і в на та що не з до у як це за від є для його або чи про який яка але бути й",
    "welsh": "y yn i ar o a yr ei am gan wedi oedd ac nid yw neu mae fod hwn hon",
}
"""Of languages without a stemmer, so that none of them is taken for its neighbour."""

_SAMPLE = 1_000  # texts that are looked at
_WORDS_SEEN = 200_000  # of them, at most
_LEAST_SHARES = {"english": 0.12, "tamil": 0.03}
"""Of the words of texts: 0.21 of English titles to 0.36 of abstracts are on the short list of English."""
_LEAST_SHARE = 0.08
"""That the list of another language must have at least: of news and messages in 26 languages 0.12 to 0.42 of the words are on
theirs, of Tamil 0.07."""
_LEAST_SEEN = 5  # different words of the list
_APART = 0.4
"""Of the words that only one of two languages lists, at most so many times as many may be the other's: 0.1 of Danish and
Norwegian, 0.4 to 1 of texts in two languages."""
_LEAST_OWN = 3  # words that a near language does not list


@cache
def _small_words() -> dict[str, frozenset[str]]:
    """Of every language."""
    return {language: stop_words(language) for language in WORDS} | {
        name: listed(some) for name, some in _OTHERS.items()
    }


def recognised_language(texts: Iterable[str]) -> str:
    """Return the language of the first texts, by their function words; none where no language, or no single one, stands out.

    Letters alone and scripts are not asked: they do not tell Spanish from Catalan. Single letters of ASCII are no words here.
    """
    seen, total = Counter[str](), 0
    for text in islice(texts, _SAMPLE):
        words, unspaced = words_of(text)
        total += len(words) + unspaced // 2
        seen.update(word for word in words if len(word) > 1 or not word.isascii())
        if total >= _WORDS_SEEN:
            break
    own = {language: {word for word in words if word in seen} for language, words in _small_words().items()}
    counts = {language: sum(seen[word] for word in words) for language, words in own.items()}
    best = max(counts, key=counts.__getitem__)
    is_seen = len(own[best]) >= min(_LEAST_SEEN, 2 + total // 20)
    if best in _OTHERS or not is_seen or counts[best] < _LEAST_SHARES.get(best, _LEAST_SHARE) * total:
        return "none"
    for other in own.keys() - {best}:
        ours, theirs = (sum(seen[word] for word in words) for words in (own[best] - own[other], own[other] - own[best]))
        if theirs > _APART * ours or (ours < _LEAST_OWN and 2 * counts[other] > counts[best]):
            return "none"
    return best
