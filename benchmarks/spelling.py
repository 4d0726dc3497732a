"""Misspelt words among many: ms a word, memory, and how many slips are mended, beside other programs.

    python benchmarks/spelling.py --text wiki.txt                         writes benchmarks/results/spelling.json
    python benchmarks/spelling.py --text wiki.txt --peers symspellpy rapidfuzz

The vocabulary has a million words: those of the text with their counts, and further ones, put together out of beginnings and
ends of these, each of count 1. The misspelt words come from words of the text of five letters or more, drawn by their
frequency; each has one slip at a random place (a letter too many, too few, another one, two in the wrong order), one in five
has two, and none is a word of the vocabulary. Every side gets the same words in turn, on one thread. `right` is how often the
first suggestion is the word that was meant, `among_3` one of the first three. It needs `pip install` of the named peers:

    symspellpy   its dictionary of deletions, two edits at most, suggestions of the least distance by their counts
    rapidfuzz    the distance to every word, by its C++ loops, two edits at most, the nearest and most frequent ones
"""

import argparse
import gc
import json
import random
import re
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from tokens import machine

from wordpipe.search import Speller, WordTable

RESULTS = Path(__file__).parent.absolute() / "results"
Suggest = Callable[[str], Sequence[str]]


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="a text in a language of ASCII letters")
    parser.add_argument("--words", type=int, default=1_000_000, help="words of the vocabulary")
    parser.add_argument("--slips", type=int, default=1_000, help="misspelt words")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=[])
    parser.add_argument("--out", type=Path, default=RESULTS / "spelling.json")
    args = parser.parse_args()
    counts = Counter(re.findall(r"[a-z]{2,}", args.text.read_text().lower()))
    words = grown(counts, args.words)
    asked = misspelt(counts, words, args.slips)
    found: dict[str, Any] = {"machine": machine(), "words": len(words), "slips": len(asked), "sides": {}}
    for name, make in {"wordpipe": ours, **{name: PEERS[name] for name in args.peers}}.items():
        found["sides"][name] = line = measured(make, words, asked)
        line["version"] = version(name)
        line["times_of_wordpipe"] = round(line["ms_a_word"] / found["sides"]["wordpipe"]["ms_a_word"], 3)
        print(f"{name}: {line}")
    args.out.write_text(json.dumps(found, indent=2) + "\n")
    return 0


def grown(counts: Counter[str], size: int, seed: int = 1) -> dict[str, int]:
    """Return words with their counts, grown to a size by words put together out of beginnings and ends of others."""
    found, chance = dict(counts.most_common(size)), random.Random(seed)
    able = [word for word in found if len(word) > 4]
    while len(found) < size and able:
        one, other = chance.choice(able), chance.choice(able)
        found.setdefault(one[: len(one) // 2 + 1] + other[len(other) // 2 :], 1)
    return found


def misspelt(counts: Counter[str], words: dict[str, int], number: int, seed: int = 2) -> list[tuple[str, str]]:
    """Return misspelt words, each with the word that was meant."""
    chance, found = random.Random(seed), list[tuple[str, str]]()
    able = [word for word, count in counts.items() if len(word) > 4 and count > 2]
    weights = [counts[word] for word in able]
    while len(found) < number:
        (meant,) = chance.choices(able, weights)
        wrong = meant
        for _ in range(2 if len(meant) > 6 and chance.random() < 0.2 else 1):
            wrong = slipped(wrong, chance)
        if wrong not in words:
            found.append((wrong, meant))
    return found


def slipped(word: str, chance: random.Random) -> str:
    """Return a word with one slip behind its first letter."""
    at, letter = chance.randrange(1, len(word)), chance.choice(ascii_lowercase)
    kinds = [word[:at] + letter + word[at:], word[:at] + word[at + 1 :], word[:at] + letter + word[at + 1 :]]
    if at + 1 < len(word):
        kinds.append(word[:at] + word[at + 1] + word[at] + word[at + 2 :])
    return chance.choice(kinds)


def measured(
    make: Callable[[dict[str, int]], Suggest], words: dict[str, int], asked: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """Return what a side takes, and how often it is right."""
    before = memory()
    begin = time.process_time()
    suggest = make(words)
    suggest("begining")
    made, begin = time.process_time() - begin, time.process_time()
    answers = [list(suggest(wrong)) for wrong, _ in asked]
    seconds = time.process_time() - begin
    first = sum(found[:1] == [meant] for found, (_, meant) in zip(answers, asked, strict=True))
    three = sum(meant in found[:3] for found, (_, meant) in zip(answers, asked, strict=True))
    return {
        "ms_a_word": round(1000 * seconds / len(asked), 3), "build_s": round(made, 2), "memory_mb": round(memory() - before),
        "right": round(first / len(asked), 3), "among_3": round(three / len(asked), 3),
    }  # fmt: skip


def memory() -> float:
    """Return the memory that this process holds now, in MB (Linux)."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def ours(words: dict[str, int]) -> Suggest:
    """Return the speller of an index with these words."""
    speller = Speller(
        WordTable.of((word.encode(), number, count) for number, (word, count) in enumerate(words.items()))
    )
    return speller.near


def symspellpy(words: dict[str, int]) -> Suggest:
    """Return SymSpell's look-up."""
    from symspellpy import SymSpell, Verbosity

    made = SymSpell(max_dictionary_edit_distance=2, prefix_length=7)
    for word, count in words.items():
        made.create_dictionary_entry(word, count)
    return lambda wrong: [one.term for one in made.lookup(wrong, Verbosity.CLOSEST, max_edit_distance=2)]


def rapidfuzz(words: dict[str, int]) -> Suggest:
    """Return a look through all words."""
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    names = list(words)

    def suggest(wrong: str) -> list[str]:
        near = process.extract(wrong, names, scorer=OSA.distance, score_cutoff=2, limit=None)
        return [word for word, _, _ in sorted(near, key=lambda one: (one[1], -words[one[0]]))]

    return suggest


PEERS = {"symspellpy": symspellpy, "rapidfuzz": rapidfuzz}

if __name__ == "__main__":
    raise SystemExit(main())
