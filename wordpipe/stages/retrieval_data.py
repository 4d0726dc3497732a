"""The collection that a user names: a folder in the layout of BEIR."""

from pathlib import Path

from wordpipe.errors import InputError
from wordpipe.search.collection import Collection, CollectionFile, read_collection
from wordpipe.stages.inputs import refuse_artifacts
from wordpipe.stages.judged_files import find_file, read_whole
from wordpipe.stages.making import PathLike

__all__ = ["open_collection"]

_LAYOUT = "corpus.jsonl, queries.jsonl and qrels.tsv or qrels/test.tsv"


def open_collection(data: PathLike, split: str | None = None) -> Collection:
    """Read a folder with corpus.jsonl, queries.jsonl, and qrels/SPLIT.tsv or qrels.tsv; each may be packed.

    Args:
        data: the folder.
        split: which judgements, where the folder has a folder qrels; None: test, or qrels.tsv beside the other files.

    Raises:
        ArtifactError: an artifact is named.
        InputError: no such folder or file, or a file that cannot be read; names file and line.
    """
    folder = Path(data)
    refuse_artifacts([str(folder)])
    if not folder.is_dir():
        raise InputError("no such folder", where=folder, expected=f"a folder with {_LAYOUT}")
    named = [f"qrels/{split or 'test'}.tsv", *([] if split else ["qrels.tsv"])]
    return read_collection(
        _file(folder, ["corpus.jsonl"]), _file(folder, ["queries.jsonl"]), _file(folder, named)
    )  # fmt: skip


def _file(folder: Path, names: list[str]) -> CollectionFile:
    found = find_file(folder, names)
    if found is None:
        there = sorted(path.stem for path in folder.glob("qrels/*.tsv*"))
        hint = f"there are the splits {', '.join(there)}: --split" if there and "qrels/" in names[0] else None
        raise InputError(f"{' or '.join(names)} is missing", where=folder, expected=_LAYOUT, hint=hint)
    return CollectionFile(read_whole(found), str(found))
