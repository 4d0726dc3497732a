"""Defaults that follow the size of the text.

Few words need many passes and every word they have; many words need neither. Measured on the first N MB of a cleaned
English Wikipedia, blank lines parting documents, skip-gram, everything else as it is by default; one seed, at 0.3 MB
mostly three:

    wordpipe ingest first-N-MB.txt -o corpus --documents block --valid 0.01 && wordpipe tokenize corpus -o tokens
    wordpipe train word2vec tokens -o words --window W --epochs E --min-count M
    wordpipe evaluate words words --data EN-WS-353-ALL.txt --data EN-SIMLEX-999.txt --data questions-words.txt

WS, SL: Spearman × 100 on the pairs whose words are both known. AN: right analogies, %, among the 30,000 commonest words.
Like: Spearman between the cosines of up to 1,500 words of five or more occurrences and the cosines of the same words in
vectors of 100 MB, mean of two such tables (windows 5 and 10): a measure that small texts can be judged by.

      MB   words of the text    W   E  M    WS    SL    AN   like
     0.3              46,000    5  20  1  27.6   0.4     -   .237
                                5  40  1  40.4   3.2     -   .267     (WS ± 1.2)
                                5  50  1  40.9   4.2     -   .245
                               10  20  1  31.7   2.2     -   .285
                               10  50  1  32.8   7.5     -   .189
                                5  40  2  38.0   6.9     -   .262     (85 pairs of WS; 139 with M 1)
     1               156,000    5  20  1  36.1  13.1     -   .333
                                5  30  1  41.8  14.3     -   .330
                               10  10  1  34.3  11.9     -   .319
                               10  20  1  46.4  15.4     -   .327
     3               470,000   10   5  2  28.1  16.0     -   .369
                               10  10  2  48.5  21.4     -   .447
                               10  15  2  50.2  20.6     -   .427
                               10  20  2  49.3  21.5     -   .387
                                5  20  2  49.1  21.2     -   .444
                               10  15  3  53.5  23.3     -   .421     (259 pairs of WS; 288 with M 2)
    10           1,585,000     10   5  5  54.2  23.1   6.9   .608
                                5  10  5  53.5  24.2   7.6   .617
                               10  10  5  61.1  22.7  10.1   .582
                               10  20  5  62.9  20.5  11.4   .452
    30           4,760,000      5   5  5  57.1  27.0  17.3   .746
                               10   5  5  62.9  24.9  19.4   .748
   100          15,500,000      5   3  5  66.4  29.3  31.6      -
                               10   3  5  68.2  28.4  35.0      -

A wider window helps topical likeness (WS) and analogies, and costs a little of SimLex's strict likeness and 50 to 70 % more
time. Passes help until the vectors learn the text by heart, which "like" shows falling. Whether rarer words are kept changes
the vectors of the others little, but then they are near everything: with min_count 2, words of fewer than five occurrences
are half of the ten neighbours of the 1,000 common words after the first 50 (54 % at 3 MB, 42 % at 10 MB); with 3, a third
(35 % at 3 MB).

Searching small texts asks for more than likeness of single words does. A title (0.1 MB, 165 documents) or the first sentence
of a paragraph (1 MB and 3 MB) as the query, word vectors averaged by `embed`, and how often the right text comes first:

      MB    W   E  M   first        W   E  M   first        W   E  M   first
     0.1    5  40  2    31 %       10  20  1    28 %       10  50  1    61 %
            5  40  1    34 %       10  40  1    58 %       15  50  1    62 %
     1      5  20  2    13 %       10  20  1    16 %       10  40  1    21 %
     3     10  15  3    16 %       10  30  3    18 %       10  30  1    19 %

So a text of few words keeps what it has and is read often; larger texts need neither. Nothing larger than 100 MB was measured.
"""

__all__ = ["defaults_for"]

_TABLE = (  # words of the text below which the rest of the line holds, window, epochs, min_count
    (100_000, 10, 50, 1),
    (300_000, 10, 40, 1),
    (1_000_000, 10, 20, 2),
    (3_000_000, 10, 10, 5),
    (10_000_000, 10, 5, 5),
    (100_000_000, 10, 3, 5),
)
_LARGER = (5, 3, 5)  # half the window takes 40 % less time


def defaults_for(words: int) -> dict[str, int]:
    """window, epochs and min_count for a training text of so many words."""
    chosen = next((rest for below, *rest in _TABLE if words < below), list(_LARGER))
    return dict(zip(("window", "epochs", "min_count"), chosen, strict=True))
