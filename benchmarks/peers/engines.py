"""What each library has to do to train, to encode into Parquet, and to encode in memory: one small function each.

Every function prepares what it needs, then works under `clock`, which takes the time and the peak memory. Each runs in a
fresh process of the environment that has its library, so libraries are imported inside the functions.

A task is a dictionary: text (file), out (file to write), algorithm (bpe or wordpiece), vocab_size, specials, threads, and
tokenizer (tokenizer.json) for encoding.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from peers.text import chunks, letters_of_bytes, line_lists

Task = dict[str, Any]
Clock = AbstractContextManager[object]

MIN_FREQUENCY = 2
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
ENGINES: dict[tuple[str, str], Callable[[Task, Clock], None]] = {}


def engine(*names: str) -> Callable[[Callable[[Task, Clock], None]], Callable[[Task, Clock], None]]:
    """Register what `PEER WORK` does."""

    def register(function: Callable[[Task, Clock], None]) -> Callable[[Task, Clock], None]:
        for name in names:
            peer, work = name.split()
            ENGINES[peer, work] = function
        return function

    return register


def write_bpe(out: Path, merges: Iterable[tuple[bytes, bytes]]) -> None:
    """The merges of a trainer that has no tokenizer.json, for comparison."""
    out.write_text(json.dumps({"merges": [[left.hex(), right.hex()] for left, right in merges]}))


# wordpipe


def settings_of(task: Task) -> Any:
    """Wordpipe's settings for a task."""
    from wordpipe.tokens.settings import TokenizeSettings

    pretokenizer = {"bpe": "gpt2", "wordpiece": "bert"}[task["algorithm"]]
    return TokenizeSettings.make(
        {
            "algorithm": task["algorithm"],
            "vocab_size": task["vocab_size"],
            "min_frequency": MIN_FREQUENCY,
            "pretokenizer": pretokenizer,
        }
    )


def count_ours(task: Task, settings: Any) -> Any:
    """Distinct pre-tokens of the lines, counted as the stage counts them: tables of bounded size, runs on disk."""
    from functools import partial
    from itertools import count

    from peers.rows import line_arrays
    from wordpipe.tokens import (
        TABLE_BYTES,
        SpillingTable,
        cut_pretokens,
        empty_tokenizer,
        in_order,
        keep_most_frequent,
        scheme_of,
        sum_runs,
        training_bytes,
    )

    empty, runs, numbers = empty_tokenizer(settings), [], count()
    cut = cut_pretokens(empty, scheme_of(empty))

    def new_run() -> Any:
        runs.append(Path(f"{task['out']}.run{next(numbers)}"))
        return runs[-1].open("wb")

    def add(table: Any, lines: Any) -> None:
        spans = cut(lines)
        table.add(spans.data, spans.starts, spans.ends)

    budget = min(settings.memory_bytes // (4 * task["threads"]), TABLE_BYTES)
    tables = [SpillingTable(budget, new_run) for _ in range(task["threads"])]
    for _ in in_order(add, line_arrays(Path(task["text"])), tables):
        pass
    for table in tables[1:]:
        tables[0].take(table)
    tables[0].spill()
    kept = keep_most_frequent(
        sum_runs([partial(path.open, "rb") for path in runs]),
        lambda size, number: training_bytes(settings, size, number) <= settings.memory_bytes,
    )
    return kept.strings


@engine("wordpipe train")
def train_ours(task: Task, clock: Clock) -> None:
    """From the text file to tokenizer.json."""
    from wordpipe.runtime import return_freed_memory
    from wordpipe.tokens import train_tokenizer

    return_freed_memory()  # as the command line does
    settings = settings_of(task)
    with clock:
        train_tokenizer(count_ours(task, settings), settings).tokenizer.save(task["out"])


def our_encoder(task: Task) -> Any:
    """Wordpipe's encoder for the task's tokenizer."""
    from tokenizers import Tokenizer

    from wordpipe.runtime import return_freed_memory
    from wordpipe.tokens import Encoder

    return_freed_memory()  # as the command line does
    return Encoder(Tokenizer.from_file(task["tokenizer"]))


@engine("wordpipe encode")
def encode_ours(task: Task, clock: Clock) -> None:
    """From the text file to Parquet."""
    from peers.rows import line_arrays, write_ids

    encoder = our_encoder(task)
    with clock:
        write_ids(encoder.encode(line_arrays(Path(task["text"])), threads=task["threads"]), Path(task["out"]))


@engine("wordpipe raw")
def raw_ours(task: Task, clock: Clock) -> None:
    """Arrow strings to Arrow lists of ids."""
    from peers.rows import line_arrays

    encoder, arrays = our_encoder(task), list(line_arrays(Path(task["text"])))
    with clock:
        for _ in encoder.encode(iter(arrays), threads=task["threads"]):
            pass


# tokenizers 0.23, and 1.0 before its release, which encodes only


def hf_trainer(task: Task) -> tuple[Any, Any]:
    """An empty tokenizer and its trainer, as wordpipe's settings are by default."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    options = {
        "vocab_size": task["vocab_size"],
        "min_frequency": MIN_FREQUENCY,
        "special_tokens": task["specials"],
        "show_progress": False,
    }
    if task["algorithm"] == "bpe":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer, trainers.BpeTrainer(initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), **options)
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer, trainers.WordPieceTrainer(limit_alphabet=max(1, task["vocab_size"] // 3), **options)


@engine("hf train")
def train_hf(task: Task, clock: Clock) -> None:
    """`train_from_iterator`, given lists of lines."""
    tokenizer, trainer = hf_trainer(task)
    with clock:
        tokenizer.train_from_iterator(line_lists(Path(task["text"])), trainer)
        tokenizer.save(task["out"])


def hf_rows(tokenizer: Any, text: Path) -> Iterator[Any]:
    """The ids of all lines, from `encode_batch_fast`."""
    from peers.rows import from_lists

    for lines in line_lists(text):
        yield from_lists([found.ids for found in tokenizer.encode_batch_fast(lines, add_special_tokens=False)])


@engine("hf encode")
def encode_hf(task: Task, clock: Clock) -> None:
    """From the text file to Parquet."""
    from tokenizers import Tokenizer

    from peers.rows import write_ids

    tokenizer = Tokenizer.from_file(task["tokenizer"])
    with clock:
        write_ids(hf_rows(tokenizer, Path(task["text"])), Path(task["out"]))


@engine("hf stage")
def stage_hf(task: Task, clock: Clock) -> None:
    """Train, then encode, in one process: the tokens alone, without the words that wordpipe counts as well."""
    from peers.rows import write_ids

    tokenizer, trainer = hf_trainer(task)
    with clock:
        tokenizer.train_from_iterator(line_lists(Path(task["text"])), trainer)
        write_ids(hf_rows(tokenizer, Path(task["text"])), Path(task["out"]))


@engine("hf raw")
def raw_hf(task: Task, clock: Clock) -> None:
    """`encode_batch_fast` alone, its Encoding objects dropped batch by batch."""
    from tokenizers import Tokenizer

    tokenizer, batches = Tokenizer.from_file(task["tokenizer"]), list(line_lists(Path(task["text"])))
    with clock:
        for lines in batches:
            tokenizer.encode_batch_fast(lines, add_special_tokens=False)


@engine("rc3 encode")
def encode_rc3(task: Task, clock: Clock) -> None:
    """From the text file to Parquet."""
    from tokenizers import Tokenizer

    from peers.rows import from_lists, write_ids

    tokenizer = Tokenizer.from_file(task["tokenizer"])
    with clock:
        write_ids(
            (
                from_lists([found.ids for found in tokenizer.encode_batch(lines, add_special_tokens=False)])
                for lines in line_lists(Path(task["text"]))
            ),
            Path(task["out"]),
        )


@engine("rc3 raw")
def raw_rc3(task: Task, clock: Clock) -> None:
    """`encode_batch` alone: the ids stay inside its Encoding objects, which are dropped batch by batch."""
    from tokenizers import Tokenizer

    tokenizer, batches = Tokenizer.from_file(task["tokenizer"]), list(line_lists(Path(task["text"])))
    with clock:
        for lines in batches:
            tokenizer.encode_batch(lines, add_special_tokens=False)


@engine("rc3 ids")
def ids_rc3(task: Task, clock: Clock) -> None:
    """`encode_batch` and the ids of every line as a Python list, the only form in which it gives them."""
    from tokenizers import Tokenizer

    tokenizer, batches = Tokenizer.from_file(task["tokenizer"]), list(line_lists(Path(task["text"])))
    with clock:
        for lines in batches:
            for found in tokenizer.encode_batch(lines, add_special_tokens=False):
                _ = found.ids


@engine("datasets encode")
def encode_datasets(task: Task, clock: Clock) -> None:
    """As its guide has it: load_dataset, a batched map in one process (the tokenizer has threads), to_parquet."""
    import datasets
    from tokenizers import Tokenizer

    datasets.disable_progress_bars()
    tokenizer, scratch = Tokenizer.from_file(task["tokenizer"]), f"{task['out']}.cache"

    def encode(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        return {"ids": [found.ids for found in tokenizer.encode_batch_fast(batch["text"], add_special_tokens=False)]}

    features = datasets.Features({"ids": datasets.Sequence(datasets.Value("uint16"))})
    with clock:
        text = datasets.load_dataset("text", data_files=task["text"], split="train", cache_dir=scratch)
        rows = text.map(encode, batched=True, remove_columns=["text"], features=features)
        rows.to_parquet(task["out"])


# tiktoken encodes only; given the merges of a tokenizer.json as ranks


def tiktoken_of(task: Task) -> Any:
    """An encoding whose ranks are the ids of a byte-level tokenizer.json."""
    import tiktoken

    vocab = json.loads(Path(task["tokenizer"]).read_text())["model"]["vocab"]
    letters = letters_of_bytes()
    ranks = {
        bytes(letters[letter] for letter in token): number
        for token, number in vocab.items()
        if token not in task["specials"]
    }
    return tiktoken.Encoding("trained here", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={})


@engine("tiktoken encode")
def encode_tiktoken(task: Task, clock: Clock) -> None:
    """From the text file to Parquet."""
    from peers.rows import from_lists, write_ids

    encoding = tiktoken_of(task)
    with clock:
        write_ids(
            (
                from_lists(encoding.encode_ordinary_batch(lines, num_threads=task["threads"]))
                for lines in line_lists(Path(task["text"]))
            ),
            Path(task["out"]),
        )


@engine("tiktoken raw")
def raw_tiktoken(task: Task, clock: Clock) -> None:
    """`encode_ordinary_batch`, which gives Python lists."""
    encoding, batches = tiktoken_of(task), list(line_lists(Path(task["text"])))
    with clock:
        for lines in batches:
            encoding.encode_ordinary_batch(lines, num_threads=task["threads"])


# gigatoken


@engine("gigatoken train")
def train_gigatoken(task: Task, clock: Clock) -> None:
    """It has no min_frequency and no tokenizer.json to write."""
    import gigatoken

    with clock:
        source = gigatoken.TextFileSource([task["text"]], separator="\n")
        _, merges = gigatoken.train_bpe(source, task["vocab_size"], task["specials"])
        write_bpe(Path(task["out"]), merges)


@engine("gigatoken encode")
def encode_gigatoken(task: Task, clock: Clock) -> None:
    """From lists of bytes, as its own separator would drop empty lines."""
    import awkward
    import gigatoken

    from peers.rows import from_flat, write_ids

    tokenizer = gigatoken.Tokenizer(task["tokenizer"])

    def rows() -> Iterator[Any]:
        for chunk in chunks(Path(task["text"]), 4 << 20):
            layout = awkward.to_packed(tokenizer.encode_batch(chunk.split(b"\n"))).layout.to_ListOffsetArray64()
            yield from_flat(layout.offsets.data, layout.content.data)

    with clock:
        write_ids(rows(), Path(task["out"]))


@engine("gigatoken raw")
def raw_gigatoken(task: Task, clock: Clock) -> None:
    """Its fastest way: the whole file in one call, the file read by itself."""
    import gigatoken

    tokenizer = gigatoken.Tokenizer(task["tokenizer"])
    with clock:
        tokenizer.encode_files(gigatoken.TextFileSource([task["text"]], separator="\n"))


# rustbpe trains only: what it trains cannot be given other merges


@engine("rustbpe train")
def train_rustbpe(task: Task, clock: Clock) -> None:
    """It has no special tokens and no min_frequency; ties between pairs go another way than in tokenizers."""
    import rustbpe

    tokenizer = rustbpe.Tokenizer()
    with clock:
        lines = (line for batch in line_lists(Path(task["text"])) for line in batch)
        tokenizer.train_from_iterator(lines, vocab_size=task["vocab_size"] - len(task["specials"]), pattern=GPT2)
        tokens = [bytes(token) for token, _ in tokenizer.get_mergeable_ranks()]
        Path(task["out"]).write_text(json.dumps({"tokens": [token.hex() for token in tokens]}))
